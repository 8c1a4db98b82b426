package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"suanli.dev/internal/protocol"
)

// fakeHost is a machine with an agent, told as a story: it keeps generations,
// does one step of its work at a time, and knows how long it really ran what.
type fakeHost struct {
	id    string
	gpus  []protocol.GPU
	clock func() time.Time

	mu        sync.Mutex
	up        bool // it can be reached; what runs on it runs on without
	boot      int
	bootedAt  time.Time
	session   string
	seq       int64
	inventory bool
	instances map[string]*instance
	fences    map[string]int64
	past      []protocol.PastRun
	nextPast  int64
	ran       map[string]time.Duration // lease → time that it really ran
	commands  []protocol.Command
	blank     bool // it reports that it has nothing, as after a new disk

	// What goes wrong.
	loseAnswers int                            // that many commands are done, and their answers lost
	refuse      *protocol.CommandResult        // answer to every command
	fail        map[string]protocol.Phase      // what comes of starting a lease, by lease; "*": any
	slow        bool                           // pulls go on and on
	deaf        map[protocol.Want]int          // commands of a kind that are accepted and not done
	panics      bool                           // the line to the host is broken in the worst way
	ignore      func(c protocol.Command) bool  // lost on the way, with no answer
	mangle      func(*protocol.InstanceStatus) // what it reports of each lease
}

type instance struct {
	protocol.InstanceStatus
	want    protocol.Want
	running bool // the container
	since   time.Time
	spec    *protocol.InstanceSpec
	stuck   bool
}

var errHostSilent = errors.New("the host does not answer")

func (h *fakeHost) instant(at time.Time) *protocol.Instant {
	return &protocol.Instant{BootID: fmt.Sprint(h.id, h.boot), Nanos: int64(at.Sub(h.bootedAt))}
}

// command is what reaches the host from the control plane.
func (h *fakeHost) command(_ context.Context, c protocol.Command) (protocol.CommandResult, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.panics {
		panic("a broken host")
	}
	if !h.up || (h.ignore != nil && h.ignore(c)) {
		return protocol.CommandResult{}, errHostSilent
	}
	if h.refuse != nil {
		return *h.refuse, nil
	}
	res := h.take(c)
	if h.loseAnswers > 0 {
		h.loseAnswers--
		return protocol.CommandResult{}, context.DeadlineExceeded
	}
	return res, nil
}

func (h *fakeHost) take(c protocol.Command) protocol.CommandResult {
	i := h.instances[c.LeaseID]
	highest := h.fences[c.LeaseID]
	if i != nil {
		highest = max(highest, i.Generation)
	}
	if c.Generation < highest || (i == nil && highest == c.Generation && c.Want != protocol.WantAbsent) {
		return protocol.CommandResult{Code: "stale_generation", Generation: highest}
	}
	h.commands = append(h.commands, c)
	if i == nil {
		i = &instance{InstanceStatus: protocol.InstanceStatus{LeaseID: c.LeaseID, Phase: protocol.PhaseCreating}, want: c.Want}
		if c.Want != protocol.WantRunning {
			i.Phase, h.fences[c.LeaseID] = protocol.PhaseAbsent, c.Generation
		}
		h.instances[c.LeaseID] = i
	}
	if c.Generation > i.Generation {
		i.Generation, i.want, i.stuck = c.Generation, c.Want, false
		if c.Want == protocol.WantRunning {
			h.halt(i, "superseded")
			i.Phase, i.Started, i.Stopped, i.Code = protocol.PhaseCreating, nil, nil, ""
			i.spec = c.Spec
		}
	} else if rank(c.Want) > rank(i.want) {
		i.want = c.Want
	}
	if h.deaf[c.Want] > 0 {
		h.deaf[c.Want]--
		i.stuck = true
	} else {
		i.stuck = false
	}
	return protocol.CommandResult{Accepted: true, Generation: i.Generation}
}

func rank(w protocol.Want) int {
	return slices.Index([]protocol.Want{protocol.WantRunning, protocol.WantStopped, protocol.WantAbsent}, w)
}

// halt ends a container.
func (h *fakeHost) halt(i *instance, code string) {
	if !i.running {
		return
	}
	now := h.clock()
	i.running = false
	h.ran[i.LeaseID] += now.Sub(i.since)
	i.Stopped = h.instant(now)
	h.nextPast++
	h.past = append(h.past, protocol.PastRun{ID: h.nextPast, LeaseID: i.LeaseID, Generation: i.Generation, Started: *i.Started, Stopped: i.Stopped, Code: code})
}

// work does what is due on the host.
func (h *fakeHost) work() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, i := range h.instances {
		if i.stuck || i.Phase == protocol.PhaseAbsent {
			continue
		}
		final := i.Phase == protocol.PhaseStopped || i.Phase == protocol.PhaseFailed
		switch i.want {
		case protocol.WantAbsent:
			h.halt(i, "commanded")
			i.Phase, h.fences[i.LeaseID] = protocol.PhaseAbsent, i.Generation
		case protocol.WantStopped:
			h.halt(i, "commanded")
			i.Phase = protocol.PhaseStopped
			if i.Code == "" {
				i.Code = "commanded"
			}
		case protocol.WantRunning:
			if final || i.running {
				continue
			}
			if h.slow {
				i.Phase = protocol.PhasePulling
				i.Progress.Bytes++
				continue
			}
			outcome, ok := h.fail[i.LeaseID]
			if !ok {
				outcome = h.fail["*"]
			}
			if outcome == protocol.PhaseFailed {
				i.Phase, i.Code, i.Reason = protocol.PhaseFailed, "image_not_found", "the image is not there"
				continue
			}
			i.running, i.since, i.Phase = true, h.clock(), protocol.PhaseRunning
			i.Started = h.instant(i.since)
			if outcome == protocol.PhaseStopped {
				h.exit(i, 3)
			}
		}
	}
}

func (h *fakeHost) exit(i *instance, code int) {
	h.halt(i, "exited")
	i.Phase, i.Code, i.ExitCode = protocol.PhaseStopped, "exited", &code
}

// finish lets a lease's command end by itself.
func (h *fakeHost) finish(leaseID string, code int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := h.instances[leaseID]; i != nil && i.running {
		h.exit(i, code)
	}
}

// crash is the power cut: nothing runs, the disk and the agent's files are
// there, and the agent starts anew with another boot.
func (h *fakeHost) crash() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, i := range h.instances {
		if i.running {
			h.halt(i, "engine")
			i.Phase, i.Code, i.Reason = protocol.PhaseStopped, "engine", "the host went down"
		}
	}
	h.boot++
	h.bootedAt = h.clock()
	h.restart()
}

// restart is a new start of the agent alone.
func (h *fakeHost) restart() {
	h.session, h.seq, h.inventory = fmt.Sprint(h.session, "+"), 0, false
}

func (h *fakeHost) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

// report is the host's present view.
func (h *fakeHost) report() protocol.Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock()
	h.seq++
	r := protocol.Report{Session: h.session, Seq: h.seq, Now: *h.instant(now), Instances: []protocol.InstanceStatus{}, Ready: true, Past: slices.Clone(h.past)}
	if !h.inventory {
		h.inventory = true
		r.Inventory = &protocol.Inventory{
			Hostname: "host", Architecture: "amd64", CPUModel: "EPYC", CPUs: 32, MemoryMiB: 131072, DiskMiB: 1 << 20, Runtime: "docker 20.10.24",
			Isolation: []string{"runc"}, DiskQuota: "loop", GPUs: h.gpus,
			SelfTest:    protocol.SelfTest{RanAt: *h.instant(now), Passed: true},
			DirectPorts: &protocol.PortRange{Address: "198.51.100.7", First: 40000, Last: 40009},
		}
	}
	if h.blank {
		return r
	}
	for _, i := range h.instances {
		st := i.InstanceStatus
		if h.mangle != nil {
			h.mangle(&st)
		}
		r.Instances = append(r.Instances, st)
	}
	return r
}

// answered is what the host does with the answer to its report.
func (h *fakeHost) answered(r protocol.Report, reply protocol.ReportReply) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if reply.AckedPast > 0 {
		h.past = slices.DeleteFunc(h.past, func(p protocol.PastRun) bool { return p.ID <= reply.AckedPast })
	}
	if !reply.Complete {
		return
	}
	listed := map[string]bool{}
	for _, d := range reply.Desired {
		listed[d.LeaseID] = true
	}
	for _, st := range r.Instances {
		i := h.instances[st.LeaseID]
		if listed[st.LeaseID] || i == nil {
			continue
		}
		if i.Phase == protocol.PhaseAbsent {
			delete(h.instances, st.LeaseID)
			continue
		}
		i.want = protocol.WantAbsent
	}
}

// containers is what runs on the host.
func (h *fakeHost) containers() (running []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, i := range h.instances {
		if i.running {
			running = append(running, id)
		}
	}
	return running
}

// left is what the host has anything of.
func (h *fakeHost) left() (ids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, i := range h.instances {
		if i.Phase != protocol.PhaseAbsent {
			ids = append(ids, id)
		}
	}
	return ids
}

// runtime is how long a lease really ran here.
func (h *fakeHost) runtime(leaseID string) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.ran[leaseID]
	if i := h.instances[leaseID]; i != nil && i.running {
		d += h.clock().Sub(i.since)
	}
	return d
}

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/lease"
	"suanli.dev/internal/protocol"
)

// fakeRanks are the processes of a job on one node.
type fakeRanks struct {
	lease  string
	job    protocol.RankJob
	status protocol.RankStatus
	begun  int // times
	told   *protocol.PeerFailure
	toldAt time.Time
}

// Ranks implements Inside.
func (w *world) Ranks(_ context.Context, leaseID string, args []string, in []byte, out io.Writer) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var host *fakeHost
	for _, h := range w.hosts {
		h.mu.Lock()
		if i := h.instances[leaseID]; i != nil && i.Phase == protocol.PhaseRunning && h.up {
			host = h
		}
		h.mu.Unlock()
	}
	if host == nil {
		return errors.New("the instance does not run")
	}
	if w.ranks == nil {
		w.ranks = map[string]*fakeRanks{}
	}
	if args[0] == "start" {
		var job protocol.RankJob
		if err := json.Unmarshal(in, &job); err != nil {
			return err
		}
		r := w.ranks[leaseID+job.ID]
		if r == nil {
			r = &fakeRanks{lease: leaseID, job: job, begun: 1, status: protocol.RankStatus{State: protocol.RanksRunning}}
			for i := range job.PerNode {
				r.status.Ranks = append(r.status.Ranks, protocol.Rank{Rank: job.NodeRank*job.PerNode + i})
			}
			w.ranks[leaseID+job.ID] = r
		}
		return json.NewEncoder(out).Encode(r.status)
	}
	r := w.ranks[leaseID+args[1]]
	if r == nil {
		return json.NewEncoder(out).Encode(protocol.RankStatus{State: protocol.RanksAbsent})
	}
	if args[0] == "attend" {
		for _, e := range []protocol.RankEvent{{Rank: r.job.NodeRank, Line: fmt.Sprint("attempt ", r.job.Attempt)}, {Done: true}} {
			if err := json.NewEncoder(out).Encode(e); err != nil {
				return err
			}
		}
		return nil
	}
	if args[0] == "stop" && r.status.State == protocol.RanksRunning {
		r.told = &protocol.PeerFailure{}
		r.toldAt = w.now
		if err := json.Unmarshal(in, r.told); err != nil {
			return err
		}
		r.exit(143)
	}
	return json.NewEncoder(out).Encode(r.status)
}

// exit ends the processes of a node. The caller holds the world's mutex.
func (r *fakeRanks) exit(code int) {
	r.status.State = protocol.RanksDone
	for i := range r.status.Ranks {
		c := code
		r.status.Ranks[i].ExitCode, r.status.Ranks[i].First = &c, i == 0 && code != 0 && code != 143
	}
}

// on are the processes of one attempt of a run, by node.
func (w *world) on(r *Run, attempt int) []*fakeRanks {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*fakeRanks
	for _, x := range w.ranks {
		if strings.HasPrefix(x.job.ID, r.ID) && x.job.Attempt == attempt {
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(a, b *fakeRanks) int { return a.job.NodeRank - b.job.NodeRank })
	return out
}

func (w *world) exits(x *fakeRanks, code int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x.exit(code)
}

func (w *world) launch(k *Cluster, l Launch) *Run {
	w.t.Helper()
	if l.Command == nil {
		l.Command = []string{"python", "train.py"}
	}
	r, err := w.Launch(w.t.Context(), w.ada, k.ID, l)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) run(id string) *Run {
	w.t.Helper()
	r, err := w.GetRun(w.t.Context(), w.ada, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) runs(r *Run, s RunState, most time.Duration) *Run {
	w.t.Helper()
	w.until("the run is "+string(s), most, func() bool { return w.run(r.ID).State == s })
	return w.run(r.ID)
}

func TestARunThatEndsOnItsNodesAtDifferentTimesIsOneRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(3, 2)
	k := w.create(3, 2)
	r := w.launch(k, Launch{}) // before the cluster is there
	w.runs(r, RunRunning, 2*time.Minute)
	_, err := w.Launch(t.Context(), w.ada, k.ID, Launch{Command: []string{"true"}})
	wantCode(t, err, "cluster_busy")
	nodes := w.on(r, 0)
	if len(nodes) != 3 || nodes[2].job.PerNode != 2 || nodes[2].job.MasterName != "node-0" {
		t.Fatalf("it runs as %+v", nodes)
	}
	for _, x := range nodes {
		w.exits(x, 0)
		w.restart()
		for range 3 {
			w.pass()
		}
	}
	r = w.runs(r, RunSucceeded, time.Minute)
	for range 10 {
		w.pass()
	}
	if len(w.on(r, 0)) != 3 || len(w.on(r, 1)) != 0 || r.ExitCode() != 0 || len(r.Ranks) != 6 {
		t.Errorf("it ran on %d nodes, and again on %d; %+v", len(w.on(r, 0)), len(w.on(r, 1)), r)
	}
	if d := w.cluster(k.ID); d.State != Running || len(d.Leases) != 3 {
		t.Errorf("the cluster is %s with %d leases", d.State, len(d.Leases))
	}
}

func TestPeersAreToldOfARankThatFailsWithinTenSecondsAndTheClusterEndsIfWanted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(3, 1)
	k := w.create(3, 1)
	r := w.launch(k, Launch{EndCluster: true})
	w.runs(r, RunRunning, 2*time.Minute)
	w.exits(w.on(r, 0)[2], 1)
	failed := w.clock()
	r = w.runs(r, RunFailed, time.Minute)
	for i, x := range w.on(r, 0)[:2] {
		if x.told == nil || x.toldAt.Sub(failed) > 10*time.Second || x.told.Rank != 2 || x.told.ExitCode != 1 {
			t.Errorf("node %d was told %+v, %s later", i, x.told, x.toldAt.Sub(failed))
		}
	}
	if r.Code != "rank_failed" || r.ExitCode() != 1 || r.Ranks[0].Rank != 2 {
		t.Errorf("the run is %+v", r)
	}
	d := w.reach(k.ID, Ended, 2*time.Minute)
	cost := w.due(d)
	for range 12 {
		w.pass()
	}
	if w.due(d) != cost {
		t.Error("idle peers are charged for")
	}
}

func TestARunBeginsAgainAsOftenAsItMayAndThenFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(2, 1)
	k := w.create(2, 1)
	r := w.launch(k, Launch{Policy: PolicyRestart, MaxRestarts: 1})
	w.runs(r, RunRunning, 2*time.Minute)
	w.exits(w.on(r, 0)[0], 9)
	w.until("it runs again", time.Minute, func() bool { return w.run(r.ID).State == RunRunning && w.run(r.ID).Attempt == 1 })
	if len(w.on(r, 1)) != 2 {
		t.Errorf("it begins again on %d nodes", len(w.on(r, 1)))
	}
	w.exits(w.on(r, 1)[1], 4)
	if r = w.runs(r, RunFailed, time.Minute); r.ExitCode() != 4 || r.Attempt != 1 {
		t.Errorf("the run is %+v", r)
	}
	if d := w.cluster(k.ID); d.State != Running {
		t.Errorf("the cluster is %s, and was to be kept", d.State)
	}
}

func TestARunGoesOnWithTheNodeThatTakesALostOnesPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(3, 1)
	k := w.create(2, 1, func(c *Create) { c.Policy = PolicyReplace })
	d := w.reach(k.ID, Running, time.Minute)
	r := w.launch(k, Launch{MaxRestarts: 3})
	w.runs(r, RunRunning, time.Minute)
	h := w.host(d.Members[1].HostID)
	h.mu.Lock()
	h.up = false
	h.mu.Unlock()
	w.until("it runs again", 5*time.Minute, func() bool { return w.run(r.ID).State == RunRunning && w.run(r.ID).Attempt == 1 })
	again := w.cluster(k.ID)
	if again.Members[0].LeaseID != d.Members[0].LeaseID || again.Members[1].LeaseID == d.Members[1].LeaseID || again.Leases[d.Members[0].LeaseID].State != lease.Running {
		t.Errorf("the nodes are %+v, were %+v", again.Members, d.Members)
	}
	if w.on(r, 0)[0].told == nil {
		t.Error("the node that was not lost was not told")
	}
	for _, x := range w.on(r, 1) {
		w.exits(x, 0)
	}
	w.runs(r, RunSucceeded, time.Minute)
}

func TestARunThatItsRenterStopsDoesNotBeginAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(2, 1)
	k := w.create(2, 1)
	r := w.launch(k, Launch{Policy: PolicyRestart, MaxRestarts: 9})
	w.runs(r, RunRunning, 2*time.Minute)
	for range 2 {
		if _, err := w.StopRun(t.Context(), w.ada, r.ID); err != nil {
			t.Fatal(err)
		}
	}
	if r = w.runs(r, RunStopped, time.Minute); r.Attempt != 0 {
		t.Errorf("the run is %+v", r)
	}
	_, err := w.GetRun(t.Context(), w.tenant("eve"), r.ID)
	wantCode(t, err, "run_not_found")
}

func TestLinesOfAllRanksAreOneStream(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := &prefixed{out: &out, mu: &sync.Mutex{}}
	for _, part := range []string{`{"rank":3,"line":"a`, "\"}\n{\"rank\":1,\"exit_code\":0}\n{\"rank\":2,\"exit_code\":7}\n", "{\"done\":true}\n"} {
		if _, err := p.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if out.String() != "[3] a\n[2] (exit code 7)\n" {
		t.Errorf("the stream is %q", out.String())
	}
}

func TestWhoFollowsARunReadsEachAttemptOfItThoughTheyAreOverSooner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(2, 1)
	k := w.create(2, 1)
	r := w.launch(k, Launch{Policy: PolicyRestart, MaxRestarts: 1, EndCluster: true})
	w.runs(r, RunRunning, 2*time.Minute)
	w.followed(r.ID, +1)
	w.exits(w.on(r, 0)[1], 9)
	w.until("it runs again", time.Minute, func() bool { return len(w.on(r, 1)) == 2 })
	for _, x := range w.on(r, 1) {
		w.exits(x, 0)
	}
	r = w.runs(r, RunSucceeded, time.Minute)
	for w.clock().Before(r.EndedAt.Add(endAfter + attendPatience/2)) {
		w.pass()
	}
	if d := w.cluster(k.ID); d.State != Running {
		t.Errorf("the cluster is %s while somebody reads what it printed", d.State)
	}
	for _, follow := range []bool{true, false} {
		var out strings.Builder
		if err := w.Attend(t.Context(), w.ada, r.ID, follow, &out); err != nil {
			t.Fatal(err)
		}
		lines := slices.Sorted(strings.Lines(out.String()))
		if want := []string{"[0] attempt 0\n", "[0] attempt 1\n", "[1] attempt 0\n", "[1] attempt 1\n"}; !slices.Equal(lines, want) {
			t.Errorf("follow %v: it is said to have printed %q, want %q", follow, lines, want)
		}
	}
	w.followed(r.ID, -1)
	w.reach(k.ID, Ended, 2*time.Minute)
}

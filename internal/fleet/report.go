package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

// live is what is known of a host from moment to moment; it is not stored.
type live struct {
	session      string
	seq          int64
	inventoried  bool          // in this session
	seen         time.Duration // Elapsed at the last report
	lastSeen     time.Time
	online       bool
	awaited      bool // seen before this process started, and not yet since
	told         bool // OnSilent was told
	ready        bool
	problem      string // in the agent's words
	statsProblem string
	stats        map[string]protocol.GPUStats
	skew         time.Duration
	closed       bool          // in maintenance, or the listing has ended
	duplicates   int           // reports refused for another session
	since        time.Duration // Elapsed when onlineFor and offlineFor were last brought up to date
	onlineFor    time.Duration // in this process
	offlineFor   time.Duration

	owner  string // the replica that the host is connected to; empty: not known
	orphan bool   // its replica is gone, and this one waits for it instead
	stored presence
}

// Report takes a host's report. receivedAt is when it arrived, by the clock of
// the server. A refusal is an answer with Accepted false and not an error; an
// error means that the report may not have been kept, and the agent sends again.
func (s *Service) Report(ctx context.Context, hostID string, r protocol.Report, receivedAt time.Time) (protocol.ReportReply, error) {
	h := s.host(hostID)
	if h == nil && s.cfg.Replicas != nil {
		s.Hear(ctx, hostID)
		h = s.host(hostID)
	}
	if h == nil {
		removed, err := s.Removed(ctx, hostID)
		if err != nil {
			return protocol.ReportReply{}, fmt.Errorf("report of host %s: %w", hostID, err)
		}
		if removed {
			return protocol.ReportReply{Code: protocol.CodeHostRemoved, Message: removedMessage, NextInSeconds: 60}, nil
		}
		return protocol.ReportReply{Code: "unknown_host", Message: "this cloud does not know the host; join again with a new token", NextInSeconds: 60}, nil
	}
	h.reporting.Lock()
	defer h.reporting.Unlock()
	if refusal := s.hear(h, r, receivedAt); refusal != nil {
		return *refusal, nil
	}
	if err := s.own(ctx, h); err != nil {
		return protocol.ReportReply{}, fmt.Errorf("report of host %s: %w", hostID, err)
	}
	if err := s.keep(ctx, h, r, receivedAt); err != nil {
		return protocol.ReportReply{}, fmt.Errorf("report of host %s: %w", hostID, err)
	}
	reply := protocol.ReportReply{Accepted: true, NextInSeconds: s.cfg.HeartbeatSeconds}
	s.mu.RLock()
	reply.SendInventory = !h.live.inventoried
	s.mu.RUnlock()
	if s.cfg.OnReport != nil {
		var err error
		reply.Desired, reply.Complete, reply.AckedPast, err = s.cfg.OnReport(ctx, hostID, r, receivedAt)
		if err != nil {
			return protocol.ReportReply{}, fmt.Errorf("report of host %s: %w", hostID, err)
		}
	}
	return reply, nil
}

// hear notes the sign of life, or refuses the report.
func (s *Service) hear(h *host, r protocol.Report, receivedAt time.Time) *protocol.ReportReply {
	now := s.elapsed()
	s.mu.Lock()
	l, id := &h.live, h.record.ID
	if l.session != "" && r.Session != l.session {
		// Two machines with one key: the one that was there first goes on. An agent
		// that was restarted gets through when its former self has been silent for
		// two beats, before the host counts as offline.
		if l.online && now-l.seen < 2*s.beat {
			l.duplicates++
			s.mu.Unlock()
			s.log.Warn("a second agent uses a host's key", "host_id", id)
			return &protocol.ReportReply{
				Code: "duplicate_session", NextInSeconds: max(1, s.cfg.HeartbeatSeconds/3),
				Message: "another agent with this host's key is connected; if it is not this machine's own former run, stop one of the two and let it join anew",
			}
		}
		l.duplicates = 0
	}
	if r.Session == l.session && r.Seq <= l.seq {
		s.mu.Unlock()
		return &protocol.ReportReply{Code: "stale_report", Message: "a later report has arrived before this one", NextInSeconds: s.cfg.HeartbeatSeconds}
	}
	if r.Session != l.session {
		l.session, l.inventoried = r.Session, false
	}
	s.accrue(h, now)
	changed := !l.online || l.ready != r.Ready
	l.seq, l.seen, l.lastSeen = r.Seq, now, receivedAt
	l.online, l.awaited, l.told = true, false, false
	l.ready, l.problem = r.Ready, cut(r.Problem)
	if r.WallNanos != 0 {
		l.skew = time.Unix(0, r.WallNanos).Sub(receivedAt)
	}
	problem := ""
	if inv := h.record.Inventory; inv != nil && r.GPUStats != nil {
		for _, g := range inv.GPUs {
			if st, ok := r.GPUStats[g.UUID]; ok && problem == "" {
				problem = overused(g.Index, g.VRAMMiB, st)
			}
		}
		l.stats = r.GPUStats
	}
	changed = changed || problem != l.statsProblem
	l.statsProblem = problem
	s.mu.Unlock()
	if changed {
		s.publish(id)
	}
	return nil
}

func cut(text string) string { return text[:min(len(text), 1024)] }

// keep stores what changed of a host's inventory and health. Most reports
// change nothing and cost no write.
func (s *Service) keep(ctx context.Context, h *host, r protocol.Report, receivedAt time.Time) error {
	s.mu.RLock()
	old := h.record
	s.mu.RUnlock()
	next := *old
	next.GPUs = slices.Clone(old.GPUs)
	health := maps.Clone(r.Health)
	if health == nil {
		health = map[string]protocol.Health{}
	}
	if r.Inventory != nil {
		s.takeInventory(&next, *r.Inventory, r.Now, receivedAt)
		for _, g := range r.Inventory.GPUs {
			if _, ok := health[g.UUID]; !ok {
				health[g.UUID] = g.Health
			}
			if g.MIGEnabled {
				health[g.UUID] = protocol.Health{State: protocol.Fenced, Reason: "MIG is on, so that it cannot be rented whole"}
			}
		}
	}
	passed := next.Inventory != nil && next.Inventory.SelfTest.Passed
	for i, g := range next.GPUs {
		if g.Present {
			next.GPUs[i] = judge(g, health[g.UUID], next.Tested, passed, receivedAt)
			next.GPUs[i].Reason = cut(next.GPUs[i].Reason)
		}
	}
	if !equal(old, &next) {
		if err := s.store(ctx, old, &next); err != nil {
			return err
		}
		if err := s.reload(ctx, old.ID); err != nil {
			return err
		}
		s.tellFaults(ctx, old, &next)
	}
	if r.Inventory != nil {
		s.mu.Lock()
		h.live.inventoried = true
		s.mu.Unlock()
	}
	return nil
}

// takeInventory puts a reported inventory into r.
func (s *Service) takeInventory(r *record, inv protocol.Inventory, now protocol.Instant, receivedAt time.Time) {
	inv.GPUs = slices.Clone(inv.GPUs)
	r.InventoryProblem = contradiction(&inv)
	if r.InventoryProblem == "" && !r.Simulated && (inv.Simulated || slices.ContainsFunc(inv.GPUs, func(g protocol.GPU) bool { return g.Simulated })) {
		r.InventoryProblem = "it joined as real hardware and reports simulated GPUs"
	}
	if r.InventoryProblem != "" {
		// The GPUs that are known stay as they are; a lease may be on them.
		clamp(&inv)
		for i := range inv.GPUs {
			inv.GPUs[i].Stats = protocol.GPUStats{}
		}
		r.Inventory = &inv
		return
	}
	for i := range inv.GPUs {
		// These change all the time, and are kept elsewhere.
		inv.GPUs[i].Stats = protocol.GPUStats{}
		inv.GPUs[i].Health = protocol.Health{}
		if inv.GPUs[i].MaxCUDA == "" && inv.GPUs[i].Vendor == protocol.NVIDIA {
			inv.GPUs[i].MaxCUDA = s.cfg.Catalog.MaxCUDA(inv.GPUs[i].Driver)
		}
	}
	r.Inventory = &inv
	for i := range r.GPUs {
		r.GPUs[i].Present = false
	}
	for _, g := range inv.GPUs {
		model, _ := s.cfg.Catalog.Lookup(modelName(g), g.VRAMMiB)
		i := slices.IndexFunc(r.GPUs, func(o gpu) bool { return o.UUID == g.UUID })
		if i < 0 {
			r.GPUs = append(r.GPUs, gpu{UUID: g.UUID, Health: protocol.Healthy})
			i = len(r.GPUs) - 1
		}
		r.GPUs[i].Position, r.GPUs[i].Model, r.GPUs[i].Present = g.Index, model.Name, true
	}
	if test := inv.SelfTest; test.RanAt != r.Tested.RanAt {
		r.Tested = tested{RanAt: test.RanAt, Engine: engine(&inv)}
		// A test of another boot says when in no clock of ours; it is old.
		if test.RanAt.BootID == now.BootID && test.RanAt.Nanos <= now.Nanos {
			r.Tested.At = store.Micros(receivedAt.Add(-time.Duration(now.Nanos - test.RanAt.Nanos)))
		}
		if test.Passed {
			for _, g := range inv.GPUs {
				r.Tested.GPUs = append(r.Tested.GPUs, g.UUID)
			}
		}
	}
}

// equal reports whether two records are the same in what a report can change.
func equal(a, b *record) bool {
	if a.InventoryProblem != b.InventoryProblem || !slices.EqualFunc(a.GPUs, b.GPUs, func(x, y gpu) bool {
		return x.UUID == y.UUID && x.Position == y.Position && x.Model == y.Model && x.Present == y.Present &&
			x.Health == y.Health && x.Reason == y.Reason && slices.Equal(x.ClearedXids, y.ClearedXids)
	}) {
		return false
	}
	if a.Inventory == b.Inventory {
		return true
	}
	x, err1 := json.Marshal(a.Inventory)
	y, err2 := json.Marshal(b.Inventory)
	return err1 == nil && err2 == nil && string(x) == string(y)
}

// errForeign is a GPU that another host has.
var errForeign = errors.New("foreign GPU")

func (s *Service) store(ctx context.Context, old, next *record) error {
	inventory, err := json.Marshal(next.Inventory)
	if err != nil {
		return err
	}
	test, err := json.Marshal(next.Tested)
	if err != nil {
		return err
	}
	write := func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE fleet_hosts SET inventory = ?, inventory_problem = ?, tested = ? WHERE id = ?`,
			string(inventory), next.InventoryProblem, string(test), next.ID)
		if err != nil {
			return err
		}
		for i, g := range next.GPUs {
			if i < len(old.GPUs) && same(old.GPUs[i], g) {
				continue
			}
			if err := storeGPU(ctx, tx, next.ID, g); err != nil {
				return err
			}
		}
		return nil
	}
	err = s.cfg.DB.Update(ctx, write)
	if errors.Is(err, errForeign) {
		// Only this host is in doubt; what the other one has goes on.
		s.log.WarnContext(ctx, "a host reports a GPU of another host", "host_id", next.ID, "error", err)
		next.InventoryProblem = err.Error()
		next.GPUs = old.GPUs
		if old.InventoryProblem == next.InventoryProblem {
			return nil
		}
		return s.cfg.DB.Update(ctx, write)
	}
	return err
}

func same(a, b gpu) bool {
	return a.UUID == b.UUID && a.Position == b.Position && a.Model == b.Model && a.Present == b.Present && a.Health == b.Health &&
		a.Reason == b.Reason && a.FencedAt.Equal(b.FencedAt) && slices.Equal(a.ClearedXids, b.ClearedXids)
}

func storeGPU(ctx context.Context, tx *store.Tx, hostID string, g gpu) error {
	cleared := ""
	if len(g.ClearedXids) > 0 {
		b, err := json.Marshal(g.ClearedXids)
		if err != nil {
			return err
		}
		cleared = string(b)
	}
	present := int64(0)
	if g.Present {
		present = 1
	}
	// A device that was moved from one host to another may change hands when the
	// former one does not see it any more and no lease has it.
	n, err := tx.Exec(ctx, `INSERT INTO fleet_gpus (uuid, host_id, position, model, present, health, reason, fenced_at, cleared_xids)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (uuid) DO UPDATE SET host_id = excluded.host_id, position = excluded.position, model = excluded.model, present = excluded.present,
			health = excluded.health, reason = excluded.reason, fenced_at = excluded.fenced_at, cleared_xids = excluded.cleared_xids
		WHERE fleet_gpus.host_id = excluded.host_id
			OR (fleet_gpus.present = 0 AND NOT EXISTS (SELECT 1 FROM fleet_allocations a WHERE a.gpu_uuid = excluded.uuid))`,
		g.UUID, hostID, g.Position, g.Model, present, string(g.Health), g.Reason, store.Micros(g.FencedAt), cleared)
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("%w: %s is in use by another host", errForeign, g.UUID)
	}
	return nil
}

// tellFaults tells of GPUs in leases that were lost or fenced by this report.
func (s *Service) tellFaults(ctx context.Context, old, next *record) {
	if s.cfg.OnGPUFault == nil {
		return
	}
	for _, g := range next.GPUs {
		i := slices.IndexFunc(old.GPUs, func(o gpu) bool { return o.UUID == g.UUID })
		if i < 0 || g.LeaseID == "" {
			continue
		}
		was := old.GPUs[i]
		switch {
		case was.Present && !g.Present:
			s.cfg.OnGPUFault(ctx, GPUFault{HostID: next.ID, UUID: g.UUID, LeaseID: g.LeaseID, Reason: "the host does not see the GPU any more"})
		case was.Health != protocol.Fenced && g.Health == protocol.Fenced:
			s.cfg.OnGPUFault(ctx, GPUFault{HostID: next.ID, UUID: g.UUID, LeaseID: g.LeaseID, Reason: g.Reason})
		}
	}
}

// modelName is what the catalog is asked for. An agent marks the name of a
// simulated GPU, so that nobody inside an instance takes it for hardware; on the
// market the model is the one simulated, and Simulated says the rest.
func modelName(g protocol.GPU) string {
	if !g.Simulated {
		return g.Name
	}
	return strings.TrimSuffix(strings.TrimPrefix(g.Name, "SIMULATED "), " (no hardware)")
}

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

// RunState is where a run is in its life.
type RunState string

// The states of a run.
const (
	RunWaiting   RunState = "waiting"   // for its cluster, or for its processes to begin
	RunRunning   RunState = "running"   // on all nodes
	RunHalting   RunState = "halting"   // it failed or was stopped: what runs of it is told and ended
	RunSucceeded RunState = "succeeded" // every rank ended with 0
	RunFailed    RunState = "failed"
	RunStopped   RunState = "stopped" // by the renter
)

// runs is the state machine of runs.
var runs = map[RunState][]RunState{
	RunWaiting: {RunRunning, RunHalting, RunFailed, RunStopped},
	RunRunning: {RunHalting, RunSucceeded},
	// Its policy decides whether it begins again.
	RunHalting:   {RunWaiting, RunFailed, RunStopped},
	RunSucceeded: {}, RunFailed: {}, RunStopped: {},
}

// Over reports whether nothing can happen to a run in s any more.
func (s RunState) Over() bool { return len(runs[s]) == 0 }

// Bounds of what can be run.
const (
	maxPerNode  = 64
	maxRestarts = 100
	// haltPatience is how long processes may take to end after they were told: they are
	// killed after a few seconds, so who still has them then is silent.
	haltPatience = 30 * time.Second
	// attendPatience is how long the nodes may take to tell the rest of what an attempt
	// printed once it is over: one that is gone tells no end.
	attendPatience = 10 * time.Second
	// endAfter is how long a cluster that ends with its run outlasts it, for those who
	// follow what it prints elsewhere to read the end; who follows it here is waited for.
	endAfter = 3 * time.Second
	// insidePatience is how long one look into a node may take.
	insidePatience = 5 * time.Second
)

// Inside reaches into the instances of nodes.
type Inside interface {
	// Ranks runs "suanli instance ranks" with these arguments in a lease's instance and
	// returns what it printed. in is its input.
	Ranks(ctx context.Context, leaseID string, args []string, in []byte, out io.Writer) error
}

// Run is a command on all nodes of a cluster.
type Run struct {
	ID          string
	ClusterID   string
	AccountID   string
	UserID      string
	PerNode     int // processes
	Policy      Policy
	MaxRestarts int
	EndCluster  bool
	State       RunState
	Attempt     int
	Code        string
	Message     string
	Ranks       []RankResult // of the present attempt, of those that have ended
	FailedAt    time.Time    // when the present attempt was seen to fail; zero: it is not
	CreatedAt   time.Time
	Since       time.Time // of the state
	EndedAt     time.Time

	job string // sealed launchWish
}

// RankResult is how one rank ended.
type RankResult struct {
	Rank     int `json:"rank"`
	Node     int `json:"node"`
	ExitCode int `json:"exit_code"`
}

// ExitCode is what the whole run comes to: that of the first rank that failed, or 0 when
// it succeeded; 1 if it failed otherwise.
func (r *Run) ExitCode() int {
	switch {
	case r.State == RunSucceeded:
		return 0
	case r.Code == "rank_failed" && len(r.Ranks) > 0:
		return r.Ranks[0].ExitCode
	}
	return 1
}

// Launch says what to run.
type Launch struct {
	Command     []string
	Environment map[string]string
	PerNode     int    // processes of each node; 0: one for each GPU
	Policy      Policy // empty: the cluster's
	MaxRestarts int    // of all ranks; with the policies that restart
	EndCluster  bool   // end the cluster when the run is over, however it ends
}

type launchWish struct {
	Command     []string          `json:"command"`
	Environment map[string]string `json:"environment,omitempty"`
}

// Launch begins a command on all nodes of a cluster. One run at a time has a cluster.
func (s *Service) Launch(ctx context.Context, p account.Principal, nameOrID string, l Launch) (*Run, error) {
	k, err := s.Get(ctx, p, nameOrID)
	if err != nil {
		return nil, err
	}
	bad := func(field, format string, args ...any) error {
		return fault.New(fault.Invalid, "invalid_run", format, args...).At(field)
	}
	if l.PerNode == 0 {
		l.PerNode = k.GPUs
	}
	if l.Policy == "" {
		l.Policy = k.Policy
	}
	switch {
	case len(l.Command) == 0 || l.Command[0] == "":
		return nil, bad("body.command", "the command is empty; want a program and its arguments")
	case l.PerNode < 1 || l.PerNode > maxPerNode:
		return nil, bad("body.procs_per_node", "procs_per_node is %d; want 1 to %d", l.PerNode, maxPerNode)
	case l.Policy != PolicyFail && l.Policy != PolicyRestart && l.Policy != PolicyReplace:
		return nil, bad("body.policy", "the policy is %q; want fail, restart or replace", l.Policy)
	case l.MaxRestarts < 0 || l.MaxRestarts > maxRestarts:
		return nil, bad("body.max_restarts", "max_restarts is %d; want 0 to %d", l.MaxRestarts, maxRestarts)
	}
	for name := range l.Environment {
		if name == "" || len(name) > 256 {
			return nil, bad("body.environment", "environment variables have names of 1 to 256 characters")
		}
	}
	plain, err := json.Marshal(launchWish{l.Command, l.Environment})
	if err != nil {
		return nil, err
	}
	sealed, err := s.Leases.Seal(plain)
	if err != nil {
		return nil, err
	}
	now := s.Clock().UTC().Truncate(time.Microsecond)
	r := &Run{ID: ident.New(ident.Run), ClusterID: k.ID, AccountID: k.AccountID, UserID: p.UserID, PerNode: l.PerNode, Policy: l.Policy, MaxRestarts: l.MaxRestarts,
		EndCluster: l.EndCluster, State: RunWaiting, CreatedAt: now, Since: now, job: sealed}
	err = s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		k, err := lock(ctx, tx, k.ID)
		if err != nil {
			return err
		}
		if k.State.Over() || k.State == Ending || k.State == Failing {
			return fault.New(fault.Gone, "cluster_state", "cluster %s is %s, and runs nothing any more", k.Name, k.State)
		}
		others, err := queryRuns(ctx, tx, `cluster_id = ? AND ended_at = 0`, k.ID)
		if err != nil {
			return err
		}
		if len(others) > 0 {
			return fault.New(fault.Conflict, "cluster_busy", "run %s is on cluster %s already; wait for it, or stop it with: suanli cluster stop-run %s", others[0].ID, k.Name, others[0].ID)
		}
		if err := insertRun(ctx, tx, r); err != nil {
			return err
		}
		return s.Audit(ctx, tx, p, "cluster.launch", k.ID, map[string]any{"run": r.ID, "procs_per_node": r.PerNode})
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Runs returns the runs of a cluster of the caller's, newest first.
func (s *Service) Runs(ctx context.Context, p account.Principal, nameOrID string) (out []*Run, err error) {
	k, err := s.Get(ctx, p, nameOrID)
	if err != nil {
		return nil, err
	}
	err = s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		out, err = queryRuns(ctx, tx, `cluster_id = ? ORDER BY id DESC LIMIT 200`, k.ID)
		return err
	})
	return out, err
}

// GetRun returns a run of the caller's.
func (s *Service) GetRun(ctx context.Context, p account.Principal, id string) (*Run, error) {
	var list []*Run
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		list, err = queryRuns(ctx, tx, `id = ? AND account_id = ?`, id, p.AccountID)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fault.New(fault.NotFound, "run_not_found", "there is no run %q in this account", id)
	}
	return list[0], nil
}

// StopRun ends a run of the caller's. Asking twice is not an error.
func (s *Service) StopRun(ctx context.Context, p account.Principal, id string) (*Run, error) {
	r, err := s.GetRun(ctx, p, id)
	if err != nil {
		return nil, err
	}
	return r, s.changeRun(ctx, r.ID, func(ctx context.Context, tx *store.Tx, now *Run, at time.Time) error {
		r = now
		if now.State.Over() || now.State == RunHalting && now.Code == "commanded" {
			return nil
		}
		if now.State == RunHalting {
			now.Code, now.Message = "commanded", "stopped by the renter" // and does not begin again
			return nil
		}
		now.to(RunHalting, "commanded", "stopped by the renter", at)
		now.FailedAt = at
		return s.Audit(ctx, tx, p, "cluster.stop_run", now.ClusterID, map[string]string{"run": now.ID})
	})
}

// to moves a run.
func (r *Run) to(state RunState, code, message string, at time.Time) {
	if !slices.Contains(runs[r.State], state) {
		panic(fmt.Sprintf("a run goes from %s to %s", r.State, state))
	}
	r.State, r.Code, r.Message, r.Since = state, code, message, at
	if state.Over() {
		r.EndedAt = at
	}
}

func (s *Service) changeRun(ctx context.Context, id string, do func(ctx context.Context, tx *store.Tx, r *Run, at time.Time) error) error {
	return s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		list, err := queryRuns(ctx, tx, `id = ?`+tx.ForUpdate(), id)
		if err != nil || len(list) == 0 {
			return err
		}
		if err := do(ctx, tx, list[0], s.Clock().UTC().Truncate(time.Microsecond)); err != nil {
			return err
		}
		return saveRun(ctx, tx, list[0])
	})
}

// TurnRuns takes every run a step further. A run whose nodes do not answer does not
// hold up the others.
func (s *Service) TurnRuns(ctx context.Context) error {
	if s.Inside == nil {
		return nil
	}
	var open []*Run
	clusters := map[string]*Cluster{}
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if open, err = queryRuns(ctx, tx, `ended_at = 0 OR (end_cluster = 1 AND ended_at > ?) ORDER BY id`, store.Micros(s.Clock().Add(-time.Hour))); err != nil {
			return err
		}
		for _, r := range open {
			list, err := query(ctx, tx, `id = ?`, r.ClusterID)
			if err != nil {
				return err
			}
			for _, k := range list {
				clusters[r.ClusterID] = k
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.forget(open)
	var mu sync.Mutex
	var failed []error
	var all sync.WaitGroup
	for _, r := range open {
		if k := clusters[r.ClusterID]; k != nil {
			all.Go(func() {
				if err := s.stepRun(ctx, r, k); err != nil {
					mu.Lock()
					defer mu.Unlock()
					failed = append(failed, fmt.Errorf("run %s: %w", r.ID, err))
				}
			})
		}
	}
	all.Wait()
	return errors.Join(failed...)
}

// stepRun takes one run a step further, as it and its cluster were seen.
func (s *Service) stepRun(ctx context.Context, r *Run, k *Cluster) error {
	gone := k.State.Over() || k.State == Ending || k.State == Failing
	switch {
	case r.State.Over():
		over := s.Clock().Sub(r.EndedAt)
		if r.EndCluster && !gone && over >= endAfter && (s.followed(r.ID, 0) == 0 || over >= endAfter+attendPatience) {
			_, err := s.End(ctx, account.Principal{AccountID: r.AccountID, UserID: r.UserID, Role: account.Member}, k.ID)
			return err
		}
		return nil
	case gone:
		return s.changeRun(ctx, r.ID, func(_ context.Context, _ *store.Tx, r *Run, at time.Time) error {
			if r.State.Over() {
				return nil
			}
			if r.State == RunRunning {
				r.to(RunHalting, "node_lost", k.Message, at)
			}
			if r.Code == "commanded" {
				r.to(RunStopped, r.Code, r.Message, at)
			} else {
				r.to(RunFailed, "cluster_over", "its cluster is over: "+k.Message, at)
			}
			return nil
		})
	case r.State == RunWaiting && k.State == Running:
		return s.startRun(ctx, r, k)
	case r.State == RunRunning:
		return s.watchRun(ctx, r, k)
	case r.State == RunHalting:
		return s.haltRun(ctx, r, k)
	}
	return nil
}

// jobID names one attempt of a run.
func jobID(runID string, attempt int) string { return fmt.Sprintf("%s-%d", runID, attempt) }

// onNodes asks all nodes at once; a node that does not answer is nil in what comes back.
func (s *Service) onNodes(ctx context.Context, k *Cluster, args func(Node) []string, in func(Node) []byte) []*protocol.RankStatus {
	out := make([]*protocol.RankStatus, len(k.Members))
	var all sync.WaitGroup
	for i, n := range k.Members {
		if n.LeaseID == "" {
			out[i] = &protocol.RankStatus{State: protocol.RanksAbsent}
			continue
		}
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, insidePatience)
			defer cancel()
			var text limited
			var input []byte
			if in != nil {
				input = in(n)
			}
			if err := s.Inside.Ranks(ctx, n.LeaseID, args(n), input, &text); err != nil {
				s.Log.WarnContext(ctx, "a node does not answer for its ranks", "cluster", k.ID, "node", n.Rank, "error", err)
				return
			}
			var st protocol.RankStatus
			if json.Unmarshal(text.b, &st) == nil {
				out[i] = &st
			}
		})
	}
	all.Wait()
	return out
}

// limited keeps the beginning of what is written: what comes is a renter's.
type limited struct{ b []byte }

func (l *limited) Write(p []byte) (int, error) {
	if room := 256<<10 - len(l.b); room > 0 {
		l.b = append(l.b, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

// startRun begins the processes on all nodes. It may be repeated: what runs is not begun
// again.
func (s *Service) startRun(ctx context.Context, r *Run, k *Cluster) error {
	var w launchWish
	b, err := s.Leases.Unseal(r.job)
	if err == nil {
		err = json.Unmarshal(b, &w)
	}
	if err != nil {
		return err
	}
	got := s.onNodes(ctx, k, func(Node) []string { return []string{"start"} }, func(n Node) []byte {
		job, err := json.Marshal(protocol.RankJob{ID: jobID(r.ID, r.Attempt), NodeRank: n.Rank, Nodes: k.Nodes, PerNode: r.PerNode, MasterName: NodeName(0), MasterPort: masterPort, Attempt: r.Attempt,
			Command: w.Command, Environment: w.Environment})
		if err != nil {
			panic("marshal of a plain value: " + err.Error())
		}
		return job
	})
	if slices.Contains(got, nil) {
		if s.Clock().Sub(r.Since) < k.StartWithin {
			return nil // it is tried again; its cluster notices nodes that are gone
		}
		return s.changeRun(ctx, r.ID, func(_ context.Context, _ *store.Tx, now *Run, at time.Time) error {
			if now.State == RunWaiting && now.Attempt == r.Attempt {
				now.to(RunHalting, "not_started", "its processes could not be begun on all nodes in time", at)
				now.FailedAt = at
			}
			return nil
		})
	}
	return s.changeRun(ctx, r.ID, func(_ context.Context, _ *store.Tx, now *Run, at time.Time) error {
		if now.State == RunWaiting && now.Attempt == r.Attempt {
			now.to(RunRunning, "", "", at)
		}
		return nil
	})
}

// watchRun looks how the processes are.
func (s *Service) watchRun(ctx context.Context, r *Run, k *Cluster) error {
	if k.State != Running {
		return s.failRun(ctx, r, "node_lost", k.Message, nil)
	}
	got := s.onNodes(ctx, k, func(Node) []string { return []string{"status", jobID(r.ID, r.Attempt)} }, nil)
	results, done := collect(k, got)
	for i, st := range got {
		if st != nil && (st.State == protocol.RanksLost || st.State == protocol.RanksAbsent) {
			return s.failRun(ctx, r, "rank_lost", fmt.Sprintf("the processes on node %d are gone, as when its instance was started anew", k.Members[i].Rank), results)
		}
	}
	for _, x := range results {
		if x.ExitCode != 0 {
			return s.failRun(ctx, r, "rank_failed", fmt.Sprintf("rank %d on node %d ended with exit code %d", x.Rank, x.Node, x.ExitCode), results)
		}
	}
	if !done {
		return s.watchProgress(ctx, r, k, got)
	}
	return s.changeRun(ctx, r.ID, func(_ context.Context, _ *store.Tx, now *Run, at time.Time) error {
		if now.State == RunRunning && now.Attempt == r.Attempt {
			now.Ranks = results
			now.to(RunSucceeded, "", "", at)
		}
		return nil
	})
}

// collect returns the ranks that have ended, the first that failed before all others, and
// whether all have.
func collect(k *Cluster, got []*protocol.RankStatus) (out []RankResult, done bool) {
	done = true
	first := map[int]bool{}
	for i, st := range got {
		if st == nil || st.State != protocol.RanksDone {
			done = false
		}
		if st == nil {
			continue
		}
		for _, x := range st.Ranks {
			if x.ExitCode != nil {
				out = append(out, RankResult{x.Rank, k.Members[i].Rank, *x.ExitCode})
				first[x.Rank] = x.First
			}
		}
	}
	order := func(x RankResult) int {
		switch {
		case x.ExitCode != 0 && first[x.Rank]:
			return 0
		case x.ExitCode != 0:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(out, func(a, b RankResult) int { return order(a) - order(b) })
	return out, done
}

func (s *Service) failRun(ctx context.Context, r *Run, code, message string, results []RankResult) error {
	err := s.changeRun(ctx, r.ID, func(_ context.Context, _ *store.Tx, now *Run, at time.Time) error {
		if now.State == RunRunning && now.Attempt == r.Attempt {
			now.to(RunHalting, code, message, at)
			now.Ranks, now.FailedAt = results, at
			*r = *now
		}
		return nil
	})
	if err != nil || r.State != RunHalting {
		return err
	}
	// The peers are told at once, not at the next look.
	var k []*Cluster
	err = s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		k, err = query(ctx, tx, `id = ?`, r.ClusterID)
		return err
	})
	if err != nil || len(k) == 0 {
		return err
	}
	return s.haltRun(ctx, r, k[0])
}

// haltRun tells what still runs why it ends, until nothing does; then the run is over,
// or begins again.
func (s *Service) haltRun(ctx context.Context, r *Run, k *Cluster) error {
	why := protocol.PeerFailure{Rank: -1, Node: -1, Code: r.Code, Message: r.Message}
	if len(r.Ranks) > 0 && r.Code == "rank_failed" {
		why.Rank, why.Node, why.ExitCode = r.Ranks[0].Rank, r.Ranks[0].Node, r.Ranks[0].ExitCode
	}
	text, err := json.Marshal(why)
	if err != nil {
		return err
	}
	got := s.onNodes(ctx, k, func(Node) []string { return []string{"stop", jobID(r.ID, r.Attempt)} }, func(Node) []byte { return text })
	late := s.Clock().Sub(r.FailedAt) >= haltPatience
	for _, st := range got {
		if (st == nil || st.State == protocol.RanksRunning) && !late {
			return nil
		}
	}
	return s.changeRun(ctx, r.ID, func(_ context.Context, _ *store.Tx, now *Run, at time.Time) error {
		if now.State != RunHalting || now.Attempt != r.Attempt {
			return nil
		}
		again := now.Policy != PolicyFail && now.Attempt < now.MaxRestarts
		switch {
		case now.Code == "commanded":
			now.to(RunStopped, now.Code, now.Message, at)
		case again:
			now.Attempt++
			now.Ranks, now.FailedAt = nil, time.Time{}
			now.to(RunWaiting, now.Code, "begins again: "+now.Message, at)
		default:
			now.to(RunFailed, now.Code, now.Message, at)
		}
		return nil
	})
}

// Attend writes what the processes of a run print in all its attempts, each line with its
// rank before it; with follow until the run is over. Several nodes' lines come as they are
// printed.
func (s *Service) Attend(ctx context.Context, p account.Principal, id string, follow bool, out io.Writer) error {
	r, err := s.GetRun(ctx, p, id)
	if err != nil {
		return err
	}
	if s.Inside == nil {
		return fault.New(fault.Unavailable, "host_offline", "this cloud cannot reach into instances")
	}
	if follow {
		s.followed(id, +1)
		defer s.followed(id, -1)
	}
	until := func(over func(*Run) bool) error {
		for !over(r) {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(200 * time.Millisecond):
			}
			if r, err = s.GetRun(ctx, p, id); err != nil {
				return err
			}
		}
		return nil
	}
	var mu sync.Mutex
	// Each attempt is read to its end, also one that is over before it could be seen to run.
	for attempt := 0; ; attempt++ {
		if follow {
			if err := until(func(r *Run) bool { return r.Attempt > attempt || r.State != RunWaiting }); err != nil {
				return err
			}
		}
		if r.Attempt > attempt || r.State != RunWaiting {
			if err := s.attend(ctx, p, r, attempt, follow && r.Attempt == attempt, func() io.Writer { return &prefixed{out: out, mu: &mu} }); err != nil {
				return err
			}
		}
		if follow {
			if err := until(func(r *Run) bool { return r.Attempt > attempt || r.State.Over() }); err != nil {
				return err
			}
		}
		if r.Attempt <= attempt {
			return nil
		}
	}
}

// attend copies what one attempt of a run prints on all nodes; each writes to an out of
// its own.
func (s *Service) attend(ctx context.Context, p account.Principal, r *Run, attempt int, follow bool, out func() io.Writer) error {
	k, err := s.Get(ctx, p, r.ClusterID)
	if err != nil {
		return err
	}
	args := []string{"attend", jobID(r.ID, attempt)}
	if follow {
		args = append(args, "follow")
	}
	var all sync.WaitGroup
	inner, cancel := context.WithCancel(ctx)
	for _, n := range k.Members {
		if n.LeaseID != "" {
			all.Go(func() {
				if err := s.Inside.Ranks(inner, n.LeaseID, args, nil, out()); err != nil {
					s.Log.DebugContext(ctx, "follow a node's ranks", "run", r.ID, "node", n.Rank, "error", err)
				}
			})
		}
	}
	watch := make(chan struct{})
	go func() {
		defer close(watch)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for left := int(attendPatience / time.Second); left > 0; {
			select {
			case <-inner.Done():
				return
			case <-tick.C:
			}
			if now, err := s.GetRun(inner, p, r.ID); err == nil && (now.Attempt > attempt || now.State.Over()) {
				left--
			}
		}
		cancel()
	}()
	all.Wait()
	cancel()
	<-watch
	return ctx.Err()
}

// followed counts those who follow what a run prints here.
func (s *Service) followed(runID string, more int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.followers[runID] + more
	if s.followers[runID] = n; n == 0 {
		delete(s.followers, runID)
	}
	return n
}

// prefixed turns events of ranks into lines.
type prefixed struct {
	out  io.Writer
	mu   *sync.Mutex
	rest []byte
}

func (w *prefixed) Write(b []byte) (int, error) {
	w.rest = append(w.rest, b...)
	for {
		i := slices.Index(w.rest, '\n')
		if i < 0 {
			if len(w.rest) > 1<<20 {
				return 0, errors.New("a line without an end")
			}
			return len(b), nil
		}
		var e protocol.RankEvent
		line := w.rest[:i]
		w.rest = w.rest[i+1:]
		if json.Unmarshal(line, &e) != nil || e.Done || e.ExitCode != nil && *e.ExitCode == 0 {
			continue
		}
		text := fmt.Sprintf("[%d] %s\n", e.Rank, e.Line)
		if e.ExitCode != nil {
			text = fmt.Sprintf("[%d] (exit code %d)\n", e.Rank, *e.ExitCode)
		}
		w.mu.Lock()
		_, err := io.WriteString(w.out, text)
		w.mu.Unlock()
		if err != nil {
			return 0, err
		}
	}
}

const runColumns = `id, cluster_id, account_id, user_id, job, per_node, policy, max_restarts, end_cluster, state, attempt, code, message, ranks, failed_at, created_at, since_at, ended_at`

func queryRuns(ctx context.Context, tx *store.Tx, where string, args ...any) ([]*Run, error) {
	rows, err := tx.Query(ctx, `SELECT `+runColumns+` FROM cluster_run WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read runs: %w", err)
	}
	defer rows.Close()
	var out []*Run
	for rows.Next() {
		var r Run
		var end, failed, created, since, ended int64
		var ranks string
		if err := rows.Scan(&r.ID, &r.ClusterID, &r.AccountID, &r.UserID, &r.job, &r.PerNode, &r.Policy, &r.MaxRestarts, &end, &r.State, &r.Attempt, &r.Code, &r.Message, &ranks, &failed, &created, &since, &ended); err != nil {
			return nil, fmt.Errorf("read runs: %w", err)
		}
		r.EndCluster, r.FailedAt, r.CreatedAt, r.Since, r.EndedAt = end == 1, store.Time(failed), store.Time(created), store.Time(since), store.Time(ended)
		if err := json.Unmarshal([]byte(ranks), &r.Ranks); err != nil {
			return nil, fmt.Errorf("run %s: %w", r.ID, err)
		}
		out = append(out, &r)
	}
	return out, rows.Err()
}

func ranksJSON(list []RankResult) string {
	if list == nil {
		list = []RankResult{}
	}
	b, err := json.Marshal(list)
	if err != nil {
		panic("marshal of a plain value: " + err.Error())
	}
	return string(b)
}

func insertRun(ctx context.Context, tx *store.Tx, r *Run) error {
	_, err := tx.Exec(ctx, `INSERT INTO cluster_run (`+runColumns+`) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`, r.ID, r.ClusterID, r.AccountID, r.UserID, r.job, r.PerNode, string(r.Policy),
		r.MaxRestarts, bit(r.EndCluster), string(r.State), r.Attempt, r.Code, r.Message, ranksJSON(r.Ranks), store.Micros(r.FailedAt), store.Micros(r.CreatedAt), store.Micros(r.Since), store.Micros(r.EndedAt))
	if err != nil {
		return fmt.Errorf("write run: %w", err)
	}
	return nil
}

func saveRun(ctx context.Context, tx *store.Tx, r *Run) error {
	_, err := tx.Exec(ctx, `UPDATE cluster_run SET state=?, attempt=?, code=?, message=?, ranks=?, failed_at=?, since_at=?, ended_at=? WHERE id=?`,
		string(r.State), r.Attempt, r.Code, r.Message, ranksJSON(r.Ranks), store.Micros(r.FailedAt), store.Micros(r.Since), store.Micros(r.EndedAt), r.ID)
	if err != nil {
		return fmt.Errorf("write run: %w", err)
	}
	return nil
}

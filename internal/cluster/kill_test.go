package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"suanli.dev/internal/lease"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// keptHost is what a host is after its control plane has died.
type keptHost struct {
	ID           string
	GPUs         []protocol.GPU
	Up           bool
	Seq          int64
	Instances    map[string]keptInstance
	Fence        map[string]int64
	Broken, Slow bool
}

type keptInstance struct {
	Status protocol.InstanceStatus
	Want   protocol.Want
	Spec   *protocol.InstanceSpec
}

func keepFile(name string, v any) {
	b, err := json.Marshal(v)
	if err == nil {
		if err = os.WriteFile(name+".new", b, 0o600); err == nil {
			err = os.Rename(name+".new", name)
		}
	}
	if err != nil {
		panic(err) // a process that is about to be killed anyway
	}
}

func readFile(t testing.TB, name string, v any) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// keep writes the host down where its world outlives the process. The caller holds mu.
func (h *fakeHost) keep() {
	if h.w.dir == "" {
		return
	}
	k := keptHost{ID: h.id, GPUs: h.gpus, Up: h.up, Seq: h.seq, Instances: map[string]keptInstance{}, Fence: h.fence, Broken: h.broken, Slow: h.slow}
	for id, i := range h.instances {
		k.Instances[id] = keptInstance{i.InstanceStatus, i.want, i.spec}
	}
	keepFile(filepath.Join(h.w.dir, "host-"+h.id), k)
}

// keepTime writes the time down. The caller holds mu.
func (w *world) keepTime() {
	if w.dir != "" {
		keepFile(filepath.Join(w.dir, "now"), w.now)
	}
}

// reopen is the world of a process that has died, in another process.
func reopen(t testing.TB, db *store.DB, dir string) *world {
	t.Helper()
	w := &world{t: t, db: db, dir: dir}
	readFile(t, filepath.Join(dir, "now"), &w.now)
	readFile(t, filepath.Join(dir, "ada"), &w.ada)
	names, err := filepath.Glob(filepath.Join(dir, "host-*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for _, name := range names {
		if strings.HasSuffix(name, ".new") {
			continue // it was being written
		}
		var k keptHost
		readFile(t, name, &k)
		h := &fakeHost{id: k.ID, gpus: k.GPUs, w: w, up: k.Up, seq: k.Seq, instances: map[string]*instance{}, fence: k.Fence, peers: map[string][]protocol.Peer{}, broken: k.Broken, slow: k.Slow}
		for id, i := range k.Instances {
			h.instances[id] = &instance{i.Status, i.Want, i.Spec}
		}
		w.hosts = append(w.hosts, h)
	}
	w.open(false)
	t.Cleanup(func() { w.stop() })
	return w
}

// The lives that clusters lead in the test below, again and again.
const (
	lifeEnded    = iota // runs, and is ended
	lifePartial         // one node cannot start
	lifeReplaced        // a node is lost and replaced, then it is ended
	lifeEarly           // is ended before all nodes run
	lives
)

// live leads life i to its end, from wherever it is.
func (w *world) live(i int) {
	w.t.Helper()
	name := fmt.Sprint("life-", i)
	kind := i % lives
	w.set(func(n int, h *fakeHost) {
		h.up, h.broken, h.slow = true, kind == lifePartial && n == 1, kind == lifeEarly && n == 1
	})
	if kind == lifePartial || kind == lifeEarly {
		w.set(func(n int, h *fakeHost) { h.up = n < 2 || len(h.instances) > 0 }) // there is no other choice
	}
	for range 12 { // those that were away are on offer again, and what is left of the last life goes
		w.pass()
	}
	if _, err := w.Get(w.t.Context(), w.ada, name); err != nil {
		policy := PolicyFail
		if kind == lifeReplaced {
			policy = PolicyReplace
		}
		w.create(2, 1, func(c *Create) { c.Name, c.Policy, c.StartWithin = name, policy, 5*time.Minute })
	}
	switch kind {
	case lifePartial:
		w.reach(name, Failed, 5*time.Minute)
		return
	case lifeEarly:
		w.pass()
	default:
		w.until("it runs", 5*time.Minute, func() bool { s := w.cluster(name).State; return s != Forming && s != Queued })
	}
	if d := w.cluster(name); kind == lifeReplaced && d.State == Running && len(d.Leases) == 2 {
		lost := d.Members[1].HostID
		w.set(func(_ int, h *fakeHost) { h.up = h.id != lost })
	}
	if kind == lifeReplaced {
		w.until("its node is replaced", 10*time.Minute, func() bool {
			d := w.cluster(name)
			return len(d.Leases) > 2 && d.State == Running || d.State == Ending || d.State.Over()
		})
		w.set(func(_ int, h *fakeHost) { h.up = true })
	}
	if _, err := w.End(w.t.Context(), w.ada, name); err != nil {
		w.t.Fatal(err)
	}
	w.reach(name, Ended, 5*time.Minute)
}

func (w *world) set(change func(n int, h *fakeHost)) {
	for n, h := range w.hosts {
		h.mu.Lock()
		change(n, h)
		h.keep()
		h.mu.Unlock()
	}
}

// observed is a test whose context tells of each statement.
type observed struct {
	testing.TB
	ctx context.Context
}

// Context implements testing.TB.
func (o observed) Context() context.Context { return o.ctx }

// victimEnv has the database, the folder of the hosts, the first life and the one
// before which to end, and the number of the statement before which the process kills
// itself, 0 for none.
const victimEnv = "SUANLI_CLUSTER_VICTIM"

func TestVictimOfKills(t *testing.T) {
	text := os.Getenv(victimEnv)
	if text == "" {
		t.Skip("it is run by the test below, in a process of its own")
	}
	args := strings.Split(text, "\n")
	var first, last, fatal int
	for i, to := range []*int{&first, &last, &fatal} {
		var err error
		if *to, err = strconv.Atoi(args[2+i]); err != nil {
			t.Fatal(err)
		}
	}
	db, err := store.Open(t.Context(), args[0])
	if err != nil {
		t.Fatal(err)
	}
	var statements atomic.Int64
	ctx := store.Observe(t.Context(), func(string) {
		if statements.Add(1) == int64(fatal) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // nothing more is executed until it has arrived
		}
	})
	w := reopen(observed{t, ctx}, db, args[1])
	for i := first; i < last; i++ {
		w.live(i)
		fmt.Printf("\nlived %d\n", i)
	}
	fmt.Printf("\nstatements %d\n", statements.Load())
}

// killsEnv says how many times the test below kills on each engine.
const killsEnv = "SUANLI_TEST_CLUSTER_KILLS"

// The control plane is killed before a statement that is drawn from all that four
// lives of clusters execute, commits included: creation, a node that cannot start, the
// release of the others, the replacement of a lost node and the end. At once
// afterwards each cluster has all of its leases or none, and either all began to be
// charged or none did; a next process goes on, and nothing is left in the end.
func TestKillingTheControlPlaneBetweenAnyTwoStatementsSplitsNoGang(t *testing.T) {
	t.Parallel()
	kills := 6
	if v := os.Getenv(killsEnv); v != "" {
		var err error
		if kills, err = strconv.Atoi(v); err != nil {
			t.Fatalf("%s: %v", killsEnv, err)
		}
	}
	for name, addressOf := range map[string]func(testing.TB) string{"sqlite": storetest.Address, "postgres": storetest.PostgresAddress} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, dir := addressOf(t), t.TempDir()
			first := newWorldOn(t, storetest.Open(t, address), dir)
			first.join(4, 1)
			keepFile(filepath.Join(dir, "ada"), first.ada)
			first.set(func(int, *fakeHost) {})
			first.mu.Lock()
			first.keepTime()
			first.mu.Unlock()
			first.stop()
			first.stop = func() {}
			next := 0
			run := func(last, fatal int) (string, error) {
				cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestVictimOfKills$", "-test.timeout", "10m")
				cmd.Env = append(os.Environ(), victimEnv+"="+strings.Join([]string{address, dir, strconv.Itoa(next), strconv.Itoa(last), strconv.Itoa(fatal)}, "\n"))
				var said bytes.Buffer
				cmd.Stdout, cmd.Stderr = &said, &said
				err := cmd.Run()
				for line := range strings.Lines(said.String()) {
					var i int
					if _, scan := fmt.Sscanf(line, "lived %d", &i); scan == nil {
						next = i + 1
					}
				}
				return said.String(), err
			}
			check := func() {
				t.Helper()
				splitNoGang(t, first)
			}
			said, err := run(lives, 0)
			statements := 0
			for line := range strings.Lines(said) {
				_, _ = fmt.Sscanf(line, "statements %d", &statements)
			}
			if err != nil || next != lives || statements < 100 {
				t.Fatalf("lives that nobody ended: %v, %d statements: %s", err, statements, said)
			}
			check()
			for range kills {
				fatal := 1 + rand.IntN(statements)
				said, err := run(1_000_000, fatal)
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Fatalf("the victim was to die before statement %d: %v: %s", fatal, err, said)
				}
				check()
			}
			// The life in progress is led to its end, and each kind once more.
			if said, err := run(next+lives, 0); err != nil {
				t.Fatal(err, said)
			}
			check()
			leaveNothing(t, first, dir)
			t.Logf("%d kills among %d statements, over %d lives", kills, statements, next)
		})
	}
}

// gangs are all leases there are, by cluster.
func gangs(t *testing.T, w *world) (clusters []*Cluster, leases map[string]map[string]*lease.Lease) {
	t.Helper()
	leases = map[string]map[string]*lease.Lease{}
	if err := w.db.View(t.Context(), func(ctx context.Context, tx *store.Tx) (err error) {
		if clusters, err = query(ctx, tx, `account_id = ? ORDER BY id`, w.ada.AccountID); err != nil {
			return err
		}
		for _, k := range clusters {
			if leases[k.ID], err = w.leases.OfGang(ctx, tx, k.ID); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return clusters, leases
}

func splitNoGang(t *testing.T, w *world) {
	t.Helper()
	if r, err := w.books.Verify(t.Context()); err != nil || !r.OK() {
		t.Fatalf("the books are wrong: %+v (%v)", r, err)
	}
	clusters, leases := gangs(t, w)
	for _, k := range clusters {
		all := leases[k.ID]
		charged := 0
		for id, l := range all {
			if !l.GangWaits {
				charged++
				continue
			}
			if b, err := w.billing.Due(t.Context(), id, w.clock().Add(100*24*time.Hour)); err != nil || b.Total != 0 {
				t.Fatalf("%s: lease %s never began with its cluster and costs %s (%v)", k.Name, id, b.Total, err)
			}
		}
		if len(all) != 0 && len(all) < k.Nodes || charged != 0 && charged < k.Nodes {
			t.Fatalf("%s, which is %s, has %d leases of %d, and %d are charged", k.Name, k.State, len(all), k.Nodes, charged)
		}
	}
}

func leaveNothing(t *testing.T, w *world, dir string) {
	t.Helper()
	clusters, leases := gangs(t, w)
	for _, k := range clusters {
		i, err := strconv.Atoi(strings.TrimPrefix(k.Name, "life-"))
		if err != nil || !k.State.Over() || k.State == Failed != (i%lives == lifePartial) {
			t.Errorf("%s is %s (%s)", k.Name, k.State, k.Message)
		}
		for id, l := range leases[k.ID] {
			if !l.State.Over() {
				t.Errorf("%s: lease %s is %s", k.Name, id, l.State)
			}
			if never := i%lives == lifePartial || i%lives == lifeEarly; never && !l.GangWaits {
				t.Errorf("%s: lease %s was charged for, and never ran with the others", k.Name, id)
			}
		}
	}
	if err := w.db.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		held, err := w.books.Balance(ctx, tx, ledger.Hold(w.ada.AccountID), money.USD)
		if err == nil && held != 0 {
			err = fmt.Errorf("%s is held for leases that are over", held)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	last := reopen(t, w.db, dir)
	last.wantFree()
}

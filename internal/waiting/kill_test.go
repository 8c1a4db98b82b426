package waiting

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// victimEnv has the database, who asks, the host, what is asked for, and the number of
// the statement before which the process kills itself, 0 for none.
const victimEnv = "SUANLI_WAITING_VICTIM"

// killsEnv says how many times the test below kills on each engine.
const killsEnv = "SUANLI_TEST_WAITING_KILLS"

// kept is what a next process needs to go on.
type kept struct {
	Address  string
	Eve      account.Principal
	Operator account.Principal
	HostID   string
	Now      time.Time
	Fatal    int64
	Name     string
}

// observed is a test whose context tells of each statement.
type observed struct {
	testing.TB
	ctx context.Context
}

// Context implements testing.TB.
func (o observed) Context() context.Context { return o.ctx }

// reopen is the world of a process that has died, in another process.
func reopen(t testing.TB, k kept, hostGPUs int) *world {
	t.Helper()
	db, err := store.Open(t.Context(), k.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	w := &world{t: t, db: db, now: k.Now, quotas: map[string]int{}, beyond: map[string]error{}, operator: k.Operator, eve: k.Eve}
	w.hosts = []*fakeHost{{id: k.HostID, w: w, seq: k.Now.Unix(), inventory: true, instances: map[string]*instance{}}}
	w.hosts[0].have(hostGPUs)
	w.open(false)
	return w
}

func TestVictimOfKills(t *testing.T) {
	text := os.Getenv(victimEnv)
	if text == "" {
		t.Skip("it is run by the test below, in a process of its own")
	}
	var k kept
	if err := json.Unmarshal([]byte(text), &k); err != nil {
		t.Fatal(err)
	}
	var statements atomic.Int64
	ctx := store.Observe(t.Context(), func(string) {
		if statements.Add(1) == k.Fatal {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // nothing more is executed until it has arrived
		}
	})
	w := reopen(t, k, 2)
	w.beat(w.hosts[0])
	w.t = observed{t, ctx}
	// One that starts, beside one that is over the price, and both are written by this
	// process, as far as it gets.
	w.ask(w.eve, func(c *Create) { c.Run.Create.Name = k.Name })
	w.ask(w.eve, func(c *Create) { c.Run.Create.Name, c.MaxPerHour, c.WaitFor = k.Name+"-poor", 1, time.Minute })
	w.check(w.Turn(w.t.Context()))
	fmt.Printf("\nstatements %d\n", statements.Load())
}

// The control plane is killed before a statement that is drawn from all that asking and a
// turn execute, commits included. At once afterwards each request has become one lease or
// none, whatever was written; a next process goes on, and there is one.
func TestKillingTheControlPlaneBetweenAnyTwoStatementsMakesOneLeaseAtMost(t *testing.T) {
	t.Parallel()
	kills := 8
	if v := os.Getenv(killsEnv); v != "" {
		var err error
		if kills, err = strconv.Atoi(v); err != nil {
			t.Fatalf("%s: %v", killsEnv, err)
		}
	}
	for name, addressOf := range map[string]func(testing.TB) string{"sqlite": storetest.Address, "postgres": storetest.PostgresAddress} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := addressOf(t)
			w := newWorld(t, storetest.Open(t, address))
			h := w.join(2)
			k := kept{Address: address, Eve: w.eve, Operator: w.operator, HostID: h.id, Now: w.now}
			run := func(fatal int64) (statements int, err error) {
				k.Now, k.Fatal, k.Name = k.Now.Add(time.Second), fatal, fmt.Sprint("life-", k.Now.Unix())
				text, _ := json.Marshal(k)
				cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestVictimOfKills$", "-test.timeout", "2m")
				cmd.Env = append(os.Environ(), victimEnv+"="+string(text))
				var said bytes.Buffer
				cmd.Stdout, cmd.Stderr = &said, &said
				err = cmd.Run()
				for line := range strings.Lines(said.String()) {
					_, _ = fmt.Sscanf(line, "statements %d", &statements)
				}
				if err != nil {
					err = fmt.Errorf("%w: %s", err, said.String())
				}
				return statements, err
			}
			// finish lets this process go on, and says how many leases there are.
			finish := func() {
				t.Helper()
				list, _, err := w.List(t.Context(), w.eve, true, "", 100)
				w.check(err)
				for _, r := range list {
					if r.LeaseID != "" {
						t.Fatalf("%s waits, and has lease %s", r.Name, r.LeaseID)
					}
				}
				w.check(w.leases.Load(t.Context()))
				w.check(w.fleet.Load(t.Context()))
				w.mu.Lock()
				w.now = k.Now.Add(time.Minute)
				w.mu.Unlock()
				h.mu.Lock()
				h.seq, h.inventory = w.now.Unix(), true
				h.mu.Unlock()
				w.around()
				waits := false
				w.until("what can start has started", func() bool {
					list, _, err := w.List(t.Context(), w.eve, true, "", 100)
					w.check(err)
					waits = len(list) > 0
					return !waits
				})
				byName := map[string]int{}
				var cursor string
				all, _, err := w.List(t.Context(), w.eve, false, cursor, 100)
				w.check(err)
				live := 0
				for _, r := range all {
					switch {
					case r.State == Started:
						byName[r.Name]++
						l, err := w.leases.Get(t.Context(), w.eve, r.LeaseID)
						w.check(err)
						if !l.State.Over() {
							live++
						}
					case r.State != Expired || !strings.HasSuffix(r.Name, "-poor"):
						t.Fatalf("%s is %s (%s)", r.Name, r.State, r.Message)
					}
				}
				if n := w.leasesOf(w.eve); n != live {
					t.Fatalf("there are %d leases, and %d requests have become one", n, live)
				}
				for _, r := range all {
					if r.State == Started {
						if l, err := w.leases.Get(t.Context(), w.eve, r.LeaseID); err == nil && !l.State.Over() {
							w.end(w.eve, l.ID)
						}
					}
				}
				w.until("nothing is left", func() bool { return w.leasesOf(w.eve) == 0 })
				w.right()
				k.Now = w.clock().Add(time.Minute)
			}
			statements, err := run(0)
			if err != nil || statements < 20 {
				t.Fatalf("a life that nobody ended: %v, %d statements", err, statements)
			}
			finish()
			for done := 0; done < kills; {
				fatal := 1 + rand.Int64N(int64(statements))
				n, err := run(fatal)
				if err == nil { // the first life of an account opens its books, and has more of them
					statements = n
					finish()
					continue
				}
				done++
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Fatalf("the victim was to die before statement %d: %v", fatal, err)
				}
				finish()
			}
			t.Logf("%d kills among %d statements", kills, statements)
		})
	}
}

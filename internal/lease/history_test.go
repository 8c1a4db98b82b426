package lease

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/account"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

// Random histories of renters' requests, hosts that are slow, deaf, silent,
// broken, crashed or wiped, and control planes that die between any two steps.
// At any time a GPU is in one lease at most, what runs holds its GPUs, and what
// is charged has run. When all are well again for long enough nothing hangs.
func TestWhateverHappensLeasesEndCleanAndAreChargedForWhatRan(t *testing.T) {
	t.Parallel()
	dir, serial := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		// A world of its own, so that a failure can be told again.
		serial++
		db, err := store.Open(t.Context(), "sqlite:"+filepath.Join(dir, fmt.Sprint(serial, ".db")))
		if err != nil {
			rt.Fatal(err)
		}
		defer db.Close()
		w := newWorldOn(rt, t.Context(), db, func(o *options) {
			o.money, o.quota = "1000000", account.Quota{MaxLeases: 1000, MaxGPUs: 1000}
		})
		var hosts []*fakeHost
		for range 3 {
			hosts = append(hosts, w.join(2))
		}
		var ids []string
		pick := func() string {
			if len(ids) == 0 {
				return "ls-00000000000000000000000000"
			}
			return ids[rapid.IntRange(0, len(ids)-1).Draw(rt, "lease")]
		}
		for range rapid.IntRange(5, 40).Draw(rt, "steps") {
			h := hosts[rapid.IntRange(0, len(hosts)-1).Draw(rt, "host")]
			// A request may be refused; what counts is what it leaves.
			switch step := rapid.SampledFrom([]string{"accept", "accept", "accept", "stop", "start", "restart", "end", "pass", "pass", "pass", "cut", "join", "crash", "agent restart", "finish",
				"deaf", "slow", "fast", "fail", "mend", "lose answers", "server restart", "tick", "work", "beat", "wipe", "deadline"}).Draw(rt, "step"); step {
			case "accept":
				q, err := w.quote(w.ada, h, rapid.IntRange(1, 2).Draw(rt, "gpus"))
				if err != nil {
					continue
				}
				if l, err := w.Accept(w.ctx, w.ada, Create{QuoteID: q.ID}); err == nil {
					ids = append(ids, l.ID)
				}
			case "stop":
				w.Stop(w.ctx, w.ada, pick())
			case "start":
				w.Start(w.ctx, w.ada, pick())
			case "restart":
				w.Restart(w.ctx, w.ada, pick())
			case "end":
				w.End(w.ctx, w.ada, pick())
			case "deadline":
				at := w.clock().Add(time.Duration(rapid.IntRange(1, 300).Draw(rt, "seconds")) * time.Second)
				w.Change(w.ctx, w.ada, pick(), Update{Deadline: &at})
			case "pass":
				w.pass(time.Duration(rapid.IntRange(1, 24).Draw(rt, "beats")) * beat)
			case "cut":
				h.set(func() { h.up = false })
			case "join":
				h.set(func() { h.up = true })
			case "crash":
				h.crash()
			case "agent restart":
				h.set(h.restart)
			case "finish":
				h.finish(pick(), rapid.IntRange(0, 255).Draw(rt, "exit"))
			case "deaf":
				want := rapid.SampledFrom([]protocol.Want{protocol.WantRunning, protocol.WantStopped, protocol.WantAbsent}).Draw(rt, "want")
				h.set(func() { h.deaf[want] = rapid.IntRange(1, 3).Draw(rt, "times") })
			case "slow":
				h.set(func() { h.slow = true })
			case "fast":
				h.set(func() { h.slow = false })
			case "fail":
				outcome := rapid.SampledFrom([]protocol.Phase{protocol.PhaseFailed, protocol.PhaseStopped}).Draw(rt, "outcome")
				h.set(func() { h.fail["*"] = outcome })
			case "mend":
				h.set(func() { delete(h.fail, "*") })
			case "lose answers":
				h.set(func() { h.loseAnswers = rapid.IntRange(1, 5).Draw(rt, "answers") })
			case "server restart":
				w.restart()
			case "tick":
				w.tick()
			case "work":
				h.work()
			case "beat":
				w.beat(h)
			case "wipe":
				h.crash()
				h.set(func() { h.instances = map[string]*instance{} })
			}
			w.mustHold(hosts, ids)
		}
		// All are well again.
		for _, h := range hosts {
			h.set(func() {
				h.up, h.slow, h.loseAnswers = true, false, 0
				clear(h.fail)
				clear(h.deaf)
				for _, i := range h.instances {
					i.stuck = false
				}
			})
		}
		for _, id := range ids {
			w.Change(w.ctx, w.ada, id, Update{Deadline: &time.Time{}}) // none falls on the moment of the check
		}
		w.pass(3 * time.Minute)
		w.mustHold(hosts, ids)
		for _, id := range ids {
			l := w.get(id)
			switch l.State {
			case Running, Stopped, Ended, Failed:
			default:
				rt.Fatalf("all are well for minutes and lease %s is still %s (%s)", id, l.State, l.Code)
			}
			if runs := w.host(l.HostID).instances[id] != nil && w.host(l.HostID).instances[id].running; runs != (l.State == Running) {
				rt.Fatalf("lease %s is %s and its container runs: %v", id, l.State, runs)
			}
			if !l.State.Over() {
				if _, err := w.End(w.ctx, w.ada, id); err != nil {
					rt.Fatalf("end %s: %v", id, err)
				}
			}
		}
		w.pass(2 * time.Minute)
		for _, id := range ids {
			w.wantClosed(id)
		}
		if held := w.holders(); len(held) != 0 {
			rt.Fatalf("ended leases hold %v", held)
		}
		for _, h := range hosts {
			if left := h.left(); len(left) != 0 {
				rt.Fatalf("host %s still has %v", h.id, left)
			}
		}
		if b, err := w.billing.Balance(w.ctx, w.ada.AccountID); err != nil || b.Held != 0 || b.UnbilledDue != 0 {
			rt.Fatalf("with no lease left %s is held and %s is due: %v", b.Held, b.UnbilledDue, err)
		}
		if len(w.live) != 0 {
			rt.Fatalf("%d leases that are over are still looked after", len(w.live))
		}
		w.booksAreRight()
		err = db.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			var sum money.Amount
			for _, path := range []string{ledger.Deposits, ledger.Commission, ledger.Wallet(w.ada.AccountID), ledger.Hold(w.ada.AccountID), ledger.Receivable(w.ada.AccountID), ledger.Payable(w.operator.AccountID)} {
				b, err := w.books.Balance(ctx, tx, path, money.USD)
				if err != nil {
					return err
				}
				sum += b
			}
			if sum != 0 {
				return fmt.Errorf("all balances come to %s, want 0", sum)
			}
			return nil
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// mustHold checks what must hold at any time.
func (w *world) mustHold(hosts []*fakeHost, ids []string) {
	w.t.Helper()
	held := w.holders() // by the database's rule no GPU is in it twice
	for _, id := range ids {
		l := w.get(id)
		switch {
		case held[id] != len(l.GPUs):
			w.t.Fatalf("lease %s is %s, says that it has %d GPUs and holds %d", id, l.State, len(l.GPUs), held[id])
		case l.State == Ending: // it may have been stopped before
		case l.State.HoldsCompute() || (l.State == Failed && !l.Cleaned):
			if held[id] != l.Bundle.GPUCount {
				w.t.Fatalf("lease %s is %s and holds %d of %d GPUs", id, l.State, held[id], l.Bundle.GPUCount)
			}
		case held[id] != 0:
			w.t.Fatalf("lease %s is %s and holds %d GPUs", id, l.State, held[id])
		}
		used, _ := w.charged(id)
		if ran := w.host(l.HostID).runtime(id); used > ran {
			w.t.Fatalf("lease %s (%s, %s) is charged for %s and ran %s", id, l.State, l.Code, used, ran)
		}
	}
	for _, h := range hosts {
		user := map[string]string{}
		for _, id := range h.containers() {
			for _, gpu := range h.instances[id].spec.GPUs {
				if other, taken := user[gpu]; taken {
					w.t.Fatalf("leases %s and %s run on %s at once", id, other, gpu)
				}
				user[gpu] = id
			}
		}
	}
}

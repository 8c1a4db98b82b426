package billing_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// stretch is time in the model; an open one has no end.
type stretch struct{ start, end time.Time }

// modelLease is a lease told as a story: what happened, without any money.
type modelLease struct {
	terms  billing.Terms
	runs   []stretch
	kept   []stretch
	bytes  int64
	alive  time.Time
	ended  bool
	replay []func() // every report that was made, to be made again
}

func open(s []stretch) *stretch {
	if n := len(s); n > 0 && s[n-1].end.IsZero() {
		return &s[n-1]
	}
	return nil
}

func clamp(at, lowest, highest time.Time) time.Time {
	if at.After(highest) {
		at = highest
	}
	if at.Before(lowest) {
		at = lowest
	}
	return at
}

func begin(s []stretch, at, now time.Time) []stretch {
	var last time.Time
	if n := len(s); n > 0 {
		last = s[n-1].end
	}
	if at.After(now) {
		at = now
	}
	if at.Before(last) {
		at = last
	}
	return append(s, stretch{start: at})
}

// oracle is what the lease has cost at a moment, in micro-units, in exact
// fractions rounded once a meter (once a month for storage).
func (l *modelLease) oracle(now time.Time) *big.Int {
	total := new(big.Int)
	if len(l.runs) == 0 {
		return total
	}
	t := l.terms.Quote.Tariff
	unit := map[pricing.Granularity]int64{pricing.Second: 1, pricing.Minute: 60, pricing.Hour: 3600}[t.Granularity]
	hours := new(big.Rat)
	var sessions []stretch // runs that touch are one
	for _, r := range l.runs {
		if r.end.IsZero() {
			r.end = clamp(l.alive, r.start, now)
		}
		if !r.end.After(r.start) {
			continue
		}
		if n := len(sessions); n > 0 && sessions[n-1].end.Equal(r.start) {
			sessions[n-1].end = r.end
			continue
		}
		sessions = append(sessions, r)
	}
	for _, r := range sessions {
		s := max(int64(r.end.Sub(r.start)/time.Second), t.MinimumSeconds)
		for s == 0 && unit > 1 || s%unit != 0 {
			s++
		}
		hours.Add(hours, big.NewRat(s, 3600))
	}
	total.Add(total, halfEven(hours.Mul(hours, big.NewRat(int64(t.Compute), 1000))))
	months := map[time.Time]time.Duration{}
	for _, k := range l.kept {
		if k.end.IsZero() {
			k.end = now
		}
		if k.start.Before(l.runs[0].start) {
			k.start = l.runs[0].start
		}
		for at := k.start; at.Before(k.end); {
			first := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
			next := first.AddDate(0, 1, 0)
			if k.end.Before(next) {
				next = k.end
			}
			months[first] += next.Sub(at)
			at = next
		}
	}
	for first, d := range months {
		part := big.NewRat(int64(d/time.Second)*l.terms.Quote.DiskGiB, int64(first.AddDate(0, 1, 0).Sub(first)/time.Second))
		total.Add(total, halfEven(part.Mul(part, big.NewRat(int64(t.Storage), 1000))))
	}
	sent := big.NewRat(l.bytes, 1_000_000_000)
	return total.Add(total, halfEven(sent.Mul(sent, big.NewRat(int64(t.Egress), 1000))))
}

func halfEven(r *big.Rat) *big.Int {
	q, rem := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if c := rem.Lsh(rem, 1).Cmp(r.Denom()); c > 0 || (c == 0 && q.Bit(0) == 1) {
		q.Add(q, big.NewInt(1))
	}
	return q
}

var errCrash = errors.New("crash before the commit")

// Random lives of leases: clocks that are off, reports that repeat and come late,
// crashes before commits, restarts, settlements whenever. Each bill must be what
// the story costs in exact fractions, and the books must balance.
func TestWhateverHappensABillIsItsStoryInExactFractions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, t.Context(), db)
		w.pass(time.Millisecond) // off the round second
		serial := 0
		var renters, providers []string
		rapid.Check(t, func(rt *rapid.T) {
			w.t = rt
			serial++
			renter, provider := fmt.Sprintf("ac-renter-%d", serial), fmt.Sprintf("ac-provider-%d", serial)
			renters, providers = append(renters, renter), append(providers, provider)
			w.deposit(renter, "1000000")
			var leases []*modelLease
			for i := range rapid.IntRange(1, 3).Draw(rt, "leases") {
				terms := w.terms(fmt.Sprintf("ls-%d-%d", serial, i), func(t *pricing.Tariff, r *pricing.Request) {
					t.Compute = money.Rate(rapid.Int64Range(0, 100_000_000_000).Draw(rt, "compute"))
					t.Storage = money.Rate(rapid.Int64Range(0, 1_000_000_000).Draw(rt, "storage"))
					t.Granularity = rapid.SampledFrom([]pricing.Granularity{pricing.Second, pricing.Minute, pricing.Hour}).Draw(rt, "granularity")
					t.MinimumSeconds = rapid.SampledFrom([]int64{0, 60, 90}).Draw(rt, "minimum")
					t.CommissionBasisPoints = rapid.Int64Range(0, 10_000).Draw(rt, "commission")
					r.DiskGiB = rapid.Int64Range(0, 500).Draw(rt, "disk")
				})
				terms.AccountID, terms.ProviderID = renter, provider
				w.begin(terms)
				leases = append(leases, &modelLease{terms: terms})
			}
			// report makes an operation durable, sometimes after a crash or two.
			report := func(op func(ctx context.Context, tx *store.Tx) error) {
				for rapid.IntRange(0, 3).Draw(rt, "crash") == 0 {
					err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error {
						if err := op(ctx, tx); err != nil {
							return err
						}
						return errCrash
					})
					if !errors.Is(err, errCrash) {
						rt.Fatal(err)
					}
					w.restartWith(leases)
				}
				w.do(op)
			}
			for range rapid.IntRange(5, 25).Draw(rt, "steps") {
				now := w.pass(time.Duration(rapid.Int64Range(1, 3*3600*1_000_000).Draw(rt, "pass µs")) * time.Microsecond)
				l := rapid.SampledFrom(leases).Draw(rt, "lease")
				id := l.terms.LeaseID
				// Reports carry times that are off by up to two minutes.
				at := now.Add(time.Duration(rapid.Int64Range(-120_000_000, 120_000_000).Draw(rt, "off µs")) * time.Microsecond)
				switch step := rapid.SampledFrom([]string{"start", "stop", "alive", "alive", "keep", "drop", "send", "settle", "watch", "restart", "replay", "end"}).Draw(rt, "step"); step {
				case "start":
					if l.ended {
						continue
					}
					op := func(ctx context.Context, tx *store.Tx) error { return w.StartCompute(ctx, tx, id, at) }
					report(op)
					if open(l.runs) == nil {
						l.runs = begin(l.runs, at, now)
						l.replay = append(l.replay, func() { w.do(op) })
					}
				case "stop":
					op := func(ctx context.Context, tx *store.Tx) error { return w.StopCompute(ctx, tx, id, at) }
					report(op)
					if r := open(l.runs); r != nil {
						r.end = clamp(at, r.start, now)
						l.replay = append(l.replay, func() { w.do(op) })
					}
				case "keep":
					if l.ended {
						continue
					}
					op := func(ctx context.Context, tx *store.Tx) error { return w.StartStorage(ctx, tx, id, at) }
					report(op)
					if open(l.kept) == nil {
						l.kept = begin(l.kept, at, now)
						l.replay = append(l.replay, func() { w.do(op) })
					}
				case "drop":
					op := func(ctx context.Context, tx *store.Tx) error { return w.StopStorage(ctx, tx, id, at) }
					report(op)
					if k := open(l.kept); k != nil {
						k.end = clamp(at, k.start, now)
						l.replay = append(l.replay, func() { w.do(op) })
					}
				case "alive":
					if l.alive.Before(now) {
						l.alive = now
					}
					w.ConfirmAlive([]string{id, "ls-nobody"}, now)
				case "send":
					bytes := rapid.Int64Range(0, 1_000_000_000_000).Draw(rt, "bytes")
					if bytes/50_000_000_000 > int64(now.Sub(l.terms.Quote.QuotedAt)/time.Second) {
						continue
					}
					report(func(ctx context.Context, tx *store.Tx) error { return w.RecordEgress(ctx, tx, id, bytes, now) })
					if !l.ended {
						l.bytes = max(l.bytes, bytes)
					}
				case "settle":
					w.settle()
				case "watch":
					w.watch()
				case "restart":
					w.restartWith(leases)
				case "replay":
					if len(l.replay) > 0 {
						rapid.SampledFrom(l.replay).Draw(rt, "report")()
					}
				case "end":
					report(func(ctx context.Context, tx *store.Tx) error { return w.EndLease(ctx, tx, id, at) })
					l.end(at, now)
				}
				w.check(leases)
			}
			now := w.pass(time.Second)
			for _, l := range leases {
				w.end(l.terms.LeaseID, now)
				l.end(now, now)
				if b := w.bill(l.terms.LeaseID); b.Unbilled != 0 {
					rt.Fatalf("lease %s has ended with %s unbilled", l.terms.LeaseID, b.Unbilled)
				}
			}
			w.check(leases)
			if held := w.ledgerBalance(ledger.Hold(renter)); held != 0 {
				rt.Fatalf("%s is still held", held)
			}
			w.explains(renter)
			for _, l := range leases {
				w.tellsStory(l)
			}
		})
		w.t = t
		w.right()
		// Money in is money somewhere.
		total := w.ledgerBalance(ledger.Deposits) + w.ledgerBalance(ledger.Commission)
		for i := range renters {
			total += w.ledgerBalance(ledger.Wallet(renters[i])) + w.ledgerBalance(ledger.Hold(renters[i])) + w.ledgerBalance(ledger.Receivable(renters[i])) + w.ledgerBalance(ledger.Payable(providers[i]))
		}
		if total != 0 {
			t.Errorf("all balances come to %s, want 0", total)
		}
		if len(w.orders) != 0 {
			t.Errorf("rich renters were stopped: %v", w.orders)
		}
	})
}

func (l *modelLease) end(at, now time.Time) {
	if l.ended {
		return
	}
	l.ended = true
	for _, s := range []*stretch{open(l.runs), open(l.kept)} {
		if s != nil {
			s.end = clamp(at, s.start, now)
		}
	}
}

// restartWith forgets the service's memory. Heartbeats bring back what it knew.
func (w *world) restartWith(leases []*modelLease) {
	w.restart()
	for _, l := range leases {
		if !l.alive.IsZero() {
			w.ConfirmAlive([]string{l.terms.LeaseID}, l.alive)
		}
	}
}

// check compares every lease with its story.
func (w *world) check(leases []*modelLease) {
	w.t.Helper()
	var earned, posted money.Amount
	for _, l := range leases {
		b := w.bill(l.terms.LeaseID)
		if want := l.oracle(w.clock()); want.Cmp(big.NewInt(int64(b.Total))) != 0 {
			w.t.Fatalf("lease %s is billed %d micro, its story costs %s: runs %v kept %v bytes %d alive %s", b.LeaseID, b.Total, want, l.runs, l.kept, l.bytes, l.alive)
		}
		if b.ProviderShare+b.Commission != b.Total {
			w.t.Fatalf("lease %s: %s + %s is not %s", b.LeaseID, b.ProviderShare, b.Commission, b.Total)
		}
		var lines money.Amount
		for _, line := range b.Lines {
			lines += line.Amount
		}
		if lines != b.Total {
			w.t.Fatalf("lease %s: lines of %s, total %s", b.LeaseID, lines, b.Total)
		}
		cs, err := w.Charges(w.ctx, l.terms.AccountID, b.LeaseID, "", 1000)
		if err != nil {
			w.t.Fatal(err)
		}
		var charged money.Amount
		for _, c := range cs {
			charged += c.Amount
			earned += c.ProviderShare
		}
		if charged != b.Posted {
			w.t.Fatalf("lease %s: charges of %s, posted %s", b.LeaseID, charged, b.Posted)
		}
		posted += b.Posted
	}
	terms := leases[0].terms
	if payable := w.ledgerBalance(ledger.Payable(terms.ProviderID)); payable != earned {
		w.t.Fatalf("the provider is owed %s and earned %s", payable, earned)
	}
	rest := w.ledgerBalance(ledger.Wallet(terms.AccountID)) + w.ledgerBalance(ledger.Hold(terms.AccountID)) + w.ledgerBalance(ledger.Receivable(terms.AccountID))
	if paid := 1_000_000_000_000 - rest; paid != posted {
		w.t.Fatalf("the renter paid %s and was charged %s", paid, posted)
	}
}

// Renters with little money and no disk: whatever happens, compute is never
// charged beyond what there is, and what runs past its money is told to stop.
func TestComputeNeverMakesDebt(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, t.Context(), db)
		serial := 0
		rapid.Check(t, func(rt *rapid.T) {
			w.t = rt
			serial++
			renter := fmt.Sprintf("ac-poor-%d", serial)
			w.deposit(renter, fmt.Sprintf("%d.%06d", rapid.IntRange(11, 30).Draw(rt, "units"), rapid.IntRange(0, 999_999).Draw(rt, "micro")))
			var ids []string
			for i := range rapid.IntRange(1, 3).Draw(rt, "leases") {
				terms := w.terms(fmt.Sprintf("ls-poor-%d-%d", serial, i), func(t *pricing.Tariff, _ *pricing.Request) {
					t.Granularity = rapid.SampledFrom([]pricing.Granularity{pricing.Second, pricing.Minute, pricing.Hour}).Draw(rt, "granularity")
				})
				terms.AccountID = renter
				w.begin(terms)
				w.startCompute(terms.LeaseID, w.clock())
				ids = append(ids, terms.LeaseID)
			}
			for range rapid.IntRange(1, 15).Draw(rt, "steps") {
				now := w.pass(time.Duration(rapid.Int64Range(1, 2*3600).Draw(rt, "pass s")) * time.Second)
				w.ConfirmAlive(ids, now)
				switch rapid.SampledFrom([]string{"watch", "settle", "restart", "stop", "wait"}).Draw(rt, "step") {
				case "watch":
					w.watch()
				case "settle":
					w.settle()
				case "restart":
					w.restart()
				case "stop":
					w.stopCompute(rapid.SampledFrom(ids).Draw(rt, "lease"), now)
				}
			}
			for _, id := range ids {
				w.end(id, w.pass(time.Second))
			}
			if debt := w.ledgerBalance(ledger.Receivable(renter)); debt != 0 {
				rt.Fatalf("a debt of %s", debt)
			}
			w.right()
		})
	})
}

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

const (
	monthLeases   = 100_000
	monthAccount  = 10 // leases of one account
	monthSessions = 20 // of one lease
	monthTogether = 5  // accounts in a transaction
)

// monthStages is how long a month's end took, by its parts.
type monthStages struct{ rate, post, verify, invoice, proof time.Duration }

func (s monthStages) total() time.Duration { return s.rate + s.post + s.verify + s.invoice + s.proof }

func (s monthStages) String() string {
	return fmt.Sprintf("%s (rating %s, posting %s, verification %s; closing the month with invoices %s, proof of everything %s)", s.total().Round(time.Millisecond), s.rate.Round(time.Millisecond),
		s.post.Round(time.Millisecond), s.verify.Round(time.Millisecond), s.invoice.Round(time.Millisecond), s.proof.Round(time.Millisecond))
}

// benchMonthEnd closes a month of 100,000 leases at once, nothing of which was
// posted before: rates each from its quote and all of its use (20 sessions, a disk
// that was kept all month, egress), on all cores; posts the provider's part and the
// commission of each meter to SQLite, synchronous=FULL; and verifies the books. Ours
// is the time of that, the peer four times the time of a quarter of the leases, so
// the ratio is how far from linear it is. To it comes the same number of leases
// whose month the billing service itself closes, with invoices; see invoiceMonth.
func benchMonthEnd(ctx context.Context, w *world) (result, error) {
	leases := monthLeases
	if v := os.Getenv("SUANLI_BENCH_LEASES"); v != "" {
		var err error
		if leases, err = strconv.Atoi(v); err != nil || leases < 1000 {
			return result{}, fmt.Errorf("SUANLI_BENCH_LEASES %q: want a number of at least 1000", v)
		}
	}
	quarter, err := monthEnd(ctx, w, leases/4)
	if err != nil {
		return result{}, err
	}
	whole, err := monthEnd(ctx, w, leases)
	if err != nil {
		return result{}, err
	}
	fmt.Printf("%d leases: %s\n%d leases: %s\n", leases/4, quarter, leases, whole)
	ratio := float64(whole.total()) / float64(4*quarter.total())
	return result{fmt.Sprintf("%.1fs", whole.total().Seconds()), fmt.Sprintf("%.1fs", 4*quarter.total().Seconds()), ratio, ratio <= 1.5 && whole.total() < 5*time.Minute}, nil
}

// monthLease is what a lease used in May 2026, by its number.
func monthLease(q pricing.Quote, n int) (pricing.Quote, pricing.Usage) {
	r := rand.New(rand.NewPCG(5, uint64(n)))
	month := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	q.Tariff.Compute = money.Rate(100_000_000 * int64(1+r.IntN(80)))
	u := pricing.Usage{Storage: []pricing.Interval{{Start: month, End: month.AddDate(0, 1, 0)}}, EgressBytes: r.Int64N(50_000_000_000)}
	for s := range monthSessions {
		start := month.Add(time.Duration(s)*36*time.Hour + time.Duration(r.IntN(3600))*time.Second)
		u.Compute = append(u.Compute, pricing.Interval{Start: start, End: start.Add(time.Duration(60+r.IntN(30*3600)) * time.Second)})
	}
	return q, u
}

func monthEnd(ctx context.Context, w *world, leases int) (s monthStages, err error) {
	path := filepath.Join(w.dir, fmt.Sprintf("month-%d.db", leases))
	defer func() {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			_ = os.Remove(path + suffix)
		}
	}()
	db, err := store.Open(ctx, "sqlite:"+path)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	books, err := ledger.New(db, time.Now)
	if err == nil {
		err = books.Migrate(ctx)
	}
	if err != nil {
		return s, err
	}
	accounts := leases / monthAccount
	account := func(i int) string { return fmt.Sprintf("ac-%06d", i) }
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for first := 0; first < accounts; first += 500 { // a deposit for each, not timed
		var funds []ledger.Transfer
		for i := first; i < min(accounts, first+500); i++ {
			funds = append(funds, ledger.Transfer{Key: ledger.Key(at, "fund", strconv.Itoa(i)), Debit: ledger.Deposits, Credit: ledger.Wallet(account(i)),
				Amount: 1_000_000_000_000, Currency: money.CNY, Code: "deposit"})
		}
		if err := db.Update(ctx, func(ctx context.Context, tx *store.Tx) error { return books.Post(ctx, tx, funds...) }); err != nil {
			return s, err
		}
	}
	quote, err := pricing.NewQuote(pricing.Tariff{Currency: money.CNY, Compute: 1_000_000_000, Storage: 700_000_000, Egress: 500_000_000,
		Granularity: pricing.Second, MinimumSeconds: 60, CommissionBasisPoints: 1500}, pricing.Request{Plan: pricing.OnDemand, DiskGiB: 100, TimeZone: "Asia/Shanghai"}, at)
	if err != nil {
		return s, err
	}

	due := make([]map[pricing.Meter]money.Amount, leases)
	begin := time.Now()
	if err := parallel(leases, runtime.GOMAXPROCS(0), func(i int) (err error) {
		due[i], err = pricing.Due(monthLease(quote, i))
		return err
	}); err != nil {
		return s, err
	}
	s.rate = time.Since(begin)

	begin = time.Now()
	end := at.AddDate(0, 1, 0)
	if err := parallel((accounts+monthTogether-1)/monthTogether, 8, func(part int) error {
		var batch []ledger.Transfer
		for i := part * monthTogether * monthAccount; i < min(leases, (part+1)*monthTogether*monthAccount); i++ {
			for _, m := range []pricing.Meter{pricing.Compute, pricing.Storage, pricing.Egress} {
				provider, commission, err := pricing.Split(due[i][m], quote.Tariff.CommissionBasisPoints)
				if err != nil {
					return err
				}
				id := fmt.Sprintf("ls-%07d", i)
				for _, t := range []struct {
					to     string
					amount money.Amount
				}{{ledger.Payable(fmt.Sprintf("pr-%03d", i%200)), provider}, {ledger.Commission, commission}} {
					if t.amount > 0 {
						batch = append(batch, ledger.Transfer{Key: ledger.Key(end, id, string(m), t.to), Debit: ledger.Wallet(account(i / monthAccount)), Credit: t.to,
							Amount: t.amount, Currency: money.CNY, Code: "charge", Reference: id, EffectiveAt: end})
					}
				}
			}
		}
		return db.Update(ctx, func(ctx context.Context, tx *store.Tx) error { return books.Post(ctx, tx, batch...) })
	}); err != nil {
		return s, err
	}
	s.post = time.Since(begin)

	begin = time.Now()
	report, err := books.Verify(ctx)
	if err == nil && !report.OK() {
		err = fmt.Errorf("the books do not balance: %v", report.Faults)
	}
	s.verify = time.Since(begin)
	if err == nil {
		s.invoice, s.proof, err = invoiceMonth(ctx, w, leases)
	}
	// By another way than the books: what all leases owe is what was taken from the
	// wallets.
	var owed money.Amount
	for _, d := range due {
		for _, a := range d {
			owed += a
		}
	}
	if err == nil && len(report.Sums) == 1 {
		if posted := report.Sums[0].Credits - money.Amount(accounts)*1_000_000_000_000; posted != owed {
			err = fmt.Errorf("%s was posted, %s is due", posted, owed)
		}
	}
	return s, err
}

// parallel calls fn for each number under n, some at a time.
func parallel(n, workers int, fn func(i int) error) error {
	errs := make(chan error, workers)
	next := make(chan int, workers)
	stop := make(chan struct{})
	for range workers {
		go func() {
			for i := range next {
				if err := fn(i); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	go func() {
		defer close(next)
		for i := range n {
			select {
			case next <- i:
			case <-stop:
				return
			}
		}
	}()
	var failed error
	for range workers {
		if err := <-errs; err != nil && failed == nil {
			failed = err
			close(stop)
		}
	}
	return failed
}

package billing_test

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// life is a random history of an account that uses every plan and every way to pay.
type life struct {
	w        *world
	rt       *rapid.T
	renter   string
	open     []string // leases
	running  []string
	reserved []string
	held     []string
	plans    map[string]string
	rated    map[string]time.Time // when a spot price was set last
	keys     int
	serial   int
}

func (l *life) id(kind string) string {
	l.keys++
	return fmt.Sprintf("%s-%s-%d", kind, l.renter, l.keys)
}

// may is an operation that is refused where money is missing or nothing is left.
func (l *life) may(op func(ctx context.Context, tx *store.Tx) error) bool {
	return l.allowed(l.w.db.Update(l.w.ctx, op))
}

func (l *life) allowed(err error) bool {
	if err == nil {
		return true
	}
	if f, ok := fault.As(err); ok && slices.Contains([]string{"insufficient_balance", "invoice_overdue", "nothing_to_credit", "credit_too_large", "invoice_not_overdue", "lease_ended"}, f.Code) {
		return false
	}
	l.rt.Fatal(err)
	return false
}

func without(list []string, id string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(x string) bool { return x == id })
}

func (l *life) pick(of []string) (string, bool) {
	if len(of) == 0 {
		return "", false
	}
	return rapid.SampledFrom(of).Draw(l.rt, "which"), true
}

var combinedSteps = []string{
	"demand", "demand", "list", "spot", "months", "buy", "start", "start", "stop", "send", "lose", "deliver", "early", "evict", "rate",
	"grant", "coupon", "credit", "deposit", "refund", "taken", "note", "forgive", "settle", "watch", "close", "restart", "end", "pass", "pass", "pass", "long",
}

func (l *life) step() {
	w, rt := l.w, l.rt
	now := w.clock()
	switch rapid.SampledFrom(combinedSteps).Draw(rt, "step") {
	case "demand":
		terms := w.bundle(l.id("ls"), rapid.Int64Range(1, 3).Draw(rt, "gpus"))
		terms.Quote = l.quoted(terms.GPUs)
		l.begin(terms, "demand")
	case "list":
		l.priced()
	case "spot":
		l.begin(w.spotTerms(l.id("ls"), "0.20", "0.37"), "spot")
	case "months":
		l.begin(w.monthly(l.id("ls"), "UTC", rapid.SampledFrom([]int{1, 3}).Draw(rt, "months"), false), "months")
	case "buy":
		terms := w.reservation(l.id("rv"), rapid.Int64Range(1, 2).Draw(rt, "gpus"), rapid.IntRange(1, 90).Draw(rt, "hours"),
			rapid.SampledFrom([]pricing.Upfront{pricing.NoUpfront, pricing.PartialUpfront, pricing.AllUpfront}).Draw(rt, "payment"))
		terms.AccountID = l.renter
		if l.may(func(ctx context.Context, tx *store.Tx) error {
			if err := w.BeginReserved(ctx, tx, terms); err != nil {
				return err
			}
			return w.Deliver(ctx, tx, terms.Reservation.ID, terms.Reservation.From.Truncate(time.Hour))
		}) {
			l.reserved, l.held = append(l.reserved, terms.Reservation.ID), append(l.held, terms.Reservation.ID)
		}
	case "start":
		if id, ok := l.pick(l.open); ok && !slices.Contains(l.running, id) {
			if l.may(func(ctx context.Context, tx *store.Tx) error { return w.CheckFunds(ctx, tx, id) }) && l.may(func(ctx context.Context, tx *store.Tx) error { return w.StartCompute(ctx, tx, id, now) }) {
				l.running = append(l.running, id)
			}
		}
	case "stop":
		if id, ok := l.pick(l.running); ok {
			w.stopCompute(id, now.Add(-time.Duration(rapid.IntRange(0, 1500).Draw(rt, "late"))*time.Second))
			l.running = without(l.running, id)
		}
	case "evict":
		if id, ok := l.pick(l.running); ok && l.plans[id] == "spot" {
			w.evict(id, now)
			l.running = without(l.running, id)
		}
	case "rate":
		// Two prices from the same moment on contradict each other, and the later is refused.
		if id, ok := l.pick(l.running); ok && l.plans[id] == "spot" && l.rated[id] != now {
			l.rated[id] = now
			w.setRate(id, rapid.SampledFrom([]string{"0.20", "0.25", "0.37"}).Draw(rt, "rate"), now)
		}
	case "send":
		if id, ok := l.pick(l.running); ok {
			_ = w.egress(id, rapid.Int64Range(0, 5_000_000_000).Draw(rt, "bytes"))
		}
	case "lose":
		if id, ok := l.pick(l.held); ok {
			w.do(func(ctx context.Context, tx *store.Tx) error { return w.Lose(ctx, tx, id, now) })
			l.held = without(l.held, id)
		}
	case "deliver":
		if id, ok := l.pick(l.reserved); ok && !slices.Contains(l.held, id) {
			w.do(func(ctx context.Context, tx *store.Tx) error { return w.Deliver(ctx, tx, id, now) })
			l.held = append(l.held, id)
		}
	case "early":
		if id, ok := l.pick(l.reserved); ok {
			w.do(func(ctx context.Context, tx *store.Tx) error {
				_, err := w.EndReserved(ctx, tx, id, !slices.Contains(l.held, id))
				return err
			})
		}
	case "grant":
		c := billing.CreateGrant{AccountID: l.renter, Amount: money.Amount(rapid.Int64Range(1, 60_000_000).Draw(rt, "cap")), ExpiresAt: now.Add(time.Duration(rapid.Int64Range(1, 500*3600).Draw(rt, "valid s")) * time.Second)}
		if rapid.Bool().Draw(rt, "only compute") {
			c.Meters = []pricing.Meter{pricing.Compute}
		}
		if rapid.Bool().Draw(rt, "of a model") {
			c.GPUModel = "H100"
		}
		w.grant(c)
	case "coupon":
		l.keys++
		code := fmt.Sprintf("C-%d-%d", l.serial, l.keys)
		rule := code + " " + rapid.SampledFrom([]string{"12.5%", "33.3333%", "100%"}).Draw(rt, "share") + " upto=" + rapid.SampledFrom([]string{"0.50CNY", "20.00CNY"}).Draw(rt, "up to")
		if rapid.Bool().Draw(rt, "only compute") {
			rule += " meters=compute"
		}
		w.coupon(rule)
		w.redeem(l.renter, code)
	case "credit":
		l.keys++
		key := fmt.Sprintf("sla %s %d", l.renter, l.keys)
		w.do(func(ctx context.Context, tx *store.Tx) error {
			return w.Give(ctx, tx, l.renter, money.CNY, ledger.Transfer{Key: key, Debit: ledger.Commission, Credit: ledger.Wallet(l.renter),
				Amount: money.Amount(rapid.Int64Range(1, 9_000_000).Draw(rt, "credit")), Currency: money.CNY, Code: "sla_credit", Reference: "ls-somewhere", EffectiveAt: now})
		})
	case "deposit":
		w.deposit(l.renter, rapid.SampledFrom([]string{"3.33", "250"}).Draw(rt, "deposit"))
	case "refund":
		_, err := w.Refund(w.ctx, operator, l.renter, 1_230_000, "", "")
		l.allowed(err)
	case "taken":
		in := billing.Receipt{AccountID: l.renter, Currency: money.CNY, Amount: money.Amount(rapid.Int64Range(1, 90_000_000).Draw(rt, "taken")), Reference: "chargeback", Key: l.id("taken"), At: now}
		w.do(func(ctx context.Context, tx *store.Tx) error { _, _, err := w.GiveBack(ctx, tx, in, true); return err })
		w.Changed(l.renter)
	case "note":
		if list := w.invoices(l.renter); len(list) > 0 {
			v := rapid.SampledFrom(list).Draw(rt, "invoice")
			c := billing.Credit{}
			if n := rapid.IntRange(0, len(v.Lines)-1).Draw(rt, "line"); v.Lines[n].Shown > 10_000 {
				c.Lines = []billing.CreditLine{{Position: n, Amount: 10_000}}
			}
			_, err := w.CreditInvoice(w.ctx, operator, v.ID, c, "")
			l.allowed(err)
		}
	case "forgive":
		for _, st := range l.standings() {
			if st.State == pricing.InvoiceOverdue {
				_, err := w.WriteOff(w.ctx, operator, st.InvoiceID, "gone")
				l.allowed(err)
			}
		}
	case "settle":
		w.settle()
	case "watch":
		w.watch()
	case "close":
		w.closeMonths()
		w.dun()
	case "restart":
		w.restart()
	case "end":
		if id, ok := l.pick(l.open); ok {
			l.end(id)
		}
	case "pass":
		l.pass(time.Duration(rapid.IntRange(1, 40_000).Draw(rt, "seconds")) * 700 * time.Millisecond)
	case "long":
		l.pass(time.Duration(rapid.IntRange(1, 20*24).Draw(rt, "hours")) * time.Hour)
	}
}

// quoted is a price on demand as whoever quotes makes it: perhaps of another currency,
// and by the price list that holds.
func (l *life) quoted(gpus int64) pricing.Quote {
	w, rt, now := l.w, l.rt, l.w.clock()
	tariff := pricing.Tariff{Currency: money.CNY, Compute: mustRate(rt, "3.6"), Storage: mustRate(rt, "70.35"), Egress: mustRate(rt, "0.8"), Granularity: pricing.Second, CommissionBasisPoints: 2000}
	var exchange *pricing.Exchanged
	if rapid.Bool().Draw(rt, "abroad") {
		if _, err := w.ExchangeInForce(w.ctx, money.USD, money.CNY); err != nil {
			w.rate("7.123456789")
		}
		r, _ := w.exchanged()
		tariff.Currency, tariff.Compute, tariff.Storage, tariff.Egress = money.USD, mustRate(rt, "0.51"), mustRate(rt, "9.99"), mustRate(rt, "0.11")
		converted, x, err := r.Tariff(tariff)
		if err != nil {
			rt.Fatal(err)
		}
		tariff, exchange = converted, &x
	}
	list, err := w.PriceListInForce(w.ctx, l.renter, now)
	if err != nil {
		rt.Fatal(err)
	}
	own, applied := tariff, (*pricing.AppliedList)(nil)
	if list != nil {
		if own, applied, err = list.Tariff(tariff, "H100", gpus, now); err != nil {
			rt.Fatal(err)
		}
	}
	q, err := pricing.NewQuote(own, pricing.Request{Plan: pricing.OnDemand, DiskGiB: rapid.Int64Range(0, 9).Draw(rt, "disk")}, now)
	if err != nil {
		rt.Fatal(err)
	}
	q.Exchange = exchange
	if applied != nil {
		q.Listed, q.PriceList = &tariff, applied
	}
	return q
}

// priced gives the renter another price list, or takes away the one that it has.
func (l *life) priced() {
	w, rt := l.w, l.rt
	has, err := w.PriceListsOf(w.ctx, l.renter)
	if err != nil {
		rt.Fatal(err)
	}
	for _, p := range has {
		if err := w.WithdrawPriceList(w.ctx, operator, p.ID, l.renter); err != nil {
			rt.Fatal(err)
		}
	}
	if len(has) > 0 && rapid.Bool().Draw(rt, "none after it") {
		return
	}
	n := billing.NewPriceList{Name: l.id("list"), Currency: money.CNY, Rules: []pricing.PriceRule{{Meter: pricing.Storage, OffPPM: rapid.SampledFrom([]int64{1, 333_333, 1_000_000}).Draw(rt, "off storage")}}}
	compute := pricing.PriceRule{Meter: pricing.Compute, GPUModel: "H100", OffPPM: rapid.SampledFrom([]int64{125_000, 777_777, 1_000_000}).Draw(rt, "off")}
	if rapid.Bool().Draw(rt, "a rate") {
		r := mustRate(rt, rapid.SampledFrom([]string{"0", "0.000000001", "1.7", "9"}).Draw(rt, "rate"))
		compute.OffPPM, compute.Rate = 0, &r
	}
	n.Rules = append(n.Rules, compute)
	w.assign(w.priceList(n).ID, l.renter)
}

func (l *life) standings() []billing.InvoiceStanding {
	list, err := l.w.Standings(l.w.ctx, l.renter)
	if err != nil {
		l.rt.Fatal(err)
	}
	return list
}

func (l *life) begin(terms billing.Terms, plan string) {
	terms.AccountID = l.renter
	if l.may(func(ctx context.Context, tx *store.Tx) error { return l.w.BeginLease(ctx, tx, terms) }) {
		l.open = append(l.open, terms.LeaseID)
		l.plans[terms.LeaseID] = plan
		l.w.startStorage(terms.LeaseID, l.w.clock())
	}
}

func (l *life) end(id string) {
	l.w.end(id, l.w.clock())
	l.open, l.running, l.reserved, l.held = without(l.open, id), without(l.running, id), without(l.reserved, id), without(l.held, id)
}

func (l *life) pass(d time.Duration) {
	now := l.w.pass(d)
	l.w.ConfirmAlive(l.running, now)
	for _, id := range slices.Clone(l.reserved) { // whoever sells reservations ends those that are over
		if r := l.w.reserved(id); !r.End.After(now) {
			l.end(id)
		}
	}
	l.w.watch()
}

// lived is a random history up to its closed last month.
func lived(w *world, rt *rapid.T, serial, steps int) *life {
	l := &life{w: w, rt: rt, renter: fmt.Sprintf("ac-life-%d", serial), serial: serial, plans: map[string]string{}, rated: map[string]time.Time{}}
	w.deposit(l.renter, rapid.SampledFrom([]string{"60", "5000"}).Draw(rt, "money"))
	if rapid.Bool().Draw(rt, "on credit") {
		w.limit(l.renter, "500")
	}
	w.closeMonths()
	for range rapid.IntRange(4, steps).Draw(rt, "steps") {
		l.step()
	}
	for _, id := range slices.Concat(l.open, l.reserved) {
		if slices.Contains(l.reserved, id) {
			w.do(func(ctx context.Context, tx *store.Tx) error { _, err := w.EndReserved(ctx, tx, id, false); return err })
			l.pass(max(0, w.reserved(id).End.Sub(w.clock())))
		}
		if slices.Contains(l.open, id) || slices.Contains(l.reserved, id) {
			l.end(id)
		}
	}
	w.settle()
	w.pass(32 * 24 * time.Hour)
	w.closeMonths()
	return l
}

// monthsSince are the months of a world's time from a moment on.
func (w *world) monthsSince(begun time.Time) (out []string) {
	for m := time.Date(begun.Year(), begun.Month(), 1, 0, 0, 0, 0, time.UTC); m.Before(w.clock()); m = m.AddDate(0, 1, 0) {
		out = append(out, m.Format("2006-01"))
	}
	return out
}

// addsUp checks that an account's exports come to each of its documents, and that
// what is spread of each commitment that is over is what was billed for it.
func (w *world) addsUp(accountID string, begun time.Time) {
	w.t.Helper()
	sums, commitments := map[string]*big.Rat{}, map[string]*big.Rat{}
	add := func(to map[string]*big.Rat, key, amount string, sign int64) {
		if to[key] == nil {
			to[key] = new(big.Rat)
		}
		a := decimal(w.t, amount)
		to[key].Add(to[key], a.Mul(a, big.NewRat(sign, 1)))
	}
	for _, month := range w.monthsSince(begun) {
		for _, r := range w.exported(accountID, month) {
			add(sums, r["InvoiceId"], r["BilledCost"], 1)
			if id := r["CommitmentDiscountId"]; id != "" {
				add(commitments, id, r["BilledCost"], 1)
				add(commitments, id, r["EffectiveCost"], -1)
			}
		}
	}
	equal := func(number string, total money.Amount) {
		want := big.NewRat(int64(total), 1_000_000)
		got := sums[number]
		delete(sums, number)
		if got == nil {
			got = new(big.Rat)
		}
		if got.Cmp(want) != 0 {
			w.t.Errorf("%s is of %s, and its rows come to %s", number, total, got.FloatString(9))
		}
	}
	for _, v := range w.invoices(accountID) {
		equal(v.Number, v.Total)
		notes, err := w.CreditNotes(w.ctx, accountID, v.ID)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, n := range notes {
			equal(n.Number, -n.Total)
		}
	}
	delete(sums, "") // credits for missed availability are on no document
	if len(sums) != 0 {
		w.t.Errorf("rows for documents that are not there: %v", sums)
	}
	for id, left := range commitments {
		if left.Sign() != 0 {
			w.t.Errorf("%s was billed %s more than is spread over its use", id, left.FloatString(9))
		}
	}
}

// Every plan, every way to pay and every way to get money back, in any order.
func TestWhateverHappensExportsComeToTheDocumentsAndEachFigureIsExplained(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		serial := 0
		w := newWorld(t, t.Context(), db, taxed(vat))
		w.now = noon.AddDate(0, -1, 0)
		w.tiers(pricing.Tier{From: 1_000_000, BasisPoints: 777}, pricing.Tier{From: 30_000_000, BasisPoints: 3333})
		rapid.Check(t, func(rt *rapid.T) {
			w.t = rt
			serial++
			// Each life begins on the same day: else every month of every one would be closed
			// for all of them.
			w.now = noon
			w.config.Taxes[0].Inclusive = rapid.Bool().Draw(rt, "included")
			w.restart()
			l := lived(w, rt, serial, 30)
			w.addsUp(l.renter, noon)
			w.tellsUse(l.renter)
			w.explains(l.renter)
			w.explainsTransfers(l.renter)
		})
		w.t = t
		w.right()
	})
}

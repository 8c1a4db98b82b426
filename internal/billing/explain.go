package billing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// ExplanationKind is what an explained figure is.
type ExplanationKind string

// The kinds of explanations.
const (
	ExplainsUse        ExplanationKind = "use"
	ExplainsCorrection ExplanationKind = "correction" // a charge of less than nothing: use turned out to be less
	ExplainsPrepayment ExplanationKind = "prepayment"
	ExplainsUnused     ExplanationKind = "prepayment_back"
	ExplainsCreditNote ExplanationKind = "credit_note"
	ExplainsTransfer   ExplanationKind = "transfer" // a posting that no charge is behind, such as a refund or an SLA credit
)

// Explanation says how a posted figure came about, from what is stored alone.
type Explanation struct {
	Subject    string // of a charge, a transfer or a credit note
	Kind       ExplanationKind
	AccountID  string
	LeaseID    string // empty: it is about no lease
	Meter      pricing.Meter
	Code       string // of a transfer
	Currency   money.Currency
	Simulated  bool
	Amount     money.Amount // as posted; of what was given back less than 0
	Recomputed money.Amount // by the steps
	At         time.Time    // when it was posted
	Steps      []Step
	// Of a transfer: the moment that its key is for, and what transfers of the same
	// code for the same thing and moment came to before it and come to in all.
	KeyedAt     time.Time
	Before, All money.Amount
	zone        *time.Location
}

// OK reports whether computing the figure again gave exactly what was posted.
func (e Explanation) OK() bool { return e.Recomputed == e.Amount }

// Step is one sentence of an explanation: a code that does not change, the values
// in it, and what it adds to the figure, if it does. See Words.
type Step struct {
	Code   string
	Values map[string]string
	Amount *money.Amount
}

// Say adds a step without an amount; values are names and values in turn. It is for
// who adds steps that this package cannot give alone: Conclude has to follow.
func (e *Explanation) Say(code string, values ...string) {
	if n := len(e.Steps); n > 0 && strings.HasPrefix(e.Steps[n-1].Code, "check_") {
		e.Steps = e.Steps[:n-1]
	}
	e.say(code, values...)
}

func (e *Explanation) say(code string, values ...string) {
	e.add(code, nil, values...)
}

func (e *Explanation) add(code string, amount *money.Amount, values ...string) {
	s := Step{Code: code, Values: map[string]string{"currency": string(e.Currency)}, Amount: amount}
	for i := 0; i+1 < len(values); i += 2 {
		s.Values[values[i]] = values[i+1]
	}
	if amount != nil {
		s.Values["amount"] = amount.String()
	}
	e.Steps = append(e.Steps, s)
}

func (e *Explanation) time(t time.Time) string {
	return t.In(e.zone).Format("2006-01-02 15:04:05.999999 -07:00")
}

// Conclude adds the last step: whether the figure follows from the others. It is
// for who adds steps to an explanation that this package cannot give alone.
func (e *Explanation) Conclude() {
	if n := len(e.Steps); n > 0 && strings.HasPrefix(e.Steps[n-1].Code, "check_") {
		e.Steps = e.Steps[:n-1]
	}
	code := "check_right"
	if !e.OK() {
		code = "check_wrong"
	}
	e.say(code, "recomputed", e.Recomputed.String(), "posted", e.Amount.String(), "difference", (e.Amount - e.Recomputed).String())
}

// Explain says how a charge, a transfer or a credit note of an account came about;
// an empty account stands for any. It is a NotFound fault "charge_not_found" if the
// account has none of that identifier (or, of a credit note, number).
func (s *Service) Explain(ctx context.Context, accountID, id string) (Explanation, error) {
	var e Explanation
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		switch {
		case ident.Check(ident.Charge, id) == nil:
			e, err = s.explainCharge(ctx, tx, accountID, id)
		case ident.Check(ident.Transfer, id) == nil:
			e, err = s.explainTransfer(ctx, tx, accountID, id)
		default:
			e, err = s.explainNote(ctx, tx, accountID, id)
		}
		return err
	})
	if err != nil {
		return Explanation{}, err
	}
	e.Conclude()
	return e, nil
}

func noCharge(id string) error {
	return fault.New(fault.NotFound, "charge_not_found", "there is no charge, transfer or credit note %q; `suanli bill charges` lists charges", id)
}

// chargeRow is a charge and when it counts.
type chargeRow struct {
	Charge
	granted        money.Amount // what grants paid of it; less than 0: what went back to them
	booked         time.Time
	listed, earned money.Amount   // of what the provider is paid by, if that is not the account's price
	earnedCurrency money.Currency // empty: it is
}

const selectCharges = `SELECT id, lease_id, account_id, provider_id, meter, currency, amount, provider, commission, granted, listed, earned, earned_currency, simulated, from_at, to_at, posted_at, booked_at FROM billing_charges`

func charges(ctx context.Context, tx *store.Tx, where string, args ...any) ([]chargeRow, error) {
	rows, err := tx.Query(ctx, selectCharges+` WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read charges: %w", err)
	}
	defer rows.Close()
	var out []chargeRow
	for rows.Next() {
		var c chargeRow
		var simulated, from, to, posted, booked int64
		if err := rows.Scan(&c.ID, &c.LeaseID, &c.AccountID, &c.ProviderID, &c.Meter, &c.Currency, &c.Amount, &c.ProviderShare, &c.Commission, &c.granted, &c.listed, &c.earned, &c.earnedCurrency, &simulated, &from, &to, &posted, &booked); err != nil {
			return nil, fmt.Errorf("read charges: %w", err)
		}
		c.Simulated = simulated != 0
		c.From, c.To, c.PostedAt, c.booked = store.Time(from), store.Time(to), store.Time(posted), store.Time(booked)
		out = append(out, c)
	}
	return out, rows.Err()
}

// prepaidCharges matches a lease's charges for compute, in order, with what was
// paid in advance: the charges' places, by the payments'.
func prepaidCharges(l *leaseRow, all []chargeRow) map[string]int {
	out := map[string]int{}
	paid := l.prepayments()
	if paid == nil {
		return out
	}
	next := 0
	for n, p := range *paid {
		if p.Amount == 0 {
			continue
		}
		for i := next; i < len(all); i++ {
			if c := all[i]; c.Meter == pricing.Compute && c.Amount == p.Amount && c.From.Equal(p.From) && c.To.Equal(p.Until) {
				out[c.ID], next = n, i+1
				break
			}
		}
	}
	return out
}

func (s *Service) explainCharge(ctx context.Context, tx *store.Tx, accountID, id string) (Explanation, error) {
	found, err := charges(ctx, tx, `id = ?`, id)
	if err != nil {
		return Explanation{}, err
	}
	if len(found) == 0 || accountID != "" && found[0].AccountID != accountID {
		return Explanation{}, noCharge(id)
	}
	c := found[0]
	l, err := s.lease(ctx, tx, c.LeaseID)
	if err != nil {
		return Explanation{}, err
	}
	all, err := charges(ctx, tx, `lease_id = ? ORDER BY id`, c.LeaseID)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{Subject: c.ID, Kind: ExplainsUse, AccountID: c.AccountID, LeaseID: c.LeaseID, Meter: c.Meter, Currency: c.Currency, Simulated: c.Simulated,
		Amount: c.Amount, At: c.PostedAt, zone: time.UTC}
	if zone, err := time.LoadLocation(l.quote.TimeZone); err == nil {
		e.zone = zone
	}
	e.say("charge", "charge", c.ID, "meter", "@"+string(c.Meter), "lease", c.LeaseID, "amount", c.Amount.String(), "posted_at", e.time(c.PostedAt))
	if c.Simulated {
		e.say("simulated")
	}
	if found, err := s.explainVolume(ctx, tx, &e, c); err != nil || found {
		return e, errors.Join(err, s.onPaperOf(ctx, tx, &e, c))
	}
	prepaid := prepaidCharges(l, all)
	if n, ok := prepaid[c.ID]; ok && l.reserved != nil {
		err = e.reservedPayment(l, n)
	} else if ok {
		err = e.prepayment(l, n)
	} else {
		err = e.use(l, c, all, prepaid)
	}
	if err != nil {
		return Explanation{}, fmt.Errorf("explain charge %s: %w", c.ID, err)
	}
	if err := s.explainShares(ctx, tx, &e, c); err != nil {
		return Explanation{}, err
	}
	e.split(l, c, all)
	if err := s.sources(ctx, tx, &e, c, all, prepaid); err != nil {
		return Explanation{}, err
	}
	if err := s.onPaperOf(ctx, tx, &e, c); err != nil {
		return Explanation{}, err
	}
	for _, later := range all {
		if later.ID > c.ID && later.Meter == c.Meter && later.Amount < 0 {
			if _, advance := prepaid[later.ID]; !advance {
				e.say("corrected", "charge", later.ID, "amount", later.Amount.String(), "posted_at", e.time(later.PostedAt))
			}
		}
	}
	return e, nil
}

// quoteSteps says the terms that a meter is charged by.
func (e *Explanation) quoteSteps(q pricing.Quote) {
	at := e.time(q.QuotedAt)
	if x := q.Exchange; x != nil {
		e.say("quote_exchange", "listed", x.Listed.Rate(e.Meter).Display(), "from", string(x.From), "rate", x.Rate.Display(), "source", x.Source, "since", e.time(x.Since), "rate_id", x.RateID, "converted", beforeOwn(q).Rate(e.Meter).Display())
	}
	if p := q.PriceList; p != nil && q.Listed != nil {
		if rule, ok := p.Rule(e.Meter); ok {
			values := []string{"list", p.Name, "id", p.ID, "listed", q.Listed.Rate(e.Meter).Display(), "own", q.Tariff.Rate(e.Meter).Display()}
			switch {
			case rule.Rate == nil:
				e.say("quote_less", append(values, "off", percentOf(rule.OffPPM))...)
			case e.Meter == pricing.Compute:
				e.say("quote_each", append(values, "each", rule.Rate.Display(), "gpus", strconv.FormatInt(p.GPUs, 10))...)
			default:
				e.say("quote_own", values...)
			}
		}
	}
	switch e.Meter {
	case pricing.Compute:
		if q.Plan == pricing.Reserved {
			e.say("quote_reserved", "quoted_at", at, "rate", q.Tariff.Compute.Display())
			break
		}
		e.say("quote_compute", "quoted_at", at, "plan", "@"+q.Plan, "rate", q.Tariff.Compute.Display(), "granularity", "@"+string(q.Tariff.Granularity), "minimum", strconv.FormatInt(q.Tariff.MinimumSeconds, 10))
		if q.Plan == pricing.Spot {
			e.say("quote_spot", "bid", q.Bid.Display())
			if q.Exchange != nil {
				e.say("quote_spot_exchange", "from", string(q.Exchange.From), "rate_id", q.Exchange.RateID)
			}
		}
		for _, c := range q.PriceChanges {
			e.say("quote_change", "from", e.time(c.From), "rate", c.Compute.Display())
		}
	case pricing.Storage:
		e.say("quote_storage", "quoted_at", at, "gib", strconv.FormatInt(q.DiskGiB, 10), "rate", q.Tariff.Storage.Display(), "zone", q.TimeZone)
	default:
		e.say("quote_bytes", "quoted_at", at, "rate", q.Tariff.Rate(e.Meter).Display())
	}
}

// use says how a charge for use is the difference of two sums.
func (e *Explanation) use(l *leaseRow, c chargeRow, all []chargeRow, prepaid map[string]int) error {
	if c.Amount < 0 {
		e.Kind = ExplainsCorrection
	}
	e.quoteSteps(l.quote)
	var before money.Amount
	earlier := 0
	var last time.Time
	for _, o := range all {
		if _, advance := prepaid[o.ID]; advance || o.Meter != c.Meter || o.ID >= c.ID {
			continue
		}
		before += o.Amount
		earlier, last = earlier+1, latest(last, o.To)
	}
	posted := before + c.Amount
	now, ok, err := l.counts(c.Meter, posted, c.To)
	if err != nil {
		return err
	}
	undone, further := money.Amount(0), 0
	if !ok {
		// Of a moment in which more was learned after this charge was written, only
		// how it stood in the end is known.
		for _, o := range all {
			if _, advance := prepaid[o.ID]; !advance && o.Meter == c.Meter && o.ID > c.ID && o.To.Equal(c.To) {
				undone, further = undone+o.Amount, further+1
			}
		}
		if further > 0 {
			end, right, err := l.counts(c.Meter, posted+undone, c.To)
			if err != nil {
				return err
			}
			if right {
				now, ok = end, true
			} else {
				undone, further = 0, 0
			}
		}
	}
	then, _, err := l.counts(c.Meter, before, earliest(last, c.To))
	if err != nil {
		return err
	}
	if ok && c.Meter == pricing.Compute && now.until.Before(c.To) {
		e.say("counted_until", "until", e.time(now.until), "to", e.time(c.To))
	}
	if now.unknown {
		e.say("end_unknown", "until", e.time(now.until))
	}
	if now.applied {
		e.say("reserved_applied", "covered", strconv.FormatInt(coveredSeconds(now.items), 10))
	}
	e.itemSteps(l, now, then)
	e.say("sum", "sum", now.sum.String())
	if earlier > 0 {
		e.say("charged_before", "before", before.String(), "count", strconv.Itoa(earlier))
	}
	e.Recomputed = now.sum - before - undone
	difference := e.Recomputed
	if further > 0 {
		e.add("difference_at_once", &difference, "sum", now.sum.String(), "before", before.String(), "count", strconv.Itoa(further), "further", undone.String())
	} else if c.Amount < 0 {
		e.add("difference_back", &difference, "sum", now.sum.String(), "before", before.String())
	} else {
		e.add("difference", &difference, "sum", now.sum.String(), "before", before.String())
	}
	return nil
}

// itemSteps says each part of the sum; those that are as they were at the charge
// before in one sentence.
func (e *Explanation) itemSteps(l *leaseRow, now, then counted) {
	derived := pricing.Derive(now.items)
	same := 0
	for same < len(now.items) && same < len(then.items) && now.items[same] == then.items[same] {
		same++
	}
	if same > 0 {
		var sum money.Amount
		for _, d := range derived[:same] {
			sum += d.Amount
		}
		left := derived[same-1].Left
		e.say("items_before", "count", strconv.Itoa(same), "until", e.time(derived[same-1].Interval.End), "sum", sum.String(), "left", pricing.FractionText(left))
	}
	for _, d := range derived[same:] {
		values := []string{
			"used", strconv.FormatInt(d.Used, 10), "charged", strconv.FormatInt(d.Charged, 10), "per", strconv.FormatInt(d.Per, 10), "rate", d.Rate.Display(),
			"exact", pricing.FractionText(d.Exact), "carried", pricing.FractionText(d.Carried), "left", pricing.FractionText(d.Left), "amount", d.Amount.String(),
		}
		if !d.Interval.Start.IsZero() {
			from, to := l.sourcesOf(d.Item, now.until)
			values = append(values, "from", e.time(d.Interval.Start), "to", e.time(d.Interval.End), "from_source", from, "to_source", to)
		}
		switch {
		case d.Meter == pricing.Compute && d.Waived:
			e.say("run_waived", append(values, "free", strconv.FormatInt(l.quote.EvictionFreeSeconds, 10))...)
		case d.Meter == pricing.Compute && d.Covered && l.monthly == nil:
			e.say("run_reserved", values...)
		case d.Meter == pricing.Compute && d.Covered:
			e.say("run_covered", values...)
		case l.reserved != nil:
			e.say("run_held", values...)
		case d.Meter == pricing.Compute:
			why := "@counts_exactly"
			switch {
			case d.Charged == d.Used:
			case d.Interval.Resumes:
				why = "@counts_resumed"
			case d.Used < l.quote.Tariff.MinimumSeconds:
				why = "@counts_minimum"
			default:
				why = "@counts_started_" + string(l.quote.Tariff.Granularity)
			}
			e.say("run", append(values, "why", why)...)
		case d.Interval.Start.IsZero():
			e.say("bytes", values...)
		case d.Meter == pricing.PublicIP:
			e.say("hours", values...)
		default:
			e.say("month", values...)
		}
	}
}

// sourcesOf says where the ends of an item are from.
func (l *leaseRow) sourcesOf(it pricing.Item, until time.Time) (from, to string) {
	from, to = "@source_price", "@source_price"
	if it.Meter != pricing.Compute {
		from, to = "@source_month", "@source_month"
	}
	reported := func(asked, counted time.Time) string {
		switch {
		case asked.After(counted):
			return "@source_received"
		case asked.Before(counted):
			return "@source_clipped"
		}
		return "@source_host"
	}
	var first time.Time
	for _, i := range l.intervals {
		if i.meter == pricing.Compute {
			first = earliest(first, i.start)
		}
	}
	if it.Meter == pricing.Storage && it.Interval.Start.Equal(first) {
		from = "@source_first_run"
	}
	for _, i := range l.intervals {
		if i.meter != it.Meter {
			continue
		}
		if i.start.Equal(it.Interval.Start) {
			from = reported(i.askedStart, i.start)
			if i.resumes {
				from = "@source_resumed"
			}
		}
		switch end := it.Interval.End; {
		case !i.limit.IsZero() && i.limit.Equal(end):
			to = "@source_limit_" + string(i.limitReason)
		case !i.end.IsZero() && i.end.Equal(end):
			if to = reported(i.askedEnd, i.end); i.evicted {
				to = "@source_evicted"
			}
		case end.Equal(until) && i.start.Before(end) && (i.end.IsZero() || i.end.After(end) || it.Meter == pricing.Compute && to == "@source_price"):
			to = "@source_alive"
			if it.Meter != pricing.Compute {
				to = "@source_settled"
			}
		}
	}
	return from, to
}

// advanceExchange says by which rate a price of what is paid in advance came to be.
func (e *Explanation) advanceExchange(l *leaseRow) {
	x := l.quote.Exchange
	if x == nil {
		return
	}
	listed, converted := "", ""
	switch {
	case l.monthly != nil:
		listed, converted = l.monthly.listedPerMonth.Display(), l.monthly.terms.PerMonth.Display()
	case l.reserved.terms.Listed != nil:
		listed, converted = l.reserved.terms.Listed.ListHourly.Display(), l.reserved.terms.ListHourly.Display()
	}
	e.say("quote_exchange", "listed", listed, "from", string(x.From), "rate", x.Rate.Display(), "source", x.Source, "since", e.time(x.Since), "rate_id", x.RateID, "converted", converted)
}

// prepayment says how a payment in advance came about.
func (e *Explanation) prepayment(l *leaseRow, n int) error {
	e.Kind = ExplainsPrepayment
	e.advanceExchange(l)
	m := l.monthly
	p := m.payments[n]
	// The price in force before it.
	terms := m.renewing()
	terms.PerMonth, terms.BasisPoints = p.PerMonth, p.BasisPoints
	values := []string{
		"from", e.time(p.From), "until", e.time(p.Until), "months", strconv.Itoa(terms.TermMonths), "per_month", p.PerMonth.Display(),
		"discount", percent(p.BasisPoints), "amount", p.Amount.String(), "zone", terms.TimeZone,
	}
	switch p.Kind {
	case PaidTerm, PaidRenewal:
		price, err := terms.TermPrice()
		if err != nil {
			return err
		}
		e.Recomputed = price
		e.say("prepaid_"+string(p.Kind), append(values, "price", price.String())...)
	case PaidChange:
		old := terms
		for _, q := range m.payments[:n] {
			if q.Kind != PaidBack {
				old.PerMonth, old.BasisPoints = q.PerMonth, q.BasisPoints
			}
		}
		change, err := old.Change(p.PerMonth, p.BasisPoints, p.From)
		if err != nil {
			return err
		}
		e.Recomputed = change.Net
		e.say("prepaid_change", append(values, "old_per_month", old.PerMonth.Display(), "old_discount", percent(old.BasisPoints), "credit", change.Credit.String(), "cost", change.Charge.String(), "net", change.Net.String())...)
	case PaidBack:
		e.Kind = ExplainsUnused
		if m.code == TermUnused {
			for _, q := range m.payments[:n] {
				e.Recomputed -= q.Amount
			}
			e.say("prepaid_unused", values...)
			break
		}
		back, err := m.back(m.ended, m.code)
		if err != nil {
			return err
		}
		e.Recomputed = -back
		code := "prepaid_back"
		if m.code == TermHostLost {
			code = "prepaid_lost"
		}
		e.say(code, append(values, "paid", m.paid.String(), "since", e.time(m.since), "used", (m.paid-back).String(), "back", back.String())...)
	}
	return nil
}

// percentOf writes millionths as per cent, without the sign.
func percentOf(share int64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%04d", share/10_000, share%10_000), "0"), ".")
}

func percent(basisPoints int64) string {
	return strings.TrimSuffix(fmt.Sprintf("%d.%02d", basisPoints/100, basisPoints%100), ".00")
}

// split says who gets a charge.
func (e *Explanation) split(l *leaseRow, c chargeRow, all []chargeRow) {
	if _, apart := l.quote.Apart(); apart {
		e.splitApart(l, c)
		return
	}
	e.say("split", "provider", c.ProviderShare.String(), "commission", c.Commission.String(), "share", percent(l.quote.Tariff.CommissionBasisPoints))
	var before money.Amount // all, since the split is of the whole
	for _, o := range all {
		if o.Meter == c.Meter && o.ID < c.ID {
			before += o.Amount
		}
	}
	p, q, err := shareOf(before+c.Amount, before, l.quote.Tariff.CommissionBasisPoints)
	if err == nil && (p != c.ProviderShare || q != c.Commission) {
		e.say("split_wrong", "provider", p.String(), "commission", q.String())
	}
}

// splitApart says who gets a charge whose provider is paid by other prices than the
// account pays.
func (e *Explanation) splitApart(l *leaseRow, c chargeRow) {
	e.say("split_listed", "listed", c.listed.String(), "earned", c.earned.String(), "paid_in", string(c.earnedCurrency),
		"share", percent(10_000-l.quote.Tariff.CommissionBasisPoints), "provider", c.ProviderShare.String(), "commission", c.Commission.String())
	if l.quote.Exchange != nil {
		e.say("split_exchanged", "provider", c.ProviderShare.String(), "earned", c.earned.String(), "paid_in", string(c.earnedCurrency))
	}
}

// beforeOwn is a quote's tariff before the account's own prices.
func beforeOwn(q pricing.Quote) pricing.Tariff {
	if q.Listed != nil {
		return *q.Listed
	}
	return q.Tariff
}

// payments is what paid charges that were paid together: of a lease at a moment, or
// one payment in advance.
type payments struct {
	owed, moved money.Amount
	together    int
	sums        []paidBy
}

// paidBy is what came from an account, or went back to it.
type paidBy struct {
	path string
	back bool
	sum  money.Amount
}

// paymentsOf finds what paid a charge.
func (s *Service) paymentsOf(ctx context.Context, tx *store.Tx, c chargeRow, all []chargeRow, prepaid map[string]int) (payments, error) {
	var out payments
	_, advance := prepaid[c.ID]
	from, until := c.To, c.To
	if advance {
		// It counts when it was paid, which is just before it was written.
		from, until = c.PostedAt.Add(-time.Minute), c.PostedAt
	}
	// Of several payments in advance of a moment, what was written between one
	// charge and the next has paid it: identifiers are in the order of writing.
	next := ""
	for _, o := range all {
		if o.ID > c.ID && next == "" {
			next = o.ID
		}
		if _, other := prepaid[o.ID]; advance && o.ID == c.ID || !advance && !other && o.To.Equal(c.To) {
			out.owed += o.Amount
			out.together++
		}
	}
	transfers, err := s.cfg.Ledger.About(ctx, tx, from, until, c.LeaseID)
	if err != nil {
		return out, err
	}
	pot := func(path string) bool {
		return path == ledger.Commission || path == ledger.Payable(c.ProviderID) || path == ledger.Exchange
	}
	for _, t := range transfers {
		isAdvance := t.Code == CodePrepayment || t.Code == CodeUnusedPaid
		if !isAdvance && t.Code != CodeCharge && t.Code != CodeCorrection || isAdvance != advance || pot(t.Credit) == pot(t.Debit) {
			continue
		}
		if advance && (written(t.ID) < written(c.ID) || next != "" && written(t.ID) > written(next)) {
			continue
		}
		path, back, sign := t.Debit, false, money.Amount(1)
		if pot(t.Debit) {
			path, back, sign = t.Credit, true, -1
		}
		i := slices.IndexFunc(out.sums, func(p paidBy) bool { return p.path == path && p.back == back })
		if i < 0 {
			i, out.sums = len(out.sums), append(out.sums, paidBy{path: path, back: back})
		}
		out.sums[i].sum += t.Amount
		out.moved += sign * t.Amount
	}
	return out, nil
}

// sources says from where a charge was paid, whatever the money is.
func (s *Service) sources(ctx context.Context, tx *store.Tx, e *Explanation, c chargeRow, all []chargeRow, prepaid map[string]int) error {
	paid, err := s.paymentsOf(ctx, tx, c, all, prepaid)
	if err != nil {
		return err
	}
	if c.granted != 0 {
		code := "granted"
		if c.granted < 0 {
			code = "granted_back"
		}
		e.say(code, "sum", c.granted.String(), "back", (-c.granted).String(), "rest", (c.Amount - c.granted).String())
	}
	if paid.together > 1 {
		e.say("paid_together", "count", strconv.Itoa(paid.together), "sum", paid.owed.String())
	}
	for _, k := range paid.sums {
		code := "paid_from"
		if k.back {
			code = "paid_back_to"
		}
		e.say(code, "sum", k.sum.String(), "source", sourceOf(k.path), "path", k.path)
	}
	if paid.moved != paid.owed {
		e.say("paid_wrong", "moved", paid.moved.String(), "owed", paid.owed.String())
	}
	return nil
}

// written is the part of an identifier that says when it was made.
func written(id string) string {
	_, made, _ := strings.Cut(id, "-")
	return made
}

// sourceOf names a ledger account for people: one that has no name by its path.
func sourceOf(path string) string {
	if path == ledger.Commission || path == ledger.Deposits || path == ledger.Rounding || path == ledger.WrittenOff {
		return "@pot_" + strings.TrimPrefix(path, "platform/")
	}
	switch {
	case strings.HasPrefix(path, "account/"), strings.HasPrefix(path, "provider/"):
		if word := "@pot_" + path[strings.LastIndex(path, "/")+1:]; explained(word) {
			return word
		}
	case strings.HasPrefix(path, "platform/tax/"):
		return "@pot_tax"
	case path == "platform/promotions":
		return "@pot_promotions"
	}
	return path
}

// onPaperOf says on which invoice a charge is, with its taxes and rounding, and
// which credit notes take back of it.
func (s *Service) onPaperOf(ctx context.Context, tx *store.Tx, e *Explanation, c chargeRow) error {
	if c.booked.After(c.To) && !c.booked.Equal(c.PostedAt) {
		e.say("booked_late", "to", e.time(c.To), "booked", e.time(c.booked))
	}
	found, err := documents[Invoice](ctx, tx, `account_id = ? AND corrects = '' AND period_start < ? AND period_end >= ?`, c.AccountID, store.Micros(c.booked), store.Micros(c.booked))
	if err != nil {
		return err
	}
	if len(found) == 0 {
		e.say("invoice_to_come")
		return nil
	}
	v := found[0]
	var places []any
	for i, l := range v.Lines {
		if l.LeaseID != c.LeaseID || l.Meter != c.Meter {
			continue
		}
		places = append(places, i)
		code := "invoice_line"
		if l.Correction {
			code = "invoice_correction"
		}
		e.say(code, "invoice", v.Number, "line", strconv.Itoa(i+1), "sum", l.Amount.String(), "shown", minorText(l.Shown))
		for n, t := range v.Taxes {
			code := "tax_added"
			if t.Inclusive {
				code = "tax_included"
			}
			e.say(code, "tax", t.Jurisdiction+" "+t.Name, "rate", ppmText(t.PPM), "sum", minorText(l.Tax[n]))
		}
	}
	e.say("invoice_rounding", "invoice", v.Number, "exact", v.Exact.String(), "subtotal", minorText(v.Subtotal), "rounding", v.Rounding.String(), "total", minorText(v.Total))
	if len(places) == 0 {
		return nil
	}
	notes, err := documents[CreditNote](ctx, tx, `corrects = ? ORDER BY id`, v.ID)
	if err != nil {
		return err
	}
	for _, n := range notes {
		for _, l := range n.Lines {
			if slices.Contains(places, any(l.Position)) {
				e.say("credited", "note", n.Number, "line", strconv.Itoa(l.Position+1), "sum", minorText(l.Amount), "reason", reasonText(n.Reason))
			}
		}
	}
	return nil
}

func reasonText(reason string) string {
	if reason == "" {
		return "@no_reason"
	}
	return reason
}

func minorText(a money.Amount) string { return strings.TrimSuffix(a.String(), "0000") }

// ppmText writes a rate in parts per million in percent.
func ppmText(ppm int64) string {
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%d.%04d", ppm/10_000, ppm%10_000), "0"), ".")
}

// explainTransfer says what a transfer is; one that pays a charge leads to it.
func (s *Service) explainTransfer(ctx context.Context, tx *store.Tx, accountID, id string) (Explanation, error) {
	t, err := s.cfg.Ledger.Get(ctx, tx, id)
	if f, ok := fault.As(err); ok && f.Kind == fault.NotFound {
		return Explanation{}, noCharge(id)
	}
	if err != nil {
		return Explanation{}, err
	}
	owner := ""
	for _, side := range []string{"account/", "provider/"} {
		for _, path := range []string{t.Debit, t.Credit} {
			if rest, ok := strings.CutPrefix(path, side); ok && owner == "" {
				owner, _, _ = strings.Cut(rest, "/")
			}
		}
	}
	if accountID != "" && owner != accountID {
		return Explanation{}, noCharge(id)
	}
	e := Explanation{Subject: t.ID, Kind: ExplainsTransfer, AccountID: owner, Code: t.Code, Currency: t.Currency, Amount: t.Amount, At: t.PostedAt, zone: time.UTC}
	e.say("transfer", "transfer", t.ID, "sum", t.Amount.String(), "from", sourceOf(t.Debit), "to", sourceOf(t.Credit), "code", codeWord(t.Code), "reference", t.Reference, "posted_at", e.time(t.PostedAt))
	e.Recomputed = t.Amount
	if ident.Check(ident.Lease, t.Reference) == nil {
		e.LeaseID = t.Reference
	}
	if head, _, ok := strings.Cut(t.Key, ":"); ok && len(head) == 14 {
		if micros, err := strconv.ParseInt(head, 16, 64); err == nil {
			e.KeyedAt = time.UnixMicro(micros).UTC()
		}
	}
	if !e.KeyedAt.IsZero() {
		same, err := s.cfg.Ledger.About(ctx, tx, e.KeyedAt, e.KeyedAt, t.Reference)
		if err != nil {
			return Explanation{}, err
		}
		for _, o := range same {
			if o.Code == t.Code && o.Debit == t.Debit && o.Credit == t.Credit {
				e.All += o.Amount
				if o.ID < t.ID {
					e.Before += o.Amount
				}
			}
		}
	}
	switch t.Code {
	case CodeCharge, CodeCorrection, CodePrepayment, CodeUnusedPaid:
		err = s.explainPaying(ctx, tx, &e, t)
	case CodeTax, CodeRounding:
		err = s.explainInvoiced(ctx, tx, &e, t)
	case CodeCredit:
		err = s.explainCredited(ctx, tx, &e, t)
	case CodeVolume:
		err = s.explainVolumeTransfer(ctx, tx, &e, t)
	case CodeGrant, CodeGrantExpired:
		err = s.explainGrant(ctx, tx, &e, t)
	case CodeWriteOff:
		err = s.explainWriteOff(ctx, tx, &e, t)
	case CodeShortfall:
		e.say("shortfall")
	case CodePaidBack:
		err = s.explainPaidBack(ctx, tx, &e, t)
	}
	return e, err
}

func codeWord(code string) string {
	if w := "@code_" + code; explained(w) {
		return w
	}
	return code
}

// explainNote says how a credit note came about.
func (s *Service) explainNote(ctx context.Context, tx *store.Tx, accountID, id string) (Explanation, error) {
	where, args := named(id)
	if accountID != "" {
		where, args = where+` AND account_id = ?`, append(args, accountID)
	}
	found, err := documents[CreditNote](ctx, tx, `corrects <> '' AND `+where, args...)
	if err != nil {
		return Explanation{}, err
	}
	if len(found) == 0 {
		return Explanation{}, noCharge(id)
	}
	n := found[0]
	invoices, err := documents[Invoice](ctx, tx, `id = ?`, n.InvoiceID)
	if err == nil && len(invoices) == 0 {
		err = errors.New("its invoice is not there")
	}
	if err != nil {
		return Explanation{}, fmt.Errorf("explain %s: %w", n.Number, err)
	}
	v := invoices[0]
	e := Explanation{Subject: n.Number, Kind: ExplainsCreditNote, AccountID: n.AccountID, Currency: n.Currency, Amount: -n.Total, At: n.IssuedAt, zone: time.UTC}
	if zone, err := time.LoadLocation(v.Customer.TimeZone); err == nil {
		e.zone = zone
	}
	e.say("note", "note", n.Number, "invoice", n.Invoice, "posted_at", e.time(n.IssuedAt), "total", minorText(n.Total), "reason", reasonText(n.Reason))
	done, err := creditedBefore(ctx, tx, v, n.ID)
	if err != nil {
		return Explanation{}, err
	}
	take := make([]money.Amount, len(v.Lines))
	for _, l := range n.Lines {
		if l.Position < 0 || l.Position >= len(v.Lines) {
			return Explanation{}, fmt.Errorf("explain %s: it takes back line %d of an invoice of %d", n.Number, l.Position, len(v.Lines))
		}
		take[l.Position] = l.Amount
	}
	sums, _, err := v.arithmetic().Credit(done, take)
	if err != nil {
		return Explanation{}, fmt.Errorf("explain %s: %w", n.Number, err)
	}
	for _, l := range n.Lines {
		line := v.Lines[l.Position]
		back := -l.Amount
		e.add("note_line", &back, "line", strconv.Itoa(l.Position+1), "lease", line.LeaseID, "meter", "@"+string(line.Meter), "sum", minorText(l.Amount), "shown", minorText(line.Shown), "before", minorText(done[l.Position]))
		for i, t := range v.Taxes {
			if sums.Tax[l.Position][i] == 0 {
				continue
			}
			code := "note_tax_added"
			if t.Inclusive {
				code = "tax_included"
			}
			e.say(code, "tax", t.Jurisdiction+" "+t.Name, "rate", ppmText(t.PPM), "sum", minorText(sums.Tax[l.Position][i]))
		}
	}
	e.Recomputed = -sums.Total
	e.say("note_total", "total", minorText(sums.Total))
	if n.Refunded {
		e.say("note_refunded")
	}
	return e, nil
}

// creditedBefore is what the notes before one have taken back of each line.
func creditedBefore(ctx context.Context, tx *store.Tx, v Invoice, noteID string) (pricing.Credited, error) {
	done := make(pricing.Credited, len(v.Lines))
	rows, err := tx.Query(ctx, `SELECT document FROM billing_invoices WHERE corrects = ? AND id < ? ORDER BY id`, v.ID, noteID)
	if err != nil {
		return nil, fmt.Errorf("credits of %s: %w", v.Number, err)
	}
	defer rows.Close()
	for rows.Next() {
		var text []byte
		var n CreditNote
		if err := rows.Scan(&text); err != nil {
			return nil, fmt.Errorf("credits of %s: %w", v.Number, err)
		}
		if err := json.Unmarshal(text, &n); err != nil {
			return nil, fmt.Errorf("credits of %s: %w", v.Number, err)
		}
		for _, l := range n.Lines {
			if l.Position >= 0 && l.Position < len(done) {
				done[l.Position] += l.Amount
			}
		}
	}
	return done, rows.Err()
}

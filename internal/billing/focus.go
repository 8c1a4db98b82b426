package billing

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
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

// FocusVersion is the version of the FinOps Open Cost and Usage Specification that
// exports have. 1.2 is the newest that has every column which version 1.0 requires,
// and that is what the public validator knows: a file can be checked by it.
const FocusVersion = "1.2"

// FocusColumns are the columns of an export, in order; those that suanli has no
// use for (capacity reservations, a pricing currency that is not the billing
// currency, several kinds of billing accounts) are conditional and left out.
var FocusColumns = []string{
	"AvailabilityZone", "BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart",
	"ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart",
	"CommitmentDiscountCategory", "CommitmentDiscountId", "CommitmentDiscountName", "CommitmentDiscountQuantity", "CommitmentDiscountStatus",
	"CommitmentDiscountType", "CommitmentDiscountUnit", "ConsumedQuantity", "ConsumedUnit", "ContractedCost", "ContractedUnitPrice", "EffectiveCost",
	"InvoiceId", "InvoiceIssuer", "ListCost", "ListUnitPrice", "PricingCategory", "PricingQuantity", "PricingUnit", "Provider", "Publisher",
	"RegionId", "RegionName", "ResourceId", "ResourceName", "ResourceType", "ServiceCategory", "ServiceName", "ServiceSubcategory",
	"SkuId", "SkuMeter", "SkuPriceDetails", "SkuPriceId", "SubAccountId", "SubAccountName", "Tags", "x_Simulated",
}

// FocusNumbers are the columns that hold numbers.
var FocusNumbers = []string{
	"BilledCost", "CommitmentDiscountQuantity", "ConsumedQuantity", "ContractedCost", "ContractedUnitPrice", "EffectiveCost", "ListCost", "ListUnitPrice", "PricingQuantity",
}

// FocusRow is a row of an export: its values by column. A column without a value is
// null.
type FocusRow map[string]string

// FocusResource is what other services know of a lease.
type FocusResource struct {
	Name, Region, RegionName, Zone, Model string
	Labels                                map[string]string
}

// leasesPerExport is how many leases of an export are in memory together.
const leasesPerExport = 100

// Focus passes the rows of an account's month, such as "2026-11" by the account's
// zone, to emit, a page of leases at a time. What is billed adds up to the month's
// invoice exactly, and by InvoiceId to each document. A month that is not closed has
// what is posted so far, without an invoice. about says what is known of leases.
func (s *Service) Focus(ctx context.Context, accountID, month string, about func(ctx context.Context, leaseIDs []string) (map[string]FocusResource, error), emit func(FocusRow) error) error {
	party, err := s.Profile(ctx, accountID)
	if err != nil {
		return err
	}
	first, err := time.Parse("2006-01", month)
	if err != nil || first.Year() < 2000 { // before any cloud
		return fault.New(fault.Invalid, "period_invalid", "the period %q is not a month; want one such as 2026-11", month).At("query.period")
	}
	f := focus{s: s, party: party, accountID: accountID, emit: emit}
	var leases []string
	if err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		return f.find(ctx, tx, first.AddDate(0, 0, 14).Add(12*time.Hour))
	}); err != nil {
		return err
	}
	for last := ""; ; last = leases[len(leases)-1] {
		if leases, err = s.accountsWhere(ctx, `SELECT DISTINCT lease_id FROM billing_charges WHERE account_id = ? AND booked_at > ? AND booked_at <= ? AND lease_id > ?
			UNION SELECT lease_id FROM billing_monthly WHERE term_until > ? AND lease_id > ? AND lease_id IN (SELECT lease_id FROM billing_leases WHERE account_id = ? AND begun_at < ?)
			ORDER BY lease_id LIMIT `+strconv.Itoa(leasesPerExport),
			accountID, store.Micros(f.start), store.Micros(f.end), last, store.Micros(f.start), last, accountID, store.Micros(f.end)); err != nil {
			return err
		}
		if len(leases) == 0 {
			break
		}
		known := map[string]FocusResource{}
		if about != nil {
			if known, err = about(ctx, leases); err != nil {
				return err
			}
		}
		var rows []FocusRow
		if err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
			for _, id := range leases {
				r, err := f.lease(ctx, tx, id, known[id])
				if err != nil {
					return fmt.Errorf("export lease %s: %w", id, err)
				}
				rows = append(rows, r...)
			}
			return nil
		}); err != nil {
			return err
		}
		if err := f.emitAll(rows); err != nil {
			return err
		}
	}
	var rows []FocusRow
	if err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		rows, err = f.papers(ctx, tx)
		return err
	}); err != nil {
		return err
	}
	if err := f.emitAll(rows); err != nil {
		return err
	}
	return f.reservations(ctx, about)
}

// focus is one export.
type focus struct {
	s          *Service
	party      Party
	accountID  string
	currency   money.Currency
	start, end time.Time
	invoice    *Invoice // nil: the month is open, or nothing was used
	emit       func(FocusRow) error
}

func (f *focus) emitAll(rows []FocusRow) error {
	for _, r := range rows {
		if err := f.emit(r); err != nil {
			return err
		}
	}
	return nil
}

// find looks up the month that a moment is in.
func (f *focus) find(ctx context.Context, tx *store.Tx, at time.Time) error {
	a, err := scanAccount(tx.QueryRow(ctx, selectAccount, f.accountID))
	if err == nil {
		f.currency = a.currency
	} else if f.currency, err = f.s.cfg.CurrencyOf(ctx, f.accountID); err != nil {
		return err
	}
	m, err := pricing.MonthOf(at, f.party.TimeZone)
	if err != nil {
		return err
	}
	f.start, f.end = m.Start, m.End
	var start, end int64
	micros := store.Micros(at)
	for _, table := range []string{"billing_statements", "billing_periods"} {
		if err := tx.QueryRow(ctx, `SELECT start_at, end_at FROM `+table+` WHERE account_id = ? AND start_at <= ? AND end_at > ?`, f.accountID, micros, micros).Scan(&start, &end); err == nil {
			f.start, f.end = store.Time(start), store.Time(end)
			break
		}
	}
	found, err := documents[Invoice](ctx, tx, `account_id = ? AND corrects = '' AND period_start = ?`, f.accountID, store.Micros(f.start))
	if err == nil && len(found) > 0 {
		f.invoice = &found[0]
	}
	return err
}

func focusTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// focusDigits is how many digits after the point a quantity has that is not a
// finite decimal. Costs are products of it, and so exact.
const focusDigits = 12

func focusQuantity(num, den int64) *big.Rat {
	text := big.NewRat(num, max(1, den)).FloatString(focusDigits)
	r, _ := new(big.Rat).SetString(text)
	return r
}

// focusNumber writes a decimal without digits that say nothing.
func focusNumber(r *big.Rat) string {
	text := r.FloatString(2*focusDigits + 9)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

func focusMoney(a money.Amount) string {
	return focusNumber(new(big.Rat).SetFrac64(int64(a), 1_000_000))
}

func focusRate(r money.Rate) *big.Rat { return new(big.Rat).SetFrac64(int64(r), 1_000_000_000) }

// row is a row with what all have.
func (f *focus) row(category, frequency, description string, from, to time.Time, billed money.Amount) FocusRow {
	issuer := f.s.cfg.Issuer
	if issuer == "" {
		issuer = "suanli"
	}
	issuer, _, _ = strings.Cut(issuer, "\n")
	r := FocusRow{
		"BilledCost": focusMoney(billed), "EffectiveCost": focusMoney(billed), "ListCost": focusMoney(billed), "ContractedCost": focusMoney(billed),
		"BillingAccountId": f.accountID, "BillingAccountName": f.party.Name, "BillingCurrency": string(f.currency),
		"BillingPeriodStart": focusTime(f.start), "BillingPeriodEnd": focusTime(f.end), "ChargeCategory": category, "ChargeFrequency": frequency, "ChargeDescription": description,
		"ChargePeriodStart": focusTime(from), "ChargePeriodEnd": focusTime(to), "InvoiceIssuer": issuer, "Provider": issuer, "Publisher": issuer,
		"ServiceCategory": "Compute", "ServiceName": "GPU rental", "ServiceSubcategory": "Containers", "x_Simulated": "false",
	}
	if f.invoice != nil {
		r["InvoiceId"] = f.invoice.Number
	}
	return r
}

// about adds what is known of a lease.
func (r FocusRow) about(l *leaseRow, m pricing.Meter, known FocusResource) {
	r["ResourceId"], r["ResourceType"], r["ResourceName"] = l.id, "Lease", known.Name
	r["RegionId"], r["RegionName"], r["AvailabilityZone"] = known.Region, known.RegionName, known.Zone
	if known.RegionName == "" {
		r["RegionName"] = known.Region
	}
	if l.kept {
		r["ResourceType"] = "Volume"
		if ident.Check(ident.Snapshot, l.id) == nil {
			r["ResourceType"] = "Snapshot"
		}
	}
	if l.simulated {
		r["x_Simulated"] = "true"
	}
	if len(known.Labels) > 0 {
		if text, err := json.Marshal(known.Labels); err == nil {
			r["Tags"] = string(text)
		}
	}
	sku := string(m)
	if m == pricing.Compute && known.Model != "" {
		sku += "/" + known.Model
	}
	r["SkuId"], r["SkuPriceId"], r["SkuMeter"] = sku, sku+"/"+l.quote.Plan, string(m)
	details := map[string]string{"x_Plan": l.quote.Plan}
	if m == pricing.Compute {
		details["x_Granularity"] = string(l.quote.Tariff.Granularity)
	}
	if text, err := json.Marshal(details); err == nil {
		r["SkuPriceDetails"] = string(text)
	}
	switch m {
	case pricing.Storage, pricing.Snapshot, pricing.Volume:
		r["ServiceCategory"], r["ServiceSubcategory"], r["ServiceName"] = "Storage", "Block Storage", "Disks"
	case pricing.Egress, pricing.Ingress, pricing.PublicIP:
		r["ServiceCategory"], r["ServiceSubcategory"], r["ServiceName"] = "Networking", "Network Connectivity", "Network"
	}
}

// price says what a quantity costs at a rate. The costs are the products, to the
// last digit.
func (r FocusRow) price(rate, quantity *big.Rat, unit string) {
	cost := focusNumber(new(big.Rat).Mul(rate, quantity))
	r["ListUnitPrice"], r["ContractedUnitPrice"] = focusNumber(rate), focusNumber(rate)
	r["PricingQuantity"], r["PricingUnit"] = focusNumber(quantity), unit
	r["ListCost"], r["ContractedCost"] = cost, cost
}

// lease makes the rows of one lease in the month.
func (f *focus) lease(ctx context.Context, tx *store.Tx, id string, known FocusResource) ([]FocusRow, error) {
	l, err := f.s.lease(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	all, err := charges(ctx, tx, `lease_id = ? AND booked_at <= ? ORDER BY id`, id, store.Micros(f.end))
	if err != nil {
		return nil, err
	}
	var rows []FocusRow
	prepaid := prepaidCharges(l, all)
	var usedCovered int64
	for _, m := range pricing.Meters {
		var before, after money.Amount
		var t0, t1 time.Time
		for _, c := range all {
			if _, advance := prepaid[c.ID]; advance || c.Meter != m {
				continue
			}
			after += c.Amount
			t1 = latest(t1, c.To)
			if !c.booked.After(f.start) {
				before += c.Amount
				t0 = latest(t0, c.To)
			}
		}
		if m == pricing.Compute && l.monthly != nil {
			t0, t1 = f.start, latest(t1, earliest(f.end, latest(l.settled, l.confirmed)))
		}
		if t1.IsZero() || after == before && l.monthly == nil {
			continue
		}
		was, _, err := l.counts(m, before, t0)
		if err != nil {
			return nil, err
		}
		now, _, err := l.counts(m, after, t1)
		if err != nil {
			return nil, err
		}
		left := after - before
		for _, it := range grown(was.items, now.items) {
			if it.Covered { // by months in advance, or by a reservation; see reservations
				usedCovered += it.Used
				continue
			}
			left -= it.Amount
			if l.reserved != nil {
				rows = append(rows, f.reservedHours(l, it))
				continue
			}
			rows = append(rows, f.use(l, it, known))
		}
		if left != 0 {
			// What is known by now of the use gives another sum than what was posted.
			r := f.row("Usage", "Usage-Based", "what was posted beside the known use of "+string(m), f.start, f.end, left)
			r.about(l, m, known)
			r["ChargeClass"], r["PricingCategory"] = "Correction", focusCategory(l)
			if l.reserved != nil {
				r["ChargeCategory"], r["ChargeFrequency"], r["EffectiveCost"] = "Purchase", "Recurring", "0"
				r.reserved(l)
				r.reservation(l, new(big.Rat))
			}
			rows = append(rows, r)
		}
	}
	for _, c := range all {
		if n, advance := prepaid[c.ID]; advance && c.booked.After(f.start) {
			if l.reserved != nil {
				rows = append(rows, f.reservedPaid(l, l.reserved.payments[n]))
				continue
			}
			rows = append(rows, f.purchase(l, l.monthly.payments[n], known))
		}
	}
	for _, m := range pricing.Meters {
		var given money.Amount
		for _, c := range all {
			if c.Meter == m && c.booked.After(f.start) {
				given += c.granted
			}
		}
		if given != 0 {
			rows = append(rows, f.granted(l, m, given, known))
		}
	}
	if l.monthly != nil {
		rows = append(rows, f.commitment(l, known, usedCovered)...)
	}
	return rows, nil
}

// grown is what later items have more than earlier ones of the same use.
func grown(was, now []pricing.Item) []pricing.Item {
	type key struct {
		start   int64
		covered bool
		rate    money.Rate
	}
	keyOf := func(it pricing.Item) key { return key{it.Interval.Start.UnixMicro(), it.Covered, it.Rate} }
	old := map[key]pricing.Item{}
	for _, it := range was {
		old[keyOf(it)] = it
	}
	var out []pricing.Item
	for _, it := range now {
		k := keyOf(it)
		if o, ok := old[k]; ok {
			delete(old, k)
			if o.Used == it.Used && o.Charged == it.Charged && o.Amount == it.Amount {
				continue
			}
			it.Used, it.Charged, it.Amount = it.Used-o.Used, it.Charged-o.Charged, it.Amount-o.Amount
			if it.Interval.End.After(o.Interval.End) {
				it.Interval.Start = o.Interval.End
			}
		}
		out = append(out, it)
	}
	for _, it := range was {
		if o, ok := old[keyOf(it)]; ok {
			o.Used, o.Charged, o.Amount = -o.Used, -o.Charged, -o.Amount
			out = append(out, o)
			delete(old, keyOf(it))
		}
	}
	return out
}

func focusCategory(l *leaseRow) string {
	if l.quote.Plan == pricing.Spot {
		return "Dynamic"
	}
	return "Standard"
}

// use is the row of an item of use.
func (f *focus) use(l *leaseRow, it pricing.Item, known FocusResource) FocusRow {
	from, to := it.Interval.Start, it.Interval.End
	if from.IsZero() {
		from, to = latest(f.start, l.begun), earliest(f.end, latest(l.ended, l.settled))
	}
	units := map[pricing.Meter][2]string{
		pricing.Compute: {"Seconds", "Hours"}, pricing.Storage: {"GiB-Seconds", "GiB-Months"}, pricing.Snapshot: {"GiB-Seconds", "GiB-Months"}, pricing.Volume: {"GiB-Seconds", "GiB-Months"},
		pricing.Egress: {"B", "GB"}, pricing.Ingress: {"B", "GB"}, pricing.PublicIP: {"Seconds", "Hours"},
	}[it.Meter]
	r := f.row("Usage", "Usage-Based", fmt.Sprintf("%s of lease %s: %d counts as %d %s", it.Meter, l.id, it.Used, it.Charged, units[0]), from, to, it.Amount)
	r.about(l, it.Meter, known)
	r["PricingCategory"] = focusCategory(l)
	if it.Meter != pricing.Compute {
		r["PricingCategory"] = "Standard"
	}
	r["ConsumedQuantity"], r["ConsumedUnit"] = strconv.FormatInt(it.Used, 10), units[0]
	quantity := focusQuantity(it.Charged, it.Per)
	r.price(focusRate(it.Rate), quantity, units[1])
	if l.quote.Listed != nil { // the account has a price of its own
		listed := focusRate(l.quote.Listed.Rate(it.Meter))
		r["ListUnitPrice"], r["ListCost"] = focusNumber(listed), focusNumber(listed.Mul(listed, quantity))
	}
	// Of a month that was closed before it was learned of.
	if f.invoice != nil && !to.After(f.start) || it.Charged < 0 || it.Amount < 0 {
		r["ChargeClass"] = "Correction"
	}
	return r
}

// commit says which months in advance a row is about.
func (r FocusRow) commit(l *leaseRow, hours *big.Rat) {
	r["CommitmentDiscountId"], r["CommitmentDiscountCategory"] = l.id+"/months", "Usage"
	r["CommitmentDiscountName"], r["CommitmentDiscountType"] = fmt.Sprintf("%d months in advance", l.monthly.terms.TermMonths), "Months in advance"
	r["CommitmentDiscountQuantity"], r["CommitmentDiscountUnit"] = focusNumber(hours), "Hours"
}

// purchase is the row of a payment in advance. It is spread over the use that it
// covers, so its own effective cost is nothing.
func (f *focus) purchase(l *leaseRow, p Prepayment, known FocusResource) FocusRow {
	frequency := "One-Time"
	if l.monthly.renews || p.Kind == PaidRenewal {
		frequency = "Recurring"
	}
	r := f.row("Purchase", frequency, fmt.Sprintf("months in advance of lease %s (%s)", l.id, p.Kind), p.From, p.Until, p.Amount)
	r.about(l, pricing.Compute, known)
	r["EffectiveCost"], r["PricingCategory"] = "0", "Standard"
	unit := new(big.Rat).SetFrac64(int64(p.PerMonth), 1_000_000)
	months := focusQuantity(int64(l.monthly.terms.TermMonths), 1)
	if p.Kind == PaidChange || p.Kind == PaidBack {
		months = focusQuantity(int64(p.Amount), int64(p.PerMonth))
		if p.Kind == PaidBack && f.invoice != nil && l.monthly.from.Before(f.start) {
			r["ChargeClass"] = "Correction"
		}
	}
	r.price(unit, months, "Months")
	r.commit(l, focusQuantity(int64(p.Until.Sub(p.From)/time.Second), 3600))
	return r
}

// amortised is how much of what was paid in advance belongs to the time before a
// moment: in proportion to time, and all of it when the months are over.
func (m *monthlyRow) amortised(at time.Time) (sum money.Amount) {
	over := !m.inForce() && !at.Before(m.ended)
	for _, p := range m.payments {
		switch {
		case over || !at.Before(p.Until):
			sum += p.Amount
		case at.After(p.From):
			sum += portion(p.Amount, money.Amount(at.Sub(p.From).Microseconds()), money.Amount(p.Until.Sub(p.From).Microseconds()))
		}
	}
	return sum
}

// commitment are the rows of what was paid in advance for the month: the part that
// was used, and the part that was not.
func (f *focus) commitment(l *leaseRow, known FocusResource, used int64) []FocusRow {
	m := l.monthly
	c := m.covered()
	from, to := latest(f.start, c.Start), earliest(f.end, c.End, latest(f.s.cfg.Clock(), f.start))
	cost := m.amortised(to) - m.amortised(f.start)
	if !to.After(from) {
		from, to = f.start, f.end
		if cost == 0 {
			return nil
		}
	}
	seconds := max(int64(to.Sub(from)/time.Second), 1)
	used = min(used, seconds)
	share := portion(cost, money.Amount(used), money.Amount(seconds))
	var rows []FocusRow
	for _, part := range []struct {
		status string
		n      int64
		cost   money.Amount
	}{{"Used", used, share}, {"Unused", seconds - used, cost - share}} {
		if part.n == 0 && part.cost == 0 {
			continue
		}
		r := f.row("Usage", "Usage-Based", fmt.Sprintf("months in advance of lease %s: %s", l.id, strings.ToLower(part.status)), from, to, 0)
		r.about(l, pricing.Compute, known)
		hours := focusQuantity(part.n, 3600)
		r.price(focusRate(l.quote.Tariff.Compute), hours, "Hours")
		r.commit(l, hours)
		r["EffectiveCost"], r["PricingCategory"], r["CommitmentDiscountStatus"] = focusMoney(part.cost), "Committed", part.status
		if part.status == "Used" {
			r["ConsumedQuantity"], r["ConsumedUnit"] = strconv.FormatInt(part.n, 10), "Seconds"
		}
		rows = append(rows, r)
	}
	return rows
}

// codeSLACredit is the code of credits that another service posts to wallets.
const codeSLACredit = "sla_credit"

// papers are the rows of documents: rounding, taxes, credit notes, and credits for
// missed availability.
func (f *focus) papers(ctx context.Context, tx *store.Tx) ([]FocusRow, error) {
	var rows []FocusRow
	other := func(r FocusRow) FocusRow {
		r["ServiceCategory"], r["ServiceSubcategory"], r["ServiceName"] = "Other", "Other (Other)", "Billing"
		return r
	}
	if v := f.invoice; v != nil {
		if v.Rounding != 0 {
			rows = append(rows, other(f.row("Adjustment", "One-Time", "rounding of invoice "+v.Number, f.start, f.end, v.Rounding)))
		}
		for _, t := range v.Taxes {
			if !t.Inclusive && t.Amount != 0 {
				rows = append(rows, other(f.row("Tax", "One-Time", fmt.Sprintf("%s %s at %s %%", t.Jurisdiction, t.Name, ppmText(t.PPM)), f.start, f.end, t.Amount)))
			}
		}
	}
	notes, err := documents[CreditNote](ctx, tx, `account_id = ? AND corrects <> '' AND issued_at >= ? AND issued_at < ? ORDER BY id`, f.accountID, store.Micros(f.start), store.Micros(f.end))
	if err != nil {
		return nil, err
	}
	for _, n := range notes {
		r := other(f.row("Credit", "One-Time", "credit note "+n.Number+" on invoice "+n.Invoice, f.start, f.end, -n.Total))
		r["InvoiceId"], r["ChargeClass"] = n.Number, "Correction"
		rows = append(rows, r)
	}
	st, err := f.s.cfg.Ledger.Statement(ctx, tx, ledger.Wallet(f.accountID), f.currency, f.start, f.end)
	if err != nil {
		return nil, err
	}
	for _, m := range st.Movements {
		if m.Code == codeSLACredit && m.In != m.Out {
			r := other(f.row("Credit", "One-Time", "credit for missed availability of lease "+m.Reference, f.start, f.end, m.Out-m.In))
			delete(r, "InvoiceId")
			r["ResourceId"], r["ResourceType"] = m.Reference, "Lease"
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// Values is the row in the order of FocusColumns.
func (r FocusRow) Values() []string {
	out := make([]string, len(FocusColumns))
	for i, c := range FocusColumns {
		out[i] = r[c]
	}
	return out
}

// MarshalJSON writes the row with its columns in order, numbers as numbers with all
// of their digits, and what is null as null.
func (r FocusRow) MarshalJSON() ([]byte, error) {
	var out strings.Builder
	for i, c := range FocusColumns {
		sep := ","
		if i == 0 {
			sep = "{"
		}
		value := []byte("null")
		if v, ok := r[c]; ok && v != "" {
			value = []byte(v)
			if c != "Tags" && c != "SkuPriceDetails" && !slices.Contains(FocusNumbers, c) {
				var err error
				if value, err = json.Marshal(v); err != nil {
					return nil, err
				}
			}
		}
		fmt.Fprintf(&out, "%s%q:%s", sep, c, value)
	}
	out.WriteString("}")
	return []byte(out.String()), nil
}

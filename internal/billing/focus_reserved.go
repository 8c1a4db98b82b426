package billing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"time"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// A reservation is a commitment: what is paid for it are purchases, whose cost is
// spread over the hours that it was held for. What leases had of an hour is their
// row of use, which is billed nothing; what nobody had is the reservation's own.

// granted is the row of what grants paid of a meter of a lease in the month, which
// is not billed. Less than 0: a correction gave so much back to them.
func (f *focus) granted(l *leaseRow, m pricing.Meter, amount money.Amount, known FocusResource) FocusRow {
	r := f.row("Credit", "One-Time", fmt.Sprintf("grants paid for %s of lease %s", m, l.id), f.start, f.end, -amount)
	r.about(l, m, known)
	// It has no price of its own.
	delete(r, "SkuId")
	delete(r, "SkuPriceId")
	delete(r, "SkuMeter")
	delete(r, "SkuPriceDetails")
	if amount < 0 {
		r["ChargeClass"] = "Correction"
	}
	return r
}

// reservation says which reservation a row is about, for so many GPU-hours.
func (r FocusRow) reservation(l *leaseRow, hours *big.Rat) {
	t := l.reserved.terms
	r["CommitmentDiscountId"], r["CommitmentDiscountCategory"] = l.id, "Usage"
	r["CommitmentDiscountName"] = fmt.Sprintf("%d × %s in %s", t.GPUs, t.GPUModel, l.zone)
	r["CommitmentDiscountType"] = "Reservation (" + string(t.Payment) + " upfront)"
	r["CommitmentDiscountQuantity"], r["CommitmentDiscountUnit"] = focusNumber(hours), "GPU-Hours"
}

// reserved adds what is known of a reservation, which is no lease.
func (r FocusRow) reserved(l *leaseRow) {
	r.about(l, pricing.Compute, FocusResource{Zone: l.zone, Model: l.gpuModel})
	r["ResourceType"], r["PricingCategory"] = "Reservation", "Standard"
}

func gpuHours(l *leaseRow, seconds int64) *big.Rat {
	return new(big.Rat).Mul(focusQuantity(seconds, 3600), new(big.Rat).SetInt64(l.reserved.terms.GPUs))
}

// reservedHours is the row of a reservation's hours that were held and paid for by
// the hour. They are spread over use, so their own effective cost is nothing.
func (f *focus) reservedHours(l *leaseRow, it pricing.Item) FocusRow {
	r := f.row("Purchase", "Recurring", fmt.Sprintf("hours of reservation %s: %d s", l.id, it.Used), it.Interval.Start, it.Interval.End, it.Amount)
	r.reserved(l)
	hours := gpuHours(l, it.Charged)
	r["EffectiveCost"] = "0"
	r.price(focusRate(l.reserved.terms.Hourly), hours, "GPU-Hours")
	r.reservation(l, hours)
	if f.invoice != nil && !it.Interval.End.After(f.start) || it.Charged < 0 || it.Amount < 0 {
		r["ChargeClass"] = "Correction"
	}
	return r
}

// reservedPaid is the row of what was paid upfront, or came back of it.
func (f *focus) reservedPaid(l *leaseRow, p Prepayment) FocusRow {
	what := map[PrepaymentKind]string{PaidUpfront: "paid upfront for reservation ", PaidLost: "back for lost time of reservation ", PaidEarly: "early end of reservation "}[p.Kind]
	r := f.row("Purchase", "One-Time", what+l.id, p.From, p.Until, p.Amount)
	r.reserved(l)
	r["EffectiveCost"] = "0"
	amount, quantity := p.Amount, int64(1)
	if amount < 0 {
		amount, quantity = -amount, -1
	}
	r.price(new(big.Rat).SetFrac64(int64(amount), 1_000_000), new(big.Rat).SetInt64(quantity), "Units")
	from, _ := window(l.reserved.terms)
	r.reservation(l, gpuHours(l, int64(p.Until.Sub(p.From)/time.Second)))
	if f.invoice != nil && p.Kind != PaidUpfront && from.Before(f.start) {
		r["ChargeClass"] = "Correction"
	}
	return r
}

// reservedUse is what a lease had of a reservation in the month, or, without a
// lease, what nobody had.
type reservedUse struct {
	reservation, lease string
	from, to           time.Time
	seconds            int64 // of the lease's bundle; of what nobody had, GPU-seconds
	cost               money.Amount
}

// reservations passes on the rows of what the month's hours of reservations cost:
// those that leases had, those that nobody had, and what an early end changed.
func (f *focus) reservations(ctx context.Context, about func(ctx context.Context, leaseIDs []string) (map[string]FocusResource, error)) error {
	var leases []*leaseRow
	if err := f.s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		a, err := scanAccount(tx.QueryRow(ctx, selectAccount, f.accountID))
		if errors.Is(err, store.ErrNoRows) || err == nil && !a.reserves {
			return nil
		}
		if err == nil {
			leases, err = f.s.loadLeases(ctx, tx, `account_id = ? AND begun_at < ? AND (ended_at = 0 OR ended_at >= ?)`, f.accountID, store.Micros(f.end), store.Micros(f.start.Add(-time.Hour)))
		}
		return err
	}); err != nil || len(leases) == 0 {
		return err
	}
	now := f.s.cfg.Clock()
	byID := map[string]*leaseRow{}
	for _, l := range leases {
		byID[l.id] = l
	}
	reservations, runs := inputs(leases, now, func(l *leaseRow) time.Time { return latest(l.confirmed, f.s.lastAlive(l.id)) })
	// An hour is of the month in which it begins.
	since := f.start.UTC().Truncate(time.Hour)
	if since.Before(f.start) {
		since = since.Add(time.Hour)
	}
	applied, err := pricing.ApplySince(reservations, runs, since, earliest(f.end, now))
	if err != nil {
		return fmt.Errorf("export reservations: %w", err)
	}
	uses := map[[2]string]*reservedUse{}
	add := func(reservation, lease string, hour time.Time, seconds int64, cost money.Amount) {
		if seconds == 0 && cost == 0 {
			return
		}
		key := [2]string{reservation, lease}
		u := uses[key]
		if u == nil {
			u = &reservedUse{reservation: reservation, lease: lease, from: latest(hour, f.start)}
			uses[key] = u
		}
		u.seconds, u.cost, u.to = u.seconds+seconds, u.cost+cost, earliest(hour.Add(time.Hour), f.end)
	}
	for _, h := range applied.Hours {
		for _, u := range h.Leases {
			add(h.ReservationID, u.LeaseID, h.Hour, u.Seconds, u.Cost)
		}
		add(h.ReservationID, "", h.Hour, h.Unused, h.UnusedCost)
	}
	var ordered []*reservedUse
	var ids []string
	for _, u := range uses {
		ordered, ids = append(ordered, u), append(ids, u.lease)
	}
	slices.SortFunc(ordered, func(a, b *reservedUse) int {
		return cmp.Or(cmp.Compare(a.reservation, b.reservation), cmp.Compare(a.lease, b.lease))
	})
	slices.Sort(ids)
	ids = slices.DeleteFunc(slices.Compact(ids), func(id string) bool { return id == "" })
	known := map[string]FocusResource{}
	if about != nil && len(ids) > 0 {
		if known, err = about(ctx, ids); err != nil {
			return err
		}
	}
	var rows []FocusRow
	for _, u := range ordered {
		rows = append(rows, f.reservedUse(byID[u.reservation], byID[u.lease], u, known[u.lease]))
	}
	for _, l := range leases {
		if l.reserved == nil || !l.reserved.end.After(f.start) || l.reserved.end.After(f.end) || l.reserved.end.After(now) {
			continue
		}
		r, err := f.reservedRest(l, now)
		if err != nil {
			return fmt.Errorf("export reservation %s: %w", l.id, err)
		}
		if r != nil {
			rows = append(rows, r)
		}
	}
	return f.emitAll(rows)
}

func (f *focus) reservedUse(reservation, l *leaseRow, u *reservedUse, known FocusResource) FocusRow {
	status, described := "Used", fmt.Sprintf("reservation %s pays for compute of lease %s: %d s", u.reservation, u.lease, u.seconds)
	if l == nil {
		status, described = "Unused", fmt.Sprintf("reservation %s: nobody used %d GPU·s", u.reservation, u.seconds)
	}
	r := f.row("Usage", "Usage-Based", described, u.from, u.to, 0)
	if l == nil {
		hours := focusQuantity(u.seconds, 3600)
		r.reserved(reservation)
		r.price(focusRate(reservation.reserved.terms.Hourly), hours, "GPU-Hours")
		r.reservation(reservation, hours)
	} else {
		hours := focusQuantity(u.seconds, 3600)
		r.about(l, pricing.Compute, known)
		r.price(focusRate(l.quote.Tariff.Compute), hours, "Hours")
		r.reservation(reservation, new(big.Rat).Mul(hours, new(big.Rat).SetInt64(l.gpus)))
		r["ConsumedQuantity"], r["ConsumedUnit"] = strconv.FormatInt(u.seconds, 10), "Seconds"
	}
	r["EffectiveCost"], r["PricingCategory"], r["CommitmentDiscountStatus"] = focusMoney(u.cost), "Committed", status
	return r
}

// reservedRest is the row of what a reservation that is over cost beside the price
// of its hours, which is what an early end came to: so what is spread over use adds
// up to what was billed.
func (f *focus) reservedRest(l *leaseRow, now time.Time) (FocusRow, error) {
	due, err := l.rated(usageUntil(l, now, now, time.Time{}))
	if err != nil {
		return nil, err
	}
	from, until := window(l.reserved.terms)
	hours, err := pricing.ApplySince([]pricing.Reservation{l.delivered(now)}, nil, from, until)
	if err != nil {
		return nil, err
	}
	rest := due[pricing.Compute]
	for _, h := range hours.Hours {
		rest -= h.Cost
	}
	if rest == 0 {
		return nil, nil
	}
	at := earliest(l.reserved.end, f.end)
	r := f.row("Usage", "Usage-Based", "early end of reservation "+l.id, latest(f.start, at.Add(-time.Hour)), at, 0)
	none := new(big.Rat)
	r.reserved(l)
	r.price(focusRate(l.reserved.terms.Hourly), none, "GPU-Hours")
	r.reservation(l, none)
	r["EffectiveCost"], r["PricingCategory"], r["CommitmentDiscountStatus"] = focusMoney(rest), "Committed", "Unused"
	return r, nil
}

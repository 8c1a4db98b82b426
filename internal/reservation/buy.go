package reservation

import (
	"context"
	"fmt"
	"strings"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// furthest is how far ahead a reservation can begin: its GPUs are held from its
// begin on, and nobody can promise for long that they are free then.
const furthest = 31 * 24 * time.Hour

// Request is what somebody wants to reserve: by an offer, or else by model and
// number where it is cheapest.
type Request struct {
	OfferID   string
	GPUModel  string
	GPUs      int
	Region    string // empty: any
	Zone      string // empty: any
	Simulated bool   // without an offer: of simulated GPUs
	Months    int    // or
	Until     time.Time
	Begins    time.Time // zero: now
	Payment   pricing.Upfront
}

// Quote is what a reservation costs. Nothing of it is frozen: who buys it names the
// total that was agreed to.
type Quote struct {
	Offer  fleet.Offer
	Priced pricing.Priced
	// Exchange is how the price came to be in the account's currency; nil: the host asks
	// for that.
	Exchange *pricing.Exchanged
	TimeZone string
	Schedule []pricing.Instalment
	// BreakEven is from how many hours of use on it is cheaper than on demand.
	BreakEvenHours int64
	QuotedAt       time.Time
}

func invalid(field, code, format string, args ...any) error {
	return fault.New(fault.Invalid, code, format, args...).At(field)
}

// Quote prices a reservation for the caller's account.
func (s *Service) Quote(ctx context.Context, p account.Principal, r Request) (*Quote, error) {
	now := s.Clock().UTC().Truncate(time.Microsecond)
	currency, zone, err := s.Account(ctx, p.AccountID)
	if err != nil {
		return nil, err
	}
	if r.Payment == "" {
		r.Payment = pricing.NoUpfront
	}
	from := r.Begins.UTC().Truncate(time.Microsecond)
	if r.Begins.IsZero() {
		from = now
	}
	switch {
	case s.Bounds.MaxMonths < 1:
		return nil, fault.New(fault.Conflict, "not_offered", "this cloud sells no reservations")
	case r.Months < 0 || r.Months > s.Bounds.MaxMonths:
		return nil, invalid("body.term_months", "invalid_term", "a term of %d months was asked for; this cloud sells 1 to %d, or until a moment", r.Months, s.Bounds.MaxMonths)
	case (r.Months == 0) == r.Until.IsZero():
		return nil, invalid("body.term_months", "invalid_term", "want either term_months or until")
	case r.Payment != pricing.NoUpfront && r.Payment != pricing.PartialUpfront && r.Payment != pricing.AllUpfront:
		return nil, invalid("body.payment", "invalid_payment", "payment is %q; want none, partial or all", r.Payment)
	case from.Before(now) || from.Sub(now) > furthest:
		return nil, invalid("body.begins_at", "invalid_begin", "begins_at is %s; want now to %d days ahead", from.Format(time.RFC3339), furthest/(24*time.Hour))
	case r.Months == 0 && r.Until.Sub(from) < time.Hour:
		return nil, invalid("body.until", "invalid_term", "until is %s; want at least an hour after the begin", r.Until.Format(time.RFC3339))
	}
	offer, err := s.offer(ctx, p, r, zone)
	if err != nil {
		return nil, err
	}
	if offer.GPUCount < 1 {
		return nil, invalid("body.offer_id", "offer_unfit", "the offer %s has no GPU; reservations are of GPUs", offer.ID)
	}
	if offer.Reserve == nil {
		return nil, fault.New(fault.Conflict, "not_offered", "host %s offers no reservations; ask without an offer, to find one that does", offer.HostID)
	}
	rate, err := s.exchange(ctx, offer.Price.Currency, currency)
	if err != nil {
		return nil, err
	}
	priced, exchange, err := reserve(pricing.Purchase{
		ID: "new", GPUModel: offer.GPUModel, Zone: offer.Zone, GPUs: int64(offer.GPUCount), Currency: offer.Price.Currency,
		ListHourly: offer.Price.Compute / money.Rate(offer.GPUCount), From: from, TimeZone: zone, Months: r.Months, Until: r.Until, Payment: r.Payment,
		Commission: offer.Price.CommissionBasisPoints,
	}, *offer.Reserve, s.Bounds, rate)
	if err != nil {
		return nil, invalid("body", "cannot_price", "this cannot be priced: %v; ask for less", err)
	}
	q := &Quote{Offer: offer, Priced: priced, Exchange: exchange, TimeZone: zone, QuotedAt: now}
	if q.Schedule, err = priced.Reservation.Schedule(zone); err != nil {
		return nil, err
	}
	q.BreakEvenHours = (priced.Hours*priced.BreakEven + 9_999) / 10_000
	return q, nil
}

// exchange is the rate by which an account pays what a host asks for; nil: it is in the
// account's currency.
func (s *Service) exchange(ctx context.Context, from, to money.Currency) (*pricing.ExchangeRate, error) {
	if from == to {
		return nil, nil
	}
	rate, err := s.Money.ExchangeInForce(ctx, from, to)
	return &rate, err
}

// reserve prices a reservation, by a rate if there is one.
func reserve(p pricing.Purchase, c pricing.Curve, b pricing.Bounds, rate *pricing.ExchangeRate) (pricing.Priced, *pricing.Exchanged, error) {
	if rate == nil {
		out, err := pricing.Reserve(p, c, b)
		return out, nil, err
	}
	out, err := pricing.ReserveExchanged(p, c, b, *rate)
	return out, &pricing.Exchanged{RateID: rate.ID, Source: rate.Source, From: rate.From, To: rate.To, Rate: rate.Rate, Since: rate.Date}, err
}

// leastDisk is the disk that offers are asked for, in GiB: none is held, so what leases
// may have of it is not what matters here, and less than this no lease can have.
const leastDisk = 1

// offer is the offer that a request names, or the cheapest whose host takes
// reservations.
func (s *Service) offer(ctx context.Context, p account.Principal, r Request, timeZone string) (fleet.Offer, error) {
	if r.OfferID != "" {
		return s.Capacity.OfferTo(ctx, "", r.OfferID, leastDisk, timeZone)
	}
	if r.GPUModel == "" || r.GPUs < 1 {
		return fleet.Offer{}, invalid("body.gpu_model", "invalid_reservation", "want an offer_id, or a gpu_model and how many")
	}
	where := fmt.Sprintf(`gpu_model = %s and gpu_count = %d and simulated = %t`, quoted(r.GPUModel), r.GPUs, r.Simulated)
	if r.Zone != "" {
		where += " and zone = " + quoted(r.Zone)
	}
	if r.Region != "" {
		where += " and region = " + quoted(r.Region)
	}
	cursor := ""
	for {
		list, next, err := s.Capacity.Search(ctx, fleet.Query{Expression: where, Sort: "compute_price_per_hour", Limit: 500, DiskGiB: leastDisk, Cursor: cursor, TimeZone: timeZone})
		if err != nil {
			return fleet.Offer{}, err
		}
		for _, o := range list {
			if o.Reserve != nil {
				return o, nil
			}
		}
		if cursor = next; next == "" {
			return fleet.Offer{}, fault.New(fault.Conflict, "not_offered", "no host that offers reservations has %d × %s free there; look at other zones, or ask for fewer", r.GPUs, r.GPUModel)
		}
	}
}

func quoted(s string) string { return `"` + strings.ReplaceAll(s, `"`, "") + `"` }

// Purchase buys what a request asks for.
type Purchase struct {
	Request
	Name   string
	Renews bool
	Agreed money.Amount // the total that was agreed to: more is refused
}

// Create buys a reservation: in one transaction its GPUs are held, what is upfront
// is paid, an hour of the rest is set aside and it is written, or nothing is.
func (s *Service) Create(ctx context.Context, p account.Principal, b Purchase) (*Reservation, error) {
	if len(b.Name) > 63 || strings.ContainsFunc(b.Name, func(r rune) bool { return r < ' ' }) {
		return nil, invalid("body.name", "invalid_name", "a name has at most 63 characters, without control characters")
	}
	if found, hidden := ident.Hidden(b.Name); hidden {
		return nil, invalid("body.name", "text_invalid", "the name holds the control character %U, which nobody sees; leave it out", found)
	}
	q, err := s.Quote(ctx, p, b.Request)
	if err != nil {
		return nil, err
	}
	if q.Priced.Total > b.Agreed {
		return nil, fault.New(fault.Conflict, "price_moved", "the reservation costs %s by now, and %s was agreed to; look at it again", q.Priced.Total.Display(), b.Agreed.Display())
	}
	now := s.Clock().UTC().Truncate(time.Microsecond)
	id := ident.New(ident.Reservation)
	q.Priced.Reservation.ID = id
	if listed := q.Priced.Reservation.Listed; listed != nil {
		listed.ID = id
	}
	if b.Name == "" {
		b.Name = "reservation-" + id[len(id)-6:]
	}
	o := q.Offer
	from := q.Priced.Reservation.From.Truncate(time.Hour)
	r := &Reservation{
		ID: id, AccountID: p.AccountID, UserID: p.UserID, Name: b.Name, ProviderID: o.ProviderID, HostID: o.HostID, Region: o.Region, Zone: o.Zone,
		GPUModel: o.GPUModel, GPUs: o.GPUCount, Simulated: o.Simulated, TimeZone: q.TimeZone, Terms: q.Priced, Renews: b.Renews, State: Active,
		From: from, Until: from.Add(time.Duration(q.Priced.Hours) * time.Hour), Since: now, CreatedAt: now,
	}
	if q.Priced.Reservation.From.After(now) {
		r.State = Scheduled
	}
	err = s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if r.State == Active {
			if err := s.Capacity.Hold(ctx, tx, r.holding()); err != nil {
				return err
			}
			r.held = true
		}
		if err := s.begin(ctx, tx, r, q.Exchange); err != nil {
			return err
		}
		return s.Audit(ctx, tx, p, "reservation.create", id, map[string]string{"host": r.HostID, "total": q.Priced.Total.String(), "payment": string(q.Priced.Reservation.Payment)})
	})
	if err != nil {
		return nil, err
	}
	s.Capacity.Refresh(ctx, r.HostID)
	return r, nil
}

func (r *Reservation) holding() fleet.Holding {
	return fleet.Holding{ID: r.ID, HostID: r.HostID, AccountID: r.AccountID, GPUModel: r.GPUModel, GPUCount: r.GPUs}
}

// begin pays for a new reservation and writes it.
func (s *Service) begin(ctx context.Context, tx *store.Tx, r *Reservation, exchange *pricing.Exchanged) error {
	if err := s.Money.BeginReserved(ctx, tx, billing.ReservedTerms{
		Reservation: r.Terms.Reservation, AccountID: r.AccountID, ProviderID: r.ProviderID, TimeZone: r.TimeZone, Simulated: r.Simulated, Exchange: exchange,
	}); err != nil {
		return err
	}
	if r.State == Active {
		if err := s.Money.Deliver(ctx, tx, r.ID, r.From); err != nil {
			return err
		}
	}
	return insert(ctx, tx, r)
}

// List returns the caller's reservations, newest first, up to limit, that come
// after the cursor; the second result is the next cursor, empty at the end.
func (s *Service) List(ctx context.Context, p account.Principal, open bool, cursor string, limit int) (out []*Reservation, next string, err error) {
	where := `account_id = ?`
	if open {
		where += ` AND ended_at = 0`
	}
	return store.Page(ctx, s.DB, where, []any{p.AccountID}, cursor, limit, query, func(x *Reservation) string { return x.ID })
}

// Get returns a reservation of the caller's, by identifier, or by the name of one
// that is not over.
func (s *Service) Get(ctx context.Context, p account.Principal, nameOrID string) (*Reservation, error) {
	var list []*Reservation
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		list, err = query(ctx, tx, `account_id = ? AND (id = ? OR (name = ? AND ended_at = 0)) ORDER BY id DESC LIMIT 2`, p.AccountID, nameOrID, nameOrID)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(list) == 0:
		return nil, none(nameOrID)
	case len(list) > 1:
		return nil, fault.New(fault.Conflict, "name_ambiguous", "several reservations are named %q; use the identifier", nameOrID)
	}
	return list[0], nil
}

// Details is a reservation with its money and what it was worth.
type Details struct {
	*Reservation
	Money billing.Reserved
	// IfEnded is what an end now comes to; nil: it is over already.
	IfEnded *pricing.EarlyEnd
}

// Details returns a reservation of the caller's with its money.
func (s *Service) Details(ctx context.Context, p account.Principal, nameOrID string) (*Details, error) {
	r, err := s.Get(ctx, p, nameOrID)
	if err != nil {
		return nil, err
	}
	d := &Details{Reservation: r}
	if d.Money, err = s.Money.Reserved(ctx, r.ID); err != nil {
		return nil, err
	}
	if _, can := r.State.Next(End); can {
		e, err := s.Money.PreviewEarlyEnd(ctx, r.ID, r.State == Undelivered)
		if err != nil {
			return nil, err
		}
		d.IfEnded = &e
	}
	return d, nil
}

// Use returns what a reservation of the caller's was worth in each clock hour from
// one moment to another; zero times: the last day.
func (s *Service) Use(ctx context.Context, p account.Principal, nameOrID string, from, to time.Time) ([]pricing.HourUse, error) {
	r, err := s.Get(ctx, p, nameOrID)
	if err != nil {
		return nil, err
	}
	now := s.Clock()
	if to.IsZero() || to.After(now) {
		to = now
	}
	if from.IsZero() {
		from = to.Add(-24 * time.Hour)
	}
	return s.Money.ReservedUse(ctx, r.ID, from, to)
}

// Change changes a reservation. Nil fields stay.
type Change struct {
	Name   *string
	Renews *bool
}

// Set changes a reservation of the caller's.
func (s *Service) Set(ctx context.Context, p account.Principal, nameOrID string, c Change) (*Reservation, error) {
	if c.Name != nil && (*c.Name == "" || len(*c.Name) > 63 || strings.ContainsFunc(*c.Name, func(r rune) bool { return r < ' ' })) {
		return nil, invalid("body.name", "invalid_name", "a name has 1 to 63 characters, without control characters")
	}
	if c.Name != nil {
		if found, hidden := ident.Hidden(*c.Name); hidden {
			return nil, invalid("body.name", "text_invalid", "the name holds the control character %U, which nobody sees; leave it out", found)
		}
	}
	known, err := s.Get(ctx, p, nameOrID)
	if err != nil {
		return nil, err
	}
	var r *Reservation
	err = s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if r, err = lock(ctx, tx, known.ID); err != nil {
			return err
		}
		if r.State.Over() {
			return fault.New(fault.Gone, "reservation_state", "reservation %s is %s and cannot be changed", r.ID, r.State)
		}
		if c.Name != nil {
			r.Name = *c.Name
		}
		if c.Renews != nil {
			r.Renews = *c.Renews
		}
		if err := save(ctx, tx, r); err != nil {
			return err
		}
		return s.Audit(ctx, tx, p, "reservation.set", r.ID, c)
	})
	return r, err
}

// Cancel ends a reservation of the caller's early, if that does not cost more than
// was agreed to: see pricing.Reservation.EndEarly. What comes back is not bounded.
func (s *Service) Cancel(ctx context.Context, p account.Principal, nameOrID string, agreed money.Amount) (*Reservation, error) {
	known, err := s.Get(ctx, p, nameOrID)
	if err != nil {
		return nil, err
	}
	var r *Reservation
	err = s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if r, err = lock(ctx, tx, known.ID); err != nil {
			return err
		}
		if r.State == Ending || r.State.Over() {
			return nil // it was done before
		}
		if err := s.end(ctx, tx, r, "given_up", "", &agreed); err != nil {
			return err
		}
		return s.Audit(ctx, tx, p, "reservation.cancel", r.ID, nil)
	})
	if err == nil {
		s.Capacity.Refresh(ctx, r.HostID)
	}
	return r, err
}

// end ends a reservation early.
func (s *Service) end(ctx context.Context, tx *store.Tx, r *Reservation, code, message string, agreed *money.Amount) error {
	now := s.Clock()
	e, err := s.Money.EndReserved(ctx, tx, r.ID, r.State == Undelivered)
	if err != nil {
		return err
	}
	if agreed != nil && e.Net > max(0, *agreed) {
		return fault.New(fault.Conflict, "price_moved", "ending it costs %s by now, and %s was agreed to; look at it again", e.Net.Display(), agreed.Display())
	}
	r.Renews = false
	if err := r.move(End, code, message, now); err != nil {
		return err
	}
	r.Until = e.Until
	if r.State.Over() {
		if err := s.close(ctx, tx, r, now); err != nil {
			return err
		}
	}
	return save(ctx, tx, r)
}

// close gives a reservation's GPUs back and ends its bill.
func (s *Service) close(ctx context.Context, tx *store.Tx, r *Reservation, at time.Time) error {
	r.held = false
	if err := s.Capacity.Unhold(ctx, tx, r.ID); err != nil {
		return err
	}
	return s.Money.EndLease(ctx, tx, r.ID, at)
}

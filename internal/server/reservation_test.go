package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/reservation"
	"suanli.dev/internal/store"
)

func init() {
	parts = append(parts, withReservations)
	belongings["reservation_id"] = func(w *world, p person) string {
		w.deposit(p, "10")
		return w.reserve(p, api.ReservationCreate{AgreedTotal: 1_000_000_000}).ID
	}
}

// withReservations comes after the market, whose file is before this one.
func withReservations(w *world, c *Config) {
	w.t.Helper()
	var err error
	c.Reservations, err = reservation.New(reservation.Config{DB: w.db, Clock: w.clock.Now, Capacity: c.Fleet, Money: c.Billing, Audit: c.Accounts.Audit,
		Bounds: pricing.Bounds{MaxMonths: 12, MaxBasisPoints: 6000},
		Account: func(ctx context.Context, id string) (money.Currency, string, error) {
			a, err := c.Accounts.Account(ctx, id)
			return a.Currency, a.TimeZone, err
		}})
	if err == nil {
		err = c.Reservations.Migrate(w.t.Context())
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// reservable makes the market's host offer reservations, at 25 % off for three months.
func (w *world) reservable() fleet.Offer {
	w.t.Helper()
	o := w.market()
	if _, err := w.fleet.SetListing(w.t.Context(), w.operator.principal(), o.HostID, fleet.ListingChange{Reserve: &pricing.Curve{
		Terms: []pricing.TermDiscount{{Months: 1, BasisPoints: 1000}, {Months: 3, BasisPoints: 2500}}, AllBasisPoints: 500}}); err != nil {
		w.t.Fatal(err)
	}
	o, err := w.fleet.Offer(w.t.Context(), o.ID, 0, "UTC")
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// reserve buys a reservation of one GPU for p.
func (w *world) reserve(p person, in api.ReservationCreate) api.Reservation {
	w.t.Helper()
	in.OfferID = w.reservable().ID
	if in.TermMonths == 0 && in.Until == nil {
		in.TermMonths = 1
	}
	if in.AgreedTotal == 0 {
		q, err := p.client.QuoteReservation(w.t.Context(), in.ReservationQuestion)
		if err != nil {
			w.t.Fatal(err)
		}
		in.AgreedTotal = q.Total
	}
	r, err := p.client.CreateReservation(w.t.Context(), in)
	if err != nil {
		w.t.Fatal(err)
	}
	return *r
}

func (w *world) turnReservations() {
	w.t.Helper()
	if err := w.server.Reservations.Turn(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func TestARenterQuotesBuysLooksAtAndEndsAReservation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "1000")
	c, ctx := w.ada.client, t.Context()
	offer := w.reservable()
	ask := api.ReservationQuestion{GPUModel: offer.GPUModel, GPUs: 2, Zone: offer.Zone, TermMonths: 3, Payment: "partial"}
	q, err := c.QuoteReservation(ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	if q.Saving != q.OnDemandTotal-q.Total || q.DiscountPercent != "25.00" || q.DueNow == 0 || q.HostID != offer.HostID || q.GPUs != 2 || q.BreakEvenHours != q.Hours*3/4 || len(q.Schedule) < 4 {
		t.Errorf("the quote is %+v", q)
	}
	var sum api.Amount
	for _, i := range q.Schedule {
		sum += i.Amount
	}
	if sum != q.Total {
		t.Errorf("the payments add up to %s, and the total is %s", sum, q.Total)
	}
	buy := api.ReservationCreate{ReservationQuestion: ask, Name: "team", AgreedTotal: q.Total - 1}
	_, err = c.CreateReservation(ctx, buy)
	wantProblem(t, err, "price_moved")
	buy.AgreedTotal = q.Total
	r, err := c.CreateReservation(ctx, buy)
	if err != nil {
		t.Fatal(err)
	}
	if r.State != "active" || r.Name != "team" || r.GPUs != 2 {
		t.Errorf("the reservation is %+v", r)
	}
	if b, err := c.Balance(ctx); err != nil || b.Settled != 1_000_000_000-q.DueNow {
		t.Errorf("the balance is %+v, %v", b, err)
	}
	// Others are offered two less, and the holder as many as before.
	most := func(p person) (n int) {
		found, err := p.client.Offers(ctx, api.OfferQuery{Where: "gpu_model = '" + offer.GPUModel + "'", Limit: 500})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range found.Items {
			n = max(n, o.GPUCount)
		}
		return n
	}
	if eve, ada := most(w.eve), most(w.ada); eve != ada-2 {
		t.Errorf("another is offered %d GPUs and the holder %d, want 2 less", eve, ada)
	}
	yes := true
	if r, err = c.UpdateReservation(ctx, "team", api.ReservationUpdate{Renews: &yes}); err != nil || !r.Renews {
		t.Errorf("%+v, %v", r, err)
	}
	w.clock.Advance(90 * time.Minute)
	d, err := c.Reservation(ctx, "team")
	if err != nil || d.IfEnded == nil || len(d.Payments) != 1 || d.Payments[0].Kind != "upfront" || d.IfEnded.Net >= 0 {
		t.Fatalf("%+v, %v", d, err)
	}
	hours, err := c.ReservationHours(ctx, "team", time.Time{}, time.Time{})
	if err != nil || len(hours) != 2 || hours[0].UnusedSeconds != 7200 {
		t.Errorf("hours %+v, %v", hours, err)
	}
	if r, err = c.CancelReservation(ctx, "team", 0); err != nil || r.State != "ending" {
		t.Fatalf("%+v, %v", r, err)
	}
	w.clock.Advance(30 * time.Minute)
	w.turnReservations()
	if d, err = c.Reservation(ctx, r.ID); err != nil || d.State != "ended" || d.Due != 4*q.OnDemandTotal/api.Amount(2*q.Hours) || d.Posted != d.Due {
		t.Errorf("%+v, %v", d, err)
	}
	if eve, ada := most(w.eve), most(w.ada); eve != ada {
		t.Errorf("another is offered %d GPUs and the former holder %d", eve, ada)
	}
	if list, err := c.Reservations(ctx, true); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	w.wantSoundBooks()
}

// wantSoundBooks proves the books.
func (w *world) wantSoundBooks() {
	w.t.Helper()
	r, err := w.billing.VerifyLedger(w.t.Context())
	if err != nil || !r.OK() {
		w.t.Errorf("the books are wrong: %+v, %v", r, err)
	}
}

func wantProblem(t *testing.T, err error, code string) {
	t.Helper()
	var p *api.Error
	if !errors.As(err, &p) || p.Code != code {
		t.Errorf("got %v, want the problem %s", err, code)
	}
}

func TestAReservationRenewsIfItIsNoDearerAndOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "1000")
	until := w.clock.Now().Add(2 * time.Hour)
	r := w.reserve(w.ada, api.ReservationCreate{ReservationQuestion: api.ReservationQuestion{Until: &until}, Renews: true})
	w.clock.Advance(2*time.Hour + time.Minute)
	w.turnReservations()
	w.turnReservations()
	list, err := w.ada.client.Reservations(t.Context(), false)
	if err != nil || len(list) != 2 || list[1].ID != r.ID || list[1].Code != "renewed" || list[0].RenewalOf != r.ID || list[0].State != "active" || !list[0].From.Equal(list[1].Until) {
		t.Fatalf("%+v, %v", list, err)
	}
	if _, err := w.fleet.SetListing(t.Context(), w.operator.principal(), r.HostID, fleet.ListingChange{PerGPUHour: map[string]money.Rate{r.GPUModel: 50_000_000_000}}); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(2 * time.Hour)
	w.turnReservations()
	last, err := w.ada.client.Reservation(t.Context(), list[0].ID)
	if err != nil || last.State != "ended" || last.Code != "not_renewed" || last.Posted != last.Due {
		t.Errorf("%+v, %v", last, err)
	}
	w.wantSoundBooks()
}

func TestAScheduledReservationBeginsAndCancelledBeforeCostsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "1000")
	begin := w.clock.Now().Add(24 * time.Hour)
	ask := api.ReservationQuestion{BeginsAt: &begin, TermMonths: 1, Payment: "all"}
	first := w.reserve(w.ada, api.ReservationCreate{ReservationQuestion: ask})
	second := w.reserve(w.ada, api.ReservationCreate{ReservationQuestion: ask})
	if first.State != "scheduled" {
		t.Errorf("%+v", first)
	}
	if r, err := w.ada.client.CancelReservation(t.Context(), second.ID, 0); err != nil || r.State != "cancelled" {
		t.Errorf("%+v, %v", r, err)
	}
	if b, err := w.ada.client.Balance(t.Context()); err != nil || b.Settled != 1_000_000_000-first.Total {
		t.Errorf("%+v, %v", b, err)
	}
	w.clock.Advance(24 * time.Hour)
	w.turnReservations()
	if d, err := w.ada.client.Reservation(t.Context(), first.ID); err != nil || d.State != "active" && d.State != "undelivered" {
		t.Errorf("%+v, %v", d, err)
	}
	w.wantSoundBooks()
}

func TestAReservationWithoutMoneyIsSuspendedAndGoesOnWithMoney(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "1")
	ctx := t.Context()
	r := w.reserve(w.ada, api.ReservationCreate{})
	w.clock.Advance(24 * time.Hour)
	if err := w.billing.Watch(ctx, w.clock.Now()); err != nil {
		t.Fatal(err)
	}
	if err := w.server.Reservations.Exhaust(ctx, r.ID, false); err != nil {
		t.Fatal(err)
	}
	state := func(want string) {
		t.Helper()
		d, err := w.ada.client.Reservation(ctx, r.ID)
		if err != nil || d.State != want {
			t.Fatalf("it is %+v, %v; want %s", d, err, want)
		}
		w.wantSoundBooks()
	}
	state("suspended")
	w.turnReservations()
	state("suspended")
	w.deposit(w.ada, "10")
	w.turnReservations()
	if d, err := w.ada.client.Reservation(ctx, r.ID); err != nil || d.State != "active" && d.State != "suspended" || len(d.Lost) == 0 {
		t.Errorf("%+v, %v", d, err)
	}
	if err := w.server.Reservations.Exhaust(ctx, r.ID, true); err != nil {
		t.Fatal(err)
	}
	w.wantSoundBooks()
}

// A transaction that fails anywhere leaves nothing half bought.
func TestAReservationIsBoughtWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	offer := w.reservable()
	_, err := w.ada.client.CreateReservation(t.Context(), api.ReservationCreate{ReservationQuestion: api.ReservationQuestion{OfferID: offer.ID, TermMonths: 1}, AgreedTotal: 1_000_000_000})
	wantProblem(t, err, "insufficient_balance")
	var holdings int
	if err := w.db.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return tx.QueryRow(ctx, `SELECT COUNT(*) FROM fleet_holdings`).Scan(&holdings)
	}); err != nil || holdings != 0 {
		t.Errorf("%d holdings, %v", holdings, err)
	}
}

func TestAReservationWhoseHostIsSilentCostsNothingAndCanBeEndedForNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "1000")
	r := w.reserve(w.ada, api.ReservationCreate{ReservationQuestion: api.ReservationQuestion{Payment: "all"}})
	for range 24 {
		w.clock.Advance(5 * time.Second)
		w.fleet.Silent(t.Context())
	}
	w.turnReservations()
	d, err := w.ada.client.Reservation(t.Context(), r.ID)
	if err != nil || d.State != "undelivered" || len(d.Lost) != 1 {
		t.Fatalf("%+v, %v", d, err)
	}
	w.wantSoundBooks()
	if r, err := w.ada.client.CancelReservation(t.Context(), r.ID, 0); err != nil || r.State != "ended" {
		t.Fatalf("%+v, %v", r, err)
	}
	d, err = w.ada.client.Reservation(t.Context(), r.ID)
	if err != nil || d.Due > r.Upfront/100 || d.Posted != d.Due {
		t.Errorf("it cost %s of %s: %+v, %v", d.Due, r.Upfront, d, err)
	}
	w.wantSoundBooks()
}

func TestAHostsTermsAreBuyableInTheComparisonOfPlans(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "1000")
	offer := w.reservable()
	if offer.Reserve == nil {
		t.Fatal("the offer has no terms for reservations")
	}
	got, err := w.ada.client.QuoteReservation(t.Context(), api.ReservationQuestion{OfferID: offer.ID, TermMonths: 3, Payment: "all"})
	if err != nil || got.DiscountPercent != "30.00" || got.DueNow != got.Total {
		t.Errorf("%+v, %v", got, err)
	}
	c, err := w.ada.client.ComparePlans(t.Context(), api.PlanQuestion{OfferID: offer.ID, Image: "debian:12"})
	if err != nil {
		t.Fatal(err)
	}
	options := 0
	for _, o := range c.Options {
		if o.Plan != "reserved" {
			continue
		}
		q, err := w.ada.client.QuoteReservation(t.Context(), api.ReservationQuestion{OfferID: offer.ID, TermMonths: o.TermMonths, Payment: o.Payment})
		if options++; err != nil || !o.Buyable || o.DueNow != q.DueNow {
			t.Errorf("the comparison says %+v, and the quote %+v, %v", o, q, err)
		}
	}
	if options != 6 { // two terms, each paid in three ways
		t.Errorf("%d ways to reserve, want 6", options)
	}
	for _, bad := range []struct {
		ask  api.ReservationQuestion
		code string
	}{
		{api.ReservationQuestion{OfferID: offer.ID, TermMonths: 13}, "invalid_term"},
		{api.ReservationQuestion{TermMonths: 1}, "invalid_reservation"},
		{api.ReservationQuestion{GPUModel: "no such", GPUs: 1, TermMonths: 1}, "not_offered"},
		{api.ReservationQuestion{OfferID: offer.ID}, "invalid_term"},
	} {
		_, err := w.ada.client.QuoteReservation(t.Context(), bad.ask)
		wantProblem(t, err, bad.code)
	}
	_, err = w.eve.client.Reservation(t.Context(), w.reserve(w.ada, api.ReservationCreate{}).ID)
	wantProblem(t, err, "reservation_not_found")
}

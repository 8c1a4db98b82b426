package server

import (
	"context"
	"net/http"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/reservation"
)

const tagReservations = "Reservations"

// ReservationPath is embedded in the input of operations on one reservation.
type ReservationPath struct {
	ReservationID string `path:"reservation_id" maxLength:"64" doc:"Identifier, or the name of one that is not over"`
}

func (a *API) registerReservations() {
	if a.Reservations == nil {
		return
	}
	register(a, operation{ID: "quoteReservation", Method: http.MethodPost, Path: "/v1/reservations/quote", Summary: "What a reservation costs, with all payments", Tag: tagReservations, Action: account.ReadLeases},
		func(ctx context.Context, p account.Principal, in *body[api.ReservationQuestion]) (*body[api.ReservationPrice], error) {
			q, err := a.Reservations.Quote(ctx, p, reserveRequest(in.Body))
			if err != nil {
				return nil, err
			}
			return &body[api.ReservationPrice]{reservationPrice(q)}, nil
		})
	register(a, operation{
		ID: "createReservation", Method: http.MethodPost, Path: "/v1/reservations", Summary: "Reserve GPUs for a term", Tag: tagReservations, Action: account.WriteLeases, Status: http.StatusCreated, Idempotent: true,
		Description: "The GPUs are held for your leases on demand, and paid for whether they are used or not. Each clock hour they pay for your running leases of the same model in the same zone on the same provider's hosts.",
	}, func(ctx context.Context, p account.Principal, in *body[api.ReservationCreate]) (*body[api.Reservation], error) {
		b := in.Body
		return reservationBody(a.Reservations.Create(ctx, p, reservation.Purchase{Request: reserveRequest(b.ReservationQuestion), Name: b.Name, Renews: b.Renews, Agreed: b.AgreedTotal}))
	})
	register(a, operation{ID: "listReservations", Method: http.MethodGet, Path: "/v1/reservations", Summary: "List your reservations", Tag: tagReservations, Action: account.ReadLeases},
		func(ctx context.Context, p account.Principal, in *struct {
			Paging
			Open bool `query:"open" doc:"Only those that are not over"`
		}) (*body[page[api.Reservation]], error) {
			list, next, err := a.Reservations.List(ctx, p, in.Open, in.Cursor, in.Limit)
			if err != nil {
				return nil, err
			}
			out := whole(list, reservationJSON)
			out.Body.NextCursor = next
			return out, nil
		})
	const path = "/v1/reservations/{reservation_id}"
	register(a, operation{ID: "getReservation", Method: http.MethodGet, Path: path, Summary: "Read a reservation, with its money", Tag: tagReservations, Action: account.ReadLeases}, a.getReservation)
	register(a, operation{ID: "listReservationHours", Method: http.MethodGet, Path: path + "/hours", Summary: "What a reservation was worth by the clock hour", Tag: tagReservations, Action: account.ReadLeases},
		func(ctx context.Context, p account.Principal, in *struct {
			ReservationPath
			From time.Time `query:"from" doc:"Absent: a day before the end; at most 31 days"`
			To   time.Time `query:"to" doc:"Absent: now"`
		}) (*body[page[api.ReservationHour]], error) {
			hours, err := a.Reservations.Use(ctx, p, in.ReservationID, in.From, in.To)
			if err != nil {
				return nil, err
			}
			return whole(hours, reservationHour), nil
		})
	register(a, operation{ID: "updateReservation", Method: http.MethodPatch, Path: path, Summary: "Rename a reservation, or change whether it renews", Tag: tagReservations, Action: account.WriteLeases, Idempotent: true},
		func(ctx context.Context, p account.Principal, in *struct {
			ReservationPath
			Body api.ReservationUpdate
		}) (*body[api.Reservation], error) {
			return reservationBody(a.Reservations.Set(ctx, p, in.ReservationID, reservation.Change{Name: in.Body.Name, Renews: in.Body.Renews}))
		})
	register(a, operation{ID: "cancelReservation", Method: http.MethodPost, Path: path + "/cancel", Summary: "End a reservation early", Tag: tagReservations, Action: account.WriteLeases, Idempotent: true,
		Description: "Its hours so far then cost the price on demand of the day on which it was bought, at most what the whole term would have cost; the difference to what was paid is given back or charged. It is refused if more than the agreed net would have to be paid. One whose GPUs are not there ends without a loss."},
		func(ctx context.Context, p account.Principal, in *struct {
			ReservationPath
			Body api.ReservationCancel
		}) (*body[api.Reservation], error) {
			return reservationBody(a.Reservations.Cancel(ctx, p, in.ReservationID, in.Body.AgreedNet))
		})
}

func (a *API) getReservation(ctx context.Context, p account.Principal, in *ReservationPath) (*body[api.ReservationDetails], error) {
	d, err := a.Reservations.Details(ctx, p, in.ReservationID)
	if err != nil {
		return nil, err
	}
	out := api.ReservationDetails{Reservation: reservationJSON(d.Reservation), Due: d.Money.Due, Posted: d.Money.Posted, Payments: []api.Prepayment{}, Lost: []api.Span{}}
	for _, x := range d.Money.Payments {
		out.Payments = append(out.Payments, api.Prepayment{Kind: string(x.Kind), Amount: x.Amount, From: x.From, Until: x.Until})
	}
	for _, l := range d.Money.Terms.Lost {
		out.Lost = append(out.Lost, api.Span{From: l.Start, Until: l.End})
	}
	if e := d.IfEnded; e != nil {
		out.IfEnded = &api.EarlyEndPrice{Until: e.Until, Owed: e.Owed, Net: e.Net}
	}
	return &body[api.ReservationDetails]{out}, nil
}

func reserveRequest(q api.ReservationQuestion) reservation.Request {
	r := reservation.Request{
		OfferID: q.OfferID, GPUModel: q.GPUModel, GPUs: q.GPUs, Region: q.Region, Zone: q.Zone, Simulated: q.Simulated, Months: q.TermMonths, Payment: pricing.Upfront(q.Payment),
	}
	if q.Until != nil {
		r.Until = *q.Until
	}
	if q.BeginsAt != nil {
		r.Begins = *q.BeginsAt
	}
	return r
}

func reservationPrice(q *reservation.Quote) api.ReservationPrice {
	r := q.Priced.Reservation
	from := r.From.Truncate(time.Hour)
	out := api.ReservationPrice{
		OfferID: q.Offer.ID, HostID: q.Offer.HostID, GPUModel: r.GPUModel, GPUs: int(r.GPUs), Region: q.Offer.Region, Zone: r.Zone, Simulated: q.Offer.Simulated,
		Currency: string(r.Currency), TimeZone: q.TimeZone, TermMonths: r.Months, Payment: string(r.Payment), From: from, Until: from.Add(time.Duration(q.Priced.Hours) * time.Hour),
		Hours: q.Priced.Hours, DiscountPercent: basisPercent(r.Discount), OnDemandPerHour: r.ListHourly, PerHour: r.Hourly, DueNow: r.UpfrontDue, Total: q.Priced.Total,
		OnDemandTotal: q.Priced.List, Saving: q.Priced.Saving, BreakEvenHours: q.BreakEvenHours, Exchange: exchangeJSON(q.Exchange), Schedule: []api.Instalment{}, QuotedAt: q.QuotedAt,
	}
	for _, i := range q.Schedule {
		out.Schedule = append(out.Schedule, api.Instalment(i))
	}
	return out
}

func reservationBody(r *reservation.Reservation, err error) (*body[api.Reservation], error) {
	if err != nil {
		return nil, err
	}
	return &body[api.Reservation]{reservationJSON(r)}, nil
}

func reservationJSON(r *reservation.Reservation) api.Reservation {
	t := r.Terms.Reservation
	return api.Reservation{
		ID: r.ID, Name: r.Name, State: string(r.State), Code: r.Code, Message: r.Message, HostID: r.HostID, ProviderID: r.ProviderID, Region: r.Region, Zone: r.Zone,
		GPUModel: r.GPUModel, GPUs: r.GPUs, Simulated: r.Simulated, Currency: string(t.Currency), TermMonths: t.Months, Payment: string(t.Payment), From: r.From, Until: r.Until,
		PerHour: t.Hourly, Upfront: t.UpfrontDue, Total: r.Terms.Total, Renews: r.Renews, RenewalOf: r.RenewalOf, SinceAt: r.Since, CreatedAt: r.CreatedAt, EndedAt: optional(r.EndedAt),
	}
}

func reservationHour(h pricing.HourUse) api.ReservationHour {
	out := api.ReservationHour{Hour: h.Hour, CapacitySeconds: h.Capacity, UsedSeconds: h.Used, UnusedSeconds: h.Unused, Cost: h.Cost, UnusedCost: h.UnusedCost, Leases: []api.CoveredLease{}}
	for _, l := range h.Leases {
		out.Leases = append(out.Leases, api.CoveredLease(l))
	}
	return out
}

func reserveCurve(c *api.ReserveCurve) *pricing.Curve {
	if c == nil {
		return nil
	}
	out := &pricing.Curve{PartialBasisPoints: c.PartialBasisPoints, AllBasisPoints: c.AllBasisPoints}
	for _, t := range c.Terms {
		out.Terms = append(out.Terms, pricing.TermDiscount(t))
	}
	return out
}

func reserveCurveJSON(c *pricing.Curve) *api.ReserveCurve {
	if c == nil {
		return nil
	}
	out := &api.ReserveCurve{Terms: []api.TermDiscount{}, PartialBasisPoints: c.PartialBasisPoints, AllBasisPoints: c.AllBasisPoints}
	for _, t := range c.Terms {
		out.Terms = append(out.Terms, api.TermDiscount(t))
	}
	return out
}

// earningPlaces says where what is charged for is: leases and reservations.
type earningPlaces struct{ c *Cloud }

// Places is lease.Service.Places, with the hosts of reservations and of volumes.
func (e earningPlaces) Places(ctx context.Context, ids []string) (map[string]lease.Place, error) {
	out, err := e.c.Leases.Places(ctx, ids)
	if err != nil {
		return nil, err
	}
	held, err := e.c.Reserve.Places(ctx, ids)
	for _, r := range held {
		out[r.ID] = lease.Place{AccountID: r.AccountID, ProviderID: r.ProviderID, HostID: r.HostID, GPUModel: r.GPUModel, Simulated: r.Simulated}
	}
	if err != nil {
		return nil, err
	}
	kept, err := e.c.Volumes.Places(ctx, ids)
	for _, v := range kept {
		out[v.ID] = lease.Place{AccountID: v.AccountID, ProviderID: v.ProviderID, HostID: v.HostID, Simulated: v.Simulated}
	}
	return out, err
}

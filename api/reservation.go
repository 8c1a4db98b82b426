package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// ReservationQuestion asks what a reservation costs: of an offer's GPUs, or else of
// so many of a model where they are cheapest.
type ReservationQuestion struct {
	OfferID    string     `json:"offer_id,omitempty" doc:"From a search; its host is the one that holds the GPUs" maxLength:"200"`
	GPUModel   string     `json:"gpu_model,omitempty" doc:"Without an offer" maxLength:"100"`
	GPUs       int        `json:"gpus,omitempty" doc:"Without an offer: how many, on one host" minimum:"0" maximum:"10000"`
	Region     string     `json:"region,omitempty" maxLength:"100"`
	Zone       string     `json:"zone,omitempty" maxLength:"100"`
	Simulated  bool       `json:"simulated,omitempty" doc:"Without an offer: simulated GPUs"`
	TermMonths int        `json:"term_months,omitempty" doc:"Months by the calendar of your account's time zone; or until" minimum:"0" maximum:"120"`
	Until      *time.Time `json:"until,omitempty" doc:"A custom end, instead of months"`
	BeginsAt   *time.Time `json:"begins_at,omitempty" doc:"Absent: now; at most 31 days ahead. The GPUs are held from then on; for what is not free then nothing is charged"`
	Payment    string     `json:"payment,omitempty" enum:"none,partial,all" doc:"How much is paid at once: nothing (the default), half or all"`
}

// ReservationPrice is what a reservation costs. Nothing of it is frozen.
type ReservationPrice struct {
	OfferID         string       `json:"offer_id"`
	HostID          string       `json:"host_id"`
	GPUModel        string       `json:"gpu_model"`
	GPUs            int          `json:"gpus"`
	Region          string       `json:"region"`
	Zone            string       `json:"zone"`
	Simulated       bool         `json:"simulated" doc:"The GPUs are simulated: there is no hardware"`
	Currency        string       `json:"currency"`
	TimeZone        string       `json:"time_zone" doc:"By whose calendar months are counted"`
	TermMonths      int          `json:"term_months,omitempty" doc:"Absent: a custom end"`
	Payment         string       `json:"payment"`
	From            time.Time    `json:"from" doc:"Begin of the clock hour in which it begins"`
	Until           time.Time    `json:"until" doc:"End of the clock hour in which it ends"`
	Hours           int64        `json:"hours"`
	DiscountPercent string       `json:"discount_percent"`
	OnDemandPerHour Rate         `json:"on_demand_per_gpu_hour"`
	PerHour         Rate         `json:"per_gpu_hour" doc:"For each GPU and hour, used or not, beside what is paid at once"`
	DueNow          Amount       `json:"due_now"`
	Total           Amount       `json:"total" doc:"At once and all hours"`
	OnDemandTotal   Amount       `json:"on_demand_total" doc:"The same hours on demand"`
	Saving          Amount       `json:"saving"`
	BreakEvenHours  int64        `json:"break_even_hours" doc:"Used for so many hours it is cheaper than on demand"`
	Exchange        *Exchange    `json:"exchange,omitempty" doc:"How the price came to be in the account's currency; absent: the host asks for that"`
	Schedule        []Instalment `json:"schedule" nullable:"false" doc:"All payments; hours are charged as they pass and summed up here by calendar month"`
	QuotedAt        time.Time    `json:"quoted_at"`
}

// Instalment is one payment of a reservation.
type Instalment struct {
	At     time.Time `json:"at"`
	From   time.Time `json:"from" doc:"Begin of what it is for"`
	Until  time.Time `json:"until"`
	Amount Amount    `json:"amount"`
}

// ReservationCreate buys a reservation.
type ReservationCreate struct {
	ReservationQuestion
	Name        string `json:"name,omitempty" maxLength:"63"`
	Renews      bool   `json:"renews,omitempty" doc:"Carry it on whenever it ends, if the price of an hour is no higher then"`
	AgreedTotal Amount `json:"agreed_total" doc:"The total of the quote: it is refused if it costs more by now"`
}

// Reservation is capacity that is held for an account, and its price.
type Reservation struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	State      string     `json:"state" enum:"scheduled,active,undelivered,suspended,ending,ended,cancelled"`
	Code       string     `json:"code,omitempty" doc:"Why it is in its state"`
	Message    string     `json:"message,omitempty"`
	HostID     string     `json:"host_id" doc:"Where the GPUs are held"`
	ProviderID string     `json:"provider_id" doc:"Leases on its hosts in the zone are paid for"`
	Region     string     `json:"region"`
	Zone       string     `json:"zone"`
	GPUModel   string     `json:"gpu_model"`
	GPUs       int        `json:"gpus"`
	Simulated  bool       `json:"simulated"`
	Currency   string     `json:"currency"`
	TermMonths int        `json:"term_months,omitempty"`
	Payment    string     `json:"payment"`
	From       time.Time  `json:"from"`
	Until      time.Time  `json:"until" doc:"End of its last clock hour"`
	PerHour    Rate       `json:"per_gpu_hour"`
	Upfront    Amount     `json:"upfront"`
	Total      Amount     `json:"total" doc:"As it was bought"`
	Renews     bool       `json:"renews"`
	RenewalOf  string     `json:"renewal_of,omitempty" doc:"The reservation that it carries on"`
	SinceAt    time.Time  `json:"since_at" doc:"When it came into its state"`
	CreatedAt  time.Time  `json:"created_at"`
	EndedAt    *time.Time `json:"ended_at,omitempty"`
}

// ReservationDetails is a reservation with its money.
type ReservationDetails struct {
	Reservation
	Due      Amount         `json:"due" doc:"All that it has cost so far, less what came back"`
	Posted   Amount         `json:"posted" doc:"What of it has been charged"`
	Payments []Prepayment   `json:"payments" nullable:"false" doc:"What was paid or given back beside the hours"`
	Lost     []Span         `json:"lost" nullable:"false" doc:"When its GPUs were not held; that is not charged"`
	IfEnded  *EarlyEndPrice `json:"if_ended_now,omitempty" doc:"What an early end comes to now"`
}

// Span is a stretch of time.
type Span struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

// EarlyEndPrice is what it comes to that a reservation ends before its time.
type EarlyEndPrice struct {
	Until time.Time `json:"until" doc:"Until then it holds"`
	Owed  Amount    `json:"owed" doc:"Its hours at the price on demand, at most what the whole term costs"`
	Net   Amount    `json:"net" doc:"Owed less what is due by then as agreed: to be paid, or given back if negative"`
}

// ReservationHour is what a reservation was worth in a clock hour.
type ReservationHour struct {
	Hour            time.Time      `json:"hour"`
	CapacitySeconds int64          `json:"capacity_gpu_seconds" doc:"Held and paid for"`
	UsedSeconds     int64          `json:"used_gpu_seconds"`
	UnusedSeconds   int64          `json:"unused_gpu_seconds" doc:"Gone with the hour"`
	Cost            Amount         `json:"cost" doc:"Of the hour, with its part of what was paid at once"`
	UnusedCost      Amount         `json:"unused_cost"`
	Leases          []CoveredLease `json:"leases" nullable:"false"`
}

// CoveredLease is what a lease had of a reservation in an hour.
type CoveredLease struct {
	LeaseID string `json:"lease_id"`
	Seconds int64  `json:"seconds" doc:"Of the whole bundle"`
	Cost    Amount `json:"cost" doc:"Its part of the hour's cost"`
}

// ReservationUpdate changes a reservation; what is left out stays.
type ReservationUpdate struct {
	Name   *string `json:"name,omitempty" maxLength:"63"`
	Renews *bool   `json:"renews,omitempty"`
}

// ReservationCancel agrees to an early end.
type ReservationCancel struct {
	AgreedNet Amount `json:"agreed_net,omitempty" doc:"The most that you agree to pay for it; left out: nothing"`
}

// ReserveCurve is what a host takes off for reservations.
type ReserveCurve struct {
	Terms              []TermDiscount `json:"terms" nullable:"false" doc:"Rising; a longer term takes off no less. Empty: none are offered"`
	PartialBasisPoints int64          `json:"partial_upfront_basis_points,omitempty" doc:"More, for half at once"`
	AllBasisPoints     int64          `json:"all_upfront_basis_points,omitempty" doc:"More, for all at once"`
}

// TermDiscount is what a term takes off.
type TermDiscount struct {
	Months      int   `json:"months"`
	BasisPoints int64 `json:"discount_basis_points" doc:"In 1/100 of a per cent"`
}

// QuoteReservation prices a reservation. It buys and freezes nothing.
func (c *Client) QuoteReservation(ctx context.Context, q ReservationQuestion) (*ReservationPrice, error) {
	return do[ReservationPrice](ctx, c, http.MethodPost, "/v1/reservations/quote", q)
}

// CreateReservation buys a reservation.
func (c *Client) CreateReservation(ctx context.Context, in ReservationCreate) (*Reservation, error) {
	return do[Reservation](ctx, c, http.MethodPost, "/v1/reservations", in)
}

// Reservations returns the caller's reservations, newest first; with open, those
// that are not over.
func (c *Client) Reservations(ctx context.Context, open bool) ([]Reservation, error) {
	q := url.Values{}
	if open {
		q.Set("open", "true")
	}
	return collect(all[Reservation](ctx, c, "/v1/reservations", q))
}

// Reservation returns one reservation with its money, by identifier or by name.
func (c *Client) Reservation(ctx context.Context, nameOrID string) (*ReservationDetails, error) {
	return do[ReservationDetails](ctx, c, http.MethodGet, reservationPath(nameOrID), nil)
}

// ReservationHours returns what a reservation was worth by the clock hour; zero
// times: the last day.
func (c *Client) ReservationHours(ctx context.Context, nameOrID string, from, to time.Time) ([]ReservationHour, error) {
	q := url.Values{}
	for name, t := range map[string]time.Time{"from": from, "to": to} {
		if !t.IsZero() {
			q.Set(name, t.UTC().Format(time.RFC3339))
		}
	}
	return collect(all[ReservationHour](ctx, c, reservationPath(nameOrID)+"/hours", q))
}

// UpdateReservation renames a reservation, or changes whether it renews.
func (c *Client) UpdateReservation(ctx context.Context, nameOrID string, u ReservationUpdate) (*Reservation, error) {
	return do[Reservation](ctx, c, http.MethodPatch, reservationPath(nameOrID), u)
}

// CancelReservation ends a reservation early, if no more than agreed has to be paid
// for it.
func (c *Client) CancelReservation(ctx context.Context, nameOrID string, agreed Amount) (*Reservation, error) {
	return do[Reservation](ctx, c, http.MethodPost, reservationPath(nameOrID)+"/cancel", ReservationCancel{AgreedNet: agreed})
}

func reservationPath(nameOrID string) string { return "/v1/reservations/" + url.PathEscape(nameOrID) }

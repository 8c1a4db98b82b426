package lease

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/catalog"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// interruptions are the codes of a lease whose place the spot market took away,
// with what they mean.
var interruptions = map[string]string{
	"outbid":      "outbid on the spot market; it resumes by itself when its bid wins again",
	"below_floor": "its bid is below what its host wants; it resumes by itself when its bid wins again",
	"no_host":     "its host has left the spot market; it resumes by itself when the host is back",
	"no_room":     "its place on the spot market is gone; it resumes by itself when its bid wins again",
	"displaced":   "a larger bundle needs its host; it resumes by itself when its bid wins there again",
	"on_demand":   "a lease on demand needs its GPUs; it resumes by itself when its bid wins again",
}

// interrupting reports whether the lease stops since the spot market took its
// place away.
func (l *Lease) interrupting() bool {
	return l.State == Stopping && l.BidID != "" && interruptions[l.Code] != ""
}

// SpotWish is what a bid wants to run.
type SpotWish struct {
	Template string `json:"template,omitempty"`
	Image    string `json:"image,omitempty"` // replaces the template's
	DiskGiB  int64  `json:"disk_gib"`        // 0: the template's
	Create   Create `json:"create"`          // its QuoteID is not used
}

// CheckSpot reports what is wrong with a wish before anything is bid for it, and
// fills in what the template says.
func (s *Service) CheckSpot(w *SpotWish, gpus int, model string) error {
	if err := w.Create.validate(s.Clock()); err != nil {
		return err
	}
	r := QuoteRequest{Template: w.Template, Image: w.Image, DiskGiB: w.DiskGiB}
	t, err := s.template(&r)
	if err != nil {
		return err
	}
	w.Image, w.DiskGiB = r.Image, r.DiskGiB
	if w.DiskGiB == 0 {
		w.DiskGiB = max(t.DiskGiB, defaultDiskGiB)
	}
	if w.DiskGiB < 1 || w.DiskGiB > maxDiskGiB {
		return invalid("body.disk_gib", "invalid_disk_gib", "disk_gib is %d; want 1 to %d", w.DiskGiB, maxDiskGiB)
	}
	if gpus < t.Needs.GPUs {
		return fault.New(fault.Invalid, "offer_unfit", "template %s needs %d GPUs and the bid is for %d", t.Name, t.Needs.GPUs, gpus).At("body.gpus")
	}
	if m, ok := s.Catalog.Model(model); ok && m.VRAMGB > 0 && t.Needs.VRAMGiB > m.VRAMGB {
		return fault.New(fault.Invalid, "offer_unfit", "template %s needs %d GiB of GPU memory and a %s has %d GB", t.Name, t.Needs.VRAMGiB, model, m.VRAMGB).At("body.gpu_model")
	}
	return nil
}

// SealSpot returns a wish as it may be stored: its environment holds secrets.
func (s *Service) SealSpot(w SpotWish) (string, error) { return s.seal([]byte(mustJSON(w))) }

// OpenSpot is the other way of SealSpot.
func (s *Service) OpenSpot(sealed string) (SpotWish, error) {
	var w SpotWish
	b, err := s.unseal(sealed)
	if err != nil {
		return w, err
	}
	return w, json.Unmarshal(b, &w)
}

// SpotPlace is a place that a bid has won.
type SpotPlace struct {
	BidID     string
	Principal account.Principal // who bid
	Wish      SpotWish
	OfferID   string     // of the place
	Rate      money.Rate // what the bundle costs an hour by the market's price of now
	Bid       money.Rate // what it costs at most
	TimeZone  string     // the account's
}

// Placement is a place that is about to be taken.
type Placement struct {
	s      *Service
	place  SpotPlace
	quote  *Quote
	quota  account.Quota
	lease  *Lease
	change Change
}

// PrepareSpot quotes a place that a bid has won. Nothing is written.
func (s *Service) PrepareSpot(ctx context.Context, place SpotPlace) (*Placement, error) {
	quota, err := s.Tenants.Quota(ctx, place.Principal.AccountID)
	if err != nil {
		return nil, err
	}
	w := place.Wish
	r := QuoteRequest{OfferID: place.OfferID, Plan: pricing.Spot, Template: w.Template, Image: w.Image, DiskGiB: w.DiskGiB}
	var t catalog.Template
	if t, err = s.template(&r); err != nil {
		return nil, err
	}
	offer, err := s.Capacity.Offer(ctx, r.OfferID, r.DiskGiB, place.TimeZone)
	if err != nil {
		return nil, err
	}
	if err := fits(t, offer); err != nil {
		return nil, err
	}
	now := s.Clock()
	terms := tariff(offer)
	// By the second and from the first one on: nobody chooses when the market
	// takes a place away.
	terms.Compute, terms.Granularity, terms.MinimumSeconds = place.Rate, pricing.Second, 0
	own, err := s.ownTariff(ctx, place.Principal.AccountID, terms)
	if err != nil {
		return nil, err
	}
	bid := place.Bid
	if own.exchange != nil {
		if bid, err = own.exchange.Price(bid); err != nil {
			return nil, unpriceable(err)
		}
	}
	price, err := own.quote(pricing.Request{
		Plan: pricing.Spot, DiskGiB: r.DiskGiB, TimeZone: place.TimeZone, Bid: bid, Simulated: offer.Simulated,
	}, now)
	if err != nil {
		return nil, unpriceable(err)
	}
	q := &Quote{ID: ident.New(ident.Quote), AccountID: place.Principal.AccountID, Offer: offer, Request: r, Price: price, CreatedAt: now, ValidUntil: now}
	return &Placement{s: s, place: place, quote: q, quota: quota}, nil
}

// Accept writes the lease of a placement: quote, GPUs, hold and lease, or nothing.
func (p *Placement) Accept(ctx context.Context, tx *store.Tx) (*Lease, error) {
	c := p.place.Wish.Create
	c.QuoteID, c.bidID = p.quote.ID, p.place.BidID
	if err := insertQuote(ctx, tx, p.quote); err != nil {
		return nil, err
	}
	var err error
	p.lease, p.change, err = p.s.take(ctx, tx, p.place.Principal, p.quote, c, p.quota, p.s.Clock())
	return p.lease, err
}

// Announce is to be called after the commit.
func (p *Placement) Announce(ctx context.Context) { p.s.accepted(ctx, p.lease, p.change) }

// SpotLease is what the market needs to know of a bid's lease.
type SpotLease struct {
	ID, HostID string
	State      State
	Code       string
	Message    string
	// Interrupting says that it stops since its place was taken away.
	Interrupting bool
	// EverRan says that it has a disk, on its host only.
	EverRan bool
	// TakenInSetUp says that its place was taken away before it ran.
	TakenInSetUp bool
}

// SpotLeases returns the leases of bids in tx, by lease. Those that are over are
// among them if they are named.
func (s *Service) SpotLeases(ctx context.Context, tx *store.Tx, ids []string) (map[string]SpotLease, error) {
	out := map[string]SpotLease{}
	if len(ids) == 0 {
		return out, nil
	}
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	list, err := selectLeases(ctx, tx, `id IN (?`+strings.Repeat(",?", len(ids)-1)+`)`, args...)
	for _, l := range list {
		out[l.ID] = SpotLease{ID: l.ID, HostID: l.HostID, State: l.State, Code: l.Code, Message: l.Message,
			Interrupting: l.interrupting(), EverRan: l.State != Accepted && l.State != Provisioning,
			TakenInSetUp: (l.State == Ending || l.State == Ended) && interruptions[l.Code] != ""}
	}
	return out, err
}

// spotStep moves a lease in the market's transaction. What is returned is to be
// called after the commit.
func (s *Service) spotStep(ctx context.Context, tx *store.Tx, leaseID string, st step) (func(context.Context), error) {
	m := moving{step: st}
	if err := s.apply(ctx, tx, leaseID, &m); err != nil {
		return nil, err
	}
	return func(ctx context.Context) { s.moved(ctx, &m) }, nil
}

// SpotNotice tells a lease that its place is taken away at a moment, for a reason
// such as "outbid".
func (s *Service) SpotNotice(ctx context.Context, tx *store.Tx, leaseID, reason string, at time.Time) (func(context.Context), error) {
	message := ", unless its bid is raised or others leave before"
	if reason == "on_demand" {
		message = ", as a lease on demand needs its GPUs, unless that is given up before; a higher bid does not help"
	}
	return s.spotStep(ctx, tx, leaseID, step{event: Notice, code: reason, interruptAt: at, message: "is interrupted at " + at.UTC().Format(time.RFC3339) + message})
}

// SpotReprieve takes a notice back.
func (s *Service) SpotReprieve(ctx context.Context, tx *store.Tx, leaseID string) (func(context.Context), error) {
	return s.spotStep(ctx, tx, leaseID, step{event: Reprieve, message: "keeps its place after all"})
}

// SpotInterrupt takes a lease's place away. Its GPUs are free when its host has
// confirmed that.
func (s *Service) SpotInterrupt(ctx context.Context, tx *store.Tx, leaseID, reason string) (func(context.Context), error) {
	if interruptions[reason] == "" {
		reason = "outbid"
	}
	return s.spotStep(ctx, tx, leaseID, step{event: Outbid, code: reason, message: interruptions[reason]})
}

// SpotResume starts an interrupted lease, as its bid has won its host's GPUs.
func (s *Service) SpotResume(ctx context.Context, tx *store.Tx, leaseID string) (func(context.Context), error) {
	return s.spotStep(ctx, tx, leaseID, step{event: RequestStart})
}

// SpotEnd ends the lease of a bid that was withdrawn.
func (s *Service) SpotEnd(ctx context.Context, tx *store.Tx, leaseID string, by account.Principal) (func(context.Context), error) {
	return s.spotStep(ctx, tx, leaseID, step{event: RequestEnd, code: "commanded", message: "ended, as its bid was withdrawn", by: by})
}

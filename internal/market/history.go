package market

import (
	"context"
	"fmt"
	"strings"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing/auction"
	"suanli.dev/internal/store"
)

// Overview is what everybody may know of a market: no bid and no host is named.
type Overview struct {
	Market   fleet.MarketKey
	Currency money.Currency
	At       time.Time
	Goods    []auction.Good
	Depth    []auction.Level
}

// Overviews returns what the markets are like now, of one model or zone, or of
// all. Nothing is changed.
func (s *Service) Overviews(ctx context.Context, zone, model string) ([]Overview, error) {
	out := []Overview{}
	for _, k := range s.Supply.Markets() {
		if (zone != "" && k.Zone != zone) || (model != "" && !strings.EqualFold(k.Model, model)) {
			continue
		}
		o, err := s.overview(ctx, k)
		if err != nil {
			return nil, fmt.Errorf("market of %s in %s: %w", k.Model, k.Zone, err)
		}
		out = append(out, o)
	}
	return out, nil
}

func (s *Service) overview(ctx context.Context, k fleet.MarketKey) (Overview, error) {
	o := Overview{Market: k, Currency: s.Currency, At: s.Clock()}
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		r := &round{s: s, key: k, now: o.At, floors: map[string]auction.Price{}}
		m, _, err := r.read(ctx, tx)
		if err != nil {
			return err
		}
		result, err := auction.Clear(m, r.now)
		if err != nil {
			return err
		}
		o.Goods, o.Depth = result.Goods, auction.Depth(m)
		for i := range o.Goods {
			o.Goods[i].Marginal = "" // whose bid that is, is nobody's business
		}
		return nil
	})
	return o, err
}

// maxHistory bounds how far back a question about prices may go.
const maxHistory = 400 * 24 * time.Hour

// History is what a bundle size cost in a stretch of time.
type History struct {
	Market   fleet.MarketKey
	Currency money.Currency
	GPUs     int
	From, To time.Time
	Steps    []auction.Step
	Spread   auction.Spread
}

// Span names a bundle size of a market and a stretch of time. Zero times are the
// last week.
type Span struct {
	Zone      string // empty: the only one that has the model
	Model     string
	Simulated *bool
	GPUs      int // 0: one
	From, To  time.Time
}

// History returns the prices of a stretch of time.
func (s *Service) History(ctx context.Context, q Span) (History, error) {
	k, err := s.find(Create{Zone: q.Zone, Model: q.Model, Simulated: q.Simulated})
	if err != nil {
		return History{}, err
	}
	h := History{Market: k, Currency: s.Currency, GPUs: max(1, q.GPUs), From: q.From, To: q.To}
	if h.To.IsZero() {
		h.To = s.Clock()
	}
	if h.From.IsZero() {
		h.From = h.To.Add(-7 * 24 * time.Hour)
	}
	if !h.From.Before(h.To) || h.To.Sub(h.From) > maxHistory {
		return History{}, fault.New(fault.Invalid, "bad_time_range", "prices from %s to %s: want an end after the beginning, at most 400 days later", h.From.Format(time.RFC3339), h.To.Format(time.RFC3339)).At("query.from")
	}
	err = s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		all, err := steps(ctx, tx, k, h.GPUs, h.From, h.To)
		h.Steps, h.Spread = auction.Window(all, h.From, h.To), auction.Spreads(all, h.From, h.To)
		return err
	})
	return h, err
}

// Advice is how a bid would have fared.
type Advice struct {
	History
	auction.Advice
	// Suggested says that the bid was found, and not asked for.
	Suggested bool
}

// Advise says how a bid would have fared in a stretch of time. With a bid of 0 it
// suggests the lowest that would have run the share of the time, in basis points,
// and a headroom above it; it is a NotFound fault "no_advice" if none would have.
func (s *Service) Advise(ctx context.Context, q Span, bid auction.Price, share, headroom int) (Advice, error) {
	h, err := s.History(ctx, q)
	if err != nil {
		return Advice{}, err
	}
	a := Advice{History: h}
	if len(h.Steps) == 0 {
		return a, fault.New(fault.NotFound, "no_advice", "nothing is known yet of what %d × %s cost in that time", h.GPUs, h.Market.Model)
	}
	if bid > 0 {
		a.Advice, err = auction.Advise(h.Steps, h.From, h.To, bid, s.Params)
		return a, err
	}
	if share < 1 || share > 10_000 || headroom < 0 || headroom > 100_000 {
		return a, fault.New(fault.Invalid, "bad_share", "a share of %d and a headroom of %d basis points: want 1 to 10000 and 0 to 100000, or a bid", share, headroom).At("query.share_basis_points")
	}
	found := false
	if a.Advice, found, err = auction.Suggest(h.Steps, h.From, h.To, share, headroom, s.Params); err != nil {
		return a, err
	}
	if !found {
		return a, fault.New(fault.NotFound, "no_advice", "no bid would have run that share of the time; ask for a smaller one")
	}
	a.Suggested = true
	return a, nil
}

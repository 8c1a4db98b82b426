package lease

import (
	"context"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/pricing"
)

// Comparison is what an offer costs under all plans, side by side. Nothing of it
// is frozen: a quote is.
type Comparison struct {
	Offer   fleet.Offer
	Request QuoteRequest // as it was priced, with the template's image and disk
	Prices  pricing.Comparison
}

// Compare prices an offer for the caller's account under all plans. An option is
// available only if a quote for it can be had and accepted now. The request's own
// plan is ignored; timeZone is the account's.
func (s *Service) Compare(ctx context.Context, _ account.Principal, r QuoteRequest, timeZone string) (*Comparison, error) {
	offer, err := s.priceable(ctx, &r, timeZone)
	if err != nil {
		return nil, err
	}
	r.Plan = ""
	market := pricing.Market{GPUModel: offer.GPUModel, Zone: offer.Zone, GPUs: int64(offer.GPUCount), Tariff: tariff(offer)}
	prices, err := pricing.Compare(market, r.pricing(offer, timeZone), s.Clock())
	if err != nil {
		return nil, unpriceable(err)
	}
	return &Comparison{Offer: offer, Request: r, Prices: prices}, nil
}

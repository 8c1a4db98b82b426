package pricing

import (
	"fmt"
	"math"
	"slices"
	"time"

	"suanli.dev/internal/money"
)

// PriceRule is what a price list does to the listed rate of a meter: it takes a share
// off, or has a rate of its own in its place.
type PriceRule struct {
	GPUModel string      `json:"gpu_model,omitempty"` // bundles of this model only; empty: of every model, and of none
	Meter    Meter       `json:"meter"`
	OffPPM   int64       `json:"off_ppm,omitempty"` // millionths of the listed rate; or
	Rate     *money.Rate `json:"rate,omitempty"`    // instead of it; of compute: for each GPU
}

// PriceList is what an operator gives accounts: prices of their own. They are in the
// quotes that are made while it holds, and nowhere else.
type PriceList struct {
	ID       string         `json:"id"`
	Name     string         `json:"name"`
	Currency money.Currency `json:"currency,omitempty"` // of its rates; empty: it has none
	Rules    []PriceRule    `json:"rules"`              // at most one for a meter of a model
	From     time.Time      `json:"from"`
	Until    time.Time      `json:"until,omitzero"` // not in its time; zero: for ever
}

// Check reports the first thing that is wrong with p.
func (p PriceList) Check() error {
	if len(p.Rules) == 0 {
		return fmt.Errorf("price list %s has no prices: want at least one", p.Name)
	}
	if !p.Until.IsZero() && !p.Until.After(p.From) {
		return fmt.Errorf("price list %s begins at %s and is over at %s: want it to end after it begins", p.Name, p.From.UTC().Format(time.RFC3339), p.Until.UTC().Format(time.RFC3339))
	}
	for i, r := range p.Rules {
		switch {
		case !slices.Contains(Meters[:], r.Meter):
			return fmt.Errorf("price list %s, price %d: meter %q: want one of the meters", p.Name, i+1, r.Meter)
		case r.OffPPM < 0 || r.OffPPM > ppm:
			return fmt.Errorf("price list %s, price %d: %d millionths off %s: want 0 to 1000000", p.Name, i+1, r.OffPPM, r.Meter)
		case r.Rate != nil && r.OffPPM != 0:
			return fmt.Errorf("price list %s, price %d: a price and something off %s: want one of the two", p.Name, i+1, r.Meter)
		case r.Rate != nil && *r.Rate < 0:
			return fmt.Errorf("price list %s, price %d: %s for %s: want at least 0", p.Name, i+1, *r.Rate, r.Meter)
		case r.Rate != nil && !p.Currency.Valid():
			return fmt.Errorf("price list %s, price %d: %s for %s in the currency %q: want USD or CNY", p.Name, i+1, *r.Rate, r.Meter, p.Currency)
		case slices.ContainsFunc(p.Rules[:i], func(o PriceRule) bool { return o.Meter == r.Meter && o.GPUModel == r.GPUModel }):
			return fmt.Errorf("price list %s, price %d: there is a price for %s of the model %q already: want one", p.Name, i+1, r.Meter, r.GPUModel)
		}
	}
	return nil
}

// Holds reports whether p is in its time at a moment.
func (p PriceList) Holds(at time.Time) bool {
	return !at.Before(p.From) && (p.Until.IsZero() || at.Before(p.Until))
}

// AppliedList is the price list that a quote was made by, frozen in it: what made the
// account's prices of the listed ones.
type AppliedList struct {
	ID       string      `json:"id"`
	Name     string      `json:"name"`
	GPUModel string      `json:"gpu_model,omitempty"` // of the bundle
	GPUs     int64       `json:"gpus,omitempty"`      // in the bundle
	Rules    []PriceRule `json:"rules"`               // that were applied: at most one a meter
}

// Tariff returns t with the rates that p gives a bundle of so many GPUs of a model at
// a moment, and what was applied; nothing if it is over, has not begun, or leaves all
// as it is. A rule for the model wins over one for every model. t is in the account's
// currency; if p has rates in another it is an error.
func (p PriceList) Tariff(t Tariff, gpuModel string, gpus int64, at time.Time) (Tariff, *AppliedList, error) {
	if err := p.Check(); err != nil {
		return t, nil, err
	}
	if !p.Holds(at) {
		return t, nil, nil
	}
	a := AppliedList{ID: p.ID, Name: p.Name, GPUModel: gpuModel, GPUs: gpus}
	for _, m := range Meters {
		var found *PriceRule
		for i, r := range p.Rules {
			if r.Meter != m || r.GPUModel != "" && r.GPUModel != gpuModel {
				continue
			}
			if r.Rate != nil && m == Compute && gpus < 1 {
				continue // a price for each GPU says nothing of a bundle without any
			}
			if found == nil || found.GPUModel == "" {
				found = &p.Rules[i]
			}
		}
		if found == nil {
			continue
		}
		if found.Rate != nil && p.Currency != t.Currency {
			return t, nil, fmt.Errorf("price list %s is in %s and the account pays in %s", p.Name, p.Currency, t.Currency)
		}
		a.Rules = append(a.Rules, *found)
	}
	own, err := a.tariff(t)
	if err != nil || own == t {
		return t, nil, err
	}
	return own, &a, nil
}

// tariff applies a's rules. Each rate is rounded once, to the nano, half to even.
func (a AppliedList) tariff(t Tariff) (Tariff, error) {
	for _, r := range a.Rules {
		rate := t.Rate(r.Meter)
		switch {
		case rate < 0:
			return t, fmt.Errorf("price list %s: a listed price of %s for %s: want at least 0", a.Name, rate, r.Meter)
		case r.Rate != nil && r.Meter == Compute:
			if *r.Rate < 0 || int64(*r.Rate) > math.MaxInt64/max(1, a.GPUs) {
				return t, fmt.Errorf("price list %s: %s for each of %d GPUs is more than can be counted", a.Name, *r.Rate, a.GPUs)
			}
			rate = *r.Rate * money.Rate(a.GPUs)
		case r.Rate != nil:
			rate = *r.Rate
		case r.OffPPM < 0 || r.OffPPM > ppm:
			return t, fmt.Errorf("price list %s: %d millionths off %s: want 0 to 1000000", a.Name, r.OffPPM, r.Meter)
		default:
			own, err := product(int64(rate), ppm-r.OffPPM).over(ppm)
			if err != nil {
				return t, err
			}
			rate = money.Rate(own)
		}
		t.setRate(r.Meter, rate)
	}
	return t, nil
}

// Rule returns what a did to the rate of a meter, if anything.
func (a AppliedList) Rule(m Meter) (PriceRule, bool) {
	i := slices.IndexFunc(a.Rules, func(r PriceRule) bool { return r.Meter == m })
	if i < 0 {
		return PriceRule{}, false
	}
	return a.Rules[i], true
}

// Check reports whether t is what a makes of the listed prices.
func (a AppliedList) Check(listed, t Tariff) error {
	want, err := a.tariff(listed)
	if err != nil {
		return err
	}
	if want != t {
		return fmt.Errorf("the prices are not those of the price list %s", a.ID)
	}
	return nil
}

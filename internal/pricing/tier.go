package pricing

import (
	"fmt"

	"suanli.dev/internal/money"
)

// Tier is what use beyond a sum takes off. Tiers are graduated: each takes its part
// off what lies in it, and nothing off what lies below.
type Tier struct {
	From        money.Amount `json:"from"` // of the month, before this discount
	BasisPoints int64        `json:"basis_points"`
}

// checkTiers reports the first thing that is wrong with tiers.
func checkTiers(tiers []Tier) error {
	for i, t := range tiers {
		if t.From < 0 || t.BasisPoints < 0 || t.BasisPoints > basisPoints {
			return fmt.Errorf("tier from %s with %d basis points off: want at least 0, and 0 to 10000", t.From, t.BasisPoints)
		}
		if i > 0 && tiers[i-1].From >= t.From {
			return fmt.Errorf("tier from %s comes after the one from %s: want them in order", t.From, tiers[i-1].From)
		}
	}
	return nil
}

// VolumeDiscount returns what tiers take off a month's amount, rounded once. Who
// has posted a discount already posts the difference, also when a correction
// makes the month's amount less.
func VolumeDiscount(tiers []Tier, month money.Amount) (money.Amount, error) {
	if err := checkTiers(tiers); err != nil {
		return 0, err
	}
	var sum wide
	var err error
	for i, t := range tiers {
		until := month
		if i+1 < len(tiers) {
			until = min(until, tiers[i+1].From)
		}
		if t.From < until {
			if sum, err = sum.plus(product(int64(until-t.From), t.BasisPoints)); err != nil {
				return 0, err
			}
		}
	}
	off, err := sum.over(basisPoints)
	return money.Amount(off), err
}

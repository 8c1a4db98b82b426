package pricing

import (
	"fmt"
	"math/big"

	"suanli.dev/internal/money"
)

// Derivation is an Item with the fractions that its amount comes from, in
// micro-units: Carried + Exact = Amount + Left. All of a lease's compute is rounded
// once, so what one item leaves is carried to the next; other items are rounded on
// their own, and carry nothing.
type Derivation struct {
	Item
	Exact   *big.Rat // rate × charged ÷ per
	Carried *big.Rat // what rounding had left over before it
	Left    *big.Rat // what it leaves over
}

// Holds reports whether the amount is what rounding to the nearest micro-unit
// gives: what is left over is never more than half of one.
func (d Derivation) Holds() bool {
	return new(big.Rat).Abs(d.Left).Cmp(big.NewRat(1, 2)) <= 0
}

// Derive says how the amounts of items come about. The items must be all of their
// lease's, as Itemise returns them.
func Derive(items []Item) []Derivation {
	out := make([]Derivation, 0, len(items))
	carried := new(big.Rat)
	for _, it := range items {
		d := Derivation{Item: it, Exact: new(big.Rat), Carried: new(big.Rat)}
		if !it.Covered && !it.Waived && it.Per > 0 {
			d.Exact.SetFrac(new(big.Int).Mul(big.NewInt(int64(it.Rate)), big.NewInt(it.Charged)), new(big.Int).Mul(big.NewInt(it.Per), big.NewInt(nanoPerMicro)))
		}
		if it.Meter == Compute {
			d.Carried.Set(carried)
		}
		d.Left = new(big.Rat).Add(d.Carried, d.Exact)
		d.Left.Sub(d.Left, new(big.Rat).SetInt64(int64(it.Amount)))
		if it.Meter == Compute {
			carried = d.Left
		}
		out = append(out, d)
	}
	return out
}

// FractionText writes an exact number of micro-units in units of money: whole
// micro-units as a decimal, and the rest as a fraction of the last digit, such as
// "0.333333 + 1/3 × 0.000001".
func FractionText(micros *big.Rat) string {
	whole, rest := new(big.Int).QuoRem(micros.Num(), micros.Denom(), new(big.Int))
	text := money.Amount(whole.Int64()).String()
	if rest.Sign() == 0 {
		return text
	}
	sign := "+"
	if rest.Sign() < 0 {
		sign = "-"
		rest.Abs(rest)
	}
	return fmt.Sprintf("%s %s %s/%s × 0.000001", text, sign, rest, micros.Denom())
}

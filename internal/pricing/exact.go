package pricing

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"suanli.dev/internal/money"
)

// ppm is the whole, in parts per million; basisPoints the whole in 1/100 %.
const (
	ppm         = 1_000_000
	basisPoints = 10_000
)

// wide is an unsigned integer of 128 bits: sums of rate × seconds stay exact in
// it until their one rounding.
type wide struct{ hi, lo uint64 }

// product multiplies two numbers that are not negative.
func product(a, b int64) wide {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return wide{hi, lo}
}

func (w wide) plus(v wide) (wide, error) {
	lo, carry := bits.Add64(w.lo, v.lo, 0)
	hi, carry := bits.Add64(w.hi, v.hi, carry)
	if carry != 0 {
		return wide{}, money.ErrOverflow
	}
	return wide{hi, lo}, nil
}

// over divides, rounding half to even.
func (w wide) over(divisor uint64) (int64, error) {
	q, rem, err := w.quoRem(divisor)
	if err != nil {
		return 0, err
	}
	// Compares 2×rem with the divisor without overflowing.
	if rest := divisor - rem; rem > rest || (rem == rest && q&1 == 1) {
		if q == math.MaxInt64 {
			return 0, money.ErrOverflow
		}
		q++
	}
	return q, nil
}

func (w wide) quoRem(divisor uint64) (int64, uint64, error) {
	if w.hi >= divisor {
		return 0, 0, money.ErrOverflow
	}
	q, rem := bits.Div64(w.hi, w.lo, divisor)
	if q > math.MaxInt64 {
		return 0, 0, money.ErrOverflow
	}
	return int64(q), rem, nil
}

// part returns a × num ÷ den, rounded once, half to even. num may not be
// negative and den must be positive.
func part(a money.Amount, num, den int64) (money.Amount, error) {
	if num < 0 || den <= 0 {
		return 0, fmt.Errorf("%s × %d ÷ %d: want a part of at least 0 of something", a, num, den)
	}
	if a == math.MinInt64 {
		return 0, money.ErrOverflow
	}
	q, err := product(int64(max(a, -a)), num).over(uint64(den))
	if a < 0 {
		q = -q
	}
	return money.Amount(q), err
}

// floorPart returns a × num ÷ den rounded down, towards less, and what is left
// over, in den-ths.
func floorPart(a money.Amount, num, den int64) (money.Amount, uint64, error) {
	if num < 0 || den <= 0 {
		return 0, 0, fmt.Errorf("%s × %d ÷ %d: want a part of at least 0 of something", a, num, den)
	}
	if a == math.MinInt64 {
		return 0, 0, money.ErrOverflow
	}
	q, rem, err := product(int64(max(a, -a)), num).quoRem(uint64(den))
	if err != nil {
		return 0, 0, err
	}
	if a < 0 {
		if q = -q; rem != 0 {
			q, rem = q-1, uint64(den)-rem
		}
	}
	return money.Amount(q), rem, nil
}

// times multiplies whole numbers that are not negative, or reports an overflow.
func times(a, b int64) (int64, error) {
	p := product(a, b)
	if a < 0 || b < 0 || p.hi != 0 || p.lo > math.MaxInt64 {
		return 0, money.ErrOverflow
	}
	return int64(p.lo), nil
}

// lines is amounts rounded down with what each lost, to be made whole.
type lines struct {
	floors []money.Amount
	rest   []uint64 // of one common denominator
}

// sumTo raises floors by one unit each, largest remainder first and of equal ones
// the earlier, until they add up to total. It is the method of Hamilton: no line
// is a unit or more away from its exact amount, and the sum is exact.
func (l lines) sumTo(total, unit money.Amount) ([]money.Amount, error) {
	out := slices.Clone(l.floors)
	left := total
	for _, f := range out {
		var err error
		if left, err = left.Add(-f); err != nil {
			return nil, err
		}
	}
	if left < 0 || left%unit != 0 || left/unit > money.Amount(len(out)) {
		return nil, fmt.Errorf("%d lines cannot be rounded to add up to %s", len(out), total)
	}
	order := make([]int, len(out))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(l.rest[b], l.rest[a]) })
	for _, i := range order[:left/unit] {
		out[i] += unit
	}
	return out, nil
}

// Allocate divides total in proportion to weights, to the last micro, by largest
// remainder. Weights may not be negative; if all are zero, total must be zero.
func Allocate(total money.Amount, weights []int64) ([]money.Amount, error) {
	var whole int64
	for _, w := range weights {
		if w < 0 || whole > math.MaxInt64-w {
			return nil, fmt.Errorf("allocate %s: weights want to be at least 0 and to have a sum", total)
		}
		whole += w
	}
	if whole == 0 {
		if total != 0 {
			return nil, fmt.Errorf("allocate %s: there is nothing to allocate it to", total)
		}
		return make([]money.Amount, len(weights)), nil
	}
	var l lines
	for _, w := range weights {
		f, rest, err := floorPart(total, w, whole)
		if err != nil {
			return nil, err
		}
		l.floors, l.rest = append(l.floors, f), append(l.rest, rest)
	}
	return l.sumTo(total, 1)
}

// sumOf adds amounts up.
func sumOf(amounts ...money.Amount) (total money.Amount, err error) {
	for _, a := range amounts {
		if total, err = total.Add(a); err != nil {
			return 0, err
		}
	}
	return total, nil
}

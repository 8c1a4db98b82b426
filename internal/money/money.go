// Package money is exact money: amounts in micro-units of a currency's major
// unit, rates in nano-units per unit of what is sold, products through 128-bit
// arithmetic with one half-even rounding. Nothing in it is floating point, and
// an overflow is an error, never a wrapped number.
package money

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Amount is a sum of money in micro-units: 1,000,000 is one dollar or one yuan.
// Its JSON form is a decimal string such as "1.290000", since a JSON number
// would pass through floating point in most clients.
type Amount int64

// Rate is a price in nano-units of the major unit per one unit of a meter:
// 1,290,000,000 is 1.29 per hour where the unit is an hour.
type Rate int64

// Currency is an ISO 4217 code.
type Currency string

// The currencies an account can have.
const (
	USD Currency = "USD"
	CNY Currency = "CNY"
)

// Valid reports whether c is a currency that suanli keeps accounts in.
func (c Currency) Valid() bool { return c == USD || c == CNY }

// ErrOverflow is returned by arithmetic whose result does not fit.
var ErrOverflow = errors.New("amount does not fit in 64 bits")

const (
	micro = 1_000_000
	nano  = 1_000_000_000
)

// Add returns a+b.
func (a Amount) Add(b Amount) (Amount, error) {
	s := a + b
	if (s > a) != (b > 0) && b != 0 {
		return 0, ErrOverflow
	}
	return s, nil
}

// String returns a in major units with six decimals, such as "1.290000".
func (a Amount) String() string { return decimal(int64(a), micro, 6) }

// Display returns a in major units with trailing zeros cut down to two decimals.
func (a Amount) Display() string { return trim(a.String()) }

// String returns r in major units per unit with nine decimals.
func (r Rate) String() string { return decimal(int64(r), nano, 9) }

// Display returns r with trailing zeros cut down to two decimals.
func (r Rate) Display() string { return trim(r.String()) }

func trim(s string) string {
	dot := strings.IndexByte(s, '.')
	for len(s) > dot+3 && s[len(s)-1] == '0' {
		s = s[:len(s)-1]
	}
	return s
}

func decimal(v int64, unit uint64, digits int) string {
	sign := ""
	u := uint64(v)
	if v < 0 {
		sign, u = "-", -u
	}
	return fmt.Sprintf("%s%d.%0*d", sign, u/unit, digits, u%unit)
}

// ParseAmount reads a decimal in major units, such as "12", "-3.5" or
// "0.000001". More than six decimals, exponents, signs other than one leading
// minus, separators and spaces are errors that say so.
func ParseAmount(s string) (Amount, error) {
	v, err := parse(s, 6)
	return Amount(v), err
}

// ParseRate reads a decimal in major units per unit with up to nine decimals.
func ParseRate(s string) (Rate, error) {
	v, err := parse(s, 9)
	return Rate(v), err
}

func parse(s string, digits int) (int64, error) {
	whole, frac, dotted := strings.Cut(strings.TrimPrefix(s, "-"), ".")
	fail := func(why string) (int64, error) {
		return 0, fmt.Errorf("amount %q: %s; write it like \"12.50\"", s, why)
	}
	if whole == "" || (dotted && frac == "") {
		return fail("want digits on both sides of the decimal point")
	}
	if len(frac) > digits {
		return fail(fmt.Sprintf("at most %d decimals are kept", digits))
	}
	text := whole + frac + strings.Repeat("0", digits-len(frac))
	for _, c := range text {
		if c < '0' || c > '9' {
			return fail(fmt.Sprintf("%q is not a digit", c))
		}
	}
	if strings.HasPrefix(s, "-") {
		text = "-" + text
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fail("too large")
	}
	return v, nil
}

// MarshalText writes the decimal form.
func (a Amount) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads the decimal form.
func (a *Amount) UnmarshalText(b []byte) error {
	v, err := ParseAmount(string(b))
	*a = v
	return err
}

// MarshalText writes the decimal form.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the decimal form.
func (r *Rate) UnmarshalText(b []byte) error {
	v, err := ParseRate(string(b))
	*r = v
	return err
}

// Times returns r × quantity ÷ per as an Amount, rounded once, half to even.
// quantity is in the meter's base unit and per is how many base units the rate
// is for: a rate per hour times seconds has per = 3600. Neither may be
// negative, and per may not be zero.
func (r Rate) Times(quantity, per int64) (Amount, error) {
	if quantity < 0 || per <= 0 {
		return 0, fmt.Errorf("rate × %d ÷ %d: quantity must be at least 0 and per at least 1", quantity, per)
	}
	// nano → micro is a further division by 1000.
	divHi, divLo := bits.Mul64(uint64(per), nano/micro)
	if divHi != 0 {
		return 0, ErrOverflow
	}
	neg := r < 0
	u := uint64(r)
	if neg {
		u = -u
	}
	hi, lo := bits.Mul64(u, uint64(quantity))
	if hi >= divLo {
		return 0, ErrOverflow
	}
	q, rem := bits.Div64(hi, lo, divLo)
	// Compare 2×rem with the divisor without overflowing.
	if rest := divLo - rem; rem > rest || (rem == rest && q&1 == 1) {
		q++
	}
	if q > math.MaxInt64 {
		return 0, ErrOverflow
	}
	if neg {
		return -Amount(q), nil
	}
	return Amount(q), nil
}

// Share returns the part of a that basisPoints (1/100 of a per cent, 0 to
// 10,000) is, rounded towards zero; the caller gives the rest to the other
// side, so that the two always add up to a.
func (a Amount) Share(basisPoints int64) (Amount, error) {
	if basisPoints < 0 || basisPoints > 10_000 {
		return 0, fmt.Errorf("share of %d basis points: want 0 to 10000", basisPoints)
	}
	neg := a < 0
	u := uint64(a)
	if neg {
		u = -u
	}
	hi, lo := bits.Mul64(u, uint64(basisPoints))
	q, _ := bits.Div64(hi, lo, 10_000)
	if neg {
		return -Amount(q), nil
	}
	return Amount(q), nil
}

package auction

import (
	"fmt"
	"math/bits"
	"time"

	"suanli.dev/internal/money"
)

// Price is money per GPU and hour, in nano-units. It is a type of its own so
// that the price of a whole bundle cannot be taken for it: that one is a
// money.Rate, and PerGPU and Bundle are the two ways between them.
type Price money.Rate

// MaxPrice is the highest price that is taken, 100,000 per GPU-hour: above it
// are only mistakes, and sums of prices stay far from overflowing.
const MaxPrice = Price(100_000_000_000_000)

// ParsePrice reads a decimal per GPU-hour with up to nine decimals.
func ParsePrice(s string) (Price, error) {
	r, err := money.ParseRate(s)
	if err != nil {
		return 0, err
	}
	if r < 0 || Price(r) > MaxPrice {
		return 0, fmt.Errorf("price %q per GPU-hour: want 0 to %s", s, MaxPrice.Display())
	}
	return Price(r), nil
}

// PerGPU is the price per GPU-hour of a bundle of gpus that costs total an hour,
// rounded down to a whole nano-unit, so that the bundle never costs more than
// total.
func PerGPU(total money.Rate, gpus int) (Price, error) {
	if gpus < 1 || total < 0 || total/money.Rate(gpus) > money.Rate(MaxPrice) {
		return 0, fmt.Errorf("%s an hour for %d GPUs: want at least one GPU and 0 to %s for each", total.Display(), gpus, MaxPrice.Display())
	}
	return Price(total / money.Rate(gpus)), nil
}

// Bundle is what gpus cost an hour at this price, or money.ErrOverflow.
func (p Price) Bundle(gpus int) (money.Rate, error) {
	hi, lo := bits.Mul64(uint64(max(p, 0)), uint64(max(gpus, 0)))
	if hi != 0 || lo > 1<<63-1 {
		return 0, money.ErrOverflow
	}
	return money.Rate(lo), nil
}

// String is the price per GPU-hour in major units with nine decimals.
func (p Price) String() string { return money.Rate(p).String() }

// Display is String with trailing zeros cut down to two decimals.
func (p Price) Display() string { return money.Rate(p).Display() }

// MarshalText writes the decimal form.
func (p Price) MarshalText() ([]byte, error) { return money.Rate(p).MarshalText() }

// UnmarshalText reads the decimal form.
func (p *Price) UnmarshalText(b []byte) error {
	v, err := ParsePrice(string(b))
	*p = v
	return err
}

// share is p × basisPoints ÷ 10,000, rounded up: a floor rounded down would be
// below what its host asked for.
func (p Price) share(basisPoints int) Price {
	hi, lo := bits.Mul64(uint64(p), uint64(basisPoints))
	if hi >= 10_000 {
		return MaxPrice
	}
	q, rem := bits.Div64(hi, lo, 10_000)
	if rem > 0 {
		q++
	}
	return Price(min(q, uint64(MaxPrice)))
}

// ceil is p rounded up to a multiple of tick.
func (p Price) ceil(tick Price) Price {
	if tick <= 0 || p%tick == 0 {
		return p
	}
	return p - p%tick + tick
}

// begun is how many seconds of d have begun before its end.
func begun(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// seconds is how many whole seconds d has; a started one does not count, as in
// the rating of leases.
func seconds(d time.Duration) int64 { return int64(d / time.Second) }

package pricing

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"suanli.dev/internal/money"
)

// Coupon takes something off once or for a time.
type Coupon struct {
	Code     string         `json:"code"`
	PPM      int64          `json:"discount_ppm,omitempty"` // millionths of the price; or
	Fixed    money.Amount   `json:"discount,omitempty"`     // a sum, used up over its uses
	Currency money.Currency `json:"currency,omitempty"`     // of Fixed or UpTo
	MaxUses  int64          `json:"max_uses,omitempty"`     // over all accounts; 0: no limit
	From     time.Time      `json:"from,omitzero"`          // zero: since ever
	Until    time.Time      `json:"until"`                  // not in its time; zero: for ever
	UpTo     money.Amount   `json:"up_to,omitempty"`        // the most that PPM takes off for one account, in Currency; 0: no limit
	Meters   []Meter        `json:"meters,omitempty"`       // empty: all
}

// Usable reports why a coupon that was used so often cannot be used at a moment.
func (c Coupon) Usable(used int64, at time.Time) error {
	switch {
	case c.MaxUses > 0 && used >= c.MaxUses:
		return fmt.Errorf("coupon %s has been used %d times of %d", c.Code, used, c.MaxUses)
	case at.Before(c.From):
		return fmt.Errorf("coupon %s begins at %s", c.Code, c.From.UTC().Format(time.RFC3339))
	case !c.Until.IsZero() && !at.Before(c.Until):
		return fmt.Errorf("coupon %s expired at %s", c.Code, c.Until.UTC().Format(time.RFC3339))
	}
	return nil
}

// ParseCoupon reads a coupon as operators write it: a code, what it takes off, and
// conditions, separated by spaces, such as
//
//	WELCOME 12.5% upto=50.00CNY max=100 from=2026-12-01T00:00:00Z until=2026-12-31T00:00:00Z meters=compute,storage
//	THANKS 50.00CNY
func ParseCoupon(s string) (Coupon, error) {
	fields := strings.Fields(s)
	if len(fields) < 2 {
		return Coupon{}, fmt.Errorf("coupon %q: want a code and what it gives, in one text such as \"THANKS 50.00CNY\"", s)
	}
	c := Coupon{Code: fields[0]}
	if len(c.Code) > 64 || strings.Trim(c.Code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
		return Coupon{}, fmt.Errorf("coupon code %q: want up to 64 capital letters, digits, - and _", c.Code)
	}
	switch off := fields[1]; {
	case strings.HasSuffix(off, "%"):
		share, err := ParsePercent(off)
		if err != nil {
			return Coupon{}, fmt.Errorf("coupon %s: %w", c.Code, err)
		}
		if c.PPM = share; share < 1 || share > ppm {
			return Coupon{}, fmt.Errorf("coupon %s takes off %s: want more than 0%% and at most 100%%", c.Code, off)
		}
	case len(off) > 3 && money.Currency(off[len(off)-3:]).Valid():
		sum, err := money.ParseAmount(off[:len(off)-3])
		if err != nil {
			return Coupon{}, fmt.Errorf("coupon %s: %w", c.Code, err)
		}
		if c.Fixed, c.Currency = sum, money.Currency(off[len(off)-3:]); sum <= 0 {
			return Coupon{}, fmt.Errorf("coupon %s takes off %s: want more than 0", c.Code, off)
		}
	default:
		return Coupon{}, fmt.Errorf("coupon %s takes off %q: want a share such as 10%% or a sum such as 50.00CNY", c.Code, off)
	}
	for _, f := range fields[2:] {
		name, value, _ := strings.Cut(f, "=")
		var err error
		switch {
		case name == "max" && c.MaxUses == 0:
			if c.MaxUses, err = strconv.ParseInt(value, 10, 64); err == nil && c.MaxUses < 1 {
				err = fmt.Errorf("max=%s: want at least 1", value)
			}
		case name == "upto" && c.UpTo == 0 && c.PPM > 0:
			if len(value) < 4 || !money.Currency(value[len(value)-3:]).Valid() {
				err = fmt.Errorf("upto=%s: want a sum such as 50.00CNY", value)
			} else if c.UpTo, err = money.ParseAmount(value[:len(value)-3]); err == nil && c.UpTo <= 0 {
				err = fmt.Errorf("upto=%s: want more than 0", value)
			} else {
				c.Currency = money.Currency(value[len(value)-3:])
			}
		case name == "from" && c.From.IsZero():
			if c.From, err = time.Parse(time.RFC3339, value); err == nil {
				c.From = c.From.UTC()
			}
		case name == "until" && c.Until.IsZero():
			if c.Until, err = time.Parse(time.RFC3339, value); err == nil {
				c.Until = c.Until.UTC()
			}
		case name == "meters" && c.Meters == nil:
			for _, m := range strings.Split(value, ",") {
				if !slices.Contains(Meters[:], Meter(m)) || slices.Contains(c.Meters, Meter(m)) {
					return Coupon{}, fmt.Errorf("coupon %s: meter %q: want each of the meters at most once", c.Code, m)
				}
				c.Meters = append(c.Meters, Meter(m))
			}
		default:
			err = fmt.Errorf("%q: want max=, from=, until= or meters=, and of a share upto=, each once", f)
		}
		if err != nil {
			return Coupon{}, fmt.Errorf("coupon %s: %w", c.Code, err)
		}
	}
	if !c.Until.IsZero() && !c.From.Before(c.Until) {
		return Coupon{}, fmt.Errorf("coupon %s begins at %s and is over at %s: want it to end after it begins", c.Code, c.From.Format(time.RFC3339), c.Until.Format(time.RFC3339))
	}
	return c, nil
}

// String writes c as ParseCoupon reads it.
func (c Coupon) String() string {
	var b strings.Builder
	b.WriteString(c.Code + " ")
	if c.Fixed > 0 {
		b.WriteString(c.Fixed.Display() + string(c.Currency))
	} else {
		b.WriteString(percent(c.PPM))
	}
	if c.UpTo > 0 {
		b.WriteString(" upto=" + c.UpTo.Display() + string(c.Currency))
	}
	if c.MaxUses > 0 {
		fmt.Fprintf(&b, " max=%d", c.MaxUses)
	}
	if !c.From.IsZero() {
		b.WriteString(" from=" + c.From.UTC().Format(time.RFC3339Nano))
	}
	if !c.Until.IsZero() {
		b.WriteString(" until=" + c.Until.UTC().Format(time.RFC3339Nano))
	}
	for i, m := range c.Meters {
		b.WriteString(map[bool]string{true: " meters=", false: ","}[i == 0] + string(m))
	}
	return b.String()
}

// ParsePercent reads a percentage such as "8.875%" as millionths, 88,750. More
// than four decimals are an error.
func ParsePercent(s string) (int64, error) {
	digits, ok := strings.CutSuffix(s, "%")
	if _, frac, _ := strings.Cut(digits, "."); !ok || len(frac) > 4 {
		return 0, fmt.Errorf("percentage %q: want up to four decimals and a %%, such as 8.875%%", s)
	}
	a, err := money.ParseAmount(digits)
	if err != nil || a < 0 || a > 1000*ppm {
		return 0, fmt.Errorf("percentage %q: want 0%% to 1000%%, such as 8.875%%", s)
	}
	return int64(a) / 100, nil
}

// percent writes millionths as ParsePercent reads them.
func percent(share int64) string {
	s := strings.TrimRight(money.Amount(share*100).String(), "0")
	return strings.TrimSuffix(s, ".") + "%"
}

// MonthOf returns the calendar month of an account's zone that a moment is in:
// what volume discounts, statements and availability are counted by.
func MonthOf(at time.Time, timeZone string) (Period, error) {
	zone, err := location(timeZone)
	if err != nil {
		return Period{}, err
	}
	m := monthOf(at, zone)
	return Period{Start: m.start.UTC(), End: m.end.UTC()}, nil
}

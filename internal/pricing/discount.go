package pricing

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"suanli.dev/internal/money"
)

// Step is a stage at which a price may become less. Stages come in this order,
// and each is explained by a line.
type Step string

// The steps.
const (
	ListStep      Step = "list"
	PriceListStep Step = "price_list" // the account's own
	TermStep      Step = "term"
	CouponStep    Step = "coupon"
	VolumeStep    Step = "volume"
	GrantStep     Step = "grant"
	WalletStep    Step = "wallet" // what is left to pay
)

// Explained is a line of how a price came about.
type Explained struct {
	Step      Step         `json:"step"`
	Reference string       `json:"reference,omitempty"` // of the price list, coupon, grant
	Meter     Meter        `json:"meter,omitempty"`     // empty: of all
	Before    money.Amount `json:"before"`
	Change    money.Amount `json:"change"` // less than 0 where it takes something off
	After     money.Amount `json:"after"`
}

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

// off returns what the coupon takes off an amount, of which a fixed one has taken
// some already.
func (c Coupon) off(a, taken money.Amount) (money.Amount, error) {
	if c.Fixed > 0 {
		return max(0, min(a, c.Fixed-taken)), nil
	}
	off, err := part(a, c.PPM, ppm)
	if c.UpTo > 0 {
		off = max(0, min(off, c.UpTo-taken))
	}
	return off, err
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

// Discounts is what an account has for a month. The list price and the account's
// price list are in the quote already; see PriceList.
type Discounts struct {
	PriceList   string // its identifier, to name it; its rates are in Priced
	Term        int64  // basis points off compute
	TermName    string
	Coupon      *Coupon
	CouponTaken money.Amount // of a fixed one, in other months
	Tiers       []Tier
}

// MonthUse is what an account used in a calendar month of its zone, at the listed
// and at its own prices.
type MonthUse struct {
	Listed map[Meter]money.Amount
	Own    map[Meter]money.Amount // nil: the listed ones
}

// Discounted is a month with its discounts.
type Discounted struct {
	Lines []Explained
	Net   map[Meter]money.Amount // what is left of each meter
	Total money.Amount
}

// Apply takes discounts off what an account used in a month so far, in the order
// of the steps, and explains each. It is given the whole month, so that who posts
// posts differences and a correction changes what it must.
func (d Discounts) Apply(use MonthUse) (Discounted, error) {
	out := Discounted{Net: map[Meter]money.Amount{}}
	if d.Term < 0 || d.Term > basisPoints {
		return out, fmt.Errorf("a term discount of %d basis points: want 0 to 10000", d.Term)
	}
	own := use.Own
	if own == nil {
		own = use.Listed
	}
	line := func(s Step, reference string, m Meter, before, change money.Amount) {
		if change != 0 || s == ListStep || s == WalletStep {
			out.Lines = append(out.Lines, Explained{s, reference, m, before, change, before + change})
		}
	}
	var total money.Amount
	for _, m := range Meters {
		a := own[m]
		if use.Listed[m] < 0 || a < 0 {
			return out, fmt.Errorf("%s comes to %s: want at least 0", m, min(a, use.Listed[m]))
		}
		if use.Listed[m] == 0 && a == 0 {
			continue
		}
		line(ListStep, "", m, 0, use.Listed[m])
		line(PriceListStep, d.PriceList, m, use.Listed[m], a-use.Listed[m])
		if m == Compute && d.Term > 0 {
			off, err := part(a, d.Term, basisPoints)
			if err != nil {
				return out, err
			}
			line(TermStep, d.TermName, m, a, -off)
			a -= off
		}
		out.Net[m] = a
		var err error
		if total, err = total.Add(a); err != nil {
			return out, err
		}
	}
	if d.Coupon != nil {
		if err := d.coupon(&out, line); err != nil {
			return out, err
		}
	}
	var meters []Meter
	var weights []int64
	total = 0
	for _, m := range Meters {
		if out.Net[m] > 0 {
			meters, weights = append(meters, m), append(weights, int64(out.Net[m]))
			total += out.Net[m]
		}
	}
	off, err := VolumeDiscount(d.Tiers, total)
	if err != nil {
		return out, err
	}
	parts, err := Allocate(off, weights)
	if err != nil {
		return out, err
	}
	for i, m := range meters {
		out.Net[m] -= parts[i]
	}
	line(VolumeStep, "", "", total, -off)
	out.Total = total - off
	return out, nil
}

// coupon takes d's coupon off, meter by meter.
func (d Discounts) coupon(out *Discounted, line func(Step, string, Meter, money.Amount, money.Amount)) error {
	taken := d.CouponTaken
	for _, m := range Meters {
		if out.Net[m] == 0 || (len(d.Coupon.Meters) > 0 && !slices.Contains(d.Coupon.Meters, m)) {
			continue
		}
		off, err := d.Coupon.off(out.Net[m], taken)
		if err != nil {
			return err
		}
		if off < 0 || off > out.Net[m] {
			return fmt.Errorf("coupon %s takes %s off %s", d.Coupon.Code, off, out.Net[m])
		}
		taken += off
		line(CouponStep, d.Coupon.Code, m, out.Net[m], -off)
		out.Net[m] -= off
	}
	return nil
}

// Pay settles a discounted month from grants, then the wallet, with a line each.
// Grants apply by time, so their draws come from DrawGrants.
func (d Discounted) Pay(draws []Draw) (lines []Explained, wallet money.Amount, err error) {
	wallet = d.Total
	byGrant := map[string]money.Amount{}
	for _, w := range draws {
		if byGrant[w.GrantID], err = byGrant[w.GrantID].Add(w.Amount); err != nil {
			return nil, 0, err
		}
	}
	ids := make([]string, 0, len(byGrant))
	for id := range byGrant {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, cmp.Compare[string])
	for _, id := range ids {
		if a := byGrant[id]; a < 0 || a > wallet {
			return nil, 0, fmt.Errorf("grant %s pays %s of %s", id, a, wallet)
		}
		lines = append(lines, Explained{GrantStep, id, "", wallet, -byGrant[id], wallet - byGrant[id]})
		wallet -= byGrant[id]
	}
	return append(lines, Explained{WalletStep, "", "", wallet, -wallet, 0}), wallet, nil
}

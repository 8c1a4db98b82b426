package pricing

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"suanli.dev/internal/money"
)

// TermDiscount is what a longer term takes off.
type TermDiscount struct {
	Months      int   `json:"months"`
	BasisPoints int64 `json:"basis_points"` // 1/100 %
}

// Terms are the terms that months can be bought in.
var Terms = [...]int{1, 3, 6, 12}

// checkTerms reports the first thing that is wrong with a table of discounts.
func checkTerms(table []TermDiscount) error {
	for i, d := range table {
		switch {
		case d.Months < 1 || d.Months > maxTermMonths:
			return fmt.Errorf("discount for a term of %d months: want 1 to %d", d.Months, maxTermMonths)
		case d.BasisPoints < 0 || d.BasisPoints > basisPoints:
			return fmt.Errorf("discount of %d basis points for %d months: want 0 to 10000", d.BasisPoints, d.Months)
		case i > 0 && table[i-1].Months >= d.Months:
			return fmt.Errorf("discounts: %d months come after %d: want longer terms after shorter ones", d.Months, table[i-1].Months)
		case i > 0 && table[i-1].BasisPoints > d.BasisPoints:
			return fmt.Errorf("discounts: %d months take off less than %d: want no less for a longer term", d.Months, table[i-1].Months)
		}
	}
	return nil
}

// ParseTerms reads discounts by term, such as "1=0% 3=5% 12=15%". Without any there
// are no months to be had.
func ParseTerms(s string) ([]TermDiscount, error) {
	var table []TermDiscount
	for _, field := range strings.Fields(s) {
		months, share, ok := strings.Cut(field, "=")
		n, err := strconv.Atoi(months)
		if !ok || err != nil || !slices.Contains(Terms[:], n) {
			return nil, fmt.Errorf("term %q: want 1, 3, 6 or 12 months and what they take off, such as 3=5%%", field)
		}
		ppm, err := ParsePercent(share)
		if err != nil {
			return nil, err
		}
		if ppm%100 != 0 {
			return nil, fmt.Errorf("term %q: want at most two decimals", field)
		}
		table = append(table, TermDiscount{n, ppm / 100})
	}
	return table, checkTerms(table)
}

// FormatTerms writes discounts by term as ParseTerms reads them.
func FormatTerms(table []TermDiscount) string {
	var b strings.Builder
	for i, d := range table {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%d=%s", d.Months, percent(d.BasisPoints*100))
	}
	return b.String()
}

// discountFor returns what a term takes off: that of the longest listed term that
// is not longer.
func discountFor(table []TermDiscount, months int) int64 {
	var bp int64
	for _, d := range table {
		if d.Months <= months {
			bp = d.BasisPoints
		}
	}
	return bp
}

// Prepaid is compute that is paid in months in advance.
type Prepaid struct {
	Anchor      time.Time    `json:"anchor"` // begin of the first period; all boundaries are counted from it
	TimeZone    string       `json:"time_zone"`
	PerMonth    money.Amount `json:"per_month"` // without discount
	TermMonths  int          `json:"term_months"`
	BasisPoints int64        `json:"discount_basis_points"`
	Renews      bool         `json:"renews"` // by the same term, until told otherwise
}

// NewPrepaid returns months in advance of one of Terms at the table's discount.
func NewPrepaid(anchor time.Time, timeZone string, perMonth money.Amount, termMonths int, table []TermDiscount, renews bool) (Prepaid, error) {
	if err := checkTerms(table); err != nil {
		return Prepaid{}, err
	}
	if timeZone == "" {
		timeZone = "UTC"
	}
	p := Prepaid{anchor.UTC().Truncate(time.Microsecond), timeZone, perMonth, termMonths, discountFor(table, termMonths), renews}
	return p, p.Check()
}

// Check reports the first thing that is wrong with p.
func (p Prepaid) Check() error {
	switch {
	case !slices.Contains(Terms[:], p.TermMonths):
		return fmt.Errorf("a term of %d months: want 1, 3, 6 or 12", p.TermMonths)
	case p.PerMonth < 0:
		return fmt.Errorf("%s a month: want at least 0", p.PerMonth)
	case p.BasisPoints < 0 || p.BasisPoints > basisPoints:
		return fmt.Errorf("a discount of %d basis points: want 0 to 10000", p.BasisPoints)
	}
	_, err := location(p.TimeZone)
	return err
}

// TermPrice is what a term costs, paid at its begin.
func (p Prepaid) TermPrice() (money.Amount, error) {
	if err := p.Check(); err != nil {
		return 0, err
	}
	return part(p.PerMonth, int64(p.TermMonths)*(basisPoints-p.BasisPoints), basisPoints)
}

// Payment is a term and its price, due when the term begins.
type Payment struct {
	Period Period       `json:"period"`
	Amount money.Amount `json:"amount"`
}

// Payments returns all that was due in advance by a moment: the first term's
// price, and each later one's if it renews. Callers post what is not posted yet.
func (p Prepaid) Payments(until time.Time) ([]Payment, error) {
	price, err := p.TermPrice()
	if err != nil || until.Before(p.Anchor) {
		return nil, err
	}
	last, err := PeriodAt(p.Anchor, p.TimeZone, p.TermMonths, until)
	if err != nil {
		return nil, err
	}
	if !p.Renews {
		last.Number = 0
	}
	zone, err := location(p.TimeZone)
	if err != nil {
		return nil, err
	}
	var out []Payment
	for n := 0; n <= last.Number; n++ {
		out = append(out, Payment{Period{n, boundary(p.Anchor, zone, n*p.TermMonths), boundary(p.Anchor, zone, (n+1)*p.TermMonths)}, price})
	}
	return out, nil
}

// term returns the term that a moment is in, and how much of it, in months, has
// gone by: whole ones, and a part of the next.
func (p Prepaid) term(at time.Time) (t Period, months int64, rest fraction, err error) {
	if err := p.Check(); err != nil {
		return t, 0, rest, err
	}
	if t, err = PeriodAt(p.Anchor, p.TimeZone, p.TermMonths, at); err != nil {
		return t, 0, rest, err
	}
	if !p.Renews && t.Number > 0 {
		return t, 0, rest, fmt.Errorf("the term ended at %s and does not renew", t.Start)
	}
	month, err := PeriodAt(p.Anchor, p.TimeZone, 1, at)
	if err != nil {
		return t, 0, rest, err
	}
	zone, err := location(p.TimeZone)
	if err != nil {
		return t, 0, rest, err
	}
	return t, int64(month.Number - t.Number*p.TermMonths), elapsed(month, zone, at), nil
}

// Proration is what a change in the middle of a term comes to.
type Proration struct {
	Term   Period       `json:"term"`
	At     time.Time    `json:"at"`
	Credit money.Amount `json:"credit"` // what was paid for the rest of the term
	Charge money.Amount `json:"charge"` // what the rest costs from now on
	Net    money.Amount `json:"net"`    // charge − credit; less than 0 is given back
}

// Change prices a change of p's monthly price (and discount) at a moment. The
// term and its boundaries stay; the rest of it is credited at the old price and
// charged at the new one. Months weigh the same in it, and days within a month.
func (p Prepaid) Change(perMonth money.Amount, discountBasisPoints int64, at time.Time) (Proration, error) {
	to := p
	to.PerMonth, to.BasisPoints = perMonth, discountBasisPoints
	t, months, gone, err := p.term(at)
	if err != nil {
		return Proration{}, fmt.Errorf("change of monthly plan: %w", err)
	}
	c := Proration{Term: t, At: at.UTC()}
	if c.Credit, err = p.rest(months, gone); err != nil {
		return c, fmt.Errorf("change of monthly plan: %w", err)
	}
	if c.Charge, err = to.rest(months, gone); err != nil {
		return c, fmt.Errorf("change of monthly plan: %w", err)
	}
	c.Net = c.Charge - c.Credit
	return c, nil
}

// rest is what the rest of a term costs, of which so much has gone by.
func (p Prepaid) rest(months int64, gone fraction) (money.Amount, error) {
	price, err := p.TermPrice()
	if err != nil {
		return 0, err
	}
	whole := int64(p.TermMonths) * gone.den
	return part(price, whole-months*gone.den-gone.num, whole)
}

// Refund is what the early end of a term gives back.
type Refund struct {
	Term   Period       `json:"term"`
	At     time.Time    `json:"at"`
	Paid   money.Amount `json:"paid"`
	Used   money.Amount `json:"used"` // at the price without discount: the discount was for the whole term
	Refund money.Amount `json:"refund"`
}

// End prices the early end of the term that a moment is in: what was paid less
// what was used at the undiscounted price, and never less than nothing. A part of
// a month is used by the day: the month's price ÷ its days.
func (p Prepaid) End(at time.Time) (Refund, error) {
	t, months, gone, err := p.term(at)
	if err != nil {
		return Refund{}, fmt.Errorf("end of monthly plan: %w", err)
	}
	r := Refund{Term: t, At: at.UTC()}
	if r.Paid, err = p.TermPrice(); err != nil {
		return r, fmt.Errorf("end of monthly plan: %w", err)
	}
	if r.Used, err = part(p.PerMonth, months*gone.den+gone.num, gone.den); err != nil {
		return r, fmt.Errorf("end of monthly plan: %w", err)
	}
	r.Refund = max(0, r.Paid-r.Used)
	return r, nil
}

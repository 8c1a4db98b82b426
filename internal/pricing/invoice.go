package pricing

import (
	"fmt"
	"time"

	"suanli.dev/internal/money"
)

// MinorUnit is the smallest sum that is paid in a currency: a cent, a fen.
func MinorUnit(c money.Currency) (money.Amount, error) {
	if !c.Valid() {
		return 0, fmt.Errorf("currency %q: want USD or CNY", c)
	}
	return 10_000, nil
}

// RoundMinor rounds to the minor unit, half to even.
func RoundMinor(a money.Amount, c money.Currency) (money.Amount, error) {
	unit, err := MinorUnit(c)
	if err != nil {
		return 0, err
	}
	n, err := part(a, 1, int64(unit))
	return n * unit, err
}

// FloorMinor rounds down to the minor unit: what can be paid out of an amount.
// Nothing available is ever shown rounded up.
func FloorMinor(a money.Amount, c money.Currency) (money.Amount, error) {
	unit, err := MinorUnit(c)
	if err != nil {
		return 0, err
	}
	n, _, err := floorPart(a, 1, int64(unit))
	return n * unit, err
}

// InvoiceLine is a line of an invoice.
type InvoiceLine struct {
	Reference string       `json:"reference"` // such as the lease's identifier
	Meter     Meter        `json:"meter,omitempty"`
	Amount    money.Amount `json:"amount"`            // exact, to the micro; credits are less than 0
	Granted   money.Amount `json:"granted,omitempty"` // what grants paid of Amount; less than 0 where a correction gave back to them
	Untaxed   bool         `json:"untaxed,omitempty"` // such as a deposit
}

// ShownLine is a line as it is printed: in whole minor units, so that a reader's
// own sum is the invoice's.
type ShownLine struct {
	InvoiceLine
	Shown    money.Amount   `json:"shown"`    // of what grants left to pay
	Discount money.Amount   `json:"discount"` // what grants paid; Shown and Discount are Amount in whole minor units
	Tax      []money.Amount `json:"tax"`      // of each of the invoice's taxes
}

// TaxLine is what one tax comes to on an invoice.
type TaxLine struct {
	Rule   TaxRule      `json:"rule"`
	Amount money.Amount `json:"amount"`
}

// Invoice is the arithmetic of an invoice.
type Invoice struct {
	Currency money.Currency `json:"currency"`
	Lines    []ShownLine    `json:"lines"`
	Discount money.Amount   `json:"discount"` // what grants paid of all lines, as shown
	Exact    money.Amount   `json:"exact"`    // what grants left to pay of the lines, to the micro
	Subtotal money.Amount   `json:"subtotal"` // Exact, rounded once to the minor unit
	Rounding money.Amount   `json:"rounding"` // Subtotal − Exact, posted to the rounding account
	Taxes    []TaxLine      `json:"taxes"`
	Total    money.Amount   `json:"total"` // Subtotal and the taxes that are not in it yet
}

// NewInvoice sums lines exactly and rounds once. Lines are shown by largest
// remainder, and each tax is rounded once and split over the lines in the same way,
// so everything on the page adds up to its total. What grants paid is a discount:
// tax is on what they left to pay.
func NewInvoice(c money.Currency, in []InvoiceLine, taxes []TaxRule) (Invoice, error) {
	out := Invoice{Currency: c}
	unit, err := MinorUnit(c)
	if err != nil {
		return out, fmt.Errorf("invoice: %w", err)
	}
	whole := make([]money.Amount, len(in))
	net := make([]money.Amount, len(in))
	taxed := make([]money.Amount, len(in))
	for i, l := range in {
		whole[i] = l.Amount
		if net[i], err = l.Amount.Add(-l.Granted); err != nil {
			return out, fmt.Errorf("invoice: %w", err)
		}
		if !l.Untaxed {
			taxed[i] = net[i]
		}
	}
	_, listed, beforeGrants, err := shownLines(c, whole, unit)
	if err != nil {
		return out, fmt.Errorf("invoice: %w", err)
	}
	var shown []money.Amount
	if out.Exact, shown, out.Subtotal, err = shownLines(c, net, unit); err != nil {
		return out, fmt.Errorf("invoice: %w", err)
	}
	out.Rounding = out.Subtotal - out.Exact
	out.Discount = beforeGrants - out.Subtotal
	for i, l := range in {
		out.Lines = append(out.Lines, ShownLine{InvoiceLine: l, Shown: shown[i], Discount: listed[i] - shown[i], Tax: make([]money.Amount, len(taxes))})
	}
	var inclusive int64
	for _, r := range taxes {
		if r.Inclusive != taxes[0].Inclusive {
			return out, fmt.Errorf("invoice: %s is in prices and %s is not: want all taxes or none in them", taxes[0].Name, r.Name)
		}
		inclusive += r.PPM
	}
	out.Total = out.Subtotal
	for n, r := range taxes {
		total, shares, err := tax(r, inclusive, taxed, unit)
		if err != nil {
			return out, fmt.Errorf("invoice: %w", err)
		}
		for i := range shares {
			out.Lines[i].Tax[n] = shares[i]
		}
		out.Taxes = append(out.Taxes, TaxLine{r, total})
		if !r.Inclusive {
			if out.Total, err = out.Total.Add(total); err != nil {
				return out, fmt.Errorf("invoice: %w", err)
			}
		}
	}
	return out, nil
}

// shownLines sums amounts exactly, rounds the sum once to the minor unit, and shows
// each of them by largest remainder, so that what is shown adds up to it.
func shownLines(c money.Currency, amounts []money.Amount, unit money.Amount) (exact money.Amount, shown []money.Amount, sum money.Amount, err error) {
	var rounded lines
	for _, a := range amounts {
		if exact, err = exact.Add(a); err != nil {
			return 0, nil, 0, err
		}
		f, rest, err := floorPart(a, 1, int64(unit))
		if err != nil {
			return 0, nil, 0, err
		}
		rounded.floors, rounded.rest = append(rounded.floors, f*unit), append(rounded.rest, rest)
	}
	if sum, err = RoundMinor(exact, c); err != nil {
		return 0, nil, 0, err
	}
	shown, err = rounded.sumTo(sum, unit)
	return exact, shown, sum, err
}

// Credited is how much of each line of an invoice credit notes have taken back,
// as shown, in whole minor units.
type Credited []money.Amount

// CreditNote is a part of an invoice that is taken back.
type CreditNote struct {
	Lines []money.Amount   `json:"lines"` // of each line of the invoice
	Tax   [][]money.Amount `json:"tax"`   // of each line and each of the invoice's taxes
	Total money.Amount     `json:"total"`
}

// Credit takes back a part of some lines, beside what has been taken back already,
// and returns the note and what is taken back now in all. The tax of a line
// follows by differences, so notes that take everything back add up to the
// invoice's total exactly, and never to more.
func (v Invoice) Credit(done Credited, take []money.Amount) (CreditNote, Credited, error) {
	if len(take) != len(v.Lines) || (done != nil && len(done) != len(v.Lines)) {
		return CreditNote{}, nil, fmt.Errorf("credit note: want an amount for each of %d lines", len(v.Lines))
	}
	now := make(Credited, len(v.Lines))
	copy(now, done)
	var note CreditNote
	for i, l := range v.Lines {
		before := now[i]
		after, err := before.Add(take[i])
		if err != nil {
			return CreditNote{}, nil, err
		}
		if !between(before, 0, l.Shown) || !between(after, before, l.Shown) {
			return CreditNote{}, nil, fmt.Errorf("credit note: %s of line %s, of which %s of %s is taken back: that is more than is left", take[i], l.Reference, before, l.Shown)
		}
		now[i] = after
		taxes := make([]money.Amount, len(l.Tax))
		for n, t := range l.Tax {
			a, err := v.creditedTax(t, after, l.Shown)
			if err != nil {
				return CreditNote{}, nil, err
			}
			b, err := v.creditedTax(t, before, l.Shown)
			if err != nil {
				return CreditNote{}, nil, err
			}
			taxes[n] = a - b
			if !v.Taxes[n].Rule.Inclusive {
				note.Total += taxes[n]
			}
		}
		note.Total += take[i]
		note.Lines, note.Tax = append(note.Lines, take[i]), append(note.Tax, taxes)
	}
	return note, now, nil
}

// creditedTax is the tax of a line when so much of it is taken back.
func (v Invoice) creditedTax(tax, credited, shown money.Amount) (money.Amount, error) {
	if shown == 0 || credited == shown {
		return tax, nil
	}
	if shown < 0 {
		credited, shown = -credited, -shown
	}
	a, err := part(tax, int64(credited), int64(shown))
	if err != nil {
		return 0, err
	}
	return RoundMinor(a, v.Currency)
}

// between reports whether a lies between two amounts, in either order.
func between(a, b, c money.Amount) bool { return a >= min(b, c) && a <= max(b, c) }

// Statement is an account's month.
type Statement struct {
	Period   Period       `json:"period"`
	Opening  money.Amount `json:"opening"`
	Invoiced money.Amount `json:"invoiced"`
	Credited money.Amount `json:"credited"` // by credit notes
	Paid     money.Amount `json:"paid"`
	Refunded money.Amount `json:"refunded"`
	Given    money.Amount `json:"given"`   // what else came in, such as credits for bad service, less what else went out
	Closing  money.Amount `json:"closing"` // the balance: opening − invoiced + credited + paid − refunded + given
}

// Close computes a statement's closing balance.
func (s Statement) Close() (Statement, error) {
	closing, err := sumOf(s.Opening, -s.Invoiced, s.Credited, s.Paid, -s.Refunded, s.Given)
	s.Closing = closing
	return s, err
}

// Parts is where the money of a charge goes. The three are the whole of what the
// renter pays.
type Parts struct {
	Provider   money.Amount `json:"provider"`
	Commission money.Amount `json:"commission"`
	Tax        money.Amount `json:"tax"`
}

// Divide splits what a renter pays into tax, commission and the provider's share,
// to the last micro. tax is a part of paid.
func Divide(paid, tax money.Amount, commissionBasisPoints int64) (Parts, error) {
	if tax < 0 || tax > paid {
		return Parts{}, fmt.Errorf("divide %s: a tax of %s is not a part of it", paid, tax)
	}
	provider, commission, err := Split(paid-tax, commissionBasisPoints)
	return Parts{provider, commission, tax}, err
}

// InvoicePeriod returns the month for which an invoice is due at a moment: the
// last whole one of the account's zone. Asked twice in a day it is the same one.
func InvoicePeriod(at time.Time, timeZone string) (Period, error) {
	this, err := MonthOf(at, timeZone)
	if err != nil {
		return Period{}, err
	}
	return MonthOf(this.Start.Add(-time.Microsecond), timeZone)
}

package pricing

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"suanli.dev/internal/money"
)

// TaxRule is one tax of one jurisdiction.
type TaxRule struct {
	Jurisdiction string    `json:"jurisdiction"` // such as "CN", "US-NY"
	Name         string    `json:"name"`         // such as "VAT"
	PPM          int64     `json:"rate_ppm"`     // millionths: 88,750 is 8.875 %
	Inclusive    bool      `json:"inclusive"`    // prices have it in them; else it is added
	From         time.Time `json:"from"`         // zero: always
	Until        time.Time `json:"until"`        // not in its time; zero: for ever
}

// Check reports the first thing that is wrong with r.
func (r TaxRule) Check() error {
	switch {
	case r.Jurisdiction == "" || r.Name == "":
		return errors.New("tax: want a jurisdiction and a name")
	case r.PPM < 0 || r.PPM > ppm:
		return fmt.Errorf("tax %s of %s: %s: want 0%% to 100%%", r.Name, r.Jurisdiction, percent(r.PPM))
	case !r.Until.IsZero() && !r.From.Before(r.Until):
		return fmt.Errorf("tax %s of %s: it ends at %s and begins at %s", r.Name, r.Jurisdiction, r.Until, r.From)
	}
	return nil
}

// TaxesOf returns the rules of a jurisdiction that are in force at a moment. They
// must all be inclusive or all be added, since prices are the one or the other.
func TaxesOf(table []TaxRule, jurisdiction string, at time.Time) ([]TaxRule, error) {
	var out []TaxRule
	for _, r := range table {
		if r.Jurisdiction != jurisdiction || at.Before(r.From) || (!r.Until.IsZero() && !at.Before(r.Until)) {
			continue
		}
		if len(out) > 0 && out[0].Inclusive != r.Inclusive {
			return nil, fmt.Errorf("taxes of %s: %s is in prices and %s is not: want all or none", jurisdiction, out[0].Name, r.Name)
		}
		out = append(out, r)
	}
	return out, nil
}

// taxHeader names the columns of a tax table.
var taxHeader = []string{"jurisdiction", "name", "rate", "mode", "from", "until"}

// ParseTaxTable reads tax rules as CSV with the columns jurisdiction, name, rate
// (such as 8.875%), mode (inclusive or exclusive), from and until (a date at 00:00
// UTC, or empty).
func ParseTaxTable(r io.Reader) ([]TaxRule, error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord = len(taxHeader)
	in.TrimLeadingSpace = true
	var out []TaxRule
	for n := 0; ; n++ {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			if n == 0 {
				return nil, fmt.Errorf("tax table: want a first line %s", strings.Join(taxHeader, ","))
			}
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("tax table: %w", err)
		}
		if n == 0 {
			if strings.Join(row, ",") != strings.Join(taxHeader, ",") {
				return nil, fmt.Errorf("tax table begins with %q: want %s", strings.Join(row, ","), strings.Join(taxHeader, ","))
			}
			continue
		}
		rule := TaxRule{Jurisdiction: row[0], Name: row[1], Inclusive: row[3] == "inclusive"}
		if rule.PPM, err = ParsePercent(row[2]); err != nil {
			return nil, fmt.Errorf("tax table, rule %d: %w", n, err)
		}
		if row[3] != "inclusive" && row[3] != "exclusive" {
			return nil, fmt.Errorf("tax table, rule %d: mode %q: want inclusive or exclusive", n, row[3])
		}
		for i, at := range []*time.Time{&rule.From, &rule.Until} {
			if row[4+i] == "" {
				continue
			}
			if *at, err = time.Parse(time.DateOnly, row[4+i]); err != nil {
				return nil, fmt.Errorf("tax table, rule %d: %s %q: want a date such as 2026-01-31", n, taxHeader[4+i], row[4+i])
			}
		}
		if err := rule.Check(); err != nil {
			return nil, fmt.Errorf("tax table, rule %d: %w", n, err)
		}
		out = append(out, rule)
	}
}

// tax returns what a rule comes to for each line and in all, in whole minor units:
// the total is rounded once, half to even, and the lines by largest remainder.
func tax(r TaxRule, inclusivePPM int64, amounts []money.Amount, unit money.Amount) (money.Amount, []money.Amount, error) {
	if err := r.Check(); err != nil {
		return 0, nil, err
	}
	if len(amounts) == 0 {
		return 0, nil, nil
	}
	// A price with taxes in it is 1 + all their rates times the one without.
	den := int64(ppm)
	if r.Inclusive {
		den += inclusivePPM
	}
	per := den * int64(unit)
	base, err := sumOf(amounts...)
	if err != nil {
		return 0, nil, err
	}
	total, err := part(base, r.PPM, per)
	if err != nil {
		return 0, nil, err
	}
	total *= unit
	var l lines
	for _, a := range amounts {
		f, rest, err := floorPart(a, r.PPM, per)
		if err != nil {
			return 0, nil, err
		}
		l.floors, l.rest = append(l.floors, f*unit), append(l.rest, rest)
	}
	shares, err := l.sumTo(total, unit)
	return total, shares, err
}

package earning

import (
	"context"
	"fmt"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// Statement is a provider's balance over a calendar month in one currency. Its
// lines add up: Closing is Opening plus all amounts.
type Statement struct {
	Month            pricing.Period
	TimeZone         string
	Currency         money.Currency
	Opening, Closing money.Amount
	Lines            []StatementLine
}

// StatementLine is what transfers of one kind about one thing came to.
type StatementLine struct {
	Code      string // the transfers', such as "charge"
	Reference string // a lease or a payout
	HostID    string // of the lease
	Simulated bool
	Amount    money.Amount // less than 0: taken from the balance
	Transfers int64
}

// Statements returns a provider's statements of a month, such as "2026-03", one for
// each currency in which there is something to say. Without a month it is the
// present one, so far. It is by the moment of posting, so that the statement of a
// month that is over never changes; what was used in a month's last hour may stand
// on the next one's.
func (s *Service) Statements(ctx context.Context, providerID, month string) ([]Statement, error) {
	name, err := s.cfg.ZoneOf(ctx, providerID)
	if err != nil {
		return nil, err
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("zone of %s: %w", providerID, err)
	}
	at := s.cfg.Clock()
	if month != "" {
		if at, err = time.ParseInLocation("2006-01", month, zone); err != nil {
			return nil, fault.New(fault.Invalid, "bad_month", "the month %q: want one such as 2026-03", month).At("query.month")
		}
	}
	at = at.In(zone)
	begin := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, zone)
	period := pricing.Period{Start: begin, End: time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, zone)}
	var out []Statement
	var ids []string
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		for _, currency := range []money.Currency{money.CNY, money.USD} {
			books, err := s.cfg.Ledger.Statement(ctx, tx, ledger.Payable(providerID), currency, period.Start, period.End)
			if err != nil {
				return err
			}
			if books.Opening == 0 && len(books.Movements) == 0 {
				continue
			}
			st := Statement{Month: period, TimeZone: name, Currency: currency, Opening: books.Opening, Closing: books.Closing, Lines: []StatementLine{}}
			for _, m := range books.Movements {
				st.Lines = append(st.Lines, StatementLine{Code: m.Code, Reference: m.Reference, Amount: m.In - m.Out, Transfers: m.Transfers})
				ids = append(ids, m.Reference)
			}
			out = append(out, st)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	places, err := s.cfg.Leases.Places(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, st := range out {
		for i := range st.Lines {
			p := places[st.Lines[i].Reference]
			st.Lines[i].HostID, st.Lines[i].Simulated = p.HostID, p.Simulated
		}
	}
	return out, nil
}

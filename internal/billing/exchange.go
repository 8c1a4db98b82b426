package billing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// ExchangeRate is what an operator entered of one unit of a currency.
type ExchangeRate struct {
	pricing.ExchangeRate
	EnteredBy string // a user
	EnteredAt time.Time
}

// NewExchangeRate asks for a rate. It holds from a moment, now if that is zero, until
// another.
type NewExchangeRate struct {
	From, To     money.Currency
	Rate         money.Rate
	Source       string
	Since, Until time.Time
}

// maxRateFor is the longest that a rate may be used: an old one is worse than none.
const maxRateFor = 400 * 24 * time.Hour

// maxRate bounds rates, so that no price in reach becomes more than can be counted.
const maxRate = 1_000_000_000_000

func (n *NewExchangeRate) check(now time.Time) error {
	if n.Since.IsZero() {
		n.Since = now
	}
	n.Since, n.Until, n.Source = n.Since.UTC().Truncate(time.Microsecond), n.Until.UTC().Truncate(time.Microsecond), strings.TrimSpace(n.Source)
	bad := func(field, format string, args ...any) error {
		return fault.New(fault.Invalid, "invalid_exchange_rate", format, args...).At("body." + field)
	}
	switch {
	case !n.From.Valid() || !n.To.Valid() || n.From == n.To:
		return bad("to", "a rate from %q to %q: want two of CNY and USD", n.From, n.To)
	case n.Rate <= 0 || n.Rate > maxRate:
		return bad("rate", "%s %s for one %s: want more than 0 and at most 1000", n.Rate.Display(), n.To, n.From)
	case n.Source == "" || len(n.Source) > 200:
		return bad("source", "say whose rate it is, in at most 200 bytes")
	case n.Until.IsZero() || !n.Until.After(n.Since) || n.Until.Sub(n.Since) > maxRateFor || !n.Until.After(now):
		return bad("valid_until", "it would hold from %s until %s: want a time to come, after it begins, and at most 400 days", n.Since.Format(time.RFC3339), n.Until.Format(time.RFC3339))
	}
	if r, found := ident.Hidden(n.Source); found {
		return bad("source", "the source holds the control character %U, which nobody sees; leave it out", r)
	}
	return nil
}

// SetExchangeRate enters a rate. Quotes that are there keep theirs. The same key with
// the same rate returns the first one. It is an operator's act.
func (s *Service) SetExchangeRate(ctx context.Context, p account.Principal, n NewExchangeRate, key string) (ExchangeRate, error) {
	if !p.May(account.Operate) {
		return ExchangeRate{}, fault.New(fault.Forbidden, "forbidden", "only an operator can enter exchange rates")
	}
	now := s.cfg.Clock()
	given := n.Since
	if err := n.check(now); err != nil {
		return ExchangeRate{}, err
	}
	request := ""
	if key != "" {
		sum := sha256.Sum256([]byte(key))
		request = hex.EncodeToString(sum[:])
	}
	out := ExchangeRate{pricing.ExchangeRate{ID: ident.New(ident.Rate), Date: n.Since, From: n.From, To: n.To, Rate: n.Rate, Source: n.Source, Until: n.Until}, p.UserID, now.UTC().Truncate(time.Microsecond)}
	err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if request != "" {
			known, err := exchangeRatesWhere(ctx, tx, `request = ?`, request)
			if err != nil {
				return err
			}
			if len(known) > 0 {
				k := known[0]
				if k.From != n.From || k.To != n.To || k.Rate != n.Rate || k.Source != n.Source || !k.Until.Equal(n.Until) || !given.IsZero() && !k.Date.Equal(n.Since) {
					return fault.New(fault.Conflict, "idempotency_conflict", "this key was used for the rate %s; use a new key for another", k.ID)
				}
				out = k
				return nil
			}
		}
		if _, err := tx.Exec(ctx, `INSERT INTO billing_exchange_rates (id, from_currency, to_currency, rate, source, valid_from, valid_until, entered_by, entered_at, request) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			out.ID, string(out.From), string(out.To), int64(out.Rate), out.Source, store.Micros(out.Date), store.Micros(out.Until), out.EnteredBy, store.Micros(now), request); err != nil {
			return err
		}
		if s.cfg.Audit == nil {
			return nil
		}
		return s.cfg.Audit(ctx, tx, p, "exchange.set", out.ID, map[string]string{"from": string(out.From), "to": string(out.To), "rate": out.Rate.String(), "source": out.Source, "until": out.Until.Format(time.RFC3339)})
	})
	if err != nil {
		return ExchangeRate{}, fmt.Errorf("enter exchange rate: %w", err)
	}
	return out, nil
}

// ExchangeRates lists all rates that were entered, newest first.
func (s *Service) ExchangeRates(ctx context.Context) ([]ExchangeRate, error) {
	var out []ExchangeRate
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		out, err = exchangeRatesWhere(ctx, tx, `1 = 1 ORDER BY id DESC`)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list exchange rates: %w", err)
	}
	return out, nil
}

// ExchangeInForce returns the rate by which prices in one currency are shown and
// quoted in another now. It is a Conflict fault "exchange_rate_missing" if none has
// begun, and "exchange_rate_stale" if the last one that did is over.
func (s *Service) ExchangeInForce(ctx context.Context, from, to money.Currency) (pricing.ExchangeRate, error) {
	now := s.cfg.Clock()
	var list []pricing.ExchangeRate
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rates, err := exchangeRatesWhere(ctx, tx, `from_currency = ? AND to_currency = ? AND valid_from <= ? ORDER BY valid_from DESC, id DESC LIMIT 1`, string(from), string(to), store.Micros(now))
		for _, r := range rates {
			list = append(list, r.ExchangeRate)
		}
		return err
	})
	if err != nil {
		return pricing.ExchangeRate{}, fmt.Errorf("exchange rate from %s to %s: %w", from, to, err)
	}
	r, ok := pricing.InForce(list, from, to, now)
	if !ok {
		return r, fault.New(fault.Conflict, "exchange_rate_missing", "this is priced in %s and the account is in %s, and the operator has entered no rate between them; rent what is priced in %s, or ask the operator", from, to, to)
	}
	if r.Stale(now) {
		return r, fault.New(fault.Conflict, "exchange_rate_stale", "this is priced in %s and the account is in %s, and the rate between them was good until %s only; ask the operator to enter another, or rent what is priced in %s",
			from, to, r.Until.Format(time.RFC3339), to)
	}
	return r, nil
}

// OwnCurrency returns the currency that an account pays in, or is a NotFound fault.
func (s *Service) OwnCurrency(ctx context.Context, accountID string) (money.Currency, error) {
	return s.cfg.CurrencyOf(ctx, accountID)
}

func exchangeRates(ctx context.Context, tx *store.Tx) ([]ExchangeRate, error) {
	return exchangeRatesWhere(ctx, tx, `1 = 1 ORDER BY id`)
}

func exchangeRatesWhere(ctx context.Context, tx *store.Tx, where string, args ...any) ([]ExchangeRate, error) {
	rows, err := tx.Query(ctx, `SELECT id, from_currency, to_currency, rate, source, valid_from, valid_until, entered_by, entered_at FROM billing_exchange_rates WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read exchange rates: %w", err)
	}
	defer rows.Close()
	var out []ExchangeRate
	for rows.Next() {
		var r ExchangeRate
		var from, until, entered int64
		if err := rows.Scan(&r.ID, &r.From, &r.To, &r.Rate, &r.Source, &from, &until, &r.EnteredBy, &entered); err != nil {
			return nil, fmt.Errorf("read exchange rates: %w", err)
		}
		r.Date, r.Until, r.EnteredAt = store.Time(from), store.Time(until), store.Time(entered)
		out = append(out, r)
	}
	return out, rows.Err()
}

package billing

import (
	"context"
	"fmt"
	"time"

	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// Where the account pays by other prices than its provider listed, what providers
// read of a charge is by the listed ones, in their currency.
const (
	earnedCurrency = `CASE WHEN earned_currency = '' THEN currency ELSE earned_currency END`
	earnedShare    = `CASE WHEN earned_currency = '' THEN provider ELSE earned END`
	earnedOf       = `CASE WHEN earned_currency = '' THEN amount ELSE listed END`
	earnedLess     = `CASE WHEN earned_currency = '' THEN commission ELSE listed - earned END`
)

// share is how much a charge adds to what a provider gets that is paid by other
// prices than the account pays.
type share struct{ provider, listed, earned money.Amount }

// earnsIn is the currency that l's provider is paid in, if it is paid by other
// prices than the account pays; else it is empty.
func (l *leaseRow) earnsIn() money.Currency {
	if t, apart := l.quote.Apart(); apart {
		return t.Currency
	}
	return ""
}

// payee is the ledger account, in the account's currency, that has the provider's
// part of what is charged.
func (l *leaseRow) payee() string {
	if l.quote.Exchange != nil {
		return ledger.Exchange
	}
	return ledger.Payable(l.providerID)
}

// sharesApart returns what is to be added to what charges have of the provider's
// part, so that it is what all use comes to by the listed prices. It is nil if the
// account pays these.
func (s *Service) sharesApart(ctx context.Context, tx *store.Tx, l *leaseRow, u pricing.Usage) (map[pricing.Meter]share, error) {
	if _, apart := l.quote.Apart(); !apart {
		return nil, nil
	}
	due, err := l.shares(u)
	if err != nil {
		return nil, err
	}
	sums, err := chargeSums(ctx, tx, `lease_id = ?`, l.id)
	if err != nil {
		return nil, err
	}
	out := map[pricing.Meter]share{}
	for _, m := range pricing.Meters {
		c := sums[meterOf{l.id, m}]
		out[m] = share{due[m].Provider - money.Amount(c.provider), due[m].Listed - money.Amount(c.listed), due[m].Earned - money.Amount(c.earned)}
	}
	return out, nil
}

// shares is who gets what of all use, and of what was paid in advance, by the listed
// prices.
func (l *leaseRow) shares(u pricing.Usage) (map[pricing.Meter]pricing.Share, error) {
	var paid, listed money.Amount
	if list := l.prepayments(); list != nil {
		for _, p := range *list {
			paid, listed = paid+p.Amount, listed+p.Listed
		}
	}
	return pricing.SharesPaid(l.quote, u, paid, listed)
}

// prepaidApart is sharesApart of what is paid in advance alone: use has a charge of its
// own.
func (s *Service) prepaidApart(ctx context.Context, tx *store.Tx, l *leaseRow, p Prepayment) (map[pricing.Meter]share, error) {
	if l.quote.Exchange == nil {
		return nil, nil
	}
	sums, err := chargeSums(ctx, tx, `lease_id = ?`, l.id)
	if err != nil {
		return nil, err
	}
	c, bp := sums[meterOf{l.id, pricing.Compute}], l.quote.Tariff.CommissionBasisPoints
	out := share{listed: p.Listed}
	if out.provider, _, err = shareOf(money.Amount(c.amount)+p.Amount, money.Amount(c.amount), bp); err != nil {
		return nil, err
	}
	if out.earned, _, err = shareOf(money.Amount(c.listed)+p.Listed, money.Amount(c.listed), bp); err != nil {
		return nil, err
	}
	return map[pricing.Meter]share{pricing.Compute: out}, nil
}

// soldTransfers pays a provider in its currency what the exchange account has got
// for it in the account's.
func (s *Service) soldTransfers(a *accountRow, l *leaseRow, earned money.Amount, at time.Time, codes chargeCodes) []ledger.Transfer {
	if l.quote.Exchange == nil || earned == 0 {
		return nil
	}
	from, to, code := ledger.Exchange, ledger.Payable(l.providerID), codes.out
	if earned < 0 {
		from, to, code, earned = to, from, codes.back, -earned
	}
	t := s.transfer(a, from, to, earned, code, l.id, at)
	t.Currency = l.quote.Exchange.From
	return []ledger.Transfer{t}
}

// verifyApart compares what charges have of a provider's part with what use comes
// to by the listed prices, and those with the account's.
func (s *Service) verifyApart(r *Report, l *leaseRow, due map[pricing.Meter]pricing.Share, m pricing.Meter, c chargeSum) {
	want := due[m]
	// What is not posted yet is no fault.
	settled := money.Amount(c.amount) == want.Amount && !l.ended.IsZero()
	for _, x := range []struct {
		what      string
		got, want money.Amount
	}{{"the provider's part", money.Amount(c.provider), want.Provider}, {"the listed price", money.Amount(c.listed), want.Listed}, {"what the provider earned", money.Amount(c.earned), want.Earned}} {
		if x.got > x.want || settled && x.got < x.want {
			r.wrong(l.id, "%s for %s comes to %s by its charges, and to %s by its use and the listed prices", x.what, m, x.got, x.want)
		}
	}
	if c.provider+c.commission != c.amount {
		r.wrong(l.id, "%s for %s is split into %s and %s", money.Amount(c.amount), m, money.Amount(c.provider), money.Amount(c.commission))
	}
}

// verifyExchange compares what the exchange accounts moved with the charges that
// were exchanged, and the rates of quotes with those that were entered.
func (s *Service) verifyExchange(ctx context.Context, tx *store.Tx, r *Report) error {
	rates, err := exchangeRates(ctx, tx)
	if err != nil {
		return err
	}
	known := map[string]ExchangeRate{}
	for _, x := range rates {
		known[x.ID] = x
	}
	sums := map[money.Currency]money.Amount{}
	for last := ""; ; {
		leases, err := s.loadLeases(ctx, tx, `lease_id IN (SELECT lease_id FROM billing_leases WHERE exchange_rate_id <> '' AND lease_id > ? ORDER BY lease_id LIMIT ?)`, last, leasesAtOnce)
		if err != nil {
			return err
		}
		if len(leases) == 0 {
			break
		}
		first := leases[0].id
		last = leases[len(leases)-1].id
		charged, err := chargeSums(ctx, tx, `lease_id >= ? AND lease_id <= ?`, first, last)
		if err != nil {
			return err
		}
		for _, l := range leases {
			x := l.quote.Exchange
			if x == nil {
				r.wrong(l.id, "it is kept as exchanged, and its quote is not")
				continue
			}
			if e, ok := known[x.RateID]; !ok || e.From != x.From || e.To != x.To || e.Rate != x.Rate {
				r.wrong(l.id, "its quote has %s %s for one %s, and no such rate was entered as %s", x.Rate, x.To, x.From, x.RateID)
			}
			whole := l.quote.Tariff
			if l.quote.Listed != nil {
				whole = *l.quote.Listed
			}
			if err := l.checkExchanged(*x, whole); err != nil {
				r.wrong(l.id, "%v", err)
			}
			for _, m := range pricing.Meters {
				c := charged[meterOf{l.id, m}]
				sums[x.To] += money.Amount(c.provider)
				sums[x.From] -= money.Amount(c.earned)
			}
		}
	}
	for _, c := range []money.Currency{money.CNY, money.USD} {
		var moved money.Amount
		for _, code := range []string{CodeCharge, CodeCorrection, CodePrepayment, CodeUnusedPaid} {
			in, out, err := s.cfg.Ledger.Flow(ctx, tx, ledger.Exchange, c, code, endOfTime)
			if err != nil {
				return err
			}
			moved += in - out
		}
		if moved != sums[c] {
			r.wrong(ledger.Exchange, "%s %s were exchanged by its transfers, and %s by the charges", moved, c, sums[c])
		}
	}
	return nil
}

// checkExchanged reports whether prices are what the rate of an exchange makes of the
// listed ones.
func (l *leaseRow) checkExchanged(x pricing.Exchanged, own pricing.Tariff) error {
	if l.reserved == nil {
		for _, r := range l.rates {
			price, err := x.Price(r.listed)
			if err != nil {
				return err
			}
			if price != r.price {
				return fmt.Errorf("its price from %s on is %s %s an hour, and %s %s at the rate of its quote is %s", r.from.Format(time.RFC3339), r.price, x.To, r.listed, x.From, price)
			}
		}
		if m := l.monthly; m != nil {
			price, err := x.Amount(m.listedPerMonth)
			if err != nil {
				return err
			}
			first := pricing.Prepaid{Anchor: m.terms.Anchor, TimeZone: m.terms.TimeZone, TermMonths: m.terms.TermMonths, PerMonth: x.PerMonth, BasisPoints: l.quote.Prepaid.BasisPoints}
			if term, err := first.TermPrice(); err != nil || len(m.payments) == 0 || m.payments[0].Listed != term {
				return fmt.Errorf("its first months are listed at %s %s, and that was not paid for them: %v", term, x.From, m.payments)
			}
			if price != m.terms.PerMonth {
				return fmt.Errorf("a month of it costs %s %s, and %s %s at the rate of its quote is %s", m.terms.PerMonth, x.To, m.listedPerMonth, x.From, price)
			}
		}
		return x.Check(own)
	}
	if o := l.inListed(); o != nil && o.paid(PaidUpfront) != o.reserved.terms.UpfrontDue {
		return fmt.Errorf("%s %s was paid upfront for the reservation, and by what is listed it is %s", o.paid(PaidUpfront), x.From, o.reserved.terms.UpfrontDue)
	}
	if want := l.reserved.terms.Listed; want != nil && want.Hourly*money.Rate(want.GPUs) != x.Listed.Compute {
		return fmt.Errorf("its provider is paid %s %s an hour by its quote, and %s by its terms", x.Listed.Compute, x.From, want.Hourly*money.Rate(want.GPUs))
	}
	return l.reserved.terms.CheckListed(x)
}

// earnedIn returns what of a charged amount's provider's part is paid in another
// currency, by the same proportion: what was paid for all comes back for all.
func (l InvoiceLine) earnedIn(part money.Amount) money.Amount {
	return portion(l.Exchanged, part, l.Earned)
}

// payee is the ledger account, in the invoice's currency, that has the provider's part.
func (l InvoiceLine) payee() string {
	if l.ExchangedCurrency != "" {
		return ledger.Exchange
	}
	return ledger.Payable(l.ProviderID)
}

// sold is what a provider's own account has to do with a move of part out of
// payee's, or, less than 0, into it: its exchange, in the provider's currency.
func (s *Service) sold(a *accountRow, l InvoiceLine, amount money.Amount, code, reference string, at time.Time) []ledger.Transfer {
	if l.ExchangedCurrency == "" || amount == 0 {
		return nil
	}
	from, to := ledger.Payable(l.ProviderID), ledger.Exchange
	if amount < 0 {
		from, to, amount = to, from, -amount
	}
	t := s.transfer(a, from, to, amount, code, reference, at)
	t.Currency = l.ExchangedCurrency
	return []ledger.Transfer{t}
}

// ChargedApart returns what of Charged's provider's part is paid in another currency
// than the account pays; an empty currency: nothing, it is paid in the same.
func (s *Service) ChargedApart(ctx context.Context, tx *store.Tx, leaseID string, after, until time.Time) (earned money.Amount, currency money.Currency, err error) {
	err = tx.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(earned), 0) AS BIGINT), COALESCE(MAX(earned_currency), '')
		FROM billing_charges WHERE lease_id = ? AND to_at > ? AND to_at <= ? AND earned_currency <> '' AND earned_currency <> currency`, leaseID, store.Micros(after), store.Micros(until)).Scan(&earned, &currency)
	if err != nil {
		return 0, "", fmt.Errorf("charges of lease %s: %w", leaseID, err)
	}
	return earned, currency, nil
}

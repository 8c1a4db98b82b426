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

// Charge is one posted difference of one meter of one lease.
type Charge struct {
	ID, LeaseID, AccountID, ProviderID string
	Meter                              pricing.Meter
	Currency                           money.Currency
	Amount                             money.Amount // negative: a correction
	ProviderShare                      money.Amount
	Commission                         money.Amount // Amount − ProviderShare
	Simulated                          bool
	From, To                           time.Time // the stretch since the lease's last posting
	PostedAt                           time.Time
}

// Charges lists up to limit charges that an account pays, newest first, older
// than the one with the identifier before; empty: from the newest. leaseID
// narrows to one lease if it is not empty.
func (s *Service) Charges(ctx context.Context, accountID, leaseID, before string, limit int) ([]Charge, error) {
	if before == "" {
		before = "~" // sorts after every identifier
	}
	where, args := `account_id = ? AND id < ?`, []any{accountID, before}
	if leaseID != "" {
		where, args = where+` AND lease_id = ?`, append(args, leaseID)
	}
	var out []Charge
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT id, lease_id, account_id, provider_id, meter, currency, amount, provider, commission, simulated, from_at, to_at, posted_at
			FROM billing_charges WHERE `+where+` ORDER BY id DESC LIMIT ?`, append(args, limit)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var c Charge
			var simulated, from, to, posted int64
			if err := rows.Scan(&c.ID, &c.LeaseID, &c.AccountID, &c.ProviderID, &c.Meter, &c.Currency, &c.Amount, &c.ProviderShare, &c.Commission,
				&simulated, &from, &to, &posted); err != nil {
				return err
			}
			c.Simulated = simulated != 0
			c.From, c.To, c.PostedAt = store.Time(from), store.Time(to), store.Time(posted)
			out = append(out, c)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list charges: %w", err)
	}
	return out, nil
}

// Transfers lists up to limit transfers that touched an account's wallet, hold or
// debt, newest first, older than the one with the identifier before.
func (s *Service) Transfers(ctx context.Context, accountID, before string, limit int) ([]ledger.Transfer, error) {
	var out []ledger.Transfer
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		out, err = s.cfg.Ledger.Transfers(ctx, tx, before, limit, ledger.Wallet(accountID), ledger.Hold(accountID), ledger.Receivable(accountID), ledger.Grant(accountID))
		return err
	})
	return out, err
}

// Earning is what a provider has earned in one currency.
type Earning struct {
	Currency   money.Currency
	Charged    money.Amount // what renters were charged for the provider's hosts
	Commission money.Amount // the platform's part of it
	Earned     money.Amount // Charged − Commission
	Simulated  money.Amount // the part of Earned that is for simulated hardware
	Payable    money.Amount // earned and not paid out
}

// Earnings returns what a provider has earned, by currency.
func (s *Service) Earnings(ctx context.Context, providerID string) ([]Earning, error) {
	var out []Earning
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT `+earnedCurrency+` AS paid_in, CAST(SUM(`+earnedOf+`) AS BIGINT), CAST(SUM(`+earnedLess+`) AS BIGINT), CAST(SUM(`+earnedShare+`) AS BIGINT),
			CAST(SUM((`+earnedShare+`) * simulated) AS BIGINT) FROM billing_charges WHERE provider_id = ? GROUP BY paid_in ORDER BY paid_in`, providerID)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var e Earning
			if err := rows.Scan(&e.Currency, &e.Charged, &e.Commission, &e.Earned, &e.Simulated); err != nil {
				return err
			}
			out = append(out, e)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		for i := range out {
			if out[i].Payable, err = s.cfg.Ledger.Balance(ctx, tx, ledger.Payable(providerID), out[i].Currency); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("earnings of %s: %w", providerID, err)
	}
	return out, nil
}

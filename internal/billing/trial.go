package billing

import (
	"context"
	"fmt"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

// GiveTrial gives an account its trial, once in its life: another is a Conflict
// fault "trial_given". Whether the account may have one is the caller's to judge.
func (s *Service) GiveTrial(ctx context.Context, tx *store.Tx, accountID string, currency money.Currency, amount money.Amount, validFor time.Duration) (Grant, error) {
	now := s.cfg.Clock()
	c := CreateGrant{AccountID: accountID, Kind: GrantTrial, Amount: amount, ValidFor: validFor}
	if err := c.check(now); err != nil {
		return Grant{}, err
	}
	a, err := s.lockAccount(ctx, tx, accountID, currency)
	if err != nil {
		return Grant{}, err
	}
	// Asked first, as a failed insert would end the transaction.
	had, err := s.loadGrants(ctx, tx, `account_id = ? AND kind = ?`, accountID, GrantTrial)
	if err != nil {
		return Grant{}, err
	}
	if len(had) > 0 {
		return Grant{}, fault.New(fault.Conflict, "trial_given", "account %s has had its trial, of which it has one in its life", accountID)
	}
	g := Grant{ID: ident.New(ident.Grant), AccountID: accountID, Kind: GrantTrial, Currency: currency, Amount: amount, ValidFor: c.ValidFor, CreatedAt: now}
	if err := s.give(ctx, tx, a, g, "trial:"+accountID, now); err != nil {
		return Grant{}, err
	}
	if err := s.rebalance(ctx, tx, a, now); err != nil {
		return Grant{}, fmt.Errorf("give a trial: %w", err)
	}
	s.changed(accountID)
	return g, nil
}

// OnlyTrial reports whether an account has had a trial and has never paid anything.
func (s *Service) OnlyTrial(ctx context.Context, tx *store.Tx, accountID string) (bool, error) {
	list, err := s.loadGrants(ctx, tx, `account_id = ? AND kind = ?`, accountID, GrantTrial)
	if err != nil || len(list) == 0 {
		return false, err
	}
	var currency money.Currency
	if err := tx.QueryRow(ctx, `SELECT currency FROM billing_accounts WHERE account_id = ?`, accountID).Scan(&currency); err != nil {
		return false, fmt.Errorf("currency of %s: %w", accountID, err)
	}
	in, _, err := s.cfg.Ledger.Flow(ctx, tx, ledger.Wallet(accountID), currency, CodeDeposit, endOfTime)
	return in == 0, err
}

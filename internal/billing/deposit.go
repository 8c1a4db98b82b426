package billing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

// Balance is where an account stands. Available = Settled − Held − UnbilledDue.
type Balance struct {
	Currency    money.Currency
	Settled     money.Amount // all that was paid in, less all that was posted; negative: debt
	Held        money.Amount // part of Settled that is set aside for running leases
	UnbilledDue money.Amount // used and not posted yet, and not paid by grants
	Available   money.Amount // what a new lease can be begun with, beside grants
	Granted     money.Amount // left of grants that pay for compute, for use now
}

// Deposit credits an account with money that an operator has received. The same
// key with the same account, amount and reference returns the first deposit; with
// others it is a Conflict fault "idempotency_conflict". Debt is paid from it first.
func (s *Service) Deposit(ctx context.Context, p account.Principal, accountID string, amount money.Amount, reference, key string) (ledger.Transfer, error) {
	if !p.May(account.Operate) {
		return ledger.Transfer{}, fault.New(fault.Forbidden, "forbidden", "only an operator can enter deposits")
	}
	if amount <= 0 {
		return ledger.Transfer{}, fault.New(fault.Invalid, "amount_invalid", "a deposit of %s: want more than 0", amount.Display()).At("body.amount")
	}
	if len(reference) > 200 || len(key) > 500 {
		return ledger.Transfer{}, fault.New(fault.Invalid, "text_too_long", "want a reference of at most 200 characters and a key of at most 500")
	}
	if r, found := ident.Hidden(reference); found {
		return ledger.Transfer{}, fault.New(fault.Invalid, "text_invalid", "the reference holds the control character %U, which nobody sees; leave it out", r).At("body.reference")
	}
	currency, err := s.cfg.CurrencyOf(ctx, accountID)
	if err != nil {
		return ledger.Transfer{}, fmt.Errorf("deposit: %w", err)
	}
	now := s.cfg.Clock()
	if key == "" {
		key = ident.New(ident.Transfer)
	}
	// Hashed, as the ledger's keys are short.
	sum := sha256.Sum256([]byte(key))
	t := ledger.Transfer{
		ID: ident.New(ident.Transfer), Key: "deposit:" + accountID + ":" + hex.EncodeToString(sum[:]), Debit: ledger.Deposits, Credit: ledger.Wallet(accountID),
		Amount: amount, Currency: currency, Code: CodeDeposit, Reference: reference, EffectiveAt: now,
	}
	var posted ledger.Transfer
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		a, err := s.lockAccount(ctx, tx, accountID, currency)
		if err != nil {
			return err
		}
		if err := s.cfg.Ledger.Post(ctx, tx, t); err != nil {
			return err
		}
		if posted, err = s.cfg.Ledger.Find(ctx, tx, t.Key); err != nil {
			return err
		}
		if s.cfg.Audit != nil && posted.ID == t.ID {
			detail := map[string]string{"account": accountID, "amount": amount.String(), "currency": string(currency), "reference": reference}
			if err := s.cfg.Audit(ctx, tx, p, "deposit", t.ID, detail); err != nil {
				return fmt.Errorf("audit: %w", err)
			}
		}
		return s.rebalance(ctx, tx, a, now)
	})
	s.changed(accountID)
	if errors.Is(err, money.ErrOverflow) {
		return ledger.Transfer{}, fault.New(fault.Invalid, "amount_too_large", "a deposit of %s: with it the books would hold more than they can count; enter a smaller one", amount.Display()).At("body.amount")
	}
	if err != nil {
		return ledger.Transfer{}, fmt.Errorf("deposit: %w", err)
	}
	return posted, nil
}

// Balance returns where an account stands now.
func (s *Service) Balance(ctx context.Context, accountID string) (Balance, error) {
	currency, err := s.cfg.CurrencyOf(ctx, accountID)
	if err != nil {
		return Balance{}, fmt.Errorf("balance: %w", err)
	}
	var b Balance
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		b, err = s.balance(ctx, tx, accountID, currency, s.cfg.Clock())
		return err
	})
	return b, err
}

func (s *Service) balance(ctx context.Context, tx *store.Tx, accountID string, currency money.Currency, now time.Time) (Balance, error) {
	wallet, hold, debt, err := s.funds(ctx, tx, accountID, currency)
	if err != nil {
		return Balance{}, err
	}
	leases, err := s.openLeases(ctx, tx, accountID)
	if err != nil {
		return Balance{}, err
	}
	undo, err := foresee(leases, now, now, func(l *leaseRow) time.Time { return latest(l.confirmed, s.lastAlive(l.id)) })
	if err != nil {
		return Balance{}, err
	}
	defer undo()
	b := Balance{Currency: currency, Settled: wallet + hold + debt, Held: hold}
	for _, l := range leases {
		due, err := s.due(l, now)
		if err != nil {
			return Balance{}, err
		}
		if b.UnbilledDue, err = b.UnbilledDue.Add(due - l.posted.total()); err != nil {
			return Balance{}, fmt.Errorf("balance of %s: %w", accountID, err)
		}
	}
	grants, err := s.usableGrants(ctx, tx, accountID)
	if err != nil {
		return Balance{}, err
	}
	covered, err := s.coveredNow(grants, leases, now)
	if err != nil {
		return Balance{}, err
	}
	b.UnbilledDue -= covered
	b.Granted = max(0, granted(grants, now)-covered)
	b.Available = b.Settled - b.Held - b.UnbilledDue
	return b, nil
}

package billing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

// Balance is where an account stands. Available = Settled + Credit − Held − UnbilledDue.
type Balance struct {
	Currency    money.Currency
	Settled     money.Amount            // all that was paid in, less all that was posted; negative: debt
	Held        money.Amount            // part of Settled and Credit that is set aside for running leases
	Credit      money.Amount            // the credit limit; 0: prepaid
	OnCredit    money.Amount            // part of Held that Credit stands for
	UnbilledDue money.Amount            // used and not posted yet, and not paid by grants
	Available   money.Amount            // what a new lease can be begun with, beside grants
	Granted     money.Amount            // left of grants that pay for compute of any model, for use now
	grantedOf   map[string]money.Amount // likewise, of grants for one model, by model
}

// grantedFor is what is left of grants that pay for compute of a model.
func (b Balance) grantedFor(gpuModel string) money.Amount { return b.Granted + b.grantedOf[gpuModel] }

// Deposit credits an account with money that an operator has received. The same
// key with the same account, amount and reference returns the first deposit; with
// others it is a Conflict fault "idempotency_conflict". Debt is paid from it first.
func (s *Service) Deposit(ctx context.Context, p account.Principal, accountID string, amount money.Amount, reference, key string) (ledger.Transfer, error) {
	if !p.May(account.Operate) {
		return ledger.Transfer{}, fault.New(fault.Forbidden, "forbidden", "only an operator can enter deposits")
	}
	if err := CheckReceipt(amount, reference, key); err != nil {
		return ledger.Transfer{}, err
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
	in := Receipt{AccountID: accountID, Currency: currency, Amount: amount, Reference: reference, Key: hex.EncodeToString(sum[:]), At: now}
	var posted ledger.Transfer
	err = s.cfg.Ledger.Update(ctx, accountID, func(ctx context.Context, tx *store.Tx) error {
		var fresh bool
		if posted, fresh, err = s.Receive(ctx, tx, in); err != nil || !fresh || s.cfg.Audit == nil {
			return err
		}
		detail := map[string]string{"account": accountID, "amount": amount.String(), "currency": string(currency), "reference": reference}
		if err := s.cfg.Audit(ctx, tx, p, "deposit", posted.ID, detail); err != nil {
			return fmt.Errorf("audit: %w", err)
		}
		return nil
	})
	s.changed(accountID)
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
	if b.Credit, err = s.limitOf(ctx, tx, accountID); err != nil {
		return Balance{}, err
	}
	if b.OnCredit, err = s.onCredit(ctx, tx, accountID, b.Credit, hold); err != nil {
		return Balance{}, err
	}
	b.Held += b.OnCredit
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
	// What a reservation that was bought since will take off what is posted is not to be
	// had before it is given back.
	b.UnbilledDue = max(0, b.UnbilledDue-inAll(covered))
	b.Granted, b.grantedOf = granted(grants, now, covered)
	b.Available = b.Settled + b.Credit - b.Held - b.UnbilledDue
	return b, nil
}

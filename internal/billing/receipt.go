package billing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

// CodeShortfall moves what a wallet lacks for money that was taken back from the
// cloud into it, as debt: it is repaid from what is paid in next.
const CodeShortfall = "shortfall"

// Receipt is money that came in for an account from outside, or goes back there.
type Receipt struct {
	AccountID string
	Currency  money.Currency // the account's
	Amount    money.Amount   // more than 0
	Reference string         // what it is about, up to 200 bytes
	Key       string         // the same is posted once, for ever; up to 128 bytes
	At        time.Time      // when it counts
}

// CheckReceipt says what is wrong with money that somebody enters, as a fault.
func CheckReceipt(amount money.Amount, reference, key string) error {
	if amount <= 0 {
		return fault.New(fault.Invalid, "amount_invalid", "a deposit of %s: want more than 0", amount.Display()).At("body.amount")
	}
	if err := checkLargest(amount, "body.amount"); err != nil {
		return err
	}
	if len(reference) > 200 || len(key) > 500 {
		return fault.New(fault.Invalid, "text_too_long", "want a reference of at most 200 characters and a key of at most 500")
	}
	if r, found := ident.Hidden(reference); found {
		return fault.New(fault.Invalid, "text_invalid", "the reference holds the control character %U, which nobody sees; leave it out", r).At("body.reference")
	}
	return nil
}

// Largest is the most that is entered at once, be it paid, given or lent: a digit too
// many is easily typed, and the books count to about nine thousand times as much.
const Largest money.Amount = 1_000_000_000_000_000

// checkLargest is an Invalid fault "amount_too_large" for more than Largest.
func checkLargest(amount money.Amount, at string) error {
	if amount > Largest {
		return fault.New(fault.Invalid, "amount_too_large", "%s is more than the %s that are entered at once; look at the digits, or enter it in parts", amount.Display(), Largest.Display()).At(at)
	}
	return nil
}

// Receive posts a receipt to the account's wallet, and pays debt from it first.
// fresh is whether it was not posted before. Call Changed once tx is committed.
func (s *Service) Receive(ctx context.Context, tx *store.Tx, in Receipt) (posted ledger.Transfer, fresh bool, err error) {
	t := ledger.Transfer{
		ID: ident.New(ident.Transfer), Key: "deposit:" + in.AccountID + ":" + in.Key, Debit: ledger.Deposits, Credit: ledger.Wallet(in.AccountID),
		Amount: in.Amount, Currency: in.Currency, Code: CodeDeposit, Reference: in.Reference, EffectiveAt: in.At,
	}
	a, err := s.lockAccount(ctx, tx, in.AccountID, in.Currency)
	if err != nil {
		return t, false, err
	}
	err = s.cfg.Ledger.Post(ctx, tx, t)
	if errors.Is(err, money.ErrOverflow) {
		return t, false, fault.New(fault.Invalid, "amount_too_large", "a deposit of %s: with it the books would hold more than they can count; enter a smaller one", in.Amount.Display()).At("body.amount")
	}
	if err != nil {
		return t, false, err
	}
	if posted, err = s.cfg.Ledger.Find(ctx, tx, t.Key); err != nil {
		return t, false, err
	}
	return posted, posted.ID == t.ID, s.paid(ctx, tx, a, in.At)
}

// GiveBack posts money out of an account's wallet to where it came from. Where it
// is beyond what is free it is a Payment fault "insufficient_balance", or, with
// taken, debt: money that a bank or card company took back is gone whatever the
// wallet has. The hold is taken before there is debt. Call Changed once tx is
// committed.
func (s *Service) GiveBack(ctx context.Context, tx *store.Tx, in Receipt, taken bool) (posted ledger.Transfer, fresh bool, err error) {
	t := ledger.Transfer{
		ID: ident.New(ident.Transfer), Key: "refund:" + in.AccountID + ":" + in.Key, Debit: ledger.Wallet(in.AccountID), Credit: ledger.Deposits,
		Amount: in.Amount, Currency: in.Currency, Code: CodePaidBack, Reference: in.Reference, EffectiveAt: in.At,
	}
	a, err := s.lockAccount(ctx, tx, in.AccountID, in.Currency)
	if err != nil {
		return t, false, err
	}
	if posted, err = s.cfg.Ledger.Find(ctx, tx, t.Key); err == nil {
		return posted, false, s.cfg.Ledger.Post(ctx, tx, t) // which posts nothing, and refuses another transfer of the same key
	} else if !errors.Is(err, store.ErrNoRows) {
		return t, false, err
	}
	batch := []ledger.Transfer{t}
	if taken {
		wallet, hold, _, err := s.funds(ctx, tx, a.id, a.currency)
		if err != nil {
			return t, false, err
		}
		short := max(0, in.Amount-wallet)
		released := min(short, hold)
		if released > 0 {
			batch = append(batch, s.transfer(a, ledger.Hold(a.id), ledger.Wallet(a.id), released, CodeRelease, in.Reference, in.At))
		}
		if short > released {
			batch = append(batch, s.transfer(a, ledger.Receivable(a.id), ledger.Wallet(a.id), short-released, CodeShortfall, in.Reference, in.At))
		}
	}
	if err := s.cfg.Ledger.Post(ctx, tx, batch...); err != nil {
		return t, false, err
	}
	if !taken {
		// What is used and not posted yet is spent, too.
		b, err := s.balance(ctx, tx, in.AccountID, in.Currency, in.At)
		if err != nil {
			return t, false, err
		}
		if free := b.Available - b.Credit + b.OnCredit; free < 0 { // credit is no money
			return t, false, fault.New(fault.Payment, "insufficient_balance", "a refund of %s %s is %s more than is free; what is set aside and what is used already stays",
				in.Amount.Display(), in.Currency, (-free).Display())
		}
	}
	if err := s.rebalance(ctx, tx, a, in.At); err != nil {
		return t, false, fmt.Errorf("give back: %w", err)
	}
	return t, true, nil
}

// Changed forgets what was computed of an account: its money is another now.
func (s *Service) Changed(accountID string) { s.changed(accountID) }

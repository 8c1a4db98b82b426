package payment

import (
	"context"
	"fmt"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

// Transfer is a bank transfer as an operator enters it.
type Transfer struct {
	AccountID string
	Amount    money.Amount // in the account's currency
	Reference string       // the bank's; an account has each once
}

// Enter writes a bank transfer down. It reaches the wallet when it is confirmed by a
// second act. The same key is one transfer. It is an operator's act.
func (s *Service) Enter(ctx context.Context, by account.Principal, in Transfer, key string) (Payment, error) {
	if in.Reference == "" {
		return Payment{}, fault.New(fault.Invalid, "bank_reference_missing", "a bank transfer of %s without the bank's reference; give it, so that the transfer is not entered twice", in.Amount.Display()).At("body.reference")
	}
	p, _, err := s.enter(ctx, by, in, key, false)
	if err != nil {
		return Payment{}, err
	}
	return s.Payment(ctx, "", p.ID)
}

// Deposit is Enter and Confirm in one act, for money that an operator has looked at
// already. A deposit without a reference is told from others by its key alone.
func (s *Service) Deposit(ctx context.Context, by account.Principal, in Transfer, key string) (ledger.Transfer, error) {
	_, t, err := s.enter(ctx, by, in, key, true)
	return t, err
}

func (s *Service) enter(ctx context.Context, by account.Principal, in Transfer, key string, confirmed bool) (p Payment, posted ledger.Transfer, err error) {
	if !by.May(account.Operate) {
		return p, posted, fault.New(fault.Forbidden, "forbidden", "only an operator can enter deposits")
	}
	if err := billing.CheckReceipt(in.Amount, in.Reference, key); err != nil {
		return p, posted, err
	}
	currency, err := s.cfg.CurrencyOf(ctx, in.AccountID)
	if err != nil {
		return p, posted, err
	}
	id := ident.New(ident.Payment)
	if key = "bank:" + in.AccountID + ":" + key; key == "bank:"+in.AccountID+":" {
		key = id
	}
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		now := s.cfg.Clock()
		p = Payment{ID: id, AccountID: in.AccountID, Provider: Bank, Currency: currency, Amount: in.Amount, State: Pending, Ref: in.Reference,
			key: key, claim: id, CreatedBy: by.UserID, CreatedAt: now, ChangedAt: now}
		if in.Reference != "" {
			p.claim = bankClaim(in.AccountID, in.Reference)
		}
		known, err := selectPayments(ctx, tx, `request_key = ? OR claim = ?`+tx.ForUpdate(), p.key, p.claim)
		if err != nil {
			return err
		}
		for _, k := range known {
			if k.key == p.key && k.Amount == p.Amount && k.Ref == p.Ref {
				p = k
				if confirmed {
					return s.confirm(ctx, tx, by, &p, &posted, now)
				}
				return nil
			}
			if k.key == p.key {
				return fault.New(fault.Conflict, "idempotency_conflict", "the key was used for the transfer %s of %s %s; use a new one for another", k.ID, k.Amount.Display(), k.Currency)
			}
		}
		if len(known) > 0 {
			return referenceUsed(known[0])
		}
		if _, err := p.insert(ctx, tx); err != nil {
			if store.IsUnique(err) {
				return fault.New(fault.Conflict, "bank_reference_used", "the account has a transfer of the reference %q since this moment; list its payments", p.Ref).At("body.reference")
			}
			return fmt.Errorf("enter a transfer: %w", err)
		}
		if confirmed {
			return s.confirm(ctx, tx, by, &p, &posted, now)
		}
		return s.cfg.Audit(ctx, tx, by, "payment.enter", p.ID, map[string]string{"account": p.AccountID, "amount": p.Amount.String(), "currency": string(currency), "reference": p.Ref})
	})
	s.cfg.Money.Changed(in.AccountID)
	return p, posted, err
}

// reversed is the claim of a transfer that was taken back: its reference is another's
// to have.
func reversed(p *Payment) string { return "reversed:" + p.ID }

func bankClaim(accountID, reference string) string { return Bank + ":" + accountID + ":" + reference }

func referenceUsed(k Payment) error {
	return fault.New(fault.Conflict, "bank_reference_used", "the account has the transfer %s of %s %s with the reference %q already; it is %s. If this is another, give the bank's reference of it",
		k.ID, k.Amount.Display(), k.Currency, k.Ref, k.State).At("body.reference")
}

// confirm brings a transfer into the wallet within tx, and finds the posting of one
// that is there.
func (s *Service) confirm(ctx context.Context, tx *store.Tx, by account.Principal, p *Payment, posted *ledger.Transfer, now time.Time) error {
	if p.claim == reversed(p) {
		return p.settled("confirmed after it was reversed")
	}
	fresh := p.move(Succeed, now)
	if fresh {
		if _, err := s.creditIn(ctx, tx, p, now); err != nil {
			return err
		}
		if err := p.save(ctx, tx); err != nil {
			return err
		}
	} else if !p.State.InWallet() {
		return p.settled("confirmed")
	}
	// Posted already: this finds it.
	t, _, err := s.cfg.Money.Receive(ctx, tx, billing.Receipt{AccountID: p.AccountID, Currency: p.Currency, Amount: p.Credited, Reference: p.Ref, Key: receiptKey("pm", p.creditedAs()), At: now})
	if err != nil {
		return err
	}
	*posted = t
	if !fresh {
		return nil
	}
	detail := map[string]string{"account": p.AccountID, "amount": p.Amount.String(), "currency": string(p.Currency), "reference": p.Ref, "payment": p.ID}
	if err := s.cfg.Audit(ctx, tx, by, "deposit", t.ID, detail); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

// creditedAs is the claim that a payment was credited by.
func (p *Payment) creditedAs() string {
	if p.Provider == Bank {
		return p.ID
	}
	return p.claim
}

// Confirm brings a bank transfer that was entered into the wallet. The amount is said
// again, as one digit too many is easily typed and seldom twice.
func (s *Service) Confirm(ctx context.Context, by account.Principal, id string, amount money.Amount) (Payment, error) {
	if !by.May(account.Operate) {
		return Payment{}, fault.New(fault.Forbidden, "forbidden", "only an operator can confirm bank transfers")
	}
	err := s.change(ctx, id, func(ctx context.Context, tx *store.Tx, p *Payment, now time.Time) error {
		if p.Provider != Bank {
			return p.settled("confirmed by hand")
		}
		if amount != p.Amount {
			return fault.New(fault.Conflict, "confirm_amount_differs", "transfer %s was entered with another amount than %s; look at the bank's statement, and reverse it if it is wrong", id, amount.Display()).At("body.amount")
		}
		var posted ledger.Transfer
		return s.confirm(ctx, tx, by, p, &posted, now)
	})
	if err != nil {
		return Payment{}, err
	}
	return s.Payment(ctx, "", id)
}

// Reverse takes back a bank transfer that was entered wrongly. What was credited of
// it leaves the wallet, also where that leaves a debt; its reference is free again.
func (s *Service) Reverse(ctx context.Context, by account.Principal, id, reason string) (Payment, error) {
	if !by.May(account.Operate) {
		return Payment{}, fault.New(fault.Forbidden, "forbidden", "only an operator can reverse bank transfers")
	}
	if err := checkReason(reason); err != nil {
		return Payment{}, err
	}
	err := s.change(ctx, id, func(ctx context.Context, tx *store.Tx, p *Payment, now time.Time) error {
		if p.Provider != Bank {
			return p.settled("reversed; refund it")
		}
		if p.claim == reversed(p) {
			return nil
		}
		if !p.move(Reverse, now) {
			return p.settled("reversed")
		}
		p.Reason, p.claim = reason, reversed(p)
		if back := p.Credited - p.Refunded; back > 0 {
			p.Refunded += back
			if _, _, err := s.cfg.Money.GiveBack(ctx, tx, billing.Receipt{AccountID: p.AccountID, Currency: p.Currency, Amount: back, Reference: p.Ref, Key: "rv:" + p.ID, At: now}, true); err != nil {
				return err
			}
		}
		return s.cfg.Audit(ctx, tx, by, "payment.reverse", p.ID, map[string]string{"account": p.AccountID, "amount": p.Refunded.String(), "reason": reason})
	})
	if err != nil {
		return Payment{}, err
	}
	return s.Payment(ctx, "", id)
}

// Resolve decides what was put aside: accepted, what came is credited as it is, if it
// is of the account's currency; else it is over, as the operator has given it back at
// the provider. Of other payments it says that an operator has seen to them.
func (s *Service) Resolve(ctx context.Context, by account.Principal, id string, accept bool, reason string) (Payment, error) {
	if !by.May(account.Operate) {
		return Payment{}, fault.New(fault.Forbidden, "forbidden", "only an operator can decide on payments that were put aside")
	}
	if err := checkReason(reason); err != nil {
		return Payment{}, err
	}
	err := s.change(ctx, id, func(ctx context.Context, tx *store.Tx, p *Payment, now time.Time) error {
		switch {
		case p.State != Aside && p.Attention == "":
			return p.settled("decided on: nothing of it is put aside")
		case p.State != Aside && accept:
			return p.settled("accepted")
		case p.State == Aside && accept:
			if p.ReceivedCurrency != string(p.Currency) || p.ReceivedMinor <= 0 {
				return fault.New(fault.Conflict, "payment_currency_differs", "payment %s came in %s, and its account is in %s; give it back at %s and dismiss it here", id, p.ReceivedCurrency, p.Currency, p.Provider)
			}
			p.move(Accept, now)
			p.nextAt = now
			if _, err := s.creditIn(ctx, tx, p, now); err != nil {
				return err
			}
		case p.State == Aside:
			p.move(Dismiss, now)
		}
		p.Attention = ""
		if reason != "" {
			p.Reason = reason
		}
		return s.cfg.Audit(ctx, tx, by, "payment.resolve", p.ID, map[string]any{"accept": accept, "reason": reason})
	})
	if err != nil {
		return Payment{}, err
	}
	return s.Payment(ctx, "", id)
}

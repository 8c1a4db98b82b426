package payment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

func selectRefunds(ctx context.Context, tx *store.Tx, where string, args ...any) ([]Repayment, error) {
	rows, err := tx.Query(ctx, `SELECT id, payment_id, amount, state, ref, reason, created_at, changed_at, next_at FROM payment_refunds WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read refunds: %w", err)
	}
	defer rows.Close()
	var out []Repayment
	for rows.Next() {
		var r Repayment
		var created, changed, next int64
		if err := rows.Scan(&r.ID, &r.paymentID, &r.Amount, &r.State, &r.Ref, &r.Reason, &created, &changed, &next); err != nil {
			return nil, fmt.Errorf("read refunds: %w", err)
		}
		r.CreatedAt, r.ChangedAt, r.nextAt = store.Time(created), store.Time(changed), store.Time(next)
		out = append(out, r)
	}
	return out, rows.Err()
}

func (r Repayment) insert(ctx context.Context, tx *store.Tx, key string) error {
	_, err := tx.Exec(ctx, `INSERT INTO payment_refunds (id, payment_id, amount, state, ref, request_key, reason, created_at, changed_at, next_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.ID, r.paymentID, int64(r.Amount), r.State, r.Ref, key, r.Reason, store.Micros(r.CreatedAt), store.Micros(r.ChangedAt), store.Micros(r.nextAt))
	if err != nil {
		return fmt.Errorf("write refund %s: %w", r.ID, err)
	}
	return nil
}

func (r Repayment) save(ctx context.Context, tx *store.Tx) error {
	_, err := tx.Exec(ctx, `UPDATE payment_refunds SET state = ?, ref = ?, reason = ?, changed_at = ?, next_at = ? WHERE id = ?`,
		r.State, r.Ref, r.Reason, store.Micros(r.ChangedAt), store.Micros(r.nextAt), r.ID)
	if err != nil {
		return fmt.Errorf("save refund %s: %w", r.ID, err)
	}
	return nil
}

// receipt is the posting that a refund begins with.
func (r Repayment) receipt(p *Payment, at time.Time) billing.Receipt {
	return billing.Receipt{AccountID: p.AccountID, Currency: p.Currency, Amount: r.Amount, Reference: p.ID, Key: "rf:" + r.ID, At: at}
}

// Refund gives back an amount of a payment, 0 for all that is left of it, to where
// it came from. It is posted out of the wallet first, which must have it free, and
// sent to the provider then; Run sends what is left unsent. The refund of a bank
// transfer says that the operator has paid it back. The same key is one refund. It
// is an operator's act.
func (s *Service) Refund(ctx context.Context, by account.Principal, id string, amount money.Amount, reason, key string) (Payment, error) {
	if !by.May(account.Operate) {
		return Payment{}, fault.New(fault.Forbidden, "forbidden", "only an operator can refund payments")
	}
	if err := checkReason(reason); err != nil {
		return Payment{}, err
	}
	refundID := ident.New(ident.Repayment)
	if key = "pay:" + key; key == "pay:" {
		key = refundID
	}
	var r Repayment
	err := s.change(ctx, id, func(ctx context.Context, tx *store.Tx, p *Payment, now time.Time) error {
		known, err := selectRefunds(ctx, tx, `request_key = ?`, key)
		if err != nil {
			return err
		}
		if len(known) > 0 {
			if r = known[0]; r.paymentID != p.ID || amount != 0 && amount != r.Amount {
				return fault.New(fault.Conflict, "idempotency_conflict", "the key was used for refund %s of %s; use a new one for another refund", r.ID, r.Amount.Display())
			}
			return nil
		}
		if !p.move(Refund, now) {
			return p.settled("refunded")
		}
		left := p.Credited - p.Refunded
		r = Repayment{ID: refundID, paymentID: p.ID, Amount: amount, State: StillOpen, Reason: reason, CreatedAt: now, ChangedAt: now, nextAt: now.Add(creating)}
		if amount == 0 {
			r.Amount = left
		}
		_, err = minorOf(r.Amount, p.Currency)
		if r.Amount <= 0 || r.Amount > left || err != nil && p.Provider != Bank {
			return fault.New(fault.Invalid, "refund_amount_invalid", "a refund of %s %s of payment %s: want more than 0, at most the %s that are left of it, in whole cents or fen", amount.Display(), p.Currency, id, left.Display()).At("body.amount")
		}
		if _, _, err := s.cfg.Money.GiveBack(ctx, tx, r.receipt(p, now), false); err != nil {
			return err
		}
		p.Refunded += r.Amount
		if err := r.insert(ctx, tx, key); err != nil {
			return err
		}
		detail := map[string]string{"account": p.AccountID, "amount": r.Amount.String(), "currency": string(p.Currency), "refund": r.ID, "reason": reason}
		if err := s.cfg.Audit(ctx, tx, by, "payment.refund", p.ID, detail); err != nil {
			return fmt.Errorf("audit: %w", err)
		}
		if p.Provider == Bank {
			return s.refundWent(ctx, tx, p, r, Done, "", now)
		}
		return nil
	})
	if err != nil {
		return Payment{}, err
	}
	if err := s.send(ctx, r.ID); err != nil {
		// It is posted, and Run goes on with it: that is an answer, not a failure.
		s.cfg.Log.WarnContext(ctx, "send a refund", "refund", r.ID, "payment", id, "error", err)
	}
	return s.Payment(ctx, "", id)
}

func checkReason(reason string) error {
	if len(reason) > 500 {
		return fault.New(fault.Invalid, "text_too_long", "want a reason of at most 500 bytes").At("body.reason")
	}
	if r, found := ident.Hidden(reason); found {
		return fault.New(fault.Invalid, "text_invalid", "the reason holds the control character %U, which nobody sees; leave it out", r).At("body.reason")
	}
	return nil
}

// send tells the provider of a refund that is posted, or asks how it goes.
func (s *Service) send(ctx context.Context, refundID string) error {
	var p Payment
	var r Repayment
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		list, err := selectRefunds(ctx, tx, `id = ?`, refundID)
		if err != nil || len(list) == 0 {
			return err
		}
		r = list[0]
		of, err := selectPayments(ctx, tx, `id = ?`, r.paymentID)
		if err == nil && len(of) == 1 {
			p = of[0]
		}
		return err
	})
	if err != nil || p.ID == "" || r.State != StillOpen {
		return err
	}
	with := s.providers[p.Provider]
	if with == nil {
		return fmt.Errorf("the provider %q is not set up any more", p.Provider)
	}
	minor, err := minorOf(r.Amount, p.Currency)
	if err != nil {
		return err
	}
	o, err := with.Refund(ctx, RefundOrder{RefundID: r.ID, PaymentID: p.ID, ChargeRef: p.ChargeRef, Minor: minor, Currency: p.Currency})
	if no := (*Refusal)(nil); errors.As(err, &no) {
		o, err = Observation{Kind: SawRefund, Progress: NotDone, Reason: no.Message}, nil
	}
	if err != nil {
		return err
	}
	o.PaymentID, o.RefundID = p.ID, r.ID
	return s.take(ctx, p.ID, o)
}

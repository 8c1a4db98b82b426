package payment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

// Received is the kind of event that Announce is told, and ReceivedData what of it.
const Received = "payment.received"

// ReceivedData is what a payment.received event says.
type ReceivedData struct {
	PaymentID string       `json:"payment_id"`
	Provider  string       `json:"provider"`
	Amount    money.Amount `json:"amount"`
	Currency  string       `json:"currency"`
}

// errNotCredited says that a payment has to be credited before more is taken of it.
var errNotCredited = errors.New("not credited yet")

// Observe takes what a provider says of a payment, however it came. It may be said
// again, late and in any order. An error says that it was not taken.
func (s *Service) Observe(ctx context.Context, provider string, o Observation) error {
	id, err := s.locate(ctx, provider, o)
	if err != nil {
		return err
	}
	if id == "" {
		if o.ChargeRef == "" {
			return nil // another shop's at the same provider
		}
		// The payment may be learning its name at this moment: whichever of the two
		// is committed last sees the other.
		if err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error { return early(ctx, tx, provider, o, s.cfg.Clock()) }); err != nil {
			return fmt.Errorf("keep what is early: %w", err)
		}
		return s.takeEarly(ctx)
	}
	if err := s.take(ctx, id, o); err != nil {
		return err
	}
	if o.Kind == SawPaid {
		return s.takeEarly(ctx)
	}
	return nil
}

// locate finds the payment that an observation is of; empty: none.
func (s *Service) locate(ctx context.Context, provider string, o Observation) (id string, err error) {
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		// What the provider hands back of ours is looked up like anything from
		// outside: with its provider.
		err := tx.QueryRow(ctx, `SELECT id FROM payments WHERE provider = ? AND id = ?`, provider, o.PaymentID).Scan(&id)
		if errors.Is(err, store.ErrNoRows) && o.ChargeRef != "" {
			err = tx.QueryRow(ctx, `SELECT id FROM payments WHERE provider = ? AND charge_ref = ? ORDER BY id LIMIT 1`, provider, o.ChargeRef).Scan(&id)
		}
		if errors.Is(err, store.ErrNoRows) {
			return nil
		}
		return err
	})
	return id, err
}

// take applies an observation to a payment, and credits what it made a success of.
func (s *Service) take(ctx context.Context, id string, o Observation) error {
	for range 2 {
		var state State
		err := s.change(ctx, id, func(ctx context.Context, tx *store.Tx, p *Payment, now time.Time) error {
			err := s.apply(ctx, tx, p, o, now)
			state = p.State
			return err
		})
		early := errors.Is(err, errNotCredited)
		if err != nil && !early {
			return fmt.Errorf("payment %s: %w", id, err)
		}
		if state == Succeeded || early {
			if err := s.credit(ctx, id); err != nil {
				return err
			}
		}
		if !early {
			return nil
		}
	}
	return fmt.Errorf("payment %s: %w", id, errNotCredited)
}

func (s *Service) apply(ctx context.Context, tx *store.Tx, p *Payment, o Observation, now time.Time) error {
	if (o.Kind == SawRefund || o.Kind == SawDispute) && p.State == Succeeded {
		return errNotCredited
	}
	switch o.Kind {
	case SawWaiting:
	case SawPaid:
		return p.paid(o, now)
	case SawFailed:
		if p.move(Fail, now) {
			p.Reason, p.nextAt = clip(o.Reason), time.Time{}
		}
	case SawExpired:
		if p.move(Expire, now) {
			p.nextAt = time.Time{}
		}
	case SawRefund:
		return s.applyRefund(ctx, tx, p, o, now)
	case SawDispute:
		return s.applyDispute(ctx, tx, p, o, now)
	default:
		return fmt.Errorf("an observation of kind %q", o.Kind)
	}
	return nil
}

// paid takes that the provider has the money.
func (p *Payment) paid(o Observation, now time.Time) error {
	if o.Ref == "" {
		return fmt.Errorf("paid, and the provider does not say what")
	}
	if p.Ref != "" && p.Ref != o.Ref {
		// The one that is known is what the wallet has, or will have.
		p.Attention = clip(fmt.Sprintf("paid a second time, as %s: give that back at %s", o.Ref, p.Provider))
		return nil
	}
	p.Ref, p.claim = o.Ref, p.Provider+":"+o.Ref
	if p.ChargeRef == "" {
		p.ChargeRef = o.ChargeRef
	}
	want, err := minorOf(p.Amount, p.Currency)
	if err != nil {
		return err
	}
	event := Succeed
	if o.Minor != want || o.Currency != string(p.Currency) {
		event = Mismatch
	}
	if !p.move(event, now) {
		return nil
	}
	p.ReceivedMinor, p.ReceivedCurrency, p.nextAt, p.tries = o.Minor, o.Currency, now, 0
	if event == Mismatch {
		p.nextAt = time.Time{}
		p.Attention = clip(fmt.Sprintf("asked for %d %s and received %d %s, in minor units", want, p.Currency, o.Minor, o.Currency))
		p.Reason = p.Attention
	}
	return nil
}

// receiptKey is a short key that a provider's name for something stands in.
func receiptKey(kind, name string) string {
	sum := sha256.Sum256([]byte(name))
	return kind + ":" + hex.EncodeToString(sum[:])
}

// credit posts a payment that has succeeded to its wallet, once.
func (s *Service) credit(ctx context.Context, id string) error {
	err := s.change(ctx, id, func(ctx context.Context, tx *store.Tx, p *Payment, now time.Time) error {
		_, err := s.creditIn(ctx, tx, p, now)
		return err
	})
	if err != nil {
		return fmt.Errorf("credit payment %s: %w", id, err)
	}
	return nil
}

func (s *Service) creditIn(ctx context.Context, tx *store.Tx, p *Payment, now time.Time) (transfer string, err error) {
	if !p.move(Credit, now) {
		return "", nil
	}
	amount, reference := p.Amount, p.Ref
	if p.Provider != Bank {
		reference = p.ID
		if amount, err = ofMinor(p.ReceivedMinor, p.Currency); err != nil {
			return "", err
		}
	}
	posted, _, err := s.cfg.Money.Receive(ctx, tx, billing.Receipt{AccountID: p.AccountID, Currency: p.Currency, Amount: amount, Reference: reference, Key: receiptKey("pm", p.creditedAs()), At: now})
	if err != nil {
		return "", err
	}
	p.Credited, p.nextAt, p.tries = amount, time.Time{}, 0
	if s.cfg.Announce != nil {
		data := ReceivedData{PaymentID: p.ID, Provider: p.Provider, Amount: amount, Currency: string(p.Currency)}
		if err := s.cfg.Announce(ctx, tx, p.AccountID, Received, p.ID, now, data); err != nil {
			return "", fmt.Errorf("announce: %w", err)
		}
	}
	return posted.ID, nil
}

// takeEarly takes what was heard of payments before they had the name that it was
// heard by.
func (s *Service) takeEarly(ctx context.Context) error {
	type heard struct{ provider, charge, what, payment, observation string }
	var list []heard
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT e.provider, e.charge_ref, e.what, p.id, e.observation FROM payment_early e
			JOIN payments p ON p.provider = e.provider AND p.charge_ref = e.charge_ref ORDER BY e.at LIMIT 100`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var h heard
			if err := rows.Scan(&h.provider, &h.charge, &h.what, &h.payment, &h.observation); err != nil {
				return err
			}
			list = append(list, h)
		}
		return rows.Err()
	})
	if err != nil {
		return fmt.Errorf("take what was early: %w", err)
	}
	for _, h := range list {
		var o Observation
		if err := json.Unmarshal([]byte(h.observation), &o); err != nil {
			return fmt.Errorf("take what was early: %w", err)
		}
		if err := s.take(ctx, h.payment, o); err != nil {
			return err
		}
		if err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Exec(ctx, `DELETE FROM payment_early WHERE provider = ? AND charge_ref = ? AND what = ?`, h.provider, h.charge, h.what)
			return err
		}); err != nil {
			return fmt.Errorf("take what was early: %w", err)
		}
	}
	return nil
}

func disputesOf(ctx context.Context, tx *store.Tx, paymentID string) ([]Contest, error) {
	rows, err := tx.Query(ctx, `SELECT ref, amount, state, at FROM payment_disputes WHERE payment_id = ? ORDER BY at, ref`, paymentID)
	if err != nil {
		return nil, fmt.Errorf("disputes of %s: %w", paymentID, err)
	}
	defer rows.Close()
	var out []Contest
	for rows.Next() {
		var c Contest
		var at int64
		if err := rows.Scan(&c.Ref, &c.Amount, &c.State, &at); err != nil {
			return nil, fmt.Errorf("disputes of %s: %w", paymentID, err)
		}
		c.At = store.Time(at)
		out = append(out, c)
	}
	return out, rows.Err()
}

// applyDispute takes what a payer's bank took back, or puts it back. A dispute goes
// on only: that it is open, heard after it was closed, is old.
func (s *Service) applyDispute(ctx context.Context, tx *store.Tx, p *Payment, o Observation, now time.Time) error {
	if !p.State.InWallet() {
		p.Attention = clip("disputed as " + o.ItemRef + " before it was credited")
		return nil
	}
	all, err := disputesOf(ctx, tx, p.ID)
	if err != nil {
		return err
	}
	c := Contest{Ref: o.ItemRef, State: o.Progress, At: now}
	was, open := "", 0
	for _, d := range all {
		if d.Ref == c.Ref {
			was, c.Amount = d.State, d.Amount
		} else if d.State != Won {
			open++
		}
	}
	closed := o.Progress == Won || o.Progress == Lost
	if was != "" && (was != StillOpen || !closed) {
		return nil
	}
	receipt := billing.Receipt{AccountID: p.AccountID, Currency: p.Currency, Reference: p.ID, Key: receiptKey("dp", p.Provider+":"+c.Ref), At: now}
	if was == "" {
		c.Amount, err = ofMinor(o.Minor, p.Currency)
		if err != nil || o.Currency != string(p.Currency) || c.Amount <= 0 || c.Amount > p.Credited {
			c.Amount, c.State = 0, "aside"
			p.Attention = clip(fmt.Sprintf("dispute %s is of %d %s in minor units, which is not of this payment; nothing was posted", c.Ref, o.Minor, o.Currency))
		} else if o.Progress != Won {
			receipt.Amount = c.Amount
			if _, _, err := s.cfg.Money.GiveBack(ctx, tx, receipt, true); err != nil {
				return err
			}
			p.move(Dispute, now)
			p.Attention = clip("disputed: " + o.Reason)
		}
		if _, err := tx.Exec(ctx, `INSERT INTO payment_disputes (provider, ref, payment_id, amount, state, at) VALUES (?, ?, ?, ?, ?, ?)`,
			p.Provider, c.Ref, p.ID, int64(c.Amount), c.State, store.Micros(now)); err != nil {
			return fmt.Errorf("dispute %s: %w", c.Ref, err)
		}
		return nil
	}
	if _, err := tx.Exec(ctx, `UPDATE payment_disputes SET state = ? WHERE provider = ? AND ref = ?`, o.Progress, p.Provider, c.Ref); err != nil {
		return fmt.Errorf("dispute %s: %w", c.Ref, err)
	}
	if o.Progress == Lost {
		p.move(LoseDispute, now)
		return nil
	}
	receipt.Amount, receipt.Key = c.Amount, receiptKey("dw", p.Provider+":"+c.Ref)
	if _, _, err := s.cfg.Money.Receive(ctx, tx, receipt); err != nil {
		return err
	}
	if open == 0 && p.move(WinDispute, now) {
		return p.resume(ctx, tx, now)
	}
	return nil
}

// resume takes a payment whose disputes are won to where its refunds had led it.
func (p *Payment) resume(ctx context.Context, tx *store.Tx, now time.Time) error {
	under, err := selectRefunds(ctx, tx, `payment_id = ? AND state = ?`, p.ID, StillOpen)
	if err != nil {
		return err
	}
	switch {
	case len(under) > 0:
		p.move(Refund, now)
	case p.Refunded >= p.Credited:
		p.move(RefundWhole, now)
	}
	return nil
}

// applyRefund takes how a refund goes, ours or one that was made at the provider.
func (s *Service) applyRefund(ctx context.Context, tx *store.Tx, p *Payment, o Observation, now time.Time) error {
	if p.State == Aside && o.Progress == Done && o.Minor == p.ReceivedMinor && o.Currency == p.ReceivedCurrency {
		p.move(Dismiss, now)
		p.Reason, p.Attention = "given back at "+p.Provider, ""
		return nil
	}
	list, err := selectRefunds(ctx, tx, `payment_id = ? AND (id = ? OR (ref = ? AND ref <> ''))`, p.ID, o.RefundID, o.ItemRef)
	if err != nil {
		return err
	}
	if !p.State.InWallet() {
		p.Attention = clip("given back as " + o.ItemRef + " before it was credited")
		return nil
	}
	if len(list) == 0 {
		if o.Progress == NotDone {
			return nil
		}
		return s.foreignRefund(ctx, tx, p, o, now)
	}
	r := list[0]
	if r.Ref == "" {
		r.Ref = o.ItemRef
	}
	return s.refundWent(ctx, tx, p, r, o.Progress, o.Reason, now)
}

// refundWent moves a refund to where its provider says that it is.
func (s *Service) refundWent(ctx context.Context, tx *store.Tx, p *Payment, r Repayment, progress, reason string, now time.Time) error {
	switch {
	case progress == Done && r.State == StillOpen:
		r.State, r.nextAt = Done, time.Time{}
		if p.Refunded >= p.Credited {
			p.move(RefundWhole, now)
		} else {
			p.move(RefundPart, now)
		}
	case progress == NotDone && r.State != NotDone:
		// Also after it had gone through: a closed account sends it back.
		r.State, r.nextAt, r.Reason = NotDone, time.Time{}, clip(reason)
		if _, _, err := s.cfg.Money.Receive(ctx, tx, billing.Receipt{AccountID: p.AccountID, Currency: p.Currency, Amount: r.Amount, Reference: p.ID, Key: "rb:" + r.ID, At: now}); err != nil {
			return err
		}
		p.Refunded -= r.Amount
		p.move(RefundFail, now)
		p.Attention = clip("refund " + r.ID + " failed, the money is in the wallet again: " + reason)
	case progress != StillOpen && progress != r.State:
		p.Attention = clip(fmt.Sprintf("refund %s is %s here, and %s at %s", r.ID, r.State, progress, p.Provider))
	}
	r.ChangedAt = now
	return r.save(ctx, tx)
}

// foreignRefund takes a refund that nobody asked for here: the money is gone.
func (s *Service) foreignRefund(ctx context.Context, tx *store.Tx, p *Payment, o Observation, now time.Time) error {
	amount, err := ofMinor(o.Minor, p.Currency)
	if err != nil || o.Currency != string(p.Currency) || amount <= 0 || amount > p.Credited-p.Refunded || o.ItemRef == "" {
		p.Attention = clip(fmt.Sprintf("%s gave back %d %s in minor units as %s, which is not of this payment; nothing was posted", p.Provider, o.Minor, o.Currency, o.ItemRef))
		return nil
	}
	r := Repayment{ID: ident.New(ident.Repayment), paymentID: p.ID, Amount: amount, State: StillOpen, Ref: o.ItemRef, Reason: clip("made at " + p.Provider), CreatedAt: now, ChangedAt: now}
	if err := r.insert(ctx, tx, receiptKey("foreign", p.Provider+":"+o.ItemRef)); err != nil {
		return err
	}
	if _, _, err := s.cfg.Money.GiveBack(ctx, tx, r.receipt(p, now), true); err != nil {
		return err
	}
	p.Refunded += amount
	p.move(Refund, now)
	p.Attention = clip("refunded at " + p.Provider + " itself, as " + o.ItemRef)
	return s.refundWent(ctx, tx, p, r, o.Progress, o.Reason, now)
}

// settled is a Conflict fault for a payment that is not where something can be done.
func (p *Payment) settled(what string) error {
	return fault.New(fault.Conflict, "payment_state", "payment %s is %s; it cannot be %s now", p.ID, p.State, what)
}

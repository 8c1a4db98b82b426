package earning

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// The codes of earning's transfers. A payout moves from provider/…/payable to
// PayoutsAccount when it is requested, and back if it is declined or returned.
const (
	CodePayout       = "payout"
	CodePayoutReturn = "payout_return"
)

// PayoutsAccount has what was paid out and what is on its way.
const PayoutsAccount = "platform/payouts"

// Payout is one payment to a provider.
type Payout struct {
	ID, AccountID string
	Currency      money.Currency
	Amount        money.Amount
	Batch         string
	State         PayoutState
	Reference     string // the bank's
	Reason        string // why it failed, was declined or came back
	CreatedAt     time.Time
	ChangedAt     time.Time
}

// Payable is a provider's balance in one currency.
type Payable struct {
	Currency money.Currency
	pricing.Payable
}

// Payables returns what a provider has earned with real hardware, by currency:
// what is held, what can be paid out now, what was paid, and what is owed.
func (s *Service) Payables(ctx context.Context, providerID string) ([]Payable, error) {
	var out []Payable
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		for _, currency := range []money.Currency{money.CNY, money.USD} {
			p, err := s.payable(ctx, tx, providerID, currency)
			if err != nil {
				return err
			}
			if p.Earned != 0 || p.Paid != 0 {
				out = append(out, Payable{currency, p})
			}
		}
		return nil
	})
	return out, err
}

// payable is right under the payee's lock.
func (s *Service) payable(ctx context.Context, tx *store.Tx, providerID string, currency money.Currency) (pricing.Payable, error) {
	now := s.cfg.Clock()
	earnings, err := s.cfg.Money.RealEarnings(ctx, tx, providerID, currency, now.Add(-time.Duration(s.cfg.Rule.HoldSeconds)*time.Second), now)
	if err != nil {
		return pricing.Payable{}, err
	}
	if s.cfg.Taken != nil {
		taken, err := s.cfg.Taken(ctx, tx, providerID, currency)
		if err != nil {
			return pricing.Payable{}, err
		}
		earnings = append(earnings, taken...)
	}
	var paid money.Amount
	if err := tx.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM earning_payouts WHERE account_id = ? AND currency = ? AND state NOT IN (?, ?)`,
		providerID, string(currency), string(Declined), string(Returned)).Scan(&paid); err != nil {
		return pricing.Payable{}, fmt.Errorf("payouts of %s: %w", providerID, err)
	}
	return s.cfg.Rule.At(earnings, paid, now)
}

// Batch is what CreatePayouts is asked for.
type Batch struct {
	Name     string         // such as "2026-03"; a provider is in each batch once
	Currency money.Currency // empty: all
	Accounts []string       // empty: all providers
	Minimum  money.Amount   // less is left for another batch
}

var batchName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CreatePayouts requests a payout of all that is available, in whole cents, to
// each provider, and sets it aside. Who is in the batch already stays as it is, so
// that the same batch can be made again after a failure. It returns all payouts of
// the batch.
func (s *Service) CreatePayouts(ctx context.Context, p account.Principal, b Batch) ([]Payout, error) {
	switch {
	case !p.May(account.Operate):
		return nil, fault.New(fault.Forbidden, "forbidden", "only an operator can make payouts")
	case !batchName.MatchString(b.Name):
		return nil, fault.New(fault.Invalid, "batch_invalid", "the batch %q: want a name such as 2026-03, up to 64 letters, digits, dots, dashes and underscores", b.Name).At("body.batch")
	case b.Currency != "" && !b.Currency.Valid():
		return nil, fault.New(fault.Invalid, "currency_invalid", "payouts in %q: want USD or CNY", b.Currency).At("body.currency")
	case b.Minimum < 0:
		return nil, fault.New(fault.Invalid, "amount_invalid", "payouts of at least %s: want 0 or more", b.Minimum.Display()).At("body.minimum")
	}
	payees, err := s.cfg.Money.Payees(ctx)
	if err != nil {
		return nil, err
	}
	for _, payee := range payees {
		if (b.Currency != "" && payee.Currency != b.Currency) || (len(b.Accounts) > 0 && !slices.Contains(b.Accounts, payee.AccountID)) {
			continue
		}
		// Each by itself: what is wrong with one must not keep the others waiting.
		if err := s.request(ctx, p, payee.AccountID, payee.Currency, b); err != nil {
			return nil, fmt.Errorf("payout to %s: %w", payee.AccountID, err)
		}
	}
	var out []Payout
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		out, err = selectPayouts(ctx, tx, `batch = ? ORDER BY id`, b.Name)
		return err
	})
	return out, err
}

func (s *Service) request(ctx context.Context, by account.Principal, providerID string, currency money.Currency, b Batch) error {
	return s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO earning_payees (account_id, currency) VALUES (?, ?) ON CONFLICT DO NOTHING`, providerID, string(currency)); err != nil {
			return err
		}
		var locked string
		if err := tx.QueryRow(ctx, `SELECT account_id FROM earning_payees WHERE account_id = ? AND currency = ?`+tx.ForUpdate(), providerID, string(currency)).Scan(&locked); err != nil {
			return err
		}
		known, err := selectPayouts(ctx, tx, `account_id = ? AND currency = ? AND batch = ?`, providerID, string(currency), b.Name)
		if err != nil || len(known) > 0 {
			return err
		}
		have, err := s.payable(ctx, tx, providerID, currency)
		if err != nil {
			return err
		}
		amount, err := pricing.FloorMinor(have.Available, currency)
		if err != nil {
			return err
		}
		if amount <= 0 || amount < b.Minimum {
			return nil
		}
		now := s.cfg.Clock()
		out := Payout{ID: ident.New(ident.Payout), AccountID: providerID, Currency: currency, Amount: amount, Batch: b.Name, State: Requested, CreatedAt: now, ChangedAt: now}
		if _, err := tx.Exec(ctx, `INSERT INTO earning_payouts (id, account_id, currency, amount, batch, state, reference, reason, created_at, changed_at) VALUES (?, ?, ?, ?, ?, ?, '', '', ?, ?)`,
			out.ID, out.AccountID, string(currency), int64(amount), b.Name, string(Requested), store.Micros(now), store.Micros(now)); err != nil {
			return err
		}
		if err := s.cfg.Ledger.Post(ctx, tx, out.transfer(now, false)); err != nil {
			return err
		}
		return s.cfg.Audit(ctx, tx, by, "payout.request", out.ID, map[string]string{"account": providerID, "amount": amount.String(), "currency": string(currency), "batch": b.Name})
	})
}

// transfer sets a payout's amount aside, or gives it back.
func (p Payout) transfer(at time.Time, back bool) ledger.Transfer {
	t := ledger.Transfer{
		Key: ledger.Key(p.CreatedAt, CodePayout, p.ID), Debit: ledger.Payable(p.AccountID), Credit: PayoutsAccount,
		Amount: p.Amount, Currency: p.Currency, Code: CodePayout, Reference: p.ID, EffectiveAt: at,
	}
	if back {
		t.Key, t.Debit, t.Credit, t.Code = ledger.Key(p.CreatedAt, CodePayoutReturn, p.ID), t.Credit, t.Debit, CodePayoutReturn
	}
	return t
}

// Mark says what happened to a payout. The same event again, with the payout where
// it leads to already, changes nothing. reference is the bank's, and needed to say
// that it was paid.
func (s *Service) Mark(ctx context.Context, p account.Principal, id string, event PayoutEvent, reference, reason string) (Payout, error) {
	if !p.May(account.Operate) {
		return Payout{}, fault.New(fault.Forbidden, "forbidden", "only an operator can mark payouts")
	}
	if len(reference) > 200 || len(reason) > 500 {
		return Payout{}, fault.New(fault.Invalid, "text_too_long", "want a reference of at most 200 bytes and a reason of at most 500").At("body")
	}
	if event == Pay && reference == "" {
		return Payout{}, fault.New(fault.Invalid, "reference_missing", "to mark a payout as paid, give the bank's reference of the payment").At("body.reference")
	}
	var out Payout
	err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		list, err := selectPayouts(ctx, tx, `id = ?`+tx.ForUpdate(), id)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return fault.New(fault.NotFound, "payout_not_found", "there is no payout %q; list them to see their identifiers", id)
		}
		out = list[0]
		to, ok := out.State.Next(event)
		if !ok {
			if out.reachedBy(event) {
				return nil
			}
			return fault.New(fault.Conflict, "payout_state", "payout %s is %s; what can be said of it now is: %v", id, out.State, out.State.after())
		}
		from := out.State
		now := s.cfg.Clock()
		out.State, out.ChangedAt = to, now
		out.Reference, out.Reason = cmp.Or(reference, out.Reference), reason
		if _, err := tx.Exec(ctx, `UPDATE earning_payouts SET state = ?, reference = ?, reason = ?, changed_at = ? WHERE id = ?`,
			string(to), out.Reference, out.Reason, store.Micros(now), id); err != nil {
			return err
		}
		if to.givenBack() {
			if err := s.cfg.Ledger.Post(ctx, tx, out.transfer(now, true)); err != nil {
				return err
			}
		}
		return s.cfg.Audit(ctx, tx, p, "payout."+string(event), id, map[string]string{"from": string(from), "to": string(to), "reference": reference, "reason": reason})
	})
	return out, err
}

// reachedBy reports whether a payout is where an event would have led to.
func (p Payout) reachedBy(e PayoutEvent) bool {
	for _, s := range PayoutStates() {
		if to, ok := s.Next(e); ok && to == p.State {
			return true
		}
	}
	return false
}

// Payouts lists up to limit payouts, newest first, older than the one with the
// identifier before; empty: from the newest. Without a provider it lists all, which
// is for operators. state narrows to one state if it is not empty.
func (s *Service) Payouts(ctx context.Context, providerID string, state PayoutState, before string, limit int) ([]Payout, error) {
	if state != "" && payoutTransitions[state] == nil {
		return nil, fault.New(fault.Invalid, "invalid_state", "there is no state %q; the states are %v", state, PayoutStates()).At("query.state")
	}
	if before == "" {
		before = "~" // sorts after every identifier
	}
	where, args := `id < ?`, []any{before}
	if providerID != "" {
		where, args = where+` AND account_id = ?`, append(args, providerID)
	}
	if state != "" {
		where, args = where+` AND state = ?`, append(args, string(state))
	}
	var out []Payout
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		out, err = selectPayouts(ctx, tx, where+` ORDER BY id DESC LIMIT ?`, append(args, limit)...)
		return err
	})
	return out, err
}

func selectPayouts(ctx context.Context, tx *store.Tx, where string, args ...any) ([]Payout, error) {
	rows, err := tx.Query(ctx, `SELECT id, account_id, currency, amount, batch, state, reference, reason, created_at, changed_at FROM earning_payouts WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read payouts: %w", err)
	}
	defer rows.Close()
	var out []Payout
	for rows.Next() {
		var p Payout
		var created, changed int64
		if err := rows.Scan(&p.ID, &p.AccountID, &p.Currency, &p.Amount, &p.Batch, &p.State, &p.Reference, &p.Reason, &created, &changed); err != nil {
			return nil, fmt.Errorf("read payouts: %w", err)
		}
		p.CreatedAt, p.ChangedAt = store.Time(created), store.Time(changed)
		out = append(out, p)
	}
	return out, rows.Err()
}

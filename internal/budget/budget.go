package budget

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// Action is what happens once all of a budget is spent.
type Action string

// The actions.
const (
	Tell   Action = "tell"   // nothing but the notification
	Refuse Action = "refuse" // leases in scope are neither made nor started
	Stop   Action = "stop"   // likewise, and those that run are stopped; their disks are kept
)

// Actions are all actions, from the mildest.
var Actions = []Action{Tell, Refuse, Stop}

// What an account may have.
const (
	maxBudgets    = 100 // of an account
	maxThresholds = 10
	maxShare      = 100_000 // basis points: ten times the amount
	maxNameRunes  = 63
	maxLabelBytes = 200
	maxPeriod     = 10 * 366 * 24 * time.Hour
)

// Budget is what may be spent in a period, and what happens on the way there.
type Budget struct {
	ID, AccountID string
	Name          string
	// Label, key=value, and UserID narrow it to leases that have the label, and that
	// the user made. Both empty: the whole account.
	Label, UserID string
	Currency      money.Currency
	Amount        money.Amount
	// From and Until are of a fixed period; zero: each calendar month.
	From, Until          time.Time
	Thresholds           []pricing.Alert
	Action               Action
	CreatedAt, ChangedAt time.Time

	blockedUntil time.Time
}

// covers reports whether a lease with these labels, made by a user, is in scope.
func (b *Budget) covers(userID string, labels map[string]string) bool {
	if b.UserID != "" && b.UserID != userID {
		return false
	}
	if b.Label == "" {
		return true
	}
	key, value, _ := strings.Cut(b.Label, "=")
	got, ok := labels[key]
	return ok && got == value
}

// Change says what of a budget is to be other than it is. Nil fields stay.
type Change struct {
	Name       *string
	Amount     *money.Amount
	Thresholds []pricing.Alert
	Action     *Action
}

func invalid(location, format string, args ...any) error {
	return fault.New(fault.Invalid, "budget_invalid", format, args...).At(location)
}

// check reports what is wrong with a budget, and fills in what nobody chose.
func (b *Budget) check() error {
	if b.Thresholds == nil {
		b.Thresholds = pricing.StandardAlerts()
	}
	if b.Action == "" {
		b.Action = Tell
	}
	switch n := utf8.RuneCountInString(b.Name); {
	case n == 0 || n > maxNameRunes || strings.TrimSpace(b.Name) != b.Name || strings.ContainsFunc(b.Name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return invalid("body.name", "the name %.80q: want 1 to %d visible characters, without spaces around them", b.Name, maxNameRunes)
	case ident.Resembles(b.Name):
		return invalid("body.name", "the name %q looks like an identifier; choose another", b.Name)
	}
	if b.Amount <= 0 {
		return invalid("body.amount", "an amount of %s: want more than 0", b.Amount.Display())
	}
	if key, _, ok := strings.Cut(b.Label, "="); b.Label != "" && (!ok || key == "" || len(b.Label) > maxLabelBytes) {
		return invalid("body.label", "the label %.80q: want key=value", b.Label)
	}
	if b.From.IsZero() != b.Until.IsZero() {
		return invalid("body.until", "a fixed period needs both ends; leave out both for each calendar month")
	}
	if d := b.Until.Sub(b.From); !b.From.IsZero() && (d <= 0 || d > maxPeriod) {
		return invalid("body.until", "a period from %s to %s: want an end after its beginning, ten years at most", b.From.Format(time.RFC3339), b.Until.Format(time.RFC3339))
	}
	if len(b.Thresholds) == 0 || len(b.Thresholds) > maxThresholds {
		return invalid("body.thresholds", "%d thresholds: want 1 to %d", len(b.Thresholds), maxThresholds)
	}
	for i, t := range b.Thresholds {
		if t.BasisPoints < 1 || t.BasisPoints > maxShare {
			return invalid("body.thresholds", "a threshold of %d basis points: want 1 to %d, of which 10000 are the whole amount", t.BasisPoints, maxShare)
		}
		if slices.Contains(b.Thresholds[:i], t) {
			return invalid("body.thresholds", "the threshold of %d basis points is there twice", t.BasisPoints)
		}
	}
	if !slices.Contains(Actions, b.Action) {
		return invalid("body.action", "the action %.40q: want tell, refuse or stop", b.Action)
	}
	return nil
}

// Create makes a budget of the caller's account.
func (s *Service) Create(ctx context.Context, p account.Principal, b Budget) (Status, error) {
	now := s.cfg.Clock().UTC().Truncate(time.Microsecond)
	b.ID, b.AccountID, b.CreatedAt, b.ChangedAt, b.blockedUntil = ident.New(ident.Budget), p.AccountID, now, now, time.Time{}
	b.From, b.Until = b.From.UTC().Truncate(time.Microsecond), b.Until.UTC().Truncate(time.Microsecond)
	if err := b.check(); err != nil {
		return Status{}, err
	}
	if b.UserID != "" {
		if err := s.cfg.HasUser(ctx, p.AccountID, b.UserID); err != nil {
			return Status{}, err
		}
	}
	var err error
	if b.Currency, err = s.cfg.CurrencyOf(ctx, p.AccountID); err != nil {
		return Status{}, err
	}
	thresholds, err := json.Marshal(b.Thresholds)
	if err != nil {
		return Status{}, err
	}
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		var n int64
		if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM budget_budgets WHERE account_id = ?`, b.AccountID).Scan(&n); err != nil {
			return err
		}
		if n >= maxBudgets {
			return fault.New(fault.TooMany, "budget_limit", "this account has %d budgets, which is all that one may have; delete one", n)
		}
		n, err := tx.Exec(ctx, `INSERT INTO budget_budgets (id, account_id, name, label, user_id, currency, amount, from_at, until_at, thresholds, action, blocked_until, created_at, changed_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?) ON CONFLICT DO NOTHING`, b.ID, b.AccountID, b.Name, b.Label, b.UserID, string(b.Currency), int64(b.Amount),
			store.Micros(b.From), store.Micros(b.Until), string(thresholds), string(b.Action), store.Micros(now), store.Micros(now))
		if err != nil {
			return err
		}
		if n == 0 {
			return nameTaken(b.Name)
		}
		return s.cfg.Audit(ctx, tx, p, "budget.create", b.ID, map[string]string{"name": b.Name, "amount": b.Amount.String(), "label": b.Label, "user": b.UserID, "action": string(b.Action)})
	})
	if err != nil {
		return Status{}, fmt.Errorf("create budget: %w", err)
	}
	return s.lookAt(ctx, &b)
}

func nameTaken(name string) error {
	return fault.New(fault.Conflict, "budget_exists", "this account has a budget %q already; choose another name, or change that one", name).At("body.name")
}

// Set changes a budget of the caller's account, by its identifier or name.
func (s *Service) Set(ctx context.Context, p account.Principal, nameOrID string, c Change) (Status, error) {
	var b *Budget
	err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if b, err = find(ctx, tx, p.AccountID, nameOrID, tx.ForUpdate()); err != nil {
			return err
		}
		old := *b
		if c.Name != nil {
			b.Name = *c.Name
		}
		if c.Amount != nil {
			b.Amount = *c.Amount
		}
		if c.Thresholds != nil {
			b.Thresholds = c.Thresholds
		}
		if c.Action != nil {
			b.Action = *c.Action
		}
		if err := b.check(); err != nil {
			return err
		}
		thresholds, err := json.Marshal(b.Thresholds)
		if err != nil {
			return err
		}
		if b.Name != old.Name {
			var n int64
			if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM budget_budgets WHERE account_id = ? AND name = ? AND id <> ?`, b.AccountID, b.Name, b.ID).Scan(&n); err != nil {
				return err
			}
			if n > 0 {
				return nameTaken(b.Name)
			}
		}
		b.ChangedAt = s.cfg.Clock().UTC().Truncate(time.Microsecond)
		if _, err := tx.Exec(ctx, `UPDATE budget_budgets SET name = ?, amount = ?, thresholds = ?, action = ?, changed_at = ? WHERE id = ?`,
			b.Name, int64(b.Amount), string(thresholds), string(b.Action), store.Micros(b.ChangedAt), b.ID); err != nil {
			return err
		}
		return s.cfg.Audit(ctx, tx, p, "budget.set", b.ID, map[string]string{"name": b.Name, "amount": b.Amount.String(), "amount_before": old.Amount.String(), "action": string(b.Action)})
	})
	if store.IsUnique(err) {
		err = nameTaken(*c.Name) // by another that came in between
	}
	if err != nil {
		return Status{}, fmt.Errorf("change budget: %w", err)
	}
	return s.lookAt(ctx, b)
}

// Delete removes a budget of the caller's account, by its identifier or name. What
// it refused is allowed from then on.
func (s *Service) Delete(ctx context.Context, p account.Principal, nameOrID string) error {
	return s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		b, err := find(ctx, tx, p.AccountID, nameOrID, tx.ForUpdate())
		if err != nil {
			return err
		}
		for _, query := range []string{`DELETE FROM budget_told WHERE budget_id = ?`, `DELETE FROM budget_budgets WHERE id = ?`} {
			if _, err := tx.Exec(ctx, query, b.ID); err != nil {
				return fmt.Errorf("delete budget: %w", err)
			}
		}
		return s.cfg.Audit(ctx, tx, p, "budget.delete", b.ID, map[string]string{"name": b.Name})
	})
}

// Allow is a Payment fault "budget_reached" if a budget that is used up refuses a
// lease with these labels, made by a user. It is asked in the transaction that makes
// or starts the lease.
func (s *Service) Allow(ctx context.Context, tx *store.Tx, accountID, userID string, labels map[string]string) error {
	list, err := load(ctx, tx, `account_id = ? AND action <> ? AND blocked_until > ?`, accountID, string(Tell), store.Micros(s.cfg.Clock()))
	if err != nil {
		return err
	}
	for _, b := range list {
		if b.covers(userID, labels) {
			return fault.New(fault.Payment, "budget_reached", "the budget %q of %s %s is used up until %s and refuses further leases; raise it, or ask who may",
				b.Name, b.Amount.Display(), b.Currency, b.blockedUntil.Format(time.RFC3339))
		}
	}
	return nil
}

const columns = `id, account_id, name, label, user_id, currency, amount, from_at, until_at, thresholds, action, blocked_until, created_at, changed_at`

// load returns the budgets that a WHERE clause selects.
func load(ctx context.Context, tx *store.Tx, where string, args ...any) ([]*Budget, error) {
	rows, err := tx.Query(ctx, `SELECT `+columns+` FROM budget_budgets WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read budgets: %w", err)
	}
	defer rows.Close()
	var out []*Budget
	for rows.Next() {
		b, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("read budgets: %w", err)
		}
		out = append(out, b)
	}
	return out, rows.Err()
}

func scan(row interface{ Scan(...any) error }) (*Budget, error) {
	var b Budget
	var thresholds string
	var from, until, blocked, created, changed int64
	if err := row.Scan(&b.ID, &b.AccountID, &b.Name, &b.Label, &b.UserID, &b.Currency, &b.Amount, &from, &until, &thresholds, &b.Action, &blocked, &created, &changed); err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(thresholds), &b.Thresholds); err != nil {
		return nil, fmt.Errorf("thresholds of %s: %w", b.ID, err)
	}
	b.From, b.Until, b.blockedUntil = store.Time(from), store.Time(until), store.Time(blocked)
	b.CreatedAt, b.ChangedAt = store.Time(created), store.Time(changed)
	return &b, nil
}

// find returns a budget of an account by its identifier or name.
func find(ctx context.Context, tx *store.Tx, accountID, nameOrID, lock string) (*Budget, error) {
	b, err := scan(tx.QueryRow(ctx, `SELECT `+columns+` FROM budget_budgets WHERE account_id = ? AND (id = ? OR name = ?)`+lock, accountID, nameOrID, nameOrID))
	if errors.Is(err, store.ErrNoRows) {
		return nil, fault.New(fault.NotFound, "budget_not_found", "there is no budget %q", nameOrID)
	}
	if err != nil {
		return nil, fmt.Errorf("read budget %s: %w", nameOrID, err)
	}
	return b, nil
}

package budget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/money"
	"suanli.dev/internal/notify"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// lookBack is for how long after a period's end its thresholds are still told: what
// was spent in its last minutes, or while nothing looked, is not passed over.
const lookBack = 24 * time.Hour

// Status is how a budget stands in a period.
type Status struct {
	Budget
	Period      pricing.Period
	Spent       money.Amount // charges of the period, and what is used and not posted
	Unposted    money.Amount // of it, not posted
	Simulated   money.Amount // of it, for simulated GPUs
	BurnPerHour money.Amount // in scope, now
	Forecast    money.Amount // of the whole period, if what burns now goes on
	Told        []Told
	// Blocks says that leases in scope are refused or stopped now.
	Blocks bool

	running []string // leases in scope that an action would stop
}

// Told is a threshold that the account was told of.
type Told struct {
	pricing.Alert
	At     time.Time
	amount money.Amount // of the budget, then
}

// periods returns the periods of a budget to look at: the one that now is in, and
// the one that has just ended. The last is the current or the latest one; a fixed
// period that has not begun is the only one.
func (b *Budget) periods(timeZone string, now time.Time) ([]pricing.Period, error) {
	if !b.From.IsZero() {
		return []pricing.Period{{Start: b.From, End: b.Until}}, nil
	}
	month, err := pricing.MonthOf(now, timeZone)
	if err != nil {
		return nil, err
	}
	if now.Sub(month.Start) >= lookBack {
		return []pricing.Period{month}, nil
	}
	before, err := pricing.MonthOf(month.Start.Add(-time.Second), timeZone)
	if err != nil || !b.CreatedAt.Before(before.End) {
		return []pricing.Period{month}, err
	}
	return []pricing.Period{before, month}, nil
}

// measure is how a budget stands by what the leases in its scope cost in a period.
func (b *Budget) measure(p pricing.Period, spending []billing.Spending, tags map[string]Tag, now time.Time) (Status, error) {
	v := Status{Budget: *b, Period: p}
	for _, l := range spending {
		if b.Label != "" || b.UserID != "" {
			tag, ok := tags[l.LeaseID]
			if !ok || !b.covers(tag.UserID, tag.Labels) {
				continue
			}
		}
		for _, part := range []struct {
			sum  *money.Amount
			more money.Amount
		}{{&v.Spent, l.Posted}, {&v.Spent, l.Unposted}, {&v.Unposted, l.Unposted}, {&v.BurnPerHour, l.BurnPerHour}} {
			var err error
			if *part.sum, err = part.sum.Add(part.more); err != nil {
				return v, err
			}
		}
		if l.Simulated {
			v.Simulated += l.Posted + l.Unposted // at most what was added to Spent
		}
		if l.Running {
			v.running = append(v.running, l.LeaseID)
		}
	}
	var err error
	if v.Forecast = v.Spent; now.Before(p.End) && !now.Before(p.Start) {
		v.Forecast, err = pricing.Forecast(v.Spent, v.BurnPerHour, p, now)
	}
	return v, err
}

// account is an account's budgets with how they stand, read at one moment.
func (s *Service) account(ctx context.Context, accountID string, list []*Budget, now time.Time) ([]Status, error) {
	zone, err := s.cfg.ZoneOf(ctx, accountID)
	if err != nil {
		return nil, err
	}
	spending := map[pricing.Period][]billing.Spending{}
	var order []pricing.Period
	of := map[string][]pricing.Period{}
	scoped := false
	for _, b := range list {
		if of[b.ID], err = b.periods(zone, now); err != nil {
			return nil, err
		}
		for _, p := range of[b.ID] {
			if _, ok := spending[p]; !ok {
				spending[p] = nil
				order = append(order, p)
			}
		}
		scoped = scoped || b.Label != "" || b.UserID != ""
	}
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		for _, p := range order {
			if now.Before(p.Start) {
				continue
			}
			if spending[p], err = s.cfg.Money.Spending(ctx, tx, accountID, p.Start, p.End, now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	tags := map[string]Tag{}
	if scoped {
		var ids []string
		for _, all := range spending {
			for _, l := range all {
				ids = append(ids, l.LeaseID)
			}
		}
		slices.Sort(ids)
		if tags, err = s.cfg.Tags(ctx, accountID, slices.Compact(ids)); err != nil {
			return nil, err
		}
	}
	var out []Status
	for _, b := range list {
		for _, p := range of[b.ID] {
			v, err := b.measure(p, spending[p], tags, now)
			if err != nil {
				return nil, fmt.Errorf("budget %s: %w", b.ID, err)
			}
			out = append(out, v)
		}
	}
	return out, nil
}

// Look looks at every budget: it tells what is to be told, notes which budgets are
// used up, and stops what they stop. One account's failure does not stop the others.
func (s *Service) Look(ctx context.Context) error {
	now := s.cfg.Clock()
	byAccount := map[string][]*Budget{}
	var accounts []string
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		list, err := load(ctx, tx, `until_at = 0 OR (from_at <= ? AND until_at > ?) ORDER BY account_id, id`, store.Micros(now), store.Micros(now.Add(-lookBack)))
		for _, b := range list {
			if byAccount[b.AccountID] == nil {
				accounts = append(accounts, b.AccountID)
			}
			byAccount[b.AccountID] = append(byAccount[b.AccountID], b)
		}
		return err
	})
	if err != nil {
		return err
	}
	var failed []error
	for _, id := range accounts {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		all, err := s.account(ctx, id, byAccount[id], now)
		for i := range all {
			if err == nil {
				err = s.act(ctx, &all[i], now)
			}
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("budgets of %s: %w", id, err))
		}
	}
	return errors.Join(failed...)
}

// lookAt looks at one budget at once, and returns how it stands in the latest period.
func (s *Service) lookAt(ctx context.Context, b *Budget) (Status, error) {
	now := s.cfg.Clock()
	all, err := s.account(ctx, b.AccountID, []*Budget{b}, now)
	if err != nil {
		return Status{}, err
	}
	for i := range all {
		if err := s.act(ctx, &all[i], now); err != nil {
			return Status{}, err
		}
	}
	return all[len(all)-1], nil
}

// act does what follows from how a budget stands in a period.
func (s *Service) act(ctx context.Context, v *Status, now time.Time) error {
	if now.Before(v.Period.Start) {
		return nil
	}
	current := now.Before(v.Period.End)
	err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		b, err := find(ctx, tx, v.AccountID, v.ID, tx.ForUpdate())
		if err != nil {
			return err // deleted since; nothing is to be told of it
		}
		v.Budget = *b
		if v.Told, err = told(ctx, tx, b.ID, v.Period.Start); err != nil {
			return err
		}
		if err := s.tell(ctx, tx, v, now, current); err != nil {
			return err
		}
		if !current {
			return nil
		}
		var until time.Time
		if v.Spent >= b.Amount {
			until = v.Period.End
		}
		v.Blocks = !until.IsZero() && b.Action != Tell
		if until.Equal(b.blockedUntil) {
			return nil
		}
		_, err = tx.Exec(ctx, `UPDATE budget_budgets SET blocked_until = ? WHERE id = ?`, store.Micros(until), b.ID)
		return err
	})
	if err != nil {
		return fmt.Errorf("budget %s: %w", v.ID, err)
	}
	if !v.Blocks || v.Action != Stop {
		return nil
	}
	// After the commit, and at every look until they have stopped.
	var failed []error
	for _, id := range v.running {
		if err := s.cfg.StopLease(ctx, id); err != nil {
			failed = append(failed, fmt.Errorf("budget %s: stop lease %s: %w", v.ID, id, err))
		}
	}
	return errors.Join(failed...)
}

// tell announces the thresholds that are reached and were not told in the period,
// and forgets those that a raised amount has put out of reach again.
func (s *Service) tell(ctx context.Context, tx *store.Tx, v *Status, now time.Time, current bool) error {
	start := store.Micros(v.Period.Start)
	var kept []Told
	for _, t := range v.Told {
		passed, err := t.Passed(v.Amount, v.Spent, v.Forecast)
		if err != nil {
			return err
		}
		if passed || v.Amount <= t.amount {
			kept = append(kept, t)
			continue
		}
		if _, err := tx.Exec(ctx, `DELETE FROM budget_told WHERE budget_id = ? AND period_start = ? AND basis_points = ? AND forecast = ?`, v.ID, start, t.BasisPoints, bit(t.Forecast)); err != nil {
			return err
		}
	}
	v.Told = kept
	var fired []pricing.Alert
	for _, t := range kept {
		fired = append(fired, t.Alert)
	}
	due, err := pricing.BudgetAlerts(v.Amount, v.Thresholds, v.Spent, v.Forecast, fired)
	if err != nil {
		return err
	}
	for i, a := range due {
		if a.Forecast && !current {
			continue // it is known by now what the period came to
		}
		// News of one subject and moment is told once, so each has a moment of its own.
		at := now.UTC().Truncate(time.Microsecond).Add(time.Duration(i) * time.Microsecond)
		if _, err := tx.Exec(ctx, `INSERT INTO budget_told (budget_id, period_start, basis_points, forecast, amount, told_at) VALUES (?, ?, ?, ?, ?, ?)`,
			v.ID, start, a.BasisPoints, bit(a.Forecast), int64(v.Amount), store.Micros(at)); err != nil {
			return err
		}
		v.Told = append(v.Told, Told{a, at, v.Amount})
		if s.cfg.News == nil {
			continue
		}
		news := notify.BudgetReached{Name: v.Name, Currency: string(v.Currency), Amount: v.Amount, Spent: v.Spent, ShareBasisPoints: a.BasisPoints, From: v.Period.Start, To: v.Period.End}
		if a.Forecast {
			news.Forecast = v.Forecast
		}
		if err := s.cfg.News.Announce(ctx, tx, v.AccountID, notify.KindBudgetReached, v.ID, at, news); err != nil {
			return err
		}
	}
	return nil
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func told(ctx context.Context, tx *store.Tx, budgetID string, start time.Time) ([]Told, error) {
	rows, err := tx.Query(ctx, `SELECT basis_points, forecast, amount, told_at FROM budget_told WHERE budget_id = ? AND period_start = ? ORDER BY told_at`, budgetID, store.Micros(start))
	if err != nil {
		return nil, fmt.Errorf("read what was told: %w", err)
	}
	defer rows.Close()
	var out []Told
	for rows.Next() {
		var t Told
		var forecast, at int64
		if err := rows.Scan(&t.BasisPoints, &forecast, &t.amount, &at); err != nil {
			return nil, fmt.Errorf("read what was told: %w", err)
		}
		t.Forecast, t.At = forecast == 1, store.Time(at)
		out = append(out, t)
	}
	return out, rows.Err()
}

// Show returns how a budget of the caller's account stands now, by its identifier
// or name. It changes nothing.
func (s *Service) Show(ctx context.Context, p account.Principal, nameOrID string) (Status, error) {
	var b *Budget
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		b, err = find(ctx, tx, p.AccountID, nameOrID, "")
		return err
	})
	if err != nil {
		return Status{}, err
	}
	list, err := s.stand(ctx, p.AccountID, []*Budget{b})
	if err != nil {
		return Status{}, err
	}
	return list[0], nil
}

// List returns up to limit budgets of the caller's account with how they stand now,
// in the order in which they were made, that come after the one with an identifier.
func (s *Service) List(ctx context.Context, p account.Principal, after string, limit int) ([]Status, error) {
	var list []*Budget
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		list, err = load(ctx, tx, `account_id = ? AND id > ? ORDER BY id LIMIT ?`, p.AccountID, after, limit)
		return err
	})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return s.stand(ctx, p.AccountID, list)
}

// stand is how budgets of an account stand in their latest periods.
func (s *Service) stand(ctx context.Context, accountID string, list []*Budget) ([]Status, error) {
	now := s.cfg.Clock()
	all, err := s.account(ctx, accountID, list, now)
	if err != nil {
		return nil, err
	}
	var out []Status
	for i := range all {
		if i+1 < len(all) && all[i+1].ID == all[i].ID {
			continue // the period that has ended
		}
		out = append(out, all[i])
	}
	return out, s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		for i := range out {
			v := &out[i]
			if v.Told, err = told(ctx, tx, v.ID, v.Period.Start); err != nil {
				return err
			}
			v.Blocks = v.Action != Tell && v.blockedUntil.After(now)
		}
		return nil
	})
}

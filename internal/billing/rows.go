package billing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// accountRow is an account as billing sees it, locked by whoever has it.
type accountRow struct {
	id          string
	currency    money.Currency
	sequence    int64
	exhaustedAt time.Time
	warned      time.Duration
	graceWarned time.Duration
	credit      money.Amount // the limit in force
	// overdueSince is since when compute is stopped for an invoice, and deletionTold
	// when it was announced that disks will be deleted.
	overdueSince, deletionTold time.Time

	reserves bool      // it has or had reservations
	applied  time.Time // when they were applied last
	dirty    time.Time // from when on use has changed since; zero: it has not
	whole    bool      // all that may be learned late is to be looked at again
}

const selectAccount = `SELECT account_id, currency, sequence, exhausted_at, warned, grace_warned, credit_limit, overdue_since, deletion_told, reserves, applied_at FROM billing_accounts WHERE account_id = ?`

func scanAccount(row interface{ Scan(...any) error }) (*accountRow, error) {
	var a accountRow
	var exhausted, warned, grace, overdue, told, reserves, applied int64
	if err := row.Scan(&a.id, &a.currency, &a.sequence, &exhausted, &warned, &grace, &a.credit, &overdue, &told, &reserves, &applied); err != nil {
		return nil, err
	}
	a.exhaustedAt, a.overdueSince, a.deletionTold = store.Time(exhausted), store.Time(overdue), store.Time(told)
	a.reserves, a.applied = reserves == 1, store.Time(applied)
	a.warned, a.graceWarned = time.Duration(warned)*time.Second, time.Duration(grace)*time.Second
	return &a, nil
}

// lockAccount returns the account's row, locked, and makes it at first use.
func (s *Service) lockAccount(ctx context.Context, tx *store.Tx, accountID string, currency money.Currency) (*accountRow, error) {
	a, err := scanAccount(tx.QueryRow(ctx, selectAccount+tx.ForUpdate(), accountID))
	if errors.Is(err, store.ErrNoRows) {
		if _, err := tx.Exec(ctx, `INSERT INTO billing_accounts (account_id, currency, sequence, exhausted_at, warned, grace_warned) VALUES (?, ?, 0, 0, 0, 0) ON CONFLICT DO NOTHING`,
			accountID, string(currency)); err != nil {
			return nil, fmt.Errorf("open billing account %s: %w", accountID, err)
		}
		a, err = scanAccount(tx.QueryRow(ctx, selectAccount+tx.ForUpdate(), accountID))
	}
	if err != nil {
		return nil, fmt.Errorf("lock billing account %s: %w", accountID, err)
	}
	return a, nil
}

// save writes back what may have changed of a locked account.
func (a *accountRow) save(ctx context.Context, tx *store.Tx) error {
	_, err := tx.Exec(ctx, `UPDATE billing_accounts SET sequence = ?, exhausted_at = ?, warned = ?, grace_warned = ?, overdue_since = ?, deletion_told = ? WHERE account_id = ?`,
		a.sequence, store.Micros(a.exhaustedAt), int64(a.warned/time.Second), int64(a.graceWarned/time.Second), store.Micros(a.overdueSince), store.Micros(a.deletionTold), a.id)
	if err != nil {
		return fmt.Errorf("save billing account %s: %w", a.id, err)
	}
	return nil
}

// interval is one stretch of use of a meter. An open one has no end.
type interval struct {
	meter                pricing.Meter
	number               int64
	askedStart, start    time.Time
	askedEnd, end, limit time.Time
	limitReason          Reason
	resumes              bool // the run before it goes on, after a break that was the host's doing
	evicted              bool // the platform ended it
}

func (i interval) open() bool { return i.end.IsZero() }

// leaseRow is a lease as billing sees it.
type leaseRow struct {
	id, accountID, providerID string
	quote                     pricing.Quote
	simulated                 bool
	cap, hold                 money.Amount
	egressBytes               int64 // that are charged
	egressClaimed             int64 // that the host has claimed
	posted                    postedFor
	measured                  measuredFor // what of its use was told
	confirmed, settled        time.Time
	begun, ended              time.Time
	intervals                 []interval
	rates                     []rate      // of spot, in order
	monthly                   *monthlyRow // nil: nothing is paid in advance
	kept                      bool        // it never runs: see Terms.Kept

	gpuModel, zone string
	gpus           int64
	reserved       *reservedRow       // nil: it is no reservation
	covered        []pricing.Interval // that reservations pay for
}

// openInterval returns the open interval of a meter, or nil.
func (l *leaseRow) openInterval(m pricing.Meter) *interval {
	for i := range l.intervals {
		if l.intervals[i].meter == m && l.intervals[i].open() {
			return &l.intervals[i]
		}
	}
	return nil
}

// postedColumns are the columns with what was posted of each meter, in the order
// of pricing.Meters.
func postedColumns(separator string) string {
	var names []string
	for _, m := range pricing.Meters {
		names = append(names, "posted_"+string(m))
	}
	return strings.Join(names, separator)
}

var selectLease = `SELECT lease_id, account_id, provider_id, quote, simulated, spending_cap, hold, egress_bytes, egress_claimed,
	confirmed_at, settled_at, begun_at, ended_at, gpu_model, zone, gpu_count, repriced, measured_compute, measured_storage, measured_egress, measured_at, kept, ` + postedColumns(", ") + ` FROM billing_leases`

// loadLeases returns the leases that a WHERE clause selects, with their
// intervals. A lease whose quote cannot be read is logged and left out: it must
// not stop the billing of the others.
func (s *Service) loadLeases(ctx context.Context, tx *store.Tx, where string, args ...any) ([]*leaseRow, error) {
	rows, err := tx.Query(ctx, selectLease+` WHERE `+where+` ORDER BY lease_id`, args...)
	if err != nil {
		return nil, fmt.Errorf("load leases: %w", err)
	}
	defer rows.Close()
	var out, repriced []*leaseRow
	byID := map[string]*leaseRow{}
	for rows.Next() {
		var l leaseRow
		var quote []byte
		var simulated, confirmed, settled, begun, ended, agreed, measured, kept int64
		var posted [len(pricing.Meters)]money.Amount
		into := []any{&l.id, &l.accountID, &l.providerID, &quote, &simulated, &l.cap, &l.hold, &l.egressBytes, &l.egressClaimed, &confirmed, &settled, &begun, &ended, &l.gpuModel, &l.zone, &l.gpus, &agreed,
			&l.measured.totals[0], &l.measured.totals[1], &l.measured.totals[2], &measured, &kept}
		for i := range posted {
			into = append(into, &posted[i])
		}
		if err := rows.Scan(into...); err != nil {
			return nil, fmt.Errorf("load leases: %w", err)
		}
		if cached, ok := s.quotes.Load(l.id); ok {
			l.quote = cached.(pricing.Quote)
		} else if err := json.Unmarshal(quote, &l.quote); err != nil {
			s.cfg.Log.ErrorContext(ctx, "a lease's quote cannot be read; the lease is not billed", "lease", l.id, "error", err)
			continue
		} else if ended == 0 {
			s.quotes.Store(l.id, l.quote)
		}
		l.simulated, l.kept = simulated != 0, kept != 0
		l.posted = postedFor{}
		for i, m := range pricing.Meters {
			l.posted[m] = posted[i]
		}
		l.confirmed, l.settled = store.Time(confirmed), store.Time(settled)
		l.measured.at = store.Time(measured)
		l.begun, l.ended = store.Time(begun), store.Time(ended)
		if agreed != 0 {
			repriced = append(repriced, &l)
		}
		out = append(out, &l)
		byID[l.id] = &l
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("load leases: %w", err)
	}
	rows.Close()
	if len(out) == 0 {
		return nil, nil
	}
	marks, err := tx.Query(ctx, `SELECT lease_id, meter, number, asked_start, start_at, asked_end, end_at, limit_at, limit_reason, resumes, evicted FROM billing_intervals
		WHERE lease_id IN (SELECT lease_id FROM billing_leases WHERE `+where+`) ORDER BY lease_id, meter, number`, args...)
	if err != nil {
		return nil, fmt.Errorf("load intervals: %w", err)
	}
	defer marks.Close()
	for marks.Next() {
		var id string
		var i interval
		var askedStart, start, askedEnd, end, limit, resumes, evicted int64
		if err := marks.Scan(&id, &i.meter, &i.number, &askedStart, &start, &askedEnd, &end, &limit, &i.limitReason, &resumes, &evicted); err != nil {
			return nil, fmt.Errorf("load intervals: %w", err)
		}
		i.askedStart, i.start = store.Time(askedStart), store.Time(start)
		i.askedEnd, i.end, i.limit = store.Time(askedEnd), store.Time(end), store.Time(limit)
		i.resumes, i.evicted = resumes == 1, evicted == 1
		if l := byID[id]; l != nil {
			l.intervals = append(l.intervals, i)
		}
	}
	if err := marks.Err(); err != nil {
		return nil, fmt.Errorf("load intervals: %w", err)
	}
	marks.Close()
	if err := loadRates(ctx, tx, byID); err != nil {
		return nil, err
	}
	if err := loadAgreed(ctx, tx, repriced); err != nil {
		return nil, err
	}
	if err := loadReserved(ctx, tx, byID, where, args); err != nil {
		return nil, err
	}
	return out, s.loadMonthly(ctx, tx, out)
}

func (s *Service) openLeases(ctx context.Context, tx *store.Tx, accountID string) ([]*leaseRow, error) {
	return s.loadLeases(ctx, tx, `account_id = ? AND ended_at = 0`, accountID)
}

func (s *Service) lease(ctx context.Context, tx *store.Tx, leaseID string) (*leaseRow, error) {
	ls, err := s.loadLeases(ctx, tx, `lease_id = ?`, leaseID)
	if err != nil {
		return nil, err
	}
	if len(ls) == 0 {
		return nil, noLease(leaseID)
	}
	return ls[0], nil
}

func noLease(leaseID string) error {
	return fault.New(fault.NotFound, "lease_not_found", "there is no bill for lease %q", leaseID)
}

// lockPayer locks the account that pays for a lease.
func (s *Service) lockPayer(ctx context.Context, tx *store.Tx, leaseID string) (*accountRow, error) {
	var accountID string
	err := tx.QueryRow(ctx, `SELECT account_id FROM billing_leases WHERE lease_id = ?`, leaseID).Scan(&accountID)
	if errors.Is(err, store.ErrNoRows) {
		return nil, noLease(leaseID)
	}
	if err != nil {
		return nil, fmt.Errorf("find lease %s: %w", leaseID, err)
	}
	return s.lockAccount(ctx, tx, accountID, "")
}

// lockOne locks the account that pays for a lease, and returns both.
func (s *Service) lockOne(ctx context.Context, tx *store.Tx, leaseID string) (*accountRow, *leaseRow, error) {
	a, err := s.lockPayer(ctx, tx, leaseID)
	if err != nil {
		return nil, nil, err
	}
	l, err := s.lease(ctx, tx, leaseID)
	return a, l, err
}

// lockLease locks the account that pays for a lease and returns it with all of
// its open leases, and the lease itself, which may have ended.
func (s *Service) lockLease(ctx context.Context, tx *store.Tx, leaseID string) (*accountRow, []*leaseRow, *leaseRow, error) {
	a, err := s.lockPayer(ctx, tx, leaseID)
	if err != nil {
		return nil, nil, nil, err
	}
	open, err := s.openLeases(ctx, tx, a.id)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, l := range open {
		if l.id == leaseID {
			return a, open, l, nil
		}
	}
	l, err := s.lease(ctx, tx, leaseID)
	return a, open, l, err
}

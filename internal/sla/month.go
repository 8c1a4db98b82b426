package sla

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// The codes of sla's transfers.
const (
	CodeCredit   = "sla_credit"
	CodeClawback = "sla_clawback"
	CodePenalty  = "penalty"
)

// monthRow is what was posted for a lease's month.
type monthRow struct {
	credit, clawback, penalty money.Amount
	taken                     money.Amount // of the provider, where it is paid in another currency
	postings                  int64
	closedAt                  time.Time
}

func readMonth(ctx context.Context, tx *store.Tx, leaseID, month, lock string) (*monthRow, error) {
	var m monthRow
	var closed int64
	err := tx.QueryRow(ctx, `SELECT credit, clawback, penalty, taken, postings, closed_at FROM sla_months WHERE lease_id = ? AND month = ?`+lock, leaseID, month).
		Scan(&m.credit, &m.clawback, &m.penalty, &m.taken, &m.postings, &closed)
	if errors.Is(err, store.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s of lease %s: %w", month, leaseID, err)
	}
	m.closedAt = store.Time(closed)
	return &m, nil
}

// CloseMonths closes, of every lease that had an outage, the months that are over
// for closeAfter and are not closed yet. It may be repeated, by several replicas.
func (s *Service) CloseMonths(ctx context.Context) error {
	now := s.cfg.Clock()
	// The months of all zones that can be due and have not been looked at: the last
	// three are, so that a cloud that was away makes them good.
	ids, err := s.cfg.Leases.Troubled(ctx, now.AddDate(0, -4, 0), now)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range ids {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// One lease that cannot be measured must not keep the others' credits back.
		if err := s.closeLease(ctx, id, now); err != nil {
			errs = append(errs, fmt.Errorf("close months of lease %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

func (s *Service) closeLease(ctx context.Context, id string, now time.Time) error {
	l, history, err := s.cfg.Leases.Record(ctx, id)
	if err != nil {
		return err
	}
	months, err := monthsOf(l, history, now)
	if err != nil {
		return err
	}
	for _, month := range months {
		if month.End.Add(closeAfter).After(now) {
			continue
		}
		if err := s.close(ctx, l, month.Start, false); err != nil {
			return err
		}
	}
	return nil
}

// monthsOf returns the beginnings of those of the last months in which a lease had
// an outage, newest first.
func monthsOf(l *lease.Lease, history []lease.Change, now time.Time) ([]pricing.Period, error) {
	var out []pricing.Period
	at := now
	for range 4 {
		month, err := pricing.MonthOf(at, l.Price.TimeZone)
		if err != nil {
			return nil, err
		}
		for _, o := range lease.Outages(history) {
			if o.From.Before(month.End) && month.Start.Before(until(o.Until, now)) {
				out = append(out, month)
				break
			}
		}
		at = month.Start.Add(-time.Hour)
	}
	return out, nil
}

// close posts what a month still has to give and to take. Without again, a month
// that is closed stays as it is.
func (s *Service) close(ctx context.Context, l *lease.Lease, at time.Time, again bool) error {
	f, err := s.gather(ctx, l.ID, at)
	if err != nil {
		return err
	}
	return s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		r, err := s.measure(ctx, tx, f)
		if err != nil {
			return err
		}
		now := s.cfg.Clock()
		if _, err := tx.Exec(ctx, `INSERT INTO sla_months (lease_id, month, account_id, provider_id, currency, simulated, report, credit, clawback, penalty, postings, closed_at)
			VALUES (?, ?, ?, ?, ?, ?, '', 0, 0, 0, 0, 0) ON CONFLICT DO NOTHING`, l.ID, r.Month, r.AccountID, r.ProviderID, string(r.Currency), bit(r.Simulated)); err != nil {
			return err
		}
		m, err := readMonth(ctx, tx, l.ID, r.Month, tx.ForUpdate())
		if err != nil {
			return err
		}
		if m == nil {
			return fmt.Errorf("%s of lease %s is not there after it was written", r.Month, l.ID)
		}
		if !m.closedAt.IsZero() && !again {
			return nil
		}
		if err := s.post(ctx, tx, r, m); err != nil {
			return err
		}
		report, err := json.Marshal(r)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE sla_months SET report = ?, credit = ?, clawback = ?, penalty = ?, taken = ?, taken_currency = ?, postings = ?, closed_at = ? WHERE lease_id = ? AND month = ?`,
			string(report), int64(m.credit), int64(m.clawback), int64(m.penalty), int64(m.taken), string(r.ExchangedCurrency), m.postings, store.Micros(now), l.ID, r.Month)
		return err
	})
}

// post posts the differences to what is posted. What was given stays given.
func (s *Service) post(ctx context.Context, tx *store.Tx, r Report, m *monthRow) error {
	taken := min(r.Penalty.ClawBack, r.Penalty.Total)
	var batch []ledger.Transfer
	move := func(code, from, to string, posted *money.Amount, due money.Amount) {
		if due <= *posted {
			return
		}
		batch = append(batch, ledger.Transfer{
			Key:   ledger.Key(r.Availability.Month.End, code, r.LeaseID, strconv.FormatInt(m.postings, 10)),
			Debit: from, Credit: to, Amount: due - *posted, Currency: r.Currency, Code: code, Reference: r.LeaseID, EffectiveAt: s.cfg.Clock(),
		})
		*posted = due
	}
	payee := ledger.Payable(r.ProviderID)
	if r.ExchangedCurrency != "" {
		payee = ledger.Exchange
	}
	move(CodeCredit, ledger.Commission, ledger.Wallet(r.AccountID), &m.credit, r.Credit)
	move(CodeClawback, payee, ledger.Commission, &m.clawback, taken)
	move(CodePenalty, payee, ledger.Commission, &m.penalty, r.Penalty.Total-taken)
	if len(batch) == 0 {
		return nil
	}
	if r.ExchangedCurrency != "" && r.Share > 0 {
		// In the proportion in which its part of the charges was exchanged.
		theirs, err := pricing.Allocate(max(0, r.Exchanged), []int64{int64(m.clawback + m.penalty), int64(max(0, r.Share-m.clawback-m.penalty))})
		if err != nil {
			return err
		}
		if theirs[0] > m.taken {
			batch = append(batch, ledger.Transfer{
				Key:   ledger.Key(r.Availability.Month.End, "taken", r.LeaseID, strconv.FormatInt(m.postings, 10)),
				Debit: ledger.Payable(r.ProviderID), Credit: ledger.Exchange, Amount: theirs[0] - m.taken, Currency: r.ExchangedCurrency, Code: CodePenalty, Reference: r.LeaseID, EffectiveAt: s.cfg.Clock(),
			})
			m.taken = theirs[0]
		}
	}
	m.postings++
	return s.cfg.Money.Give(ctx, tx, r.AccountID, r.Currency, batch...)
}

// Confirm is an operator's word that an outage which only a probe inside of the
// instance saw was real: it counts from then on, also in a month that is closed.
// from is when the outage began. The same again changes nothing.
func (s *Service) Confirm(ctx context.Context, p account.Principal, leaseID string, from time.Time, note string) (Report, error) {
	if !p.May(account.Operate) {
		return Report{}, fault.New(fault.Forbidden, "forbidden", "only an operator can confirm outages")
	}
	if len(note) > 500 {
		return Report{}, fault.New(fault.Invalid, "text_too_long", "want a note of at most 500 bytes").At("body.note")
	}
	l, history, err := s.cfg.Leases.Record(ctx, leaseID)
	if err != nil {
		return Report{}, err
	}
	var found *lease.Outage
	var known []string
	for _, o := range lease.Outages(history) {
		if o.Code != lease.CodeGPUsRefused {
			continue
		}
		known = append(known, o.From.Format(time.RFC3339Nano))
		if o.From.Truncate(time.Second).Equal(from.Truncate(time.Second)) {
			found = &o
			break
		}
	}
	if found == nil {
		return Report{}, fault.New(fault.NotFound, "outage_not_found", "lease %s has no outage to confirm that began at %s; those that wait for it began at: %s",
			leaseID, from.Format(time.RFC3339), strings.Join(known, ", "))
	}
	now := s.cfg.Clock()
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Exec(ctx, `INSERT INTO sla_confirmations (lease_id, outage_from, confirmed_by, note, confirmed_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			leaseID, store.Micros(found.From), p.UserID, note, store.Micros(now))
		if err != nil || n == 0 {
			return err
		}
		return s.cfg.Audit(ctx, tx, p, "sla.confirm", leaseID, map[string]string{"from": found.From.Format(time.RFC3339), "note": note})
	})
	if err != nil {
		return Report{}, fmt.Errorf("confirm an outage of lease %s: %w", leaseID, err)
	}
	// What a month that is closed has to give more is given at once; a crash before
	// it is made good when the same is confirmed again.
	months, err := monthsOf(l, history, now)
	if err != nil {
		return Report{}, err
	}
	for _, month := range months {
		if !month.End.Add(closeAfter).After(now) && found.From.Before(month.End) && month.Start.Before(until(found.Until, now)) {
			if err := s.close(ctx, l, month.Start, true); err != nil {
				return Report{}, err
			}
		}
	}
	zone, err := time.LoadLocation(l.Price.TimeZone)
	if err != nil {
		return Report{}, fmt.Errorf("zone of lease %s: %w", leaseID, err)
	}
	return s.Report(ctx, p, leaseID, found.From.In(zone).Format("2006-01"))
}

func confirmations(ctx context.Context, tx *store.Tx, leaseID string) (map[int64]bool, error) {
	rows, err := tx.Query(ctx, `SELECT outage_from FROM sla_confirmations WHERE lease_id = ?`, leaseID)
	if err != nil {
		return nil, fmt.Errorf("read confirmations: %w", err)
	}
	defer rows.Close()
	out := map[int64]bool{}
	for rows.Next() {
		var at int64
		if err := rows.Scan(&at); err != nil {
			return nil, fmt.Errorf("read confirmations: %w", err)
		}
		out[at] = true
	}
	return out, rows.Err()
}

// Months lists up to limit closed months of an account's leases that had an
// outage, newest first, that come after the cursor of another; empty: from the
// newest.
func (s *Service) Months(ctx context.Context, accountID, cursor string, limit int) ([]Month, error) {
	month, id, _ := strings.Cut(cursor, "/")
	if cursor == "" {
		month, id = "~", "~" // sorts after every month
	}
	var out []Month
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT lease_id, month, currency, simulated, report, credit, closed_at FROM sla_months
			WHERE account_id = ? AND closed_at <> 0 AND (month < ? OR (month = ? AND lease_id < ?)) ORDER BY month DESC, lease_id DESC LIMIT ?`, accountID, month, month, id, limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var m Month
			var simulated, closed int64
			var report string
			if err := rows.Scan(&m.LeaseID, &m.Month, &m.Currency, &simulated, &report, &m.Credit, &closed); err != nil {
				return err
			}
			var r Report
			if err := json.Unmarshal([]byte(report), &r); err != nil {
				return fmt.Errorf("report of lease %s: %w", m.LeaseID, err)
			}
			m.Simulated, m.ClosedAt = simulated != 0, store.Time(closed)
			m.AvailabilityPM, m.DownSeconds = r.Availability.PPM, r.Availability.DownSeconds
			out = append(out, m)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("service levels of %s: %w", accountID, err)
	}
	return out, nil
}

// Cursor is a month's place in the list.
func (m Month) Cursor() string { return m.Month + "/" + m.LeaseID }

// Taken returns what was taken from a provider for faults of its hosts, less than
// 0, in one currency and without simulated hardware.
func (s *Service) Taken(ctx context.Context, tx *store.Tx, providerID string, currency money.Currency) ([]pricing.Earning, error) {
	rows, err := tx.Query(ctx, `SELECT lease_id, CASE WHEN taken_currency = '' THEN clawback + penalty ELSE taken END, closed_at FROM sla_months
		WHERE provider_id = ? AND CASE WHEN taken_currency = '' THEN currency ELSE taken_currency END = ? AND simulated = 0 AND clawback + penalty > 0 ORDER BY lease_id, month`, providerID, string(currency))
	if err != nil {
		return nil, fmt.Errorf("what was taken from %s: %w", providerID, err)
	}
	defer rows.Close()
	var out []pricing.Earning
	for rows.Next() {
		var e pricing.Earning
		var closed int64
		if err := rows.Scan(&e.Reference, &e.Amount, &closed); err != nil {
			return nil, fmt.Errorf("what was taken from %s: %w", providerID, err)
		}
		e.Amount, e.At = -e.Amount, store.Time(closed)
		out = append(out, e)
	}
	return out, rows.Err()
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

package billing

import (
	"context"
	"fmt"
	"time"

	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

// Announcer tells an account's people of something, if the transaction commits.
// at is when it happened or, of what is planned, when it will.
type Announcer interface {
	Announce(ctx context.Context, tx *store.Tx, accountID, kind, subject string, at time.Time, data any) error
}

// The kinds of announcements.
const (
	BalanceLow      = "balance.low"
	BalanceEmpty    = "balance.exhausted"
	LeaseStopped    = "lease.stopped_for_balance"
	DeletionPlanned = "storage.deletion_planned"
	DiskDeleted     = "storage.deleted"
	InvoiceIsDue    = "invoice.due"
	InvoiceIsLate   = "invoice.overdue"
)

// MoneyNotice is the data of announcements about an account's money.
type MoneyNotice struct {
	Reason      Reason         `json:"reason"` // balance, or invoice_overdue
	Currency    money.Currency `json:"currency"`
	Balance     money.Amount   `json:"balance"` // by what is posted; negative: debt
	CreditLimit money.Amount   `json:"credit_limit"`
	StopAt      time.Time      `json:"stop_at,omitzero"`      // when compute stops, if nothing is paid
	DeleteAt    time.Time      `json:"delete_at,omitzero"`    // when disks are deleted, if nothing is paid
	LeftSeconds int64          `json:"left_seconds,omitzero"` // the mark that was passed
}

// InvoiceNotice is the data of announcements about an invoice.
type InvoiceNotice struct {
	InvoiceID string         `json:"invoice_id"`
	Number    string         `json:"number"`
	Currency  money.Currency `json:"currency"`
	Total     money.Amount   `json:"total"`
	Owed      money.Amount   `json:"owed"`
	DueAt     time.Time      `json:"due_at"`
	StopAt    time.Time      `json:"stop_at,omitzero"` // when compute stops, if nothing is paid
	Stopped   bool           `json:"stopped,omitzero"` // compute is stopped
}

func (s *Service) announce(ctx context.Context, tx *store.Tx, accountID, kind, subject string, at time.Time, data any) error {
	if s.cfg.Announcer == nil {
		return nil
	}
	if err := s.cfg.Announcer.Announce(ctx, tx, accountID, kind, subject, at, data); err != nil {
		return fmt.Errorf("announce %s of %s: %w", kind, subject, err)
	}
	return nil
}

// announceMoney announces something about an account's money.
func (s *Service) announceMoney(ctx context.Context, tx *store.Tx, a *accountRow, kind, subject string, at time.Time, n MoneyNotice) error {
	if s.cfg.Announcer == nil {
		return nil // and the balance is not asked for in vain
	}
	var err error
	for _, path := range []string{ledger.Wallet(a.id), ledger.Hold(a.id), ledger.Receivable(a.id)} {
		var part money.Amount
		if part, err = s.cfg.Ledger.Balance(ctx, tx, path, a.currency); err != nil {
			return err
		}
		n.Balance += part
	}
	n.Currency, n.CreditLimit = a.currency, a.credit
	return s.announce(ctx, tx, a.id, kind, subject, at, n)
}

// stoppedSince is since when an account's disks are kept unpaid: from when its
// money ran out, or its compute was stopped for an invoice; zero: they are not.
func (a *accountRow) stoppedSince() time.Time { return earliest(a.exhaustedAt, a.overdueSince) }

// stoppedFor is why.
func (a *accountRow) stoppedFor() Reason {
	if !a.overdueSince.IsZero() && (a.exhaustedAt.IsZero() || a.overdueSince.Before(a.exhaustedAt)) {
		return ReasonOverdue
	}
	return ReasonBalance
}

// deletionAt is when an account's disks are deleted; zero: they are not.
func (s *Service) deletionAt(a *accountRow, now time.Time) time.Time {
	since := a.stoppedSince()
	if since.IsZero() {
		return time.Time{}
	}
	told := a.deletionTold
	if told.IsZero() {
		told = now
	}
	return s.cfg.Dunning.DeletionAt(since, told)
}

// paidAgain forgets what was said about the deletion of disks once nothing stands
// for it any more.
func (a *accountRow) paidAgain() {
	if a.stoppedSince().IsZero() {
		a.graceWarned, a.deletionTold = 0, time.Time{}
	}
}

// announceWarnings announces what an account is warned of.
func (s *Service) announceWarnings(ctx context.Context, tx *store.Tx, a *accountRow, warnings []Warning) error {
	for _, w := range warnings {
		n := MoneyNotice{Reason: ReasonBalance, LeftSeconds: int64(w.Left / time.Second)}
		kind := BalanceLow
		switch w.Kind {
		case WarnBalance:
			n.StopAt = w.Until
		case WarnGrace:
			kind, n.Reason, n.DeleteAt = DeletionPlanned, a.stoppedFor(), w.Until
		default:
			continue // months have their own
		}
		if err := s.announceMoney(ctx, tx, a, kind, a.id, w.Until, n); err != nil {
			return err
		}
	}
	return nil
}

// orderDeletion notes that a lease's disk is being deleted because nobody paid.
func (s *Service) orderDeletion(ctx context.Context, tx *store.Tx, l *leaseRow, now time.Time) error {
	if _, err := tx.Exec(ctx, `INSERT INTO billing_deletions (lease_id, ordered_at) VALUES (?, ?) ON CONFLICT DO NOTHING`, l.id, store.Micros(now)); err != nil {
		return fmt.Errorf("delete the disk of lease %s: %w", l.id, err)
	}
	return nil
}

// deleted announces that a lease's disk is gone, if that was because nobody paid.
func (s *Service) deleted(ctx context.Context, tx *store.Tx, a *accountRow, l *leaseRow, now time.Time) error {
	if s.cfg.Announcer == nil {
		return nil
	}
	var n int64
	if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM billing_deletions WHERE lease_id = ?`, l.id).Scan(&n); err != nil {
		return fmt.Errorf("end lease %s: %w", l.id, err)
	}
	if n == 0 {
		return nil
	}
	return s.announceMoney(ctx, tx, a, DiskDeleted, l.id, now, MoneyNotice{Reason: a.stoppedFor()})
}

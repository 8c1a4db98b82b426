package billing

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"suanli.dev/internal/notify"
	"suanli.dev/internal/store"
)

// News is what billing needs of notify.
type News interface {
	// Announce tells an account in tx what happened, once.
	Announce(ctx context.Context, tx *store.Tx, accountID, kind, subject string, at time.Time, data any) error
}

// announceWarnings tells an account what of its money, patience or months runs out,
// in the transaction that notes that it was told.
func (s *Service) announceWarnings(ctx context.Context, tx *store.Tx, a *accountRow, leases []*leaseRow, o outlook, list []Warning, now time.Time) error {
	if s.cfg.News == nil {
		return nil
	}
	for _, w := range list {
		var err error
		left := int64(w.Left / time.Second)
		switch w.Kind {
		case WarnBalance:
			err = s.cfg.News.Announce(ctx, tx, a.id, notify.KindBalanceLow, a.id, now,
				notify.BalanceLow{Currency: string(a.currency), Funds: o.funds, BurnPerHour: o.burn, Until: w.Until.UTC(), ThresholdSeconds: left})
		case WarnGrace:
			err = s.cfg.News.Announce(ctx, tx, a.id, notify.KindDeletionPlanned, a.id, now, notify.DeletionPlanned{DeleteAt: w.Until.UTC(), ThresholdSeconds: left})
		case WarnTerm, WarnRenewal:
			n := notify.ReservationEnding{Name: w.LeaseID, Until: w.Until.UTC(), Renews: w.Kind == WarnRenewal, MoneyMissing: w.Kind == WarnRenewal, Currency: string(a.currency), ThresholdSeconds: left}
			for _, l := range leases {
				if l.id != w.LeaseID || l.monthly == nil {
					continue
				}
				n.Simulated = l.simulated
				if n.Renews {
					if _, _, n.NextPrice, err = l.monthly.next(); err != nil {
						return err
					}
				}
			}
			err = s.cfg.News.Announce(ctx, tx, a.id, notify.KindReservationEnding, w.LeaseID, now, n)
		}
		if err != nil {
			return fmt.Errorf("warn %s: %w", a.id, err)
		}
	}
	return nil
}

// announceExhausted tells an account that its money has ended.
func (s *Service) announceExhausted(ctx context.Context, tx *store.Tx, a *accountRow, now time.Time) error {
	if s.cfg.News == nil {
		return nil
	}
	_, _, debt, err := s.funds(ctx, tx, a.id, a.currency)
	if err != nil {
		return err
	}
	return s.cfg.News.Announce(ctx, tx, a.id, notify.KindBalanceExhausted, a.id, a.exhaustedAt,
		notify.BalanceExhausted{Currency: string(a.currency), Debt: -debt, DeleteAt: s.deletionAt(a, now).UTC()})
}

// announceInvoice tells an account that a month was closed.
func (s *Service) announceInvoice(ctx context.Context, tx *store.Tx, doc Invoice) error {
	if s.cfg.News == nil {
		return nil
	}
	return s.cfg.News.Announce(ctx, tx, doc.AccountID, notify.KindInvoiceIssued, doc.ID, doc.IssuedAt, notify.InvoiceNews{
		Number: doc.Number, Currency: string(doc.Currency), Total: doc.Total, From: doc.Start.UTC(), To: doc.End.UTC(), Simulated: doc.Simulated})
}

// announceDue tells an account that an invoice is to be paid, or was to be; stopAt
// is when compute stops for it, stopped that it has.
func (s *Service) announceDue(ctx context.Context, tx *store.Tx, a *accountRow, d due, now, stopAt time.Time, stopped bool) error {
	if s.cfg.News == nil {
		return nil
	}
	n := notify.InvoiceNews{Number: d.name(), Currency: string(a.currency), Total: d.Total, Open: d.Owed, ComputeStopped: stopped}
	dueAt := d.DueAt.UTC()
	n.DueAt = &dueAt
	if !stopAt.IsZero() {
		stopAt = stopAt.UTC()
		n.StopAt = &stopAt
	}
	var document []byte
	if err := tx.QueryRow(ctx, `SELECT document FROM billing_invoices WHERE id = ?`, d.invoiceID).Scan(&document); err != nil {
		return fmt.Errorf("announce invoice %s: %w", d.name(), err)
	}
	var doc Invoice
	if err := json.Unmarshal(document, &doc); err != nil {
		return fmt.Errorf("announce invoice %s: %w", d.name(), err)
	}
	n.From, n.To, n.Simulated = doc.Start.UTC(), doc.End.UTC(), doc.Simulated
	kind := notify.KindInvoiceDue
	if !now.Before(d.DueAt) {
		kind = notify.KindInvoiceOverdue
	}
	return s.cfg.News.Announce(ctx, tx, a.id, kind, d.invoiceID, now, n)
}

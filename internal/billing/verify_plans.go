package billing

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// verifyTerms compares what was agreed for each reservation with its quote and with
// what was paid for it.
func (s *Service) verifyTerms(ctx context.Context, tx *store.Tx, r *Report) error {
	for last := ""; ; {
		list, err := s.loadLeases(ctx, tx, `lease_id IN (SELECT lease_id FROM billing_reserved WHERE lease_id > ? ORDER BY lease_id LIMIT ?)`, last, leasesAtOnce)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, l := range list {
			last = l.id
			if l.reserved == nil {
				r.wrong(l.id, "there are terms of a reservation for it, and by its quote it is none")
				continue
			}
			t := l.reserved.terms
			_, until := window(t)
			if want := t.Hourly * money.Rate(t.GPUs); want != l.quote.Tariff.Compute || t.GPUs != l.gpus || t.GPUModel != l.gpuModel {
				r.wrong(l.id, "the reservation is of %d × %s at %s an hour in all, and by its quote it is of %d × %s at %s", t.GPUs, t.GPUModel, want, l.gpus, l.gpuModel, l.quote.Tariff.Compute)
			}
			if paid := l.paid(PaidUpfront); paid != t.UpfrontDue {
				r.wrong(l.id, "%s was paid upfront for the reservation, and by its terms it is %s", paid, t.UpfrontDue)
			}
			for _, p := range l.reserved.payments {
				if p.Kind == PaidEarly && !l.reserved.end.Equal(p.From) && !l.reserved.end.Equal(p.Until) {
					r.wrong(l.id, "the reservation is said to end at %s, and it was ended early as of %s", l.reserved.end, p.Until)
				}
			}
			if l.reserved.end.After(until) {
				r.wrong(l.id, "the reservation is said to end at %s, and by its terms it ends at %s", l.reserved.end, until)
			}
		}
	}
}

// verifyGiven compares grants with the transfers by which they were given, and what
// they paid for with what they are for.
func (s *Service) verifyGiven(ctx context.Context, tx *store.Tx, r *Report) error {
	list, err := s.loadGrants(ctx, tx, `id <> ''`)
	if err != nil {
		return err
	}
	byID := map[string]*Grant{}
	for _, g := range list {
		byID[g.ID] = g
	}
	given := map[string]bool{}
	for last := ""; ; {
		page, err := s.cfg.Ledger.OfCode(ctx, tx, CodeGrant, last, leasesAtOnce)
		if err != nil {
			return err
		}
		for _, t := range page {
			last = t.ID
			g := byID[t.Reference]
			if g == nil {
				r.wrong(t.ID, "it gave the grant %s, which is not there", t.Reference)
				continue
			}
			given[g.ID] = true
			if g.Amount != t.Amount || ledger.Grant(g.AccountID) != t.Credit {
				r.wrong(g.ID, "the grant is of %s for %s, and %s was given to %s", g.Amount, g.AccountID, t.Amount, t.Credit)
			}
		}
		if len(page) == 0 {
			break
		}
	}
	for _, g := range list {
		if !given[g.ID] {
			r.wrong(g.ID, "no transfer gave the grant")
		}
	}
	rows, err := tx.Query(ctx, `SELECT d.grant_id, d.lease_id, d.meter, l.account_id, l.gpu_model FROM billing_draws d JOIN billing_leases l ON l.lease_id = d.lease_id WHERE d.amount > 0 ORDER BY d.grant_id, d.lease_id, d.meter`)
	if err != nil {
		return fmt.Errorf("read what grants paid: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, lease, payer, model string
		var m pricing.Meter
		if err := rows.Scan(&id, &lease, &m, &payer, &model); err != nil {
			return fmt.Errorf("read what grants paid: %w", err)
		}
		g := byID[id]
		if g == nil {
			continue // which the database does not allow
		}
		if len(g.Meters) > 0 && !slices.Contains(g.Meters, m) {
			r.wrong(id, "the grant paid for %s of lease %s, and it is for %v alone", m, lease, g.Meters)
		}
		if g.GPUModel != "" && g.GPUModel != model {
			r.wrong(id, "the grant paid for lease %s of %q, and it is for leases of %s alone", lease, model, g.GPUModel)
		}
		if g.AccountID != payer {
			r.wrong(id, "the grant of %s paid for lease %s of %s", g.AccountID, lease, payer)
		}
	}
	return rows.Err()
}

// verifyOwed compares what is due of each invoice with its number and account, and
// what was written off with its transfers.
func (s *Service) verifyOwed(ctx context.Context, tx *store.Tx, r *Report) error {
	rows, err := tx.Query(ctx, `SELECT i.number, i.account_id, i.document, d.number, d.account_id FROM billing_invoices i LEFT JOIN billing_dues d ON d.invoice_id = i.id WHERE i.series = ? ORDER BY i.number`, invoiceSeries)
	if err != nil {
		return fmt.Errorf("read dues: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var number int64
		var account string
		var text []byte
		var filed *int64
		var owes *string
		if err := rows.Scan(&number, &account, &text, &filed, &owes); err != nil {
			return fmt.Errorf("read dues: %w", err)
		}
		name := seriesRow{invoiceSeries, number, ""}.number()
		var v Invoice
		switch {
		case json.Unmarshal(text, &v) != nil:
			// which is named already
		case filed == nil:
			if !v.DueAt.IsZero() { // older ones are made due later
				r.wrong(name, "it says that it is due at %s, and that is not kept", v.DueAt)
			}
		case *filed != number || *owes != account:
			r.wrong(name, "what is due of it is kept under number %d of account %s, and it is of %s", *filed, *owes, account)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read dues: %w", err)
	}
	rows.Close()
	return s.verifyWrittenOff(ctx, tx, r)
}

func (s *Service) verifyWrittenOff(ctx context.Context, tx *store.Tx, r *Report) error {
	moved := map[string]money.Amount{}
	for last := ""; ; {
		page, err := s.cfg.Ledger.OfCode(ctx, tx, CodeWriteOff, last, leasesAtOnce)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for _, t := range page {
			last = t.ID
			moved[t.Reference] += t.Amount
		}
	}
	rows, err := tx.Query(ctx, `SELECT invoice_id, number, written_off FROM billing_dues ORDER BY number`)
	if err != nil {
		return fmt.Errorf("read dues: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var d due
		if err := rows.Scan(&d.invoiceID, &d.number, &d.WrittenOff); err != nil {
			return fmt.Errorf("read dues: %w", err)
		}
		if moved[d.invoiceID] != d.WrittenOff {
			r.wrong(d.name(), "%s of it was written off, and %s by its transfers", d.WrittenOff, moved[d.invoiceID])
		}
	}
	return rows.Err()
}

// verifyLimited names accounts with a credit limit that nobody set.
func (s *Service) verifyLimited(ctx context.Context, tx *store.Tx, r *Report) error {
	rows, err := tx.Query(ctx, `SELECT account_id, credit_limit FROM billing_accounts WHERE credit_limit <> 0 AND account_id NOT IN (SELECT account_id FROM billing_credit_limits) ORDER BY account_id`)
	if err != nil {
		return fmt.Errorf("read credit limits: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var limit money.Amount
		if err := rows.Scan(&id, &limit); err != nil {
			return fmt.Errorf("read credit limits: %w", err)
		}
		r.wrong(id, "its credit limit is %s, and none was ever set", limit)
	}
	return rows.Err()
}

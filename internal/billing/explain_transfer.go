package billing

import (
	"context"
	"strconv"

	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

// A transfer is recomputed with those that were posted with it for the same thing:
// all of them must come to what is stored of that. What they differ by is what its
// explanation does not come to.

// explainPaying says which charges a transfer paid.
func (s *Service) explainPaying(ctx context.Context, tx *store.Tx, e *Explanation, t ledger.Transfer) error {
	e.LeaseID = t.Reference
	all, err := charges(ctx, tx, `lease_id = ? ORDER BY id`, t.Reference)
	if err != nil || len(all) == 0 {
		return err
	}
	l, err := s.lease(ctx, tx, t.Reference)
	if err != nil {
		return err
	}
	prepaid := prepaidCharges(l, all)
	advance := t.Code == CodePrepayment || t.Code == CodeUnusedPaid
	var paid []chargeRow
	for i, c := range all {
		_, is := prepaid[c.ID]
		switch {
		case is != advance:
		case !advance && c.To.Equal(t.EffectiveAt):
			paid = append(paid, c)
		case advance && written(c.ID) < written(t.ID) && (i+1 == len(all) || written(t.ID) < written(all[i+1].ID)):
			paid = append(paid, c)
		}
	}
	if len(paid) == 0 {
		e.Recomputed = 0
		return nil
	}
	for _, c := range paid {
		e.say("pays_charge", "charge", c.ID, "meter", "@"+string(c.Meter), "amount", c.Amount.String())
	}
	p, err := s.paymentsOf(ctx, tx, paid[0], all, prepaid)
	e.Recomputed = t.Amount + p.owed - p.moved
	return err
}

// moved is what transfers of a code about a thing moved from one account to another
// at the moment of an explained one, less what they moved back.
func (s *Service) moved(ctx context.Context, tx *store.Tx, e *Explanation, t ledger.Transfer, forward func(o ledger.Transfer) int64) (sum money.Amount, err error) {
	list, err := s.cfg.Ledger.About(ctx, tx, e.KeyedAt, e.KeyedAt, t.Reference)
	for _, o := range list {
		if o.Code == t.Code {
			sum += money.Amount(forward(o)) * o.Amount
		}
	}
	return sum, err
}

// explainInvoiced says of which invoice a transfer of tax or rounding is.
func (s *Service) explainInvoiced(ctx context.Context, tx *store.Tx, e *Explanation, t ledger.Transfer) error {
	found, err := documents[Invoice](ctx, tx, `id = ?`, t.Reference)
	if err != nil || len(found) == 0 {
		e.Recomputed = 0
		return err
	}
	v := found[0]
	e.say("invoice_rounding", "invoice", v.Number, "exact", v.Exact.String(), "subtotal", minorText(v.Subtotal), "rounding", v.Rounding.String(), "total", minorText(v.Total))
	path, want := ledger.Rounding, v.Rounding
	if t.Code == CodeTax {
		path, want = t.Credit, 0
		for _, x := range v.Taxes {
			if ledger.Tax(x.Jurisdiction) == t.Debit {
				path = t.Debit
			}
		}
	}
	for _, x := range v.Taxes {
		code := "tax_added"
		if x.Inclusive {
			code = "tax_included"
		}
		e.say(code, "tax", x.Jurisdiction+" "+x.Name, "rate", ppmText(x.PPM), "sum", minorText(x.Amount))
		if t.Code == CodeTax && ledger.Tax(x.Jurisdiction) == path {
			want += x.Amount
		}
	}
	all, err := s.moved(ctx, tx, e, t, func(o ledger.Transfer) int64 {
		switch path {
		case o.Credit:
			return 1
		case o.Debit:
			return -1
		}
		return 0
	})
	e.Recomputed = t.Amount + want - all
	return err
}

// explainCredited says of which credit note a transfer is.
func (s *Service) explainCredited(ctx context.Context, tx *store.Tx, e *Explanation, t ledger.Transfer) error {
	notes, err := documents[CreditNote](ctx, tx, `id = ?`, t.Reference)
	if err != nil || len(notes) == 0 {
		e.Recomputed = 0
		return err
	}
	n := notes[0]
	e.say("of_note", "note", n.Number, "invoice", n.Invoice)
	invoices, err := documents[Invoice](ctx, tx, `id = ?`, n.InvoiceID)
	if err != nil || len(invoices) == 0 {
		e.Recomputed = 0
		return err
	}
	done, err := creditedBefore(ctx, tx, invoices[0], n.ID)
	if err != nil {
		return err
	}
	direction := func(o ledger.Transfer) int64 {
		if o.Debit == t.Debit && o.Credit == t.Credit {
			return 1
		}
		return 0
	}
	var want money.Amount
	for _, o := range s.creditTransfers(&accountRow{id: n.AccountID, currency: n.Currency}, invoices[0], done, n, n.IssuedAt) {
		want += money.Amount(direction(o)) * o.Amount
	}
	all, err := s.moved(ctx, tx, e, t, direction)
	e.Recomputed = t.Amount + want - all
	return err
}

// explainGrant says what was given, or what of it was lost.
func (s *Service) explainGrant(ctx context.Context, tx *store.Tx, e *Explanation, t ledger.Transfer) error {
	list, err := s.loadGrants(ctx, tx, `id = ?`, t.Reference)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		// A correction gave back to a grant that was over by then.
		if t.Code == CodeGrantExpired {
			e.say("grant_back_lost")
		} else {
			e.Recomputed = 0
		}
		return nil
	}
	g := list[0]
	if t.Code == CodeGrant {
		e.Recomputed = g.Amount
		e.say("of_grant", "grant", g.ID, "kind", "@grant_"+g.Kind, "cap", g.Amount.String())
		return nil
	}
	// What corrections give back later is lost by transfers of their own.
	if g.Spent+t.Amount > g.Amount {
		e.Recomputed = g.Amount - g.Spent
	}
	e.say("grant_lost", "grant", g.ID, "kind", "@grant_"+g.Kind, "cap", g.Amount.String(), "used", (g.Amount - e.Recomputed).String(), "expired_at", e.time(g.ExpiresAt), "lost", e.Recomputed.String())
	return nil
}

// explainWriteOff says of which invoice what was owed was given up.
func (s *Service) explainWriteOff(ctx context.Context, tx *store.Tx, e *Explanation, t ledger.Transfer) error {
	rows, err := tx.Query(ctx, `SELECT number, total, written_off FROM billing_dues WHERE invoice_id = ?`, t.Reference)
	if err != nil {
		return err
	}
	defer rows.Close()
	e.Recomputed = 0
	for rows.Next() {
		var number int64
		var total money.Amount
		if err := rows.Scan(&number, &total, &e.Recomputed); err != nil {
			return err
		}
		e.say("write_off", "invoice", seriesRow{invoiceSeries, number, ""}.number(), "total", minorText(total), "sum", e.Recomputed.String(), "rest", (total - e.Recomputed).String())
	}
	return rows.Err()
}

// explainPaidBack says what was paid out, or taken back by a bank.
func (s *Service) explainPaidBack(ctx context.Context, tx *store.Tx, e *Explanation, t ledger.Transfer) error {
	notes, err := documents[CreditNote](ctx, tx, `id = ?`, t.Reference)
	if err != nil {
		return err
	}
	for _, n := range notes {
		e.say("of_note", "note", n.Number, "invoice", n.Invoice)
		e.Recomputed = n.Total
	}
	short, err := s.cfg.Ledger.About(ctx, tx, t.EffectiveAt, t.EffectiveAt, t.Reference)
	if err != nil {
		return err
	}
	var sum money.Amount
	count := 0
	for _, o := range short {
		if o.Code == CodeShortfall && o.Credit == t.Debit {
			sum, count = sum+o.Amount, count+1
		}
	}
	if count > 0 {
		e.say("taken_short", "sum", sum.String(), "count", strconv.Itoa(count))
	}
	return nil
}

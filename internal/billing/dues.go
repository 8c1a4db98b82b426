package billing

import (
	"context"
	"fmt"
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

// CodeWriteOff is the code of the transfer that gives up what is owed of an invoice.
const CodeWriteOff = "write_off"

// InvoiceStanding is what is owed of an invoice, and by when.
type InvoiceStanding struct {
	InvoiceID string
	AccountID string
	Number    string
	Currency  money.Currency
	State     pricing.InvoiceState
	pricing.Standing
	StopAt time.Time // when compute stops if nothing is paid; zero: it does not, or it has
}

// due is an invoice's row.
type due struct {
	invoiceID, accountID string
	number               int64
	zone                 string
	pricing.Standing
	settled time.Time
}

func (d due) name() string { return seriesRow{invoiceSeries, d.number, ""}.number() }

// net is what an invoice asks for in all.
func (d due) net() money.Amount { return d.Total - d.Credited - d.WrittenOff }

// dueDay returns the day on which an invoice of an account is due that is issued now.
func (s *Service) dueDay(ctx context.Context, tx *store.Tx, accountID, zone string, now time.Time) (from, until time.Time, err error) {
	c, err := s.creditLimit(ctx, tx, accountID)
	if err != nil {
		return time.Time{}, time.Time{}, err
	}
	return pricing.DueDay(now, c.NetDays, zone)
}

// insertDue writes down what is to be paid of an invoice.
func insertDue(ctx context.Context, tx *store.Tx, accountID, invoiceID string, number int64, total money.Amount, from, until time.Time, zone string) error {
	if _, err := tx.Exec(ctx, `INSERT INTO billing_dues (invoice_id, account_id, number, total, due_from, due_at, time_zone, written_off, written_off_at, settled_at, next_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0) ON CONFLICT DO NOTHING`, invoiceID, accountID, number, int64(total), store.Micros(from), store.Micros(until), zone); err != nil {
		return fmt.Errorf("invoice %s is due: %w", invoiceID, err)
	}
	return nil
}

// dues reads invoices' rows, oldest first, with what is owed of each. The account
// is locked, or nothing is changed by it.
func (s *Service) dues(ctx context.Context, tx *store.Tx, accountID string, currency money.Currency) ([]due, error) {
	rows, err := tx.Query(ctx, `SELECT d.invoice_id, d.account_id, d.number, d.time_zone, d.total, d.written_off, d.due_from, d.due_at, d.settled_at,
		CAST(COALESCE((SELECT SUM(c.total) FROM billing_credits c WHERE c.invoice_id = d.invoice_id), 0) AS BIGINT)
		FROM billing_dues d WHERE d.account_id = ? ORDER BY d.number`, accountID)
	if err != nil {
		return nil, fmt.Errorf("dues of %s: %w", accountID, err)
	}
	defer rows.Close()
	var out []due
	var nets []money.Amount
	for rows.Next() {
		var d due
		var from, until, settled int64
		if err := rows.Scan(&d.invoiceID, &d.accountID, &d.number, &d.zone, &d.Total, &d.WrittenOff, &from, &until, &settled, &d.Credited); err != nil {
			return nil, fmt.Errorf("dues of %s: %w", accountID, err)
		}
		d.DueFrom, d.DueAt, d.settled = store.Time(from), store.Time(until), store.Time(settled)
		out, nets = append(out, d), append(nets, d.net())
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("dues of %s: %w", accountID, err)
	}
	rows.Close()
	if len(out) == 0 {
		return nil, nil
	}
	balance, err := s.invoicedBalance(ctx, tx, accountID, currency)
	if err != nil {
		return nil, err
	}
	for i, owed := range pricing.Owed(nets, balance) {
		out[i].Owed = owed
	}
	return out, nil
}

// invoicedBalance is what an account's balance would be had it used nothing since
// its last invoice: what is missing of it is owed by invoices.
func (s *Service) invoicedBalance(ctx context.Context, tx *store.Tx, accountID string, currency money.Currency) (money.Amount, error) {
	wallet, hold, debt, err := s.funds(ctx, tx, accountID, currency)
	if err != nil {
		return 0, err
	}
	p, err := s.openPeriod(ctx, tx, accountID)
	if err != nil {
		return 0, err
	}
	var since money.Amount
	if err := tx.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM billing_charges WHERE account_id = ? AND booked_at > ?`,
		accountID, store.Micros(p.start)).Scan(&since); err != nil {
		return 0, fmt.Errorf("charges since the last invoice of %s: %w", accountID, err)
	}
	given, err := s.givenSince(ctx, tx, accountID, currency, p.start)
	if err != nil {
		return 0, err
	}
	return (wallet + hold + debt).Add(since - given)
}

// givenSince is what grants paid of charges after a moment.
func (s *Service) givenSince(ctx context.Context, tx *store.Tx, accountID string, currency money.Currency, start time.Time) (given money.Amount, err error) {
	for _, code := range []string{CodeCharge, CodeCorrection} {
		inAll, outAll, err := s.cfg.Ledger.Flow(ctx, tx, ledger.Grant(accountID), currency, code, endOfTime)
		if err != nil || inAll == 0 && outAll == 0 {
			if err != nil {
				return 0, err
			}
			continue
		}
		// A charge that ends as a month does is of that month.
		in, out, err := s.cfg.Ledger.Flow(ctx, tx, ledger.Grant(accountID), currency, code, start.Add(time.Microsecond))
		if err != nil {
			return 0, err
		}
		given += (outAll - out) - (inAll - in)
	}
	return given, nil
}

// settleDues notes which invoices are paid, and lets compute run again if none of
// those that stopped it is owed any more. The caller holds the account's lock and
// saves it.
func (s *Service) settleDues(ctx context.Context, tx *store.Tx, a *accountRow, now time.Time) error {
	var unpaid int64
	if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM billing_dues WHERE account_id = ? AND settled_at = 0`, a.id).Scan(&unpaid); err != nil {
		return fmt.Errorf("dues of %s: %w", a.id, err)
	}
	if unpaid > 0 {
		list, err := s.dues(ctx, tx, a.id, a.currency)
		if err != nil {
			return err
		}
		for _, d := range list {
			if d.Owed > 0 || !d.settled.IsZero() {
				continue
			}
			if _, err := tx.Exec(ctx, `UPDATE billing_dues SET settled_at = ? WHERE invoice_id = ?`, store.Micros(now), d.invoiceID); err != nil {
				return fmt.Errorf("settle the invoice %s: %w", d.name(), err)
			}
		}
	}
	if a.overdueSince.IsZero() {
		return nil
	}
	var stopping int64
	if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM billing_dues d JOIN billing_dunning n ON n.invoice_id = d.invoice_id AND n.step = ?
		WHERE d.account_id = ? AND d.settled_at = 0`, string(pricing.ActStop), a.id).Scan(&stopping); err != nil {
		return fmt.Errorf("dues of %s: %w", a.id, err)
	}
	if stopping == 0 {
		a.overdueSince = time.Time{}
		a.paidAgain()
	}
	return nil
}

// Standings lists how an account's invoices stand, newest first.
func (s *Service) Standings(ctx context.Context, accountID string) ([]InvoiceStanding, error) {
	currency, err := s.cfg.CurrencyOf(ctx, accountID)
	if err != nil {
		return nil, fmt.Errorf("standings: %w", err)
	}
	now := s.cfg.Clock()
	var out []InvoiceStanding
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		out = nil
		list, err := s.dues(ctx, tx, accountID, currency)
		if err != nil {
			return err
		}
		for _, d := range slices.Backward(list) {
			st, err := s.standing(ctx, tx, d, currency, now)
			if err != nil {
				return err
			}
			out = append(out, st)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("standings: %w", err)
	}
	return out, nil
}

func (s *Service) standing(ctx context.Context, tx *store.Tx, d due, currency money.Currency, now time.Time) (InvoiceStanding, error) {
	st := InvoiceStanding{InvoiceID: d.invoiceID, AccountID: d.accountID, Number: d.name(), Currency: currency, State: pricing.StateOf(d.Standing, now), Standing: d.Standing}
	if d.Owed <= 0 {
		return st, nil
	}
	plan, err := s.plan(ctx, tx, d, now)
	st.StopAt = plan.StopAt
	return st, err
}

// Standing returns how an invoice stands, by its identifier or number, or is a
// NotFound fault "invoice_not_found".
func (s *Service) Standing(ctx context.Context, accountID, id string) (InvoiceStanding, error) {
	v, err := s.Invoice(ctx, accountID, id)
	if err != nil {
		return InvoiceStanding{}, err
	}
	list, err := s.Standings(ctx, accountID)
	if err != nil {
		return InvoiceStanding{}, err
	}
	for _, st := range list {
		if st.InvoiceID == v.ID {
			return st, nil
		}
	}
	return InvoiceStanding{}, noInvoice(id) // it was written before invoices were due, a moment ago
}

// WriteOff gives up what is owed of an overdue invoice, as a posting: the books
// show it, and the invoice is uncollectible from then on. One that is not overdue
// is a Conflict fault "invoice_not_overdue"; asked again it changes nothing. It is
// an operator's act.
func (s *Service) WriteOff(ctx context.Context, p account.Principal, invoiceID, reason string) (InvoiceStanding, error) {
	if !p.May(account.Operate) {
		return InvoiceStanding{}, fault.New(fault.Forbidden, "forbidden", "only an operator can write invoices off")
	}
	if len(reason) > 400 {
		return InvoiceStanding{}, fault.New(fault.Invalid, "text_too_long", "want a reason of at most 400 bytes").At("body.reason")
	}
	if r, found := ident.Hidden(reason); found {
		return InvoiceStanding{}, fault.New(fault.Invalid, "text_invalid", "the reason holds the control character %U, which nobody sees; leave it out", r).At("body.reason")
	}
	var accountID string
	now := s.cfg.Clock()
	err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		where, args := named(invoiceID)
		found, err := documents[Invoice](ctx, tx, `corrects = '' AND `+where, args...)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return noInvoice(invoiceID)
		}
		v := found[0]
		accountID, invoiceID = v.AccountID, v.ID
		a, err := s.lockAccount(ctx, tx, v.AccountID, v.Currency)
		if err != nil {
			return err
		}
		list, err := s.dues(ctx, tx, a.id, a.currency)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list, func(d due) bool { return d.invoiceID == v.ID })
		if i < 0 {
			return noInvoice(invoiceID)
		}
		d := list[i]
		switch state := pricing.StateOf(d.Standing, now); state {
		case pricing.InvoiceUncollectible:
			return nil
		case pricing.InvoiceOverdue:
		default:
			return fault.New(fault.Conflict, "invoice_not_overdue", "the invoice %s is %s; only what is overdue can be written off", v.Number, state)
		}
		if err := s.cfg.Ledger.Post(ctx, tx, s.transfer(a, ledger.WrittenOff, ledger.Receivable(a.id), d.Owed, CodeWriteOff, v.ID, now)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE billing_dues SET written_off = ?, written_off_at = ? WHERE invoice_id = ?`, int64(d.Owed), store.Micros(now), v.ID); err != nil {
			return err
		}
		if s.cfg.Audit != nil {
			if err := s.cfg.Audit(ctx, tx, p, "invoice.write_off", v.ID, map[string]string{"number": v.Number, "amount": d.Owed.String(), "reason": reason}); err != nil {
				return fmt.Errorf("audit: %w", err)
			}
		}
		return s.paid(ctx, tx, a, now)
	})
	s.changed(accountID)
	if err != nil {
		return InvoiceStanding{}, fmt.Errorf("write off: %w", err)
	}
	return s.Standing(ctx, accountID, invoiceID)
}

// paid follows money that came in: debt is paid from it, then what is set aside,
// and the invoices that it covers are settled. It saves the account.
func (s *Service) paid(ctx context.Context, tx *store.Tx, a *accountRow, now time.Time) error {
	if err := s.settleDues(ctx, tx, a, now); err != nil {
		return err
	}
	return s.rebalance(ctx, tx, a, now)
}

// notOverdue is a Payment fault "invoice_overdue" while an account's compute is
// stopped for an invoice.
func (s *Service) notOverdue(ctx context.Context, tx *store.Tx, a *accountRow) error {
	if a.overdueSince.IsZero() {
		return nil
	}
	list, err := s.dues(ctx, tx, a.id, a.currency)
	if err != nil {
		return err
	}
	for _, d := range list {
		if d.Owed > 0 {
			return fault.New(fault.Payment, "invoice_overdue", "%s %s of the invoice %s is overdue since %s, and nothing runs until it is paid; add money to the account",
				d.Owed.Display(), a.currency, d.name(), d.DueAt.Format(time.RFC3339))
		}
	}
	return nil
}

// backfill makes invoices due that were written before invoices were, from now on:
// nobody is late by an upgrade.
func (s *Service) backfill(ctx context.Context, now time.Time) error {
	const atOnce = 200
	for {
		var old []Invoice
		err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
			if old, err = documents[Invoice](ctx, tx, `series = ? AND id NOT IN (SELECT invoice_id FROM billing_dues) ORDER BY number LIMIT ?`, invoiceSeries, atOnce); err != nil {
				return err
			}
			for _, v := range old {
				from, until, err := s.dueDay(ctx, tx, v.AccountID, v.Customer.TimeZone, now)
				if err != nil {
					return err
				}
				var number int64
				if err := tx.QueryRow(ctx, `SELECT number FROM billing_invoices WHERE id = ?`, v.ID).Scan(&number); err != nil {
					return err
				}
				if err := insertDue(ctx, tx, v.AccountID, v.ID, number, v.Total, from, until, v.Customer.TimeZone); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || len(old) < atOnce {
			return err
		}
	}
}

package billing

import (
	"context"
	"fmt"

	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

// verifyTold compares what was told of leases' use with the sums that they keep.
func (s *Service) verifyTold(ctx context.Context, tx *store.Tx, r *Report) error {
	rows, err := tx.Query(ctx, `SELECT l.lease_id FROM billing_leases l LEFT JOIN (SELECT lease_id,
			SUM(CASE WHEN meter IN ('compute', 'reserved') THEN amount ELSE 0 END) AS compute, SUM(CASE WHEN meter = 'storage' THEN amount ELSE 0 END) AS storage,
			SUM(CASE WHEN meter = 'egress' THEN amount ELSE 0 END) AS egress FROM billing_usage GROUP BY lease_id) u ON u.lease_id = l.lease_id
		WHERE l.measured_compute <> COALESCE(u.compute, 0) OR (l.measured_storage <> COALESCE(u.storage, 0)) OR l.measured_egress <> COALESCE(u.egress, 0) ORDER BY l.lease_id`)
	if err != nil {
		return fmt.Errorf("compare use: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return fmt.Errorf("compare use: %w", err)
		}
		r.wrong(id, "the events of its use do not come to what was measured")
	}
	return rows.Err()
}

// verifyGrants compares what grants have paid with what charges say that they did,
// and what they have left with the books.
func (s *Service) verifyGrants(ctx context.Context, tx *store.Tx, r *Report) error {
	for _, check := range []struct{ query, what string }{
		{`SELECT g.id, g.spent, CAST(COALESCE(SUM(d.amount), 0) AS BIGINT) FROM billing_grants g LEFT JOIN billing_draws d ON d.grant_id = g.id
			GROUP BY g.id, g.spent HAVING g.spent <> COALESCE(SUM(d.amount), 0) ORDER BY g.id`, "%s of it is spent, and %s by what it paid of leases"},
		{`SELECT c.lease_id, CAST(SUM(c.granted) AS BIGINT), CAST(COALESCE((SELECT SUM(d.amount) FROM billing_draws d WHERE d.lease_id = c.lease_id AND d.meter = c.meter), 0) AS BIGINT)
			FROM billing_charges c GROUP BY c.lease_id, c.meter HAVING SUM(c.granted) <> COALESCE((SELECT SUM(d.amount) FROM billing_draws d WHERE d.lease_id = c.lease_id AND d.meter = c.meter), 0)
			ORDER BY c.lease_id`, "grants paid %s of its charges, and %s by the grants"},
	} {
		rows, err := tx.Query(ctx, check.query)
		if err != nil {
			return fmt.Errorf("compare grants: %w", err)
		}
		for rows.Next() {
			var id string
			var one, other money.Amount
			if err := rows.Scan(&id, &one, &other); err != nil {
				rows.Close()
				return fmt.Errorf("compare grants: %w", err)
			}
			r.wrong(id, check.what, one, other)
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			return fmt.Errorf("compare grants: %w", err)
		}
	}
	lefts, err := amountsBy(ctx, tx, `SELECT g.account_id, a.currency, CAST(SUM(CASE WHEN g.expired = 1 THEN 0 ELSE g.cap - g.spent END) AS BIGINT)
		FROM billing_grants g JOIN billing_accounts a ON a.account_id = g.account_id GROUP BY g.account_id, a.currency ORDER BY g.account_id`)
	if err != nil {
		return err
	}
	for _, x := range lefts {
		has, err := s.cfg.Ledger.Balance(ctx, tx, ledger.Grant(x.id), x.currency)
		if err != nil {
			return err
		}
		if has != x.amount {
			r.wrong(x.id, "its grants have %s left, and %s by the books", x.amount, has)
		}
	}
	return nil
}

// amountOf is an amount of an account.
type amountOf struct {
	id       string
	currency money.Currency
	amount   money.Amount
}

func amountsBy(ctx context.Context, tx *store.Tx, query string) ([]amountOf, error) {
	rows, err := tx.Query(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("sum by account: %w", err)
	}
	defer rows.Close()
	var out []amountOf
	for rows.Next() {
		var x amountOf
		if err := rows.Scan(&x.id, &x.currency, &x.amount); err != nil {
			return nil, fmt.Errorf("sum by account: %w", err)
		}
		out = append(out, x)
	}
	return out, rows.Err()
}

// verifyStandings compares what accounts have with their statements and what has
// moved since: nothing comes or goes that is on no statement.
func (s *Service) verifyStandings(ctx context.Context, tx *store.Tx, r *Report) error {
	closed, err := amountsBy(ctx, tx, `SELECT account_id, currency, CAST(SUM(invoiced) AS BIGINT) FROM billing_statements GROUP BY account_id, currency ORDER BY account_id`)
	if err != nil {
		return err
	}
	for _, x := range closed {
		var end, uninvoiced, paid, refunded, given, credited, noted int64
		if err := tx.QueryRow(ctx, `SELECT MAX(end_at), CAST(SUM(paid) AS BIGINT), CAST(SUM(refunded) AS BIGINT), CAST(SUM(given) AS BIGINT), CAST(SUM(credited) AS BIGINT)
			FROM billing_statements WHERE account_id = ?`, x.id).Scan(&end, &paid, &refunded, &given, &credited); err != nil {
			return fmt.Errorf("statements of %s: %w", x.id, err)
		}
		if err := tx.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(amount - granted), 0) AS BIGINT) FROM billing_charges WHERE account_id = ? AND booked_at > ?`, x.id, end).Scan(&uninvoiced); err != nil {
			return fmt.Errorf("charges of %s: %w", x.id, err)
		}
		if err := tx.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(total), 0) AS BIGINT) FROM (
			SELECT total FROM billing_credits WHERE account_id = ?
			UNION ALL SELECT written_off FROM billing_dues WHERE account_id = ? AND written_off_at > 0) AS x`, x.id, x.id).Scan(&noted); err != nil {
			return fmt.Errorf("credits of %s: %w", x.id, err)
		}
		then, err := s.funded(ctx, tx, x.id, x.currency, store.Time(end))
		if err != nil {
			return err
		}
		for _, c := range []struct {
			what       string
			stated, by money.Amount
		}{
			{"was paid", money.Amount(paid), then.paid}, {"was refunded", money.Amount(refunded), then.refunded}, {"was given otherwise", money.Amount(given), then.given},
		} {
			// What is entered of a day in a closed month is on a later statement.
			if c.stated > c.by || c.stated < c.by && c.what == "was given otherwise" {
				r.wrong(x.id, "its statements say that %s %s, and its transfers %s", c.stated, c.what, c.by)
			}
		}
		all, err := s.funded(ctx, tx, x.id, x.currency, endOfTime)
		if err != nil {
			return err
		}
		has := money.Amount(0)
		for _, path := range ownMoney(x.id) {
			b, err := s.cfg.Ledger.Balance(ctx, tx, path, x.currency)
			if err != nil {
				return err
			}
			has += b
		}
		if want := all.paid - all.refunded + all.given + money.Amount(noted) - x.amount - money.Amount(uninvoiced); has != want {
			r.wrong(x.id, "it has %s, and %s by its statements and what came after them", has, want)
		}
	}
	return nil
}

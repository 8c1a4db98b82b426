package billing_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// Each column of the tables of grants, reservations, credit limits and what is due,
// changed by itself, has the thing that is wrong named first.
func TestEachForgedRowOfEveryPlanIsNamed(t *testing.T) {
	t.Parallel()
	eachWith(t, func(t *testing.T, w *world) {
		w.manyPlans()
		w.limit("ac-renter", "30")
		w.limit("ac-renter", "20")
		w.begin(w.bundle("ls-5", 1))
		w.buy(w.reservation("rv-3", 1, 20, pricing.NoUpfront))
		w.startCompute("ls-5", w.clock())
		w.ConfirmAlive([]string{"ls-5"}, w.pass(10*time.Hour))
		w.settle()
		w.right()
		const spent = ` WHERE spent > 0`
		const draw = ` WHERE amount = (SELECT MAX(amount) FROM billing_draws)`
		for name, c := range map[string]struct {
			act           string
			subject, what string
		}{
			"billing_charges.granted":            {`UPDATE billing_charges SET granted = granted + 1 WHERE id = (SELECT MIN(id) FROM billing_charges WHERE granted > 0)`, "ac-renter", "it paid"},
			"billing_grants.cap":                 {`UPDATE billing_grants SET cap = cap + 1` + spent, "gr-", "grant"},
			"billing_grants.spent":               {`UPDATE billing_grants SET spent = spent - 1` + spent, "gr-", "paid"},
			"billing_grants.account_id":          {`UPDATE billing_grants SET account_id = 'ac-x'` + spent, "gr-", ""},
			"billing_grants.expired":             {`UPDATE billing_grants SET expired = 1 - expired` + spent, "", "grant"},
			"billing_grants.meters":              {`UPDATE billing_grants SET meters = '["egress"]'` + spent, "gr-", "compute"},
			"billing_grants gone":                {`DELETE FROM billing_grants WHERE spent = 0`, "", "grant"},
			"billing_draws.amount":               {`UPDATE billing_draws SET amount = amount - 1` + draw, "", "paid"},
			"billing_draws.lease_id":             {`UPDATE billing_draws SET lease_id = 'ls-5'` + draw, "", "paid"},
			"billing_draws.meter":                {`UPDATE billing_draws SET meter = 'storage'` + draw, "", "paid"},
			"billing_draws gone":                 {`DELETE FROM billing_draws` + draw, "", "paid"},
			"billing_reserved.end_at":            {`UPDATE billing_reserved SET end_at = end_at + 3600000000 WHERE lease_id = 'rv-1'`, "rv-1", "reservation"},
			"billing_reserved.terms":             {`UPDATE billing_reserved SET terms = replace(terms, '"gpu_count":1', '"gpu_count":2') WHERE lease_id = 'rv-1'`, "rv-1", "reservation"},
			"billing_covered.from_at":            {`UPDATE billing_covered SET from_at = from_at + 1000000 WHERE lease_id = 'ls-1' AND from_at = (SELECT MIN(from_at) FROM billing_covered WHERE lease_id = 'ls-1')`, "ls-1", "its use comes to"},
			"billing_covered.until_at":           {`UPDATE billing_covered SET until_at = until_at + 1000000 WHERE lease_id = 'ls-2' AND from_at = (SELECT MIN(from_at) FROM billing_covered WHERE lease_id = 'ls-2')`, "ls-2", "its use comes to"},
			"billing_covered gone":               {`DELETE FROM billing_covered WHERE lease_id = 'ls-2'`, "ls-2", "its use comes to"},
			"billing_covered of another":         {`UPDATE billing_covered SET lease_id = 'ls-5' WHERE lease_id = 'ls-1'`, "ls-1", "its use comes to"},
			"billing_applied.seen_at":            {`UPDATE billing_applied SET seen_at = seen_at - 36000000000 WHERE lease_id = 'ls-5'`, "ls-5", "reservations"},
			"billing_accounts.applied_at":        {`UPDATE billing_accounts SET applied_at = applied_at - 36000000000`, "ls-5", "reservations"},
			"billing_prepayments.amount":         {`UPDATE billing_prepayments SET amount = amount - 1 WHERE lease_id = 'rv-2' AND number = 1`, "rv-2", "was paid upfront"},
			"billing_prepayments.kind":           {`UPDATE billing_prepayments SET kind = 'lost' WHERE lease_id = 'rv-2' AND number = 1`, "rv-2", "upfront"},
			"billing_prepayments gone":           {`DELETE FROM billing_prepayments WHERE lease_id = 'rv-2'`, "rv-2", "was paid upfront"},
			"billing_leases.gpu_count":           {`UPDATE billing_leases SET gpu_count = 2 WHERE lease_id = 'ls-1'`, "ls-", "reservations"},
			"billing_leases.gpu_model":           {`UPDATE billing_leases SET gpu_model = 'A100' WHERE lease_id = 'ls-1'`, "ls-", "reservations"},
			"billing_leases.zone":                {`UPDATE billing_leases SET zone = 'z-9' WHERE lease_id = 'ls-1'`, "ls-", "reservations"},
			"billing_dues.total":                 {`UPDATE billing_dues SET total = total + 1`, "INV-000001", "due of it"},
			"billing_dues.due_at":                {`UPDATE billing_dues SET due_at = due_at + 1`, "INV-000001", "due of it"},
			"billing_dues.written_off":           {`UPDATE billing_dues SET written_off = written_off + 1`, "INV-000001", "was written off"},
			"billing_dues.written_off to none":   {`UPDATE billing_dues SET written_off = 0`, "", "written off"},
			"billing_dues.account_id":            {`UPDATE billing_dues SET account_id = 'ac-x'`, "INV-000001", "account"},
			"billing_dues.number":                {`UPDATE billing_dues SET number = number + 7`, "INV-", "number"},
			"billing_dues gone":                  {`DELETE FROM billing_dues`, "INV-000001", "due"},
			"billing_accounts.credit_limit":      {`UPDATE billing_accounts SET credit_limit = credit_limit + 1 WHERE account_id = 'ac-renter'`, "ac-renter", "its credit limit is"},
			"billing_credit_limits.credit_limit": {`UPDATE billing_credit_limits SET credit_limit = credit_limit + 1 WHERE number = 2`, "ac-renter", "its credit limit is"},
			"billing_credit_limits gone":         {`DELETE FROM billing_credit_limits`, "ac-renter", "its credit limit is"},
		} {
			w.restart() // what it keeps in memory is not evidence
			var found []billing.Wrong
			err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error {
				for _, s := range []string{
					`INSERT INTO billing_accounts (account_id, currency, sequence, exhausted_at, warned, grace_warned) VALUES ('ac-x', 'CNY', 0, 0, 0, 0)`,
					`DELETE FROM billing_dunning`, c.act,
				} {
					if _, err := tx.Exec(ctx, s); err != nil {
						t.Errorf("%s: %v", name, err)
						return context.Canceled
					}
				}
				r, err := w.Proof(ctx, tx)
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				found = r.Wrong
				return context.Canceled // what the act changed is taken back
			})
			if err == nil {
				t.Fatal("it was kept")
			}
			if len(found) == 0 || !strings.HasPrefix(found[0].Subject, c.subject) || !strings.Contains(found[0].What, c.what) {
				t.Errorf("%s: found %+v, want %s: %s", name, found, c.subject, c.what)
			}
		}
		w.restart()
		w.right()
	}, taxed(pricing.TaxRule{Jurisdiction: "X", Name: "VAT", PPM: 80_000}))
}

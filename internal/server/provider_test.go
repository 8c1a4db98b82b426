package server

import (
	"context"
	"testing"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/earning"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/protocol"
)

func init() {
	parts = append(parts, withEarnings)
}

// withEarnings adds the providers' side to a world. It comes after the leases,
// whose file is before this one.
func withEarnings(w *world, c *Config) {
	w.t.Helper()
	books, err := ledger.New(w.db, w.clock.Now)
	if err != nil {
		w.t.Fatal(err)
	}
	c.Earnings, err = earning.New(earning.Config{
		DB: w.db, Clock: w.clock.Now, Ledger: books, Money: w.billing, Hosts: w.fleet, Leases: w.leases,
		ZoneOf: func(ctx context.Context, id string) (string, error) {
			a, err := w.accounts.Account(ctx, id)
			return a.TimeZone, err
		},
		Audit: w.accounts.Audit, Rule: pricing.Payouts{HoldSeconds: 3600},
	})
	if err == nil {
		err = c.Earnings.Migrate(w.t.Context())
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// ranFor is a lease of p's on a host of the operator's that has run for a time.
func (w *world) ranFor(p person, d time.Duration) api.Lease {
	w.t.Helper()
	l := w.rent(p)
	w.hostSays(protocol.InstanceStatus{LeaseID: l.ID, Generation: l.Generation, Phase: protocol.PhaseRunning})
	w.clock.Advance(d)
	w.hostSays(protocol.InstanceStatus{LeaseID: l.ID, Generation: l.Generation, Phase: protocol.PhaseRunning})
	if err := w.billing.Settle(w.t.Context(), w.clock.Now()); err != nil {
		w.t.Fatal(err)
	}
	return l
}

func TestAProviderReadsWhatEachHostAndGPUEarned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.deposit(w.ada, "100")
	l := w.ranFor(w.ada, time.Hour)
	earned, err := w.operator.client.Earnings(ctx)
	if err != nil || len(earned) != 1 || earned[0].Earned == 0 {
		t.Fatalf("earnings %+v, %v", earned, err)
	}
	for _, by := range []string{"host", "gpu", "day"} {
		e, err := w.operator.client.EarningsBy(ctx, api.EarningsQuery{By: by})
		if err != nil {
			t.Fatal(err)
		}
		var sum api.Amount
		var rented int64
		for _, r := range e.Rows {
			for _, s := range r.Sums {
				sum += s.Earned
			}
			rented += r.RentedGPUSeconds
			if by != "day" && len(r.Sums) > 0 && r.HostID != w.hostID {
				t.Errorf("by %s: host %s, want %s", by, r.HostID, w.hostID)
			}
		}
		if sum != earned[0].Earned || rented != 3600 {
			t.Errorf("by %s: earned %s in %d s, want %s in 3600", by, sum, rented, earned[0].Earned)
		}
	}
	statements, err := w.operator.client.ProviderStatements(ctx, "")
	if err != nil || len(statements) != 1 || statements[0].Closing != earned[0].Payable || statements[0].Lines[0].Reference != l.ID || statements[0].Lines[0].HostID != w.hostID {
		t.Errorf("statements %+v, %v", statements, err)
	}
	if e, err := w.eve.client.EarningsBy(ctx, api.EarningsQuery{By: "host"}); err != nil || len(e.Rows) != 0 {
		t.Errorf("somebody else sees %+v, %v", e, err)
	}
	w.send("GET", "/v1/earnings/breakdown?by=week", w.ada.token, nil).want(t, 422, "invalid_request")
	w.send("GET", "/v1/earnings/breakdown?from=never", w.ada.token, nil).want(t, 422, "bad_period")
	w.send("GET", "/v1/earnings/statements?month=never", w.ada.token, nil).want(t, 422, "bad_month")
}

func TestAPayoutIsMadeOfWhatIsPastItsHoldingPeriod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.deposit(w.ada, "100")
	w.ranFor(w.ada, time.Hour)
	in := api.CreatePayouts{Batch: "2026-03"}
	if list, err := w.operator.client.CreatePayouts(ctx, in); err != nil || len(list) != 0 {
		t.Fatalf("what was just earned is paid out: %+v, %v", list, err)
	}
	w.clock.Advance(time.Hour)
	have, err := w.operator.client.Payables(ctx)
	if err != nil || len(have) != 1 || have[0].Available == 0 || have[0].Held != 0 {
		t.Fatalf("payable %+v, %v", have, err)
	}
	list, err := w.operator.client.CreatePayouts(ctx, in)
	if err != nil || len(list) != 1 || list[0].State != "requested" || list[0].Amount > have[0].Available {
		t.Fatalf("payouts %+v, %v", list, err)
	}
	id := list[0].ID
	if again, err := w.operator.client.CreatePayouts(ctx, in); err != nil || len(again) != 1 || again[0].ID != id {
		t.Errorf("the same batch again: %+v, %v", again, err)
	}
	w.send("POST", "/v1/operator/payouts/"+id+"/mark", w.operator.token, api.MarkPayout{Event: "pay", Reference: "b"}).want(t, 409, "payout_state")
	w.send("POST", "/v1/operator/payouts/"+id+"/mark", w.operator.token, api.MarkPayout{Event: "approve"}).want(t, 200, "")
	w.send("POST", "/v1/operator/payouts/"+id+"/mark", w.operator.token, api.MarkPayout{Event: "pay"}).want(t, 422, "reference_missing")
	p, err := w.operator.client.MarkPayout(ctx, id, api.MarkPayout{Event: "pay", Reference: "bank 7"})
	if err != nil || p.State != "paid" || p.Reference != "bank 7" {
		t.Errorf("%+v, %v", p, err)
	}
	if own, err := w.operator.client.Payouts(ctx, "paid"); err != nil || len(own) != 1 {
		t.Errorf("own payouts %+v, %v", own, err)
	}
	if others, err := w.eve.client.Payouts(ctx, ""); err != nil || len(others) != 0 {
		t.Errorf("another sees %+v, %v", others, err)
	}
	if all, err := w.operator.client.AllPayouts(ctx, ""); err != nil || len(all) != 1 {
		t.Errorf("all payouts %+v, %v", all, err)
	}
	w.send("POST", "/v1/operator/payouts/po-none/mark", w.operator.token, api.MarkPayout{Event: "approve"}).want(t, 404, "payout_not_found")
	w.send("GET", "/v1/payouts?state=lost", w.ada.token, nil).want(t, 422, "invalid_request")
}

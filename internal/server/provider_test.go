package server

import (
	"context"
	"testing"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/earning"
	"suanli.dev/internal/ledger"
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
	})
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

package server

import (
	"testing"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/sla"
)

func init() {
	parts = append(parts, withLevels)
}

// withLevels adds service levels to a world. It comes after the leases, whose
// file is before this one.
func withLevels(w *world, c *Config) {
	w.t.Helper()
	books, err := ledger.New(w.db, w.clock.Now)
	if err == nil {
		c.Levels, err = sla.New(sla.Config{
			DB: w.db, Clock: w.clock.Now, Ledger: books, Money: w.billing, Leases: w.leases, Hosts: w.fleet, Audit: w.accounts.Audit,
			Promise: pricing.DefaultPromise(), Penalty: pricing.PenaltyRule{ClawBack: true},
		})
	}
	if err == nil {
		err = c.Levels.Migrate(w.t.Context())
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestARenterIsCreditedForABadMonthAndSeesWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.deposit(w.ada, "100")
	l := w.ranFor(w.ada, time.Hour)
	if err := w.leases.OnSilent(ctx, w.hostID, w.clock.Now()); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(time.Hour)
	if _, err := w.ada.client.EndLease(ctx, l.ID); err != nil {
		t.Fatal(err)
	}
	s, err := w.ada.client.LeaseSLA(ctx, l.ID, "")
	if err != nil || s.DownSeconds != 3600 || s.PromisedSeconds != 7200 || s.Credit != s.Charge || s.Charge == 0 || len(s.Outages) != 1 || s.Outages[0].Evidence[0].Source != "control_plane" {
		t.Fatalf("%+v, %v", s, err)
	}
	before, err := w.ada.client.Balance(ctx)
	if err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(40 * 24 * time.Hour)
	for range 2 {
		if err := w.server.Levels.CloseMonths(ctx); err != nil {
			t.Fatal(err)
		}
	}
	w.ada, w.operator = w.signIn(w.ada.Email), w.signIn(w.operator.Email) // their sessions have ended since
	after, err := w.ada.client.Balance(ctx)
	if err != nil || after.Settled-before.Settled != s.Charge {
		t.Errorf("%s became %s, want %s more: %v", before.Settled, after.Settled, s.Charge, err)
	}
	list, err := w.ada.client.SLAMonths(ctx)
	if err != nil || len(list) != 1 || list[0].Credit != s.Charge || list[0].LeaseID != l.ID {
		t.Errorf("%+v, %v", list, err)
	}
	if r, err := w.operator.client.VerifyLedger(ctx); err != nil || !r.OK {
		t.Errorf("ledger %+v, %v", r, err)
	}
	w.send("GET", "/v1/leases/"+l.ID+"/sla?month=x", w.ada.token, nil).want(t, 422, "bad_month")
	w.send("POST", "/v1/operator/sla/confirmations", w.operator.token, api.ConfirmOutage{LeaseID: l.ID, From: w.clock.Now()}).want(t, 404, "outage_not_found")
}

func TestAnybodyReadsWhenTheControlPlaneWasAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for minute := range 10 {
		if minute != 4 {
			if err := w.server.Levels.Beat(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		w.clock.Advance(time.Minute)
	}
	s, err := w.client("").Status(t.Context())
	if err != nil || len(s.Gaps) != 1 || s.Gaps[0].Until.Sub(s.Gaps[0].From) != time.Minute || s.Windows[0].AvailabilityPPM != 900_000 {
		t.Errorf("%+v, %v", s, err)
	}
}

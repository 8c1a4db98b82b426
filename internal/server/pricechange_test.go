package server

import (
	"testing"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/notify"
	"suanli.dev/internal/protocol"
)

func init() {
	belongings["price_change_id"] = func(w *world, p person) string {
		w.deposit(p, "100")
		l := w.rent(p)
		// Other fixtures make hosts of their own, and the lease may be on one of them.
		for _, provider := range []person{w.operator, w.ada, w.eve} {
			list, err := w.leases.ProposePrice(w.t.Context(), provider.principal(), lease.PriceProposal{HostID: l.HostID, LeaseID: l.ID, PerGPUHour: 1_000_000_000})
			if err == nil {
				return list[0].ID
			}
			if f, ok := fault.As(err); !ok || f.Kind != fault.NotFound {
				w.t.Fatal(err)
			}
		}
		w.t.Fatal("nobody has the host of the lease")
		return ""
	}
}

func TestAPriceReachesARunningLeaseOnlyWithItsRentersConsent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.deposit(w.ada, "10000")
	l := w.rent(w.ada)
	run := func() {
		w.hostSays(protocol.InstanceStatus{LeaseID: l.ID, Generation: l.Generation, Phase: protocol.PhaseRunning})
	}
	run()
	rate := func(text string) api.Rate {
		r, err := api.ParseRate(text)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	early := w.clock.Now().Add(time.Hour)
	path := "/v1/hosts/" + w.hostID + "/price-changes"
	w.send("POST", path, w.operator.token, api.PriceProposal{PerGPUHour: rate("9"), EffectiveAt: &early}).want(t, 422, "notice_too_short")
	w.send("POST", path, w.operator.token, api.PriceProposal{PerGPUHour: rate("0")}).want(t, 422, "bad_price")
	w.send("POST", path, w.operator.token, api.PriceProposal{PerGPUHour: rate("100001")}).want(t, 422, "bad_price")
	w.send("POST", path, w.eve.token, api.PriceProposal{PerGPUHour: rate("9")}).want(t, 404, "host_not_found")
	first, err := w.operator.client.ProposePrice(ctx, w.hostID, api.PriceProposal{PerGPUHour: rate("8")})
	if err != nil || len(first) != 1 || first[0].State != "proposed" || first[0].LeaseName != "" {
		t.Fatalf("%+v, %v", first, err)
	}
	if _, err := w.operator.client.ProposePrice(ctx, w.hostID, api.PriceProposal{LeaseID: l.ID, PerGPUHour: rate("9")}); err != nil {
		t.Fatal(err)
	}
	w.send("POST", "/v1/price-changes/"+first[0].ID+"/accept", w.ada.token, nil).want(t, 410, "price_change_over")
	list, err := w.ada.client.PriceChanges(ctx)
	if err != nil || len(list) != 2 || list[0].State != "proposed" || list[1].State != "withdrawn" || list[0].NewPerHour != rate("9") || list[0].PerHour != first[0].PerHour {
		t.Fatalf("%+v, %v", list, err)
	}
	told := 0
	for n, err := range w.ada.client.Notifications(ctx, api.NotificationFilter{Kind: notify.KindPriceChange}) {
		if err != nil || n.Subject != l.ID {
			t.Fatalf("%+v, %v", n, err)
		}
		told++
	}
	if told == 0 {
		t.Error("the renter was not told")
	}
	w.send("POST", "/v1/price-changes/"+list[0].ID+"/accept", w.eve.token, nil).want(t, 404, "price_change_not_found")
	for range 2 {
		if c, err := w.ada.client.AcceptPrice(ctx, list[0].ID); err != nil || c.State != "accepted" {
			t.Fatalf("%+v, %v", c, err)
		}
	}
	w.send("POST", "/v1/price-changes/"+list[0].ID+"/decline", w.ada.token, nil).want(t, 410, "price_change_over")
	w.clock.Advance(list[0].EffectiveAt.Sub(w.clock.Now()) + time.Hour)
	run()
	w.ada, w.operator = w.signIn(w.ada.Email), w.signIn(w.operator.Email) // their sessions have ended since
	bill, err := w.ada.client.Bill(ctx, l.ID)
	if err != nil {
		t.Fatal(err)
	}
	var rates []api.Rate
	for _, line := range bill.Lines {
		if line.Meter == "compute" {
			rates = append(rates, line.Rate)
		}
	}
	if len(rates) != 2 || rates[0] != first[0].PerHour || rates[1] != rate("9") {
		t.Errorf("rates %v on the bill", rates)
	}
	// Declined, and without an answer: the price stays.
	for _, decline := range []bool{true, false} {
		more, err := w.operator.client.ProposePrice(ctx, w.hostID, api.PriceProposal{PerGPUHour: rate("90")})
		if err != nil || more[0].PerHour != rate("9") {
			t.Fatalf("%+v, %v", more, err)
		}
		if decline {
			if c, err := w.ada.client.DeclinePrice(ctx, more[0].ID); err != nil || c.State != "declined" {
				t.Fatalf("%+v, %v", c, err)
			}
			continue
		}
		w.clock.Advance(more[0].EffectiveAt.Sub(w.clock.Now()) + time.Hour)
		run()
		w.ada, w.operator = w.signIn(w.ada.Email), w.signIn(w.operator.Email)
		w.send("POST", "/v1/price-changes/"+more[0].ID+"/accept", w.ada.token, nil).want(t, 410, "price_change_over")
	}
	hosts, err := w.operator.client.HostPriceChanges(ctx, w.hostID)
	if err != nil || len(hosts) != 4 || hosts[0].State != "expired" || hosts[1].State != "declined" {
		t.Errorf("%+v, %v", hosts, err)
	}
	if err := w.billing.Settle(ctx, w.clock.Now()); err != nil {
		t.Fatal(err)
	}
	if bill, err = w.ada.client.Bill(ctx, l.ID); err != nil || bill.Lines[len(bill.Lines)-1].Rate == rate("90") {
		t.Errorf("%+v, %v", bill, err)
	}
	if r, err := w.operator.client.VerifyLedger(ctx); err != nil || !r.OK {
		t.Errorf("ledger %+v, %v", r, err)
	}
}

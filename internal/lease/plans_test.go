package lease

import (
	"testing"
	"time"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/pricing"
)

// monthly accepts one GPU of a host for a month in advance.
func (w *world) monthly(h *fakeHost, change ...func(*QuoteRequest)) *Lease {
	w.t.Helper()
	offers, _, err := w.fleet.Search(w.ctx, fleet.Query{Expression: "count = 1", Limit: 500})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, o := range offers {
		if o.HostID != h.id {
			continue
		}
		r := QuoteRequest{OfferID: o.ID, Plan: pricing.Monthly, Image: "debian:12", DiskGiB: 10}
		for _, f := range change {
			f(&r)
		}
		q, err := w.Price(w.ctx, w.ada, r, "UTC")
		if err != nil {
			w.t.Fatal(err)
		}
		l, err := w.Accept(w.ctx, w.ada, Create{QuoteID: q.ID})
		if err != nil {
			w.t.Fatal(err)
		}
		return l
	}
	w.t.Fatal("the host has no offer of one GPU")
	return nil
}

func TestWhatIsPaidForInAdvanceKeepsItsGPUsWhileItIsStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.monthly(h)
	w.until(l.ID, Running)
	if _, err := w.Stop(w.ctx, w.ada, l.ID); err != nil {
		t.Fatal(err)
	}
	w.until(l.ID, Stopped)
	if w.free() != 0 || w.holders()[l.ID] != 1 || len(w.get(l.ID).GPUs) != 1 {
		t.Fatalf("%d GPUs are free, the lease has %v", w.free(), w.get(l.ID).GPUs)
	}
	if _, err := w.Start(w.ctx, w.ada, l.ID); err != nil {
		t.Fatal(err)
	}
	w.until(l.ID, Running)
	if _, err := w.Stop(w.ctx, w.ada, l.ID); err != nil {
		t.Fatal(err)
	}
	w.until(l.ID, Stopped)
	// When the months are over, the GPU goes back to the market.
	w.jump(32 * 24 * time.Hour)
	w.beat(h)
	if err := w.billing.Watch(w.ctx, w.clock()); err != nil {
		t.Fatal(err)
	}
	w.releaseLapsed(w.ctx)
	w.releaseLapsed(w.ctx)
	w.beat(h)
	if w.free() != 1 || w.holders()[l.ID] != 0 || len(w.get(l.ID).GPUs) != 0 {
		t.Fatalf("%d GPUs are free, the lease has %v", w.free(), w.get(l.ID).GPUs)
	}
	w.booksAreRight()
}

func TestALeaseStopsWhenItsMonthsEndAndSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.monthly(h)
	w.until(l.ID, Running)
	price := w.bill(l.ID).Lines[0].Amount
	w.jump(31*24*time.Hour - 10*time.Minute)
	w.pass(11 * time.Minute)
	w.until(l.ID, Stopped)
	if got := w.get(l.ID); got.Code != string(billing.ReasonTermOver) || got.Message != "stopped: the months that were paid in advance are over" {
		t.Errorf("it is stopped by %s: %s", got.Code, got.Message)
	}
	compute := w.bill(l.ID).Lines[0].Amount
	for _, line := range w.bill(l.ID).Lines[1:] {
		if line.Meter == pricing.Compute && line.Amount != 0 {
			t.Errorf("compute costs more than the month: %s", line.Words)
		}
	}
	if compute != price || w.holders()[l.ID] != 0 {
		t.Errorf("the month cost %s at first and costs %s; held: %v", price, compute, w.holders())
	}
}

func TestALostHostGivesTheRestOfTheMonthsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.monthly(h, func(r *QuoteRequest) { r.TermMonths, r.Renews = 3, true })
	w.until(l.ID, Running)
	w.jump(30 * 24 * time.Hour)
	w.pass(time.Minute)
	seen := w.clock()
	h.set(func() { h.up = false })
	w.pass(5 * time.Minute)
	if err := w.Abandon(w.ctx, w.operator, h.id, seen); err != nil {
		t.Fatal(err)
	}
	m, err := w.billing.Months(w.ctx, l.ID)
	if err != nil || m.EndCode != billing.TermHostLost || len(m.Payments) != 2 {
		t.Fatalf("%+v, %v", m, err)
	}
	paid, back := m.Payments[0].Amount, -m.Payments[1].Amount
	// A little less than two of three months.
	if back >= paid*2/3+paid/50 || back <= paid*2/3-paid/50 {
		t.Errorf("%s of %s came back", back, paid)
	}
	w.booksAreRight()
}

func TestALeaseWithMonthsThatIsGivenUpBeforeItRunsCostsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.monthly(w.join(1))
	if _, err := w.End(w.ctx, w.ada, l.ID); err != nil {
		t.Fatal(err)
	}
	w.until(l.ID, Ended)
	w.pass(time.Minute)
	w.wantClosed(l.ID)
	if b := w.bill(l.ID); b.Total != 0 {
		t.Errorf("it costs %s", b.Total)
	}
}

func TestALeaseWithMonthsThatIsEndedIsChargedNothingWhileItsHostIsBusyEndingIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.monthly(w.join(1))
	w.until(l.ID, Running)
	w.pass(2 * time.Hour)
	if _, err := w.End(w.ctx, w.ada, l.ID); err != nil {
		t.Fatal(err)
	}
	before := w.bill(l.ID)
	w.until(l.ID, Ended)
	w.pass(time.Minute)
	after := w.bill(l.ID)
	for _, line := range after.Lines {
		if line.Meter == pricing.Compute && line.Kind == billing.LineUse && line.Amount != 0 {
			t.Errorf("charged behind its end: %s", line.Words)
		}
	}
	if before.Lines[0].Amount != after.Lines[0].Amount || after.Lines[1].Kind != "refund" {
		t.Errorf("before %+v, after %+v", before.Lines, after.Lines)
	}
	w.wantClosed(l.ID)
}

func TestWhatIsAskedOfATermIsChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(1)
	offers, _, err := w.fleet.Search(w.ctx, fleet.Query{Expression: "count = 1", Limit: 1})
	if err != nil || len(offers) != 1 {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(*QuoteRequest)
		code   string
	}{
		{func(r *QuoteRequest) { r.TermMonths = 2 }, "invalid_term"},
		{func(r *QuoteRequest) { r.TermMonths = 6 }, "invalid_term"}, // not sold here
		{func(r *QuoteRequest) { r.OnLapse = "explode" }, "invalid_on_lapse"},
		{func(r *QuoteRequest) { r.Plan, r.Renews = pricing.OnDemand, true }, "term_without_plan"},
		{func(r *QuoteRequest) { r.Plan = "yearly" }, "unknown_plan"},
	} {
		r := QuoteRequest{OfferID: offers[0].ID, Plan: pricing.Monthly, Image: "debian:12"}
		c.change(&r)
		_, err := w.Price(w.ctx, w.ada, r, "UTC")
		wantCode(t, err, c.code)
	}
}

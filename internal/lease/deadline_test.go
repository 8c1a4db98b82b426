package lease

import (
	"strings"
	"testing"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/catalog"
	"suanli.dev/internal/protocol"
)

// C49: host and cloud never come before the renter.
func TestTheRentersIdleStopComesFirstThenTheTemplatesThenTheClouds(t *testing.T) {
	t.Parallel()
	idle := func(after time.Duration) IdleStop { return IdleStop{After: after, GPUPercent: 5, CPUPercent: 5} }
	template := func(seconds int64) *catalog.TemplateIdleStop {
		return &catalog.TemplateIdleStop{AfterSeconds: seconds, GPUPercent: 5, CPUPercent: 5}
	}
	never := idle(0)
	for name, c := range map[string]struct {
		cloud    time.Duration
		template *catalog.TemplateIdleStop
		renter   *IdleStop
		want     time.Duration
	}{
		"nobody says anything":                   {},
		"the cloud alone":                        {cloud: time.Hour, want: time.Hour},
		"the template over the cloud":            {cloud: time.Hour, template: template(300), want: 5 * time.Minute},
		"the template's never over the cloud":    {cloud: time.Hour, template: template(0)},
		"the renter over the cloud":              {cloud: 5 * time.Minute, renter: new(idle(time.Hour)), want: time.Hour},
		"the renter over the template":           {template: template(300), renter: new(idle(time.Hour)), want: time.Hour},
		"the renter's never over all":            {cloud: time.Hour, template: template(300), renter: &never},
		"the renter over both, shorter than all": {cloud: time.Hour, template: template(300), renter: new(idle(time.Minute)), want: time.Minute},
	} {
		s := &Service{Config: Config{DefaultIdle: idle(c.cloud)}}
		if got := s.idleStop(c.renter, catalog.Template{IdleStop: c.template}); got.After != c.want {
			t.Errorf("%s: idle after %s, want %s", name, got.After, c.want)
		}
	}

	// What was decided at the start is the lease's own, and is what its host is told.
	w := newWorld(t)
	w.DefaultIdle = idle(time.Hour)
	h := w.join(2)
	l, own := w.rent(h, 1), w.rent(h, 1, func(c *Create) { c.Idle = &never })
	w.DefaultIdle = idle(5 * time.Minute)
	w.pass(time.Minute)
	if got := w.get(l.ID).Idle.After; got != time.Hour {
		t.Errorf("a later change of the cloud's idle stop changed a lease's to %s", got)
	}
	for _, c := range h.commands {
		if want := map[string]time.Duration{l.ID: time.Hour, own.ID: 0}[c.LeaseID]; c.Want == protocol.WantRunning && c.Limits.IdleAfter != want {
			t.Errorf("the host was told to stop lease %s after %s, want %s", c.LeaseID, c.Limits.IdleAfter, want)
		}
	}
}

// C51 and C52: a deadline is one instant. Neither the zone in which it was written,
// nor another start, nor the account's time zone moves it.
func TestADeadlineIsAnInstantThatOnlyItsRenterMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, idle := w.join(1), w.join(1)
	_ = idle
	york, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	// The night in which New York's clocks go from 2 to 3.
	w.jump(time.Date(2026, 3, 7, 21, 45, 0, 0, york).Sub(w.clock()))
	w.pass(time.Minute)
	deadline := time.Date(2026, 3, 8, 9, 0, 0, 0, york) // 10 h 15 min later, as clocks there go: 11 h 15 min by the hands
	if d := deadline.Sub(time.Date(2026, 3, 7, 21, 45, 0, 0, york)); d != 10*time.Hour+15*time.Minute {
		t.Fatalf("that night has %s", d)
	}
	l := w.rent(h, 1, func(c *Create) { c.Deadline = deadline })
	if got := w.get(l.ID).Deadline; !got.Equal(deadline) {
		t.Fatalf("the deadline is kept as %s", got)
	}
	toldTo := func() time.Time {
		last := h.commands[len(h.commands)-1]
		return w.clock().Add(last.Limits.StopIn)
	}
	if d := toldTo().Sub(deadline).Abs(); d > 2*beat {
		t.Errorf("the host was told to stop %s from the deadline", d)
	}
	// Someone stops and starts it by hand in the night, and moves house.
	w.pass(time.Hour)
	if _, err := w.Stop(w.ctx, w.ada, l.ID); err != nil {
		t.Fatal(err)
	}
	w.until(l.ID, Stopped)
	zone := "Asia/Shanghai"
	if _, err := w.accounts.UpdateAccount(w.ctx, w.operator, w.ada.AccountID, account.UpdateAccount{TimeZone: &zone}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Start(w.ctx, w.ada, l.ID); err != nil {
		t.Fatal(err)
	}
	w.until(l.ID, Running)
	if got := w.get(l.ID).Deadline; !got.Equal(deadline) {
		t.Errorf("the deadline moved to %s", got)
	}
	if d := toldTo().Sub(deadline).Abs(); d > 2*beat {
		t.Errorf("after another start the host was told to stop %s from the deadline", d)
	}
	w.pass(deadline.Sub(w.clock()) - 2*beat)
	w.wantState(l.ID, Running)
	w.pass(4 * beat)
	w.until(l.ID, Stopped)
	if got := w.get(l.ID); got.Code != "deadline" || got.ChangedAt.Sub(deadline).Abs() > 5*beat {
		t.Errorf("it stopped at %s with %q, want %s", got.ChangedAt, got.Code, deadline)
	}
	// Moved by its renter while it runs: the earlier one does not fire any more.
	later := w.clock().Add(time.Hour)
	if _, err := w.Change(w.ctx, w.ada, l.ID, Update{Deadline: &later}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Start(w.ctx, w.ada, l.ID); err != nil {
		t.Fatal(err)
	}
	w.until(l.ID, Running)
	latest := later.Add(time.Hour)
	if _, err := w.Change(w.ctx, w.ada, l.ID, Update{Deadline: &latest}); err != nil {
		t.Fatal(err)
	}
	w.pass(later.Sub(w.clock()) + time.Minute)
	w.wantState(l.ID, Running)
	w.pass(latest.Sub(w.clock()) + 2*beat)
	w.until(l.ID, Stopped)
}

// C13: a host that was set back to an older state of itself.
func TestAnEndedLeaseThatItsHostStartsAgainIsRemovedAndCostsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.rent(h, 1, func(c *Create) { c.Ports = []int{8080} })
	w.pass(time.Minute)
	ports := w.get(l.ID).Bundle.DirectPorts
	h.set(func() { h.up = false })
	h.set(func() { h.restart() })
	h.set(func() { h.up = true })
	w.pass(time.Minute)
	if got := w.get(l.ID); got.State != Running || len(got.Bundle.DirectPorts) != 1 || got.Bundle.DirectPorts[8080] != ports[8080] {
		t.Errorf("after a new start of its agent the lease is %s with ports %v, they were %v", got.State, got.Bundle.DirectPorts, ports)
	}
	if _, err := w.End(w.ctx, w.ada, l.ID); err != nil {
		t.Fatal(err)
	}
	w.until(l.ID, Ended)
	w.pass(time.Minute)
	cost := w.bill(l.ID).Total
	next := w.rent(h, 1)
	h.set(func() {
		h.restart()
		began := h.instant(h.clock())
		h.instances[l.ID] = &instance{InstanceStatus: protocol.InstanceStatus{LeaseID: l.ID, Generation: 1, Phase: protocol.PhaseRunning, Started: began},
			want: protocol.WantRunning, running: true, since: h.clock()}
		h.past = append(h.past, protocol.PastRun{ID: 1 << 20, LeaseID: l.ID, Generation: 1, Started: *began, Stopped: began})
	})
	w.pass(2 * time.Minute)
	w.wantState(l.ID, Ended)
	for _, id := range h.left() {
		if id == l.ID {
			t.Error("the host still has the lease that is over")
		}
	}
	if got := w.bill(l.ID).Total; got != cost {
		t.Errorf("it costs %s now, and cost %s when it ended", got, cost)
	}
	w.wantState(next.ID, Running)
	if n := len(h.past); n != 0 {
		t.Errorf("%d runs of the past are told for ever", n)
	}
}

func TestStoppingWhatDoesNotRunYetNamesTheWayOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	h.set(func() { h.slow = true })
	l := w.accept(w.ada, h, 1)
	w.until(l.ID, Provisioning)
	_, err := w.Stop(w.ctx, w.ada, l.ID)
	wantCode(t, err, "lease_state")
	if !strings.Contains(err.Error(), "suanli end "+l.Name) {
		t.Errorf("the refusal is %q", err)
	}
	if strings.HasPrefix(l.Name, "ls-") {
		t.Errorf("the name %q that it was given looks like an identifier", l.Name)
	}
	if _, err := w.End(w.ctx, w.ada, l.Name); err != nil {
		t.Fatal(err)
	}
	w.until(l.ID, Ended)
	w.wantClosed(l.ID)
}

package lease

import (
	"slices"
	"testing"

	"suanli.dev/internal/documented"
)

const documentHead = `# The life of a lease

A lease is in exactly one state. Only the events below move it, and each event
changes state, capacity and money together or not at all. An event that a state
does not name is refused: a request gets the problem ` + "`lease_state`" + `, a report that
comes too late is no news. This page is made from the machine itself
(` + "`go generate ./internal/lease`" + `).

What costs money: compute while ` + "`running`" + `, and storage from the first run until
` + "`ending`" + `. ` + "`unreachable`" + ` costs storage only, and so do ` + "`stopped`" + ` and
` + "`interrupted`" + `. ` + "`failed`" + ` has
cost nothing.

No host decides when that ends. From the moment a lease was asked to stop or to end,
by its renter, its deadline, its spending cap, an empty balance or the spot market,
compute is charged until the host dates the stop, and for 30 seconds at most, whatever
the host reports; storage ends with the request to end itself. Egress, which a host
counts alone, is charged as far as the spending cap and the account's money reach when
it is claimed, and the lease stops there.

GPUs are held from ` + "`accepted`" + ` until the host has confirmed that the instance is
stopped, or that nothing is left of it.

`

func TestTheDocumentShowsTheStateMachine(t *testing.T) {
	t.Parallel()
	documented.Whole(t, "../../docs/leases.md", documentHead+TransitionTable())
}

var allEvents = []Event{Dispatch, ConfirmRunning, ConfirmStopped, ConfirmInterrupted, ConfirmAbsent, ReportFailure, RequestStop,
	RequestStart, RequestPlace, RequestRestart, RequestEnd, LoseHost, LoseInstance, Notice, Reprieve, Outbid, AbandonHost, HostFault, HostFaultOver}

func TestEveryStateIsReachedAndEveryLifeCanEnd(t *testing.T) {
	t.Parallel()
	reached := map[State]bool{Accepted: true}
	for range States() {
		for s := range reached {
			for _, e := range allEvents {
				if to, ok := s.Next(e); ok {
					reached[to] = true
				}
			}
		}
	}
	for _, s := range States() {
		if !reached[s] {
			t.Errorf("nothing leads to %s", s)
		}
		over := s
		for i := 0; !over.Over() && i < 3; i++ {
			for _, e := range []Event{RequestEnd, ConfirmAbsent} {
				if to, ok := over.Next(e); ok {
					over = to
				}
			}
		}
		if !over.Over() {
			t.Errorf("a renter who ends a lease that is %s is left with one that is %s", s, over)
		}
	}
}

func TestTransitionsKeepTheRulesOfTheDesign(t *testing.T) {
	t.Parallel()
	for _, s := range States() {
		_, end := s.Next(RequestEnd)
		if end == (s.Over() || s == Ending) {
			t.Errorf("%s: can be ended is %v", s, end)
		}
		if _, ok := s.Next(AbandonHost); ok == s.Over() {
			t.Errorf("%s: an operator's giving up of the host has a transition is %v", s, ok)
		}
		for _, e := range allEvents {
			to, ok := s.Next(e)
			switch {
			case !ok:
			case s.Over():
				t.Errorf("%s is final and %s leads to %s", s, e, to)
			case to == Failed && s != Accepted && s != Provisioning:
				t.Errorf("%s on %s fails, but it may have run and been charged", s, e)
			case e == LoseHost && to.Over():
				t.Errorf("%s: a silent host ends a lease", s)
			case e == ReportFailure && s == Starting && to != Stopped:
				t.Errorf("a failed start leads to %s; the renter had a stopped lease and keeps it", to)
			case e == Outbid && s.HoldsCompute() && s != Accepted && !to.HoldsCompute():
				t.Errorf("%s: an outbid lease gives its GPUs away before its host is proven clean", s)
			case (e == Notice || e == Reprieve) && to != s:
				t.Errorf("%s: a notice leads to %s; it only announces", s, to)
			case to == Running && s == Stopping:
				t.Errorf("a lease that was told to stop runs again by %s", e)
			}
		}
		if s.HoldsCompute() && (s.Over() || s == Stopped || s == Interrupted) {
			t.Errorf("%s holds GPUs", s)
		}
	}
	if !slices.Equal(States()[:4], []State{Accepted, Provisioning, Running, Stopping}) {
		t.Errorf("the states are not in the order of a life: %v", States())
	}
	if _, ok := State("asleep").Next(Dispatch); ok {
		t.Error("a state that is none has a transition")
	}
}

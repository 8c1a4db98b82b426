package earning

import (
	"slices"

	"suanli.dev/internal/statemachine"
)

// PayoutState is where a payout is in its life.
type PayoutState string

// The states of a payout. From requested on, its amount is no longer the
// provider's to be paid; in declined and returned it is again.
const (
	Requested PayoutState = "requested" // the amount is set aside
	Approved  PayoutState = "approved"  // an operator has let it go to the bank
	Paid      PayoutState = "paid"
	Failed    PayoutState = "failed"   // the bank did not take it; the amount is still set aside
	Declined  PayoutState = "declined" // by an operator; the amount is the provider's again
	Returned  PayoutState = "returned" // likewise, after it failed or came back from the bank
)

// PayoutEvent is what an operator says of a payout.
type PayoutEvent string

// The events.
const (
	Approve PayoutEvent = "approve"
	Pay     PayoutEvent = "pay" // the bank has paid it
	Fail    PayoutEvent = "fail"
	Decline PayoutEvent = "decline"
	Return  PayoutEvent = "return"
)

// payoutTransitions is the whole state machine. The table in docs/host.md is made
// from it.
//
//go:generate go test . -run TestTheDocumentShowsThePayoutStates -update
var payoutTransitions = map[PayoutState]map[PayoutEvent]PayoutState{
	Requested: {Approve: Approved, Decline: Declined},
	Approved:  {Pay: Paid, Fail: Failed, Decline: Declined},
	Failed:    {Approve: Approved, Return: Returned},
	// A bank may send back what it has paid, also much later.
	Paid:     {Return: Returned},
	Declined: {},
	Returned: {},
}

// PayoutStates lists all states in the order of a payout's life.
func PayoutStates() []PayoutState {
	return []PayoutState{Requested, Approved, Paid, Failed, Declined, Returned}
}

// Next returns the state that event leads to from s, and whether there is such a
// transition.
func (s PayoutState) Next(e PayoutEvent) (PayoutState, bool) {
	to, ok := payoutTransitions[s][e]
	return to, ok
}

// givenBack reports whether a payout in s has left its amount with the provider.
func (s PayoutState) givenBack() bool { return s == Declined || s == Returned }

// PayoutTable returns the state machine as a Markdown table.
func PayoutTable() string {
	return statemachine.Table(PayoutStates(), []PayoutEvent{Approve, Pay, Fail, Decline, Return}, PayoutState.Next)
}

// after lists the events that an error can name.
func (s PayoutState) after() []PayoutEvent {
	var out []PayoutEvent
	for e := range payoutTransitions[s] {
		out = append(out, e)
	}
	slices.Sort(out)
	return out
}

package waiting

import "suanli.dev/internal/statemachine"

// State is where a request is in its life.
type State string

// The states of a request.
const (
	Waiting   State = "waiting"   // for room, money or a price
	Started   State = "started"   // it has become a lease
	Cancelled State = "cancelled" // withdrawn by the renter
	Expired   State = "expired"   // nothing was found in time
	Failed    State = "failed"    // it can never become a lease
)

// Event is what happens to a request.
type Event string

// The events that move a request between states.
const (
	Start  Event = "start"  // its lease was accepted
	Cancel Event = "cancel" // by the renter
	Expire Event = "expire" // the time is over until which it waits
	Fail   Event = "fail"   // what keeps it from becoming a lease does not pass
)

// transitions is the whole state machine. The table in docs/queue.md is made from it.
//
//go:generate go test . -run TestTheDocumentShowsTheStateMachine -update
var transitions = map[State]map[Event]State{
	Waiting: {Start: Started, Cancel: Cancelled, Expire: Expired, Fail: Failed},
	Started: {}, Cancelled: {}, Expired: {}, Failed: {},
}

var events = []Event{Start, Cancel, Expire, Fail}

// States lists all states in the order of a request's life.
func States() []State { return []State{Waiting, Started, Cancelled, Expired, Failed} }

// Next returns the state that event leads to from s, and whether the machine has such a
// transition.
func (s State) Next(e Event) (State, bool) {
	to, ok := transitions[s][e]
	return to, ok
}

// Over reports whether nothing can happen to a request in s any more.
func (s State) Over() bool { return len(transitions[s]) == 0 }

// TransitionTable returns the state machine as a Markdown table.
func TransitionTable() string {
	return statemachine.Table(States(), events, State.Next)
}

package market

import "suanli.dev/internal/statemachine"

// State is where a bid is in its life.
type State string

// The states of a bid.
const (
	Waiting     State = "waiting"     // it has nothing yet
	Placed      State = "placed"      // its lease has a place and runs, or is about to
	Noticed     State = "noticed"     // likewise, and leaves when its notice ends
	Leaving     State = "leaving"     // its lease was told to stop, and still has its GPUs
	Interrupted State = "interrupted" // its lease waits with its disk for a place on its host
	Paused      State = "paused"      // its lease was stopped, by the renter or for want of money
	Cancelled   State = "cancelled"   // withdrawn by the renter
	Over        State = "over"        // its lease has ended
	Failed      State = "failed"      // what it wanted to run could not be started
)

// Event is what happens to a bid.
type Event string

// The events that move a bid between states.
const (
	Place     Event = "place"     // it won: a lease is made, or resumed
	Notice    Event = "notice"    // it lost
	Reprieve  Event = "reprieve"  // and won again before its notice ended
	Interrupt Event = "interrupt" // its notice is over
	Leave     Event = "leave"     // its lease has stopped, and kept its disk
	LosePlace Event = "lose"      // its lease was gone before it ever ran, by no fault of the renter
	Pause     Event = "pause"     // its lease was stopped otherwise
	Resume    Event = "resume"    // the renter wants the stopped lease to run again
	Cancel    Event = "cancel"    // by the renter
	Finish    Event = "finish"    // its lease has ended
	Fail      Event = "fail"      // its lease could not be started
)

// transitions is the whole state machine. The table in docs/market.md is made
// from it.
//
//go:generate go test . -run TestTheDocumentShowsTheStateMachine -update
var transitions = map[State]map[Event]State{
	Waiting: {Place: Placed, Cancel: Cancelled},
	Placed: {
		Notice: Noticed, Interrupt: Leaving, Leave: Interrupted, LosePlace: Waiting, Pause: Paused,
		Cancel: Cancelled, Finish: Over, Fail: Failed,
	},
	Noticed: {
		Reprieve: Placed, Interrupt: Leaving, Leave: Interrupted, LosePlace: Waiting, Pause: Paused,
		Cancel: Cancelled, Finish: Over, Fail: Failed,
	},
	Leaving: {
		Leave: Interrupted, LosePlace: Waiting, Pause: Paused, Cancel: Cancelled, Finish: Over, Fail: Failed,
	},
	Interrupted: {Place: Placed, Pause: Paused, Cancel: Cancelled, Finish: Over},
	Paused:      {Resume: Interrupted, Cancel: Cancelled, Finish: Over},
	Cancelled:   {}, Over: {}, Failed: {},
}

// States lists all states in the order of a bid's life.
func States() []State {
	return []State{Waiting, Placed, Noticed, Leaving, Interrupted, Paused, Cancelled, Over, Failed}
}

var events = []Event{Place, Notice, Reprieve, Interrupt, Leave, LosePlace, Pause, Resume, Cancel, Finish, Fail}

// Next returns the state that event leads to from s, and whether the machine has
// such a transition.
func (s State) Next(e Event) (State, bool) {
	to, ok := transitions[s][e]
	return to, ok
}

// Final reports whether a bid in s is out of the market for good.
func (s State) Final() bool { return len(transitions[s]) == 0 }

// Runs reports whether a bid in s has a lease with GPUs.
func (s State) Runs() bool { return s == Placed || s == Noticed || s == Leaving }

// TransitionTable returns the state machine as a Markdown table.
func TransitionTable() string {
	return statemachine.Table(States(), events, State.Next)
}

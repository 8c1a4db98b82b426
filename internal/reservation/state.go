package reservation

import "suanli.dev/internal/statemachine"

// State is where a reservation is in its life.
type State string

// The states of a reservation.
const (
	Scheduled   State = "scheduled"   // paid for what is upfront; it begins later
	Active      State = "active"      // its GPUs are held and paid for
	Undelivered State = "undelivered" // its GPUs are not there; nothing is charged
	Suspended   State = "suspended"   // there was no money for its hours; nothing is held or charged
	Ending      State = "ending"      // ended early; the clock hour in progress is the last
	Ended       State = "ended"
	Cancelled   State = "cancelled" // before it began; nothing was charged
)

// Event is what happens to a reservation.
type Event string

// The events that move a reservation between states.
const (
	Begin   Event = "begin"   // its time has come, and its GPUs are held
	Lose    Event = "lose"    // its host is silent or has not enough GPUs, or they were not free at its begin
	Restore Event = "restore" // they are there again
	Starve  Event = "starve"  // the account's money ran out
	Resume  Event = "resume"  // there is money and there are GPUs again
	End     Event = "end"     // by the renter, or it was suspended for too long
	Expire  Event = "expire"  // its last hour is over
)

// transitions is the whole state machine. The table in docs/reservations.md is made
// from it.
//
//go:generate go test . -run TestTheDocumentShowsTheStateMachine -update
var transitions = map[State]map[Event]State{
	Scheduled: {Begin: Active, Lose: Undelivered, End: Cancelled},
	Active:    {Lose: Undelivered, Starve: Suspended, End: Ending, Expire: Ended},
	// Its end costs nothing: what was paid for the rest comes back.
	Undelivered: {Restore: Active, Starve: Suspended, End: Ended, Expire: Ended},
	Suspended:   {Resume: Active, End: Ended, Expire: Ended},
	Ending:      {Starve: Ended, Expire: Ended},
	Ended:       {}, Cancelled: {},
}

var events = []Event{Begin, Lose, Restore, Starve, Resume, End, Expire}

// States lists all states in the order of a reservation's life.
func States() []State {
	return []State{Scheduled, Active, Undelivered, Suspended, Ending, Ended, Cancelled}
}

// Next returns the state that event leads to from s, and whether the machine has
// such a transition.
func (s State) Next(e Event) (State, bool) {
	to, ok := transitions[s][e]
	return to, ok
}

// Over reports whether nothing can happen to a reservation in s any more.
func (s State) Over() bool { return len(transitions[s]) == 0 }

// TransitionTable returns the state machine as a Markdown table.
func TransitionTable() string {
	return statemachine.Table(States(), events, State.Next)
}

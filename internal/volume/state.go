package volume

import "suanli.dev/internal/statemachine"

// State is where a volume is in its life.
type State string

// The states of a volume.
const (
	Creating  State = "creating"  // its host's disk is taken; the host makes it
	Available State = "available" // it is there and charged for, in use or not
	Deleting  State = "deleting"  // it is not charged for any more; its host removes it
	Deleted   State = "deleted"   // nothing of it is left
	Lost      State = "lost"      // its host was given up, and it with it
)

// Event is what happens to a volume.
type Event string

// The events that move a volume between states.
const (
	Make   Event = "make"   // its host has made it
	Refuse Event = "refuse" // its host cannot make it
	Remove Event = "remove" // by its owner, or it was unpaid for too long
	Gone   Event = "gone"   // its host has nothing of it
	Lose   Event = "lose"   // its host will never come back
)

// transitions is the whole state machine. The table in docs/volumes.md is made from it.
//
//go:generate go test . -run TheDocumentShows -update
var transitions = map[State]map[Event]State{
	Creating:  {Make: Available, Refuse: Deleting, Remove: Deleting, Lose: Lost},
	Available: {Remove: Deleting, Lose: Lost},
	Deleting:  {Gone: Deleted, Lose: Deleted},
	Deleted:   {}, Lost: {},
}

var events = []Event{Make, Refuse, Remove, Gone, Lose}

// States lists all states in the order of a volume's life.
func States() []State { return []State{Creating, Available, Deleting, Deleted, Lost} }

// Next returns the state that event leads to from s, and whether the machine has such
// a transition.
func (s State) Next(e Event) (State, bool) {
	to, ok := transitions[s][e]
	return to, ok
}

// Over reports whether nothing can happen to a volume in s any more.
func (s State) Over() bool { return len(transitions[s]) == 0 }

// TransitionTable returns the state machine as a Markdown table.
func TransitionTable() string {
	return statemachine.Table(States(), events, State.Next)
}

package cluster

import "suanli.dev/internal/statemachine"

// State is where a cluster is in its life.
type State string

// The states of a cluster.
const (
	Queued    State = "queued"    // waits for hosts; nothing is rented
	Forming   State = "forming"   // all of its leases are accepted; nothing is charged until all run
	Running   State = "running"   // all nodes run and reach each other
	Repairing State = "repairing" // a node was lost, and another one takes its place
	Ending    State = "ending"    // its leases are ending, as its renter wants
	Failing   State = "failing"   // its leases are ending, since it could not begin or go on
	Ended     State = "ended"
	Failed    State = "failed"
)

// Event is what happens to a cluster.
type Event string

// The events that move a cluster between states.
const (
	Place    Event = "place"    // hosts were found, and all leases accepted at once
	Complete Event = "complete" // all nodes run and reach each other
	Break    Event = "break"    // a node could not start in time, or at all
	Lose     Event = "lose"     // a node was lost, and shall be replaced
	Replace  Event = "replace"  // a lease for the lost node was accepted
	Spoil    Event = "spoil"    // a node was lost, and is not replaced
	GiveUp   Event = "give_up"  // no hosts were found in time
	End      Event = "end"      // by the renter
	Released Event = "released" // all of its leases are over
	Retry    Event = "retry"    // all of its leases are over, and other hosts are looked for
)

// transitions is the whole state machine. The table in docs/clusters.md is made from
// it.
//
//go:generate go test . -run TestTheDocumentShowsTheStateMachine -update
var transitions = map[State]map[Event]State{
	Queued:    {Place: Forming, GiveUp: Failed, End: Ended},
	Forming:   {Complete: Running, Break: Failing, End: Ending},
	Running:   {Lose: Repairing, Spoil: Failing, End: Ending},
	Repairing: {Replace: Repairing, Lose: Repairing, Complete: Running, Spoil: Failing, End: Ending},
	Ending:    {Released: Ended},
	Failing:   {Released: Failed, Retry: Queued, End: Ending},
	Ended:     {}, Failed: {},
}

var events = []Event{Place, Complete, Break, Lose, Replace, Spoil, GiveUp, End, Released, Retry}

// States lists all states in the order of a cluster's life.
func States() []State {
	return []State{Queued, Forming, Running, Repairing, Ending, Failing, Ended, Failed}
}

// Next returns the state that event leads to from s, and whether the machine has such a
// transition.
func (s State) Next(e Event) (State, bool) {
	to, ok := transitions[s][e]
	return to, ok
}

// Over reports whether nothing can happen to a cluster in s any more.
func (s State) Over() bool { return len(transitions[s]) == 0 }

// TransitionTable returns the state machine as a Markdown table.
func TransitionTable() string {
	return statemachine.Table(States(), events, State.Next)
}

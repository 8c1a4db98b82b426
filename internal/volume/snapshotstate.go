package volume

import "suanli.dev/internal/statemachine"

// SnapshotState is where a snapshot is in its life.
type SnapshotState string

// The states of a snapshot.
const (
	SnapshotCopying   SnapshotState = "copying"   // its volume's host writes it to object storage
	SnapshotAvailable SnapshotState = "available" // it is whole, and charged for
	SnapshotFailing   SnapshotState = "failing"   // what there is of it is removed
	SnapshotFailed    SnapshotState = "failed"    // it could not be made, and nothing of it is left
	SnapshotDeleting  SnapshotState = "deleting"  // it is not charged for any more; object storage removes it
	SnapshotDeleted   SnapshotState = "deleted"   // nothing of it is left
)

// SnapshotEvent is what happens to a snapshot.
type SnapshotEvent string

// The events that move a snapshot between states.
const (
	SnapshotFinish SnapshotEvent = "finish" // object storage has the whole of it
	SnapshotRefuse SnapshotEvent = "refuse" // it cannot be made
	SnapshotRemove SnapshotEvent = "remove" // by its owner, by retention, or it was unpaid for too long
	SnapshotGone   SnapshotEvent = "gone"   // object storage has nothing of it
)

// The table in docs/volumes.md is made from this one.
var snapshotTransitions = map[SnapshotState]map[SnapshotEvent]SnapshotState{
	SnapshotCopying:   {SnapshotFinish: SnapshotAvailable, SnapshotRefuse: SnapshotFailing, SnapshotRemove: SnapshotDeleting},
	SnapshotAvailable: {SnapshotRemove: SnapshotDeleting},
	SnapshotFailing:   {SnapshotGone: SnapshotFailed, SnapshotRemove: SnapshotDeleting},
	SnapshotDeleting:  {SnapshotGone: SnapshotDeleted},
	SnapshotFailed:    {}, SnapshotDeleted: {},
}

var snapshotEvents = []SnapshotEvent{SnapshotFinish, SnapshotRefuse, SnapshotRemove, SnapshotGone}

// SnapshotStates lists all states in the order of a snapshot's life.
func SnapshotStates() []SnapshotState {
	return []SnapshotState{SnapshotCopying, SnapshotAvailable, SnapshotFailing, SnapshotFailed, SnapshotDeleting, SnapshotDeleted}
}

// Next returns the state that event leads to from s, and whether the machine has such
// a transition.
func (s SnapshotState) Next(e SnapshotEvent) (SnapshotState, bool) {
	to, ok := snapshotTransitions[s][e]
	return to, ok
}

// Over reports whether nothing can happen to a snapshot in s any more.
func (s SnapshotState) Over() bool { return len(snapshotTransitions[s]) == 0 }

// SnapshotTable returns the state machine as a Markdown table.
func SnapshotTable() string {
	return statemachine.Table(SnapshotStates(), snapshotEvents, SnapshotState.Next)
}

package lease

import "suanli.dev/internal/statemachine"

// State is where a lease is in its life.
type State string

// The states of a lease.
const (
	Accepted     State = "accepted"     // paid for and reserved; the host has not been told
	Provisioning State = "provisioning" // the host was told; pulling, creating
	Running      State = "running"
	Stopping     State = "stopping"
	Stopped      State = "stopped" // no container; the disk is kept and charged
	Starting     State = "starting"
	Interrupted  State = "interrupted" // no container; the disk waits for its bid to win a place again
	Unreachable  State = "unreachable" // the host is silent; nothing is charged
	Ending       State = "ending"
	Ended        State = "ended"
	Failed       State = "failed" // never ran, never charged
)

// Event is what happens to a lease.
type Event string

// The events that move a lease between states.
const (
	Dispatch       Event = "dispatch"        // about to command the host for the first time
	ConfirmRunning Event = "confirm_running" // the host reports it running
	ConfirmStopped Event = "confirm_stopped" // the host reports it stopped, whoever stopped it
	ConfirmAbsent  Event = "confirm_absent"  // the host reports that nothing is left of it
	ReportFailure  Event = "report_failure"  // the host could not start it
	RequestStop    Event = "request_stop"    // by the renter, a deadline, or an empty balance
	RequestStart   Event = "request_start"   // by the renter, with capacity reserved
	RequestRestart Event = "request_restart" // by the renter: a new container, the same disk
	RequestEnd     Event = "request_end"     // by the renter, or storage grace is over
	LoseHost       Event = "lose_host"       // the host fell silent
	LoseInstance   Event = "lose_instance"   // the host is there and knows nothing of it
	Notice         Event = "notice"          // the spot market takes its place away in a while
	Reprieve       Event = "reprieve"        // and does not after all
	Outbid         Event = "outbid"          // the spot market takes its place away
	RequestPlace   Event = "request_place"   // by the renter: its bid shall win it a place again

	// ConfirmInterrupted is ConfirmStopped of one that stopped as it was outbid.
	ConfirmInterrupted Event = "confirm_interrupted"
	AbandonHost        Event = "abandon_host"    // the operator gave the host up for good
	HostFault          Event = "host_fault"      // it runs, without GPUs that it pays for, by its host's fault
	HostFaultOver      Event = "host_fault_over" // it has them again by itself
	ClaimMet           Event = "claim_met"       // the GPUs that it waited for have been left
	GangComplete       Event = "gang_complete"   // all leases of its gang run: what it costs begins
)

// transitions is the whole state machine. The table in docs/leases.md is made
// from it.
//
//go:generate go test . -run TestTheDocumentShowsTheStateMachine -update
var transitions = map[State]map[Event]State{
	Accepted: {
		Dispatch: Provisioning,
		// Nothing was ever sent to the host, so nothing can be left on it.
		RequestEnd: Ended, AbandonHost: Failed, Outbid: Ended,
		Notice: Accepted, Reprieve: Accepted,
		// It is dispatched after that, and not before.
		ClaimMet: Accepted,
	},
	Provisioning: {
		ConfirmRunning: Running, ReportFailure: Failed, RequestEnd: Ending,
		// A host may start and finish a short command between two reports.
		ConfirmStopped: Stopped, LoseInstance: Failed, AbandonHost: Failed,
		// It never ran, so there is no disk to keep: its bid begins anew elsewhere.
		Outbid: Ending, Notice: Provisioning, Reprieve: Provisioning,
	},
	Running: {
		ConfirmStopped: Stopped, RequestStop: Stopping, RequestRestart: Starting, RequestEnd: Ending,
		LoseHost: Unreachable, LoseInstance: Ending, AbandonHost: Ended,
		// Its GPUs are given to nobody before the host has confirmed that it left.
		Outbid: Stopping, Notice: Running, Reprieve: Running,
		// It goes on: what to do about it is its renter's choice.
		HostFault: Running, HostFaultOver: Running,
		GangComplete: Running,
	},
	Unreachable: {
		ConfirmRunning: Running, ConfirmStopped: Stopped, RequestStop: Stopping, RequestEnd: Ending,
		LoseInstance: Ending, AbandonHost: Ended,
	},
	Stopping: {
		ConfirmStopped: Stopped, RequestEnd: Ending, LoseInstance: Ending, AbandonHost: Ended,
		ConfirmInterrupted: Interrupted,
		// It stays what it is; only what it costs ends.
		LoseHost: Stopping,
	},
	Stopped: {
		RequestStart: Starting, RequestEnd: Ending, AbandonHost: Ended,
		// The disk is gone, so there is nothing to start again and nothing to pay.
		LoseInstance: Ending,
		RequestPlace: Interrupted,
	},
	Starting: {
		// A start that fails leaves the renter with what was there before: the disk.
		ConfirmRunning: Running, ReportFailure: Stopped, ConfirmStopped: Stopped,
		RequestStop: Stopping, RequestEnd: Ending, LoseInstance: Ending, AbandonHost: Ended,
		Outbid: Stopping, Notice: Starting, Reprieve: Starting,
	},
	Interrupted: {
		// RequestStart is the market's alone.
		RequestStart: Starting, RequestStop: Stopped, RequestEnd: Ending, LoseInstance: Ending, AbandonHost: Ended,
	},
	Ending: {
		ConfirmAbsent: Ended, LoseInstance: Ended, AbandonHost: Ended, LoseHost: Ending,
	},
	Ended:  {},
	Failed: {},
}

// States lists all states in the order of a lease's life.
func States() []State {
	return []State{Accepted, Provisioning, Running, Stopping, Stopped, Starting, Interrupted, Unreachable, Ending, Ended, Failed}
}

// Next returns the state that event leads to from s, and whether the machine
// has such a transition.
func (s State) Next(e Event) (State, bool) {
	to, ok := transitions[s][e]
	return to, ok
}

// Over reports whether a lease in s will never run again.
func (s State) Over() bool { return s == Ended || s == Failed }

// HoldsCompute reports whether a lease in s has GPUs of its host to itself. A
// failed lease keeps them until the host is proven clean; see Lease.Cleaned.
func (s State) HoldsCompute() bool {
	switch s {
	case Accepted, Provisioning, Running, Stopping, Starting, Unreachable, Ending:
		return true
	}
	return false
}

// TransitionTable returns the state machine as a Markdown table.
func TransitionTable() string {
	events := []Event{ClaimMet, Dispatch, ConfirmRunning, GangComplete, ConfirmStopped, ConfirmInterrupted, ConfirmAbsent, ReportFailure, RequestStop,
		RequestStart, RequestPlace, RequestRestart, RequestEnd, LoseHost, LoseInstance, Notice, Reprieve, Outbid, AbandonHost, HostFault, HostFaultOver}
	return statemachine.Table(States(), events, State.Next)
}

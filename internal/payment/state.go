package payment

import "suanli.dev/internal/statemachine"

// State is where a payment is in its life.
type State string

// The states of a payment.
const (
	Created   State = "created"   // written down; its provider has not answered
	Pending   State = "pending"   // the payer, or who confirms a bank transfer, has the next move
	Aside     State = "aside"     // money came that is not what was asked for: an operator decides
	Succeeded State = "succeeded" // paid, and not in the wallet yet
	Credited  State = "credited"  // in the wallet
	Failed    State = "failed"
	Expired   State = "expired"
	Refunding State = "refunding" // out of the wallet, and on its way back
	Refunded  State = "refunded"  // all of it
	Disputed  State = "disputed"  // taken back by the payer's bank, for now or for good
)

// Event is what happens to a payment.
type Event string

// The events that move a payment between states.
const (
	Offer       Event = "offer"        // the provider has made the checkout, or a transfer was entered
	Succeed     Event = "succeed"      // the provider has the money
	Mismatch    Event = "mismatch"     // it has another amount or currency than was asked for
	Credit      Event = "credit"       // it is posted to the wallet
	Fail        Event = "fail"         // the provider refused it, or the payer's bank did
	Expire      Event = "expire"       // nobody paid in time
	Accept      Event = "accept"       // an operator takes what was put aside for what it is
	Dismiss     Event = "dismiss"      // or has given it back at the provider
	Reverse     Event = "reverse"      // a bank transfer was entered wrongly
	Refund      Event = "refund"       // an operator gives back a part or all
	RefundPart  Event = "refund_part"  // a part has gone back
	RefundWhole Event = "refund_whole" // all has gone back
	RefundFail  Event = "refund_fail"  // it did not; it is in the wallet again
	Dispute     Event = "dispute"      // the payer's bank took it back
	WinDispute  Event = "win_dispute"  // and gave it up again
	LoseDispute Event = "lose_dispute" // and keeps it
)

// transitions is the whole state machine. The table in docs/payments.md is made
// from it.
//
//go:generate go test . -run TestTheDocumentShowsTheStateMachine -update
var transitions = map[State]map[Event]State{
	Created: {
		// A callback may come before the provider's answer to our own request.
		Offer: Pending, Succeed: Succeeded, Mismatch: Aside, Fail: Failed, Expire: Expired,
	},
	Pending: {Succeed: Succeeded, Mismatch: Aside, Fail: Failed, Expire: Expired, Reverse: Failed},
	Aside:   {Accept: Succeeded, Dismiss: Failed},
	// Money that comes late has come.
	Failed:    {Succeed: Succeeded, Mismatch: Aside},
	Expired:   {Succeed: Succeeded, Mismatch: Aside},
	Succeeded: {Credit: Credited},
	Credited: {
		Refund: Refunding, Reverse: Refunded, Dispute: Disputed,
		// Somebody has given it back at the provider itself, or a refund that had
		// gone through came back.
		RefundPart: Credited, RefundWhole: Refunded, RefundFail: Credited,
	},
	Refunding: {RefundPart: Credited, RefundWhole: Refunded, RefundFail: Credited, Dispute: Disputed},
	// A bank may say long after that a refund could not be paid out.
	Refunded: {RefundFail: Credited, Dispute: Disputed},
	Disputed: {WinDispute: Credited, LoseDispute: Disputed, RefundPart: Disputed, RefundWhole: Disputed, RefundFail: Disputed, Dispute: Disputed},
}

// States lists all states in the order of a payment's life.
func States() []State {
	return []State{Created, Pending, Aside, Succeeded, Credited, Failed, Expired, Refunding, Refunded, Disputed}
}

var events = []Event{Offer, Succeed, Mismatch, Credit, Fail, Expire, Accept, Dismiss, Reverse, Refund, RefundPart, RefundWhole, RefundFail, Dispute, WinDispute, LoseDispute}

// Next returns the state that event leads to from s, and whether the machine has
// such a transition.
func (s State) Next(e Event) (State, bool) {
	to, ok := transitions[s][e]
	return to, ok
}

// InWallet reports whether a payment in s was credited once.
func (s State) InWallet() bool {
	return s == Credited || s == Refunding || s == Refunded || s == Disputed
}

// TransitionTable returns the state machine as a Markdown table.
func TransitionTable() string {
	return statemachine.Table(States(), events, State.Next)
}

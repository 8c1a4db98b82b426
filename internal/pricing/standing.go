package pricing

import (
	"time"

	"suanli.dev/internal/money"
	"suanli.dev/internal/statemachine"
)

// InvoiceState is how an invoice stands. It is never stored: StateOf derives it
// from what postings say, and the table says which changes there can be.
type InvoiceState string

// The states of an invoice.
const (
	InvoiceOpen          InvoiceState = "open"          // issued, not paid, and its due day has not come
	InvoiceDue           InvoiceState = "due"           // this is the last day to pay it
	InvoiceOverdue       InvoiceState = "overdue"       // that day is over
	InvoicePaid          InvoiceState = "paid"          // nothing of it is owed
	InvoiceCredited      InvoiceState = "credited"      // credit notes took all of it back
	InvoiceUncollectible InvoiceState = "uncollectible" // the operator wrote off what was owed
)

// InvoiceStates are all states, in the order of an invoice's life.
func InvoiceStates() []InvoiceState {
	return []InvoiceState{InvoiceOpen, InvoiceDue, InvoiceOverdue, InvoicePaid, InvoiceCredited, InvoiceUncollectible}
}

// InvoiceEvent is something that changes how an invoice stands.
type InvoiceEvent string

// What happens to invoices.
const (
	DueDayCame  InvoiceEvent = "due_day_came"
	DueDayOver  InvoiceEvent = "due_day_over"
	PaidInFull  InvoiceEvent = "paid_in_full"
	CreditedAll InvoiceEvent = "credited_in_full"
	WrittenOff  InvoiceEvent = "written_off"
)

var invoiceEvents = []InvoiceEvent{DueDayCame, DueDayOver, PaidInFull, CreditedAll, WrittenOff}

// invoiceMoves is the state machine. What is paid can be credited still: the money
// goes to the balance.
var invoiceMoves = map[InvoiceState]map[InvoiceEvent]InvoiceState{
	InvoiceOpen:          {DueDayCame: InvoiceDue, PaidInFull: InvoicePaid, CreditedAll: InvoiceCredited},
	InvoiceDue:           {DueDayOver: InvoiceOverdue, PaidInFull: InvoicePaid, CreditedAll: InvoiceCredited},
	InvoiceOverdue:       {PaidInFull: InvoicePaid, CreditedAll: InvoiceCredited, WrittenOff: InvoiceUncollectible},
	InvoicePaid:          {CreditedAll: InvoiceCredited},
	InvoiceCredited:      {},
	InvoiceUncollectible: {CreditedAll: InvoiceCredited},
}

// Next returns the state that an event leads to, and whether there is such a change.
func (s InvoiceState) Next(e InvoiceEvent) (InvoiceState, bool) {
	to, ok := invoiceMoves[s][e]
	return to, ok
}

// InvoiceTable returns the state machine as a Markdown table.
func InvoiceTable() string {
	return statemachine.Table(InvoiceStates(), invoiceEvents, InvoiceState.Next)
}

// Standing is what is known of an invoice.
type Standing struct {
	Total      money.Amount `json:"total"`
	Credited   money.Amount `json:"credited"`    // by credit notes
	WrittenOff money.Amount `json:"written_off"` // by the operator
	Owed       money.Amount `json:"owed"`        // see Owed
	DueAt      time.Time    `json:"due_at"`      // the end of the due day, not in it
	DueFrom    time.Time    `json:"due_from"`    // its beginning
}

// StateOf derives an invoice's state at a moment.
func StateOf(s Standing, at time.Time) InvoiceState {
	switch {
	case s.Total > 0 && s.Credited >= s.Total:
		return InvoiceCredited
	case s.WrittenOff > 0:
		return InvoiceUncollectible
	case s.Owed <= 0:
		return InvoicePaid
	case at.Before(s.DueFrom):
		return InvoiceOpen
	case at.Before(s.DueAt):
		return InvoiceDue
	}
	return InvoiceOverdue
}

// Owed returns what is owed of each of an account's invoices, oldest first, when
// its balance, with all that is not on an invoice yet left out, is so much. Money
// pays the oldest first, so what is missing is missing of the newest. Each invoice
// is given without what was credited or written off.
func Owed(invoices []money.Amount, balance money.Amount) []money.Amount {
	out := make([]money.Amount, len(invoices))
	missing := max(0, -balance)
	for i := len(invoices) - 1; i >= 0; i-- {
		out[i] = min(missing, max(0, invoices[i]))
		missing -= out[i]
	}
	return out
}

// DueDay returns the day on which an invoice is due that was issued at a moment,
// so many days later by the calendar of a zone: its beginning, and its end, which
// is not in it. 0 days is the day of issue.
func DueDay(issued time.Time, netDays int, timeZone string) (from, until time.Time, err error) {
	zone, err := location(timeZone)
	if err != nil {
		return time.Time{}, time.Time{}, err
	}
	l := issued.In(zone)
	return dayOf(l, netDays, zone), dayOf(l, netDays+1, zone), nil
}

// dayOf is when the day begins that comes so many days after l's.
func dayOf(l time.Time, days int, zone *time.Location) time.Time {
	return wall(l.Year(), l.Month(), l.Day()+days, 0, zone).UTC()
}

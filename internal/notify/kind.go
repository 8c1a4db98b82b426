package notify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/money"
)

// The kinds of news. They are the API's and do not change; a kind may get fields.
const (
	KindBalanceLow        = "balance.low"
	KindBalanceExhausted  = "balance.exhausted"
	KindSpotNotice        = "lease.spot_notice"
	KindInterrupted       = "lease.interrupted"
	KindResumed           = "lease.resumed"
	KindFailed            = "lease.failed"
	KindStoppedForBalance = "lease.stopped_for_balance"
	KindDeletionPlanned   = "storage.deletion_planned"
	KindDeleted           = "storage.deleted"
	KindInvoiceIssued     = "invoice.issued"
	KindInvoiceDue        = "invoice.due"
	KindInvoiceOverdue    = "invoice.overdue"
	KindBudgetReached     = "budget.reached"
	KindPriceChange       = "price_change.proposed"
	KindReservationEnding = "reservation.expiring"
	KindPaymentReceived   = "payment.received"
	KindWebhookDisabled   = "webhook.disabled"
	KindWaitingStarted    = "waiting_request.started"
	KindWaitingHeldBack   = "waiting_request.held_back"
	KindWaitingExpired    = "waiting_request.expired"
	KindWaitingFailed     = "waiting_request.failed"

	// kindTest is of deliveries that somebody asked for to try a webhook; nothing
	// happened, so it is no notification.
	kindTest = "webhook.test"
)

// BalanceLow is the payload of balance.low; its subject is the account. It is sent
// once for each step on the way down, and again after money came in.
type BalanceLow struct {
	Currency         string       `json:"currency"`
	Funds            money.Amount `json:"funds" doc:"What leases can still use, holds included, less what is due"`
	BurnPerHour      money.Amount `json:"burn_per_hour" doc:"What an hour costs as it is"`
	Until            time.Time    `json:"until" doc:"When the money ends, if all goes on as it is"`
	ThresholdSeconds int64        `json:"threshold_seconds" doc:"The step that was reached: the money lasts this long at most"`
}

// BalanceExhausted is the payload of balance.exhausted; its subject is the account.
type BalanceExhausted struct {
	Currency string       `json:"currency"`
	Debt     money.Amount `json:"debt" doc:"What is owed, at least 0"`
	DeleteAt time.Time    `json:"delete_at" doc:"When unpaid disks are deleted"`
}

// SpotNotice is the payload of lease.spot_notice; its subject is the lease.
type SpotNotice struct {
	Name        string    `json:"name" doc:"The lease's"`
	BidID       string    `json:"bid_id"`
	Code        string    `json:"code" doc:"Why, such as outbid"`
	InterruptAt time.Time `json:"interrupt_at" doc:"When its place is taken away"`
	Simulated   bool      `json:"simulated"`
}

// LeaseNews is the payload of lease.interrupted, lease.resumed, lease.failed and
// lease.stopped_for_balance; its subject is the lease.
type LeaseNews struct {
	Name      string `json:"name" doc:"The lease's"`
	BidID     string `json:"bid_id,omitempty" doc:"Of a lease of the spot market"`
	Code      string `json:"code,omitempty" doc:"Why"`
	Message   string `json:"message,omitempty" doc:"The same in a sentence"`
	Simulated bool   `json:"simulated"`
}

// DeletionPlanned is the payload of storage.deletion_planned; its subject is the
// account whose disks are unpaid. It is sent once for each step.
type DeletionPlanned struct {
	DeleteAt         time.Time `json:"delete_at" doc:"When the disks are deleted unless money comes in"`
	ThresholdSeconds int64     `json:"threshold_seconds" doc:"The step that was reached: it is this long until then at most"`
}

// StorageDeleted is the payload of storage.deleted; its subject is the lease or the
// volume.
type StorageDeleted struct {
	Name      string `json:"name"`
	Code      string `json:"code,omitempty" doc:"Why, such as storage_grace"`
	Simulated bool   `json:"simulated"`
}

// InvoiceNews is the payload of invoice.issued, invoice.due and invoice.overdue; its
// subject is the invoice.
type InvoiceNews struct {
	Number   string       `json:"number"`
	Currency string       `json:"currency"`
	Total    money.Amount `json:"total" doc:"In whole minor units"`
	Open     money.Amount `json:"open,omitempty" doc:"What of it is unpaid; absent: nothing"`
	From     time.Time    `json:"from" doc:"The beginning of what it is for"`
	To       time.Time    `json:"to" doc:"The end of what it is for"`
	DueAt    *time.Time   `json:"due_at,omitempty" doc:"Until when it is to be paid; absent: it was paid in advance"`
	StopAt   *time.Time   `json:"stop_at,omitempty" doc:"When compute stops unless it is paid"`
	// ComputeStopped says that nothing runs until it is paid.
	ComputeStopped bool `json:"compute_stopped,omitempty" doc:"Nothing runs until it is paid"`
	Simulated      bool `json:"simulated"`
}

// BudgetReached is the payload of budget.reached; its subject is the budget.
type BudgetReached struct {
	Name             string       `json:"name"`
	Currency         string       `json:"currency"`
	Amount           money.Amount `json:"amount" doc:"The whole budget"`
	Spent            money.Amount `json:"spent"`
	Forecast         money.Amount `json:"forecast,omitempty" doc:"What the period is going to cost; absent: not the reason"`
	ShareBasisPoints int64        `json:"share_basis_points" doc:"The threshold that was reached, of the amount"`
	From             time.Time    `json:"from" doc:"The period's beginning"`
	To               time.Time    `json:"to" doc:"The period's end"`
}

// PriceChange is the payload of price_change.proposed; its subject is the lease.
type PriceChange struct {
	Name        string     `json:"name" doc:"The lease's"`
	Currency    string     `json:"currency"`
	PerHour     money.Rate `json:"per_hour" doc:"Now"`
	NewPerHour  money.Rate `json:"new_per_hour" doc:"As proposed"`
	EffectiveAt time.Time  `json:"effective_at" doc:"From when, if it is agreed to"`
	AnswerBy    time.Time  `json:"answer_by"`
	Simulated   bool       `json:"simulated"`
}

// ReservationEnding is the payload of reservation.expiring; its subject is the
// lease or the reservation.
type ReservationEnding struct {
	Name             string       `json:"name"`
	Until            time.Time    `json:"until" doc:"The end of the term that is paid for"`
	Renews           bool         `json:"renews" doc:"Another term follows by itself if the money is there"`
	MoneyMissing     bool         `json:"money_missing" doc:"It is not there"`
	NextPrice        money.Amount `json:"next_price,omitempty" doc:"Of the next term"`
	Currency         string       `json:"currency,omitempty"`
	ThresholdSeconds int64        `json:"threshold_seconds" doc:"The step that was reached: the term lasts this long at most"`
	Simulated        bool         `json:"simulated"`
}

// PaymentReceived is the payload of payment.received; its subject is the payment or
// the transfer.
type PaymentReceived struct {
	Currency  string       `json:"currency"`
	Amount    money.Amount `json:"amount"`
	Method    string       `json:"method" doc:"Such as deposit, card or bank_transfer"`
	Reference string       `json:"reference,omitempty" doc:"The payer's or the payment provider's"`
	InvoiceID string       `json:"invoice_id,omitempty" doc:"What it was for; absent: the balance"`
}

// WebhookDisabled is the payload of webhook.disabled; its subject is the webhook.
type WebhookDisabled struct {
	URL          string    `json:"url" doc:"Without its query"`
	Reason       string    `json:"reason" doc:"gave_up after a day of failures, or gone as its receiver answered 410"`
	FailingSince time.Time `json:"failing_since" doc:"Of the first attempt since it took one"`
}

// WaitingNews is the payload of waiting_request.started, .held_back, .expired and
// .failed; its subject is the request.
type WaitingNews struct {
	Name      string    `json:"name" doc:"Of the request, and of its lease"`
	GPUModel  string    `json:"gpu_model"`
	GPUs      int64     `json:"gpus"`
	LeaseID   string    `json:"lease_id,omitempty" doc:"What it has become"`
	Code      string    `json:"code,omitempty" doc:"Why, such as insufficient_balance"`
	Message   string    `json:"message,omitempty" doc:"The same in a sentence"`
	ExpiresAt time.Time `json:"expires_at" doc:"Until when it waits, or waited"`
	Simulated bool      `json:"simulated"`
}

// WebhookTest is the payload of what a test of a webhook delivers.
type WebhookTest struct {
	Message string `json:"message"`
}

// kind is what is known of a kind of news.
type kind struct {
	name string
	// when says, for the table of kinds, when it is announced.
	when string
	// action is what a user must be allowed to do to read it.
	action  account.Action
	payload reflect.Type
}

// kinds are all kinds, in the order of the documentation.
var kinds = []kind{
	{KindBalanceLow, "the money lasts 24 h, 1 h or 10 min more at most: each once, and again after it lasted longer", account.ReadBilling, reflect.TypeFor[BalanceLow]()},
	{KindBalanceExhausted, "the money has ended: what runs is stopped", account.ReadBilling, reflect.TypeFor[BalanceExhausted]()},
	{KindSpotNotice, "the spot market is about to take a lease's place away", account.ReadLeases, reflect.TypeFor[SpotNotice]()},
	{KindInterrupted, "the spot market took a lease's place away, and it has stopped", account.ReadLeases, reflect.TypeFor[LeaseNews]()},
	{KindResumed, "an interrupted lease has won a place again and starts", account.ReadLeases, reflect.TypeFor[LeaseNews]()},
	{KindFailed, "a lease could not be started; it costs nothing", account.ReadLeases, reflect.TypeFor[LeaseNews]()},
	{KindStoppedForBalance, "a lease was stopped since the balance, its spending cap or a budget is used up; its disk is kept", account.ReadLeases, reflect.TypeFor[LeaseNews]()},
	{KindDeletionPlanned, "unpaid disks are going to be deleted: at once when that is known, and a day, an hour and ten minutes before", account.ReadLeases, reflect.TypeFor[DeletionPlanned]()},
	{KindDeleted, "a disk was deleted as it was kept unpaid for too long", account.ReadLeases, reflect.TypeFor[StorageDeleted]()},
	{KindInvoiceIssued, "a month was closed and its invoice written", account.ReadBilling, reflect.TypeFor[InvoiceNews]()},
	{KindInvoiceDue, "an invoice that is paid afterwards is due soon", account.ReadBilling, reflect.TypeFor[InvoiceNews]()},
	{KindInvoiceOverdue, "an invoice is unpaid after it was due", account.ReadBilling, reflect.TypeFor[InvoiceNews]()},
	{KindBudgetReached, "spending, or its forecast, has reached a threshold of a budget", account.ReadBilling, reflect.TypeFor[BudgetReached]()},
	{KindPriceChange, "a provider proposes another price for a lease", account.ReadLeases, reflect.TypeFor[PriceChange]()},
	{KindReservationEnding, "a term that is paid in advance ends soon", account.ReadLeases, reflect.TypeFor[ReservationEnding]()},
	{KindPaymentReceived, "money has come in", account.ReadBilling, reflect.TypeFor[PaymentReceived]()},
	{KindWaitingStarted, "a request that waited has become a lease", account.ReadLeases, reflect.TypeFor[WaitingNews]()},
	{KindWaitingHeldBack, "there is room for a request that waits, and no money, or a budget is used up: once, and again after it waited for something else", account.ReadLeases, reflect.TypeFor[WaitingNews]()},
	{KindWaitingExpired, "a request has waited in vain until its time was over; nothing was charged", account.ReadLeases, reflect.TypeFor[WaitingNews]()},
	{KindWaitingFailed, "a request that waits can never become a lease, as it is; nothing was charged", account.ReadLeases, reflect.TypeFor[WaitingNews]()},
	{KindWebhookDisabled, "a webhook was switched off, as it could not be reached for a day", account.ReadAccount, reflect.TypeFor[WebhookDisabled]()},
}

// Kinds lists the names of all kinds.
func Kinds() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

func kindOf(name string) (kind, bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return kind{}, false
	}
	return kinds[i], true
}

// encode returns data as the kind's payload in JSON. data may be of another type
// with the same fields, so that who announces need not import this package; what
// does not fit is an error, so that receivers get what the documentation says.
func (k kind) encode(data any) (string, error) {
	raw, err := json.Marshal(data)
	if err != nil {
		return "", err
	}
	payload := reflect.New(k.payload)
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(payload.Interface()); err != nil {
		return "", fmt.Errorf("the payload is not that of the kind: %w", err)
	}
	text, err := json.Marshal(payload.Interface())
	return string(text), err
}

// readable are the kinds that p may read.
func readable(p account.Principal) []string {
	var names []string
	for _, k := range kinds {
		if p.May(k.action) {
			names = append(names, k.name)
		}
	}
	return names
}

// Glossary returns the kinds and their payloads as Markdown; the document has it.
//
//go:generate go test . -run TestTheDocumentShowsTheGlossary -update
func Glossary() string {
	var b strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&b, "### `%s`\n\nWhen %s. Read with `%s`.\n\n| field | type | meaning |\n|---|---|---|\n", k.name, k.when, k.action)
		for f := range k.payload.Fields() {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			typ := wireType(f.Type)
			if options == "omitempty" {
				typ += ", may be absent"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, typ, f.Tag.Get("doc"))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// wireType is how a field's type reads in JSON.
func wireType(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[time.Time]():
		return "time"
	case reflect.TypeFor[money.Amount](), reflect.TypeFor[money.Rate]():
		return "decimal string"
	}
	if t.Kind() == reflect.Int64 {
		return "integer"
	}
	return t.Kind().String()
}

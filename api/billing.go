package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Balance is where an account stands. Available is Settled and CreditLimit less
// Held less UnbilledDue.
type Balance struct {
	Currency    string     `json:"currency"`
	Settled     Amount     `json:"settled" doc:"All that was paid in, less all that was charged and posted; negative: debt"`
	Held        Amount     `json:"held" doc:"Part of settled and credit_limit that is set aside for leases"`
	CreditLimit Amount     `json:"credit_limit" doc:"How far below zero compute may run; 0: the account is prepaid"`
	UnbilledDue Amount     `json:"unbilled_due" doc:"Used, not posted yet, and not paid by grants; it is posted on the hour and at each stop"`
	Available   Amount     `json:"available" doc:"What a new lease can be begun with"`
	Granted     Amount     `json:"granted" doc:"What is left of grants for compute of any GPU model, to be used now; it pays before the rest"`
	BurnPerHour Amount     `json:"burn_per_hour" doc:"What runs and is kept costs now, without egress"`
	RunsOutAt   *time.Time `json:"runs_out_at,omitempty" doc:"When the money ends if all goes on as it is; absent: not within a year"`
}

// Bill is what a lease has cost, and why. Its lines add up to Total.
type Bill struct {
	LeaseID             string            `json:"lease_id"`
	Currency            string            `json:"currency"`
	Simulated           bool              `json:"simulated" doc:"The GPUs are simulated: there is no hardware"`
	Plan                string            `json:"plan"`
	At                  time.Time         `json:"at" doc:"The moment that the bill is for"`
	BegunAt             time.Time         `json:"begun_at"`
	EndedAt             *time.Time        `json:"ended_at,omitempty"`
	Lines               []BillLine        `json:"lines" nullable:"false"`
	Total               Amount            `json:"total"`
	Posted              Amount            `json:"posted" doc:"Part of total that has been taken from the balance"`
	Unbilled            Amount            `json:"unbilled" doc:"Total less posted; negative: a correction is to come"`
	ProviderShare       Amount            `json:"provider_share" doc:"Part of total that the host's provider earns"`
	Commission          Amount            `json:"commission" doc:"Part of total that the cloud keeps"`
	PricePerHourByState map[string]Amount `json:"price_per_hour_by_state" doc:"What an hour costs in each state of the lease"`
}

// BillLine is one run, one month of storage, all egress, or one payment in advance of
// a lease.
type BillLine struct {
	Kind     string     `json:"kind" enum:"use,covered,term,renewal,change,refund,upfront,lost,early_end" doc:"Use; use that is paid for otherwise; months in advance: paid, renewed, changed in price, given back; or of a reservation: paid at once, given back for lost time, an early end"`
	Meter    string     `json:"meter" enum:"compute,storage,egress"`
	Start    *time.Time `json:"start,omitempty" doc:"Absent for egress"`
	End      *time.Time `json:"end,omitempty" doc:"Absent for egress; of an open line, the last sign of life"`
	Open     bool       `json:"open" doc:"It goes on"`
	Used     int64      `json:"used" doc:"What was measured, in unit"`
	Charged  int64      `json:"charged" doc:"What it counts as, in unit: with the minimum and the granularity"`
	Unit     string     `json:"unit" doc:"s, GiB·s, byte or month"`
	Rate     Rate       `json:"rate" doc:"Price of one rate_unit"`
	RateUnit string     `json:"rate_unit" doc:"hour, GiB-month (of the month's real length), GB (1,000,000,000 bytes) or month"`
	Amount   Amount     `json:"amount"`
	Words    string     `json:"words" doc:"The line in a sentence"`
}

// Charge is one posted difference of one meter of one lease.
type Charge struct {
	ID        string    `json:"id"`
	LeaseID   string    `json:"lease_id"`
	Meter     string    `json:"meter" enum:"compute,storage,egress"`
	Currency  string    `json:"currency"`
	Amount    Amount    `json:"amount" doc:"Negative: a correction"`
	Simulated bool      `json:"simulated" doc:"The GPUs are simulated: there is no hardware"`
	From      time.Time `json:"from" doc:"Start of the stretch that was settled"`
	To        time.Time `json:"to" doc:"Its end"`
	PostedAt  time.Time `json:"posted_at"`
}

// Transfer is one double entry that touched the account's wallet, hold or debt.
type Transfer struct {
	ID          string    `json:"id"`
	Debit       string    `json:"debit" doc:"The ledger account that the money left"`
	Credit      string    `json:"credit" doc:"The ledger account that it went to"`
	Amount      Amount    `json:"amount"`
	Currency    string    `json:"currency"`
	Code        string    `json:"code" doc:"deposit, hold, release, charge, correction, repayment, prepayment, prepayment_back, grant, grant_expired, tax, rounding, credit or paid_back"`
	Reference   string    `json:"reference,omitempty" doc:"What it is about, such as a lease"`
	EffectiveAt time.Time `json:"effective_at"`
	PostedAt    time.Time `json:"posted_at"`
}

// Earning is what a provider has earned in one currency.
type Earning struct {
	Currency        string `json:"currency"`
	Charged         Amount `json:"charged" doc:"What renters were charged for your hosts"`
	Commission      Amount `json:"commission" doc:"The cloud's part of it"`
	Earned          Amount `json:"earned" doc:"Charged less commission"`
	EarnedSimulated Amount `json:"earned_simulated" doc:"The part of earned that is for simulated GPUs"`
	Payable         Amount `json:"payable" doc:"Earned and not paid out"`
}

// Deposit is money that an operator has received for an account.
type Deposit struct {
	AccountID string `json:"account_id" maxLength:"64"`
	Amount    Amount `json:"amount" doc:"In the account's currency; more than 0" example:"100.00"`
	Reference string `json:"reference,omitempty" maxLength:"200" doc:"Where it came from, such as the bank's number for it"`
}

// LedgerReport is the outcome of computing every balance again.
type LedgerReport struct {
	OK         bool             `json:"ok" doc:"Nothing is wrong"`
	Accounts   int64            `json:"accounts"`
	Transfers  int64            `json:"transfers"`
	Leases     int64            `json:"leases"`
	Charges    int64            `json:"charges"`
	Invoices   int64            `json:"invoices" doc:"And credit notes"`
	Sums       []LedgerSum      `json:"sums" nullable:"false"`
	Mismatches []LedgerMismatch `json:"mismatches" nullable:"false" doc:"Balances that are not the sum of their transfers, and currencies that do not sum to zero"`
	Wrong      []LedgerWrong    `json:"wrong" nullable:"false" doc:"What does not follow from use, quotes and postings; the first 100"`
}

// LedgerWrong is a lease, an account or a document that is not what follows from
// use, quotes and postings.
type LedgerWrong struct {
	Subject string `json:"subject" doc:"Such as a lease's identifier or an invoice's number"`
	What    string `json:"what"`
}

// LedgerSum is what all transfers of a currency add up to on either side.
type LedgerSum struct {
	Currency string `json:"currency"`
	Debits   Amount `json:"debits"`
	Credits  Amount `json:"credits"`
}

// LedgerMismatch is a ledger account that is wrong.
type LedgerMismatch struct {
	Path     string `json:"path" doc:"Empty: the currency as a whole"`
	Currency string `json:"currency"`
	What     string `json:"what"`
}

// Balance returns where the caller's account stands.
func (c *Client) Balance(ctx context.Context) (*Balance, error) {
	return do[Balance](ctx, c, http.MethodGet, "/v1/balance", nil)
}

// Bill returns what a lease has cost up to now.
func (c *Client) Bill(ctx context.Context, leaseID string) (*Bill, error) {
	return do[Bill](ctx, c, http.MethodGet, "/v1/bills/"+url.PathEscape(leaseID), nil)
}

// Charges returns the caller's charges, newest first; of one lease if leaseID is
// not empty.
func (c *Client) Charges(ctx context.Context, leaseID string) ([]Charge, error) {
	q := url.Values{}
	if leaseID != "" {
		q.Set("lease_id", leaseID)
	}
	return collect(all[Charge](ctx, c, "/v1/charges", q))
}

// Transfers returns the transfers of the caller's account, newest first.
func (c *Client) Transfers(ctx context.Context) ([]Transfer, error) {
	return collect(all[Transfer](ctx, c, "/v1/transfers", nil))
}

// Earnings returns what the caller's account has earned as a provider.
func (c *Client) Earnings(ctx context.Context) ([]Earning, error) {
	return collect(all[Earning](ctx, c, "/v1/earnings", nil))
}

// Deposit credits an account. It is for operators.
func (c *Client) Deposit(ctx context.Context, in Deposit) (*Transfer, error) {
	return do[Transfer](ctx, c, http.MethodPost, "/v1/operator/deposits", in)
}

// VerifyLedger proves every balance, charge and invoice again. It is for operators.
func (c *Client) VerifyLedger(ctx context.Context) (*LedgerReport, error) {
	return do[LedgerReport](ctx, c, http.MethodGet, "/v1/operator/ledger/verify", nil)
}

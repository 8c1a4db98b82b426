package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

func init() {
	parts = append(parts, withBilling)
}

// withBilling adds billing to a world.
func withBilling(w *world, c *Config) {
	w.t.Helper()
	books, err := ledger.New(w.db, w.clock.Now)
	if err != nil {
		w.t.Fatal(err)
	}
	w.billing, err = billing.New(billing.Config{
		DB: w.db, Clock: w.clock.Now, Ledger: books, Audit: w.accounts.Audit,
		CurrencyOf: func(ctx context.Context, id string) (money.Currency, error) {
			a, err := w.accounts.Account(ctx, id)
			return a.Currency, err
		},
		PartyOf: func(ctx context.Context, id string) (billing.Party, error) {
			a, err := w.accounts.Account(ctx, id)
			return billing.Party{Name: a.Name, TimeZone: a.TimeZone}, err
		},
	})
	if err == nil {
		err = errors.Join(books.Migrate(w.t.Context()), w.billing.Migrate(w.t.Context()))
	}
	if err != nil {
		w.t.Fatal(err)
	}
	c.Billing = w.billing
}

func (w *world) deposit(p person, amount string) {
	w.t.Helper()
	a, err := money.ParseAmount(amount)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.billing.Deposit(w.t.Context(), w.operator.principal(), p.AccountID, a, "", ""); err != nil {
		w.t.Fatal(err)
	}
}

// billedLease begins and starts a lease of p's on a host of eve's, at 3.60 an hour.
func (w *world) billedLease(p person, simulated bool) string {
	w.t.Helper()
	q, err := pricing.NewQuote(pricing.Tariff{
		Currency: money.USD, Compute: 3_600_000_000, Granularity: pricing.Second, CommissionBasisPoints: 2000,
	}, pricing.Request{Plan: pricing.OnDemand, Simulated: simulated}, w.clock.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	id := ident.New(ident.Lease)
	if err := w.db.Update(w.t.Context(), func(ctx context.Context, tx *store.Tx) error {
		if err := w.billing.BeginLease(ctx, tx, billing.Terms{LeaseID: id, AccountID: p.AccountID, ProviderID: w.eve.AccountID, Quote: q}); err != nil {
			return err
		}
		return w.billing.StartCompute(ctx, tx, id, w.clock.Now())
	}); err != nil {
		w.t.Fatal(err)
	}
	return id
}

func TestARenterReadsWhatALeaseCostAndWhatIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.deposit(w.ada, "10")
	id := w.billedLease(w.ada, true)
	w.clock.Advance(1000 * time.Second)
	w.billing.ConfirmAlive([]string{id}, w.clock.Now())
	bill, err := w.ada.client.Bill(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if bill.Total.String() != "1.000000" || bill.Unbilled != bill.Total || !bill.Simulated || len(bill.Lines) != 1 || !bill.Lines[0].Open || bill.Currency != "USD" {
		t.Errorf("bill %+v", bill)
	}
	if bill.PricePerHourByState["running"].String() != "3.600000" || bill.PricePerHourByState["stopped"] != 0 {
		t.Errorf("prices by state %v", bill.PricePerHourByState)
	}
	b, err := w.ada.client.Balance(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if b.Settled.String() != "10.000000" || b.Held.String() != "3.600000" || b.UnbilledDue.String() != "1.000000" || b.Available.String() != "5.400000" {
		t.Errorf("balance %+v", b)
	}
	if want := w.clock.Now().Add(9000 * time.Second); b.RunsOutAt == nil || !b.RunsOutAt.Equal(want) || b.BurnPerHour.String() != "3.600000" {
		t.Errorf("burn %s until %v, want 3.600000 until %s", b.BurnPerHour, b.RunsOutAt, want)
	}
	if err := w.billing.Settle(ctx, w.clock.Now()); err != nil {
		t.Fatal(err)
	}
	charges, err := w.ada.client.Charges(ctx, id)
	if err != nil || len(charges) != 1 || charges[0].Amount.String() != "1.000000" || !charges[0].Simulated {
		t.Errorf("charges %+v, %v", charges, err)
	}
	transfers, err := w.ada.client.Transfers(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, tr := range transfers {
		codes = append(codes, tr.Code)
	}
	if got := strings.Join(codes, " "); got != "charge charge hold deposit" {
		t.Errorf("transfers %s", got)
	}
	earned, err := w.eve.client.Earnings(ctx)
	if err != nil || len(earned) != 1 || earned[0].Payable.String() != "0.800000" || earned[0].EarnedSimulated.String() != "0.800000" || earned[0].Commission.String() != "0.200000" {
		t.Errorf("earnings %+v, %v", earned, err)
	}
	report, err := w.operator.client.VerifyLedger(ctx)
	if err != nil || !report.OK || report.Transfers != 4 {
		t.Errorf("ledger %+v, %v", report, err)
	}
}

func TestMoneyIsADecimalStringInJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "0.1")
	r := w.send(http.MethodGet, "/v1/balance", w.ada.token, nil)
	r.want(t, 200, "")
	if !strings.Contains(r.Body, `"settled":"0.100000"`) {
		t.Errorf("balance %s", r.Body)
	}
}

func TestADepositThatIsSentTwiceIsMadeOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := api.Deposit{AccountID: w.ada.AccountID, Amount: 110_000_000, Reference: "wire 7"}
	var first string
	for range 3 {
		r := w.send(http.MethodPost, "/v1/operator/deposits", w.operator.token, in, "Idempotency-Key", "k1")
		if r.Status != 201 {
			t.Fatalf("answer %d: %s", r.Status, r.Body)
		}
		if first == "" {
			first = r.Body
		}
		if r.Body != first {
			t.Errorf("a repeat answers %s, the first was %s", r.Body, first)
		}
	}
	in.Amount++
	w.send(http.MethodPost, "/v1/operator/deposits", w.operator.token, in, "Idempotency-Key", "k1").want(t, 409, "idempotency_conflict")
	b, err := w.ada.client.Balance(t.Context())
	if err != nil || b.Settled.String() != "110.000000" {
		t.Errorf("balance %+v, %v", b, err)
	}
	log := w.send(http.MethodGet, "/v1/audit", w.operator.token, nil)
	if log.Status == 200 && strings.Count(log.Body, `"deposit"`) != 1 {
		t.Errorf("the audit log has the deposit %d times: %s", strings.Count(log.Body, `"deposit"`), log.Body)
	}
}

func TestADepositMustBeMoney(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, body := range map[string]string{
		"zero":           `{"account_id":"` + w.ada.AccountID + `","amount":"0"}`,
		"negative":       `{"account_id":"` + w.ada.AccountID + `","amount":"-5"}`,
		"seven decimals": `{"account_id":"` + w.ada.AccountID + `","amount":"0.0000001"}`,
		"an exponent":    `{"account_id":"` + w.ada.AccountID + `","amount":"1e9"}`,
		"words":          `{"account_id":"` + w.ada.AccountID + `","amount":"much"}`,
		"beyond 64 bits": `{"account_id":"` + w.ada.AccountID + `","amount":"99999999999999999999"}`,
		"a float":        `{"account_id":"` + w.ada.AccountID + `","amount":1.5}`,
		"nothing":        `{"account_id":"` + w.ada.AccountID + `"}`,
	} {
		if r := w.send(http.MethodPost, "/v1/operator/deposits", w.operator.token, body); r.Status < 400 || r.Status >= 500 || r.code() == "" {
			t.Errorf("%s: answer %d %s", name, r.Status, r.Body)
		}
	}
	w.send(http.MethodPost, "/v1/operator/deposits", w.operator.token, `{"account_id":"ac-nobody","amount":"1"}`).want(t, 404, "account_not_found")
	if b, err := w.ada.client.Balance(t.Context()); err != nil || b.Settled != 0 {
		t.Errorf("balance %+v, %v", b, err)
	}
}

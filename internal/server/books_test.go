package server

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

// program builds the program that people use, unless it is built already.
func program(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("SUANLI_TEST_BINARY"); path != "" {
		return path
	}
	path := filepath.Join(t.TempDir(), "suanli")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "../../cmd/suanli")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// everyPlanUsed makes ada use every plan and every way to pay.
func (w *world) everyPlanUsed() {
	w.t.Helper()
	ctx := w.t.Context()
	c := w.ada.client
	check := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	w.invoiced(w.ada)
	w.deposit(w.ada, "20000")
	_, err := w.operator.client.CreateGrant(ctx, api.CreateGrant{AccountID: w.ada.AccountID, Amount: 500_000, Meters: []string{"compute"}, ValidSeconds: 3600 * 24})
	check(err)
	_, err = w.operator.client.CreateCoupon(ctx, api.CreateCoupon{Rule: "THANKS 0.05USD max=10", ValidSeconds: 3600})
	check(err)
	_, err = c.RedeemCoupon(ctx, "THANKS")
	check(err)
	days := w.clock.Now().Add(30 * time.Hour)
	paid := w.reserve(w.ada, api.ReservationCreate{ReservationQuestion: api.ReservationQuestion{Payment: "partial", TermMonths: 1}})
	w.reserve(w.ada, api.ReservationCreate{ReservationQuestion: api.ReservationQuestion{Payment: "none", Until: &days}})
	months := w.monthly(w.ada)
	demand := w.ranFor(w.ada, 90*time.Minute)
	b, err := c.CreateBid(ctx, api.BidCreate{GPUModel: "rtx 4090", GPUs: 1, BidPerGPUHour: 300_000_000, Image: "debian:12"})
	check(err)
	check(w.server.Market.Turn(ctx))
	b, err = c.Bid(ctx, b.ID)
	check(err)
	if b.LeaseID == "" {
		w.t.Fatalf("the bid is %+v", b)
	}
	says := func(id string, phase protocol.Phase) {
		l, err := w.leases.Get(ctx, w.ada.principal(), id)
		check(err)
		w.hostSays(protocol.InstanceStatus{LeaseID: id, Generation: l.Generation, Phase: phase})
	}
	for _, id := range []string{b.LeaseID, months.ID} {
		says(id, protocol.PhaseRunning)
	}
	w.clock.Advance(20 * time.Minute)
	check(w.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		return w.billing.SetRate(ctx, tx, b.LeaseID, 250_000_000, w.clock.Now()) // the market moved
	}))
	w.clock.Advance(20 * time.Minute)
	for _, id := range []string{b.LeaseID, months.ID, demand.ID} {
		says(id, protocol.PhaseRunning)
	}
	check(w.billing.Settle(ctx, w.clock.Now()))
	_, err = c.CancelReservation(ctx, paid.ID, 0)
	if err != nil { // it says what it costs first
		r, err := c.Reservation(ctx, paid.ID)
		check(err)
		_, err = c.CancelReservation(ctx, paid.ID, r.IfEnded.Net)
		check(err)
	}
	check(w.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		return w.billing.Give(ctx, tx, w.ada.AccountID, money.USD, ledger.Transfer{Key: ledger.Key(w.clock.Now(), "sla"), Debit: ledger.Commission, Credit: ledger.Wallet(w.ada.AccountID),
			Amount: 10_000, Currency: money.USD, Code: "sla_credit", Reference: demand.ID, EffectiveAt: w.clock.Now()})
	}))
	for _, step := range []func() error{
		func() error { return w.billing.Settle(ctx, w.clock.Now()) },
		func() error { return w.billing.CloseMonths(ctx, w.clock.Now()) },
	} {
		w.clock.Advance(35 * time.Hour)
		w.turnReservations()
		check(step())
	}
	w.clock.Advance(35 * 24 * time.Hour)
	check(w.billing.Watch(ctx, w.clock.Now()))
	check(w.billing.Settle(ctx, w.clock.Now()))
	check(w.billing.CloseMonths(ctx, w.clock.Now()))
	w.operator = w.signIn("operator@example.com") // months have passed
	v := w.invoiced(w.ada)
	r := w.send("POST", "/v1/operator/invoices/"+v.ID+"/credits", w.operator.token, map[string]any{"reason": "goodwill"})
	if r.Status >= 500 {
		w.t.Fatalf("%d %s", r.Status, r.Body)
	}
}

// What an operator types, on a cloud where every plan was used: it is clean, and
// each thing that is changed behind the books is the first that is named.
func TestTheProgramProvesTheBooksOfACloudWhereEveryPlanWasUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.everyPlanUsed()
	path, home := program(t), t.TempDir()
	verify := func() (string, error) {
		cmd := exec.CommandContext(t.Context(), path, "ledger", "verify")
		cmd.Env = append(os.Environ(), "SUANLI_SERVER="+w.url, "SUANLI_TOKEN="+w.operator.token, "SUANLI_CLIENT_DIR="+home, "LC_ALL=C")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := verify()
	if err != nil || strings.Contains(out, "wrong") {
		t.Fatalf("%v: %s", err, out)
	}
	for table, where := range map[string]string{
		"billing_grants": "spent > 0", "billing_draws": "amount > 0", "billing_reserved": "end_at > 0", "billing_covered": "until_at > 0",
		"billing_prepayments": "amount <> 0", "billing_monthly": "term_until > 0", "billing_rates": "rate >= 0", "billing_invoices": "number > 0",
	} {
		var n int
		if err := w.view(`SELECT COUNT(*) FROM `+table+` WHERE `+where, &n); err != nil || n == 0 {
			t.Errorf("nothing is in %s: %v", table, err)
		}
	}
	for _, c := range []struct{ act, back, named string }{
		{`UPDATE billing_grants SET spent = spent - 1 WHERE kind = 'promotion' AND spent > 0`, `UPDATE billing_grants SET spent = spent + 1 WHERE kind = 'promotion' AND spent < cap`, "wrong: gr-"},
		{`UPDATE billing_covered SET until_at = until_at + 1000000`, `UPDATE billing_covered SET until_at = until_at - 1000000`, "wrong: ls-"},
		{`UPDATE billing_prepayments SET amount = amount + 1 WHERE kind = 'upfront'`, `UPDATE billing_prepayments SET amount = amount - 1 WHERE kind = 'upfront'`, "wrong: rv-"},
		{`UPDATE billing_dues SET total = total + 1`, `UPDATE billing_dues SET total = total - 1`, "wrong: INV-000001"},
		{`UPDATE ledger_accounts SET credits = credits + 1 WHERE path LIKE '%/wallet'`, `UPDATE ledger_accounts SET credits = credits - 1 WHERE path LIKE '%/wallet'`, "debits of"},
	} {
		change := func(statement string) {
			if err := w.db.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error { _, err := tx.Exec(ctx, statement); return err }); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
		change(c.act)
		out, err := verify()
		first := ""
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "wrong") && first == "" {
				first = line
			}
		}
		if err == nil || !strings.Contains(first, c.named) {
			t.Errorf("%s: %v, first is %q, want %q", c.act, err, first, c.named)
		}
		change(c.back)
	}
	if out, err := verify(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

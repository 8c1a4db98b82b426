package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/budget"
	"suanli.dev/internal/notify"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

func init() {
	// After leases and news, whose files come later: they are set when it is used.
	parts = append(parts, func(w *world, c *Config) {
		w.t.Helper()
		var err error
		c.Budgets, err = budget.New(budget.Config{
			DB: w.db, Clock: w.clock.Now, Money: w.billing, News: laterNews{w}, Audit: w.accounts.Audit,
			Tags: func(ctx context.Context, accountID string, ids []string) (map[string]budget.Tag, error) {
				return budgetTags(w.leases.Tags)(ctx, accountID, ids)
			},
			StopLease: func(ctx context.Context, id string) error { return stopForBudget(ctx, w.leases, id) },
			HasUser: func(ctx context.Context, accountID, id string) error {
				_, err := w.accounts.User(ctx, accountID, id)
				return err
			},
			CurrencyOf: currencyOf(w.accounts), ZoneOf: zoneOf(w.accounts),
		})
		if err == nil {
			err = c.Budgets.Migrate(w.t.Context())
		}
		if err != nil {
			w.t.Fatal(err)
		}
		w.budgets = c.Budgets
	})
	belongings["budget_id"] = func(w *world, p person) string {
		v, err := w.budgets.Create(w.t.Context(), p.principal(), budget.Budget{Name: "b" + time.Duration(w.serial()).String(), Amount: 1_000_000})
		if err != nil {
			w.t.Fatal(err)
		}
		return v.ID
	}
}

// laterNews is the news of a world, which is opened after what announces.
type laterNews struct{ w *world }

func (l laterNews) Announce(ctx context.Context, tx *store.Tx, accountID, kind, subject string, at time.Time, data any) error {
	return l.w.newsService.Announce(ctx, tx, accountID, kind, subject, at, data)
}

func amountOf(t *testing.T, text string) api.Amount {
	t.Helper()
	a, err := api.ParseAmount(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestABudgetTellsThenRefusesAndStopsWhatIsInItsScope(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.deposit(w.ada, "1000")
	in := w.rent(w.ada, func(c *api.LeaseCreate) { c.Labels = map[string]string{"team": "vision"} })
	out := w.rent(w.ada, func(c *api.LeaseCreate) { c.Labels = map[string]string{"team": "speech"} })
	run := func() {
		w.hostSays(protocol.InstanceStatus{LeaseID: in.ID, Generation: in.Generation, Phase: protocol.PhaseRunning},
			protocol.InstanceStatus{LeaseID: out.ID, Generation: out.Generation, Phase: protocol.PhaseRunning})
	}
	run()
	w.clock.Advance(time.Minute)
	run()
	b, err := w.ada.client.CreateBudget(ctx, api.BudgetCreate{Name: "vision", Label: "team=vision", Amount: amountOf(t, "1"), Action: "stop"})
	if err != nil || b.Spent == 0 || b.Spent != b.Unposted || b.Blocks || b.Forecast <= b.Spent || len(b.Thresholds) != 4 {
		t.Fatalf("%+v, %v", b, err)
	}
	w.clock.Advance(3 * time.Hour)
	run()
	if err := w.budgets.Look(ctx); err != nil {
		t.Fatal(err)
	}
	if b, err = w.ada.client.Budget(ctx, "vision"); err != nil || !b.Blocks || b.Spent < b.Amount {
		t.Fatalf("%+v, %v", b, err)
	}
	for _, th := range b.Thresholds {
		if th.ToldAt == nil {
			t.Errorf("%+v was not told", th)
		}
	}
	if l, err := w.ada.client.Lease(ctx, in.ID); err != nil || l.State != "stopping" || !strings.Contains(l.Message, "budget") {
		t.Errorf("in scope: %+v, %v", l, err)
	}
	if l, err := w.ada.client.Lease(ctx, out.ID); err != nil || l.State != "running" {
		t.Errorf("out of scope: %+v, %v", l, err)
	}
	rent := func(team, name string) reply {
		return w.send("POST", "/v1/leases", w.ada.token, api.LeaseCreate{QuoteID: w.quoteFor(w.ada).ID, Name: name, Labels: map[string]string{"team": team}})
	}
	rent("vision", "").want(t, 402, "budget_reached")
	bid := func(team string) reply {
		return w.send("POST", "/v1/bids", w.ada.token, api.BidCreate{GPUModel: "RTX 4090", GPUs: 1, BidPerGPUHour: 300_000_000, Image: "debian:12", Labels: map[string]string{"team": team}})
	}
	bid("vision").want(t, 402, "budget_reached")
	if r := bid("speech"); r.Status != 201 {
		t.Errorf("a bid out of scope: %d %s", r.Status, r.Body)
	}
	if r := rent("speech", ""); r.Status != 201 {
		t.Errorf("out of scope: %d %s", r.Status, r.Body)
	}
	more := amountOf(t, "1000")
	if b, err = w.ada.client.ChangeBudget(ctx, b.ID, api.BudgetChange{Amount: &more}); err != nil || b.Blocks {
		t.Fatalf("%+v, %v", b, err)
	}
	if r := rent("vision", "again"); r.Status != 201 {
		t.Errorf("after the raise: %d %s", r.Status, r.Body)
	}
	told := 0
	for n, err := range w.ada.client.Notifications(ctx, api.NotificationFilter{Kind: notify.KindBudgetReached}) {
		if err != nil || n.Subject != b.ID {
			t.Fatalf("%+v, %v", n, err)
		}
		told++
	}
	if told != 4 {
		t.Errorf("told %d times, want once for each threshold", told)
	}
	if err := w.ada.client.DeleteBudget(ctx, "vision"); err != nil {
		t.Error(err)
	}
	w.send("GET", "/v1/budgets/vision", w.ada.token, nil).want(t, 404, "budget_not_found")
}

func TestBudgetsAreListedByPageAndWrongOnesAreToldWithTheirPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 3 {
		belongings["budget_id"](w, w.ada)
	}
	first := decode[page[api.Budget]](t, w.send("GET", "/v1/budgets?limit=2", w.ada.token, nil))
	rest := decode[page[api.Budget]](t, w.send("GET", "/v1/budgets?limit=2&cursor="+first.NextCursor, w.ada.token, nil))
	if len(first.Items) != 2 || len(rest.Items) != 1 || rest.NextCursor != "" || first.Items[1].ID >= rest.Items[0].ID {
		t.Errorf("pages %+v and %+v", first, rest)
	}
	for body, place := range map[string]string{
		`{"name":"","amount":"1"}`:                                                                         "body.name",
		`{"name":"a\u202eb","amount":"1"}`:                                                                 "body.name",
		`{"name":"a","amount":"0"}`:                                                                        "body.amount",
		`{"name":"a","amount":"1","label":"x"}`:                                                            "body.label",
		`{"name":"a","amount":"1","from":"2026-03-01T00:00:00Z"}`:                                          "body.until",
		`{"name":"a","amount":"1","from":"2026-03-01T00:00:00Z","to":"2026-02-01T00:00:00Z"}`:              "body.until",
		`{"name":"a","amount":"1","thresholds":[{"share_basis_points":5000},{"share_basis_points":5000}]}`: "body.thresholds",
	} {
		if r := w.send("POST", "/v1/budgets", w.ada.token, body); r.Status != 422 || r.code() != "budget_invalid" || !strings.Contains(r.Body, place) {
			t.Errorf("%s: answer %d %s", body, r.Status, r.Body)
		}
	}
	w.send("POST", "/v1/budgets", w.ada.token, `{"name":"a","amount":"1","user_id":"`+w.eve.ID+`"}`).want(t, 404, "user_not_found")
	w.send("POST", "/v1/budgets", w.ada.token, `{"name":"a","amount":"1"}`).want(t, 201, "")
	w.send("POST", "/v1/budgets", w.ada.token, `{"name":"a","amount":"1"}`).want(t, 409, "budget_exists")
	w.send("GET", "/v1/budgets/a", w.newKey(w.eve, account.AllScopes), nil).want(t, 404, "budget_not_found")
}

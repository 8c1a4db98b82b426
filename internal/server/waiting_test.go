package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/money"
	"suanli.dev/internal/waiting"
)

func init() {
	parts = append(parts, withWaiting)
	belongings["waiting_request_id"] = func(w *world, p person) string {
		r, err := w.server.Waiting.Create(w.t.Context(), p.principal(), waiting.Create{GPUModel: "RTX 4090", GPUs: 1, MaxPerHour: 1, WaitFor: waitingHour, Run: waitingRun("debian:12")})
		if err != nil {
			w.t.Fatal(err)
		}
		return r.ID
	}
}

// withWaiting comes after the leases, whose file is before this one.
func withWaiting(w *world, c *Config) {
	w.t.Helper()
	var err error
	c.Waiting, err = waiting.New(waiting.Config{DB: w.db, Clock: w.clock.Now, Capacity: c.Fleet, Leases: c.Leases, News: laterNews{w}, Audit: c.Accounts.Audit, MaxOpen: 1000,
		Account: func(ctx context.Context, id string) (money.Currency, string, error) {
			a, err := c.Accounts.Account(ctx, id)
			return a.Currency, a.TimeZone, err
		},
		Quota: func(ctx context.Context, id string) (int, error) {
			q, err := c.Accounts.Quota(ctx, id)
			return q.MaxGPUs, err
		},
		Acting: actingUsers{c.Accounts}.act,
		KnownModel: func(name string) (string, bool) {
			m, ok := c.Catalog.Model(name)
			return m.Name, ok
		}})
	if err == nil {
		err = c.Waiting.Migrate(w.t.Context())
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestARenterWaitsForRoomLooksAtTheTurnAndWithdraws(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "100")
	w.newHost(w.operator, 1)
	ctx, c := t.Context(), w.ada.client
	in := api.WaitingRequestCreate{Name: "train", GPUModel: "rtx 4090", GPUs: 2, Image: "debian:12", MaxPerHour: amountOf(t, "5"), WaitSeconds: 3600, EstimateSeconds: 7200, Priority: 3,
		Environment: map[string]string{"SECRET": "hunter2"}}
	r, err := c.CreateWaitingRequest(ctx, in)
	if err != nil || r.State != "waiting" || r.GPUModel != "RTX 4090" || r.Priority != 3 || r.EstimateSeconds != 7200 || r.Currency != "USD" || !strings.HasPrefix(r.ID, "wr-") || r.ExpiresAt.Sub(r.CreatedAt) != waitingHour {
		t.Fatalf("the request is %+v (%v)", r, err)
	}
	if err := w.server.Waiting.Turn(ctx); err != nil {
		t.Fatal(err)
	}
	d, err := c.WaitingRequest(ctx, "train")
	if err != nil || d.Code != "no_such_host" || d.Position != 1 || d.Explanation == nil || d.Explanation.Fits || len(d.Explanation.Refused) == 0 {
		t.Errorf("it stands so: %+v (%v)", d, err)
	}
	if got := w.send("GET", "/v1/waiting-requests/train", w.ada.token, nil); strings.Contains(got.Body, "hunter2") || strings.Contains(got.Body, "host_ids") {
		t.Errorf("it shows too much: %s", got.Body)
	}
	in.Priority = 11
	w.send("POST", "/v1/waiting-requests", w.ada.token, in).want(t, 422, "invalid_request")
	in.Priority, in.MaxPerHour = 0, 0
	w.send("POST", "/v1/waiting-requests", w.ada.token, in).want(t, 422, "invalid_waiting_request")

	// One that fits becomes a lease.
	in.Name, in.GPUs, in.MaxPerHour = "small", 1, amountOf(t, "5")
	small, err := c.CreateWaitingRequest(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.server.Waiting.Turn(ctx); err != nil {
		t.Fatal(err)
	}
	if d, err = c.WaitingRequest(ctx, small.ID); err != nil || d.State != "started" || d.LeaseID == "" || d.EndedAt == nil || d.Position != 0 {
		t.Fatalf("it is %+v (%v)", d, err)
	}
	l, err := c.Lease(ctx, d.LeaseID)
	if err != nil || l.Name != "small" || l.StopAt == nil {
		t.Errorf("its lease is %+v (%v)", l, err)
	}
	w.send("DELETE", "/v1/waiting-requests/small", w.ada.token, nil).want(t, 409, "waiting_request_state")
	if got, err := c.CancelWaitingRequest(ctx, "train"); err != nil || got.State != "cancelled" {
		t.Errorf("withdrawn it is %+v (%v)", got, err)
	}
	if list, err := c.WaitingRequests(ctx, true); err != nil || len(list) != 0 {
		t.Errorf("these wait: %+v (%v)", list, err)
	}
	if list, err := c.WaitingRequests(ctx, false); err != nil || len(list) != 2 || list[0].Name != "small" {
		t.Errorf("these have waited: %+v (%v)", list, err)
	}
	told := false
	for n, err := range c.Notifications(ctx, api.NotificationFilter{}) {
		told = told || err == nil && n.Kind == "waiting_request.started" && n.Subject == small.ID && n.Data["lease_id"] == d.LeaseID
	}
	if !told {
		t.Error("the account was not told")
	}
}

// Who may no longer rent when there is room gets no lease then.
func TestARequestOfAUserWhoIsGoneEndsAndOneOfASuspendedAccountWaitsOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "100")
	w.deposit(w.eve, "100")
	w.newHost(w.operator, 4)
	ctx := t.Context()
	member := w.newUser(w.ada, "leaver@example.com", account.Member)
	ask := func(p person) string {
		r, err := w.server.Waiting.Create(ctx, p.principal(), waiting.Create{GPUModel: "RTX 4090", GPUs: 1, MaxPerHour: 5_000_000, WaitFor: waitingHour, Run: waitingRun("debian:12")})
		if err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	left, waits := ask(member), ask(w.eve)
	disabled, suspended := true, true
	if _, err := w.accounts.UpdateUser(ctx, w.ada.principal(), member.ID, account.UpdateUser{Disabled: &disabled}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.accounts.UpdateAccount(ctx, w.operator.principal(), w.eve.AccountID, account.UpdateAccount{Suspended: &suspended}); err != nil {
		t.Fatal(err)
	}
	if err := w.server.Waiting.Turn(ctx); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		p                 person
		id, state, reason string
	}{{w.ada, left, "failed", "user_disabled"}, {w.eve, waits, "waiting", "account_suspended"}} {
		r, err := w.server.Waiting.Get(ctx, tt.p.principal(), tt.id)
		if err != nil || string(r.State) != tt.state || r.Code != tt.reason || r.LeaseID != "" {
			t.Errorf("it is %+v (%v), want %s (%s)", r, err, tt.state, tt.reason)
		}
	}
}

const waitingHour = time.Hour

func waitingRun(image string) lease.Awaited {
	return lease.Awaited{Request: lease.QuoteRequest{Image: image}}
}

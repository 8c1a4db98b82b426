package server

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/notify"
	"suanli.dev/internal/store"
)

// hooks receives what webhooks of any world here are called with.
var hooks = make(chan hookCall, 1000)

type hookCall struct {
	header http.Header
	body   string
}

func init() {
	parts = append(parts, withNews)
	belongings["webhook_id"] = func(w *world, p person) string { return w.newWebhook(p).ID }
	belongings["notification_id"] = func(w *world, p person) string {
		subject := "ls-" + time.Duration(w.serial()).String()
		w.news(p, notify.KindFailed, subject, notify.LeaseNews{Name: "train"})
		for n, err := range p.client.Notifications(w.t.Context(), api.NotificationFilter{Kind: notify.KindFailed}) {
			if err == nil && n.Subject == subject {
				return n.ID
			}
		}
		w.t.Fatal("the notification is not there")
		return ""
	}
}

func withNews(w *world, c *Config) {
	w.t.Helper()
	vault, err := account.NewVault(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		w.t.Fatal(err)
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		hooks <- hookCall{r.Header, string(b)}
	}))
	w.t.Cleanup(receiver.Close)
	at, err := url.Parse(receiver.URL)
	if err != nil {
		w.t.Fatal(err)
	}
	w.hookURL = receiver.URL
	c.News, err = notify.New(notify.Config{DB: w.db, Vault: vault, Audit: w.accounts.Audit, Inside: []string{at.Host}, Most: 1000, Poll: 20 * time.Millisecond})
	if err == nil {
		err = c.News.Migrate(w.t.Context())
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.newsService = c.News
}

// news announces something to p's account.
func (w *world) news(p person, kind, subject string, data any) {
	w.t.Helper()
	if err := w.db.Update(w.t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return w.newsService.Announce(ctx, tx, p.AccountID, kind, subject, w.clock.Now(), data)
	}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) newWebhook(p person) *api.WebhookWithSecret {
	w.t.Helper()
	h, err := p.client.CreateWebhook(w.t.Context(), api.WebhookCreate{URL: w.hookURL})
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

func TestNewsIsReadFollowedAndSentOverTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.newsService.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	c := w.ada.client
	hook := w.newWebhook(w.ada)
	if hook.Secret == "" || !hook.Enabled || len(hook.Kinds) != 0 {
		t.Fatalf("%+v", hook)
	}
	again, err := c.Webhook(ctx, hook.ID)
	if err != nil || again.URL != hook.URL {
		t.Errorf("%+v, %v", again, err)
	}
	followed := make(chan api.Notification, 1)
	w.news(w.ada, notify.KindFailed, "ls-0", notify.LeaseNews{Name: "before"})
	var first string
	for n := range c.Notifications(ctx, api.NotificationFilter{}) {
		first = n.ID
	}
	go func() {
		for n, err := range c.FollowNotifications(ctx, first) {
			if err == nil {
				followed <- n
			}
		}
	}()
	w.news(w.ada, notify.KindBalanceLow, w.ada.AccountID, notify.BalanceLow{Currency: "CNY", Funds: 1_500_000, ThresholdSeconds: 3600})
	select {
	case n := <-followed:
		if n.Kind != notify.KindBalanceLow || n.Data["funds"] != "1.500000" {
			t.Errorf("%+v", n)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was followed")
	}
	if n, err := c.UnreadNotifications(ctx); err != nil || n != 2 {
		t.Errorf("%d unread, %v", n, err)
	}
	if n, err := c.ReadNotification(ctx, first); err != nil || n.ReadAt == nil {
		t.Errorf("%+v, %v", n, err)
	}
	if n, err := c.ReadNotifications(ctx, "nt-zzzzzzzzzzzzzzzzzzzzzzzzzz"); err != nil || n != 1 {
		t.Errorf("%d read, %v", n, err)
	}
	// What other worlds of this process send is not ours: the signature tells.
	verify, err := standardwebhooks.NewWebhook(hook.Secret)
	if err != nil {
		t.Fatal(err)
	}
	late := time.After(20 * time.Second)
	for taken := 0; taken < 2; {
		select {
		case call := <-hooks:
			if verify.Verify([]byte(call.body), call.header) == nil {
				taken++
			}
		case <-late:
			t.Fatalf("%d of 2 deliveries came", taken)
		}
	}
	test, err := c.TestWebhook(ctx, hook.ID)
	if err != nil || test.Kind != "webhook.test" {
		t.Fatalf("%+v, %v", test, err)
	}
	d := w.delivered(c, hook.ID, test.ID)
	if len(d.Log) != 1 || d.Log[0].Status != 200 || d.FinishedAt == nil {
		t.Errorf("%+v", d)
	}
	if r, err := c.Redeliver(ctx, hook.ID, test.ID); err != nil || r.NotificationID != test.NotificationID {
		t.Errorf("%+v, %v", r, err)
	}
	off := false
	if h, err := c.ChangeWebhook(ctx, hook.ID, api.WebhookChange{Enabled: &off}); err != nil || h.Enabled {
		t.Errorf("%+v, %v", h, err)
	}
	if r, err := c.RotateWebhookSecret(ctx, hook.ID); err != nil || r.Secret == hook.Secret || r.PreviousUntil == nil {
		t.Errorf("%+v, %v", r, err)
	}
	w.send("POST", "/v1/webhooks", w.ada.token, api.WebhookCreate{URL: "https://127.0.0.1"}).want(t, 422, "bad_webhook_url")
	w.send("GET", "/v1/notifications?kind=nonsense", w.ada.token, nil).want(t, 422, "unknown_kind")
	if err := c.DeleteWebhook(ctx, hook.ID); err != nil {
		t.Error(err)
	}
	if list, err := c.Webhooks(ctx); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// delivered waits until a delivery is over.
func (w *world) delivered(c *api.Client, webhookID, id string) *api.WebhookDelivery {
	w.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(20 * time.Second)
	for {
		d, err := c.WebhookDelivery(w.t.Context(), webhookID, id)
		if err != nil {
			w.t.Fatal(err)
		}
		if d.State != "pending" {
			return d
		}
		select {
		case <-tick.C:
		case <-late:
			w.t.Fatal("it was not delivered within 20 s")
		}
	}
}

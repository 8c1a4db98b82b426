package notify

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

func TestAWebhookMayNotBeAtAnAddressInside(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Address(t)), func(c *Config) { c.Inside, c.Most = []string{"hooks.lan", "10.0.0.5:8080"}, 1000 })
	owner := who("ac-1", account.Owner)
	for address, refused := range map[string]bool{
		"https://example.com/hook?x=1": false, "https://example.com:8443": false, "https://1.1.1.1/": false, "http://hooks.lan/x": false, "http://10.0.0.5:8080": false, "https://hooks.lan:99": false,
		"http://example.com": true, "https://": true, "": true, "example.com": true, "ftp://hooks.lan": true, "https://user:word@example.com": true, "https://example.com/#x": true,
		"https://127.0.0.1": true, "https://[::1]/": true, "https://localhost": true, "https://a.localhost.": true, "https://169.254.169.254": true, "http://10.0.0.5:8081": true,
		"https://example.com:0": true, "https://example.com:65536": true, "https://example.com:": true, "https://hooks": true, "https://127.1": true, "https://2130706433": true, "https://0x7f.1": true,
		"https://a..example.com": true, "https://example.invalid": true, "https://nas.home.arpa": true, "https://db.lan": true, "https://exa$mple.com": true, "https://пример.example.com": false, "https://sub.example.com.": false,
		"https://metadata.google.internal": true, "https://printer.local": true, "https://10.0.0.5": true, "javascript:alert(1)": true, "https://x/" + strings.Repeat("y", 3000): true, "https://a\nb": true,
	} {
		_, _, err := w.CreateWebhook(t.Context(), owner, address, "", nil)
		if (err != nil) != refused || (refused && !isCode(err, "bad_webhook_url")) {
			t.Errorf("%q: %v, to be refused: %t", address, err, refused)
		}
	}
}

func TestNobodyHasNewsSentThatTheyMayNotRead(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		owner := who("ac-1", account.Owner)
		keyed := who("ac-1", account.Owner)
		keyed.Scopes = []account.Action{account.WriteAccount, account.ReadLeases}
		all, _ := w.webhook(owner)
		if len(all.Kinds) != 0 {
			t.Errorf("an owner's webhook is for %v, want all there will ever be", all.Kinds)
		}
		some, _ := w.webhook(keyed)
		if slices.Contains(some.Kinds, KindInvoiceIssued) || !slices.Contains(some.Kinds, KindFailed) {
			t.Errorf("a webhook of a key that reads leases is for %v", some.Kinds)
		}
		if _, _, err := w.CreateWebhook(t.Context(), keyed, "https://example.com", "", []string{KindInvoiceIssued}); !isCode(err, "webhook_kinds") {
			t.Error(err)
		}
		elsewhere, everything, description := "https://elsewhere.example.com", []string{}, "mine"
		for name, err := range map[string]error{
			"moves it":   second(w.ChangeWebhook(t.Context(), keyed, all.ID, WebhookChange{URL: &elsewhere})),
			"names it":   second(w.ChangeWebhook(t.Context(), keyed, all.ID, WebhookChange{Description: &description})),
			"signs it":   third(w.RotateSecret(t.Context(), keyed, all.ID)),
			"has it try": second(w.TestWebhook(t.Context(), keyed, all.ID)),
		} {
			if !isCode(err, "webhook_kinds") {
				t.Errorf("who may not read it all %s: %v", name, err)
			}
		}
		if c, err := w.ChangeWebhook(t.Context(), keyed, some.ID, WebhookChange{Kinds: &everything}); err != nil || len(c.Kinds) == 0 {
			t.Errorf("widened to %v, %v", c.Kinds, err)
		}
		stranger := who("ac-2", account.Owner)
		d, err := w.TestWebhook(t.Context(), owner, all.ID)
		if err != nil {
			t.Fatal(err)
		}
		for name, err := range map[string]error{
			"read":      second(w.Webhook(t.Context(), stranger, all.ID)),
			"change":    second(w.ChangeWebhook(t.Context(), stranger, all.ID, WebhookChange{URL: &elsewhere})),
			"rotate":    third(w.RotateSecret(t.Context(), stranger, all.ID)),
			"delete":    w.DeleteWebhook(t.Context(), stranger, all.ID),
			"test":      second(w.TestWebhook(t.Context(), stranger, all.ID)),
			"log":       second(w.Deliveries(t.Context(), stranger, all.ID, "", "", 10)),
			"delivery":  second(w.Delivery(t.Context(), stranger, all.ID, d.ID)),
			"redeliver": second(w.Redeliver(t.Context(), stranger, all.ID, d.ID)),
		} {
			if !isNotFound(err) {
				t.Errorf("another account's owner may %s: %v", name, err)
			}
		}
		if _, err := w.Delivery(t.Context(), owner, some.ID, d.ID); !isNotFound(err) {
			t.Errorf("a delivery of another webhook is shown: %v", err)
		}
	})
}

func second[T any](_ T, err error) error        { return err }
func third[T, U any](_ T, _ U, err error) error { return err }

func TestAnAccountHasOnlySoManyWebhooksHoweverManyAskAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, func(c *Config) { c.Most = 3 })
		owner := who("ac-1", account.Owner)
		var all sync.WaitGroup
		var mu sync.Mutex
		made := 0
		for range 12 {
			all.Go(func() {
				_, _, err := w.CreateWebhook(t.Context(), owner, "https://example.com", "", nil)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					made++
				} else if f, ok := fault.As(err); !ok || f.Code != "too_many_webhooks" {
					t.Error(err)
				}
			})
		}
		all.Wait()
		hooks, err := w.Webhooks(t.Context(), owner)
		if err != nil || made != 3 || len(hooks) != 3 {
			t.Fatalf("%d made, %d there, %v", made, len(hooks), err)
		}
		if err := w.DeleteWebhook(t.Context(), owner, hooks[0].ID); err != nil {
			t.Fatal(err)
		}
		w.webhook(owner)
		if n := len(w.audited); n != 5 {
			t.Errorf("%d audit entries: %v", n, w.audited)
		}
	})
}

func TestDeliveriesByHandAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Address(t)))
	owner := who("ac-1", account.Owner)
	hook, _ := w.webhook(owner)
	for range mostByHand {
		if _, err := w.TestWebhook(t.Context(), owner, hook.ID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.TestWebhook(t.Context(), owner, hook.ID); !isCode(err, "too_many_deliveries") {
		t.Error(err)
	}
	// What is switched off drops what waits for it.
	off := false
	if _, err := w.ChangeWebhook(t.Context(), owner, hook.ID, WebhookChange{Enabled: &off}); err != nil {
		t.Fatal(err)
	}
	list, err := w.Deliveries(t.Context(), owner, hook.ID, "pending", "", 10)
	if err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	w.announce("ac-1", KindFailed, "ls-1", time.Now(), LeaseNews{})
	if list, err := w.Deliveries(t.Context(), owner, hook.ID, "", "", 1000); err != nil || len(list) != mostByHand {
		t.Errorf("%d deliveries, %v", len(list), err)
	}
}

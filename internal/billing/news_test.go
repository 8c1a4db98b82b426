package billing_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/notify"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// eachWithNews is each with a world whose accounts are told what happens, and what
// the renter was told so far, the oldest first.
func eachWithNews(t *testing.T, test func(w *world, told func() []notify.Notification)) {
	t.Helper()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		vault, err := account.NewVault(bytes.Repeat([]byte{7}, 32))
		if err != nil {
			t.Fatal(err)
		}
		news, err := notify.New(notify.Config{DB: db, Vault: vault, Audit: func(context.Context, *store.Tx, account.Principal, string, string, any) error { return nil }})
		if err == nil {
			err = news.Migrate(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, t.Context(), db, func(c *billing.Config) { c.News = news }, in("UTC"))
		test(w, func() []notify.Notification {
			list, err := news.List(t.Context(), account.Principal{UserID: "us", AccountID: "ac-renter", Role: account.Owner}, notify.Filter{}, "", 1000)
			if err != nil {
				t.Fatal(err)
			}
			slices.Reverse(list)
			return list
		})
	})
}

// lines are kinds with what of their payload a test is about.
func lines(list []notify.Notification) (out []string) {
	for _, n := range list {
		var data struct {
			ThresholdSeconds int64  `json:"threshold_seconds"`
			Number           string `json:"number"`
			Total            string `json:"total"`
		}
		if json.Unmarshal(n.Data, &data) != nil {
			out = append(out, n.Kind+" is garbled")
			continue
		}
		line := n.Kind
		if data.ThresholdSeconds != 0 {
			line += " " + (time.Duration(data.ThresholdSeconds) * time.Second).String()
		}
		if data.Number != "" {
			line += fmt.Sprintf(" %s %s", data.Number, data.Total)
		}
		out = append(out, line)
	}
	return out
}

func TestAnAccountIsToldOnceADescentThatItsMoneyRunsOutAndAgainAfterATopUp(t *testing.T) {
	t.Parallel()
	eachWithNews(t, func(w *world, told func() []notify.Notification) {
		w.deposit("ac-renter", "93.6") // 26 hours
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", w.clock())
		for range 26*12 - 1 {
			w.ConfirmAlive([]string{"ls-1"}, w.pass(5*time.Minute))
			w.watch()
			if w.clock().Minute() == 30 {
				w.restart() // forgets nothing
			}
		}
		want := []string{"balance.low 24h0m0s", "balance.low 1h0m0s", "balance.low 10m0s"}
		if got := lines(told()); !slices.Equal(got, want) {
			w.t.Fatalf("%v, want %v", got, want)
		}
		w.deposit("ac-renter", "7.2") // two hours more
		w.watch()
		for range 13 {
			w.ConfirmAlive([]string{"ls-1"}, w.pass(10*time.Minute))
			w.watch()
		}
		w.restart()
		w.watch()
		w.settle()
		want = append(want, "balance.low 1h0m0s", "balance.low 10m0s", "balance.exhausted", "storage.deletion_planned 168h0m0s")
		if got := lines(told()); !slices.Equal(got, want) {
			w.t.Errorf("after the top-up: %v, want %v", got, want)
		}
	})
}

func TestAnInvoiceIsAnnouncedWhenItIsIssued(t *testing.T) {
	t.Parallel()
	eachWithNews(t, func(w *world, told func() []notify.Notification) {
		w.deposit("ac-renter", "1000")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", w.clock())
		w.ConfirmAlive([]string{"ls-1"}, w.pass(time.Hour))
		w.stopCompute("ls-1", w.clock())
		w.end("ls-1", w.clock())
		w.goTo("2026-04-02T00:00:00Z")
		w.closeMonths()
		w.closeMonths()
		docs := w.invoices("ac-renter")
		if len(docs) != 1 {
			w.t.Fatalf("%d invoices", len(docs))
		}
		if got, want := lines(told()), []string{"invoice.issued " + docs[0].Number + " " + docs[0].Total.String()}; !slices.Equal(got, want) {
			w.t.Errorf("%v, want %v", got, want)
		}
	})
}

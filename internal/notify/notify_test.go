package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// world is a notify service on a fresh database.
type world struct {
	*Service
	t  *testing.T
	db *store.DB

	mu      sync.Mutex
	audited []string
}

func newWorld(t *testing.T, db *store.DB, change ...func(*Config)) *world {
	t.Helper()
	w := &world{t: t, db: db}
	w.Service = w.replica(change...)
	if err := w.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// replica is another process on the same database.
func (w *world) replica(change ...func(*Config)) *Service {
	w.t.Helper()
	vault, err := account.NewVault(bytes.Repeat([]byte{3}, 32))
	if err != nil {
		w.t.Fatal(err)
	}
	cfg := Config{DB: w.db, Vault: vault, Source: "https://cloud.example.com", Audit: func(_ context.Context, _ *store.Tx, _ account.Principal, action, subject string, _ any) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.audited = append(w.audited, action+" "+subject)
		return nil
	}}
	for _, c := range change {
		c(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// announce is Announce in a transaction of its own.
func (w *world) announce(accountID, kind, subject string, at time.Time, data any) {
	w.t.Helper()
	if err := w.db.Update(w.t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return w.Announce(ctx, tx, accountID, kind, subject, at, data)
	}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) list(p account.Principal, f Filter) []Notification {
	w.t.Helper()
	list, err := w.List(w.t.Context(), p, f, "", 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

func who(accountID string, r account.Role) account.Principal {
	return account.Principal{UserID: ident.New(ident.User), AccountID: accountID, Role: r}
}

// samples has a payload of each kind, as others may announce it.
func samples() map[string]any {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	out := map[string]any{
		KindBalanceLow: BalanceLow{Currency: "CNY", Funds: 1_000_000, BurnPerHour: 500_000, Until: at, ThresholdSeconds: 3600}, KindBalanceExhausted: BalanceExhausted{Currency: "CNY", DeleteAt: at},
		KindSpotNotice: SpotNotice{Name: "train", BidID: "bd-1", Code: "outbid", InterruptAt: at}, KindDeletionPlanned: DeletionPlanned{DeleteAt: at, ThresholdSeconds: 600},
		KindDeleted: StorageDeleted{Name: "train", Code: "storage_grace"}, KindBudgetReached: BudgetReached{Name: "team", Currency: "CNY", Amount: 2, Spent: 1, ShareBasisPoints: 5000, From: at, To: at},
		KindPriceChange: PriceChange{Name: "train", Currency: "CNY", EffectiveAt: at, AnswerBy: at}, KindReservationEnding: ReservationEnding{Name: "train", Until: at},
		KindPaymentReceived: PaymentReceived{Currency: "CNY", Amount: 1, Method: "deposit"}, KindWebhookDisabled: WebhookDisabled{URL: "https://example.com", Reason: "gone", FailingSince: at},
	}
	for _, k := range []string{KindInterrupted, KindResumed, KindFailed, KindStoppedForBalance} {
		out[k] = LeaseNews{Name: "train", Code: "outbid", Message: "outbid", Simulated: true}
	}
	for _, k := range []string{KindWaitingStarted, KindWaitingHeldBack, KindWaitingExpired, KindWaitingFailed} {
		out[k] = WaitingNews{Name: "train", GPUModel: "H100", GPUs: 8, LeaseID: "ls-1", Code: "insufficient_balance", ExpiresAt: at, Simulated: true}
	}
	for _, k := range []string{KindInvoiceIssued, KindInvoiceDue, KindInvoiceOverdue} {
		out[k] = InvoiceNews{Number: "INV-000001", Currency: "CNY", Total: 1, From: at, To: at}
	}
	return out
}

func TestNewsIsWrittenOnceAndOnlyIfItHappened(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		at := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
		undone := errors.New("undone")
		err := db.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			if err := w.Announce(ctx, tx, "ac-1", KindFailed, "ls-0", at, LeaseNews{}); err != nil {
				t.Error(err)
			}
			return undone
		})
		if !errors.Is(err, undone) {
			t.Fatal(err)
		}
		for range 3 {
			w.announce("ac-1", KindFailed, "ls-1", at, map[string]any{"name": "train", "simulated": true})
		}
		w.announce("ac-1", KindFailed, "ls-1", at.Add(time.Second), LeaseNews{Name: "train"})
		w.announce("ac-2", KindFailed, "ls-1", at, LeaseNews{Name: "train"})
		list := w.list(who("ac-1", account.Owner), Filter{})
		if len(list) != 2 || list[1].At != at.Truncate(time.Microsecond) || string(list[1].Data) != `{"name":"train","simulated":true}` {
			t.Errorf("%+v", list)
		}
	})
}

func TestWhatIsNoNewsOfItsKindIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Address(t)))
	now := time.Now()
	for _, c := range []struct {
		account, kind string
		at            time.Time
		data          any
	}{
		{"ac-1", "lease.failing", now, LeaseNews{}}, {"ac-1", KindFailed, now, BalanceLow{}}, {"ac-1", KindFailed, now, "failed"},
		{"ac-1", KindFailed, time.Time{}, LeaseNews{}}, {"", KindFailed, now, LeaseNews{}}, {"ac-1", KindFailed, now, make(chan int)},
	} {
		if err := w.db.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			return w.Announce(ctx, tx, c.account, c.kind, "ls-1", c.at, c.data)
		}); err == nil {
			t.Errorf("%s of %q at %s with %v was taken", c.kind, c.account, c.at, c.data)
		}
	}
	if list := w.list(who("ac-1", account.Owner), Filter{}); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

func TestEveryKindHasASamplePayloadThatComesBackWhole(t *testing.T) {
	t.Parallel()
	all := samples()
	for _, k := range kinds {
		data, ok := all[k.name]
		if !ok {
			t.Errorf("no sample of %s", k.name)
			continue
		}
		text, err := k.encode(data)
		want, _ := json.Marshal(data)
		if err != nil || text != string(want) {
			t.Errorf("%s: %s, %v; want %s", k.name, text, err, want)
		}
		for f := range k.payload.Fields() {
			if f.Tag.Get("json") == "" {
				t.Errorf("%s.%s has no name in JSON", k.name, f.Name)
			}
		}
	}
}

func TestARoleReadsOnlyTheKindsThatItMay(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		at := time.Now()
		for k, data := range samples() {
			w.announce("ac-1", k, "x", at, data)
		}
		money := []string{KindBalanceLow, KindBalanceExhausted, KindInvoiceIssued, KindInvoiceDue, KindInvoiceOverdue, KindBudgetReached, KindPaymentReceived}
		for _, r := range account.Roles {
			got := w.list(who("ac-1", r), Filter{})
			sees := r == account.Owner || r == account.Admin || r == account.Billing
			want := len(kinds)
			if !sees {
				want -= len(money)
			}
			if len(got) != want {
				t.Errorf("%s reads %d, want %d", r, len(got), want)
			}
			for _, k := range money {
				if n := w.list(who("ac-1", r), Filter{Kind: k}); (len(n) == 1) != sees {
					t.Errorf("%s reads %d of %s", r, len(n), k)
				}
			}
			if n, err := w.Unread(t.Context(), who("ac-1", r)); err != nil || n != int64(want) {
				t.Errorf("%s has %d unread, %v, want %d", r, n, err, want)
			}
		}
		if got := w.list(who("ac-2", account.Owner), Filter{}); len(got) != 0 {
			t.Errorf("another account reads %+v", got)
		}
		scoped := who("ac-1", account.Owner)
		scoped.Scopes = []account.Action{account.ReadAccount}
		if got := w.list(scoped, Filter{}); len(got) != 1 || got[0].Kind != KindWebhookDisabled {
			t.Errorf("a key for the account alone reads %+v", got)
		}
	})
}

func TestReadingIsNotedOnceAndNobodyMarksAnothersNews(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		at := time.Now()
		for i := range 5 {
			w.announce("ac-1", KindFailed, "ls-1", at.Add(time.Duration(i)*time.Second), LeaseNews{Name: "train"})
		}
		w.announce("ac-1", KindBalanceLow, "ac-1", at, samples()[KindBalanceLow])
		owner, viewer := who("ac-1", account.Owner), who("ac-1", account.Viewer)
		list := w.list(owner, Filter{})
		low, oldest := list[0], list[5]
		for _, p := range []account.Principal{who("ac-2", account.Owner), viewer} {
			if _, err := w.MarkRead(t.Context(), p, low.ID); !isNotFound(err) {
				t.Errorf("%s of %s marks the balance's: %v", p.Role, p.AccountID, err)
			}
		}
		first, err := w.MarkRead(t.Context(), viewer, oldest.ID)
		if err != nil || first.ReadAt.IsZero() {
			t.Fatalf("%+v, %v", first, err)
		}
		if again, err := w.MarkRead(t.Context(), owner, oldest.ID); err != nil || !again.ReadAt.Equal(first.ReadAt) {
			t.Errorf("read again at %s, %v, want %s", again.ReadAt, err, first.ReadAt)
		}
		if n, err := w.MarkAllRead(t.Context(), viewer, list[2].ID); err != nil || n != 3 {
			t.Errorf("%d marked, %v, want 3", n, err)
		}
		unread := w.list(owner, Filter{Unread: true})
		if len(unread) != 2 || unread[0].ID != low.ID || unread[1].ID != list[1].ID {
			t.Errorf("unread are %+v", unread)
		}
		if _, err := w.List(t.Context(), owner, Filter{Kind: "nonsense"}, "", 5); err == nil {
			t.Error("a kind that there is not is searched for")
		}
		page, err := w.List(t.Context(), owner, Filter{Kind: KindFailed}, list[2].ID, 2)
		if err != nil || !slices.EqualFunc(page, list[3:5], func(a, b Notification) bool { return a.ID == b.ID }) {
			t.Errorf("the page after %s is %+v, %v", list[2].ID, page, err)
		}
	})
}

func isNotFound(err error) bool {
	f, ok := fault.As(err)
	return ok && f.Kind == fault.NotFound
}

package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// world is a cloud's accounts, books and trials, with a clock that stands still.
type world struct {
	*Service
	t        *testing.T
	db       *store.DB
	accounts *account.Service
	billing  *billing.Service
	operator account.Principal

	mu    sync.Mutex
	now   time.Time
	mails []string // "to: code"
	lost  error    // what sending mail comes to
}

func (w *world) clock() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now }
func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

var sixDigits = regexp.MustCompile(`\b\d{6}\b`)

func newWorld(t *testing.T, db *store.DB, change ...func(*Config)) *world {
	t.Helper()
	w := &world{t: t, db: db, now: time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)}
	secret := bytes.Repeat([]byte{7}, 32)
	var err error
	if w.accounts, err = account.New(account.Config{DB: db, Clock: w.clock, Secret: secret, PasswordCost: account.PasswordCost{MemoryKiB: 8, Passes: 1, Lanes: 1}}); err != nil {
		t.Fatal(err)
	}
	books, err := ledger.New(db, w.clock)
	if err != nil {
		t.Fatal(err)
	}
	w.billing, err = billing.New(billing.Config{
		DB: db, Clock: w.clock, Ledger: books, Audit: w.accounts.Audit,
		CurrencyOf:  func(context.Context, string) (money.Currency, error) { return money.USD, nil },
		OnExhausted: func(context.Context, string, string, billing.Reason) {}, OnWarning: func(context.Context, string, billing.Warning) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		DB: db, Clock: w.clock, Secret: secret, Money: w.billing, Accounts: w.accounts,
		Terms: Terms{Worth: 10_000_000, Currency: money.USD, ValidFor: 72 * time.Hour, MaxGPUs: 1, PerNetwork: 2},
		Send: func(_ context.Context, to, _, text string) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.lost == nil {
				w.mails = append(w.mails, to+": "+sixDigits.FindString(text))
			}
			return w.lost
		},
	}
	for _, c := range change {
		c(&cfg)
	}
	if w.Service, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	for _, m := range []interface{ Migrate(context.Context) error }{w.accounts, books, w.billing, w} {
		if err := m.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.operator = account.Principal{UserID: "us-operator", AccountID: "ac-operator", Role: account.Owner, Operator: true}
	return w
}

// joins makes an account, from an address of the network.
func (w *world) joins(email string) account.Principal {
	w.t.Helper()
	a, u, err := w.accounts.CreateAccount(w.t.Context(), w.operator, account.CreateAccount{Name: email, Email: email, Password: "a long enough password"})
	if err != nil {
		w.t.Fatal(err)
	}
	return account.Principal{UserID: u.ID, AccountID: a.ID, Role: account.Owner}
}

func from(ctx context.Context, ip string) context.Context {
	return account.WithOrigin(ctx, account.Origin{IP: ip})
}

func (w *world) code() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.mails) == 0 {
		w.t.Fatal("no mail came")
	}
	_, code, _ := strings.Cut(w.mails[len(w.mails)-1], ": ")
	return code
}

func (w *world) verified(email string) account.Principal {
	w.t.Helper()
	p := w.joins(email)
	if err := w.SendCode(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
	if st, err := w.Verify(w.t.Context(), p, w.code()); err != nil || !st.Verified {
		w.t.Fatal(st, err)
	}
	return p
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if f, ok := fault.As(err); !ok || f.Code != code {
		t.Errorf("got %v, want the fault %s", err, code)
	}
}

func (w *world) given(p account.Principal) (sum money.Amount) {
	w.t.Helper()
	list, err := w.billing.Grants(w.t.Context(), p.AccountID)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, g := range list {
		sum += g.Amount
	}
	return sum
}

func TestAStrangerWhoProvesItsAddressGetsOneTrial(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ctx := from(t.Context(), "198.51.100.7")
		p := w.joins("ada@example.com")
		device := w.NewDevice()
		_, err := w.Start(ctx, p, device)
		wantCode(t, err, "contact_unverified")
		if err := w.SendCode(ctx, p); err != nil {
			t.Fatal(err)
		}
		if w.mails[0] != "ada@example.com: "+w.code() || len(w.code()) != 6 {
			t.Errorf("mails %v", w.mails)
		}
		if _, err := w.Verify(ctx, p, w.code()); err != nil {
			t.Fatal(err)
		}
		first, err := w.Start(ctx, p, device)
		if err != nil || first.Grant == nil || first.Grant.Amount != 10_000_000 || first.Grant.ValidFor != 72*time.Hour || !first.Grant.ExpiresAt.IsZero() {
			t.Fatalf("%+v, %v", first, err)
		}
		again, err := w.Start(ctx, p, w.NewDevice())
		if err != nil || again.Grant.ID != first.Grant.ID {
			t.Errorf("again %+v, %v", again, err)
		}
		if w.given(p) != 10_000_000 {
			t.Errorf("%s was given", w.given(p))
		}
		// What is kept says nothing of who it was.
		if err := db.View(ctx, func(ctx context.Context, tx *store.Tx) error {
			var contact, device, network string
			if err := tx.QueryRow(ctx, `SELECT contact, device, network FROM trial_starts`).Scan(&contact, &device, &network); err != nil {
				return err
			}
			for _, v := range []string{contact, device, network} {
				if len(v) != 64 || strings.Contains(v, "198.51") || strings.Contains(v, "ada") {
					t.Errorf("kept as %q", v)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestManyStartsAtOnceGiveOneTrialAndNoMoreThanANetworkHas(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		var people []account.Principal
		for n := range 5 {
			people = append(people, w.verified(fmt.Sprintf("p%d@example.com", n)))
		}
		var all sync.WaitGroup
		var mu sync.Mutex
		refused := 0
		for _, p := range people {
			for range 2 {
				all.Go(func() {
					_, err := w.Start(from(t.Context(), "198.51.100.7"), p, w.NewDevice())
					if f, ok := fault.As(err); ok && f.Code == "trial_network" {
						mu.Lock()
						refused++
						mu.Unlock()
					} else if err != nil {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		var given money.Amount
		for _, p := range people {
			if g := w.given(p); g > 10_000_000 {
				t.Errorf("one has %s", g)
			}
			given += w.given(p)
		}
		if given != 20_000_000 || refused != 6 {
			t.Errorf("%s was given and %d refused", given, refused)
		}
	})
}

func TestContactDeviceAndNetworkHaveTheirShareAndNoMore(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		device := w.NewDevice()
		if _, err := w.Start(from(t.Context(), "198.51.100.7"), w.verified("a.da@gmail.com"), device); err != nil {
			t.Fatal(err)
		}
		_, err := w.Start(from(t.Context(), "203.0.113.1"), w.verified("ad.a+2@googlemail.com"), w.NewDevice())
		wantCode(t, err, "trial_contact")
		bob := w.verified("bob@example.com")
		_, err = w.Start(from(t.Context(), "203.0.113.1"), bob, device)
		wantCode(t, err, "trial_device")
		for _, forged := range []string{"", "x", device + "x", strings.Split(device, ".")[0], "AAAA." + strings.Split(device, ".")[1]} {
			_, err = w.Start(from(t.Context(), "203.0.113.1"), bob, forged)
			wantCode(t, err, "trial_device_unknown")
		}
		_, err = w.Start(t.Context(), bob, w.NewDevice())
		wantCode(t, err, "trial_network_unknown")
		if _, err = w.Start(from(t.Context(), "::ffff:198.51.100.200"), bob, w.NewDevice()); err != nil {
			t.Fatal(err)
		}
		eve := w.verified("eve@example.com")
		_, err = w.Start(from(t.Context(), "198.51.100.3"), eve, w.NewDevice())
		wantCode(t, err, "trial_network")
		w.pass(30*24*time.Hour - time.Second)
		_, err = w.Start(from(t.Context(), "198.51.100.3"), eve, w.NewDevice())
		wantCode(t, err, "trial_network")
		w.pass(time.Second)
		if _, err = w.Start(from(t.Context(), "198.51.100.3"), eve, w.NewDevice()); err != nil {
			t.Fatal(err)
		}
		// A customer of IPv6 has many /64.
		for n, want := range []string{"", "", "trial_network"} {
			_, err := w.Start(from(t.Context(), fmt.Sprintf("2001:db8:5:%d::1", n)), w.verified(fmt.Sprintf("six%d@example.com", n)), w.NewDevice())
			if want != "" {
				wantCode(t, err, want)
			} else if err != nil {
				t.Error(err)
			}
		}
	})
}

func TestACodeCannotBeGuessedReusedOrSentWithoutBound(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ctx := t.Context()
		p, other := w.joins("ada@example.com"), w.joins("eve@example.com")
		_, err := w.Verify(ctx, p, "")
		wantCode(t, err, "code_wrong")
		if err := w.SendCode(ctx, p); err != nil {
			t.Fatal(err)
		}
		code := w.code()
		_, err = w.Verify(ctx, other, code)
		wantCode(t, err, "code_wrong")
		wantCode(t, w.SendCode(ctx, p), "code_sent")
		wrong := "000000"
		if code == wrong {
			wrong = "000001"
		}
		for range codeTries {
			_, err = w.Verify(ctx, p, wrong)
			wantCode(t, err, "code_wrong")
		}
		_, err = w.Verify(ctx, p, code)
		wantCode(t, err, "code_wrong")
		w.pass(time.Minute)
		if err := w.SendCode(ctx, p); err != nil {
			t.Fatal(err)
		}
		w.pass(codeFor)
		_, err = w.Verify(ctx, p, w.code())
		wantCode(t, err, "code_wrong")
		for range codesADay - 2 {
			if err := w.SendCode(ctx, p); err != nil {
				t.Fatal(err)
			}
			w.pass(time.Minute)
		}
		wantCode(t, w.SendCode(ctx, p), "code_limit")
		w.pass(24 * time.Hour)
		w.lost = errors.New("connection refused")
		wantCode(t, w.SendCode(ctx, p), "mail_failed")
		w.lost = nil
		w.pass(time.Minute)
		if err := w.SendCode(ctx, p); err != nil {
			t.Fatal(err)
		}
		if st, err := w.Verify(ctx, p, w.code()); err != nil || !st.Verified {
			t.Errorf("%+v, %v", st, err)
		}
		wantCode(t, w.SendCode(ctx, p), "contact_verified")
	})
}

func TestAnOperatorsWordVerifiesWhereNoMailIsSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Address(t)), func(c *Config) { c.Send = nil })
	ctx := from(t.Context(), "198.51.100.7")
	p := w.joins("ada@example.com")
	wantCode(t, w.SendCode(ctx, p), "mail_off")
	_, err := w.VerifyByHand(ctx, p, p.AccountID)
	wantCode(t, err, "forbidden")
	_, err = w.VerifyByHand(ctx, w.operator, "ac-none")
	wantCode(t, err, "account_not_found")
	if st, err := w.VerifyByHand(ctx, w.operator, p.AccountID); err != nil || !st.Verified {
		t.Errorf("%+v, %v", st, err)
	}
	if _, err := w.Start(ctx, p, w.NewDevice()); err != nil {
		t.Error(err)
	}
	off := newWorld(t, storetest.Open(t, storetest.Address(t)), func(c *Config) { c.Terms.Worth = 0 })
	_, err = off.Start(ctx, p, off.NewDevice())
	wantCode(t, err, "trial_off")
	wantCode(t, off.SendCode(ctx, p), "trial_off")
}

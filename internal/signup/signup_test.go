package signup

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

type mail struct{ to, text string }

// world is a cloud's accounts and how one gets one, with a clock that stands still.
type world struct {
	*Service
	t        *testing.T
	db       *store.DB
	accounts *account.Service
	operator account.Principal
	proven   []string

	mu    sync.Mutex
	now   time.Time
	mails []mail
}

func (w *world) clock() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now }
func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

var sixDigits = regexp.MustCompile(`\b\d{6}\b`)

func newWorld(t *testing.T, db *store.DB, mode Mode) *world {
	t.Helper()
	w := &world{t: t, db: db, now: time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)}
	secret := bytes.Repeat([]byte{7}, 32)
	var err error
	if w.accounts, err = account.New(account.Config{DB: db, Clock: w.clock, Secret: secret, PasswordCost: account.PasswordCost{MemoryKiB: 8, Passes: 1, Lanes: 1}}); err != nil {
		t.Fatal(err)
	}
	w.Service, err = New(Config{
		DB: db, Clock: w.clock, Secret: secret, Mode: mode, Accounts: w.accounts, URL: "https://cloud.example.com/console",
		Send: func(_ context.Context, to, _, text string) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.mails = append(w.mails, mail{to, text})
			return nil
		},
		Proven: func(_ context.Context, _ *store.Tx, u account.User) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.proven = append(w.proven, u.Email)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []interface{ Migrate(context.Context) error }{w.accounts, w} {
		if err := m.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.accounts.Bootstrap(t.Context(), "operator@example.com", "a long enough password"); err != nil {
		t.Fatal(err)
	}
	if w.operator, err = w.accounts.FirstOperator(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

func from(t *testing.T, ip string) context.Context {
	t.Helper()
	return account.WithOrigin(t.Context(), account.Origin{IP: ip})
}

func (w *world) last() mail {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.mails) == 0 {
		w.t.Fatal("no mail came")
	}
	return w.mails[len(w.mails)-1]
}

func (w *world) code() string { return sixDigits.FindString(w.last().text) }

func fields(email string) account.CreateAccount {
	return account.CreateAccount{Name: "Ada's", Email: email, Password: "a long enough password", TimeZone: "Asia/Shanghai"}
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if f, ok := fault.As(err); !ok || f.Code != code {
		t.Errorf("got %v, want the fault %s", err, code)
	}
}

func TestAStrangerMakesAnAccountWithTheCodeFromTheMail(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, Open)
		ctx := from(t, "198.51.100.7")
		if err := w.Ask(ctx, "Ada@Example.com"); err != nil {
			t.Fatal(err)
		}
		if m := w.last(); m.to != "ada@example.com" || len(w.code()) != 6 {
			t.Fatalf("mail %+v", m)
		}
		// What is refused for another reason leaves the code as it is.
		weak := fields("ada@example.com")
		weak.Password = "short"
		_, err := w.Complete(ctx, weak, w.code())
		wantCode(t, err, "password_weak")
		s, err := w.Complete(ctx, fields("ada@example.com"), w.code())
		if err != nil {
			t.Fatal(err)
		}
		p, err := w.accounts.Authenticate(ctx, s.Token)
		if err != nil || p.Role != account.Owner || p.Operator {
			t.Fatalf("%+v, %v", p, err)
		}
		if a, err := w.accounts.Account(ctx, p.AccountID); err != nil || a.TimeZone != "Asia/Shanghai" || a.Name != "Ada's" {
			t.Errorf("%+v, %v", a, err)
		}
		if len(w.proven) != 1 || w.proven[0] != "ada@example.com" {
			t.Errorf("proven: %v", w.proven)
		}
		if _, err := w.accounts.SignIn(ctx, "ada@example.com", "a long enough password", ""); err != nil {
			t.Error(err)
		}
		_, err = w.Complete(ctx, fields("ada@example.com"), w.code())
		wantCode(t, err, "code_wrong")
		// What is kept says nothing of who it was.
		if err := db.View(ctx, func(ctx context.Context, tx *store.Tx) error {
			var contact string
			if err := tx.QueryRow(ctx, `SELECT contact FROM sign_ups`).Scan(&contact); err != nil {
				return err
			}
			if strings.Contains(contact, "ada") || len(contact) != 64 {
				t.Errorf("kept as %q", contact)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestOnlyTheMailTellsWhetherAnAddressHasAnAccount(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		for days, mode := range []Mode{Open, Invited} {
			w := newWorld(t, db, mode)
			w.pass(time.Duration(days) * 48 * time.Hour) // what the world before was asked counts no more
			ctx := from(t, "198.51.100.7")
			unknown := string(mode) + "@example.com"
			for _, email := range []string{"operator@example.com", unknown} {
				if err := w.Ask(ctx, email); err != nil {
					t.Fatal(err)
				}
				if w.last().to != email {
					t.Errorf("%s: the mail went to %s", email, w.last().to)
				}
				if code := w.code(); (code != "") != (email == unknown && mode == Open) {
					t.Errorf("%s, %s: the mail says %s", mode, email, w.last().text)
				}
				// And neither does a wrong code, nor asking again.
				_, err := w.Complete(ctx, fields(email), "no code")
				wantCode(t, err, "code_wrong")
				wantCode(t, w.Ask(ctx, email), "code_sent")
			}
		}
	})
}

func TestACodeCannotBeGuessedNorKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Address(t)), Open)
	ctx := from(t, "198.51.100.7")
	ask := func() {
		t.Helper()
		w.pass(2 * time.Minute)
		if err := w.Ask(ctx, "ada@example.com"); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	for range codeTries {
		_, err := w.Complete(ctx, fields("ada@example.com"), "wrong")
		wantCode(t, err, "code_wrong")
	}
	_, err := w.Complete(ctx, fields("ada@example.com"), w.code())
	wantCode(t, err, "code_wrong")
	ask()
	w.pass(codeFor)
	_, err = w.Complete(ctx, fields("ada@example.com"), w.code())
	wantCode(t, err, "code_wrong")
	// A code is of one address.
	ask()
	_, err = w.Complete(ctx, fields("eve@example.com"), w.code())
	wantCode(t, err, "code_wrong")
	ask()
	ask()
	w.pass(2 * time.Minute)
	wantCode(t, w.Ask(ctx, "ada@example.com"), "code_limit")
	w.pass(kept)
	ask()
}

func TestTwoRequestsWithOneCodeMakeOneAccount(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, Open)
		ctx := from(t, "198.51.100.7")
		if err := w.Ask(ctx, "ada@example.com"); err != nil {
			t.Fatal(err)
		}
		code := w.code()
		var all sync.WaitGroup
		var mu sync.Mutex
		made := 0
		for range 4 {
			all.Go(func() {
				if _, err := w.Complete(ctx, fields("ada@example.com"), code); err == nil {
					mu.Lock()
					made++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		if made != 1 {
			t.Errorf("%d accounts were made", made)
		}
	})
}

func TestWhoIsInvitedSignsUpUntilThatIsTakenBack(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, Invited)
		ctx := from(t, "198.51.100.7")
		i, err := w.Invite(ctx, w.operator, "Ada@example.com")
		if err != nil || i.Email != "ada@example.com" || !strings.Contains(w.last().text, "https://cloud.example.com/console/sign-up") {
			t.Fatalf("%+v, %v, %+v", i, err, w.last())
		}
		if _, err := w.Invite(ctx, w.operator, "ada@example.com"); err != nil {
			t.Fatalf("invited anew: %v", err)
		}
		_, err = w.Invite(ctx, w.operator, "operator@example.com")
		wantCode(t, err, "email_taken")
		if err := w.Ask(ctx, "ada@example.com"); err != nil {
			t.Fatal(err)
		}
		code := w.code()
		if err := w.Uninvite(ctx, w.operator, "ada@example.com"); err != nil {
			t.Fatal(err)
		}
		wantCode(t, w.Uninvite(ctx, w.operator, "ada@example.com"), "invitation_not_found")
		_, err = w.Complete(ctx, fields("ada@example.com"), code)
		wantCode(t, err, "code_wrong")
		if _, err := w.Invite(ctx, w.operator, "ada@example.com"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Complete(ctx, fields("ada@example.com"), code); err != nil {
			t.Fatal(err)
		}
		list, err := w.Invitations(ctx, "", 10)
		if err != nil || len(list) != 1 || list[0].UsedAt.IsZero() {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

func TestACloudIsClosedUnlessItIsOpened(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Address(t))
	w := newWorld(t, db, Closed)
	wantCode(t, w.Ask(from(t, "198.51.100.7"), "ada@example.com"), "sign_up_closed")
	_, err := w.Complete(from(t, "198.51.100.7"), fields("ada@example.com"), "123456")
	wantCode(t, err, "sign_up_closed")
	for _, mode := range []Mode{Open, Invited, "wide"} {
		if _, err := New(Config{DB: db, Clock: w.clock, Secret: make([]byte, 32), Mode: mode, Accounts: w.accounts}); err == nil {
			t.Errorf("%s without mail is taken", mode)
		}
	}
}

func TestANetworkCannotHaveMailSentToEverybody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Address(t)), Open)
	var err error
	sent := 0
	for n := range 50 {
		if err = w.Ask(from(t, fmt.Sprintf("2001:db8::%x", n+1)), fmt.Sprintf("p%d@example.com", n)); err != nil {
			break
		}
		sent++
	}
	wantCode(t, err, "sign_up_throttled")
	if sent != 10 {
		t.Errorf("%d mails were sent", sent)
	}
	if err := w.Ask(from(t, "198.51.100.7"), "other@example.com"); err != nil {
		t.Errorf("another network: %v", err)
	}
}

func TestAClockThatWasAheadKeepsNobodyWaitingAndNoCodeAlive(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, Open)
		ctx := from(t, "198.51.100.7")
		w.pass(48 * time.Hour) // ahead
		if err := w.Ask(ctx, "ada@example.com"); err != nil {
			t.Fatal(err)
		}
		old := w.code()
		w.pass(-48 * time.Hour) // repaired, and the process began again: from elsewhere, as it has forgotten who asked
		ctx = from(t, "203.0.113.9")
		_, err := w.Complete(ctx, fields("ada@example.com"), old)
		wantCode(t, err, "code_wrong")
		if err := w.Ask(ctx, "ada@example.com"); err != nil {
			t.Fatalf("after the clock was repaired: %v", err)
		}
		if _, err := w.Complete(ctx, fields("ada@example.com"), w.code()); err != nil {
			t.Fatal(err)
		}
	})
}

package billing_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// noticeBoard keeps announcements in the database, as whoever announces must: what
// is rolled back was not announced.
type noticeBoard struct {
	mu   sync.Mutex
	fail func(kind string) bool // breaks the transaction
}

var errBoard = errors.New("the board fell down")

func (b *noticeBoard) Announce(ctx context.Context, tx *store.Tx, accountID, kind, subject string, at time.Time, data any) error {
	if _, err := tx.Exec(ctx, `INSERT INTO test_announced (id, account_id, kind, subject, at, data) VALUES (?, ?, ?, ?, ?, ?)`,
		ident.New(ident.Event), accountID, kind, subject, store.Micros(at), fmt.Sprintf("%+v", data)); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil && b.fail(kind) {
		return errBoard
	}
	return nil
}

// eachAnnounced is eachWith with a board.
func eachAnnounced(t *testing.T, test func(t *testing.T, w *world, b *noticeBoard), change ...func(*billing.Config)) {
	t.Helper()
	b := &noticeBoard{}
	eachWith(t, func(t *testing.T, w *world) {
		b.fail = nil
		w.do(func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Exec(ctx, `CREATE TABLE test_announced (id TEXT NOT NULL PRIMARY KEY, account_id TEXT NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL, at BIGINT NOT NULL, data TEXT NOT NULL)`)
			return err
		})
		test(t, w, b)
	}, append(change, func(c *billing.Config) { c.News = b })...)
}

// announced lists what was announced about money that is missing, without invoices'
// identifiers.
func (w *world) announced() (out []string) {
	w.t.Helper()
	if err := w.db.View(w.ctx, func(ctx context.Context, tx *store.Tx) error {
		out = nil
		rows, err := tx.Query(ctx, `SELECT kind, subject, at FROM test_announced WHERE kind <> 'invoice.issued' ORDER BY id`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var kind, subject string
			var at int64
			if err := rows.Scan(&kind, &subject, &at); err != nil {
				return err
			}
			if !strings.HasPrefix(subject, "in-") {
				kind += " " + subject
			}
			out = append(out, kind)
		}
		return rows.Err()
	}); err != nil {
		w.t.Fatal(err)
	}
	return out
}

func (w *world) dun() {
	w.t.Helper()
	if err := w.Dun(w.ctx, w.clock()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) standings() []billing.InvoiceStanding {
	w.t.Helper()
	list, err := w.Standings(w.ctx, "ac-renter")
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// states are how the account's invoices stand, oldest first.
func (w *world) states() string {
	var out []string
	for _, st := range slices.Backward(w.standings()) {
		out = append(out, fmt.Sprintf("%s %s", st.State, st.Owed.Display()))
	}
	return strings.Join(out, ", ")
}

// owing makes an invoice for each of some hours at 3.60, month after month from
// March 2026 on, on credit, and ends in the first day of the month after the last.
func (w *world) owing(months int) {
	w.t.Helper()
	w.limit("ac-renter", "1000")
	w.closeMonths()
	for n := range months {
		id := fmt.Sprintf("ls-month-%d", n)
		w.begin(w.terms(id))
		w.startCompute(id, w.clock())
		w.pass(time.Hour)
		w.end(id, w.clock())
		w.pass(time.Date(2026, time.Month(4+n), 1, 2, 0, 0, 0, time.UTC).Sub(w.clock()))
		w.closeMonths()
	}
}

// tick does what the loops do.
func (w *world) tick() {
	w.t.Helper()
	w.watch()
	w.closeMonths()
	w.dun()
	w.watch()
}

func TestAnUnpaidInvoiceIsFollowedUpStepByStepEachOnceAndAnnounced(t *testing.T) {
	t.Parallel()
	eachAnnounced(t, func(t *testing.T, w *world, _ *noticeBoard) {
		w.owing(1)
		w.begin(w.terms("ls-1", func(tariff *pricing.Tariff, _ *pricing.Request) { tariff.Compute = mustRate(t, "0.1") }))
		w.startCompute("ls-1", w.clock())
		w.startStorage("ls-1", w.clock())
		seen := map[string]string{}
		note := func() {
			for _, a := range w.announced() {
				if _, ok := seen[a]; !ok {
					seen[a] = w.clock().Format("01-02")
				}
			}
			for _, o := range w.orders {
				if _, ok := seen[o]; !ok {
					seen[o] = w.clock().Format("01-02")
				}
			}
		}
		for w.clock().Before(at(t, "2026-05-20T00:00:00Z")) {
			w.pass(6 * time.Hour)
			w.ConfirmAlive([]string{"ls-1"}, w.clock())
			w.restart()
			w.ConfirmAlive([]string{"ls-1"}, w.clock())
			w.tick()
			w.tick()
			note()
			if _, ok := seen["ls-1 invoice_overdue"]; ok {
				w.stopCompute("ls-1", w.clock())
			}
			if _, ok := seen["ls-1 storage_grace"]; ok {
				w.end("ls-1", w.clock())
				note()
				break
			}
		}
		for what, day := range map[string]string{
			"invoice.due": "04-12", "invoice.overdue": "04-16", "ls-1 invoice_overdue": "04-29",
			"storage.deletion_planned ac-renter": "04-29", "ls-1 storage_grace": "05-06",
		} {
			if seen[what] != day {
				t.Errorf("%s came on %q, want %s", what, seen[what], day)
			}
		}
		count := map[string]int{}
		for _, a := range w.announced() {
			count[a]++
		}
		// Three days before and on the day; the day after, a week after, the notice, the stop.
		if count["invoice.due"] != 2 || count["invoice.overdue"] != 4 {
			t.Errorf("%v", count)
		}
		// The grace itself, a day, an hour and ten minutes: as far as ticks of 6 hours see them.
		if n := count["storage.deletion_planned ac-renter"]; n != 2 {
			t.Errorf("the deletion was announced %d times", n)
		}
		err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error { return w.BeginLease(ctx, tx, w.terms("ls-2")) })
		wantCode(t, err, "invoice_overdue")
		w.right()
	})
}

func TestDepositsSettleTheOldestInvoiceFirstAndPaymentLetsComputeRunAgain(t *testing.T) {
	t.Parallel()
	eachAnnounced(t, func(t *testing.T, w *world, _ *noticeBoard) {
		w.owing(3) // due on 15 April, 15 May and 15 June
		w.dun()    // nobody looked before
		if got := w.states(); got != "overdue 3.60, overdue 3.60, open 3.60" {
			t.Fatal(got)
		}
		w.pass(73 * time.Hour)
		w.dun()
		w.dun()
		err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error { return w.BeginLease(ctx, tx, w.terms("ls-1")) })
		wantCode(t, err, "invoice_overdue")
		w.deposit("ac-renter", "1.60")
		if got := w.states(); got != "overdue 2.00, overdue 3.60, open 3.60" {
			t.Error(got)
		}
		w.deposit("ac-renter", "3")
		if got := w.states(); got != "paid 0.00, overdue 2.60, open 3.60" {
			t.Error(got)
		}
		// Both that are overdue had their stop.
		w.deposit("ac-renter", "2.60")
		if got := w.states(); got != "paid 0.00, paid 0.00, open 3.60" {
			t.Error(got)
		}
		w.begin(w.terms("ls-1"))
		w.goTo("2026-07-15T12:00:00Z")
		if got := w.states(); got != "paid 0.00, paid 0.00, due 3.60" && !strings.HasSuffix(got, "overdue 3.60") {
			t.Error(got)
		}
		w.deposit("ac-renter", "10")
		if got := w.states(); !strings.HasPrefix(got, "paid 0.00, paid 0.00, paid 0.00") {
			t.Error(got)
		}
		before := len(w.announced())
		w.pass(60 * 24 * time.Hour)
		w.dun()
		if after := w.announced(); len(after) != before {
			t.Errorf("paid invoices were followed up: %v", after[before:])
		}
		w.right()
	})
}

// However long nobody looked, and wherever clocks jumped.
func TestNothingIsStoppedOrDeletedThatWasNotAnnouncedBefore(t *testing.T) {
	t.Parallel()
	eachAnnounced(t, func(t *testing.T, w *world, _ *noticeBoard) {
		w.owing(1)
		w.begin(w.terms("ls-1"))
		w.startStorage("ls-1", w.clock())
		w.goTo("2027-04-01T00:00:00Z")
		w.dun()
		w.dun()
		if got := w.announced(); !slices.Equal(got, []string{"invoice.overdue", "invoice.overdue"}) {
			t.Errorf("after a year of silence: %v", got)
		}
		w.pass(-400 * 24 * time.Hour)
		w.dun()
		w.pass(400*24*time.Hour + 71*time.Hour)
		w.tick()
		if len(w.announced()) != 2 || len(w.orders) != 0 {
			t.Errorf("too early: %v, %v", w.announced(), w.orders)
		}
		w.pass(2 * time.Hour)
		w.tick()
		w.goTo("2028-04-01T00:00:00Z") // the week of grace is long over, but it was announced
		w.restart()
		w.tick()
		if !slices.Contains(w.orders, "ls-1 storage_grace") {
			t.Errorf("orders %v", w.orders)
		}
	})
}

func TestAPrepaidDiskIsNotDeletedBeforeItsDeletionWasAnnounced(t *testing.T) {
	t.Parallel()
	eachAnnounced(t, func(t *testing.T, w *world, _ *noticeBoard) {
		w.deposit("ac-renter", "4")
		w.begin(w.terms("ls-1", func(_ *pricing.Tariff, r *pricing.Request) { r.DiskGiB = 100 }))
		w.startStorage("ls-1", w.clock())
		w.startCompute("ls-1", w.clock())
		w.pass(60 * 24 * time.Hour) // the money ended, and nobody was there to say so
		w.restart()
		w.watch()
		if got := w.announced(); !slices.Equal(got, []string{"balance.exhausted ac-renter", "storage.deletion_planned ac-renter"}) {
			t.Fatalf("%v", got)
		}
		w.pass(71 * time.Hour)
		w.watch()
		if slices.Contains(w.orders, "ls-1 storage_grace") {
			t.Errorf("%v", w.orders)
		}
		w.pass(2 * time.Hour)
		w.watch()
		if !slices.Contains(w.orders, "ls-1 storage_grace") {
			t.Errorf("%v", w.orders)
		}
		w.end("ls-1", w.clock())
		w.right()
	})
}

// A crash in the middle of a step takes the step back, and replicas take turns.
func TestStepsAreTakenOnceByReplicasThatCrash(t *testing.T) {
	t.Parallel()
	eachAnnounced(t, func(t *testing.T, w *world, b *noticeBoard) {
		w.owing(1)
		n := 0
		b.fail = func(string) bool { n++; return n%3 != 0 }
		for w.clock().Before(at(t, "2026-05-05T00:00:00Z")) {
			w.pass(6 * time.Hour)
			var wg sync.WaitGroup
			for range 2 {
				replica, err := billing.New(w.config)
				if err != nil {
					t.Fatal(err)
				}
				wg.Go(func() {
					for range 6 {
						if err := replica.Dun(w.ctx, w.clock()); err != nil && !errors.Is(err, errBoard) {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
		}
		count := map[string]int{}
		for _, a := range w.announced() {
			count[a]++
		}
		if count["invoice.due"] != 2 || count["invoice.overdue"] != 4 || n < 10 {
			t.Errorf("%v after %d tries", count, n)
		}
	})
}

func TestWhatIsWrittenOffIsInTheBooks(t *testing.T) {
	t.Parallel()
	eachAnnounced(t, func(t *testing.T, w *world, _ *noticeBoard) {
		w.owing(2)
		_, err := w.WriteOff(w.ctx, account.Principal{AccountID: "ac-renter", Role: account.Owner}, "INV-000001", "")
		wantCode(t, err, "forbidden")
		_, err = w.WriteOff(w.ctx, operator, "INV-000002", "")
		wantCode(t, err, "invoice_not_overdue")
		_, err = w.WriteOff(w.ctx, operator, "INV-000009", "")
		wantCode(t, err, "invoice_not_found")
		for range 2 {
			st, err := w.WriteOff(w.ctx, operator, "INV-000001", "bankrupt")
			if err != nil || st.State != pricing.InvoiceUncollectible || st.Owed != 0 {
				t.Fatalf("%+v, %v", st, err)
			}
		}
		w.wantBalance(ledger.WrittenOff, "-3.600000")
		w.wantBalance(ledger.Receivable("ac-renter"), "-3.600000")
		if got := w.states(); got != "uncollectible 0.00, open 3.60" {
			t.Error(got)
		}
		w.pass(40 * 24 * time.Hour)
		w.closeMonths()
		st, err := w.Statements(w.ctx, "ac-renter", time.Time{}, 1)
		if err != nil || st[0].Closing.String() != "-3.600000" || st[0].Credited.String() != "3.600000" {
			t.Errorf("%+v, %v", st, err)
		}
		w.right()
	})
}

func TestACreditNoteTakesAnInvoiceOutOfWhatIsOwed(t *testing.T) {
	t.Parallel()
	eachAnnounced(t, func(t *testing.T, w *world, _ *noticeBoard) {
		w.owing(2)
		if _, err := w.CreditInvoice(w.ctx, operator, "INV-000002", billing.Credit{}, ""); err != nil {
			t.Fatal(err)
		}
		if got := w.states(); got != "overdue 3.60, credited 0.00" {
			t.Error(got)
		}
		w.deposit("ac-renter", "3.60")
		if got := w.states(); got != "paid 0.00, credited 0.00" {
			t.Error(got)
		}
		w.right()
	})
}

func TestOldInvoicesAreDueFromTheUpgradeOn(t *testing.T) {
	t.Parallel()
	eachAnnounced(t, func(t *testing.T, w *world, _ *noticeBoard) {
		w.owing(2)
		w.do(func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Exec(ctx, `DELETE FROM billing_dues`)
			return err
		})
		w.withoutDueDays()
		w.right()
		w.goTo("2026-08-01T10:00:00Z")
		w.dun()
		for _, st := range w.standings() {
			if st.State != pricing.InvoiceOpen || !st.DueAt.Equal(at(t, "2026-08-16T00:00:00Z")) {
				t.Errorf("%+v", st)
			}
		}
		w.right()
	})
}

// withoutDueDays rewrites all documents as they were written before they named the day
// on which they are due, with the digests that they have then.
func (w *world) withoutDueDays() {
	w.t.Helper()
	type paper struct {
		id     string
		text   []byte
		digest string
	}
	w.do(func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT series, id, document FROM billing_invoices ORDER BY series, number`)
		if err != nil {
			return err
		}
		defer rows.Close()
		series := map[string][]paper{}
		for rows.Next() {
			var name, id string
			var text []byte
			if err := rows.Scan(&name, &id, &text); err != nil {
				return err
			}
			var fields map[string]json.RawMessage
			if err := json.Unmarshal(text, &fields); err != nil {
				return err
			}
			delete(fields, "due_at")
			if text, err = json.Marshal(fields); err != nil {
				return err
			}
			before := "" // of the document before it in its series
			if n := len(series[name]); n > 0 {
				before = series[name][n-1].digest
			}
			sum := sha256.Sum256(append([]byte(before+"\n"), text...))
			series[name] = append(series[name], paper{id, text, hex.EncodeToString(sum[:])})
		}
		if err := rows.Err(); err != nil {
			return err
		}
		rows.Close()
		for name, papers := range series {
			for _, p := range papers {
				if _, err := tx.Exec(ctx, `UPDATE billing_invoices SET document = ?, digest = ? WHERE id = ?`, string(p.text), p.digest, p.id); err != nil {
					return err
				}
			}
			if _, err := tx.Exec(ctx, `UPDATE billing_series SET digest = ? WHERE series = ?`, papers[len(papers)-1].digest, name); err != nil {
				return err
			}
		}
		return nil
	})
}

// Accounts with terms of their own have them on the invoices written from then on.
func TestAnAccountsOwnDaysToPayAreOnItsInvoices(t *testing.T) {
	t.Parallel()
	eachAnnounced(t, func(t *testing.T, w *world, _ *noticeBoard) {
		w.owing(1)
		days := 30
		if _, err := w.SetCreditLimit(w.ctx, operator, "ac-renter", billing.CreditChange{Limit: must(t, "1000"), NetDays: &days}); err != nil {
			t.Fatal(err)
		}
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", w.clock())
		w.pass(time.Hour)
		w.end("ls-1", w.clock())
		w.goTo("2026-05-01T02:00:00Z")
		w.closeMonths()
		list := w.invoices("ac-renter")
		if !list[0].DueAt.Equal(at(t, "2026-04-16T00:00:00Z")) || !list[1].DueAt.Equal(at(t, "2026-06-01T00:00:00Z")) {
			t.Errorf("due at %s and %s", list[0].DueAt, list[1].DueAt)
		}
	})
}

func TestAPrepaidAccountsInvoicesArePaidWhenTheyAreWritten(t *testing.T) {
	t.Parallel()
	eachAnnounced(t, func(t *testing.T, w *world, _ *noticeBoard) {
		w.invoiced("68.33")
		if got := w.states(); got != "paid 0.00" {
			t.Error(got)
		}
		w.pass(100 * 24 * time.Hour)
		w.dun()
		if got := w.announced(); len(got) != 0 {
			t.Errorf("%v", got)
		}
	})
}

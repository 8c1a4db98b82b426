package billing_test

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// told returns the sums of the events of an account's use, by lease and meter.
func (w *world) told(accountID string) map[string]*big.Rat {
	w.t.Helper()
	sums := map[string]*big.Rat{}
	ends := map[string]time.Time{}
	q := billing.UsedQuery{AccountID: accountID, Limit: 100}
	for {
		list, err := w.Usage(w.ctx, q)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, u := range list {
			if u.AccountID != accountID || u.Number <= q.After {
				w.t.Fatalf("number %d of %s follows %d in the events of %s", u.Number, u.AccountID, q.After, accountID)
			}
			q.After = u.Number
			n, ok := new(big.Rat).SetString(u.Quantity())
			if !ok || n.Sign() == 0 || strings.ContainsAny(u.Quantity(), "eE/") {
				w.t.Fatalf("an event says that %q was used", u.Quantity())
			}
			k := u.LeaseID + " " + u.Meter
			if u.To.Before(u.From) || u.From.Before(ends[k]) {
				w.t.Fatalf("event of %s is from %s to %s, the one before it to %s", k, u.From, u.To, ends[k])
			}
			ends[k] = u.To
			if sums[k] == nil {
				sums[k] = new(big.Rat)
			}
			sums[k].Add(sums[k], n)
		}
		if len(list) < q.Limit {
			return sums
		}
	}
}

// seconds is a stretch of time, times a factor, exactly.
func seconds(d time.Duration, factor int64) *big.Rat {
	r := big.NewRat(d.Microseconds(), 1_000_000)
	return r.Mul(r, new(big.Rat).SetInt64(factor))
}

func (w *world) wantTold(sums map[string]*big.Rat, key string, want *big.Rat) {
	w.t.Helper()
	got := sums[key]
	if got == nil {
		got = new(big.Rat)
	}
	if got.Cmp(want) != 0 {
		w.t.Fatalf("the events of %s come to %s, and it used %s", key, got.FloatString(6), want.FloatString(6))
	}
}

// tellsStory compares the events of an ended lease with its story.
func (w *world) tellsStory(l *modelLease) {
	w.t.Helper()
	ran, kept, sent := new(big.Rat), new(big.Rat), int64(0)
	for _, r := range l.runs {
		ran.Add(ran, seconds(r.end.Sub(r.start), 1))
	}
	if len(l.runs) > 0 {
		sent = l.bytes
		for _, k := range l.kept {
			if start := clamp(k.start, l.runs[0].start, k.end.Add(time.Hour)); start.Before(k.end) {
				kept.Add(kept, seconds(k.end.Sub(start), l.terms.Quote.DiskGiB))
			}
		}
	}
	sums, id := w.told(l.terms.AccountID), l.terms.LeaseID
	w.wantTold(sums, id+" compute", ran)
	w.wantTold(sums, id+" storage", kept)
	w.wantTold(sums, id+" egress", new(big.Rat).SetInt64(sent))
}

// tellsUse compares the events of an account whose leases have ended with what is
// stored of their runs, whatever they were paid with.
func (w *world) tellsUse(accountID string) {
	w.t.Helper()
	want := map[string]*big.Rat{}
	err := w.db.View(w.ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT l.lease_id, i.meter, i.start_at, i.end_at, i.limit_at, COALESCE((SELECT MIN(f.start_at) FROM billing_intervals f WHERE f.lease_id = l.lease_id AND f.meter = 'compute'), 0),
			CASE WHEN r.lease_id IS NULL THEN 0 ELSE 1 END FROM billing_leases l JOIN billing_intervals i ON i.lease_id = l.lease_id LEFT JOIN billing_reserved r ON r.lease_id = l.lease_id WHERE l.account_id = ?`, accountID)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id, meter string
			var start, end, limit, first, reserved int64
			if err := rows.Scan(&id, &meter, &start, &end, &limit, &first, &reserved); err != nil {
				return err
			}
			if meter != "compute" || first == 0 {
				continue
			}
			if limit != 0 {
				end = min(end, limit)
			}
			if reserved == 1 {
				meter = billing.MeterReserved
			}
			k := id + " " + meter
			if want[k] == nil {
				want[k] = new(big.Rat)
			}
			want[k].Add(want[k], big.NewRat(max(0, end-start), 1_000_000))
		}
		return rows.Err()
	})
	if err != nil {
		w.t.Fatal(err)
	}
	sums := w.told(accountID)
	for k, n := range want {
		w.wantTold(sums, k, n)
	}
	for k := range sums {
		if want[k] == nil && !strings.HasSuffix(k, " storage") && !strings.HasSuffix(k, " egress") {
			w.t.Fatalf("there are events of %s, which never ran", k)
		}
	}
}

func TestUseIsToldInDifferencesThatAreNeverToldTwice(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "1000")
		terms := w.terms("ls-1", func(_ *pricing.Tariff, r *pricing.Request) { r.DiskGiB = 10 })
		terms.GPUModel, terms.Zone, terms.GPUs = "rtx-4090", "local-a", 2
		w.begin(terms)
		w.startStorage("ls-1", noon)
		w.startCompute("ls-1", noon)
		w.ConfirmAlive([]string{"ls-1"}, w.pass(90*time.Minute+time.Microsecond))
		w.settle()
		w.settle()
		if err := w.egress("ls-1", 9_000_000_000_000/1000); err != nil {
			t.Fatal(err)
		}
		// It ran for less than was charged: what is too much is taken back.
		w.stopCompute("ls-1", noon.Add(time.Hour))
		var got []string
		list, err := w.Usage(w.ctx, billing.UsedQuery{AccountID: "ac-renter", Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range list {
			got = append(got, fmt.Sprintf("%d %s %s %s", u.Number, u.Meter, u.Quantity(), u.Unit()))
			if u.LeaseID != "ls-1" || u.Plan != "on_demand" || u.GPUModel != "rtx-4090" || u.GPUs != 2 || u.Zone != "local-a" || u.Simulated {
				t.Errorf("event %+v", u)
			}
		}
		want := []string{"1 compute 5400.000001 s", "2 storage 54000.00001 GiB·s", "3 compute -1800.000001 s", "4 egress 9000000000 byte"}
		if !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
		again, err := w.Usage(w.ctx, billing.UsedQuery{AccountID: "ac-renter", Meter: "compute", LeaseID: "ls-1", From: noon.Add(time.Minute), AfterID: list[1].ID, Limit: 100})
		if err != nil || len(again) != 1 || again[0] != list[2] {
			t.Errorf("read again: %+v, %v; want %+v", again, err, list[2])
		}
		if other, err := w.Usage(w.ctx, billing.UsedQuery{AccountID: "ac-other", Limit: 100}); err != nil || len(other) != 0 {
			t.Errorf("another account reads %v, %v", other, err)
		}
		if all, err := w.Usage(w.ctx, billing.UsedQuery{Limit: 100}); err != nil || !slices.Equal(all, list) {
			t.Errorf("operators read %v, %v", all, err)
		}
		if _, err := w.Usage(w.ctx, billing.UsedQuery{AccountID: "ac-other", AfterID: list[1].ID, Limit: 100}); err == nil {
			t.Error("another account's event is a cursor")
		}
		w.right()
	})
}

func TestUseThatMonthsPayForIsToldToo(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "1000")
		w.begin(w.monthly("ls-1", "UTC", 1, false))
		w.startCompute("ls-1", noon)
		w.ConfirmAlive([]string{"ls-1"}, w.pass(2*time.Hour))
		w.settle()
		w.restart() // what was told stays told, without a sign of life
		w.settle()
		w.wantTold(w.told("ac-renter"), "ls-1 compute", seconds(2*time.Hour, 1))
		if list, err := w.Usage(w.ctx, billing.UsedQuery{Limit: 9, Meter: "compute"}); err != nil || len(list) != 1 {
			t.Errorf("events %v, %v; want one", list, err)
		}
		w.right()
	})
}

func TestEventsThatAreGoneAreFound(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "1000")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", noon)
		w.stopCompute("ls-1", w.pass(time.Hour))
		w.right()
		w.do(func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Exec(ctx, `DELETE FROM billing_usage`)
			return err
		})
		r, err := w.VerifyLedger(w.ctx)
		if err != nil || r.OK() || !strings.Contains(fmt.Sprint(r.Wrong), "events of its use") {
			t.Errorf("the report is %+v, %v", r, err)
		}
	})
}

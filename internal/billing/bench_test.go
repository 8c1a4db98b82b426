package billing_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// fleet is a world in which a thousand renters run ten leases each.
func fleet(b *testing.B) (*world, []string) {
	b.Helper()
	w := newWorld(b, b.Context(), storetest.Open(b, storetest.Address(b)))
	var ids []string
	for a := range 1000 {
		renter := fmt.Sprintf("ac-%04d", a)
		w.deposit(renter, "1000000")
		w.do(func(ctx context.Context, tx *store.Tx) error {
			for l := range 10 {
				terms := w.terms(fmt.Sprintf("ls-%04d-%d", a, l))
				terms.AccountID = renter
				if err := w.BeginLease(ctx, tx, terms); err != nil {
					return err
				}
				if err := w.StartCompute(ctx, tx, terms.LeaseID, w.clock()); err != nil {
					return err
				}
			}
			return nil
		})
		for l := range 10 {
			ids = append(ids, fmt.Sprintf("ls-%04d-%d", a, l))
		}
	}
	b.ResetTimer()
	return w, ids
}

// A look at everybody, all of them due for one.
func BenchmarkWatchTenThousandLeases(b *testing.B) {
	w, ids := fleet(b)
	for b.Loop() {
		w.ConfirmAlive(ids, w.pass(time.Minute))
		w.watch()
	}
}

// An hour's settlement of everybody.
func BenchmarkSettleTenThousandLeases(b *testing.B) {
	w, ids := fleet(b)
	for b.Loop() {
		w.ConfirmAlive(ids, w.pass(time.Hour))
		w.settle()
	}
}

// What each heartbeat asks for each lease.
func BenchmarkPaidFor(b *testing.B) {
	w, ids := fleet(b)
	i := 0
	for b.Loop() {
		if _, err := w.PaidFor(w.ctx, ids[i%len(ids)], w.clock()); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

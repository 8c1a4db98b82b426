package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// invoiceMonth lets leases run for the whole of May 2026, ten to an account, with a
// disk and egress, and closes the month as a cloud does: what is due is settled,
// invoices with a tax and statements are written and the next month is opened,
// account by account, on SQLite, synchronous=FULL. Then it proves the books, every
// charge, invoice and transfer, from what is stored. Beginning the leases is not
// timed.
func invoiceMonth(ctx context.Context, w *world, leases int) (closing, proof time.Duration, err error) {
	path := filepath.Join(w.dir, fmt.Sprintf("invoices-%d.db", leases))
	defer func() {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			_ = os.Remove(path + suffix)
		}
	}()
	db, err := store.Open(ctx, "sqlite:"+path)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	books, err := ledger.New(db, clock)
	if err != nil {
		return 0, 0, err
	}
	s, err := billing.New(billing.Config{
		DB: db, Clock: clock, Ledger: books, CurrencyOf: func(context.Context, string) (money.Currency, error) { return money.CNY, nil },
		Taxes: []pricing.TaxRule{{Jurisdiction: "CN", Name: "VAT", PPM: 60_000}}, Jurisdiction: "CN",
	})
	if err == nil {
		err = errors.Join(books.Migrate(ctx), s.Migrate(ctx))
	}
	if err != nil {
		return 0, 0, err
	}
	operator := account.Principal{UserID: "us-operator", AccountID: "ac-operator", Role: account.Owner, Operator: true}
	quote, err := pricing.NewQuote(pricing.Tariff{Currency: money.CNY, Compute: 1_000_000_001, Storage: 700_000_000, Egress: 500_000_000,
		Granularity: pricing.Second, MinimumSeconds: 60, CommissionBasisPoints: 1500}, pricing.Request{Plan: pricing.OnDemand, DiskGiB: 100}, now)
	if err != nil {
		return 0, 0, err
	}
	ids := make([]string, 0, leases)
	for a := range leases / monthAccount {
		id := fmt.Sprintf("ac-%06d", a)
		if _, err := s.Deposit(ctx, operator, id, 1_000_000_000_000, "", ""); err != nil {
			return 0, 0, err
		}
		if err := db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			for n := range monthAccount {
				lease := fmt.Sprintf("ls-%06d-%d", a, n)
				err := errors.Join(
					s.BeginLease(ctx, tx, billing.Terms{LeaseID: lease, AccountID: id, ProviderID: fmt.Sprintf("pr-%03d", a%200), Quote: quote}),
					s.StartStorage(ctx, tx, lease, now), s.StartCompute(ctx, tx, lease, now), s.RecordEgress(ctx, tx, lease, int64(1+n)*1_234_567, now))
				if err != nil {
					return err
				}
				ids = append(ids, lease)
			}
			return nil
		}); err != nil {
			return 0, 0, err
		}
	}
	if err := s.CloseMonths(ctx, now); err != nil { // opens the first
		return 0, 0, err
	}
	now = time.Date(2026, 6, 1, 2, 0, 0, 0, time.UTC)
	s.ConfirmAlive(ids, now)
	begin := time.Now()
	if err := s.CloseMonths(ctx, now); err != nil {
		return 0, 0, err
	}
	closing = time.Since(begin)
	begin = time.Now()
	r, err := s.VerifyLedger(ctx)
	proof = time.Since(begin)
	switch {
	case err != nil:
	case !r.OK():
		err = fmt.Errorf("the books are wrong: %v %v", r.Faults, r.Wrong)
	case r.Invoices != int64(leases/monthAccount):
		err = fmt.Errorf("%d invoices for %d accounts", r.Invoices, leases/monthAccount)
	}
	return closing, proof, err
}

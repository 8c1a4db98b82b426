package billing_test

import (
	"testing"

	"pgregory.net/rapid"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// seeded are the tables of billing that have a row in an empty database.
var seeded = []string{"billing_usage_reading"}

// The books of lives that used every plan are the same on the other engine, and back.
func TestBooksOfEveryPlanAreCopiedToAnotherEngineAndBack(t *testing.T) {
	t.Parallel()
	small := storetest.Open(t, storetest.Address(t))
	w := newWorld(t, t.Context(), small, taxed(vat))
	serial := 0
	rapid.Check(t, func(rt *rapid.T) {
		serial++
		w.t, w.now = rt, noon
		w.restart()
		lived(w, rt, serial, 30)
	})
	w.t = t
	large := storetest.Open(t, storetest.PostgresAddress(t))
	back := storetest.Open(t, storetest.Address(t))
	before := proof(t, w)
	from := small
	for _, to := range []*store.DB{large, back} {
		there := newWorld(t, t.Context(), to, taxed(vat))
		there.now = w.now
		copied, err := store.Copy(t.Context(), from, to, store.CopyOptions{Seeded: seeded})
		if err != nil {
			t.Fatal(err)
		}
		var rows int64
		for _, c := range copied {
			rows += c.Rows
		}
		if rows < 500 {
			t.Errorf("only %d rows were lived", rows)
		}
		if after := proof(t, there); after != before {
			t.Errorf("before %+v\nafter  %+v", before, after)
		}
		from = to
	}
}

// figures are what a proof of the books counts.
type figures struct{ accounts, transfers, leases, charges, invoices int64 }

func proof(t *testing.T, w *world) figures {
	t.Helper()
	r, err := w.VerifyLedger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK() {
		t.Fatalf("the books do not hold: %+v", r)
	}
	return figuresOf(r)
}

func figuresOf(r billing.Report) figures {
	return figures{int64(r.Accounts), int64(r.Transfers), int64(r.Leases), int64(r.Charges), int64(r.Invoices)}
}

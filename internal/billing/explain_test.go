package billing_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

var update = flag.Bool("update", false, "write testdata/explain again")

// explains checks that every charge of an account follows from its explanation's
// own numbers.
func (w *world) explains(accountID string) {
	w.t.Helper()
	list, err := w.Charges(w.ctx, accountID, "", "", 100_000)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range list {
		e, err := w.Explain(w.ctx, accountID, c.ID)
		if err != nil {
			w.t.Fatal(err)
		}
		if !e.OK() || e.Amount != c.Amount {
			w.t.Fatalf("charge %s of %s from %s to %s is not explained:\n%s", c.ID, c.Amount, c.From, c.To, spoken(e, false))
		}
		var items, sum, before money.Amount
		for _, s := range e.Steps {
			switch s.Code {
			case "items_before":
				items += must(w.t, s.Values["sum"])
			case "run", "run_held", "month", "hours", "bytes":
				items += must(w.t, s.Values["amount"])
			case "sum":
				sum = must(w.t, s.Values["sum"])
			case "charged_before":
				before = must(w.t, s.Values["before"])
			case "difference_at_once":
				before += must(w.t, s.Values["further"])
			case "paid_wrong", "split_wrong":
				w.t.Fatalf("charge %s: %s", c.ID, s.Words(false))
			}
		}
		if e.Kind != billing.ExplainsUse && e.Kind != billing.ExplainsCorrection {
			continue
		}
		if items != sum || sum-before != c.Amount {
			w.t.Fatalf("the numbers say %s, %s and %s, and %s was charged:\n%s", items, sum, before, c.Amount, spoken(e, false))
		}
	}
}

// explainsTransfers checks that all transfers of an account follow from what is
// stored.
func (w *world) explainsTransfers(accountID string) {
	w.t.Helper()
	list, err := w.Transfers(w.ctx, accountID, "", 100_000)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, tr := range list {
		e, err := w.Explain(w.ctx, accountID, tr.ID)
		if err != nil {
			w.t.Fatal(err)
		}
		if !e.OK() || e.Amount != tr.Amount {
			w.t.Fatalf("transfer %s of %s is not explained:\n%s", tr.ID, tr.Amount, spoken(e, false))
		}
	}
}

var anID = regexp.MustCompile(`\b(ch|tr|in|gr)-[0-9a-hjkmnp-tv-z]{26}\b`)

func spoken(e billing.Explanation, chinese bool) string {
	var out strings.Builder
	for _, s := range e.Steps {
		out.WriteString(anID.ReplaceAllString(s.Words(chinese), "$1-…") + "\n")
	}
	return out.String()
}

// golden compares explanations, in both languages, with those in a file.
func golden(t *testing.T, name string, list ...billing.Explanation) {
	t.Helper()
	var out strings.Builder
	for i, e := range list {
		if i > 0 {
			out.WriteString("\n")
		}
		if !e.OK() {
			t.Errorf("%s: %s is not what follows", name, e.Subject)
		}
		out.WriteString(spoken(e, false) + "\n" + spoken(e, true))
	}
	if strings.Contains(out.String(), "{") || strings.Contains(out.String(), "@") {
		t.Errorf("%s has values that were not filled in:\n%s", name, out.String())
	}
	path := filepath.Join("testdata", "explain", name+".txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, out.String(), want)
	}
}

// explained explains an account's charges of a meter, oldest first.
func (w *world) explained(accountID string, m pricing.Meter) []billing.Explanation {
	w.t.Helper()
	list, err := w.Charges(w.ctx, accountID, "", "", 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Reverse(list)
	var out []billing.Explanation
	for _, c := range list {
		if c.Meter == m {
			e, err := w.Explain(w.ctx, accountID, c.ID)
			if err != nil {
				w.t.Fatal(err)
			}
			out = append(out, e)
		}
	}
	return out
}

func TestEachKindOfChargeIsExplainedInWords(t *testing.T) {
	t.Parallel()
	t.Run("compute storage egress", func(t *testing.T) {
		t.Parallel()
		eachWith(t, func(t *testing.T, w *world) {
			w.deposit("ac-renter", "100")
			w.closeMonths()
			w.begin(w.terms("ls-1", func(t *pricing.Tariff, r *pricing.Request) {
				t.Compute, r.DiskGiB = mustRate(w.t, "1.000001"), 50
			}))
			w.startStorage("ls-1", w.clock())
			w.startCompute("ls-1", w.pass(10*time.Second))
			w.ConfirmAlive([]string{"ls-1"}, w.pass(1800*time.Second))
			w.pass(7 * time.Second) // it was not heard of since
			w.settle()
			w.pass(500 * time.Second)
			w.stopCompute("ls-1", w.clock().Add(time.Minute)) // a host whose clock is ahead
			if err := w.egress("ls-1", 12_345_678_901); err != nil {
				t.Fatal(err)
			}
			w.startCompute("ls-1", w.pass(time.Hour))
			w.pass(20 * time.Second)
			w.end("ls-1", w.clock())
			w.goTo("2026-04-02T00:00:00Z")
			w.closeMonths()
			if _, err := w.CreditInvoice(w.ctx, operator, "INV-000001", billing.Credit{Lines: []billing.CreditLine{{Position: 0, Amount: must(t, "0.5")}}, Reason: "host at fault"}, ""); err != nil {
				t.Fatal(err)
			}
			golden(t, "compute", w.explained("ac-renter", pricing.Compute)...)
			golden(t, "storage", w.explained("ac-renter", pricing.Storage)...)
			golden(t, "egress", w.explained("ac-renter", pricing.Egress)...)
			note, err := w.Explain(w.ctx, "ac-renter", "CN-000001")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "credit_note", note)
			var transfers []billing.Explanation
			list, err := w.Transfers(w.ctx, "ac-renter", "", 100)
			if err != nil {
				t.Fatal(err)
			}
			for _, tr := range list {
				e, err := w.Explain(w.ctx, "ac-renter", tr.ID)
				if err != nil {
					t.Fatal(err)
				}
				transfers = append(transfers, e)
			}
			golden(t, "transfers", transfers...)
			_, err = w.Explain(w.ctx, "ac-other", note.Subject)
			wantCode(t, err, "charge_not_found")
			_, err = w.Explain(w.ctx, "ac-other", list[0].ID)
			wantCode(t, err, "charge_not_found")
			_, err = w.Explain(w.ctx, "ac-renter", "ch-00000000000000000000000000")
			wantCode(t, err, "charge_not_found")
			w.explains("ac-renter")
			w.right()
		}, taxed(pricing.TaxRule{Jurisdiction: "X", Name: "VAT", PPM: 80_000}), in("Asia/Shanghai"))
	})
	t.Run("a correction", func(t *testing.T) {
		t.Parallel()
		each(t, func(t *testing.T, w *world) {
			w.deposit("ac-renter", "100")
			w.begin(w.terms("ls-1"))
			w.startCompute("ls-1", w.clock())
			stopped := w.pass(1000 * time.Second)
			w.ConfirmAlive([]string{"ls-1"}, w.pass(500*time.Second))
			w.settle()
			w.stopCompute("ls-1", stopped)
			golden(t, "correction", w.explained("ac-renter", pricing.Compute)...)
		})
	})
	t.Run("debt and the hold", func(t *testing.T) {
		t.Parallel()
		each(t, func(t *testing.T, w *world) {
			w.deposit("ac-renter", "4.01")
			w.begin(w.terms("ls-1", func(t *pricing.Tariff, r *pricing.Request) {
				t.Granularity, t.Storage, r.DiskGiB = pricing.Hour, mustRate(w.t, "300"), 1
			}))
			w.startStorage("ls-1", w.clock())
			w.startCompute("ls-1", w.clock())
			w.ConfirmAlive([]string{"ls-1"}, w.pass(50*time.Minute))
			w.settle()
			w.pass(30 * time.Hour)
			w.end("ls-1", w.clock())
			golden(t, "debt", append(w.explained("ac-renter", pricing.Compute), w.explained("ac-renter", pricing.Storage)...)...)
		})
	})
	t.Run("spot", func(t *testing.T) {
		t.Parallel()
		each(t, func(t *testing.T, w *world) {
			w.deposit("ac-renter", "100")
			w.begin(w.spotTerms("ls-1", "0.20", "0.37"))
			w.startCompute("ls-1", w.clock())
			w.setRate("ls-1", "0.37", w.pass(1000*time.Second))
			w.evict("ls-1", w.pass(777*time.Second))
			w.startCompute("ls-1", w.pass(time.Hour))
			w.evict("ls-1", w.pass(30*time.Second))
			w.startCompute("ls-1", w.pass(time.Hour))
			w.ConfirmAlive([]string{"ls-1"}, w.pass(100*time.Second))
			w.settle()
			w.setRate("ls-1", "0.30", w.clock().Add(-10*time.Second)) // late
			w.ConfirmAlive([]string{"ls-1"}, w.pass(100*time.Second))
			w.settle()
			golden(t, "spot", w.explained("ac-renter", pricing.Compute)...)
			w.explains("ac-renter")
		})
	})
	t.Run("months", func(t *testing.T) {
		t.Parallel()
		each(t, func(t *testing.T, w *world) {
			w.deposit("ac-renter", "10000")
			w.begin(w.monthly("ls-1", "Asia/Shanghai", 3, true))
			w.startCompute("ls-1", w.pass(time.Minute))
			w.goTo("2026-03-12T12:00:00Z")
			if _, err := w.RepriceMonths(w.ctx, operator, "ls-1", must(t, "200"), 500, must(t, "0")); err != nil {
				t.Fatal(err)
			}
			w.goTo("2026-06-03T12:00:00Z")
			w.ConfirmAlive([]string{"ls-1"}, w.clock())
			w.settle()
			w.goTo("2026-06-20T12:00:00Z")
			w.ConfirmAlive([]string{"ls-1"}, w.clock())
			w.end("ls-1", w.clock())
			w.begin(w.monthly("ls-2", "Asia/Shanghai", 1, false))
			w.startCompute("ls-2", w.clock())
			w.endTerm("ls-2", w.pass(240*time.Hour), billing.TermHostLost)
			w.end("ls-2", w.clock())
			w.begin(w.monthly("ls-3", "Asia/Shanghai", 1, false))
			w.end("ls-3", w.pass(time.Hour))
			golden(t, "months", w.explained("ac-renter", pricing.Compute)...)
			w.explains("ac-renter")
		})
	})
}

// A figure that was changed behind the books' back is not explained away.
func TestAForgedChargeIsSaidNotToFollow(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", w.clock())
		w.stopCompute("ls-1", w.pass(1000*time.Second))
		w.exec(`UPDATE billing_charges SET amount = amount + 1, provider = provider + 1`)
		e := w.explained("ac-renter", pricing.Compute)[0]
		if words := spoken(e, false); e.OK() || !strings.Contains(words, "they differ by 0.000001") || !strings.Contains(words, "the books are wrong") {
			t.Errorf("%s", words)
		}
	})
}

// Every code and every term has words in both languages, and no more placeholders
// in one than in the other.
func TestExplanationsAreCompleteInBothLanguages(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("explain_words.go")
	if err != nil {
		t.Fatal(err)
	}
	holes := regexp.MustCompile(`\{[a-z_]+\}`)
	pairs := regexp.MustCompile(`"(@?[a-z_]+)":\s+\{"((?:[^"\\]|\\.)*)", "((?:[^"\\]|\\.)*)"\}`).FindAllStringSubmatch(string(source), -1)
	if len(pairs) < 100 {
		t.Fatalf("found %d texts", len(pairs))
	}
	have := map[string]bool{}
	for _, p := range pairs {
		have[p[1]] = true
		en, zh := holes.FindAllString(p[2], -1), holes.FindAllString(p[3], -1)
		slices.Sort(en)
		slices.Sort(zh)
		if en, zh = slices.Compact(en), slices.Compact(zh); !slices.Equal(en, zh) {
			t.Errorf("%s has %v in English and %v in Chinese", p[1], en, zh)
		}
		if p[2] == "" || !regexp.MustCompile(`\p{Han}`).MatchString(p[3]) {
			t.Errorf("%s has no words in one of the languages", p[1])
		}
	}
	var code []byte
	for _, file := range []string{"explain.go", "explain_reserved.go", "explain_transfer.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code = append(code, text...)
	}
	for _, used := range regexp.MustCompile(`"(@[a-z_]+)"|(?:say|add)\("([a-z_]+)"|code(?: :?=|:=) "([a-z_]+)"`).FindAllStringSubmatch(string(code), -1) {
		name := used[1] + used[2] + used[3]
		if !have[name] && !strings.HasSuffix(name, "_") && name != "@" {
			t.Errorf("%s has no words", name)
		}
	}
}

// exec changes the database behind the books' back.
func (w *world) exec(statement string, args ...any) {
	w.t.Helper()
	w.do(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, statement, args...)
		return err
	})
}

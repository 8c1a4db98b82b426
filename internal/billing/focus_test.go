package billing_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/pricing"
)

// exported is an account's month, whose rows keep the specification's rules.
func (w *world) exported(accountID, month string) []billing.FocusRow {
	w.t.Helper()
	var rows []billing.FocusRow
	about := func(_ context.Context, ids []string) (map[string]billing.FocusResource, error) {
		out := map[string]billing.FocusResource{}
		for _, id := range ids {
			out[id] = billing.FocusResource{Name: "trainer, \"big\"", Region: "cn-east", Zone: "cn-east-1", Model: "H100", Labels: map[string]string{"team": "训练"}}
		}
		return out, nil
	}
	if err := w.Focus(w.ctx, accountID, month, about, func(r billing.FocusRow) error { rows = append(rows, r); return nil }); err != nil {
		w.t.Fatal(err)
	}
	for _, r := range rows {
		for _, problem := range focusProblems(w.t, r) {
			w.t.Errorf("%s of %v", problem, r)
		}
	}
	return rows
}

func decimal(t tb, text string) *big.Rat {
	t.Helper()
	r, ok := new(big.Rat).SetString(text)
	if !ok || strings.ContainsAny(text, "eE/") {
		t.Fatalf("%q is no decimal", text)
	}
	return r
}

// focusProblems are the rules of FOCUS 1.2 that a row breaks: of its columns'
// nullability, allowed values and products.
func focusProblems(t tb, r billing.FocusRow) (problems []string) {
	bad := func(when bool, what string) {
		if when {
			problems = append(problems, what)
		}
	}
	for c := range r {
		bad(!slices.Contains(billing.FocusColumns, c), "an unknown column "+c)
	}
	for _, c := range []string{
		"BilledCost", "EffectiveCost", "ListCost", "ContractedCost", "BillingAccountId", "BillingCurrency", "BillingPeriodStart", "BillingPeriodEnd",
		"ChargeCategory", "ChargeFrequency", "ChargePeriodStart", "ChargePeriodEnd", "InvoiceIssuer", "Provider", "Publisher", "ServiceCategory", "ServiceName", "ServiceSubcategory",
	} {
		bad(r[c] == "", c+" is null")
	}
	category, class := r["ChargeCategory"], r["ChargeClass"]
	bad(!slices.Contains([]string{"Usage", "Purchase", "Tax", "Credit", "Adjustment"}, category), "ChargeCategory")
	bad(class != "" && class != "Correction", "ChargeClass")
	bad(!slices.Contains([]string{"One-Time", "Recurring", "Usage-Based"}, r["ChargeFrequency"]) || category == "Purchase" && r["ChargeFrequency"] == "Usage-Based", "ChargeFrequency")
	bad(r["PricingCategory"] != "" && !slices.Contains([]string{"Standard", "Dynamic", "Committed", "Other"}, r["PricingCategory"]), "PricingCategory")
	priced := (category == "Usage" || category == "Purchase") && class == ""
	for _, c := range []string{"PricingCategory", "PricingQuantity", "PricingUnit", "ListUnitPrice", "ContractedUnitPrice", "SkuId", "SkuPriceId"} {
		bad(priced && r[c] == "", c+" is null")
		bad(category == "Tax" && r[c] != "", c+" of a tax")
	}
	consumed := category == "Usage" && r["CommitmentDiscountStatus"] != "Unused"
	bad(consumed && class == "" && r["ConsumedQuantity"] == "", "ConsumedQuantity is null")
	bad(!consumed && r["ConsumedQuantity"] != "", "ConsumedQuantity")
	for quantity, unit := range map[string]string{"ConsumedQuantity": "ConsumedUnit", "PricingQuantity": "PricingUnit", "CommitmentDiscountQuantity": "CommitmentDiscountUnit", "ResourceId": "ResourceType", "SkuId": "SkuMeter"} {
		bad((r[quantity] == "") != (r[unit] == ""), unit)
	}
	committed := r["CommitmentDiscountId"] != ""
	for _, c := range []string{"CommitmentDiscountCategory", "CommitmentDiscountType", "CommitmentDiscountName", "CommitmentDiscountQuantity"} {
		bad((r[c] != "") != committed, c)
	}
	bad((r["CommitmentDiscountStatus"] != "") != (committed && category == "Usage"), "CommitmentDiscountStatus")
	bad((r["PricingCategory"] == "Committed") != (committed && category == "Usage"), "PricingCategory of what is committed")
	bad(committed && category == "Purchase" && r["EffectiveCost"] != "0", "EffectiveCost of a purchase")
	for price, cost := range map[string]string{"ListUnitPrice": "ListCost", "ContractedUnitPrice": "ContractedCost"} {
		if r[price] == "" {
			bad(decimal(t, r[cost]).Cmp(decimal(t, r["BilledCost"])) != 0 && class == "", cost+" without a price")
			continue
		}
		p, q := decimal(t, r[price]), decimal(t, r["PricingQuantity"])
		bad(p.Sign() < 0, price)
		bad(p.Mul(p, q).Cmp(decimal(t, r[cost])) != 0, cost+" is not its product")
	}
	for _, c := range billing.FocusNumbers {
		if r[c] != "" {
			decimal(t, r[c])
		}
	}
	for _, pair := range [][2]string{{"BillingPeriodStart", "BillingPeriodEnd"}, {"ChargePeriodStart", "ChargePeriodEnd"}} {
		from, err := time.Parse(time.RFC3339, r[pair[0]])
		to, err2 := time.Parse(time.RFC3339, r[pair[1]])
		bad(err != nil || err2 != nil || to.Before(from) || !strings.HasSuffix(r[pair[0]], "Z"), pair[0])
	}
	for _, c := range []string{"Tags", "SkuPriceDetails"} {
		var object map[string]any
		bad(r[c] != "" && json.Unmarshal([]byte(r[c]), &object) != nil, c)
	}
	return problems
}

// manyKinds is a world whose renter has two months with every kind of row.
func (w *world) manyKinds() {
	w.t.Helper()
	w.deposit("ac-renter", "100000")
	w.closeMonths()
	w.begin(w.terms("ls-1", func(t *pricing.Tariff, r *pricing.Request) {
		t.Compute, r.DiskGiB, t.Granularity = mustRate(w.t, "1.000001"), 50, pricing.Minute
	}))
	w.startStorage("ls-1", w.clock())
	w.startCompute("ls-1", w.clock())
	if err := w.egress("ls-1", 1_234_567_890); err != nil {
		w.t.Fatal(err)
	}
	w.begin(w.spotTerms("ls-2", "0.20", "0.37"))
	w.startCompute("ls-2", w.clock())
	w.begin(w.monthly("ls-3", "UTC", 3, false))
	w.startCompute("ls-3", w.pass(time.Hour))
	w.setRate("ls-2", "0.37", w.clock())
	w.ConfirmAlive([]string{"ls-1", "ls-2", "ls-3"}, w.pass(5*time.Hour+17*time.Second))
	w.settle()
	stopped := w.clock()
	w.stopCompute("ls-3", stopped)
	w.goTo("2026-03-31T23:00:00Z")
	w.ConfirmAlive([]string{"ls-1", "ls-2"}, w.clock())
	w.settle()
	w.goTo("2026-04-01T02:00:00Z")
	w.closeMonths()
	w.ConfirmAlive([]string{"ls-1", "ls-2"}, w.pass(24*time.Hour))
	if err := w.egress("ls-1", 5_234_567_891); err != nil {
		w.t.Fatal(err)
	}
	w.stopCompute("ls-2", at(w.t, "2026-03-31T22:00:00Z")) // it was over before the month was
	w.settle()
	if _, err := w.CreditInvoice(w.ctx, operator, "INV-000001", billing.Credit{Lines: []billing.CreditLine{{Position: 0, Amount: must(w.t, "0.5")}}}, ""); err != nil {
		w.t.Fatal(err)
	}
	w.endTerm("ls-3", w.pass(240*time.Hour), billing.TermGivenUp)
	w.end("ls-3", w.clock())
	w.end("ls-1", w.clock())
	w.end("ls-2", w.clock())
	w.goTo("2026-05-02T00:00:00Z")
	w.closeMonths()
}

func TestAnExportAddsUpToItsInvoicesExactly(t *testing.T) {
	t.Parallel()
	eachWith(t, func(t *testing.T, w *world) {
		w.manyKinds()
		sums := map[string]*big.Rat{}
		kinds := map[string]bool{}
		bought, spread := new(big.Rat), new(big.Rat)
		for _, month := range []string{"2026-03", "2026-04"} {
			for _, r := range w.exported("ac-renter", month) {
				if sums[r["InvoiceId"]] == nil {
					sums[r["InvoiceId"]] = new(big.Rat)
				}
				sums[r["InvoiceId"]].Add(sums[r["InvoiceId"]], decimal(t, r["BilledCost"]))
				kinds[r["ChargeCategory"]], kinds[r["PricingCategory"]], kinds[r["ChargeClass"]], kinds[r["CommitmentDiscountStatus"]] = true, true, true, true
				if r["CommitmentDiscountId"] != "" {
					bought.Add(bought, decimal(t, r["BilledCost"]))
					spread.Add(spread, decimal(t, r["EffectiveCost"]))
				}
			}
		}
		for _, v := range w.invoices("ac-renter") {
			if want := big.NewRat(int64(v.Total), 1_000_000); sums[v.Number] == nil || sums[v.Number].Cmp(want) != 0 {
				t.Errorf("%s is of %s, and its rows come to %v", v.Number, v.Total, sums[v.Number])
			}
		}
		notes, err := w.CreditNotes(w.ctx, "ac-renter", "INV-000001")
		if err != nil || len(notes) != 1 || sums[notes[0].Number].Cmp(big.NewRat(-int64(notes[0].Total), 1_000_000)) != 0 {
			t.Errorf("%+v, %v", notes, err)
		}
		if len(sums) != 3 {
			t.Errorf("documents: %v", sums)
		}
		if bought.Cmp(spread) != 0 || bought.Sign() <= 0 {
			t.Errorf("%s was paid in advance, and %s is spread over use", bought.FloatString(6), spread.FloatString(6))
		}
		for _, kind := range []string{"Usage", "Purchase", "Tax", "Credit", "Adjustment", "Standard", "Dynamic", "Committed", "Correction", "Used", "Unused"} {
			if !kinds[kind] {
				t.Errorf("no row has %s", kind)
			}
		}
	}, taxed(pricing.TaxRule{Jurisdiction: "X", Name: "VAT", PPM: 80_000}))
}

func TestAnOpenMonthIsExportedWithoutAnInvoiceAndAnEmptyOneIsEmpty(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", w.clock())
		w.stopCompute("ls-1", w.pass(time.Hour))
		rows := w.exported("ac-renter", "2026-03")
		if len(rows) != 1 || rows[0]["BilledCost"] != "3.6" || rows[0]["InvoiceId"] != "" || rows[0]["PricingQuantity"] != "1" || rows[0]["Tags"] != `{"team":"训练"}` {
			t.Errorf("%v", rows)
		}
		if rows := w.exported("ac-renter", "2026-04"); len(rows) != 0 {
			t.Errorf("%v", rows)
		}
		wantCode(t, w.Focus(w.ctx, "ac-renter", "march", nil, nil), "period_invalid")
		text, err := json.Marshal(rows[0])
		var back map[string]any
		if err != nil || json.Unmarshal(text, &back) != nil || len(back) != len(billing.FocusColumns) || back["InvoiceId"] != nil {
			t.Errorf("%s, %v", text, err)
		}
	})
}

// `make test-focus` runs it. The validator knows version 1.0, whose columns 1.2 still
// has. Two of its rules name columns that the specification has under other names;
// they get those, too: ResourceID for ResourceId, and 0.5's ChargeType for what
// ChargeCategory has been since.
func TestThePublicValidatorAcceptsExports(t *testing.T) {
	validator := os.Getenv("SUANLI_TEST_FOCUS")
	if validator == "" {
		t.Skip("needs the FOCUS validator: make test-focus")
	}
	for name, history := range map[string]func(*world){"kinds": (*world).manyKinds, "plans": (*world).manyPlans} {
		t.Run(name, func(t *testing.T) { accepted(t, validator, history) })
	}
}

// accepted checks the exports of a history by the public validator.
func accepted(t *testing.T, validator string, history func(*world)) {
	eachWith(t, func(t *testing.T, w *world) {
		history(w)
		for _, month := range []string{"2026-03", "2026-04"} {
			path := filepath.Join(t.TempDir(), "focus.csv")
			var out bytes.Buffer
			table := csv.NewWriter(&out)
			_ = table.Write(append(slices.Clone(billing.FocusColumns), "ResourceID", "ChargeType"))
			for _, r := range w.exported("ac-renter", month) {
				_ = table.Write(append(r.Values(), r["ResourceId"], r["ChargeCategory"]))
			}
			table.Flush()
			if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			check := exec.CommandContext(t.Context(), validator, "--data-file", path, "--validate-version", "1.0")
			// It looks for its list of currencies from where its packages are.
			if found, _ := filepath.Glob(filepath.Join(filepath.Dir(validator), "..", "lib", "python*", "site-packages")); len(found) > 0 {
				check.Dir = found[0]
			}
			report, err := check.CombinedOutput()
			if err != nil || strings.Contains(strings.ToUpper(string(report)), "FAILED") {
				t.Errorf("%s: %v\n%s\n%s", month, err, report, out.String())
			}
		}
	}, taxed(pricing.TaxRule{Jurisdiction: "X", Name: "VAT", PPM: 80_000}))
}

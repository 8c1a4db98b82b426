package fleet

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/catalog"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/protocol"
)

func TestBadExpressionsPointAtTheCharacter(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]struct {
		position int
		says     string
	}{
		`gpu_modle = "RTX 4090"`:                         {1, "did you mean gpu_model"},
		`gpu_count >= 2 and pric_per_hour < 1`:           {20, "did you mean price_per_hour"},
		`gpu_count >= 2 region = "eu"`:                   {16, `join comparisons with "and" or "or"`},
		`gpu_count >= "two"`:                             {14, "write it without quotes"},
		`gpu_count >= 1.5`:                               {14, "not a whole number"},
		`price_per_hour < $1.5`:                          {18, "plain numbers"},
		`region = eu`:                                    {10, `put the value in quotes: "eu"`},
		`region = "eu`:                                   {10, "no closing"},
		`region < "eu"`:                                  {8, "has no order"},
		`(gpu_count = 1`:                                 {15, `where the ")" for the "(" at character 1`},
		`gpu_count = 1)`:                                 {14, `there is no "("`},
		`gpu_count`:                                      {10, "where a comparison of gpu_count was expected"},
		`simulated = 1`:                                  {13, "true or false"},
		`region in "eu"`:                                 {11, `where "(" was expected`},
		`region in ("eu" "cn")`:                          {17, `where "," or ")" was expected`},
		`region in ()`:                                   {12, "where a value of region"},
		`region not "eu"`:                                {12, `where "in" was expected`},
		`max_cuda >= "twelve"`:                           {13, "not a version"},
		`vram_gb >= 24GB`:                                {14, "numbers have no units"},
		`vram_gb >= 999999999999999999999`:               {12, "too large"},
		`price_per_hour < 0.0000001`:                     {18, "too many decimals"},
		`zone = "北京" and #`:                              {17, "cannot stand here"},
		`vram_gb ~ "2"`:                                  {9, "looks for a part of a text"},
		`and gpu_count = 1`:                              {1, `there is no field "and"`},
		`gpu_count = 1 and`:                              {18, "the end was found where a field was expected"},
		`net_down_mbps > -5`:                             {17, `"-" cannot stand here`},
		strings.Repeat("(", 50) + "nvlink":               {41, "nested more than"},
		"nvlink" + strings.Repeat(" and nvlink", 100):    {1101, "more than 100 comparisons"},
		`region = "` + strings.Repeat("x", 3000) + `"`:   {1, "up to 2000 are read"},
		`gpu_model = “RTX 4090”`:                         {13, "straight quotes"},
		"gpu_count = 1 and\n\tnot (nvlink or cpu_modle)": {35, "did you mean cpu_model"},
	} {
		err := Check(expression)
		f, ok := fault.As(err)
		if !ok || f.Code != "bad_expression" || f.Position != want.position || !strings.Contains(f.Message, want.says) {
			t.Errorf("%.60s\n got %v (position %v)\nwant position %d and %q", expression, err, f, want.position, want.says)
		}
	}
}

func FuzzExpression(f *testing.F) {
	f.Add(`gpu_model = "RTX 4090" and (count >= 2 or not nvlink) and region in ('a', "b") and max_cuda >= 12.4`)
	f.Add(`not not !nvlink || price < 1.5 && driver >= 550.54.15`)
	f.Add("“𝄞")
	x := market(3, 1)
	f.Fuzz(func(t *testing.T, expression string) {
		n, err := parse(expression)
		if err != nil {
			ft, ok := fault.As(err)
			if !ok || ft.Position < 1 || ft.Position > len([]rune(expression))+1 {
				t.Fatalf("%q: %v", expression, err)
			}
			return
		}
		for _, part := range conjuncts(n) {
			x.read(func(base, _ *segment) { (&scan{segment: base, storage: base.storagePerHour(1, 30*86400)}).rows(part) })
		}
	})
}

// hostEntry makes up a host. Prices and facts vary with the seed, as on a market.
func hostEntry(r *rand.Rand, models []catalog.Model, i int) *entry {
	units := []int{1, 2, 4, 8}[r.IntN(4)]
	m := models[r.IntN(len(models))]
	e := &entry{
		hostID: fmt.Sprintf("ho-%08d", i), providerID: fmt.Sprintf("ac-%d", r.IntN(500)), name: fmt.Sprintf("host%d", i),
		region: []string{"cn-east", "cn-north", "eu", "us-west", "local"}[r.IntN(5)], zone: "z1", cpuModel: "EPYC 7763", cpuArch: "amd64",
		diskMiB: int64(r.IntN(4<<20) + 50<<10), diskRead: int64(r.IntN(7000)), netDown: int64(r.IntN(10000)), netUp: int64(r.IntN(1000)),
		directPorts: r.IntN(3) == 0, simulated: r.IntN(50) == 0, isolation: []string{"runc"}, reliability: int64(9000 + r.IntN(1000)),
		storage: money.Rate(50_000_000 + r.IntN(4)*10_000_000), egress: 10_000_000,
	}
	g := group{
		model: m.Name, facts: m, vramMiB: int64(m.VRAMGB) * 1024, capability: m.ComputeCapability, driver: "550.54.15", maxCUDA: []string{"12.4", "12.8", "11.8"}[r.IntN(3)],
		nvlink: m.NVLinkGBs > 0, pcieGen: 4, pcieWidth: 16, units: units, cpuMillis: int64(units) * 16000, memoryMiB: int64(units) * 65536,
		rate: money.Rate(100_000_000 + r.IntN(400)*10_000_000),
	}
	for n := 1; n <= units; n++ {
		g.counts = append(g.counts, n)
	}
	e.groups = []group{g}
	return e
}

func market(hosts int, seed uint64) *index {
	facts, err := catalog.Load("")
	if err != nil {
		panic(err)
	}
	models := facts.Models()[:30]
	r := rand.New(rand.NewPCG(seed, 1))
	x := newIndex()
	for i := range hosts {
		x.put(fmt.Sprintf("ho-%08d", i), hostEntry(r, models, i))
	}
	x.compact()
	return x
}

// naive evaluates a node on an offer, by other means than the index.
func naive(n node, e *entry, o Offer) bool {
	switch n := n.(type) {
	case nil:
		return true
	case negation:
		return !naive(n.kid, e, o)
	case logic:
		for _, k := range n.kids {
			if naive(k, e, o) == n.or {
				return n.or
			}
		}
		return !n.or
	}
	c := n.(comparison)
	var is int64
	switch c.field.name {
	case "gpu_count":
		is = int64(o.GPUCount)
	case "price_per_hour":
		is = int64(o.Price.PerHour)
	case "cpus":
		is = o.CPUMillis
	case "region", "gpu_model":
		word := o.Region
		if c.field.name == "gpu_model" {
			word = o.GPUModel
		}
		word = strings.ToLower(word)
		switch c.op {
		case "=":
			return word == c.texts[0]
		case "!=":
			return word != c.texts[0]
		case "~":
			return strings.Contains(word, c.texts[0])
		}
		return slices.Contains(c.texts, word)
	default:
		is = c.field.number(e, &e.groups[0])
	}
	if is == unknown {
		return false
	}
	switch v := c.numbers[0]; c.op {
	case "=":
		return is == v
	case "!=":
		return is != v
	case "<":
		return is < v
	case "<=":
		return is <= v
	case ">":
		return is > v
	case ">=":
		return is >= v
	}
	return slices.Contains(c.numbers, is)
}

// expressions draws expressions from a small grammar.
func expressions() *rapid.Generator[string] {
	leaf := rapid.Custom(func(t *rapid.T) string {
		op := rapid.SampledFrom([]string{"=", "!=", "<", "<=", ">", ">="}).Draw(t, "op")
		equal := rapid.SampledFrom([]string{"=", "!="}).Draw(t, "equal")
		return rapid.SampledFrom([]string{
			fmt.Sprintf("gpu_count %s %d", op, rapid.IntRange(0, 9).Draw(t, "n")),
			fmt.Sprintf("price_per_hour %s %d.%d", op, rapid.IntRange(0, 9).Draw(t, "whole"), rapid.IntRange(0, 9).Draw(t, "tenths")),
			fmt.Sprintf("vram %s %d", op, rapid.SampledFrom([]int{16, 24, 80}).Draw(t, "gb")),
			fmt.Sprintf("fp16_tflops %s %d", op, rapid.IntRange(0, 1000).Draw(t, "tflops")),
			fmt.Sprintf("max_cuda %s 12.4", op),
			fmt.Sprintf("cpus %s 64", op),
			fmt.Sprintf("region %s 'EU'", equal),
			"region in ('cn-east', 'us-west')", "region not in ('eu')", "gpu_model ~ 'h100'", "nvlink", "simulated = false",
			"reliability >= 95.5", "gpu_count in (1, 4)", "vram not in (80, 141)",
		}).Draw(t, "leaf")
	})
	var expression *rapid.Generator[string]
	expression = rapid.Custom(func(t *rapid.T) string {
		switch rapid.IntRange(0, 5).Draw(t, "shape") {
		case 0:
			return "(" + expression.Draw(t, "a") + " or " + expression.Draw(t, "b") + ")"
		case 1, 2:
			return "(" + expression.Draw(t, "a") + ") and " + leaf.Draw(t, "b")
		case 3:
			return "not (" + leaf.Draw(t, "a") + ")"
		}
		return leaf.Draw(t, "leaf")
	})
	return expression
}

func TestSearchFindsExactlyWhatTheExpressionSaysInOrderAcrossPages(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	facts, err := catalog.Load("")
	if err != nil {
		t.Fatal(err)
	}
	sorts := []string{"", "price", "-price_per_hour", "gpu_count", "-vram_gb", "fp16_tflops", "-fp16_tflops", "-reliability"}
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		c.index = market(40, seed)
		r := rand.New(rand.NewPCG(seed, 2))
		// Some hosts change, leave and come after the index was built.
		for range rapid.IntRange(0, 20).Draw(t, "changes") {
			i := r.IntN(50)
			e := hostEntry(r, facts.Models()[:30], i)
			if r.IntN(4) == 0 {
				e = nil
			}
			c.index.put(fmt.Sprintf("ho-%08d", i), e)
		}
		q := Query{Expression: expressions().Draw(t, "expression"), Sort: rapid.SampledFrom(sorts).Draw(t, "sort"), DiskGiB: rapid.Int64Range(1, 3000).Draw(t, "disk")}
		n, err := parse(q.Expression)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{}
		for _, e := range c.index.entries {
			for _, count := range e.groups[0].counts {
				o, err := c.offer(e, &e.groups[0], count, q.DiskGiB, 31*86400)
				if err != nil {
					t.Fatal(err)
				}
				if q.DiskGiB <= e.diskMiB/1024 && naive(n, e, o) {
					want[o.ID] = true
				}
			}
		}
		var got []Offer
		for {
			q.Limit = rapid.IntRange(1, 60).Draw(t, "limit")
			page, next, err := c.Search(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) > q.Limit {
				t.Fatalf("a page of %d, asked for %d", len(page), q.Limit)
			}
			got = append(got, page...)
			if q.Cursor = next; next == "" {
				break
			}
		}
		seen := map[string]bool{}
		for i, o := range got {
			if !want[o.ID] || seen[o.ID] {
				t.Fatalf("offer %s is found; wanted %v, seen before %v", o.ID, want[o.ID], seen[o.ID])
			}
			seen[o.ID] = true
			if i == 0 {
				continue
			}
			before := got[i-1]
			order := 0
			switch q.Sort {
			case "", "price":
			case "-price_per_hour":
				order = cmp.Compare(o.Price.PerHour, before.Price.PerHour)
			case "gpu_count":
				order = cmp.Compare(before.GPUCount, o.GPUCount)
			case "-reliability":
				order = cmp.Compare(o.ReliabilityBasis, before.ReliabilityBasis)
			default:
				continue
			}
			if order > 0 || (order == 0 && before.Price.PerHour > o.Price.PerHour) {
				t.Fatalf("offer %d (%s, %d GPUs) comes after (%s, %d) with sort %q", i, o.Price.PerHour, o.GPUCount, before.Price.PerHour, before.GPUCount, q.Sort)
			}
		}
		if len(seen) != len(want) {
			t.Fatalf("%d found, want %d", len(seen), len(want))
		}
	})
}

// A renter who compares offers by price must get the price that was shown.
func TestOfferCostsAnHourWhatItsQuoteSays(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	host, _ := c.rtx4090s(2)
	if _, err := c.SetListing(t.Context(), ada, host, ListingChange{StoragePerGiBMonth: ptr(money.Rate(123_456_789))}); err != nil {
		t.Fatal(err)
	}
	different := map[money.Amount]bool{}
	for _, zone := range []string{"", "UTC", "Asia/Shanghai", "America/New_York", "Europe/Berlin", "Pacific/Kiritimati"} {
		for _, at := range []string{"2026-02-28T12:00:00Z", "2026-02-28T20:00:00Z", "2026-03-15T00:00:00Z", "2026-04-30T23:59:59Z", "2026-10-31T12:00:00Z", "2026-11-01T05:30:00Z", "2028-02-29T10:00:00Z"} {
			now, err := time.Parse(time.RFC3339, at)
			if err != nil {
				t.Fatal(err)
			}
			c.mu.Lock()
			c.now = now
			c.mu.Unlock()
			found, _, err := c.Search(t.Context(), Query{Expression: "count = 2", DiskGiB: 777, TimeZone: zone})
			if err != nil || len(found) != 1 {
				t.Fatalf("%s in %q: found %d offers, %v", at, zone, len(found), err)
			}
			o, err := c.Offer(t.Context(), found[0].ID, 777, zone)
			if err != nil {
				t.Fatal(err)
			}
			q, err := pricing.NewQuote(pricing.Tariff{Currency: o.Price.Currency, Compute: o.Price.Compute, Storage: o.Price.Storage, Egress: o.Price.Egress,
				Granularity: pricing.Granularity(o.Price.Granularity), MinimumSeconds: o.Price.MinimumSeconds, CommissionBasisPoints: o.Price.CommissionBasisPoints},
				pricing.Request{Plan: pricing.OnDemand, DiskGiB: 777, TimeZone: zone}, now)
			if err != nil {
				t.Fatal(err)
			}
			if want := q.Totals.PerHour; found[0].Price.PerHour != want || o.Price.PerHour != want {
				t.Errorf("%s in %q: the search says %s an hour, the offer %s, its quote %s", at, zone, found[0].Price.PerHour, o.Price.PerHour, want)
			}
			// And it is found by the very figure.
			again, _, err := c.Search(t.Context(), Query{Expression: "count = 2 and price_per_hour = " + q.Totals.PerHour.String(), DiskGiB: 777, TimeZone: zone})
			if err != nil || len(again) != 1 {
				t.Errorf("%s in %q: %d offers at %s, %v", at, zone, len(again), q.Totals.PerHour, err)
			}
			different[q.Totals.PerHour] = true
		}
	}
	if len(different) < 4 {
		t.Errorf("only %d prices were compared: do the months differ?", len(different))
	}
	if _, _, err := c.Search(t.Context(), Query{TimeZone: "Mars/Olympus"}); err == nil {
		t.Error("a zone that is not there is taken")
	}
}

func TestARegionCountsRunningTimeByItsOwnRule(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	rules := "regions:\n  - id: local\n    name: Here\n    granularity: hour\n    minimum_seconds: 0\n    zones:\n      - id: local-1\n        name: One\n"
	if err := os.WriteFile(filepath.Join(folder, "regions.yaml"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	facts, err := catalog.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	c := newCloud(t, func(cfg *Config) { cfg.Catalog = facts })
	host, _ := c.rtx4090s(1)
	o, err := c.Offer(t.Context(), host+".rtx-4090.1", 0, "UTC")
	if err != nil || o.Price.Granularity != "hour" || o.Price.MinimumSeconds != 0 {
		t.Errorf("%+v, %v", o.Price, err)
	}
}

func TestOfferPriceIsComputeAndTheDiskAskedFor(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	host, _ := c.rtx4090s(2)
	if _, err := c.SetListing(t.Context(), ada, host, ListingChange{PerGPUHour: map[string]money.Rate{"RTX 4090": 500_000_000}, StoragePerGiBMonth: ptr(money.Rate(74_400_000))}); err != nil {
		t.Fatal(err)
	}
	o, err := c.Offer(t.Context(), host+".rtx-4090.2", 100, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	// 2 × 0.50 an hour and 100 GiB at 0.0744 a month of 31 days.
	if got := []string{o.Price.ComputePerHour.String(), o.Price.StoragePerHour.String(), o.Price.PerHour.String()}; !slices.Equal(got, []string{"1.000000", "0.010000", "1.010000"}) {
		t.Errorf("prices %v", got)
	}
	if o.Price.Compute != 1_000_000_000 || o.Price.Granularity != "second" || o.Price.MinimumSeconds != 60 || o.Price.CommissionBasisPoints != 1000 || o.Price.Currency != money.USD {
		t.Errorf("tariff %+v", o.Price)
	}
	if o.GPUModel != "RTX 4090" || o.GPUCount != 2 || o.CPUMillis != 16000 || o.MaxCUDA != "12.4" {
		t.Errorf("offer %+v", o)
	}
	found, _, err := c.Search(t.Context(), Query{Expression: "count = 2 and price_per_hour = 1.01", DiskGiB: 100})
	if err != nil || len(found) != 1 || found[0].ID != o.ID {
		t.Errorf("search found %v, %v", found, err)
	}
	_, err = c.Offer(t.Context(), host+".rtx-4090.2", 2000, "UTC")
	wantCode(t, err, "disk_too_big")
	for _, id := range []string{host + ".rtx-4090.3", "ho-x.cpu.1"} {
		_, err := c.Offer(t.Context(), id, 1, "")
		wantCode(t, err, "offer_gone")
	}
	_, err = c.Offer(t.Context(), "nonsense", 1, "")
	wantCode(t, err, "offer_not_found")
	for name, q := range map[string]Query{
		"bad_limit": {Limit: -1}, "bad_sort": {Sort: "region"}, "bad_cursor": {Cursor: "x"}, "bad_disk": {DiskGiB: -1},
	} {
		_, _, err := c.Search(t.Context(), q)
		wantCode(t, err, name)
	}
}

func ptr[T any](v T) *T { return &v }

func TestHostWithoutGPUsOffersItsCPUs(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	host := c.join(false)
	inv := c.machine(host, "", 0, 0)
	inv.CPUs = 6
	c.report(host, protocolReport(inv))
	offers, _, err := c.Search(t.Context(), Query{Expression: "gpu_count = 0", Sort: "cpus"})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, o := range offers {
		ids = append(ids, strings.TrimPrefix(o.ID, host+"."))
	}
	if !slices.Equal(ids, []string{"cpu.1", "cpu.2", "cpu.4", "cpu.6"}) {
		t.Errorf("offers %v", ids)
	}
}

// What a person or program asks, from the cheap to the worst that there is: no
// hit, so that nothing can be skipped, and a sort by something else than price.
var benchmarkQueries = []Query{
	{Expression: `gpu_model = "RTX 4090" and gpu_count >= 2 and price_per_hour < 1.5 and region in ("cn-east", "eu") and not simulated`},
	{Expression: `vram_gb >= 24 and max_cuda >= 12.4 and reliability_percent >= 95 and net_down_mbps >= 500`, Sort: "-fp16_tflops"},
	{Expression: `(nvlink or vram_gb >= 48) and gpu_count in (4, 8) and cpus >= 32 and not simulated`, Sort: "-reliability_percent"},
	{Expression: `gpu_count >= 1 and price_per_hour > 0 and memory_gib < 1`},
	{Expression: ``, Sort: "-price_per_hour"},
	{Expression: `total_vram_gb >= 80 and (region = "eu" or price_per_hour < 2)`, Sort: "price_per_hour", DiskGiB: 500},
}

func BenchmarkSearch100kHosts(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	c := newCloud(b)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	c.index = market(100_000, 1)
	runtime.GC()
	runtime.ReadMemStats(&after)
	rows := len(c.index.base.rowGroup)
	for i, q := range benchmarkQueries {
		b.Run(fmt.Sprintf("query%d", i), func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				if _, _, err := c.Search(b.Context(), q); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "index-MiB")
			b.ReportMetric(float64(rows), "offers")
		})
	}
}

func TestAnOfferIsNotGoneWhileItsHostIsAwaitedAfterAStart(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	host, inv := c.rtx4090s(2)
	id := host + ".rtx-4090.1"
	c.Service = c.start()
	if err := c.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := c.Offer(t.Context(), id, 0, "")
	wantCode(t, err, "host_offline")
	c.report(host, protocol.Report{Session: "s", Ready: true, Inventory: inv})
	if _, err := c.Offer(t.Context(), id, 0, ""); err != nil {
		t.Error(err)
	}
	_, err = c.Offer(t.Context(), "ho-none.rtx-4090.1", 0, "")
	wantCode(t, err, "offer_gone")
}

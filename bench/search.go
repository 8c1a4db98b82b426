package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"suanli.dev/internal/catalog"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/money"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

const (
	searchHosts = 100_000
	searchRuns  = 400 // of each query
	peerRuns    = 15
)

// searchQuery is a question in the market's language and in SQL.
type searchQuery struct {
	expression, sort string
	sql              string
}

// What people and programs ask, from the narrow to the worst that there is: no
// hit, so that nothing can be skipped, and a sort by something else than price.
var searchQueries = []searchQuery{
	{`gpu_model = "RTX 4090" and gpu_count >= 2 and price_per_hour < 1.5 and region in ("cn-east", "eu") and not simulated`, "",
		`model = 'RTX 4090' AND n >= 2 AND price < 1500000 AND region IN ('cn-east', 'eu') AND NOT simulated ORDER BY price, host`},
	{`vram_gb >= 24 and max_cuda >= 12.4 and net_down_mbps >= 500`, "-fp16_tflops",
		`vram >= 24 AND cuda >= 1204 AND down >= 500 AND fp16 > 0 ORDER BY fp16 DESC, price, host`},
	{`(vram_gb >= 48 or region = "eu") and gpu_count in (4, 8) and cpus >= 32 and not simulated`, "-net_down_mbps",
		`(vram >= 48 OR region = 'eu') AND n IN (4, 8) AND cpu >= 32000 AND NOT simulated ORDER BY down DESC, price, host`},
	{`gpu_count >= 1 and price_per_hour > 0 and memory_gib < 1`, "",
		`n >= 1 AND price > 0 AND memory < 1024 ORDER BY price, host`},
	{``, "-price_per_hour", `1 ORDER BY price DESC, host`},
}

// benchSearch asks the fleet's market for the first 50 offers of each query,
// with 100,000 hosts (about 375,000 offers) that are stored, loaded and reported
// alive like any others, on one core (GOMAXPROCS=1). Ours is the p99 of the
// slowest query in processor time of the whole process, garbage collection
// included: on a core of its own that is what a caller waits, and on a machine
// that does other things beside it is still what the query costs. The time by
// the wall is printed beside it. The peer is SQLite (the same library as the product's store)
// with the very same offers in one table, in memory, indexed by price, model and
// region, and ANALYZEd; both must find the same prices.
func benchSearch(ctx context.Context, w *world) (result, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	dir, err := os.MkdirTemp(w.dir, "search")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	begin := time.Now()
	market, memory, err := newMarket(ctx, filepath.Join(dir, "market.db"))
	if err != nil {
		return result{}, err
	}
	peer, offers, err := newPeer(ctx, market)
	if err != nil {
		return result{}, err
	}
	defer peer.Close()
	fmt.Printf("%d hosts, %d offers, made in %.0f s; heap of hosts and index together %s\n", searchHosts, offers, time.Since(begin).Seconds(), mb(memory))
	var ours, theirs time.Duration
	for _, q := range searchQueries {
		a, b, err := compareQuery(ctx, market, peer, q)
		if err != nil {
			return result{}, fmt.Errorf("%q: %w", q.expression, err)
		}
		ours, theirs = max(ours, a), max(theirs, b)
	}
	return result{fmt.Sprintf("%.2fms", float64(ours)/1e6), ms(theirs), float64(ours) / float64(theirs), ours < 10*time.Millisecond}, nil
}

// timing is how long calls took, by the wall and of the processor.
type timing struct{ wall, cpu []time.Duration }

func (t *timing) add(call func() error) error {
	begin, used := time.Now(), processTime()
	err := call()
	t.cpu = append(t.cpu, processTime()-used)
	t.wall = append(t.wall, time.Since(begin))
	return err
}

func (t *timing) String() string {
	f := func(d []time.Duration, q float64) float64 { return float64(quantile(d, q)) / 1e6 }
	return fmt.Sprintf("p50 %.2f p99 %.2f ms (wall p99 %.2f)", f(t.cpu, .5), f(t.cpu, .99), f(t.wall, .99))
}

// processTime is the processor time of all threads of this process.
func processTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}

func compareQuery(ctx context.Context, market *fleet.Service, peer *sql.DB, q searchQuery) (ours, theirs time.Duration, err error) {
	var found []fleet.Offer
	var prices []int64
	var a, b timing
	for range searchRuns {
		err = a.add(func() error {
			found, _, err = market.Search(ctx, fleet.Query{Expression: q.expression, Sort: q.sort})
			return err
		})
		if err != nil {
			return 0, 0, err
		}
	}
	for range peerRuns {
		err = b.add(func() error {
			prices, err = askPeer(ctx, peer, q.sql)
			return err
		})
		if err != nil {
			return 0, 0, err
		}
	}
	if !slices.EqualFunc(found, prices, func(o fleet.Offer, p int64) bool { return int64(o.Price.PerHour) == p }) {
		return 0, 0, fmt.Errorf("found %d offers, SQLite %d, or at other prices", len(found), len(prices))
	}
	fmt.Printf("  %s; SQLite %s; %d found: %s %s\n", &a, &b, len(found), q.expression, q.sort)
	return quantile(a.cpu, .99), quantile(b.cpu, .99), nil
}

func askPeer(ctx context.Context, db *sql.DB, where string) ([]int64, error) {
	// All columns, as an answer shows them.
	rows, err := db.QueryContext(ctx, `SELECT host, model, n, price, region, simulated, vram, cuda, down, fp16, cpu, memory FROM offer WHERE `+where+` LIMIT 50`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var prices []int64
	for rows.Next() {
		var host, model, region string
		var n, price, simulated, vram, cuda, down, fp16, cpu, memory int64
		if err := rows.Scan(&host, &model, &n, &price, &region, &simulated, &vram, &cuda, &down, &fp16, &cpu, &memory); err != nil {
			return nil, err
		}
		prices = append(prices, price)
	}
	return prices, rows.Err()
}

// newMarket stores hosts as joining would have, and lets each report.
func newMarket(ctx context.Context, path string) (*fleet.Service, int64, error) {
	db, err := store.Open(ctx, "sqlite:"+path)
	if err != nil {
		return nil, 0, err
	}
	facts, err := catalog.Load("")
	if err != nil {
		return nil, 0, err
	}
	defaults := fleet.StandardDefaults()
	s, err := fleet.New(fleet.Config{DB: db, Catalog: facts, AllowSimulated: true, Defaults: defaults})
	if err != nil {
		return nil, 0, err
	}
	if err := s.Migrate(ctx); err != nil {
		return nil, 0, err
	}
	models := slices.DeleteFunc(facts.Models(), func(m catalog.Model) bool {
		found, ok := facts.Lookup(m.Name, int64(m.VRAMGB)<<10)
		return !ok || found.Name != m.Name || m.Vendor != "nvidia"
	})
	r := rand.New(rand.NewPCG(1, 2))
	for from := 0; from < searchHosts; from += 5000 {
		err := db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			for i := from; i < from+5000; i++ {
				if err := insertHost(ctx, tx, r, models, i); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, 0, err
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if err := s.Load(ctx); err != nil {
		return nil, 0, err
	}
	for i := range searchHosts {
		reply, err := s.Report(ctx, hostName(i), protocol.Report{Session: "s", Seq: 1, Ready: true}, time.Now())
		if err != nil || !reply.Accepted {
			return nil, 0, errors.Join(err, fmt.Errorf("report of %s: %s", hostName(i), reply.Message))
		}
	}
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return s, int64(after.HeapAlloc) - int64(before.HeapAlloc), nil
}

func hostName(i int) string { return fmt.Sprintf("ho-%08d", i) }

// insertHost makes up a host. Prices and facts vary, as on a market.
func insertHost(ctx context.Context, tx *store.Tx, r *rand.Rand, models []catalog.Model, i int) error {
	id, m, units := hostName(i), models[r.IntN(len(models))], []int{1, 2, 4, 8}[r.IntN(4)]
	inv := protocol.Inventory{
		Hostname: id, Architecture: "amd64", CPUModel: "EPYC 7763", CPUs: 16 * units, MemoryMiB: int64(units) * 65536, DiskMiB: int64(50<<10 + r.IntN(4<<20)),
		Runtime: "docker 27.1.0", Isolation: []string{"runc"}, DiskQuota: "loop",
		SelfTest: protocol.SelfTest{RanAt: protocol.Instant{BootID: "b", Nanos: 1}, Passed: true, DiskReadMBps: int64(r.IntN(7000)), NetDownMbps: int64(1 + r.IntN(10000)), NetUpMbps: int64(1 + r.IntN(1000))},
	}
	var uuids []string
	for k := range units {
		uuid := fmt.Sprintf("GPU-%s-%d", id, k)
		uuids = append(uuids, uuid)
		inv.GPUs = append(inv.GPUs, protocol.GPU{UUID: uuid, Index: k, Vendor: protocol.NVIDIA, Name: m.Name, VRAMMiB: int64(m.VRAMGB) << 10, Driver: "550.54.15",
			MaxCUDA: []string{"11.8", "12.4", "12.8"}[r.IntN(3)], ComputeCapability: m.ComputeCapability, PCIeGen: 4, PCIeWidth: 16, NUMANode: -1})
		if k > 0 {
			inv.GPUs[k].MaxCUDA = inv.GPUs[0].MaxCUDA
		}
	}
	listing := fleet.Listing{PerGPUHour: map[string]money.Rate{m.Name: money.Rate(100_000_000 + r.IntN(4000)*1_000_000)}}
	tested := map[string]any{"ran_at": inv.SelfTest.RanAt, "at": 1, "engine": inv.Runtime + "; 550.54.15", "gpus": uuids}
	var texts [3]string
	for k, v := range []any{listing, inv, tested} {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		texts[k] = string(b)
	}
	simulated := 0
	if r.IntN(50) == 0 {
		simulated = 1
	}
	region := []string{"cn-east", "cn-north", "eu", "us-west", "local"}[r.IntN(5)]
	_, err := tx.Exec(ctx, `INSERT INTO fleet_hosts (id, account_id, name, region, zone, rack, bus_key, build, simulated, created_at, listing, inventory, tested)
		VALUES (?, ?, ?, ?, 'z1', '', ?, 'bench', ?, 1, ?, ?, ?)`, id, fmt.Sprintf("ac-%d", r.IntN(500)), id, region, id, simulated, texts[0], texts[1], texts[2])
	for k, uuid := range uuids {
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO fleet_gpus (uuid, host_id, position, model, present, health, reason) VALUES (?, ?, ?, ?, 1, 'healthy', '')`, uuid, id, k, m.Name)
	}
	return err
}

// newPeer puts every offer of the market into a table.
func newPeer(ctx context.Context, market *fleet.Service) (*sql.DB, int, error) {
	db, err := sql.Open("sqlite", "file:peer?mode=memory&cache=private")
	if err != nil {
		return nil, 0, err
	}
	db.SetMaxOpenConns(1)
	n, err := fillPeer(ctx, db, market)
	if err != nil {
		db.Close()
		return nil, 0, err
	}
	return db, n, nil
}

func fillPeer(ctx context.Context, db *sql.DB, market *fleet.Service) (int, error) {
	if _, err := db.ExecContext(ctx, `CREATE TABLE offer (host TEXT, model TEXT, n BIGINT, price BIGINT, region TEXT, simulated BIGINT, vram BIGINT, cuda BIGINT, down BIGINT, fp16 BIGINT, cpu BIGINT, memory BIGINT)`); err != nil {
		return 0, err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	insert, err := tx.PrepareContext(ctx, `INSERT INTO offer VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return 0, err
	}
	count := 0
	for cursor := ""; ; {
		offers, next, err := market.Search(ctx, fleet.Query{Limit: 500, Cursor: cursor})
		if err != nil {
			return 0, err
		}
		for _, o := range offers {
			var major, minor int64
			if _, err := fmt.Sscanf(o.MaxCUDA, "%d.%d", &major, &minor); err != nil {
				return 0, err
			}
			if _, err := insert.ExecContext(ctx, o.HostID, o.GPUModel, o.GPUCount, int64(o.Price.PerHour), o.Region, o.Simulated, o.VRAMMiB>>10, major*100+minor,
				o.NetDownMbps, o.FP16DeciTFLOPS, o.CPUMillis, o.MemoryMiB); err != nil {
				return 0, err
			}
		}
		count += len(offers)
		if cursor = next; cursor == "" {
			break
		}
	}
	if err := tx.Commit(); err != nil {
		return 0, err
	}
	for _, s := range []string{`CREATE INDEX by_price ON offer (price)`, `CREATE INDEX by_model ON offer (model, price)`, `CREATE INDEX by_region ON offer (region, price)`, `ANALYZE`} {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return 0, err
		}
	}
	return count, nil
}

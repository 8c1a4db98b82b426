package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

const (
	postingTime    = 6 * time.Second // of each measurement
	postingWallets = 1000
	postingCallers = 256
	postingBatch   = 1000
	// postingBytes is about what a transfer takes in a log.
	postingBytes = 200
)

// pace is how many postings a second were durable, and how long who asked for one
// waited.
type pace struct {
	perSecond float64
	p50, p99  time.Duration
}

func (r pace) String() string {
	return fmt.Sprintf("%.0f/s, p50 %.1fms, p99 %.1fms", r.perSecond, float64(r.p50)/1e6, float64(r.p99)/1e6)
}

// measureRate lets callers post again and again for a while. Each call of post
// posts many at once.
func measureRate(ctx context.Context, callers, many int, post func(ctx context.Context, caller, n int) error) (pace, error) {
	ctx, cancel := context.WithTimeout(ctx, postingTime)
	defer cancel()
	var mu sync.Mutex
	var took []time.Duration
	var failed error
	var all sync.WaitGroup
	begin := time.Now()
	for c := range callers {
		all.Go(func() {
			var mine []time.Duration
			for n := 0; ctx.Err() == nil; n++ {
				at := time.Now()
				// Not with ctx: what was begun is finished, and counted.
				if err := post(context.WithoutCancel(ctx), c, n); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
					cancel()
					return
				}
				mine = append(mine, time.Since(at))
			}
			mu.Lock()
			took = append(took, mine...)
			mu.Unlock()
		})
	}
	all.Wait()
	elapsed := time.Since(begin)
	if failed != nil || len(took) == 0 {
		return pace{}, cmp.Or(failed, errors.New("nothing was posted"))
	}
	return pace{perSecond: float64(len(took)*many) / elapsed.Seconds(), p50: quantile(took, .5), p99: quantile(took, .99)}, nil
}

// books is a ledger with wallets that have money.
type books struct {
	db     *store.DB
	ledger *ledger.Ledger
	serial atomic.Int64
}

func openBooks(ctx context.Context, address string) (*books, error) {
	db, err := store.Open(ctx, address)
	if err != nil {
		return nil, err
	}
	b := &books{db: db}
	b.ledger, err = ledger.New(db, time.Now)
	if err == nil {
		err = b.ledger.Migrate(ctx)
	}
	if err == nil {
		var funds []ledger.Transfer
		for i := range postingWallets {
			funds = append(funds, ledger.Transfer{Key: ledger.Key(time.Now(), "fund", strconv.Itoa(i)), Debit: ledger.Deposits, Credit: ledger.Wallet(walletName(i)),
				Amount: 1_000_000_000_000, Currency: money.CNY, Code: "deposit"})
		}
		err = b.post(ctx, funds...)
	}
	if err != nil {
		db.Close()
		return nil, err
	}
	return b, nil
}

func (b *books) post(ctx context.Context, batch ...ledger.Transfer) error {
	return b.ledger.Update(ctx, "", func(ctx context.Context, tx *store.Tx) error {
		return b.ledger.Post(ctx, tx, slices.Clone(batch)...)
	})
}

func walletName(i int) string { return fmt.Sprintf("ac-%05d", i) }

// charge is a posting: a random wallet pays a provider. Half of all pay the same
// one, as in a cloud with a large host.
func (b *books) charge(r *rand.Rand) ledger.Transfer {
	provider := "large"
	if r.IntN(2) == 0 {
		provider = strconv.Itoa(r.IntN(100))
	}
	return ledger.Transfer{Key: ledger.Key(time.Now(), strconv.FormatInt(b.serial.Add(1), 10)), Debit: ledger.Wallet(walletName(r.IntN(postingWallets))),
		Credit: ledger.Payable(provider), Amount: money.Amount(1 + r.IntN(1_000_000)), Currency: money.CNY, Code: "charge", Reference: "ls-1"}
}

// measure posts one transfer in a transaction, from many callers, and then many in
// one, from one caller.
func (b *books) measure(ctx context.Context) (single, batched pace, err error) {
	random := func(caller, n int) *rand.Rand { return rand.New(rand.NewPCG(uint64(caller), uint64(n))) }
	single, err = measureRate(ctx, postingCallers, 1, func(ctx context.Context, caller, n int) error {
		return b.post(ctx, b.charge(random(caller, n)))
	})
	if err != nil {
		return single, batched, err
	}
	batched, err = measureRate(ctx, 1, postingBatch, func(ctx context.Context, caller, n int) error {
		r, batch := random(caller, n), make([]ledger.Transfer, postingBatch)
		for i := range batch {
			batch[i] = b.charge(r)
		}
		return b.post(ctx, batch...)
	})
	if err != nil {
		return single, batched, err
	}
	report, err := b.ledger.Verify(ctx)
	if err == nil && !report.OK() {
		err = fmt.Errorf("the books do not balance: %v", report.Faults)
	}
	return single, batched, err
}

// fsyncRate writes what so many postings take to a file and waits until it is on
// the disk, again and again.
func fsyncRate(ctx context.Context, dir string, group int) (pace, error) {
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return pace{}, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	block := bytes.Repeat([]byte("x"), group*postingBytes)
	return measureRate(ctx, 1, group, func(context.Context, int, int) error {
		if _, err := f.Write(block); err != nil {
			return err
		}
		return f.Sync()
	})
}

// benchLedgerSQLite posts from 256 callers, each posting a transaction of its own
// with a check of the balance and an idempotency key, to SQLite with synchronous=FULL.
// The peer is the least that a durable posting needs: one write of 200 bytes and one
// fsync, again and again, on the same disk. That the ledger is faster is the group
// commit; what the disk could do with as many in a group is printed, and so are
// 1,000 postings in one transaction.
func benchLedgerSQLite(ctx context.Context, w *world) (result, error) {
	return benchLedger(ctx, w, "sqlite:"+filepath.Join(w.dir, "ledger.db"), 256)
}

// benchLedgerPostgres is the same on PostgreSQL with fsync on and its own settings,
// beside this process on the same cores. There each transaction commits by itself,
// over 16 connections.
func benchLedgerPostgres(ctx context.Context, w *world) (result, error) {
	p, err := w.startPostgres(ctx)
	if err != nil {
		return result{}, err
	}
	return benchLedger(ctx, w, p.url("ours"), 16)
}

func benchLedger(ctx context.Context, w *world, address string, group int) (result, error) {
	alone, err := fsyncRate(ctx, w.dir, 1)
	if err != nil {
		return result{}, err
	}
	grouped, err := fsyncRate(ctx, w.dir, group)
	if err != nil {
		return result{}, err
	}
	b, err := openBooks(ctx, address)
	if err != nil {
		return result{}, err
	}
	defer b.db.Close()
	single, batched, err := b.measure(ctx)
	if err != nil {
		return result{}, err
	}
	fmt.Printf("%d callers: %s\n%d in a transaction, one caller: %s (of a batch)\nfsync alone: %s; with %d in a group: %s\n",
		postingCallers, single, postingBatch, batched, alone, group, grouped)
	ratio := single.perSecond / alone.perSecond
	return result{perSecond(single), perSecond(alone), ratio, ratio >= 1}, nil
}

func perSecond(r pace) string { return fmt.Sprintf("%.0f/s", r.perSecond) }

// benchFormance compares one posting a request, and benchFormanceBulk 1,000 of them
// in one, with Formance Ledger on the same PostgreSQL server. SUANLI_BENCH_FORMANCE
// names its binary; the README says how to build it. Both check balances and have
// idempotency keys, on the same wallets. Formance is asked over HTTP, as it cannot
// be otherwise, by 1 and by 16 callers, and the better counts; it is not tuned but
// for as many idle connections as callers, without which it makes a new one for
// each request.
func benchFormance(ctx context.Context, w *world) (result, error) { return w.formance(ctx, false) }

func benchFormanceBulk(ctx context.Context, w *world) (result, error) { return w.formance(ctx, true) }

func (w *world) formance(ctx context.Context, bulk bool) (result, error) {
	binary := os.Getenv("SUANLI_BENCH_FORMANCE")
	if binary == "" {
		return result{}, errors.New("SUANLI_BENCH_FORMANCE names no binary of Formance Ledger; bench/README.md says how to build it")
	}
	p, err := w.startPostgres(ctx)
	if err != nil {
		return result{}, err
	}
	b, err := openBooks(ctx, p.url("ours"))
	if err != nil {
		return result{}, err
	}
	single, batched, err := b.measure(ctx)
	b.db.Close()
	if err != nil {
		return result{}, err
	}
	ours := single
	if bulk {
		ours = batched
	}
	f, err := w.startFormance(ctx, binary, p.url("formance"))
	if err != nil {
		return result{}, err
	}
	defer f.process.stop()
	var peer pace
	for _, callers := range []int{1, 16} {
		many := 1
		if bulk {
			many = 100 // of more at a time it makes no more a second
		}
		r, err := measureRate(ctx, callers, many, func(ctx context.Context, caller, n int) error {
			return f.post(ctx, rand.New(rand.NewPCG(uint64(caller)<<32|uint64(callers), uint64(n))), many)
		})
		if err != nil {
			return result{}, err
		}
		fmt.Printf("Formance, %d callers, %d in a request: %s\n", callers, many, r)
		if r.perSecond > peer.perSecond {
			peer = r
		}
	}
	fmt.Printf("ours: %s\n", ours)
	ratio := ours.perSecond / peer.perSecond
	return result{perSecond(ours), perSecond(peer), ratio, ratio >= 10}, nil
}

// formance is a server of Formance Ledger.
type formance struct {
	process *process
	serial  atomic.Int64
}

const formanceURL = "http://127.0.0.1:3068/v2"

func (w *world) startFormance(ctx context.Context, binary, database string) (*formance, error) {
	p, err := w.spawn("formance", nil, binary, "serve", "--bind", "127.0.0.1:3068", "--postgres-uri", database,
		"--postgres-max-idle-conns", "20", "--postgres-max-open-conns", "20", "--auto-upgrade")
	if err != nil {
		return nil, err
	}
	f := &formance{process: p}
	err = poll(ctx, "Formance Ledger", time.Minute, 200*time.Millisecond, func() (bool, error) {
		return f.ask(ctx, http.MethodPost, "/bench", "", map[string]any{}) == nil, nil
	})
	var fund []map[string]any
	for i := range postingWallets {
		fund = append(fund, formancePosting("world", "wallet:"+strconv.Itoa(i), 1_000_000_000_000))
	}
	for part := range slices.Chunk(fund, 100) {
		if err == nil {
			err = f.ask(ctx, http.MethodPost, "/bench/transactions", "", map[string]any{"postings": part})
		}
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	return f, nil
}

func formancePosting(from, to string, amount int64) map[string]any {
	return map[string]any{"source": from, "destination": to, "amount": amount, "asset": "CNY/6"}
}

func (f *formance) post(ctx context.Context, r *rand.Rand, many int) error {
	var elements []map[string]any
	for range many {
		provider := "provider:large"
		if r.IntN(2) == 0 {
			provider = "provider:" + strconv.Itoa(r.IntN(100))
		}
		data := map[string]any{"postings": []any{formancePosting("wallet:"+strconv.Itoa(r.IntN(postingWallets)), provider, int64(1+r.IntN(1_000_000)))}}
		key := fmt.Sprintf("%014x:%d", time.Now().UnixMicro(), f.serial.Add(1))
		if many == 1 {
			return f.ask(ctx, http.MethodPost, "/bench/transactions", key, data)
		}
		elements = append(elements, map[string]any{"action": "CREATE_TRANSACTION", "ik": key, "data": data})
	}
	return f.ask(ctx, http.MethodPost, "/bench/_bulk", "", elements)
}

func (f *formance) ask(ctx context.Context, method, path, key string, in any) error {
	b, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, formanceURL+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %.300s", method, path, res.Status, answer)
	}
	return err
}

// postgres is a server that this run has started, with what it comes with but for
// 100 more connections: fsync is on.
type postgres struct {
	dir  string
	cmd  *exec.Cmd
	done chan struct{}
}

func (p *postgres) url(database string) string {
	return "postgres://postgres@127.0.0.1:5433/" + database + "?sslmode=disable"
}

func (w *world) startPostgres(ctx context.Context) (*postgres, error) {
	if w.postgres != nil {
		return w.postgres, w.postgres.recreate(ctx)
	}
	programs, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(programs) == 0 {
		return nil, errors.New("there is no PostgreSQL server; bench/run.sh installs one")
	}
	bin := filepath.Dir(programs[len(programs)-1])
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	// Not in the run's own folder, which only root may enter.
	p := &postgres{done: make(chan struct{})}
	if p.dir, err = os.MkdirTemp("", "suanli-bench-postgres-"); err != nil {
		return nil, err
	}
	if err := os.Chown(p.dir, uid, gid); err != nil {
		return nil, err
	}
	as := func(cmd *exec.Cmd) *exec.Cmd {
		cmd.Dir = p.dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		return cmd
	}
	data := filepath.Join(p.dir, "data")
	if out, err := as(exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C")).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	p.cmd = as(exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-k", p.dir, "-p", "5433", "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200"))
	log, err := os.Create(filepath.Join(w.dir, "postgres.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	w.postgres = p
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	if err := poll(ctx, "PostgreSQL", time.Minute, 100*time.Millisecond, func() (bool, error) {
		db, err := store.Open(ctx, p.url("postgres"))
		if err == nil {
			db.Close()
		}
		return err == nil, nil
	}); err != nil {
		return nil, err
	}
	return p, p.recreate(ctx)
}

// recreate makes the databases of both ledgers anew, since age makes one slower.
func (p *postgres) recreate(ctx context.Context) error {
	for _, name := range []string{"ours", "formance"} {
		for _, verb := range []string{"DROP DATABASE IF EXISTS " + name + " WITH (FORCE)", "CREATE DATABASE " + name} {
			if out, err := exec.CommandContext(ctx, "psql", p.url("postgres"), "-qc", verb).CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", verb, err, out)
			}
		}
	}
	return nil
}

func (p *postgres) stop() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGINT) // the fast way: clients are cut off
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	if strings.Contains(p.dir, "suanli-bench-postgres-") {
		_ = os.RemoveAll(p.dir)
	}
}

package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/config"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/gateway"
	"suanli.dev/internal/replica"
	"suanli.dev/internal/store"
)

// Migration is what Migrate has done.
type Migration struct {
	Tables []store.Copied
	Rows   int64
	Before billing.Report // the proof of the books in the source
	After  billing.Report // and in the target
	Took   time.Duration
}

// runtimeTables are about processes that run, and seededTables have a row or so in
// an empty database.
var (
	runtimeTables = []string{"replicas", "replica_lead", "fleet_presence"}
	seededTables  = []string{"trial_turn", "billing_usage_reading"}
)

// Migrate copies a cloud that does not run from one database to another, embedded or
// PostgreSQL. The source is brought up to date first, as a start of this version
// would, and stays as it is after that. The target gets everything or nothing, so
// that what was interrupted is simply begun again. The books are proven in both;
// those of the source that do not hold are an error before anything is copied.
// progress may be nil.
func Migrate(ctx context.Context, cfg *config.Config, from, to string, log *slog.Logger, progress func(table string, done, of int)) (m Migration, err error) {
	begun := time.Now()
	if path, embedded := store.File(from); embedded {
		if _, err := os.Stat(path); err != nil {
			return m, fault.New(fault.NotFound, "no_store", "there is no cloud to copy: %w", err)
		}
	}
	for _, address := range []string{from, to} {
		unlock, err := store.Lock(address)
		if err != nil {
			return m, err
		}
		defer func() { _ = unlock() }() // the process ends soon
	}
	dir, err := os.MkdirTemp("", "suanli-migrate-")
	if err != nil {
		return m, err
	}
	defer os.RemoveAll(dir)
	source, err := openIdle(ctx, cfg, filepath.Join(dir, "from"), from, log)
	if err != nil {
		return m, fmt.Errorf("open the source: %w", err)
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	target, err := openIdle(ctx, cfg, filepath.Join(dir, "to"), to, log)
	if err != nil {
		return m, fmt.Errorf("open the target: %w", err)
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if m.Before, err = source.Billing.VerifyLedger(ctx); err != nil {
		return m, fmt.Errorf("prove the books of the source: %w", err)
	}
	if !m.Before.OK() {
		return m, fault.New(fault.Conflict, "books_wrong", "the books of the source do not hold: run suanli ledger verify there and put them right, or they would be wrong in the target too")
	}
	if m.Tables, err = store.Copy(ctx, source.DB, target.DB, store.CopyOptions{Leave: runtimeTables, Seeded: seededTables, Progress: progress}); err != nil {
		return m, err
	}
	for _, t := range m.Tables {
		m.Rows += t.Rows
	}
	if m.After, err = target.Billing.VerifyLedger(ctx); err != nil {
		return m, fmt.Errorf("prove the books of the target: %w", err)
	}
	if !m.After.OK() || m.After.Transfers != m.Before.Transfers || m.After.Accounts != m.Before.Accounts || m.After.Charges != m.Before.Charges {
		return m, fmt.Errorf("the books of the target do not hold or differ from the source's: do not use it, and keep the source")
	}
	m.Took = time.Since(begun)
	return m, nil
}

// openIdle opens the services of a cloud that must not run, and serves nothing.
func openIdle(ctx context.Context, cfg *config.Config, dir, database string, log *slog.Logger) (c *Cloud, err error) {
	own := *cfg
	own.DataDir, own.Database, own.Bus = dir, database, ""
	c = &Cloud{cfg: &own, log: log, version: "migrate", clock: steadyClock()}
	opened := c
	defer func() {
		if err != nil {
			_ = opened.Close()
		}
	}()
	if c.DB, err = store.Open(ctx, database); err != nil {
		return nil, err
	}
	if err := idle(ctx, c.DB); err != nil {
		return nil, err
	}
	// What services are made of beside the database; nothing is asked of it.
	for _, l := range []*net.Listener{&c.api, &c.agents, &c.sshIn} {
		if *l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, err
		}
	}
	if c.tracing, c.flush, err = openTracing(ctx, "", c.version, log); err != nil {
		return nil, err
	}
	c.tracer = tracer(c.tracing)
	if c.Authority, err = gateway.OpenAuthority(filepath.Join(dir, "authority"), time.Now); err != nil {
		return nil, err
	}
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return nil, err
	}
	return c, c.openServices(ctx, secret)
}

// idle is a fault if a control plane runs on a PostgreSQL database; on an embedded
// one the lock of its file says so.
func idle(ctx context.Context, db *store.DB) error {
	if !db.Postgres() {
		return nil
	}
	running, err := replica.Running(ctx, db)
	if err != nil {
		return err
	}
	if running != "" {
		return fault.New(fault.Conflict, "cloud_runs", "the control plane at %s runs on this database: stop all of them first, or what they write now would be lost", running)
	}
	return nil
}

package volume

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Capacity is what volumes need of fleet.
type Capacity interface {
	DiskTerms(hostID string) (fleet.DiskTerms, error)
	ReserveDisk(ctx context.Context, tx *store.Tx, r fleet.DiskReservation) (fleet.DiskTerms, error)
	ReleaseAll(ctx context.Context, tx *store.Tx, id string) error
	Refresh(ctx context.Context, hostID string)
}

// Money is what volumes need of billing.
type Money interface {
	BeginLease(ctx context.Context, tx *store.Tx, terms billing.Terms) error
	StartStorage(ctx context.Context, tx *store.Tx, id string, at time.Time) error
	EndLease(ctx context.Context, tx *store.Tx, id string, at time.Time) error
}

// Leases is what volumes need of lease.
type Leases interface {
	Resolve(ctx context.Context, p account.Principal, nameOrID string) (*lease.Lease, error)
	Lock(ctx context.Context, tx *store.Tx, p account.Principal, id string) (*lease.Lease, error)
	PriceDisk(ctx context.Context, accountID string, t fleet.DiskTerms, diskGiB int64, timeZone string) (pricing.Quote, error)
}

// Config is what a Service is made of.
type Config struct {
	DB       *store.DB
	Clock    func() time.Time // nil: time.Now
	Capacity Capacity
	Money    Money
	Leases   Leases
	// TimeZone returns the time zone of an account, in which its months are counted.
	TimeZone func(ctx context.Context, accountID string) (string, error)
	// Command sends a command to a host and waits for its answer.
	Command func(ctx context.Context, hostID string, c protocol.Command) (protocol.CommandResult, error)
	// Audit records a write within its transaction; nil: it is not recorded.
	Audit func(ctx context.Context, tx *store.Tx, p account.Principal, action, subject string, detail any) error
	// Most is how many volumes an account may have at a time; 0: 100.
	Most int
	// Patience is how long a host may take to make a volume; 0: 15 minutes.
	Patience time.Duration
	Every    time.Duration // between turns; 0: 2 seconds
	Log      *slog.Logger
	// Snapshots are copies of volumes in object storage.
	Snapshots SnapshotConfig
}

// Service is the volumes. It is safe for concurrent use, and several may run on one
// database.
type Service struct {
	Config

	wake chan struct{}

	mu   sync.Mutex
	busy map[string]bool // hosts that are being told

	wakeSnapshots chan struct{}
	copies        copies
}

// New returns a Service. Migrate must be called before anything else.
func New(c Config) (*Service, error) {
	if c.DB == nil || c.Capacity == nil || c.Money == nil || c.Leases == nil || c.TimeZone == nil || c.Command == nil {
		return nil, errors.New("volume: a dependency is missing from the configuration")
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Audit == nil {
		c.Audit = func(context.Context, *store.Tx, account.Principal, string, string, any) error { return nil }
	}
	if c.Most <= 0 {
		c.Most = 100
	}
	if c.Patience <= 0 {
		c.Patience = 15 * time.Minute
	}
	if c.Every <= 0 {
		c.Every = 2 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Snapshots.Most <= 0 {
		c.Snapshots.Most = 200
	}
	if c.Snapshots.PerHost <= 0 {
		c.Snapshots.PerHost = 2
	}
	if c.Snapshots.SweepEvery <= 0 {
		c.Snapshots.SweepEvery = time.Hour
	}
	return &Service{
		Config: c, wake: make(chan struct{}, 1), busy: map[string]bool{}, wakeSnapshots: make(chan struct{}, 1),
		copies: copies{busy: map[string]bool{}, next: map[string]int{}, heard: map[string]time.Time{}},
	}, nil
}

// Migrate brings the tables up to date.
func (s *Service) Migrate(ctx context.Context) error {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return s.DB.Migrate(ctx, "volume", sub)
}

// Volume is a disk of an account's that outlives leases.
type Volume struct {
	ID, AccountID, UserID string
	Name                  string
	HostID, ProviderID    string
	Region, Zone          string
	SizeGiB               int64
	Simulated             bool
	Price                 pricing.Quote // frozen when it was made
	State                 State
	Code, Message         string    // why it is in its state
	CreatedAt             time.Time // when it was asked for
	ReadyAt               time.Time // since when it is charged for; zero: it is not yet
	EndedAt               time.Time
	Attachments           []Attachment // in the order of attaching
	SnapshotID            string       // that it is made of; empty: none
	Replaces              string       // the volume whose place it takes when it is made
	MovingTo              string       // the volume that takes its place
	BackupHours           int64        // between backups; 0: none are taken
	BackupKeep            int64        // of the last ones
	BackupNext            time.Time    // when the next is due
}

// Attachment is a lease that has a volume.
type Attachment struct {
	LeaseID    string
	Path       string
	ReadOnly   bool
	AttachedAt time.Time
}

const columns = `id, account_id, user_id, name, host_id, provider_id, region, zone, size_gib, simulated, price, state, code, message, created_at, ready_at, ended_at, snapshot_id, replaces, moving_to, backup_hours, backup_keep, backup_next`

// query reads volumes with their attachments.
func query(ctx context.Context, tx *store.Tx, where string, args ...any) ([]*Volume, error) {
	rows, err := tx.Query(ctx, `SELECT `+columns+` FROM volume WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read volumes: %w", err)
	}
	defer rows.Close()
	var out []*Volume
	byID := map[string]*Volume{}
	var ids []any
	for rows.Next() {
		var v Volume
		var price []byte
		var simulated, created, ready, ended, next int64
		if err := rows.Scan(&v.ID, &v.AccountID, &v.UserID, &v.Name, &v.HostID, &v.ProviderID, &v.Region, &v.Zone, &v.SizeGiB, &simulated, &price,
			&v.State, &v.Code, &v.Message, &created, &ready, &ended, &v.SnapshotID, &v.Replaces, &v.MovingTo, &v.BackupHours, &v.BackupKeep, &next); err != nil {
			return nil, fmt.Errorf("read volumes: %w", err)
		}
		if err := json.Unmarshal(price, &v.Price); err != nil {
			return nil, fmt.Errorf("read the price of volume %s: %w", v.ID, err)
		}
		v.Simulated = simulated != 0
		v.CreatedAt, v.ReadyAt, v.EndedAt = store.Time(created), store.Time(ready), store.Time(ended)
		v.BackupNext = store.Time(next)
		out, byID[v.ID], ids = append(out, &v), &v, append(ids, v.ID)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read volumes: %w", err)
	}
	rows.Close()
	if len(ids) == 0 {
		return out, nil
	}
	used, err := tx.Query(ctx, `SELECT volume_id, lease_id, path, read_only, attached_at FROM volume_attachment
		WHERE volume_id IN (?`+strings.Repeat(", ?", len(ids)-1)+`) ORDER BY attached_at, lease_id`, ids...)
	if err != nil {
		return nil, fmt.Errorf("read attachments: %w", err)
	}
	defer used.Close()
	for used.Next() {
		var id string
		var a Attachment
		var readOnly, at int64
		if err := used.Scan(&id, &a.LeaseID, &a.Path, &readOnly, &at); err != nil {
			return nil, fmt.Errorf("read attachments: %w", err)
		}
		a.ReadOnly, a.AttachedAt = readOnly != 0, store.Time(at)
		byID[id].Attachments = append(byID[id].Attachments, a)
	}
	return out, used.Err()
}

func notFound(nameOrID string) error {
	return fault.New(fault.NotFound, "volume_not_found", "there is no volume %q in this account; list yours to see their names", nameOrID)
}

// find returns a volume of an account's, by identifier, or by the name of one that is
// not over or on its way out. With suffix it is locked.
func find(ctx context.Context, tx *store.Tx, accountID, nameOrID, suffix string) (*Volume, error) {
	where, args := `account_id = ? AND name = ? AND state IN ('creating', 'available')`, []any{accountID, nameOrID}
	if ident.Check(ident.Volume, nameOrID) == nil {
		where, args = `account_id = ? AND id = ?`, []any{accountID, nameOrID}
	}
	list, err := query(ctx, tx, where+suffix, args...)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, notFound(nameOrID)
	}
	return list[0], nil
}

// Get returns a volume of the caller's, by identifier or by name.
func (s *Service) Get(ctx context.Context, p account.Principal, nameOrID string) (v *Volume, err error) {
	err = s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		v, err = find(ctx, tx, p.AccountID, nameOrID, "")
		return err
	})
	return v, err
}

// List returns a page of the caller's volumes, newest first, and the cursor of the
// next; with open, only those that are not over.
func (s *Service) List(ctx context.Context, p account.Principal, open bool, cursor string, limit int) (out []*Volume, next string, err error) {
	where := `account_id = ?`
	if open {
		where += ` AND ended_at = 0`
	}
	return store.Page(ctx, s.DB, where, []any{p.AccountID}, cursor, limit, query, func(x *Volume) string { return x.ID })
}

// Places returns those volumes that are among identifiers of any kind, for the
// cloud's own parts, which check who asks.
func (s *Service) Places(ctx context.Context, ids []string) ([]*Volume, error) {
	var out []*Volume
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		out = nil
		for _, id := range ids {
			if ident.Check(ident.Volume, id) != nil {
				continue
			}
			list, err := query(ctx, tx, `id = ?`, id)
			if err != nil {
				return err
			}
			out = append(out, list...)
		}
		return nil
	})
	return out, err
}

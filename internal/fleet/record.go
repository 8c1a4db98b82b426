package fleet

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"suanli.dev/internal/placement"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

// record is all that the store knows of a host. It is immutable once read.
type record struct {
	ID, AccountID, Name string
	Region, Zone, Rack  string
	BusKey, Build       string
	Simulated           bool
	CreatedAt           time.Time
	Listing             Listing
	Draining            bool
	Maintenance         Window
	Inventory           *protocol.Inventory // without what changes from moment to moment; nil: none yet
	inventorySum        [sha256.Size]byte   // of Inventory as it is stored
	InventoryProblem    string
	Tested              tested
	LastSeen            time.Time
	OnlineSeconds       int64
	OfflineSeconds      int64

	GPUs []gpu
	// Held by leases: CPU and memory by those that may run, disk by all.
	CPUMillis, MemoryMiB, DiskMiB int64
	// Spot are the leases of the spot market that have GPUs, with their shares, and
	// Leaving those of them that must leave for a lease on demand, whose shares are
	// not counted above any more.
	Spot    map[string]spotShare
	Leaving map[string]bool
}

// gpu is one device of a host, in the order of its index there.
type gpu struct {
	UUID        string
	Position    int
	Model       string
	Present     bool // in the last inventory
	Health      protocol.HealthState
	Reason      string
	FencedAt    time.Time
	ClearedXids []int // that an active probe has found to be over
	LeaseID     string
	ClaimedBy   string // a lease that waits until LeaseID has left it; empty: none
}

// tested is what the last self-test covered.
type tested struct {
	RanAt  protocol.Instant `json:"ran_at"`
	At     int64            `json:"at"`     // microseconds, the server's clock
	Engine string           `json:"engine"` // runtime and drivers
	GPUs   []string         `json:"gpus"`
}

// Window is a stretch of time, half open.
type Window struct {
	From, Until time.Time
}

// Contains reports whether t is in the window.
func (w Window) Contains(t time.Time) bool {
	return !w.From.IsZero() && !t.Before(w.From) && t.Before(w.Until)
}

const hostColumns = `id, account_id, name, region, zone, rack, bus_key, build, simulated, created_at, listing, draining,
	maintenance_from, maintenance_until, inventory, inventory_problem, tested, last_seen, online_seconds, offline_seconds`

// scanHost reads a host's row. An inventory is by far the largest part of it and
// changes rarely; if it is the one in known, that is used again.
func scanHost(row interface{ Scan(...any) error }, known *record) (*record, error) {
	var r record
	var simulated, created, draining, from, until, seen int64
	var listing, inventory, test string
	err := row.Scan(&r.ID, &r.AccountID, &r.Name, &r.Region, &r.Zone, &r.Rack, &r.BusKey, &r.Build, &simulated, &created, &listing, &draining,
		&from, &until, &inventory, &r.InventoryProblem, &test, &seen, &r.OnlineSeconds, &r.OfflineSeconds)
	if err != nil {
		return nil, err
	}
	r.Simulated, r.Draining = simulated != 0, draining != 0
	r.CreatedAt, r.LastSeen = store.Time(created), store.Time(seen)
	r.Maintenance = Window{From: store.Time(from), Until: store.Time(until)}
	r.inventorySum = sha256.Sum256([]byte(inventory))
	if known != nil && known.Inventory != nil && r.inventorySum == known.inventorySum {
		r.Inventory, inventory = known.Inventory, ""
	}
	for _, part := range []struct {
		text string
		to   any
	}{{listing, &r.Listing}, {inventory, &r.Inventory}, {test, &r.Tested}} {
		if part.text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(part.text), part.to); err != nil {
			return nil, fmt.Errorf("host %s: %w", r.ID, err)
		}
	}
	return &r, nil
}

// readHost reads one host with its GPUs and reservations; nil if there is none.
// Known is what was read of it before, or nil.
func readHost(ctx context.Context, tx *store.Tx, id, lock string, known *record) (*record, error) {
	r, err := scanHost(tx.QueryRow(ctx, `SELECT `+hostColumns+` FROM fleet_hosts WHERE id = ?`+lock, id), known)
	if errors.Is(err, store.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = readGPUs(ctx, tx, ` WHERE g.host_id = ?`, []any{id}, map[string]*record{id: r})
	return r, err
}

func readGPUs(ctx context.Context, tx *store.Tx, where string, args []any, byID map[string]*record) error {
	rows, err := tx.Query(ctx, `SELECT g.uuid, g.host_id, g.position, g.model, g.present, g.health, g.reason, g.fenced_at, g.cleared_xids, COALESCE(a.lease_id, '')
		FROM fleet_gpus g LEFT JOIN fleet_allocations a ON a.gpu_uuid = g.uuid`+where+` ORDER BY g.host_id, g.position, g.uuid`, args...)
	if err != nil {
		return err
	}
	err = each(rows, func() error {
		var g gpu
		var hostID, health, cleared string
		var present, fenced int64
		if err := rows.Scan(&g.UUID, &hostID, &g.Position, &g.Model, &present, &health, &g.Reason, &fenced, &cleared, &g.LeaseID); err != nil {
			return err
		}
		g.Present, g.Health, g.FencedAt = present != 0, protocol.HealthState(health), store.Time(fenced)
		if cleared != "" {
			if err := json.Unmarshal([]byte(cleared), &g.ClearedXids); err != nil {
				return err
			}
		}
		if r := byID[hostID]; r != nil {
			r.GPUs = append(r.GPUs, g)
		}
		return nil
	})
	if err != nil {
		return err
	}
	rows, err = tx.Query(ctx, `SELECT g.host_id, SUM(g.cpu_millis * g.compute), SUM(g.memory_mib * g.compute), SUM(g.disk_mib)
		FROM fleet_reservations g`+where+` GROUP BY g.host_id`, args...)
	if err != nil {
		return err
	}
	err = each(rows, func() error {
		var hostID string
		var cpu, memory, disk int64
		if err := rows.Scan(&hostID, &cpu, &memory, &disk); err != nil {
			return err
		}
		if r := byID[hostID]; r != nil {
			r.CPUMillis, r.MemoryMiB, r.DiskMiB = cpu, memory, disk
		}
		return nil
	})
	if err != nil {
		return err
	}
	return readClaims(ctx, tx, where, args, byID)
}

func each(rows *sql.Rows, scan func() error) error {
	defer rows.Close()
	for rows.Next() {
		if err := scan(); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (s *Service) readOne(ctx context.Context, id string) (r *record, err error) {
	known := s.record(id)
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		r, err = readHost(ctx, tx, id, "", known)
		return err
	})
	return r, err
}

func (s *Service) readAll(ctx context.Context) (all []*record, err error) {
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT `+hostColumns+` FROM fleet_hosts ORDER BY id`)
		if err != nil {
			return err
		}
		byID := map[string]*record{}
		err = each(rows, func() error {
			r, err := scanHost(rows, nil)
			if err != nil {
				return err
			}
			all = append(all, r)
			byID[r.ID] = r
			return nil
		})
		if err != nil {
			return err
		}
		return readGPUs(ctx, tx, "", nil, byID)
	})
	return all, err
}

// fit reports whether g may be given to a lease, its being free aside.
func (r *record) fit(g gpu) bool {
	return g.Present && g.Health == protocol.Healthy && slices.Contains(r.Tested.GPUs, g.UUID)
}

// snapshot is the host as placement sees it: what is not fit is not free.
func (r *record) snapshot() placement.Host {
	links := map[string][]placement.Link{}
	numa := map[string]int{}
	if r.Inventory != nil {
		for _, g := range r.Inventory.GPUs {
			numa[g.UUID] = g.NUMANode
			for _, l := range g.NVLinks {
				links[g.UUID] = append(links[g.UUID], placement.Link{Peer: l.PeerUUID, Count: l.Links})
			}
		}
	}
	c := r.capacity()
	h := placement.Host{ID: r.ID, CPUMillis: c.CPUMillis - r.CPUMillis, MemoryMiB: c.MemoryMiB - r.MemoryMiB, DiskMiB: c.DiskMiB - r.DiskMiB}
	for _, g := range r.GPUs {
		h.GPUs = append(h.GPUs, placement.GPU{
			UUID: g.UUID, Index: g.Position, Model: g.Model, NUMA: numa[g.UUID], Links: links[g.UUID],
			Free: g.LeaseID == "" && g.ClaimedBy == "" && r.fit(g),
		})
	}
	return h
}

// capacity is what of a host may be sold.
type capacity struct {
	CPUMillis, MemoryMiB, DiskMiB int64
}

// capacity keeps a part of memory for the host's own system, agent and engine,
// without which a renter that fills its own limit would bring down all: a
// twentieth, at least 512 MiB and at most 8 GiB, but never more than half.
func (r *record) capacity() capacity {
	inv := r.Inventory
	if inv == nil {
		return capacity{}
	}
	own := min(max(inv.MemoryMiB/20, 512), 8192, inv.MemoryMiB/2)
	return capacity{CPUMillis: int64(inv.CPUs) * 1000, MemoryMiB: inv.MemoryMiB - own, DiskMiB: inv.DiskMiB}
}

// engine names what a self-test holds for: after an upgrade of the container
// engine or of a driver it must be run again.
func engine(inv *protocol.Inventory) string {
	parts := []string{inv.Runtime}
	for _, g := range inv.GPUs {
		if !slices.Contains(parts, g.Driver) {
			parts = append(parts, g.Driver)
		}
	}
	return strings.Join(parts, "; ")
}

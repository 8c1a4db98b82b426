package drill

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/store"
)

//go:embed migrations
var migrations embed.FS

// Kind is what a drill has happen.
type Kind string

// The kinds of drills.
const (
	HostOutage Kind = "host_outage"
	ZoneOutage Kind = "zone_outage"
)

// Bounds of a drill's time.
const (
	Shortest = 5 * time.Second
	Longest  = 15 * time.Minute
)

// Hosts is what drills need of the fleet.
type Hosts interface {
	Hosts(ctx context.Context, p account.Principal) []fleet.Host
}

// Leases is what drills need of leases.
type Leases interface {
	OnHost(hostID string) []*lease.Lease
	History(ctx context.Context, p account.Principal, id string) ([]lease.Change, error)
}

// Config is what a Service is made of.
type Config struct {
	DB     *store.DB
	Clock  func() time.Time // time.Now
	Hosts  Hosts
	Leases Leases
	// Cut is told of a host that is cut from now on: its connection shall end.
	Cut   func(hostID string)
	Audit func(ctx context.Context, tx *store.Tx, p account.Principal, action, subject string, detail any) error
	Every time.Duration // between looks at which drills run; 1 s
	Log   *slog.Logger
}

// Service is the drills. It is safe for concurrent use, on several replicas.
type Service struct {
	cfg Config

	mu  sync.Mutex
	cut map[string]time.Time // host → until when
}

// New returns a service. Migrate must be called before anything else.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Hosts == nil || cfg.Leases == nil {
		return nil, errors.New("drill: a dependency is missing from the configuration")
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Every == 0 {
		cfg.Every = time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{cfg: cfg, cut: map[string]time.Time{}}, nil
}

// Migrate brings the tables up to date.
func (s *Service) Migrate(ctx context.Context) error {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return s.cfg.DB.Migrate(ctx, "drill", sub)
}

// Request is a drill to begin.
type Request struct {
	Kind Kind
	// HostID is of a host's outage, Region and Zone of a zone's.
	HostID, Region, Zone string
	For                  time.Duration
	// Consent says that the leases that will feel it were named and are accepted.
	Consent bool
}

// Felt is what one lease felt of a drill.
type Felt struct {
	LeaseID, HostID string
	Before          lease.State
	Now             lease.State
	Changes         []lease.Change // from the beginning of the drill on
	// Unreachable is for how long it counted as such, until now if it still does.
	Unreachable time.Duration
	// Ended says that it is over, or was stopped, since the drill began.
	Ended bool
}

// Drill is one drill and what was felt of it.
type Drill struct {
	ID, Subject    string
	Kind           Kind
	BegunAt, Until time.Time
	Hosts          []string
	Leases         []Felt
	Over           bool
	// Recovered says that every lease that ran runs again, or was ended by someone.
	Recovered bool
}

// Begin begins a drill. Without consent it is a fault "drill_consent" that names
// what would be felt, and nothing is done.
func (s *Service) Begin(ctx context.Context, p account.Principal, r Request) (Drill, error) {
	if r.For < Shortest || r.For > Longest {
		return Drill{}, fault.New(fault.Invalid, "bad_drill", "a drill of %s was asked for; it may take %s to %s", r.For, Shortest, Longest).At("body.seconds")
	}
	hosts, subject, err := s.chosen(ctx, p, r)
	if err != nil {
		return Drill{}, err
	}
	var leases []*lease.Lease
	for _, h := range hosts {
		for _, l := range s.cfg.Leases.OnHost(h) {
			if !l.State.Over() {
				leases = append(leases, l)
			}
		}
	}
	if !r.Consent {
		return Drill{}, fault.New(fault.Conflict, "drill_consent", "this drill cuts %d hosts with %d leases off for %s: their renters cannot enter them, and see them as unreachable; nothing was done yet: ask again with consent if that is meant", len(hosts), len(leases), r.For)
	}
	id := ident.New(ident.Drill)
	now := s.cfg.Clock()
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		var running string
		err := tx.QueryRow(ctx, `SELECT id FROM drills WHERE until_at > ?`, store.Micros(now)).Scan(&running)
		if err == nil {
			return fault.New(fault.Conflict, "drill_runs", "drill %s runs already: one at a time, so that it is known what was felt of which; end it with suanli drill stop %s", running, running)
		}
		if !errors.Is(err, store.ErrNoRows) {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO drills (id, kind, subject, begun_at, until_at, user_id) VALUES (?, ?, ?, ?, ?, ?)`,
			id, string(r.Kind), subject, store.Micros(now), store.Micros(now.Add(r.For)), p.UserID); err != nil {
			return err
		}
		for _, h := range hosts {
			if _, err := tx.Exec(ctx, `INSERT INTO drill_hosts (drill_id, host_id) VALUES (?, ?)`, id, h); err != nil {
				return err
			}
		}
		for _, l := range leases {
			if _, err := tx.Exec(ctx, `INSERT INTO drill_leases (drill_id, lease_id, host_id, state) VALUES (?, ?, ?, ?)`, id, l.ID, l.HostID, string(l.State)); err != nil {
				return err
			}
		}
		if s.cfg.Audit == nil {
			return nil
		}
		return s.cfg.Audit(ctx, tx, p, "drill.begin", id, map[string]string{"kind": string(r.Kind), "subject": subject, "for": r.For.String()})
	})
	if err != nil {
		return Drill{}, err
	}
	s.cfg.Log.WarnContext(ctx, "a drill begins", "drill", id, "kind", r.Kind, "subject", subject, "hosts", len(hosts), "for", r.For)
	if err := s.look(ctx); err != nil {
		return Drill{}, err
	}
	return s.Get(ctx, p, id)
}

// chosen are the hosts that a drill is about.
func (s *Service) chosen(ctx context.Context, p account.Principal, r Request) (hosts []string, subject string, err error) {
	var of func(fleet.Host) bool
	switch r.Kind {
	case HostOutage:
		subject = r.HostID
		of = func(h fleet.Host) bool { return h.ID == r.HostID }
	case ZoneOutage:
		subject = r.Region + "/" + r.Zone
		of = func(h fleet.Host) bool { return h.Region == r.Region && h.Zone == r.Zone }
	default:
		return nil, "", fault.New(fault.Invalid, "bad_drill", "there is no drill %q; there are %s and %s", r.Kind, HostOutage, ZoneOutage).At("body.kind")
	}
	for _, h := range s.cfg.Hosts.Hosts(ctx, p) {
		if of(h) {
			hosts = append(hosts, h.ID)
		}
	}
	if len(hosts) == 0 {
		return nil, "", fault.New(fault.NotFound, "drill_nothing", "no host is %q; suanli host list shows those that are", subject)
	}
	slices.Sort(hosts)
	return hosts, subject, nil
}

// End ends a drill now. One that is over is left as it is.
func (s *Service) End(ctx context.Context, p account.Principal, id string) (Drill, error) {
	now := s.cfg.Clock()
	err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Exec(ctx, `UPDATE drills SET until_at = ? WHERE id = ? AND until_at > ?`, store.Micros(now), id, store.Micros(now))
		if err != nil || n == 0 || s.cfg.Audit == nil {
			return err
		}
		return s.cfg.Audit(ctx, tx, p, "drill.end", id, nil)
	})
	if err != nil {
		return Drill{}, err
	}
	if err := s.look(ctx); err != nil {
		return Drill{}, err
	}
	return s.Get(ctx, p, id)
}

// Get returns a drill, and what leases have felt of it so far.
func (s *Service) Get(ctx context.Context, p account.Principal, id string) (Drill, error) {
	d := Drill{ID: id}
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		var begun, until int64
		err := tx.QueryRow(ctx, `SELECT kind, subject, begun_at, until_at FROM drills WHERE id = ?`, id).Scan(&d.Kind, &d.Subject, &begun, &until)
		if errors.Is(err, store.ErrNoRows) {
			return fault.New(fault.NotFound, "drill_not_found", "there is no drill %q", id)
		}
		if err != nil {
			return err
		}
		d.BegunAt, d.Until = store.Time(begun), store.Time(until)
		rows, err := tx.Query(ctx, `SELECT host_id FROM drill_hosts WHERE drill_id = ? ORDER BY host_id`, id)
		if err != nil {
			return err
		}
		if err := each(rows, func() error {
			var h string
			err := rows.Scan(&h)
			d.Hosts = append(d.Hosts, h)
			return err
		}); err != nil {
			return err
		}
		rows, err = tx.Query(ctx, `SELECT lease_id, host_id, state FROM drill_leases WHERE drill_id = ? ORDER BY lease_id`, id)
		if err != nil {
			return err
		}
		return each(rows, func() error {
			var f Felt
			err := rows.Scan(&f.LeaseID, &f.HostID, &f.Before)
			d.Leases = append(d.Leases, f)
			return err
		})
	})
	if err != nil {
		return d, err
	}
	now := s.cfg.Clock()
	d.Over, d.Recovered = !d.Until.After(now), true
	for i := range d.Leases {
		f := &d.Leases[i]
		all, err := s.cfg.Leases.History(ctx, p, f.LeaseID)
		if err != nil {
			return d, fmt.Errorf("what lease %s felt: %w", f.LeaseID, err)
		}
		f.judge(all, d.BegunAt, now)
		if f.Now == lease.Unreachable {
			d.Recovered = false
		}
	}
	return d, nil
}

// judge reads from a lease's history what it felt since a drill began.
func (f *Felt) judge(all []lease.Change, begun, now time.Time) {
	f.Now = f.Before
	var since time.Time
	// By when a change was written, as its identifier has it: a lease is dated
	// unreachable from its host's last sign of life, which was before the drill.
	first := ident.First(ident.Event, begun)
	for _, c := range all {
		if c.ID < first {
			continue
		}
		f.Changes = append(f.Changes, c)
		f.Now = c.To
		switch {
		case c.To == lease.Unreachable && since.IsZero():
			since = latest(c.At, begun)
		case c.To != lease.Unreachable && !since.IsZero():
			f.Unreachable += c.At.Sub(since)
			since = time.Time{}
		}
	}
	if !since.IsZero() {
		f.Unreachable += now.Sub(since)
	}
	f.Ended = f.Before == lease.Running && f.Now != lease.Running && f.Now != lease.Unreachable
}

// Run cuts hosts and lets them come back, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(s.cfg.Every)
	defer tick.Stop()
	for {
		if err := s.look(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "look for drills", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look reads which hosts are cut, and cuts those that are connected.
func (s *Service) look(ctx context.Context) error {
	now := s.cfg.Clock()
	cut := map[string]time.Time{}
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT h.host_id, d.until_at FROM drills d JOIN drill_hosts h ON h.drill_id = d.id WHERE d.until_at > ?`, store.Micros(now))
		if err != nil {
			return err
		}
		return each(rows, func() error {
			var h string
			var until int64
			err := rows.Scan(&h, &until)
			cut[h] = store.Time(until)
			return err
		})
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.cut = cut
	s.mu.Unlock()
	if s.cfg.Cut != nil {
		for h := range cut {
			s.cfg.Cut(h)
		}
	}
	return nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func each(rows interface {
	Next() bool
	Err() error
	Close() error
}, scan func() error) error {
	defer rows.Close()
	for rows.Next() {
		if err := scan(); err != nil {
			return err
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

// Allow is a fault "drill_cut" while a drill has the host cut off. It asks memory
// only, and believes no drill beyond its end, whatever the store does.
func (s *Service) Allow(hostID string) error {
	s.mu.Lock()
	until, cut := s.cut[hostID]
	s.mu.Unlock()
	if !cut || !until.After(s.cfg.Clock()) {
		return nil
	}
	return fault.New(fault.Unavailable, "drill_cut", "a drill of this cloud's operator has host %s cut off until %s; instances run on", hostID, until.UTC().Format(time.RFC3339))
}

// ParseZone reads "region/zone".
func ParseZone(v string) (region, zone string, ok bool) {
	region, zone, ok = strings.Cut(v, "/")
	return region, zone, ok && region != "" && zone != ""
}

package replica

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"suanli.dev/internal/ident"
	"suanli.dev/internal/store"
)

//go:embed migrations
var migrations embed.FS

// Config is what a Service is made of. Durations have useful zero values.
type Config struct {
	DB      *store.DB
	Address string // host:port where other replicas reach this one's tunnels
	Build   string
	Every   time.Duration        // between signs of life; 1 s
	TTL     time.Duration        // how long one may show none; 5 s
	Clock   func() time.Time     // for people to read; time.Now
	Elapsed func() time.Duration // monotonic; since New
	// OnLost is told when this replica could not show that it lives for TTL, and
	// OnBack when it can again. Both must return at once.
	OnLost, OnBack func()
	Log            *slog.Logger
}

// Replica is one control plane of the cloud.
type Replica struct {
	ID, Address, Build string
	StartedAt          time.Time
	Alive, Leads       bool
}

// Service is this replica among the others. It is safe for concurrent use.
type Service struct {
	cfg   Config
	id    string
	alone bool

	mu      sync.Mutex
	renewed time.Duration // Elapsed before the last sign of life that was stored
	shown   bool          // there was one
	lost    bool          // OnLost was told
	holder  string
	term    int64
	others  map[string]*seen // this one too
}

// seen is what was observed of a replica.
type seen struct {
	Replica
	beat  int64
	moved time.Duration // Elapsed when beat was last seen to change
}

// New returns a replica that does not count yet.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil {
		return nil, errors.New("replica: a store is required")
	}
	if cfg.Every == 0 {
		cfg.Every = time.Second
	}
	if cfg.TTL == 0 {
		cfg.TTL = 5 * time.Second
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Elapsed == nil {
		start := time.Now()
		cfg.Elapsed = func() time.Duration { return time.Since(start) }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{cfg: cfg, id: ident.New(ident.Replica), alone: !cfg.DB.Postgres(), others: map[string]*seen{}}, nil
}

// Migrate brings the tables up to date.
func (s *Service) Migrate(ctx context.Context) error {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return s.cfg.DB.Migrate(ctx, "replica", sub)
}

// ID names this run of this control plane.
func (s *Service) ID() string { return s.id }

// Alone reports whether there can be no other replica.
func (s *Service) Alone() bool { return s.alone }

// Join shows the first sign of life. Call it after Migrate and before Run.
func (s *Service) Join(ctx context.Context) error {
	if s.alone {
		return nil
	}
	if err := s.renew(ctx); err != nil {
		return fmt.Errorf("join the other control planes: %w", err)
	}
	return nil
}

// Run shows signs of life until ctx ends, and then leaves at once: the others need
// not wait until they miss them.
func (s *Service) Run(ctx context.Context) error {
	if s.alone {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(s.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.TTL)
			defer cancel()
			if err := s.leave(last); err != nil {
				s.cfg.Log.WarnContext(last, "leave the other control planes; they notice by themselves", "error", err)
			}
			return nil
		case <-tick.C:
		}
		// A store that hangs must not keep this from noticing that it is lost.
		one, cancel := context.WithTimeout(ctx, s.cfg.TTL/2)
		err := s.renew(one)
		cancel()
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "this control plane could not show that it lives", "error", err)
		}
		s.judge()
	}
}

// judge tells of being lost or back.
func (s *Service) judge() {
	s.mu.Lock()
	lost := s.cfg.Elapsed()-s.renewed > s.cfg.TTL
	turned := lost != s.lost
	s.lost = lost
	s.mu.Unlock()
	if !turned {
		return
	}
	tell := s.cfg.OnBack
	if lost {
		tell = s.cfg.OnLost
		s.cfg.Log.Error("this control plane has lost the store: hosts shall go to another one")
	}
	if tell != nil {
		tell()
	}
}

// renew shows that this replica lives, looks at the others, and takes the lead if
// nobody has it.
func (s *Service) renew(ctx context.Context) error {
	began := s.cfg.Elapsed()
	type row struct {
		Replica
		beat int64
	}
	var rows []row
	var holder string
	var term int64
	err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows = rows[:0]
		_, err := tx.Exec(ctx, `INSERT INTO replicas (id, address, build, started_at, beat) VALUES (?, ?, ?, ?, 1)
			ON CONFLICT (id) DO UPDATE SET beat = replicas.beat + 1`, s.id, s.cfg.Address, s.cfg.Build, store.Micros(s.cfg.Clock()))
		if err != nil {
			return err
		}
		all, err := tx.Query(ctx, `SELECT id, address, build, started_at, beat FROM replicas`)
		if err != nil {
			return err
		}
		defer all.Close()
		for all.Next() {
			var r row
			var started int64
			if err := all.Scan(&r.ID, &r.Address, &r.Build, &started, &r.beat); err != nil {
				return err
			}
			r.StartedAt = store.Time(started)
			rows = append(rows, r)
		}
		if err := errors.Join(all.Err(), all.Close()); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT holder, term FROM replica_lead WHERE one = 1`).Scan(&holder, &term)
	})
	if err != nil {
		return err
	}
	now := s.cfg.Elapsed()
	s.mu.Lock()
	s.renewed, s.shown = began, true
	present := map[string]bool{}
	for _, r := range rows {
		present[r.ID] = true
		o := s.others[r.ID]
		if o == nil {
			// Its number may stand still already; that takes TTL to see.
			o = &seen{moved: now}
			s.others[r.ID] = o
		} else if o.beat != r.beat {
			o.moved = now
		}
		o.Replica, o.beat = r.Replica, r.beat
	}
	maps.DeleteFunc(s.others, func(id string, _ *seen) bool { return !present[id] })
	s.holder, s.term = holder, term
	vacant := holder != s.id && !s.aliveLocked(holder, now)
	var gone []string
	for id, o := range s.others {
		if now-o.moved > forgetAfter {
			gone = append(gone, id)
		}
	}
	s.mu.Unlock()
	if vacant {
		if err := s.take(ctx, term); err != nil {
			return err
		}
	}
	if s.Leads() && len(gone) > 0 {
		return s.forget(ctx, gone)
	}
	return nil
}

// forgetAfter is how long one that is gone is still listed, for people to see.
const forgetAfter = 10 * time.Minute

// take takes the lead if its term is still the one given.
func (s *Service) take(ctx context.Context, term int64) error {
	began := s.cfg.Elapsed()
	var n int64
	err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		n, err = tx.Exec(ctx, `UPDATE replica_lead SET holder = ?, term = term + 1 WHERE one = 1 AND term = ?`, s.id, term)
		return err
	})
	if err != nil || n == 0 {
		return err
	}
	s.mu.Lock()
	s.holder, s.term, s.renewed = s.id, term+1, max(s.renewed, began)
	s.mu.Unlock()
	s.cfg.Log.InfoContext(ctx, "this control plane leads", "replica", s.id, "term", term+1)
	return nil
}

func (s *Service) forget(ctx context.Context, ids []string) error {
	return s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		for _, id := range ids {
			if _, err := tx.Exec(ctx, `DELETE FROM replicas WHERE id = ?`, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// leave takes this replica off the list.
func (s *Service) leave(ctx context.Context) error {
	s.mu.Lock()
	s.holder, s.shown = "", false
	s.mu.Unlock()
	return s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE replica_lead SET holder = '', term = term + 1 WHERE one = 1 AND holder = ?`, s.id); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DELETE FROM replicas WHERE id = ?`, s.id)
		return err
	})
}

func (s *Service) aliveLocked(id string, now time.Duration) bool {
	o := s.others[id]
	return o != nil && now-o.moved <= s.cfg.TTL
}

// Alive reports whether a replica has lately shown a sign of life.
func (s *Service) Alive(id string) bool {
	if s.alone {
		return id == s.id
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.aliveLocked(id, s.cfg.Elapsed())
}

// Known reports whether there is or lately was such a replica, in the store.
func (s *Service) Known(ctx context.Context, id string) (bool, error) {
	var n int64
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		return tx.QueryRow(ctx, `SELECT COUNT(*) FROM replicas WHERE id = ?`, id).Scan(&n)
	})
	return n > 0, err
}

// Address returns where a replica is dialled; empty: it is not known.
func (s *Service) Address(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.others[id]; o != nil {
		return o.Address
	}
	return ""
}

// Lost reports whether this replica could not show that it lives for TTL.
func (s *Service) Lost() bool {
	if s.alone {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown && s.cfg.Elapsed()-s.renewed > s.cfg.TTL
}

// Leads reports whether this replica leads. It gives up its belief a quarter of TTL
// before another may take over.
func (s *Service) Leads() bool {
	if s.alone {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holder == s.id && s.cfg.Elapsed()-s.renewed < s.cfg.TTL*3/4
}

// List returns all replicas that are known, the oldest first.
func (s *Service) List() []Replica {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alone {
		return []Replica{{ID: s.id, Address: s.cfg.Address, Build: s.cfg.Build, Alive: true, Leads: true}}
	}
	now := s.cfg.Elapsed()
	var list []Replica
	for _, o := range s.others {
		r := o.Replica
		r.Alive = s.aliveLocked(r.ID, now)
		r.Leads = r.ID == s.holder && r.Alive
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b Replica) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// Leading wraps work that one replica does for all: it runs while this one leads,
// is cancelled when it does not, and is begun again when it does.
func (s *Service) Leading(run func(context.Context) error) func(context.Context) error {
	if s.alone {
		return run
	}
	return func(ctx context.Context) error {
		tick := time.NewTicker(s.cfg.Every / 2)
		defer tick.Stop()
		for {
			if s.Leads() {
				if err := s.whileLeading(ctx, run); err != nil {
					return err
				}
			}
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	}
}

func (s *Service) whileLeading(ctx context.Context, run func(context.Context) error) error {
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- run(work) }()
	tick := time.NewTicker(s.cfg.Every / 4)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-tick.C:
		}
		if !s.Leads() {
			cancel()
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		}
	}
}

// Running returns the address of a control plane that runs on a database, or nothing:
// it watches for a few seconds whether one of them shows a sign of life.
func Running(ctx context.Context, db *store.DB) (string, error) {
	beats := func() (map[string]int64, map[string]string, error) {
		beat, address := map[string]int64{}, map[string]string{}
		err := db.View(ctx, func(ctx context.Context, tx *store.Tx) error {
			var there int64
			if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = 'replicas'`).Scan(&there); err != nil || there == 0 {
				return err
			}
			rows, err := tx.Query(ctx, `SELECT id, address, beat FROM replicas`)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var id, at string
				var n int64
				if err := rows.Scan(&id, &at, &n); err != nil {
					return err
				}
				beat[id], address[id] = n, at
			}
			return rows.Err()
		})
		return beat, address, err
	}
	first, _, err := beats()
	if err != nil || len(first) == 0 {
		return "", err
	}
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-time.After(3500 * time.Millisecond):
	}
	then, address, err := beats()
	if err != nil {
		return "", err
	}
	for id, n := range then {
		if n != first[id] {
			return address[id], nil
		}
	}
	return "", nil
}

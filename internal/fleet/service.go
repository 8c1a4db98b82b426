package fleet

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/catalog"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/pricing/auction"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

//go:embed migrations
var migrations embed.FS

// Config is what a Service needs. DB and Catalog are required.
type Config struct {
	DB      *store.DB
	Catalog *catalog.Catalog
	// Clock tells the time of day; nil: time.Now. It dates things and never
	// decides whether a host is alive.
	Clock func() time.Time
	// Elapsed is a clock that only goes forward and does not follow the time of
	// day; it judges liveness. Nil: the process's monotonic clock. A test with a
	// Clock of its own sets both.
	Elapsed func() time.Duration
	// AllowSimulated lets hosts with simulated GPUs join and be offered.
	AllowSimulated bool
	// OperatorsHost lets nobody but operators make join tokens for hosts. Hosts
	// that have joined before stay.
	OperatorsHost bool
	Defaults      Defaults
	// HeartbeatSeconds is how often hosts report; 0: 10.
	HeartbeatSeconds int
	// TokenSuffix is appended to join tokens after a dot; it is the fingerprint
	// of the cloud's authority, by which a joining host knows the cloud.
	TokenSuffix string

	// OnReport is given each accepted report of a host, after the fleet has
	// taken from it what is its own, and returns the leases' part of the reply.
	// Reports of one host are given one at a time.
	OnReport func(ctx context.Context, hostID string, r protocol.Report, receivedAt time.Time) (desired []protocol.Desired, complete bool, ackedPast int64, err error)
	// OnSilent is told once when a host has missed three heartbeats. It is told
	// again after an error.
	OnSilent func(ctx context.Context, hostID string, lastSeen time.Time) error
	// OnGPUFault is told when a GPU that a lease has is lost or fenced.
	OnGPUFault func(ctx context.Context, f GPUFault)
	// SpotHolds returns what the leases of the spot market on a host pay, by lease;
	// those that leave already may be left out. It decides which of them a lease on
	// demand takes GPUs from.
	SpotHolds func(ctx context.Context, tx *store.Tx, hostID string) (map[string]SpotHold, error)
	// SpotNotice is how long before they leave they are told so; 0: two minutes.
	SpotNotice time.Duration

	// Replicas are the control planes of this cloud; nil: this is the only one.
	Replicas Replicas
	// OnChange is told of hosts whose record changed here, for other replicas.
	OnChange func(hostID string)

	// OnGatewayRemoved is told that a gateway elsewhere is no longer welcome.
	OnGatewayRemoved func(gatewayID string)
	// Audit records a write within its transaction.
	Audit func(ctx context.Context, tx *store.Tx, p account.Principal, action, subject string, detail any) error

	Log *slog.Logger
}

// GPUFault is a fault of a GPU that a lease has.
type GPUFault struct {
	HostID, UUID, LeaseID string
	Reason                string
}

// Defaults are the operator's terms for hosts whose provider sets none.
type Defaults struct {
	Currency money.Currency // empty: USD
	// PerGPUHour is the price of each GPU model per GPU-hour; OtherGPU is for
	// models that are not in it.
	PerGPUHour map[string]money.Rate
	OtherGPU   money.Rate
	// PerCPUHour is the price per CPU-hour on hosts without GPUs.
	PerCPUHour money.Rate
	// StoragePerGiBMonth is charged as long as a disk is kept, stopped or not.
	StoragePerGiBMonth money.Rate
	EgressPerGB        money.Rate // per 10⁹ bytes
	Granularity        string     // "second", "minute", "hour"; empty: "second"
	MinimumSeconds     int64      // charged at least, once a lease ran
	// CommissionBasisPoints is the platform's part of a charge, in 1/100 %.
	CommissionBasisPoints int64
	// ReserveBounds are what hosts may take off for reservations; the zero value:
	// none are offered.
	ReserveBounds pricing.Bounds
	Region, Zone  string // of hosts whose join token names none; empty: "local", "local-1"
}

// Service is the fleet. Call Migrate and Load before anything else.
type Service struct {
	cfg     Config
	log     *slog.Logger
	clock   func() time.Time
	elapsed func() time.Duration
	beat    time.Duration
	index   *index
	holding sync.Map // hosts on which something is held

	mu    sync.RWMutex
	hosts map[string]*host
	keys  map[string]string // bus key → host id
	watch watch
}

// host is one host's place in memory.
type host struct {
	reporting sync.Mutex // one report at a time
	loading   sync.Mutex // one reading of the record at a time
	record    *record    // replaced whole, under Service.mu
	live      live       // under Service.mu
}

// New checks the configuration and returns a service that has not yet read
// anything.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Catalog == nil {
		return nil, errors.New("fleet: a store and a catalog are required")
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
	if cfg.SpotNotice == 0 {
		cfg.SpotNotice = auction.Standard().Notice
	}
	if cfg.HeartbeatSeconds == 0 {
		cfg.HeartbeatSeconds = 10
	}
	if cfg.HeartbeatSeconds < 1 || cfg.HeartbeatSeconds > 600 {
		return nil, fmt.Errorf("fleet: heartbeat every %d seconds; want 1 to 600", cfg.HeartbeatSeconds)
	}
	if err := cfg.Defaults.fill(cfg.Catalog); err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	s := &Service{
		cfg: cfg, log: cfg.Log, clock: cfg.Clock, elapsed: cfg.Elapsed,
		beat:  time.Duration(cfg.HeartbeatSeconds) * time.Second,
		hosts: map[string]*host{}, keys: map[string]string{}, index: newIndex(),
	}
	s.watch.lastTick = s.elapsed()
	return s, nil
}

func (d *Defaults) fill(c *catalog.Catalog) error {
	if d.Currency == "" {
		d.Currency = money.USD
	}
	if !d.Currency.Valid() {
		return fmt.Errorf("currency %q: want USD or CNY", d.Currency)
	}
	if d.Granularity == "" {
		d.Granularity = "second"
	}
	if d.Granularity != "second" && d.Granularity != "minute" && d.Granularity != "hour" {
		return fmt.Errorf("granularity %q: want second, minute or hour", d.Granularity)
	}
	if d.MinimumSeconds < 0 || d.MinimumSeconds > 30*24*3600 {
		return fmt.Errorf("minimum charge of %d seconds: want 0 to 30 days", d.MinimumSeconds)
	}
	if d.CommissionBasisPoints < 0 || d.CommissionBasisPoints > 10_000 {
		return fmt.Errorf("commission of %d basis points: want 0 to 10000", d.CommissionBasisPoints)
	}
	rates := []money.Rate{d.OtherGPU, d.PerCPUHour, d.StoragePerGiBMonth, d.EgressPerGB}
	for model, r := range d.PerGPUHour {
		if _, ok := c.Model(model); !ok {
			return fmt.Errorf("default price of %q: the catalog has no such GPU model", model)
		}
		rates = append(rates, r)
	}
	for _, r := range rates {
		if err := checkRate(r); err != nil {
			return fmt.Errorf("default prices: %w", err)
		}
	}
	if d.Region == "" {
		d.Region, d.Zone = "local", "local-1"
	}
	if !c.HasZone(d.Region, d.Zone) {
		return fmt.Errorf("default region %q, zone %q: not in the catalog", d.Region, d.Zone)
	}
	return nil
}

// MaxRate is the highest price of anything an hour: far above any of hardware, and
// low enough that a bundle's price for a year cannot overflow.
const MaxRate = money.Rate(100_000) * 1_000_000_000

func checkRate(r money.Rate) error {
	if r < 0 || r > MaxRate {
		return fmt.Errorf("price %s: want 0 to %s", r.Display(), MaxRate.Display())
	}
	return nil
}

// StandardDefaults returns terms to start with: list prices in the range of
// public GPU clouds, billed by the second from the first minute on. An operator
// replaces them.
func StandardDefaults() Defaults {
	rate := func(cents int64) money.Rate { return money.Rate(cents * 10_000_000) }
	return Defaults{
		Currency: money.USD,
		PerGPUHour: map[string]money.Rate{
			"B200": rate(499), "H200 SXM": rate(349), "H100 SXM": rate(249), "H100 PCIe": rate(199), "H100 NVL": rate(219),
			"GH200 96GB": rate(199), "A100 SXM 80GB": rate(129), "A100 PCIe 80GB": rate(119), "A100 SXM 40GB": rate(99),
			"A100 PCIe 40GB": rate(95), "L40S": rate(79), "L40": rate(69), "L4": rate(39), "A40": rate(39), "A10": rate(35),
			"RTX 6000 Ada": rate(74), "RTX A6000": rate(49), "RTX 5090": rate(65), "RTX 4090": rate(39), "RTX 3090": rate(22),
			"V100 SXM2 16GB": rate(19), "V100 SXM2 32GB": rate(24), "T4": rate(15), "MI300X": rate(199),
		},
		OtherGPU: rate(25), PerCPUHour: rate(1), StoragePerGiBMonth: rate(10), EgressPerGB: rate(1),
		Granularity: "second", MinimumSeconds: 60, CommissionBasisPoints: 1000,
	}
}

// Migrate brings the fleet's tables up to date.
func (s *Service) Migrate(ctx context.Context) error {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return s.cfg.DB.Migrate(ctx, "fleet", sub)
}

// Load reads all hosts. They count as awaited until they report or a few
// heartbeats have passed.
func (s *Service) Load(ctx context.Context) error {
	records, err := s.readAll(ctx)
	if err != nil {
		return fmt.Errorf("load hosts: %w", err)
	}
	s.mu.Lock()
	now := s.elapsed()
	for _, r := range records {
		h := &host{record: r}
		h.live.awaited = !r.LastSeen.IsZero()
		h.live.lastSeen = r.LastSeen
		h.live.seen = now
		h.live.since = now
		s.hosts[r.ID] = h
		s.keys[r.BusKey] = r.ID
	}
	s.mu.Unlock()
	if err := s.mirror(ctx); err != nil {
		return fmt.Errorf("load hosts: %w", err)
	}
	for _, r := range records {
		s.publish(r.ID)
	}
	s.index.compact()
	s.keepAllListed(ctx)
	return nil
}

// Refresh reads one host again and brings the index up to date. Whoever changes
// a reservation calls it after the commit. A failure is logged: the index may
// then be late, which reserving finds out.
func (s *Service) Refresh(ctx context.Context, hostID string) {
	if err := s.reload(ctx, hostID); err != nil {
		s.log.ErrorContext(ctx, "reading a host again failed", "host_id", hostID, "error", err)
	}
}

func (s *Service) reload(ctx context.Context, hostID string) error {
	if err := s.reread(ctx, hostID); err != nil {
		return err
	}
	if s.cfg.OnChange != nil {
		s.cfg.OnChange(hostID)
	}
	return nil
}

// reread is reload without telling other replicas.
func (s *Service) reread(ctx context.Context, hostID string) error {
	h := s.host(hostID)
	if h == nil {
		// Another replica enrolled it.
		r, err := s.readOne(ctx, hostID)
		if err != nil || r == nil {
			return err
		}
		s.add(r)
		s.publish(hostID)
		s.noteListed(ctx, nil, r)
		return nil
	}
	h.loading.Lock()
	defer h.loading.Unlock()
	r, err := s.readOne(ctx, hostID)
	if err != nil {
		return err
	}
	s.mu.Lock()
	old := h.record
	if r == nil {
		delete(s.keys, h.record.BusKey)
		delete(s.hosts, hostID)
	} else {
		h.record = r
		s.keys[r.BusKey] = r.ID
	}
	s.mu.Unlock()
	s.publish(hostID)
	s.noteListed(ctx, old, r)
	return nil
}

func (s *Service) add(r *record) *host {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.hosts[r.ID]; h != nil {
		h.record = r
		return h
	}
	h := &host{record: r}
	h.live.since = s.elapsed()
	s.hosts[r.ID] = h
	s.keys[r.BusKey] = r.ID
	return h
}

func (s *Service) host(id string) *host {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.hosts[id]
}

// record is what was last read of a host, or nil.
func (s *Service) record(id string) *record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if h := s.hosts[id]; h != nil {
		return h.record
	}
	return nil
}

// BusKey returns the public key by which a host proves itself on the bus.
func (s *Service) BusKey(ctx context.Context, hostID string) (string, bool) {
	if s.cfg.Replicas != nil && s.host(hostID) == nil {
		s.Hear(ctx, hostID) // it may have joined by another replica a moment ago
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	h := s.hosts[hostID]
	if h == nil {
		return "", false
	}
	return h.record.BusKey, true
}

// Run watches over the hosts until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(max(s.beat/2, 100*time.Millisecond))
	defer tick.Stop()
	keep := time.NewTicker(10 * time.Minute)
	defer keep.Stop()
	catchUp := time.NewTicker(catchUpEvery)
	defer catchUp.Stop()
	look := time.NewTicker(time.Second)
	defer look.Stop()
	if s.cfg.Replicas == nil {
		catchUp.Stop()
		look.Stop()
	}
	for {
		select {
		case <-ctx.Done():
			// What is known of the hosts' lives is kept for the next start; the
			// parent context has ended, so this has its own short time.
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			s.keepLives(last)
			return nil
		case <-tick.C:
			s.Silent(ctx)
			s.index.compactIfLarge()
		case <-look.C:
			if err := s.mirror(ctx); err != nil && ctx.Err() == nil {
				s.log.WarnContext(ctx, "see which replica has which host", "error", err)
			}
		case <-catchUp.C:
			if err := s.catchUp(ctx); err != nil && ctx.Err() == nil {
				s.log.WarnContext(ctx, "catch up with other replicas", "error", err)
			}
		case <-keep.C:
			s.keepLives(ctx)
			s.keepAllListed(ctx)
			s.republish()
		}
	}
}

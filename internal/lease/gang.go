package lease

import (
	"context"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

// A gang is leases that start together or not at all. All of them are accepted in
// one transaction, and none of them costs anything before GangComplete, which is when
// all of them run.

// Gangs is what lease needs of whoever makes gangs.
type Gangs interface {
	// Peers returns the other nodes of a lease's gang, as its host shall reach them.
	Peers(gangID, leaseID string) []protocol.Peer
	// Overlay is told what a host says of a lease's private network; nil: nothing.
	Overlay(ctx context.Context, gangID, leaseID string, o *protocol.Overlay)
}

// Mate is one lease of a gang that shall be accepted.
type Mate struct {
	Request QuoteRequest // of the plan on demand
	Create  Create       // its QuoteID is not used
	Cluster *protocol.Cluster
}

// Gang is leases that are about to be accepted.
type Gang struct {
	s       *Service
	by      account.Principal
	id      string
	mates   []Mate
	quotes  []*Quote
	quota   account.Quota
	leases  []*Lease
	changes []Change
}

// PrepareGang prices the leases of a gang for the caller's account. Nothing is
// written. timeZone is the account's, in which months are counted.
func (s *Service) PrepareGang(ctx context.Context, p account.Principal, gangID string, mates []Mate, timeZone string) (*Gang, error) {
	g := &Gang{s: s, by: p, id: gangID}
	var err error
	if g.quota, err = s.Tenants.Quota(ctx, p.AccountID); err != nil {
		return nil, err
	}
	now := s.Clock()
	for _, m := range mates {
		if err := m.Create.validate(now); err != nil {
			return nil, err
		}
		m.Request.Plan = pricing.OnDemand
		offer, err := s.priceable(ctx, p.AccountID, &m.Request, timeZone)
		if err != nil {
			return nil, err
		}
		price, err := s.onDemand(ctx, p.AccountID, m.Request, offer, timeZone, now)
		if err != nil {
			return nil, err
		}
		g.mates = append(g.mates, m)
		g.quotes = append(g.quotes, &Quote{ID: ident.New(ident.Quote), AccountID: p.AccountID, Offer: offer, Request: m.Request, Price: price, CreatedAt: now, ValidUntil: now})
	}
	return g, nil
}

// Quotes returns what each lease of the gang costs, in the order of its mates.
func (g *Gang) Quotes() []*Quote { return g.quotes }

// Accept writes all leases of the gang: quotes, GPUs, holds and leases, or nothing.
func (g *Gang) Accept(ctx context.Context, tx *store.Tx) ([]*Lease, error) {
	g.leases, g.changes = nil, nil // a transaction may be tried again
	now := g.s.Clock()
	for i, m := range g.mates {
		if err := insertQuote(ctx, tx, g.quotes[i]); err != nil {
			return nil, err
		}
		c := m.Create
		c.QuoteID, c.gangID, c.cluster = g.quotes[i].ID, g.id, m.Cluster
		l, change, err := g.s.take(ctx, tx, g.by, g.quotes[i], c, g.quota, now)
		if err != nil {
			return nil, err
		}
		g.leases, g.changes = append(g.leases, l), append(g.changes, change)
	}
	return g.leases, nil
}

// Announce is to be called after the commit.
func (g *Gang) Announce(ctx context.Context) {
	for i, l := range g.leases {
		g.s.accepted(ctx, l, g.changes[i])
	}
}

// CompleteGang begins what leases of a gang cost, all at the same moment. It is a
// Conflict "lease_state" if one of them does not run. What is returned is to be called
// after the commit.
func (s *Service) CompleteGang(ctx context.Context, tx *store.Tx, leaseIDs []string, at time.Time) (func(context.Context), error) {
	var done []*moving
	for _, id := range leaseIDs {
		m := &moving{step: step{event: GangComplete, at: at, message: "all nodes of its cluster run"}}
		if err := s.apply(ctx, tx, id, m); err != nil {
			return nil, err
		}
		done = append(done, m)
	}
	return func(ctx context.Context) {
		for _, m := range done {
			s.moved(ctx, m)
		}
	}, nil
}

// EndOfGang ends a lease of a gang for a reason that its renter is told. One that is
// on its way to its end already, or over, stays so. What is returned is to be called
// after the commit; nil: nothing changed.
func (s *Service) EndOfGang(ctx context.Context, tx *store.Tx, leaseID, code, message string, by account.Principal) (func(context.Context), error) {
	after, err := s.spotStep(ctx, tx, leaseID, step{event: RequestEnd, code: code, message: message, by: by})
	if f, ok := fault.As(err); ok && f.Code == "lease_state" {
		return nil, nil
	}
	return after, err
}

// OfGang returns the leases of a gang in tx, by identifier, those that are over among
// them.
func (s *Service) OfGang(ctx context.Context, tx *store.Tx, gangID string) (map[string]*Lease, error) {
	list, err := selectLeases(ctx, tx, `gang_id<>'' AND gang_id=?`, gangID)
	out := map[string]*Lease{}
	for _, l := range list {
		out[l.ID] = l
	}
	return out, err
}

// GPUPercent returns how busy the GPUs of a lease's instance were when its host was
// last heard: their mean, in percent. Not known: it does not run, or was not heard.
func (s *Service) GPUPercent(leaseID string) (percent int, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.live[leaseID]
	if t == nil || t.status == nil || t.status.Phase != protocol.PhaseRunning {
		return 0, false
	}
	return t.status.GPUPercent, true
}

// CheckGang reports what is wrong with what the nodes of a gang shall run, before
// hosts are looked for, and fills in what its template says.
func (s *Service) CheckGang(r *QuoteRequest, c *Create) error {
	if err := c.validate(s.Clock()); err != nil {
		return err
	}
	t, err := s.template(r)
	if err != nil {
		return err
	}
	if r.DiskGiB == 0 {
		r.DiskGiB = max(t.DiskGiB, defaultDiskGiB)
	}
	return nil
}

// Seal returns a text as it may be stored, since it may hold secrets.
func (s *Service) Seal(plain []byte) (string, error) { return s.seal(plain) }

// Unseal is the other way of Seal.
func (s *Service) Unseal(text string) ([]byte, error) { return s.unseal(text) }

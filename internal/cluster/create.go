package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/money"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

// Bounds of what a cluster can be.
const (
	maxNodes           = 64
	defaultStartWithin = 10 * time.Minute
	shortestStart      = time.Minute
	longestStart       = time.Hour
	longestWait        = 7 * 24 * time.Hour
	// avoidFor is how long a host is not chosen again that has failed a cluster.
	avoidFor = 15 * time.Minute
)

// masterPort is where ranks meet on node 0. Each cluster has a network of its own, so
// all have the same.
const masterPort = 29500

// Request is what somebody wants.
type Request struct {
	Nodes     int
	GPUs      int // of each node
	GPUModel  string
	Fast      bool // see Wish
	Simulated bool
	Region    string // empty: any
	Zone      string // empty: any
	Run       lease.QuoteRequest
}

// Quote is what a cluster costs. Nothing of it is frozen: who creates it names the price
// that was agreed to.
type Quote struct {
	Request  Request
	Nodes    []*lease.Quote // by rank
	Hosts    []Host         // by rank
	Currency money.Currency
	PerHour  money.Amount // everything while all nodes run, without egress
	QuotedAt time.Time
}

// Create is the acceptance of a price.
type Create struct {
	Request
	Name        string        // of the cluster, a host name; empty: made up
	Policy      Policy        // empty: fail
	Agreed      money.Amount  // per hour: more is refused
	StartWithin time.Duration // 0: 10 minutes
	WaitFor     time.Duration // how long hosts are looked for again; 0: once
	Lease       lease.Create  // what all nodes run
}

func invalid(field, format string, args ...any) error {
	return fault.New(fault.Invalid, "invalid_cluster", format, args...).At(field)
}

func (r *Request) validate() error {
	switch {
	case r.Nodes < 2 || r.Nodes > maxNodes:
		return invalid("body.nodes", "a cluster of %d nodes was asked for; want 2 to %d, or rent a single lease", r.Nodes, maxNodes)
	case r.GPUs < 1:
		return invalid("body.gpus_per_node", "gpus_per_node is %d; want 1 or more", r.GPUs)
	case strings.TrimSpace(r.GPUModel) == "":
		return invalid("body.gpu_model", "gpu_model is empty; want a model such as H100")
	}
	return nil
}

var namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,46}[a-z0-9])?$`)

func (c *Create) validate() error {
	if err := c.Request.validate(); err != nil {
		return err
	}
	if c.Policy == "" {
		c.Policy = PolicyFail
	}
	if c.StartWithin == 0 {
		c.StartWithin = defaultStartWithin
	}
	switch {
	case c.Name != "" && !namePattern.MatchString(c.Name):
		return invalid("body.name", "the name %q was given; want 1 to 48 of a-z, 0-9 and -, as host names have", c.Name)
	case c.Policy != PolicyFail && c.Policy != PolicyRestart && c.Policy != PolicyReplace:
		return invalid("body.policy", "the policy is %q; want fail, restart or replace", c.Policy)
	case c.StartWithin < shortestStart || c.StartWithin > longestStart:
		return invalid("body.start_within_seconds", "nodes shall start within %s; want %s to %s", c.StartWithin, shortestStart, longestStart)
	case c.WaitFor < 0 || c.WaitFor > longestWait:
		return invalid("body.wait_seconds", "hosts shall be looked for for %s; want 0 to %s", c.WaitFor, longestWait)
	}
	return nil
}

// Quote prices a whole cluster for the caller's account.
func (s *Service) Quote(ctx context.Context, p account.Principal, r Request) (*Quote, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	if err := s.Leases.CheckGang(&r.Run, &lease.Create{}); err != nil {
		return nil, err
	}
	currency, zone, err := s.Account(ctx, p.AccountID)
	if err != nil {
		return nil, err
	}
	hosts, gang, err := s.plan(ctx, p, "", "cluster", r, lease.Create{}, Wish{Nodes: r.Nodes, Fast: r.Fast}, 0, zone, currency)
	if err != nil {
		return nil, err
	}
	q := &Quote{Request: r, Nodes: gang.Quotes(), Hosts: hosts, Currency: currency, QuotedAt: s.Clock().UTC().Truncate(time.Microsecond)}
	q.PerHour, err = perHour(gang)
	return q, err
}

func perHour(g *lease.Gang) (total money.Amount, err error) {
	for _, q := range g.Quotes() {
		if total, err = total.Add(q.Price.Totals.PerHour); err != nil {
			return 0, err
		}
	}
	return total, nil
}

// plan chooses hosts for nodes from a rank on, and prices their leases. Nothing is
// written.
func (s *Service) plan(ctx context.Context, p account.Principal, id, name string, r Request, c lease.Create, w Wish, from int, timeZone string, currency money.Currency) ([]Host, *lease.Gang, error) {
	offered, err := s.offered(ctx, p, r, timeZone, currency)
	if err != nil {
		return nil, nil, err
	}
	hosts, err := Choose(offered, w)
	if err != nil {
		return nil, nil, fault.New(fault.Conflict, "cluster_no_hosts", "%d × %d × %s: %w; ask for fewer nodes or GPUs, for other places, or wait with wait_seconds", r.Nodes, r.GPUs, r.GPUModel, err)
	}
	mates := make([]lease.Mate, len(hosts))
	for i, h := range hosts {
		q, create := r.Run, c
		q.OfferID = h.OfferID
		rank := from + i
		create.Name = fmt.Sprintf("%s-%d", name, rank)
		if create.Idle == nil {
			// A rank that waits for the others is not idle to its renter.
			create.Idle = &lease.IdleStop{}
		}
		mates[i] = lease.Mate{Request: q, Create: create, Cluster: place(id, name, r, rank)}
	}
	gang, err := s.Leases.PrepareGang(ctx, p, id, mates, timeZone)
	return hosts, gang, err
}

// place is what a node is told of its cluster.
func place(id, name string, r Request, rank int) *protocol.Cluster {
	c := &protocol.Cluster{ID: id, Name: name, Rank: rank, GPUsPerNode: r.GPUs, MasterPort: masterPort}
	for i := range r.Nodes {
		c.Nodes = append(c.Nodes, protocol.ClusterNode{Name: NodeName(i), Address: Address(i)})
	}
	return c
}

// NodeName is a node's name in its cluster's private network.
func NodeName(rank int) string { return "node-" + strconv.Itoa(rank) }

// Address is a node's address in its cluster's private network. Networks of clusters
// never meet, so all have the same addresses.
func Address(rank int) netip.Addr { return netip.AddrFrom4([4]byte{10, 219, 0, byte(rank + 1)}) }

// offered returns all hosts that have room for a node now, in the account's currency.
func (s *Service) offered(ctx context.Context, p account.Principal, r Request, timeZone string, currency money.Currency) ([]Host, error) {
	where := fmt.Sprintf(`gpu_model = %s and gpu_count = %d and simulated = %t`, quoted(r.GPUModel), r.GPUs, r.Simulated)
	if r.Zone != "" {
		where += " and zone = " + quoted(r.Zone)
	}
	if r.Region != "" {
		where += " and region = " + quoted(r.Region)
	}
	var out []Host
	for cursor := ""; ; {
		list, next, err := s.Capacity.Search(ctx, fleet.Query{Expression: where, Sort: "compute_price_per_hour", Limit: 500, Cursor: cursor, DiskGiB: r.Run.DiskGiB, AccountID: p.AccountID, TimeZone: timeZone})
		if err != nil {
			return nil, err
		}
		for _, o := range list {
			if o.Price.Currency == currency {
				out = append(out, Host{OfferID: o.ID, ID: o.HostID, Region: o.Region, Zone: o.Zone, Rack: o.Rack, Rate: o.Price.Compute, Waits: o.AvailableAfterSeconds > 0, NetMbps: min(o.NetUpMbps, o.NetDownMbps)})
			}
		}
		if cursor = next; next == "" {
			return out, nil
		}
	}
}

func quoted(s string) string { return `"` + strings.ReplaceAll(s, `"`, "") + `"` }

// wish is what of a request has to be kept to look for hosts again, secrets included.
type wish struct {
	Request Request      `json:"request"`
	Lease   lease.Create `json:"lease"`
}

// Create makes a cluster: in one transaction all of its leases are accepted and it is
// written, or nothing is. With WaitFor it is queued if there are no hosts now.
func (s *Service) Create(ctx context.Context, p account.Principal, c Create) (*Cluster, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	if err := s.Leases.CheckGang(&c.Run, &c.Lease); err != nil {
		return nil, err
	}
	currency, zone, err := s.Account(ctx, p.AccountID)
	if err != nil {
		return nil, err
	}
	id := ident.New(ident.Cluster)
	if c.Name == "" {
		c.Name = "cluster-" + id[len(id)-6:]
	}
	plain, err := json.Marshal(wish{c.Request, c.Lease})
	if err != nil {
		return nil, err
	}
	sealed, err := s.Leases.Seal(plain)
	if err != nil {
		return nil, err
	}
	now := s.Clock().UTC().Truncate(time.Microsecond)
	k := &Cluster{
		ID: id, AccountID: p.AccountID, UserID: p.UserID, Name: c.Name, Nodes: c.Nodes, GPUs: c.GPUs, GPUModel: c.GPUModel, Fast: c.Fast, Simulated: c.Simulated,
		Region: c.Region, Zone: c.Zone, Policy: c.Policy, TimeZone: zone, Currency: currency, Agreed: c.Agreed, State: Queued, StartWithin: c.StartWithin,
		Since: now, CreatedAt: now, wish: sealed,
	}
	if c.WaitFor > 0 {
		k.WaitUntil = now.Add(c.WaitFor)
	}
	begin := func(ctx context.Context, tx *store.Tx) error {
		if err := unusedName(ctx, tx, k); err != nil {
			return err
		}
		if err := insert(ctx, tx, k); err != nil {
			return err
		}
		return s.Audit(ctx, tx, p, "cluster.create", id, map[string]any{"nodes": k.Nodes, "gpus_per_node": k.GPUs, "gpu_model": k.GPUModel, "agreed_per_hour": k.Agreed.String()})
	}
	err = s.tryPlace(ctx, p, k, begin)
	if f, ok := fault.As(err); ok && waitable(f) && c.WaitFor > 0 {
		k.State, k.Code, k.Message, k.Members, k.PerHour, k.StartBy = Queued, f.Code, err.Error(), nil, 0, time.Time{}
		err = s.DB.Update(ctx, begin)
	}
	if err != nil {
		return nil, err
	}
	return k, nil
}

// waitable reports whether time may cure what kept a cluster from its hosts.
func waitable(f *fault.Error) bool {
	switch f.Code {
	case "cluster_no_hosts", "price_moved", "offer_taken", "offer_gone", "host_offline":
		return true
	}
	return false
}

func unusedName(ctx context.Context, tx *store.Tx, c *Cluster) error {
	var n int
	if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM cluster WHERE account_id = ? AND name = ? AND ended_at = 0`, c.AccountID, c.Name).Scan(&n); err != nil {
		return fmt.Errorf("read clusters: %w", err)
	}
	if n > 0 {
		return fault.New(fault.Conflict, "cluster_name_taken", "there is a cluster named %q already; end it, or take another name", c.Name)
	}
	return nil
}

// tryPlace looks for hosts and accepts all leases of a cluster that is queued, after
// what begin does in the same transaction.
func (s *Service) tryPlace(ctx context.Context, p account.Principal, k *Cluster, begin func(context.Context, *store.Tx) error) error {
	w, err := s.openWish(k)
	if err != nil {
		return err
	}
	now := s.Clock().UTC().Truncate(time.Microsecond)
	hosts, gang, err := s.plan(ctx, p, k.ID, k.Name, w.Request, w.Lease, Wish{Nodes: k.Nodes, Fast: k.Fast, Avoid: k.avoided(now)}, 0, k.TimeZone, k.Currency)
	if err != nil {
		return err
	}
	cost, err := perHour(gang)
	if err != nil {
		return err
	}
	if cost > k.Agreed {
		return fault.New(fault.Conflict, "price_moved", "an hour of the cluster costs %s %s by now, and %s was agreed to; look at it again", cost.Display(), k.Currency, k.Agreed.Display())
	}
	fresh := *k
	err = s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		*k = fresh
		if begin != nil {
			if err := begin(ctx, tx); err != nil {
				return err
			}
		} else if now, err := lock(ctx, tx, k.ID); err != nil {
			return err
		} else if now.State != Queued {
			return errOvertaken
		}
		leases, err := gang.Accept(ctx, tx)
		if err != nil {
			return err
		}
		k.Members = nil
		for i, l := range leases {
			n := Node{Rank: i, LeaseID: l.ID, HostID: hosts[i].ID, Region: hosts[i].Region, Zone: hosts[i].Zone, Rack: hosts[i].Rack}
			k.Members = append(k.Members, n)
			if err := saveNode(ctx, tx, k.ID, n); err != nil {
				return err
			}
		}
		k.PerHour, k.StartBy = cost, now.Add(k.StartWithin)
		if err := k.move(ctx, tx, Place, "", "", now); err != nil {
			return err
		}
		return save(ctx, tx, k)
	})
	if err != nil {
		*k = fresh
		return err
	}
	gang.Announce(ctx)
	s.note(k)
	return nil
}

// errOvertaken means that another replica, or the renter, was first.
var errOvertaken = errors.New("the cluster was changed at the same time")

func (s *Service) openWish(k *Cluster) (wish, error) {
	var w wish
	b, err := s.Leases.Unseal(k.wish)
	if err != nil {
		return w, fmt.Errorf("cluster %s: %w", k.ID, err)
	}
	return w, json.Unmarshal(b, &w)
}

// owner is who a cluster's leases are accepted for when nobody asks at the moment.
func (c *Cluster) owner() account.Principal {
	return account.Principal{AccountID: c.AccountID, UserID: c.UserID, Role: account.Member}
}

// List returns the caller's clusters, newest first, up to limit, that come after the
// cursor; the second result is the next cursor, empty at the end.
func (s *Service) List(ctx context.Context, p account.Principal, open bool, cursor string, limit int) (out []*Cluster, next string, err error) {
	where := `account_id = ?`
	if open {
		where += ` AND ended_at = 0`
	}
	return store.Page(ctx, s.DB, where, []any{p.AccountID}, cursor, limit, query, func(x *Cluster) string { return x.ID })
}

// Get returns a cluster of the caller's, by identifier, or by name: of one that is not
// over, or else of the newest that is.
func (s *Service) Get(ctx context.Context, p account.Principal, nameOrID string) (*Cluster, error) {
	var list []*Cluster
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		list, err = query(ctx, tx, `account_id = ? AND (id = ? OR name = ?) ORDER BY CASE WHEN ended_at = 0 THEN 0 ELSE 1 END, id DESC LIMIT 1`, p.AccountID, nameOrID, nameOrID)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, notFound(nameOrID)
	}
	return list[0], nil
}

// Details is a cluster with its leases and what happened to it.
type Details struct {
	*Cluster
	Leases  map[string]*lease.Lease // of the gang, those that were lost among them
	History []Change
}

// Details returns a cluster of the caller's with its leases and its history.
func (s *Service) Details(ctx context.Context, p account.Principal, nameOrID string) (*Details, error) {
	k, err := s.Get(ctx, p, nameOrID)
	if err != nil {
		return nil, err
	}
	d := &Details{Cluster: k}
	err = s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if d.Leases, err = s.Leases.OfGang(ctx, tx, k.ID); err != nil {
			return err
		}
		d.History, err = changes(ctx, tx, k.ID)
		return err
	})
	return d, err
}

// End gives a cluster up: all of its leases end, and with them its disks. Asking twice
// is not an error.
func (s *Service) End(ctx context.Context, p account.Principal, nameOrID string) (*Cluster, error) {
	k, err := s.Get(ctx, p, nameOrID)
	if err != nil {
		return nil, err
	}
	err = s.change(ctx, k.ID, func(ctx context.Context, tx *store.Tx, c *Cluster, now time.Time) (after, error) {
		k = c
		if c.State.Over() || c.State == Ending {
			return nil, nil
		}
		if err := c.move(ctx, tx, End, "commanded", "ended by the renter", now); err != nil {
			return nil, err
		}
		done, err := s.release(ctx, tx, c, p)
		if err != nil {
			return nil, err
		}
		return done, s.Audit(ctx, tx, p, "cluster.end", c.ID, nil)
	})
	return k, err
}

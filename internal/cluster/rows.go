package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/money"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

// Policy is what happens when a node is lost, or a rank of a run fails.
type Policy string

// The policies. They differ for runs too; see Run.
const (
	PolicyFail    Policy = "fail"    // the cluster ends: no node is paid for while the others are gone
	PolicyRestart Policy = "restart" // the same, but a run whose node is not lost begins again
	PolicyReplace Policy = "replace" // only the lost node is replaced, and a run begins again
)

// Cluster is a gang of leases.
type Cluster struct {
	ID        string
	AccountID string
	UserID    string
	Name      string
	Nodes     int
	GPUs      int // of each node
	GPUModel  string
	Fast      bool
	Simulated bool
	Region    string // asked for; empty: any
	Zone      string
	Policy    Policy
	TimeZone  string
	Currency  money.Currency
	Agreed    money.Amount // the most that an hour of all nodes may cost
	PerHour   money.Amount // what it costs; 0: nothing is rented

	State       State
	Code        string
	Message     string
	StartWithin time.Duration
	StartBy     time.Time
	WaitUntil   time.Time // zero: hosts are looked for once
	Since       time.Time // of the state
	CreatedAt   time.Time
	EndedAt     time.Time

	// Members are the nodes, by rank; empty while queued.
	Members []Node

	wish  string // sealed
	avoid map[string]time.Time
}

// Node is one node of a cluster.
type Node struct {
	Rank    int
	LeaseID string // empty: it is to be replaced
	HostID  string
	Region  string
	Zone    string
	Rack    string
	Overlay *protocol.Overlay // what its host says of its network; nil: nothing yet
}

// Change is one step in the life of a cluster.
type Change struct {
	ID      string
	At      time.Time
	Event   Event
	From    State
	To      State
	Code    string
	Message string
}

const columns = `id, account_id, user_id, name, nodes, gpus, gpu_model, fast, simulated, region, zone, policy, time_zone, currency, agreed, per_hour, wish,
	state, code, message, avoid, start_within, start_by, wait_until, since_at, created_at, ended_at`

// query returns the clusters that a WHERE clause selects, with their nodes.
func query(ctx context.Context, tx *store.Tx, where string, args ...any) ([]*Cluster, error) {
	rows, err := tx.Query(ctx, `SELECT `+columns+` FROM cluster WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read clusters: %w", err)
	}
	var out []*Cluster
	err = func() error {
		defer rows.Close()
		for rows.Next() {
			var c Cluster
			var fast, simulated, agreed, perHour, within, by, wait, since, created, ended int64
			var avoid string
			if err := rows.Scan(&c.ID, &c.AccountID, &c.UserID, &c.Name, &c.Nodes, &c.GPUs, &c.GPUModel, &fast, &simulated, &c.Region, &c.Zone, &c.Policy, &c.TimeZone,
				&c.Currency, &agreed, &perHour, &c.wish, &c.State, &c.Code, &c.Message, &avoid, &within, &by, &wait, &since, &created, &ended); err != nil {
				return err
			}
			c.Fast, c.Simulated, c.Agreed, c.PerHour = fast == 1, simulated == 1, money.Amount(agreed), money.Amount(perHour)
			c.StartWithin, c.StartBy, c.WaitUntil = time.Duration(within)*time.Microsecond, store.Time(by), store.Time(wait)
			c.Since, c.CreatedAt, c.EndedAt = store.Time(since), store.Time(created), store.Time(ended)
			if err := json.Unmarshal([]byte(avoid), &c.avoid); err != nil {
				return fmt.Errorf("cluster %s: %w", c.ID, err)
			}
			out = append(out, &c)
		}
		return rows.Err()
	}()
	if err != nil {
		return nil, fmt.Errorf("read clusters: %w", err)
	}
	for _, c := range out {
		if c.Members, err = nodes(ctx, tx, c.ID); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func nodes(ctx context.Context, tx *store.Tx, clusterID string) ([]Node, error) {
	rows, err := tx.Query(ctx, `SELECT rank, lease_id, host_id, region, zone, rack, overlay FROM cluster_node WHERE cluster_id = ? ORDER BY rank`, clusterID)
	if err != nil {
		return nil, fmt.Errorf("read nodes: %w", err)
	}
	defer rows.Close()
	var out []Node
	for rows.Next() {
		var n Node
		var overlay string
		if err := rows.Scan(&n.Rank, &n.LeaseID, &n.HostID, &n.Region, &n.Zone, &n.Rack, &overlay); err != nil {
			return nil, fmt.Errorf("read nodes: %w", err)
		}
		if overlay != "" {
			n.Overlay = &protocol.Overlay{}
			if err := json.Unmarshal([]byte(overlay), n.Overlay); err != nil {
				return nil, fmt.Errorf("node %d of %s: %w", n.Rank, clusterID, err)
			}
		}
		out = append(out, n)
	}
	return out, rows.Err()
}

func saveNode(ctx context.Context, tx *store.Tx, clusterID string, n Node) error {
	_, err := tx.Exec(ctx, `INSERT INTO cluster_node (cluster_id, rank, lease_id, host_id, region, zone, rack, overlay) VALUES (?,?,?,?,?,?,?,'')
		ON CONFLICT (cluster_id, rank) DO UPDATE SET lease_id=excluded.lease_id, host_id=excluded.host_id, region=excluded.region, zone=excluded.zone, rack=excluded.rack, overlay=''`,
		clusterID, n.Rank, n.LeaseID, n.HostID, n.Region, n.Zone, n.Rack)
	if err != nil {
		return fmt.Errorf("write node: %w", err)
	}
	return nil
}

// lock reads a cluster and keeps others from changing it until the transaction's end.
func lock(ctx context.Context, tx *store.Tx, id string) (*Cluster, error) {
	list, err := query(ctx, tx, `id = ?`+tx.ForUpdate(), id)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, notFound(id)
	}
	return list[0], nil
}

func insert(ctx context.Context, tx *store.Tx, c *Cluster) error {
	_, err := tx.Exec(ctx, `INSERT INTO cluster (`+columns+`) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
		c.ID, c.AccountID, c.UserID, c.Name, c.Nodes, c.GPUs, c.GPUModel, bit(c.Fast), bit(c.Simulated), c.Region, c.Zone, string(c.Policy), c.TimeZone,
		string(c.Currency), int64(c.Agreed), int64(c.PerHour), c.wish, string(c.State), c.Code, c.Message, avoidJSON(c.avoid), c.StartWithin.Microseconds(),
		store.Micros(c.StartBy), store.Micros(c.WaitUntil), store.Micros(c.Since), store.Micros(c.CreatedAt), store.Micros(c.EndedAt))
	if err != nil {
		return fmt.Errorf("write cluster: %w", err)
	}
	return nil
}

func save(ctx context.Context, tx *store.Tx, c *Cluster) error {
	_, err := tx.Exec(ctx, `UPDATE cluster SET per_hour=?, state=?, code=?, message=?, avoid=?, start_by=?, since_at=?, ended_at=? WHERE id=?`,
		int64(c.PerHour), string(c.State), c.Code, c.Message, avoidJSON(c.avoid), store.Micros(c.StartBy), store.Micros(c.Since), store.Micros(c.EndedAt), c.ID)
	if err != nil {
		return fmt.Errorf("write cluster: %w", err)
	}
	return nil
}

// move takes a cluster to where an event leads, and notes that. The caller saves it.
func (c *Cluster) move(ctx context.Context, tx *store.Tx, e Event, code, message string, now time.Time) error {
	from := c.State
	to, ok := from.Next(e)
	if !ok {
		kind := fault.Conflict
		if from.Over() {
			kind = fault.Gone
		}
		return fault.New(kind, "cluster_state", "cluster %s is %s and has no %s now", c.Name, from, e)
	}
	c.State, c.Code, c.Message = to, code, message
	if to != from {
		c.Since = now
	}
	if to.Over() {
		c.EndedAt, c.PerHour = now, 0
	}
	_, err := tx.Exec(ctx, `INSERT INTO cluster_event (id, cluster_id, at, event, from_state, to_state, code, message) VALUES (?,?,?,?,?,?,?,?)`,
		ident.New(ident.Event), c.ID, store.Micros(now), string(e), string(from), string(to), code, message)
	if err != nil {
		return fmt.Errorf("write event of a cluster: %w", err)
	}
	return nil
}

func changes(ctx context.Context, tx *store.Tx, clusterID string) ([]Change, error) {
	rows, err := tx.Query(ctx, `SELECT id, at, event, from_state, to_state, code, message FROM cluster_event WHERE cluster_id = ? ORDER BY id`, clusterID)
	if err != nil {
		return nil, fmt.Errorf("read events of a cluster: %w", err)
	}
	defer rows.Close()
	var out []Change
	for rows.Next() {
		var c Change
		var at int64
		if err := rows.Scan(&c.ID, &at, &c.Event, &c.From, &c.To, &c.Code, &c.Message); err != nil {
			return nil, fmt.Errorf("read events of a cluster: %w", err)
		}
		c.At = store.Time(at)
		out = append(out, c)
	}
	return out, rows.Err()
}

// avoided are the hosts that are not chosen at a moment.
func (c *Cluster) avoided(now time.Time) map[string]bool {
	out := map[string]bool{}
	for id, until := range c.avoid {
		out[id] = now.Before(until)
	}
	return out
}

func (c *Cluster) shun(hostID string, now time.Time) {
	maps.DeleteFunc(c.avoid, func(_ string, until time.Time) bool { return !now.Before(until) })
	if c.avoid == nil {
		c.avoid = map[string]time.Time{}
	}
	c.avoid[hostID] = now.Add(avoidFor)
}

func avoidJSON(m map[string]time.Time) string {
	if m == nil {
		m = map[string]time.Time{}
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic("marshal of a plain value: " + err.Error())
	}
	return string(b)
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func notFound(nameOrID string) error {
	return fault.New(fault.NotFound, "cluster_not_found", "there is no cluster %q in this account; list yours to see their names", nameOrID)
}

package waiting

import (
	"context"
	"fmt"
	"strings"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/money"
	"suanli.dev/internal/notify"
	"suanli.dev/internal/placement"
	"suanli.dev/internal/store"
)

// Bounds of what can be asked for.
const (
	maxGPUs      = 64
	maxPriority  = 10
	shortestWait = time.Minute
	longestWait  = 30 * 24 * time.Hour
	longestRun   = 366 * 24 * time.Hour
)

// Request is what a renter wants to rent as soon as there is room.
type Request struct {
	ID        string
	AccountID string
	UserID    string
	Name      string // of its lease too
	GPUModel  string
	GPUs      int // on one host
	Region    string
	Zone      string
	Simulated bool
	Template  string
	Image     string
	DiskGiB   int64

	MaxPerHour money.Amount // for all of it while it runs, without egress
	Currency   money.Currency
	TimeZone   string
	// Estimate is how long it runs at most: its lease stops then. 0: not said, and then
	// it is never started ahead of one that waits for room.
	Estimate time.Duration
	Priority int // among those of its account, the larger first

	State    State
	Code     string // what it waits for, or how it ended; empty: it was not looked at yet
	Message  string // the same in a sentence
	Failures int    // how often accepting its lease has failed
	FailedAt time.Time
	LeaseID  string // empty: none

	CreatedAt time.Time
	ExpiresAt time.Time
	EndedAt   time.Time // zero: it waits

	wish string // sealed lease.Awaited
}

// Create is a new request. The fields are those of [Request].
type Create struct {
	GPUModel   string
	GPUs       int
	Region     string
	Zone       string
	Simulated  bool
	MaxPerHour money.Amount
	Estimate   time.Duration
	WaitFor    time.Duration
	Priority   int
	Run        lease.Awaited // its Create's Name is that of the request too; empty: made up
}

func invalid(field, format string, args ...any) error {
	return fault.New(fault.Invalid, "invalid_waiting_request", format, args...).At(field)
}

func (c *Create) validate() error {
	switch {
	case strings.TrimSpace(c.GPUModel) == "":
		return invalid("body.gpu_model", "gpu_model is empty; want a model such as H100")
	case c.GPUs < 1 || c.GPUs > maxGPUs:
		return invalid("body.gpus", "gpus is %d; want 1 to %d", c.GPUs, maxGPUs)
	case c.MaxPerHour <= 0:
		return invalid("body.max_per_hour", "max_per_hour is %s; want more than 0: it is what all of it may cost an hour", c.MaxPerHour.Display())
	case c.Estimate != 0 && (c.Estimate < time.Minute || c.Estimate > longestRun):
		return invalid("body.estimate_seconds", "estimate_seconds is %d; want %d to %d, or none", int64(c.Estimate/time.Second), int64(time.Minute/time.Second), int64(longestRun/time.Second))
	case c.WaitFor < shortestWait || c.WaitFor > longestWait:
		return invalid("body.wait_seconds", "wait_seconds is %d; want %d to %d", int64(c.WaitFor/time.Second), int64(shortestWait/time.Second), int64(longestWait/time.Second))
	case c.Priority < -maxPriority || c.Priority > maxPriority:
		return invalid("body.priority", "priority is %d; want %d to %d", c.Priority, -maxPriority, maxPriority)
	}
	return nil
}

// model finds how a GPU model is spelled by the hosts on the market, or else by the
// catalog.
func (s *Service) model(name string, simulated bool) (string, error) {
	for _, r := range s.Capacity.Rooms(simulated) {
		for _, g := range r.GPUs {
			if strings.EqualFold(g.Model, name) {
				return g.Model, nil
			}
		}
	}
	if m, ok := s.KnownModel(name); ok {
		return m, nil
	}
	return "", fault.New(fault.NotFound, "waiting_request_model", "no GPU model is called %q here, so nothing would ever be found; list the models to see their names", name).At("body.gpu_model")
}

// Create makes a request. It is looked at in a moment; nothing is charged or set aside
// before it has become a lease.
func (s *Service) Create(ctx context.Context, p account.Principal, c Create) (*Request, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	model, err := s.model(c.GPUModel, c.Simulated)
	if err != nil {
		return nil, err
	}
	currency, zone, err := s.Account(ctx, p.AccountID)
	if err != nil {
		return nil, err
	}
	now := s.Clock().UTC().Truncate(time.Microsecond)
	r := &Request{
		ID: ident.New(ident.WaitingRequest), AccountID: p.AccountID, UserID: p.UserID, Name: c.Run.Create.Name, GPUModel: model, GPUs: c.GPUs, Region: c.Region, Zone: c.Zone, Simulated: c.Simulated,
		MaxPerHour: c.MaxPerHour, Currency: currency, TimeZone: zone, Estimate: c.Estimate, Priority: c.Priority, State: Waiting, CreatedAt: now, ExpiresAt: now.Add(c.WaitFor),
	}
	if r.Name == "" {
		r.Name = "waiting-" + r.ID[len(r.ID)-6:]
	}
	c.Run.Create.Name = r.Name
	if err := s.Leases.CheckAwaited(&c.Run, c.GPUs, model); err != nil {
		return nil, err
	}
	r.Template, r.Image, r.DiskGiB = c.Run.Request.Template, c.Run.Request.Image, c.Run.Request.DiskGiB
	if r.wish, err = s.Leases.SealAwaited(c.Run); err != nil {
		return nil, err
	}
	err = s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		// Of two at the very same moment both may get in: it bounds work, and no money.
		var open int
		if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM waiting_request WHERE account_id = ? AND ended_at = 0`, p.AccountID).Scan(&open); err != nil {
			return fmt.Errorf("count waiting requests: %w", err)
		}
		if open >= s.MaxOpen {
			return fault.New(fault.TooMany, "quota_waiting_requests", "this account has %d requests that wait, and may have %d; cancel one first", open, s.MaxOpen)
		}
		if err := insert(ctx, tx, r); err != nil {
			return err
		}
		return s.Audit(ctx, tx, p, "waiting_request.create", r.ID, map[string]any{"gpus": r.GPUs, "gpu_model": r.GPUModel, "max_per_hour": r.MaxPerHour.String(), "wait_seconds": int64(c.WaitFor / time.Second)})
	})
	if err != nil {
		return nil, err
	}
	s.Wake()
	return r, nil
}

// List returns the caller's requests, newest first, up to limit, that come after the
// cursor; the second result is the next cursor, empty at the end. With open, those that
// wait.
func (s *Service) List(ctx context.Context, p account.Principal, open bool, cursor string, limit int) (out []*Request, next string, err error) {
	where := `account_id = ?`
	if open {
		where += ` AND ended_at = 0`
	}
	return store.Page(ctx, s.DB, where, []any{p.AccountID}, cursor, limit, query, func(x *Request) string { return x.ID })
}

// Get returns a request of the caller's, by identifier, or by name: of the one that
// waits, or else of the newest.
func (s *Service) Get(ctx context.Context, p account.Principal, nameOrID string) (*Request, error) {
	var list []*Request
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		list, err = query(ctx, tx, `account_id = ? AND (id = ? OR name = ?) ORDER BY CASE WHEN ended_at = 0 THEN 0 ELSE 1 END, id DESC LIMIT 2`, p.AccountID, nameOrID, nameOrID)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(list) == 0:
		return nil, notFound(nameOrID)
	case len(list) == 2 && list[1].State == Waiting:
		return nil, fault.New(fault.Conflict, "waiting_request_ambiguous", "several requests that wait are named %q; use the identifier", nameOrID)
	}
	return list[0], nil
}

// Details is a request with where it stands.
type Details struct {
	*Request
	// Position is how many requests for the same model, its own among them, come before
	// the next one if all get what they want and nobody else comes. 0: it does not wait.
	Position int
	// Explanation says where it would go now, or why no host holds it; nil: it does not
	// wait.
	Explanation *placement.Explanation
}

// Details returns a request of the caller's with its position and what is in its way.
func (s *Service) Details(ctx context.Context, p account.Principal, nameOrID string) (*Details, error) {
	r, err := s.Get(ctx, p, nameOrID)
	if err != nil {
		return nil, err
	}
	d := &Details{Request: r}
	if r.State != Waiting {
		return d, nil
	}
	if d.Position, err = s.position(ctx, r); err != nil {
		return nil, err
	}
	e := s.Capacity.ExplainPlacement(r.AccountID, r.placement(nil), r.Simulated)
	d.Explanation = &e
	return d, nil
}

// placement is what of a request decides where it fits, away from kinds of hosts.
func (r *Request) placement(forbid map[string]string) placement.Request {
	one := func(v string) []string {
		if v == "" {
			return nil
		}
		return []string{v}
	}
	return placement.Request{Models: one(r.GPUModel), Count: r.GPUs, DiskMiB: r.DiskGiB * 1024, Owner: r.AccountID, Regions: one(r.Region), Zones: one(r.Zone), Forbid: forbid}
}

// Cancel withdraws a request of the caller's. One that is over stays as it is; one that
// has become a lease is a Conflict, as that lease runs on.
func (s *Service) Cancel(ctx context.Context, p account.Principal, nameOrID string) (*Request, error) {
	r, err := s.Get(ctx, p, nameOrID)
	if err != nil {
		return nil, err
	}
	err = s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if r, err = lock(ctx, tx, r.ID); err != nil {
			return err
		}
		if r.State == Started {
			return fault.New(fault.Conflict, "waiting_request_state", "waiting request %s has become lease %s; end that, if it is not wanted", r.Name, r.LeaseID)
		}
		if r.State.Over() {
			return nil
		}
		if err := r.move(Cancel, "commanded", "withdrawn by the renter", s.now()); err != nil {
			return err
		}
		if err := save(ctx, tx, r); err != nil {
			return err
		}
		return s.Audit(ctx, tx, p, "waiting_request.cancel", r.ID, nil)
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (s *Service) now() time.Time { return s.Clock().UTC().Truncate(time.Microsecond) }

// tell announces what has become of a request, in the transaction in which it does.
func (s *Service) tell(ctx context.Context, tx *store.Tx, r *Request, kind string, now time.Time) error {
	if s.News == nil {
		return nil
	}
	return s.News.Announce(ctx, tx, r.AccountID, kind, r.ID, now, notify.WaitingNews{
		Name: r.Name, GPUModel: r.GPUModel, GPUs: int64(r.GPUs), LeaseID: r.LeaseID, Code: r.Code, Message: r.Message, ExpiresAt: r.ExpiresAt.UTC(), Simulated: r.Simulated,
	})
}

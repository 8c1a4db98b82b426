package reservation

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Capacity is what reservations need of fleet.
type Capacity interface {
	Search(ctx context.Context, q fleet.Query) ([]fleet.Offer, string, error)
	OfferTo(ctx context.Context, accountID, offerID string, diskGiB int64, timeZone string) (fleet.Offer, error)
	ReserveTerms(hostID, gpuModel string) (fleet.ReserveTerms, error)
	Hold(ctx context.Context, tx *store.Tx, h fleet.Holding) error
	Unhold(ctx context.Context, tx *store.Tx, id string) error
	Delivers(hostID, holdingID string) (ok, known bool, since time.Time)
	Refresh(ctx context.Context, hostID string)
}

// Money is what reservations need of billing.
type Money interface {
	BeginReserved(ctx context.Context, tx *store.Tx, t billing.ReservedTerms) error
	Deliver(ctx context.Context, tx *store.Tx, id string, at time.Time) error
	Lose(ctx context.Context, tx *store.Tx, id string, at time.Time) error
	EndReserved(ctx context.Context, tx *store.Tx, id string, blameless bool) (pricing.EarlyEnd, error)
	PreviewEarlyEnd(ctx context.Context, id string, blameless bool) (pricing.EarlyEnd, error)
	EndLease(ctx context.Context, tx *store.Tx, id string, at time.Time) error
	HasFunds(ctx context.Context, tx *store.Tx, id string) (bool, error)
	Reserved(ctx context.Context, id string) (billing.Reserved, error)
	// ExchangeInForce is the rate from a host's currency to an account's, or a fault.
	ExchangeInForce(ctx context.Context, from, to money.Currency) (pricing.ExchangeRate, error)
	ReservedUse(ctx context.Context, id string, from, to time.Time) ([]pricing.HourUse, error)
}

// Config is what a Service is made of.
type Config struct {
	DB       *store.DB
	Clock    func() time.Time // nil: time.Now
	Capacity Capacity
	Money    Money
	// Account returns the currency and the time zone of an account.
	Account func(ctx context.Context, accountID string) (money.Currency, string, error)
	// Audit records a write within its transaction; nil: it is not recorded.
	Audit func(ctx context.Context, tx *store.Tx, p account.Principal, action, subject string, detail any) error
	// Bounds are the operator's. Without months none are sold.
	Bounds pricing.Bounds
	// Patience is how long a reservation may be suspended before it is ended; 0: 7 days.
	Patience time.Duration
	// News tells accounts that a reservation ends soon; nil: nobody is told.
	News  billing.News
	Every time.Duration // between turns; 0: 5 seconds
	Log   *slog.Logger
}

// Service is the reservations. It is safe for concurrent use, and several may run
// on one database.
type Service struct{ Config }

// New returns a Service. Migrate must be called before anything else.
func New(c Config) (*Service, error) {
	if c.DB == nil || c.Capacity == nil || c.Money == nil || c.Account == nil {
		return nil, errors.New("reservation: a dependency is missing from the configuration")
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Audit == nil {
		c.Audit = func(context.Context, *store.Tx, account.Principal, string, string, any) error { return nil }
	}
	if c.Patience <= 0 {
		c.Patience = 7 * 24 * time.Hour
	}
	if c.Every <= 0 {
		c.Every = 5 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{c}, nil
}

// Migrate brings the table up to date.
func (s *Service) Migrate(ctx context.Context) error {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return s.DB.Migrate(ctx, "reservation", sub)
}

// Reservation is capacity that an account has bought for a term.
type Reservation struct {
	ID, AccountID, UserID string
	Name                  string
	ProviderID, HostID    string
	Region, Zone          string
	GPUModel              string
	GPUs                  int
	Simulated             bool
	TimeZone              string
	Terms                 pricing.Priced
	Renews                bool
	State                 State
	Code, Message         string // why it is in its state
	RenewalOf             string
	From, Until           time.Time // its clock hours
	Since                 time.Time // in its state
	CreatedAt, EndedAt    time.Time

	held   bool
	warned time.Duration // the last step before its end that was told; 0: none
}

const columns = `id, account_id, user_id, name, provider_id, host_id, region, zone, gpu_model, gpus, simulated, time_zone, terms, renews,
	state, code, message, held, renewal_of, from_at, until_at, since_at, created_at, ended_at, warned_seconds`

func query(ctx context.Context, tx *store.Tx, where string, args ...any) ([]*Reservation, error) {
	rows, err := tx.Query(ctx, `SELECT `+columns+` FROM reservation WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read reservations: %w", err)
	}
	defer rows.Close()
	var out []*Reservation
	for rows.Next() {
		var r Reservation
		var terms []byte
		var simulated, renews, held, from, until, since, created, ended, warned int64
		if err := rows.Scan(&r.ID, &r.AccountID, &r.UserID, &r.Name, &r.ProviderID, &r.HostID, &r.Region, &r.Zone, &r.GPUModel, &r.GPUs, &simulated, &r.TimeZone,
			&terms, &renews, &r.State, &r.Code, &r.Message, &held, &r.RenewalOf, &from, &until, &since, &created, &ended, &warned); err != nil {
			return nil, fmt.Errorf("read reservations: %w", err)
		}
		if err := json.Unmarshal(terms, &r.Terms); err != nil {
			return nil, fmt.Errorf("reservation %s: %w", r.ID, err)
		}
		r.Simulated, r.Renews, r.held = simulated == 1, renews == 1, held == 1
		r.From, r.Until, r.Since = store.Time(from), store.Time(until), store.Time(since)
		r.CreatedAt, r.EndedAt = store.Time(created), store.Time(ended)
		r.warned = time.Duration(warned) * time.Second
		out = append(out, &r)
	}
	return out, rows.Err()
}

// lock reads a reservation and keeps others from changing it until the end of the
// transaction.
func lock(ctx context.Context, tx *store.Tx, id string) (*Reservation, error) {
	list, err := query(ctx, tx, `id = ?`+tx.ForUpdate(), id)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, none(id)
	}
	return list[0], nil
}

func insert(ctx context.Context, tx *store.Tx, r *Reservation) error {
	terms, err := json.Marshal(r.Terms)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO reservation (`+columns+`) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
		r.ID, r.AccountID, r.UserID, r.Name, r.ProviderID, r.HostID, r.Region, r.Zone, r.GPUModel, r.GPUs, bit(r.Simulated), r.TimeZone, string(terms), bit(r.Renews),
		string(r.State), r.Code, r.Message, bit(r.held), r.RenewalOf, store.Micros(r.From), store.Micros(r.Until), store.Micros(r.Since), store.Micros(r.CreatedAt), store.Micros(r.EndedAt), int64(r.warned/time.Second))
	if err != nil {
		return fmt.Errorf("write reservation %s: %w", r.ID, err)
	}
	return nil
}

func save(ctx context.Context, tx *store.Tx, r *Reservation) error {
	_, err := tx.Exec(ctx, `UPDATE reservation SET name = ?, renews = ?, state = ?, code = ?, message = ?, held = ?, until_at = ?, since_at = ?, ended_at = ?, warned_seconds = ? WHERE id = ?`,
		r.Name, bit(r.Renews), string(r.State), r.Code, r.Message, bit(r.held), store.Micros(r.Until), store.Micros(r.Since), store.Micros(r.EndedAt), int64(r.warned/time.Second), r.ID)
	if err != nil {
		return fmt.Errorf("write reservation %s: %w", r.ID, err)
	}
	return nil
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func none(id string) error {
	return fault.New(fault.NotFound, "reservation_not_found", "there is no reservation %q among yours; list yours to see their names and ids", id)
}

// move brings a reservation into its next state.
func (r *Reservation) move(e Event, code, message string, now time.Time) error {
	to, ok := r.State.Next(e)
	if !ok {
		return fault.New(fault.Conflict, "reservation_state", "reservation %s is %s, in which %q cannot be done", r.ID, r.State, e)
	}
	r.State, r.Code, r.Message, r.Since = to, code, message, now
	if to.Over() {
		r.EndedAt = now
	}
	return nil
}

// Places returns those reservations that are among identifiers of any kind, for
// the cloud's own parts, which check who asks.
func (s *Service) Places(ctx context.Context, ids []string) ([]*Reservation, error) {
	var out []*Reservation
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		out = nil
		var args []any
		for _, id := range ids {
			if ident.Check(ident.Reservation, id) == nil {
				args = append(args, id)
			}
		}
		for part := range slices.Chunk(args, 500) {
			list, err := query(ctx, tx, `id IN (?`+strings.Repeat(", ?", len(part)-1)+`)`, part...)
			if err != nil {
				return err
			}
			out = append(out, list...)
		}
		return nil
	})
	return out, err
}

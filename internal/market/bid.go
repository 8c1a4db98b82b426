package market

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing/auction"
	"suanli.dev/internal/store"
)

// Bid is a renter's standing wish to run something on the spot market.
type Bid struct {
	ID        string
	AccountID string
	UserID    string
	Name      string // of its lease too
	Market    fleet.MarketKey
	GPUs      int
	Price     auction.Price // per GPU and hour: the most that it pays
	Max       auction.Price // likewise, whatever Price becomes; 0: none
	Currency  money.Currency
	Template  string
	Image     string
	DiskGiB   int64

	State   State
	Code    string // why it is so, for programs: a reason of the auction, or of the lease
	Message string // likewise, for people; may be empty
	LeaseID string // empty: none yet
	HostID  string // on which its lease is

	Since     time.Time     // when it got its place
	Paid      auction.Price // what it pays now; 0: nothing
	LeaveAt   time.Time     // end of its notice; zero: none
	CoolUntil time.Time     // it takes no part before
	PlacedAt  time.Time
	ChangedAt time.Time // of the state
	EndedAt   time.Time // zero: it may still run

	floor    auction.Price // of its host when it got its place
	avoid    []auction.Avoid
	wish     string // sealed lease.SpotWish
	timeZone string
	changed  bool // to be written
}

// limit is the most that the bid pays per GPU and hour.
func (b *Bid) limit() auction.Price {
	return auction.Bid{Price: b.Price, Max: b.Max}.Limit()
}

// move applies an event; one that the state does not have is refused.
func (b *Bid) move(e Event, code, message string, now time.Time) error {
	to, ok := b.State.Next(e)
	if !ok {
		kind := fault.Conflict
		if b.State.Final() {
			kind = fault.Gone
		}
		return fault.New(kind, "bid_state", "bid %s is %s; it has no %s", b.ID, b.State, e)
	}
	b.State, b.Code, b.Message, b.ChangedAt, b.changed = to, code, message, now, true
	if to.Final() {
		b.EndedAt = now
	}
	if !to.Runs() {
		b.Paid, b.LeaveAt, b.Since = 0, time.Time{}, time.Time{}
	}
	return nil
}

// Create is a new bid.
type Create struct {
	Name      string
	Zone      string // empty: the only one that has the model
	Model     string
	Simulated *bool // nil: real hardware, unless there is none but simulated
	GPUs      int
	Price     auction.Price
	Max       auction.Price
	Wish      lease.SpotWish
}

// maxOpen bounds the bids of an account that may still run: each is looked at in
// every round.
const maxOpen = 200

// Create places a bid. It takes part from the next round on.
func (s *Service) Create(ctx context.Context, p account.Principal, c Create) (*Bid, error) {
	key, err := s.find(c)
	if err != nil {
		return nil, err
	}
	currency, zone, err := s.Account(ctx, p.AccountID)
	if err != nil {
		return nil, err
	}
	// The market has one currency, bids are in it, and the lease of a bid that wins is
	// exchanged by the rate of that moment: without a rate now, none is promised.
	if currency != s.Currency {
		if _, err := s.Money.ExchangeInForce(ctx, s.Currency, currency); err != nil {
			return nil, err
		}
	}
	now := s.Clock().UTC().Truncate(time.Microsecond)
	b := &Bid{
		ID: ident.New(ident.Bid), AccountID: p.AccountID, UserID: p.UserID, Name: c.Name, Market: key, GPUs: c.GPUs, Price: c.Price, Max: c.Max,
		Currency: s.Currency, State: Waiting, PlacedAt: now, ChangedAt: now, timeZone: zone,
	}
	if err := s.check(b); err != nil {
		return nil, err
	}
	if b.Name == "" {
		b.Name = "spot-" + b.ID[len(b.ID)-6:]
	}
	c.Wish.Create.Name = b.Name
	if err := s.Leases.CheckSpot(&c.Wish, c.GPUs, key.Model); err != nil {
		return nil, err
	}
	b.Template, b.Image, b.DiskGiB = c.Wish.Template, c.Wish.Image, c.Wish.DiskGiB
	if b.wish, err = s.Leases.SealSpot(c.Wish); err != nil {
		return nil, err
	}
	err = s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if err := lockMarket(ctx, tx, key, nil); err != nil {
			return err
		}
		// As its lease would be; one that waits already goes on waiting.
		if err := s.Allow(ctx, tx, p.AccountID, p.UserID, c.Wish.Create.Labels); err != nil {
			return err
		}
		var open int64
		if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM market_bid WHERE account_id = ? AND ended_at = 0`, p.AccountID).Scan(&open); err != nil {
			return fmt.Errorf("count bids: %w", err)
		}
		if open >= maxOpen {
			return fault.New(fault.TooMany, "quota_bids", "this account has %d bids that may still run, and may have %d; cancel one first", open, maxOpen)
		}
		if err := insertBid(ctx, tx, b); err != nil {
			return err
		}
		return s.Audit(ctx, tx, p, "bid.create", b.ID, map[string]string{"market": key.Zone + " " + key.Model, "price_per_gpu_hour": b.Price.String()})
	})
	if err != nil {
		return nil, err
	}
	s.Wake()
	return b, nil
}

// check reports a bid that the auction would not take.
func (s *Service) check(b *Bid) error {
	for _, p := range []auction.Price{b.Price, b.Max} {
		if tick := s.Params.Tick; p%tick != 0 {
			return fault.New(fault.Invalid, "invalid_bid", "%s %s per GPU and hour is finer than the market counts; want a multiple of %s", p.Display(), s.Currency, tick.Display()).At("body.bid_per_gpu_hour")
		}
	}
	ab := auction.Bid{ID: "of this request", GPUs: b.GPUs, Price: b.Price, Max: b.Max}
	if err := ab.Validate(s.Params.Tick); err != nil {
		return fault.New(fault.Invalid, "invalid_bid", "%w; bids are per GPU and hour, not for the whole bundle", err).At("body.bid_per_gpu_hour")
	}
	return nil
}

// find returns the market that a new bid is for.
func (s *Service) find(c Create) (fleet.MarketKey, error) {
	all := s.Supply.Markets()
	var fit []fleet.MarketKey
	for _, k := range all {
		if strings.EqualFold(k.Model, c.Model) && (c.Zone == "" || k.Zone == c.Zone) && (c.Simulated == nil || k.Simulated == *c.Simulated) {
			fit = append(fit, k)
		}
	}
	if c.Simulated == nil && slices.ContainsFunc(fit, func(k fleet.MarketKey) bool { return !k.Simulated }) {
		fit = slices.DeleteFunc(fit, func(k fleet.MarketKey) bool { return k.Simulated })
	}
	switch len(fit) {
	case 1:
		return fit[0], nil
	case 0:
		return fleet.MarketKey{}, fault.New(fault.NotFound, "market_not_found", "nobody here has a %q in zone %q; see what there is with: suanli market", c.Model, c.Zone).At("body.gpu_model")
	}
	zones := make([]string, len(fit))
	for i, k := range fit {
		zones[i] = k.Zone
	}
	return fleet.MarketKey{}, fault.New(fault.Invalid, "zone_needed", "there is a market of %s in each of these zones, with its own price: %s; name one", fit[0].Model, strings.Join(zones, ", ")).At("body.zone")
}

// Get returns one bid of the caller's account, by identifier or by the name of one
// that may still run; an operator may read any by its identifier.
func (s *Service) Get(ctx context.Context, p account.Principal, nameOrID string) (*Bid, error) {
	var b *Bid
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		b, err = resolveBid(ctx, tx, p, nameOrID)
		return err
	})
	return b, err
}

func resolveBid(ctx context.Context, tx *store.Tx, p account.Principal, nameOrID string) (*Bid, error) {
	if ident.Check(ident.Bid, nameOrID) == nil {
		list, err := selectBids(ctx, tx, `id = ?`, nameOrID)
		if err != nil {
			return nil, err
		}
		if len(list) == 1 && (list[0].AccountID == p.AccountID || p.Operator) {
			return list[0], nil
		}
		return nil, noBid(nameOrID)
	}
	list, err := selectBids(ctx, tx, `account_id = ? AND name = ? AND ended_at = 0 ORDER BY id`, p.AccountID, nameOrID)
	switch {
	case err != nil:
		return nil, err
	case len(list) == 0:
		return nil, noBid(nameOrID)
	case len(list) > 1:
		return nil, fault.New(fault.Conflict, "bid_ambiguous", "%d bids are named %q; use an id: %s, %s …", len(list), nameOrID, list[0].ID, list[1].ID)
	}
	return list[0], nil
}

func noBid(id string) error {
	return fault.New(fault.NotFound, "bid_not_found", "there is no bid %q in this account; list yours to see their ids", id)
}

// List returns bids of the account, the newest first, up to limit, that come after
// the cursor, and the next cursor, empty at the end. With open only those that may
// still run.
func (s *Service) List(ctx context.Context, p account.Principal, open bool, cursor string, limit int) ([]*Bid, string, error) {
	if limit < 1 {
		limit = 50
	}
	where, args := `account_id = ?`, []any{p.AccountID}
	if open {
		where += ` AND ended_at = 0`
	}
	if cursor != "" {
		where, args = where+` AND id < ?`, append(args, cursor)
	}
	var list []*Bid
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		list, err = selectBids(ctx, tx, where+` ORDER BY id DESC LIMIT ?`, append(args, limit+1)...)
		return err
	})
	if err != nil || len(list) <= limit {
		return list, "", err
	}
	return list[:limit], list[limit-1].ID, nil
}

// Change is a change to a bid. Nil fields stay.
type Change struct {
	Price *auction.Price
	Max   *auction.Price // 0: none
}

// Change raises or lowers a bid, running or not. What is set aside for its lease
// follows. It takes effect with the next round.
func (s *Service) Change(ctx context.Context, p account.Principal, nameOrID string, c Change) (*Bid, error) {
	var b *Bid
	err := s.edit(ctx, p, nameOrID, func(ctx context.Context, tx *store.Tx, at *Bid) error {
		b = at
		if b.State.Final() {
			return fault.New(fault.Gone, "bid_state", "bid %s is %s and cannot be changed", b.ID, b.State)
		}
		before := b.limit()
		if c.Price != nil {
			b.Price = *c.Price
		}
		if c.Max != nil {
			b.Max = *c.Max
		}
		if err := s.check(b); err != nil {
			return err
		}
		b.changed = true
		if b.LeaseID != "" && b.limit() != before {
			most, err := b.limit().Bundle(b.GPUs)
			if err != nil {
				return err
			}
			if err := s.Money.SetBid(ctx, tx, b.LeaseID, most); err != nil {
				return err
			}
		}
		return s.Audit(ctx, tx, p, "bid.change", b.ID, map[string]string{"price_per_gpu_hour": b.Price.String(), "max_per_gpu_hour": b.Max.String()})
	})
	return b, err
}

// Cancel withdraws a bid for good, and ends its lease: container and disk are
// removed. To keep the disk, stop the lease instead. A bid that is out of the
// market already stays as it is.
func (s *Service) Cancel(ctx context.Context, p account.Principal, nameOrID string) (*Bid, error) {
	var b *Bid
	var done func(context.Context)
	err := s.edit(ctx, p, nameOrID, func(ctx context.Context, tx *store.Tx, at *Bid) error {
		b, done = at, nil
		if b.State.Final() {
			return nil
		}
		if err := b.move(Cancel, "commanded", "", s.Clock()); err != nil {
			return err
		}
		if b.LeaseID != "" {
			var err error
			if done, err = s.Leases.SpotEnd(ctx, tx, b.LeaseID, p); err != nil && !isCode(err, "lease_state") {
				return err
			}
		}
		return s.Audit(ctx, tx, p, "bid.cancel", b.ID, nil)
	})
	if err == nil && done != nil {
		done(ctx)
	}
	return b, err
}

// edit changes a bid of the caller's account under its market's lock.
func (s *Service) edit(ctx context.Context, p account.Principal, nameOrID string, change func(ctx context.Context, tx *store.Tx, b *Bid) error) error {
	err := s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		b, err := resolveBid(ctx, tx, p, nameOrID)
		if err != nil {
			return err
		}
		if b.AccountID != p.AccountID {
			return noBid(nameOrID)
		}
		if err := lockMarket(ctx, tx, b.Market, nil); err != nil {
			return err
		}
		// Read again under the lock.
		if b, err = resolveBid(ctx, tx, p, b.ID); err != nil {
			return err
		}
		if err := change(ctx, tx, b); err != nil {
			return err
		}
		return saveBid(ctx, tx, b)
	})
	if err == nil {
		s.Wake()
	}
	return err
}

func isCode(err error, codes ...string) bool {
	f, ok := fault.As(err)
	return ok && slices.Contains(codes, f.Code)
}

// inOrder sorts bids by age, as the auction does between equals.
func inOrder(bids []*Bid) {
	slices.SortFunc(bids, func(a, b *Bid) int { return cmp.Or(a.PlacedAt.Compare(b.PlacedAt), strings.Compare(a.ID, b.ID)) })
}

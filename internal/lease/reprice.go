package lease

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/money"
	"suanli.dev/internal/notify"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// ProposalState is how a proposed price stands. It begins as proposed; the others
// are final, and only an accepted one changes a price.
type ProposalState string

// The states of a proposed price.
const (
	Proposed  ProposalState = "proposed"
	Agreed    ProposalState = "accepted"
	Declined  ProposalState = "declined"
	Withdrawn ProposalState = "withdrawn" // its provider proposed another
	Lapsed    ProposalState = "expired"   // nobody answered in time, or the lease is over
)

// answerBefore is how long before a price would change its renter has to have
// answered, so that every replica counts with it in time.
const answerBefore = 10 * time.Minute

// maxNotice is how far ahead a price may be proposed.
const maxNotice = 366 * 24 * time.Hour

// PriceChange is another price of a lease on demand that its provider has proposed.
type PriceChange struct {
	ID, LeaseID, AccountID, ProviderID, HostID string
	LeaseName                                  string
	Currency                                   money.Currency
	PerHour, NewPerHour                        money.Rate // of the whole bundle
	Simulated                                  bool
	State                                      ProposalState
	EffectiveAt, AnswerBy                      time.Time
	AnsweredBy                                 string // the user
	AnsweredAt, CreatedAt                      time.Time
}

// PriceProposal is what a provider proposes.
type PriceProposal struct {
	HostID     string
	LeaseID    string // empty: every lease on demand on the host
	PerGPUHour money.Rate
	// EffectiveAt is from when, at least the notice ahead; zero: after the notice.
	EffectiveAt time.Time
}

// ProposePrice proposes another price of compute to the renters of leases on demand
// on one of the caller's hosts. Nothing changes unless they agree. A proposal that
// nobody has answered is withdrawn by the next one for its lease.
func (s *Service) ProposePrice(ctx context.Context, p account.Principal, in PriceProposal) ([]PriceChange, error) {
	now := s.Clock().UTC().Truncate(time.Microsecond)
	at := in.EffectiveAt.UTC().Truncate(time.Microsecond)
	if in.EffectiveAt.IsZero() {
		at = now.Add(s.PriceNotice)
	}
	if at.Before(now.Add(s.PriceNotice)) || at.After(now.Add(maxNotice)) {
		return nil, invalid("body.effective_at", "notice_too_short", "the price would change at %s; renters have to know %s ahead, and a year at most: want %s or later", at.Format(time.RFC3339), s.PriceNotice, now.Add(s.PriceNotice).Format(time.RFC3339))
	}
	if in.PerGPUHour <= 0 || in.PerGPUHour > fleet.MaxRate {
		return nil, invalid("body.per_gpu_hour", "bad_price", "a price of %s per GPU-hour: want more than 0, and %s at most", in.PerGPUHour.Display(), fleet.MaxRate.Display())
	}
	var out []PriceChange
	err := s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		out = nil
		where, args := `host_id=? AND provider_id=? AND state NOT IN ('ended','failed','ending')`, []any{in.HostID, p.AccountID}
		if in.LeaseID != "" {
			where, args = where+` AND id=?`, append(args, in.LeaseID)
		}
		leases, err := selectLeases(ctx, tx, where+` ORDER BY id`, args...)
		if err != nil {
			return err
		}
		for _, l := range leases {
			// What is paid by other prices than the listed ones, such as an account's own
			// or in another currency, keeps its price.
			if _, apart := l.Price.Apart(); apart || l.Price.Plan != pricing.OnDemand {
				continue
			}
			if l.Price.Exchange != nil {
				// A price is agreed in the account's currency, and proposed in the host's.
				if in.LeaseID == "" {
					continue
				}
				return fault.New(fault.Conflict, "currency_mismatch", "lease %s is paid in %s at the rate in its quote, and a price was proposed in %s; it keeps its price until it ends", l.ID, l.Price.Currency, l.Price.Exchange.From)
			}
			c, err := s.propose(ctx, tx, l, in.PerGPUHour, now, at)
			if err != nil {
				return err
			}
			out = append(out, c)
		}
		if len(out) == 0 {
			return fault.New(fault.NotFound, "lease_not_found", "there is no such lease on demand on host %s", in.HostID)
		}
		return s.Tenants.Audit(ctx, tx, p, "price_change.propose", in.HostID, map[string]string{"per_gpu_hour": in.PerGPUHour.String(), "effective_at": at.Format(time.RFC3339), "lease": in.LeaseID})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *Service) propose(ctx context.Context, tx *store.Tx, l *Lease, perGPU money.Rate, now, at time.Time) (PriceChange, error) {
	if int64(perGPU) > math.MaxInt64/int64(max(1, l.Bundle.GPUCount)) {
		return PriceChange{}, invalid("body.per_gpu_hour", "bad_price", "a price of %s per GPU-hour is more than can be counted", perGPU.Display())
	}
	c := PriceChange{
		ID: ident.New(ident.PriceChange), LeaseID: l.ID, AccountID: l.AccountID, ProviderID: l.ProviderID, HostID: l.HostID, LeaseName: l.Name, Currency: l.Price.Currency,
		PerHour: l.Price.Tariff.Compute, NewPerHour: perGPU * money.Rate(l.Bundle.GPUCount), Simulated: l.Simulated, State: Proposed,
		EffectiveAt: at, AnswerBy: at.Add(-answerBefore), CreatedAt: now,
	}
	agreed, err := selectPriceChanges(ctx, tx, `lease_id=? AND state='accepted' AND effective_at<=? ORDER BY effective_at`, l.ID, store.Micros(at))
	if err != nil {
		return c, err
	}
	for _, before := range agreed {
		c.PerHour = before.NewPerHour
		if before.EffectiveAt.Equal(at) {
			return c, fault.New(fault.Conflict, "rate_set", "the renter of lease %s has agreed to another price from %s on already; propose a later moment", l.ID, at.Format(time.RFC3339))
		}
	}
	if _, err := tx.Exec(ctx, `UPDATE lease_price_change SET state='withdrawn' WHERE lease_id=? AND state='proposed'`, l.ID); err != nil {
		return c, err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO lease_price_change (`+priceChangeColumns+`) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
		c.ID, c.LeaseID, c.AccountID, c.ProviderID, c.HostID, c.LeaseName, string(c.Currency), int64(c.PerHour), int64(c.NewPerHour), bit(c.Simulated), string(c.State),
		store.Micros(c.EffectiveAt), store.Micros(c.AnswerBy), "", 0, store.Micros(now)); err != nil {
		return c, err
	}
	if s.News == nil {
		return c, nil
	}
	return c, s.News.Announce(ctx, tx, l.AccountID, notify.KindPriceChange, l.ID, now, notify.PriceChange{
		Name: l.Name, Currency: string(c.Currency), PerHour: c.PerHour, NewPerHour: c.NewPerHour, EffectiveAt: c.EffectiveAt, AnswerBy: c.AnswerBy, Simulated: c.Simulated,
	})
}

// AnswerPrice accepts or declines a price that was proposed to the caller's account.
// The same answer again changes nothing. It is a Gone fault "price_change_over" once
// it is answered otherwise, withdrawn or expired.
func (s *Service) AnswerPrice(ctx context.Context, p account.Principal, id string, accept bool) (PriceChange, error) {
	var c PriceChange
	err := s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		c, err = scanPriceChange(tx.QueryRow(ctx, `SELECT `+priceChangeColumns+` FROM lease_price_change WHERE id=? AND account_id=?`+tx.ForUpdate(), id, p.AccountID))
		if errors.Is(err, store.ErrNoRows) {
			return fault.New(fault.NotFound, "price_change_not_found", "there is no proposed price %q", id)
		}
		if err != nil {
			return err
		}
		want := Declined
		if accept {
			want = Agreed
		}
		now := s.Clock().UTC().Truncate(time.Microsecond)
		if c.State == want {
			return nil
		}
		if state := c.at(now); state != Proposed {
			return fault.New(fault.Gone, "price_change_over", "the price that was proposed for lease %s is %s; answers were due by %s", c.LeaseID, state, c.AnswerBy.Format(time.RFC3339))
		}
		if accept {
			l, err := loadLease(ctx, tx, c.LeaseID)
			if err != nil {
				return err
			}
			if l.State.Over() {
				return fault.New(fault.Gone, "lease_state", "lease %s is %s and cannot be changed", l.ID, l.State)
			}
			if err := s.Money.AgreePrice(ctx, tx, billing.Agreement{LeaseID: c.LeaseID, PerHour: c.NewPerHour, From: c.EffectiveAt, ProposalID: c.ID, UserID: p.UserID}); err != nil {
				return err
			}
		}
		c.State, c.AnsweredBy, c.AnsweredAt = want, p.UserID, now
		if _, err := tx.Exec(ctx, `UPDATE lease_price_change SET state=?, answered_by=?, answered_at=? WHERE id=?`, string(want), p.UserID, store.Micros(now), c.ID); err != nil {
			return err
		}
		return s.Tenants.Audit(ctx, tx, p, "price_change."+string(want), c.LeaseID, map[string]string{"proposal": c.ID, "new_per_hour": c.NewPerHour.String()})
	})
	return c, err
}

// at is how a proposal stands at a moment.
func (c PriceChange) at(now time.Time) ProposalState {
	if c.State == Proposed && !now.Before(c.AnswerBy) {
		return Lapsed
	}
	return c.State
}

// PriceChanges lists up to limit prices that were proposed to the caller's account,
// newest first, that come after the one with an identifier; empty: from the newest.
func (s *Service) PriceChanges(ctx context.Context, p account.Principal, after string, limit int) ([]PriceChange, error) {
	return s.priceChanges(ctx, `account_id=?`, p.AccountID, after, limit)
}

// HostPriceChanges is PriceChanges for what was proposed for leases on a host, whose
// provider the caller has to be.
func (s *Service) HostPriceChanges(ctx context.Context, hostID, after string, limit int) ([]PriceChange, error) {
	return s.priceChanges(ctx, `host_id=?`, hostID, after, limit)
}

func (s *Service) priceChanges(ctx context.Context, where, of, after string, limit int) (list []PriceChange, err error) {
	if after == "" {
		after = "~" // sorts after every identifier
	}
	err = s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		list, err = selectPriceChanges(ctx, tx, where+` AND id<? ORDER BY id DESC LIMIT ?`, of, after, limit)
		return err
	})
	now := s.Clock()
	for i := range list {
		list[i].State = list[i].at(now)
	}
	return list, err
}

const priceChangeColumns = `id, lease_id, account_id, provider_id, host_id, lease_name, currency, old_rate, new_rate, simulated, state, effective_at, answer_by, answered_by, answered_at, created_at`

func selectPriceChanges(ctx context.Context, tx *store.Tx, where string, args ...any) ([]PriceChange, error) {
	rows, err := tx.Query(ctx, `SELECT `+priceChangeColumns+` FROM lease_price_change WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read proposed prices: %w", err)
	}
	defer rows.Close()
	var out []PriceChange
	for rows.Next() {
		c, err := scanPriceChange(rows)
		if err != nil {
			return nil, fmt.Errorf("read proposed prices: %w", err)
		}
		out = append(out, c)
	}
	return out, rows.Err()
}

func scanPriceChange(row interface{ Scan(...any) error }) (c PriceChange, err error) {
	var simulated, effective, answer, answered, created int64
	err = row.Scan(&c.ID, &c.LeaseID, &c.AccountID, &c.ProviderID, &c.HostID, &c.LeaseName, &c.Currency, &c.PerHour, &c.NewPerHour, &simulated, &c.State,
		&effective, &answer, &c.AnsweredBy, &answered, &created)
	c.Simulated = simulated == 1
	c.EffectiveAt, c.AnswerBy, c.AnsweredAt, c.CreatedAt = store.Time(effective), store.Time(answer), store.Time(answered), store.Time(created)
	return c, err
}

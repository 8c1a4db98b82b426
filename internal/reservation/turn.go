package reservation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/notify"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// Run takes turns until ctx ends. Several replicas may run it.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(s.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.Turn(ctx); err != nil && ctx.Err() == nil {
				s.Log.ErrorContext(ctx, "looking after reservations failed for some; it is tried again", "error", err)
			}
		}
	}
}

// Turn does what time, hosts and balances make due. One reservation's failure does
// not stop the others.
func (s *Service) Turn(ctx context.Context) error {
	var open []*Reservation
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		open, err = query(ctx, tx, `ended_at = 0 ORDER BY id`)
		return err
	})
	if err != nil {
		return err
	}
	var failed []error
	for _, r := range open {
		if s.due(r) {
			if err := s.step(ctx, r); err != nil {
				failed = append(failed, fmt.Errorf("reservation %s: %w", r.ID, err))
			}
		}
		if s.warning(r, s.Clock()) > 0 {
			if err := s.warn(ctx, r.ID); err != nil {
				failed = append(failed, fmt.Errorf("reservation %s: %w", r.ID, err))
			}
		}
	}
	return errors.Join(failed...)
}

// warnings are how long before its end an account is told of it.
var warnings = []time.Duration{7 * 24 * time.Hour, 24 * time.Hour}

// warning is the step before a reservation's end that is reached and not told yet; 0:
// none. Of one whose whole term is no longer than a step, that step says nothing.
func (s *Service) warning(r *Reservation, now time.Time) (step time.Duration) {
	if s.News == nil || r.State == Scheduled || r.State == Ending || r.State.Over() || !now.Before(r.Until) {
		return 0
	}
	for _, w := range warnings { // the longest first
		if r.Until.Sub(now) <= w && r.Until.Sub(r.From) > w && (r.warned == 0 || w < r.warned) {
			step = w
		}
	}
	return step
}

// warn tells an account that a reservation ends soon, in the transaction that notes
// that it was told.
func (s *Service) warn(ctx context.Context, id string) error {
	return s.change(ctx, id, func(ctx context.Context, tx *store.Tx, r *Reservation, now time.Time) error {
		step := s.warning(r, now)
		if step == 0 {
			return nil // another replica was first
		}
		r.warned = step
		return s.News.Announce(ctx, tx, r.AccountID, notify.KindReservationEnding, r.ID, now, notify.ReservationEnding{
			Name: r.Name, Until: r.Until.UTC(), Renews: r.Renews, Currency: string(r.Terms.Reservation.Currency), ThresholdSeconds: int64(step / time.Second), Simulated: r.Simulated,
		})
	})
}

// due reports whether there may be something to do, without a write.
func (s *Service) due(r *Reservation) bool {
	now := s.Clock()
	if !now.Before(r.Until) {
		return true
	}
	ok, known, _ := s.Capacity.Delivers(r.HostID, r.ID)
	switch r.State {
	case Scheduled:
		return !now.Before(r.From)
	case Active:
		return known && !ok
	case Undelivered:
		return known && ok || !r.held
	case Suspended:
		return true
	}
	return false
}

// step does what is due of one reservation.
func (s *Service) step(ctx context.Context, seen *Reservation) error {
	if seen.Renews && !s.Clock().Before(seen.Until) && seen.State == Active {
		err := s.renew(ctx, seen)
		if err == nil {
			s.Capacity.Refresh(ctx, seen.HostID)
			return nil
		}
		if _, ok := fault.As(err); !ok {
			return err
		}
		s.Log.WarnContext(ctx, "a reservation is not renewed", "reservation", seen.ID, "account", seen.AccountID, "error", err)
		return s.change(ctx, seen.ID, func(ctx context.Context, tx *store.Tx, r *Reservation, now time.Time) error {
			return s.expire(ctx, tx, r, "not_renewed", err.Error(), now)
		})
	}
	return s.change(ctx, seen.ID, func(ctx context.Context, tx *store.Tx, r *Reservation, now time.Time) error {
		if !now.Before(r.Until) && r.State != Scheduled {
			return s.expire(ctx, tx, r, "expired", "", now)
		}
		ok, known, since := s.Capacity.Delivers(r.HostID, r.ID)
		switch r.State {
		case Scheduled:
			if now.Before(r.From) {
				return nil
			}
			held, why, err := s.hold(ctx, tx, r)
			if err != nil {
				return err
			}
			if !held {
				return r.move(Lose, "no_capacity", why, now)
			}
			if err := r.move(Begin, "", "", now); err != nil {
				return err
			}
			return s.Money.Deliver(ctx, tx, r.ID, r.From)
		case Active:
			if !known || ok {
				return nil
			}
			if err := r.move(Lose, "host_lost", "its host is silent, or has not enough GPUs for it; this time costs nothing", now); err != nil {
				return err
			}
			return s.Money.Lose(ctx, tx, r.ID, since)
		case Undelivered:
			if !r.held {
				held, _, err := s.hold(ctx, tx, r)
				if err != nil || !held {
					return err
				}
			} else if !known || !ok {
				return nil
			}
			if err := r.move(Restore, "", "", now); err != nil {
				return err
			}
			return s.Money.Deliver(ctx, tx, r.ID, now)
		case Suspended:
			if now.Sub(r.Since) >= s.Patience {
				return s.end(ctx, tx, r, "unpaid", "it was suspended for too long", nil)
			}
			// The host is locked before the account, as everywhere.
			held, _, err := s.hold(ctx, tx, r)
			if err != nil || !held {
				return err
			}
			if has, err := s.Money.HasFunds(ctx, tx, r.ID); err != nil || !has {
				r.held = false
				return errors.Join(err, s.Capacity.Unhold(ctx, tx, r.ID))
			}
			if err := r.move(Resume, "", "", now); err != nil {
				return err
			}
			return s.Money.Deliver(ctx, tx, r.ID, now)
		}
		return nil
	})
}

// change makes a change of one reservation in a transaction and writes it.
func (s *Service) change(ctx context.Context, id string, do func(ctx context.Context, tx *store.Tx, r *Reservation, now time.Time) error) error {
	var r *Reservation
	var before State
	err := s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if r, err = lock(ctx, tx, id); err != nil {
			return err
		}
		if before = r.State; r.State.Over() {
			return nil // another replica was first
		}
		if err := do(ctx, tx, r, s.Clock().UTC().Truncate(time.Microsecond)); err != nil {
			return err
		}
		return save(ctx, tx, r)
	})
	if err == nil && r.State != before {
		s.Capacity.Refresh(ctx, r.HostID)
		s.Log.InfoContext(ctx, "a reservation changed", "reservation", r.ID, "account", r.AccountID, "from", before, "to", r.State, "code", r.Code)
	}
	return err
}

// hold tries to hold a reservation's GPUs; if they are not there, why says so.
func (s *Service) hold(ctx context.Context, tx *store.Tx, r *Reservation) (held bool, why string, err error) {
	err = s.Capacity.Hold(ctx, tx, r.holding())
	if f, ok := fault.As(err); ok && (f.Kind == fault.Conflict || f.Kind == fault.Unavailable || f.Kind == fault.NotFound) {
		return false, err.Error(), nil
	}
	r.held = err == nil
	return r.held, "", err
}

// expire ends a reservation whose last hour is over.
func (s *Service) expire(ctx context.Context, tx *store.Tx, r *Reservation, code, message string, now time.Time) error {
	if r.State == Ending {
		code, message = r.Code, r.Message
	}
	if err := r.move(Expire, code, message, now); err != nil {
		return err
	}
	return s.close(ctx, tx, r, r.Until)
}

// renew carries a reservation on for another term, at the price of today if that is
// no higher than before. It is a fault if it cannot be: then it ends.
func (s *Service) renew(ctx context.Context, seen *Reservation) error {
	t, err := s.Capacity.ReserveTerms(seen.HostID, seen.GPUModel)
	if err != nil {
		return err
	}
	currency, _, err := s.Account(ctx, seen.AccountID)
	if err != nil {
		return err
	}
	rate, err := s.exchange(ctx, t.Currency, currency)
	if err != nil {
		return err
	}
	return s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		r, err := lock(ctx, tx, seen.ID)
		if err != nil {
			return err
		}
		now := s.Clock().UTC().Truncate(time.Microsecond)
		if r.State != Active || now.Before(r.Until) {
			return nil // another replica was first
		}
		old := r.Terms.Reservation
		ask := pricing.Purchase{
			ID: ident.New(ident.Reservation), GPUModel: r.GPUModel, Zone: r.Zone, GPUs: int64(r.GPUs), Currency: t.Currency, ListHourly: t.PerGPUHour,
			From: r.Until, TimeZone: r.TimeZone, Months: old.Months, Payment: old.Payment, Commission: t.CommissionBasisPoints,
		}
		if old.Months == 0 {
			ask.Until = r.Until.Add(time.Duration(old.Hours()) * time.Hour)
		}
		priced, exchange, err := reserve(ask, t.Curve, s.Bounds, rate)
		if err != nil {
			return fault.New(fault.Conflict, "cannot_price", "the next term cannot be priced: %w", err)
		}
		// Months differ in hours, so it is the hour's price that is compared.
		if next, before := perHour(priced), perHour(r.Terms); next > before {
			return fault.New(fault.Conflict, "price_moved", "an hour of the next term would cost more than before; reserve anew if that is wanted")
		}
		if err := r.move(Expire, "renewed", "carried on by "+ask.ID, now); err != nil {
			return err
		}
		next := *r
		next.ID, next.RenewalOf, next.Terms, next.State, next.Code, next.Message, next.warned = ask.ID, r.ID, priced, Active, "", "", 0
		next.From, next.Until, next.Since, next.CreatedAt, next.EndedAt = r.Until, r.Until.Add(time.Duration(priced.Hours)*time.Hour), now, now, time.Time{}
		// The host is locked before the account, as everywhere.
		if err := s.Capacity.Unhold(ctx, tx, r.ID); err != nil {
			return err
		}
		if err := s.Capacity.Hold(ctx, tx, next.holding()); err != nil {
			return err
		}
		r.held, next.held = false, true
		if err := s.Money.EndLease(ctx, tx, r.ID, r.Until); err != nil {
			return err
		}
		if err := s.begin(ctx, tx, &next, exchange); err != nil {
			return err
		}
		return save(ctx, tx, r)
	})
}

// perHour is what an hour of a GPU costs of a term, in parts of 10,000 of a rate's unit.
func perHour(p pricing.Priced) int64 {
	return int64(p.Reservation.ListHourly) * (10_000 - p.Reservation.Discount) / 10_000
}

// Exhaust suspends a reservation for whose hours there is no money, or ends it if
// that has lasted too long. It may be repeated.
func (s *Service) Exhaust(ctx context.Context, id string, forGood bool) error {
	return s.change(ctx, id, func(ctx context.Context, tx *store.Tx, r *Reservation, now time.Time) error {
		if forGood && r.State != Ending {
			return s.end(ctx, tx, r, "unpaid", "there was no money for it", nil)
		}
		if r.State == Suspended || r.State == Scheduled {
			return nil
		}
		if err := r.move(Starve, "balance", "there is no money for its hours; it goes on when there is, if its GPUs are free then", now); err != nil {
			return err
		}
		if r.State.Over() {
			return s.close(ctx, tx, r, now)
		}
		r.held = false
		if err := s.Capacity.Unhold(ctx, tx, r.ID); err != nil {
			return err
		}
		return s.Money.Lose(ctx, tx, r.ID, now)
	})
}

package volume

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

// maxSizeGiB bounds one volume.
const maxSizeGiB = 64 << 10

var volumeName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func invalid(field, code, format string, args ...any) error {
	return fault.New(fault.Invalid, code, format, args...).At(field)
}

// Request asks for a new volume.
type Request struct {
	Name    string // empty: one is made up
	HostID  string
	SizeGiB int64
	// Agreed is the most that a GiB may cost a month; nil: whatever its host asks.
	Agreed *money.Rate
	// Snapshot, by identifier or name, is what it is made of; empty: nothing is in it.
	Snapshot string
}

// Create takes disk of a host for a volume and freezes its price. Its host makes it
// soon after; it is charged for from then on.
func (s *Service) Create(ctx context.Context, p account.Principal, r Request) (*Volume, error) {
	if r.Snapshot == "" {
		return s.make(ctx, p, r, func(context.Context, *store.Tx, *Volume) error { return nil })
	}
	if err := s.haveObjects(); err != nil {
		return nil, err
	}
	x, err := s.Snapshot(ctx, p, r.Snapshot)
	if err != nil {
		return nil, err
	}
	if r.SizeGiB == 0 {
		r.SizeGiB = x.SizeGiB
	}
	return s.make(ctx, p, r, ofSnapshot(p, x.ID))
}

// make makes a volume as is asked for, with what further is said of it within the
// transaction, when the host's disk is taken and before anything of the account is.
func (s *Service) make(ctx context.Context, p account.Principal, r Request, further func(ctx context.Context, tx *store.Tx, made *Volume) error) (*Volume, error) {
	id := ident.New(ident.Volume)
	if r.Name == "" {
		r.Name = "volume-" + id[len(id)-6:]
	}
	if !volumeName.MatchString(r.Name) || ident.Resembles(r.Name) {
		return nil, invalid("body.name", "invalid_name", "name %.100q: use 1 to 63 of a-z, 0-9 and -, beginning and ending with a letter or digit, that is not like an identifier", r.Name)
	}
	if r.SizeGiB < 1 || r.SizeGiB > maxSizeGiB {
		return nil, invalid("body.size_gib", "invalid_volume_size", "a volume of %d GiB was asked for; want 1 to %d", r.SizeGiB, maxSizeGiB)
	}
	terms, err := s.Capacity.DiskTerms(r.HostID)
	if err != nil {
		return nil, err
	}
	zone, err := s.TimeZone(ctx, p.AccountID)
	if err != nil {
		return nil, err
	}
	price, err := s.Leases.PriceDisk(ctx, p.AccountID, terms, r.SizeGiB, zone)
	if err != nil {
		return nil, err
	}
	if r.Agreed != nil && price.Tariff.Storage > *r.Agreed {
		return nil, fault.New(fault.Conflict, "price_moved", "a GiB costs %s %s a month on this host, and %s was agreed to; look again", price.Tariff.Storage.Display(), price.Currency, r.Agreed.Display())
	}
	v := &Volume{
		ID: id, AccountID: p.AccountID, UserID: p.UserID, Name: r.Name, HostID: terms.HostID, ProviderID: terms.ProviderID, Region: terms.Region, Zone: terms.Zone,
		SizeGiB: r.SizeGiB, Simulated: terms.Simulated, Price: price, State: Creating, CreatedAt: s.Clock().UTC().Truncate(time.Microsecond),
	}
	err = s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		now, err := s.Capacity.ReserveDisk(ctx, tx, fleet.DiskReservation{ID: v.ID, HostID: v.HostID, DiskGiB: v.SizeGiB})
		if err != nil {
			return err
		}
		if now.Storage > terms.Storage {
			return fault.New(fault.Conflict, "price_moved", "the host has raised its price for disk at this moment; look again")
		}
		if err := further(ctx, tx, v); err != nil {
			return err
		}
		if err := s.Money.BeginLease(ctx, tx, billing.Terms{LeaseID: v.ID, AccountID: v.AccountID, ProviderID: v.ProviderID, Quote: v.Price, Simulated: v.Simulated, Zone: v.Zone, Kept: true}); err != nil {
			return err
		}
		// After BeginLease, which has locked the account: of two at the same time the
		// second counts the first.
		var have, same int
		if err := tx.QueryRow(ctx, `SELECT COUNT(*), COALESCE(SUM(CASE WHEN name = ? AND state IN ('creating', 'available') THEN 1 ELSE 0 END), 0) FROM volume WHERE account_id = ? AND ended_at = 0`,
			v.Name, v.AccountID).Scan(&have, &same); err != nil {
			return fmt.Errorf("count volumes: %w", err)
		}
		if same > 0 {
			return fault.New(fault.Conflict, "volume_exists", "this account has a volume %q already; choose another name", v.Name).At("body.name")
		}
		if have >= s.Most {
			return fault.New(fault.TooMany, "quota_volumes", "this account has %d volumes and may have %d; remove one", have, s.Most)
		}
		quote, err := json.Marshal(v.Price)
		if err != nil {
			return err
		}
		simulated := 0
		if v.Simulated {
			simulated = 1
		}
		if _, err := tx.Exec(ctx, `INSERT INTO volume (`+columns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', '', ?, 0, 0, ?, ?, '', 0, 0, 0)`,
			v.ID, v.AccountID, v.UserID, v.Name, v.HostID, v.ProviderID, v.Region, v.Zone, v.SizeGiB, simulated, string(quote), string(v.State), store.Micros(v.CreatedAt), v.SnapshotID, v.Replaces); err != nil {
			return fmt.Errorf("write a volume: %w", err)
		}
		return s.Audit(ctx, tx, p, "volume.create", v.ID, map[string]any{"host": v.HostID, "size_gib": v.SizeGiB})
	})
	if err != nil {
		return nil, err
	}
	s.Capacity.Refresh(ctx, v.HostID)
	s.kick()
	s.kickSnapshots()
	return v, nil
}

// Remove gives a volume up: what is in it is removed for good, and it is not charged
// for any more from now on. One that a lease has is a Conflict fault "volume_in_use".
func (s *Service) Remove(ctx context.Context, p account.Principal, nameOrID string) (*Volume, error) {
	var out *Volume
	err := s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		v, err := find(ctx, tx, p.AccountID, nameOrID, tx.ForUpdate())
		if err != nil {
			return err
		}
		out = v
		if v.State == Deleting || v.State.Over() {
			return nil // asking twice is no error
		}
		if n := len(v.Attachments); n > 0 {
			a := v.Attachments[0]
			return fault.New(fault.Conflict, "volume_in_use", "%d leases have volume %s, among them %s at %s; end it, or stop it and then: suanli volume detach %s %s", n, v.Name, a.LeaseID, a.Path, v.Name, a.LeaseID)
		}
		if v.MovingTo != "" {
			return moving(v)
		}
		if err := s.apply(ctx, tx, v, Remove, s.Clock(), "commanded", "removed by its owner"); err != nil {
			return err
		}
		return s.Audit(ctx, tx, p, "volume.remove", v.ID, nil)
	})
	if err == nil {
		s.kick()
	}
	return out, err
}

// Exhaust removes a volume that was kept unpaid for the whole grace period.
func (s *Service) Exhaust(ctx context.Context, id string) error {
	_, err := s.move(ctx, id, Remove, s.Clock(), "storage_grace", "removed: it was kept unpaid for the whole grace period")
	s.kick()
	return err
}

// Abandon counts the volumes of a host as lost that will never come back. They are not
// charged for after it was last seen.
func (s *Service) Abandon(ctx context.Context, p account.Principal, hostID string, lastSeen time.Time) error {
	var list []*Volume
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		list, err = query(ctx, tx, `host_id = ? AND ended_at = 0 ORDER BY id`, hostID)
		return err
	})
	if err != nil {
		return err
	}
	for _, v := range list {
		if _, err := s.move(ctx, v.ID, Lose, lastSeen, "host_abandoned", "the host was given up by the operator, and what was on its disk with it"); err != nil {
			return err
		}
	}
	return nil
}

// move moves a volume, if its state has such a transition; if not, it stays as it is.
func (s *Service) move(ctx context.Context, id string, e Event, at time.Time, code, message string) (*Volume, error) {
	var out *Volume
	err := s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		list, err := query(ctx, tx, `id = ?`+tx.ForUpdate(), id)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return notFound(id)
		}
		out = list[0]
		if _, ok := out.State.Next(e); !ok {
			return nil
		}
		return s.apply(ctx, tx, out, e, at, code, message)
	})
	if err == nil {
		s.Capacity.Refresh(ctx, out.HostID)
	}
	return out, err
}

// apply is the only place that changes a volume's state, with what follows of it for
// money and capacity. The volume is locked.
func (s *Service) apply(ctx context.Context, tx *store.Tx, v *Volume, e Event, at time.Time, code, message string) error {
	to, ok := v.State.Next(e)
	if !ok {
		return fault.New(fault.Conflict, "volume_state", "volume %s is %s, so that it cannot: %s", v.Name, v.State, e)
	}
	now := s.Clock().UTC().Truncate(time.Microsecond)
	from := v.State
	v.State, v.Code, v.Message = to, code, message
	switch to {
	case Available:
		v.ReadyAt = now
		if v.Replaces != "" {
			if err := s.takePlace(ctx, tx, v, now); err != nil {
				return err
			}
		}
		if err := s.Money.StartStorage(ctx, tx, v.ID, now); err != nil {
			return err
		}
	case Deleting, Lost:
		if err := s.Money.EndLease(ctx, tx, v.ID, at); err != nil {
			return err
		}
	}
	if from == Creating && to != Available && v.Replaces != "" {
		// It will not take the place of the other, which is as it was.
		if _, err := tx.Exec(ctx, `UPDATE volume SET moving_to = '' WHERE id = ? AND moving_to = ?`, v.Replaces, v.ID); err != nil {
			return fmt.Errorf("give up moving volume %s: %w", v.Replaces, err)
		}
	}
	if to.Over() {
		v.EndedAt = now
		if err := s.Capacity.ReleaseAll(ctx, tx, v.ID); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM volume_attachment WHERE volume_id = ?`, v.ID); err != nil {
			return fmt.Errorf("detach volume %s: %w", v.ID, err)
		}
		v.Attachments = nil
	}
	if _, err := tx.Exec(ctx, `UPDATE volume SET state = ?, code = ?, message = ?, ready_at = ?, ended_at = ? WHERE id = ?`,
		string(v.State), v.Code, v.Message, store.Micros(v.ReadyAt), store.Micros(v.EndedAt), v.ID); err != nil {
		return fmt.Errorf("move volume %s: %w", v.ID, err)
	}
	s.Log.InfoContext(ctx, "volume moved", "volume", v.ID, "host", v.HostID, "event", e, "from", from, "to", to, "code", code)
	return nil
}

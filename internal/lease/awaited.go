package lease

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// A lease may be awaited: somebody has asked for it while nothing fitted, and it is
// accepted when something does. It is priced, checked and paid for as if it were asked
// for then.

// Awaited is what is rented as soon as there is room.
type Awaited struct {
	Request QuoteRequest `json:"request"` // of the plan on demand; its OfferID is not used
	Create  Create       `json:"create"`  // its QuoteID is not used
}

// CheckAwaited reports what is wrong with what is awaited whatever host it gets, and
// fills in what its template says.
func (s *Service) CheckAwaited(a *Awaited, gpus int, model string) error {
	a.Request.Plan = pricing.OnDemand
	if len(a.Create.Volumes) > 0 {
		return invalid("body.volumes", "invalid_volumes", "volumes are on one host, and a request that waits goes to any; attach them to the lease afterwards")
	}
	if err := s.CheckGang(&a.Request, &a.Create); err != nil {
		return err
	}
	if a.Request.DiskGiB < 1 || a.Request.DiskGiB > maxDiskGiB {
		return invalid("body.disk_gib", "invalid_disk_gib", "disk_gib is %d; want 1 to %d", a.Request.DiskGiB, maxDiskGiB)
	}
	t, err := s.template(&a.Request)
	if err != nil {
		return err
	}
	if gpus < t.Needs.GPUs {
		return fault.New(fault.Invalid, "offer_unfit", "template %s needs %d GPUs and %d are asked for", t.Name, t.Needs.GPUs, gpus).At("body.gpus")
	}
	if m, ok := s.Catalog.Model(model); ok && m.VRAMGB > 0 && t.Needs.VRAMGiB > m.VRAMGB {
		return fault.New(fault.Invalid, "offer_unfit", "template %s needs %d GiB of GPU memory and a %s has %d GB", t.Name, t.Needs.VRAMGiB, model, m.VRAMGB).At("body.gpu_model")
	}
	return nil
}

// SealAwaited returns what is awaited as it may be stored: its environment holds
// secrets.
func (s *Service) SealAwaited(a Awaited) (string, error) { return s.seal([]byte(mustJSON(a))) }

// OpenAwaited is the other way of SealAwaited.
func (s *Service) OpenAwaited(sealed string) (Awaited, error) {
	var a Awaited
	b, err := s.unseal(sealed)
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(b, &a)
}

// PriceAwaited says what an hour of an offer costs an account while it runs, without
// egress, in the account's currency. An offer that lacks what the template needs is a
// fault.
func (s *Service) PriceAwaited(ctx context.Context, accountID string, r QuoteRequest, o fleet.Offer, timeZone string) (money.Amount, error) {
	t, err := s.template(&r)
	if err != nil {
		return 0, err
	}
	if err := fits(t, o); err != nil {
		return 0, err
	}
	q, err := s.onDemand(ctx, accountID, r, o, timeZone, s.Clock())
	return q.Totals.PerHour, err
}

// onDemand prices an offer on demand for an account.
func (s *Service) onDemand(ctx context.Context, accountID string, r QuoteRequest, o fleet.Offer, timeZone string, now time.Time) (pricing.Quote, error) {
	r.Plan = pricing.OnDemand
	own, err := s.ownTariff(ctx, accountID, tariff(o))
	if err != nil {
		return pricing.Quote{}, err
	}
	if own, err = s.byPriceList(ctx, own, accountID, o, now); err != nil {
		return pricing.Quote{}, err
	}
	price, err := own.quote(r.pricing(o, timeZone), now)
	if err != nil {
		return pricing.Quote{}, unpriceable(err)
	}
	return price, nil
}

// PrepareAwaited prices what is awaited at an offer for the caller's account, as
// [Service.PrepareGang] does for several. It is a lease like any other: it stands alone.
func (s *Service) PrepareAwaited(ctx context.Context, p account.Principal, a Awaited, offerID, timeZone string) (*Gang, error) {
	a.Request.OfferID = offerID
	return s.PrepareGang(ctx, p, "", []Mate{{Request: a.Request, Create: a.Create}}, timeZone)
}

// Occupant is a lease that has GPUs.
type Occupant struct {
	LeaseID, AccountID, HostID string
	GPUModel                   string
	GPUs                       []string // UUIDs
	Simulated                  bool
	Since                      time.Time // when it was accepted
	Until                      time.Time // when it stops at the latest; zero: not known
}

// Occupants returns all leases that have GPUs, whoever they are of. It is for the
// cloud's own parts that plan what comes after them.
func (s *Service) Occupants(ctx context.Context) ([]Occupant, error) {
	var out []Occupant
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT id, account_id, host_id, gpu_model, gpu_uuids, simulated, created_at, deadline FROM lease WHERE state NOT IN ('ended','failed') ORDER BY id`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var o Occupant
			var gpus string
			var simulated, since, until int64
			if err := rows.Scan(&o.LeaseID, &o.AccountID, &o.HostID, &o.GPUModel, &gpus, &simulated, &since, &until); err != nil {
				return err
			}
			if err := json.Unmarshal([]byte(gpus), &o.GPUs); err != nil {
				return err
			}
			if len(o.GPUs) == 0 {
				continue
			}
			o.Simulated, o.Since, o.Until = simulated == 1, store.Time(since), store.Time(until)
			out = append(out, o)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("read leases with GPUs: %w", err)
	}
	return out, nil
}

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

// Holding is GPUs of a host that are held for an account: its own leases take them
// first, and nobody else's can. Held are GPUs with their share of CPUs and memory;
// disk is not.
//
// Which GPUs they are is not said before a lease has them: of each model as many
// stay free of others as are held and not in use by their account. So a holding
// takes no GPU out of an island that a lease could have whole.
type Holding struct {
	ID        string
	HostID    string
	AccountID string
	GPUModel  string
	GPUCount  int
}

// holder is whose GPUs of which model.
type holder struct{ account, model string }

// heldFrom is how many free GPUs of a model an account must leave to others;
// without an account, to all who hold any.
func (r *record) heldFrom(account, model string) int {
	n := 0
	for k, held := range r.held() {
		if k.model == model && k.account != account {
			n += max(0, held-r.used[k])
		}
	}
	return n
}

// heldFor is how many GPUs of a model are held for an account and not in use by it.
func (r *record) heldFor(account, model string) int {
	k := holder{account, model}
	return max(0, r.held()[k]-r.used[k])
}

func (r *record) held() map[holder]int {
	if len(r.Holdings) == 0 {
		return nil
	}
	sum := map[holder]int{}
	for _, h := range r.Holdings {
		sum[holder{h.AccountID, h.GPUModel}] += h.GPUCount
	}
	return sum
}

// free counts the GPUs of a model that no lease has and that are fit for one.
func (r *record) free(model string) int {
	n := 0
	for _, g := range r.GPUs {
		if g.Model == model && g.LeaseID == "" && g.ClaimedBy == "" && r.fit(g) {
			n++
		}
	}
	return n
}

// Hold holds GPUs of a host for an account, within the caller's transaction. Those
// that its leases have already count. If they are not there it is a Conflict fault
// "offer_taken". The same again is no change. The caller calls Refresh after the
// commit.
func (s *Service) Hold(ctx context.Context, tx *store.Tx, h Holding) error {
	if h.ID == "" || h.AccountID == "" || h.GPUModel == "" || h.GPUCount < 1 || h.GPUCount > maxGPUs {
		return fault.New(fault.Invalid, "bad_reservation", "%d GPUs of the model %q were asked for; want 1 to %d of a model", h.GPUCount, h.GPUModel, maxGPUs)
	}
	r, err := s.lock(ctx, tx, h.HostID)
	if err != nil {
		return err
	}
	for _, known := range r.Holdings {
		if known.ID == h.ID {
			return nil
		}
	}
	if err := s.open(r, true); err != nil {
		return err
	}
	if r.used == nil { // the first that is held here
		r.used = map[holder]int{}
		if err := readUsed(ctx, tx, ` WHERE g.host_id = ?`, []any{h.HostID}, map[string]*record{h.HostID: r}); err != nil {
			return fmt.Errorf("hold: %w", err)
		}
	}
	r.Holdings = append(r.Holdings, h)
	if free, want := r.free(h.GPUModel), r.heldFrom("", h.GPUModel); want > free {
		return fault.New(fault.Conflict, "offer_taken", "%d × %s were asked for on host %s, and %d fewer are free of leases and other reservations; search again", h.GPUCount, h.GPUModel, h.HostID, want-free)
	}
	if _, err := tx.Exec(ctx, `INSERT INTO fleet_holdings (id, host_id, account_id, gpu_model, gpu_count, created_at) VALUES (?, ?, ?, ?, ?, ?)`,
		h.ID, h.HostID, h.AccountID, h.GPUModel, h.GPUCount, store.Micros(s.clock())); err != nil {
		return fmt.Errorf("hold: %w", err)
	}
	return nil
}

// Unhold gives held GPUs back to the market; leases that have any of them keep
// them. It may be repeated. The caller calls Refresh after the commit.
func (s *Service) Unhold(ctx context.Context, tx *store.Tx, id string) error {
	if _, err := tx.Exec(ctx, `DELETE FROM fleet_holdings WHERE id = ?`, id); err != nil {
		return fmt.Errorf("give held GPUs back: %w", err)
	}
	return nil
}

// Delivers reports whether the GPUs of a holding are there for its account: its
// host answers and has that many, after those held before. If not, since is when
// they were there last, as far as is known. A host that is drained or off the market
// delivers: what is held on it can be used. Just after a start of the cloud it is
// not known.
func (s *Service) Delivers(hostID, holdingID string) (ok, known bool, since time.Time) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	h := s.hosts[hostID]
	now := s.clock()
	if h == nil {
		return false, true, now
	}
	switch state, _ := s.state(h); state {
	case StateListed, StateDegraded, StateUnlisted, StateDraining:
	case StateAwaited:
		return false, false, now // nobody knows yet; what it was before stands
	case StateOffline:
		return false, true, h.live.lastSeen
	default:
		return false, true, now
	}
	at := slices.IndexFunc(h.record.Holdings, func(x Holding) bool { return x.ID == holdingID })
	if at < 0 {
		return false, true, now
	}
	model := h.record.Holdings[at].GPUModel
	there, taken := 0, 0
	for _, g := range h.record.GPUs {
		if g.Model != model {
			continue
		}
		// One that is being cleaned after a lease is there in a moment.
		if g.Present && g.Health != protocol.Fenced {
			there++
		}
		if g.LeaseID != "" {
			taken++
		}
	}
	for k, held := range h.record.held() {
		if k.model == model {
			taken -= min(held, h.record.used[k])
		}
	}
	left := there - taken
	for _, x := range h.record.Holdings[:at+1] {
		if x.GPUModel == model {
			left -= x.GPUCount
		}
	}
	return left >= 0, true, now
}

// readHoldings adds what is held on hosts to their records.
func readHoldings(ctx context.Context, tx *store.Tx, where string, args []any, byID map[string]*record) error {
	rows, err := tx.Query(ctx, `SELECT g.id, g.host_id, g.account_id, g.gpu_model, g.gpu_count FROM fleet_holdings g`+where+` ORDER BY g.created_at, g.id`, args...)
	if err != nil {
		return err
	}
	any := false
	err = each(rows, func() error {
		var h Holding
		if err := rows.Scan(&h.ID, &h.HostID, &h.AccountID, &h.GPUModel, &h.GPUCount); err != nil {
			return err
		}
		if r := byID[h.HostID]; r != nil {
			r.Holdings, r.used, any = append(r.Holdings, h), map[holder]int{}, true
		}
		return nil
	})
	if err != nil || !any {
		return err
	}
	return readUsed(ctx, tx, where, args, byID)
}

// readUsed adds what accounts' leases have to the records of hosts on which
// something is held.
func readUsed(ctx context.Context, tx *store.Tx, where string, args []any, byID map[string]*record) error {
	rows, err := tx.Query(ctx, `SELECT g.host_id, g.account_id, g.gpu_model, SUM(g.gpu_count * g.compute) FROM fleet_reservations g`+where+` GROUP BY g.host_id, g.account_id, g.gpu_model`, args...)
	if err != nil {
		return err
	}
	return each(rows, func() error {
		var hostID string
		var k holder
		var n int
		if err := rows.Scan(&hostID, &k.account, &k.model, &n); err != nil {
			return err
		}
		if r := byID[hostID]; r != nil && r.used != nil && k.account != "" {
			r.used[k] = n
		}
		return nil
	})
}

// noteHoldings keeps in mind which hosts have something held. It needs s.mu.
func (s *Service) noteHoldings(hostID string) {
	if h := s.hosts[hostID]; h != nil && len(h.record.Holdings) > 0 {
		s.holding.Store(hostID, true)
	} else {
		s.holding.Delete(hostID)
	}
}

// entryFor is the entry of a host as one account sees it: with what is held for it.
func (s *Service) entryFor(hostID, account string) *entry {
	if account != "" {
		if _, some := s.holding.Load(hostID); some {
			s.mu.RLock()
			defer s.mu.RUnlock()
			return s.entry(s.hosts[hostID], account)
		}
	}
	return s.index.entry(hostID)
}

// heldOffers are the bundles that an account can have beyond what everybody can.
func (s *Service) heldOffers(account string) *segment {
	var extra []*entry
	if account == "" {
		return nil
	}
	s.holding.Range(func(id, _ any) bool {
		hostID := id.(string)
		r := s.record(hostID)
		if r == nil || !slices.ContainsFunc(r.Holdings, func(h Holding) bool { return h.AccountID == account }) {
			return true
		}
		e := s.entryFor(hostID, account)
		if e == nil {
			return true
		}
		if public := s.index.entry(hostID); public != nil {
			for _, known := range public.groups {
				for i := range e.groups {
					if g := &e.groups[i]; g.model == known.model {
						g.counts = slices.DeleteFunc(slices.Clone(g.counts), func(n int) bool { return slices.Contains(known.counts, n) })
					}
				}
			}
			e.groups = slices.DeleteFunc(e.groups, func(g group) bool { return len(g.counts) == 0 })
		}
		if len(e.groups) > 0 {
			extra = append(extra, e)
		}
		return true
	})
	if len(extra) == 0 {
		return nil
	}
	return newSegment(extra)
}

// checkCurve checks what a host takes off for reservations.
func (s *Service) checkCurve(c *pricing.Curve) error {
	if c == nil {
		return nil
	}
	if err := c.Check(s.cfg.Defaults.ReserveBounds); err != nil {
		return fault.New(fault.Invalid, "bad_discount", "reservations: %w", err).At("body.reserved")
	}
	return nil
}

// curve is what a host takes off for reservations now; nil: it has none on offer.
// Bounds may have become narrower than what a host has set.
func (s *Service) curve(l Listing) *pricing.Curve {
	if l.Reserve == nil || len(l.Reserve.Terms) == 0 || l.Reserve.Check(s.cfg.Defaults.ReserveBounds) != nil {
		return nil
	}
	return l.Reserve
}

// errHeld says that free GPUs are held for others.
var errHeld = errors.New("the GPUs that are free are held for others' reservations")

// ReserveTerms is what a host asks for another term of a reservation.
type ReserveTerms struct {
	Currency              money.Currency
	PerGPUHour            money.Rate // on demand
	Curve                 pricing.Curve
	CommissionBasisPoints int64
}

// ReserveTerms returns what a host asks for GPUs of a model that are reserved now. If
// it takes no reservations, or nothing new, it is a Conflict fault "not_offered".
func (s *Service) ReserveTerms(hostID, gpuModel string) (ReserveTerms, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	h := s.hosts[hostID]
	if h == nil {
		return ReserveTerms{}, fault.New(fault.NotFound, "offer_gone", "the host %q is gone", hostID)
	}
	state, _ := s.state(h)
	curve := s.curve(h.record.Listing)
	if curve == nil || (state != StateListed && state != StateDegraded) {
		return ReserveTerms{}, fault.New(fault.Conflict, "not_offered", "host %s is %s, or offers no reservations any more", hostID, state)
	}
	d := s.cfg.Defaults
	return ReserveTerms{d.Currency, s.terms(h.record.Listing).gpu(gpuModel), *curve, d.CommissionBasisPoints}, nil
}

package waiting

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/money"
	"suanli.dev/internal/notify"
	"suanli.dev/internal/placement"
	"suanli.dev/internal/placement/queue"
	"suanli.dev/internal/store"
)

// errOvertaken means that another replica, or the renter, was first.
var errOvertaken = errors.New("the request was changed at the same time")

// Turn starts what can be started, gives up what has waited too long, and says of the
// others what they wait for. One request's failure does not stop the others.
func (s *Service) Turn(ctx context.Context) error {
	var open []*Request
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		open, err = query(ctx, tx, `ended_at = 0 ORDER BY id`)
		return err
	})
	if err != nil || len(open) == 0 {
		return err
	}
	now := s.now()
	var failed []error
	sides := map[bool][]*Request{}
	for _, r := range open {
		if now.Before(r.ExpiresAt) {
			sides[r.Simulated] = append(sides[r.Simulated], r)
			continue
		}
		if err := s.expire(ctx, r.ID); err != nil {
			failed = append(failed, fmt.Errorf("waiting request %s: %w", r.ID, err))
		}
	}
	if len(sides) == 0 {
		return errors.Join(failed...)
	}
	occupants, err := s.Leases.Occupants(ctx)
	if err != nil {
		return errors.Join(append(failed, err)...)
	}
	for _, simulated := range []bool{false, true} {
		if list := sides[simulated]; len(list) > 0 {
			if err := s.plan(ctx, list, occupants, s.Capacity.Rooms(simulated), now); err != nil {
				failed = append(failed, err)
			}
		}
	}
	return errors.Join(failed...)
}

// why is what a request waits for.
type why struct{ code, message string }

// plan starts those of a list that the rules of the queue let start. Real and simulated
// GPUs never meet, so each has its own.
func (s *Service) plan(ctx context.Context, list []*Request, occupants []lease.Occupant, rooms []fleet.Room, now time.Time) error {
	var failed []error
	quotas, quotaErr := s.quotas(ctx, list, rooms)
	policy := queue.Policy{Backfill: true, FairShare: true, Quotas: quotas, BackOff: s.BackOff}
	byID := map[string]*Request{}
	waits := map[string]why{}
	prices := pricesOf{Service: s, rooms: rooms, known: map[priceKey]priced{}}
	var jobs []queue.Job
	since := ages(list)
	for _, r := range list {
		if backsOff(policy, r, now) {
			continue // and keeps what was said of it
		}
		allowed, because, err := prices.allowed(ctx, r)
		if _, known := quotas[r.AccountID]; !known {
			err = quotaErr
		}
		if err != nil {
			if err := s.failed(ctx, r.ID, err); err != nil {
				failed = append(failed, fmt.Errorf("waiting request %s: %w", r.ID, err))
			}
			continue
		}
		if because != (why{}) {
			waits[r.ID] = because
			continue
		}
		byID[r.ID] = r
		jobs = append(jobs, queue.Job{ID: r.ID, Owner: r.AccountID, Request: r.placement(allowed), Submitted: since[r.ID], Estimate: r.Estimate, Failures: r.Failures, LastFailure: r.FailedAt})
	}
	starts, left := decide(policy, jobs, occupants, rooms, now)
	begun := map[string]bool{}
	for _, st := range starts {
		r := byID[st.Job.ID]
		begun[r.ID] = true
		if err := s.start(ctx, r, st.Placement.Nodes[0].HostID); err != nil && !errors.Is(err, errOvertaken) {
			if err := s.failed(ctx, r.ID, err); err != nil {
				failed = append(failed, fmt.Errorf("waiting request %s: %w", r.ID, err))
			}
		}
	}
	used := held(occupants)
	for _, st := range starts {
		used[st.Job.Owner] += st.Job.GPUs()
	}
	for _, j := range jobs {
		if begun[j.ID] {
			continue
		}
		r := byID[j.ID]
		_, fits := left.Place(j.Request)
		switch q := quotas[j.Owner]; {
		case used[j.Owner]+j.GPUs() > q.Milli+q.Borrow:
			waits[j.ID] = why{"quota_gpus", "this account has as many GPUs as it may; it goes on when a lease has ended, or the operator allows more"}
		case fits:
			waits[j.ID] = why{"behind_others", "there is room for it, which is kept for a request that is before it"}
		default:
			waits[j.ID] = why{"no_room", fmt.Sprintf("no host that will do has %d × %s and %d GiB of disk free", r.GPUs, r.GPUModel, r.DiskGiB)}
		}
	}
	return errors.Join(append(failed, s.note(ctx, list, waits))...)
}

// backsOff reports whether a request is left alone since accepting its lease failed a
// short while ago. It is the queue's own rule, by which it needs no price either.
func backsOff(p queue.Policy, r *Request, now time.Time) bool {
	return r.Failures > 0 && now.Before(r.FailedAt.Add(p.BackOff<<min(r.Failures-1, 6)))
}

// decide says which jobs start now, and leaves the fleet as it is then. GPUs that leases
// of the spot market have are claimed only for what finds no others.
func decide(p queue.Policy, jobs []queue.Job, occupants []lease.Occupant, rooms []fleet.Room, now time.Time) ([]queue.Start, *placement.Fleet) {
	var running []queue.Running
	for _, o := range occupants {
		r := queue.Running{
			Job:       queue.Job{ID: o.LeaseID, Owner: o.AccountID, Request: placement.Request{Count: len(o.GPUs)}},
			Placement: placement.Placement{Nodes: []placement.Choice{{HostID: o.HostID, GPUs: o.GPUs}}}, Started: o.Since,
		}
		if !o.Until.IsZero() {
			r.Estimate = max(time.Second, o.Until.Sub(o.Since))
		}
		running = append(running, r)
	}
	f := placement.NewFleet(placement.Standard())
	claimable := map[string]bool{}
	for _, room := range rooms {
		f.Set(room.Host)
		for _, uuid := range room.Claimable {
			claimable[uuid] = true
		}
	}
	starts := cycles(f, p, jobs, running, now)
	if len(claimable) == 0 || len(starts) == len(jobs) {
		return starts, f
	}
	g := placement.NewFleet(placement.Standard())
	for _, room := range rooms {
		h := room.Host
		h.GPUs = slices.Clone(h.GPUs)
		for i := range h.GPUs {
			h.GPUs[i].Free = h.GPUs[i].Free || claimable[h.GPUs[i].UUID]
		}
		g.Set(h)
	}
	for i, r := range running {
		if slices.ContainsFunc(r.Placement.Nodes[0].GPUs, func(uuid string) bool { return claimable[uuid] }) {
			// Its GPUs count as free already; it counts for what its account has.
			running[i].Placement, running[i].Estimate = placement.Placement{}, 0
		}
	}
	begun := map[string]bool{}
	for _, st := range starts {
		g.Take(st.Job.Request, st.Placement)
		running = append(running, queue.Running{Job: st.Job, Placement: st.Placement, Started: now})
		begun[st.Job.ID] = true
	}
	rest := slices.DeleteFunc(slices.Clone(jobs), func(j queue.Job) bool { return begun[j.ID] })
	return append(starts, cycles(g, p, rest, running, now)...), g
}

// cycles decides for one GPU model after the other: who waits for one holds up nobody who
// wants another.
func cycles(f *placement.Fleet, p queue.Policy, jobs []queue.Job, running []queue.Running, now time.Time) []queue.Start {
	of := map[string][]queue.Job{}
	for _, j := range jobs {
		if j.Estimate == 0 {
			j.Estimate = longestRun // beside what is kept for another it may start, and not in its place
		}
		of[j.Request.Models[0]] = append(of[j.Request.Models[0]], j)
	}
	var out []queue.Start
	for _, model := range slices.Sorted(maps.Keys(of)) {
		starts, _ := queue.Cycle(f, p, of[model], running, now)
		for _, st := range starts {
			running = append(running, queue.Running{Job: st.Job, Placement: st.Placement, Started: now})
		}
		out = append(out, starts...)
	}
	return out
}

// unlimited is more GPU than there is.
const unlimited = int64(1) << 50

// quotas is what the accounts of requests may have. What has no limit is all that there
// is, so that shares of accounts with and without one can be compared. The error is of
// accounts that are left out.
func (s *Service) quotas(ctx context.Context, list []*Request, rooms []fleet.Room) (map[string]queue.Quota, error) {
	total := int64(1)
	for _, r := range rooms {
		total += int64(len(r.GPUs)) * placement.WholeMilli
	}
	out := map[string]queue.Quota{}
	var failed []error
	for _, r := range list {
		if _, known := out[r.AccountID]; known {
			continue
		}
		gpus, err := s.Quota(ctx, r.AccountID)
		switch {
		case err != nil:
			failed = append(failed, fmt.Errorf("quota of account %s: %w", r.AccountID, err))
		case gpus > 0:
			out[r.AccountID] = queue.Quota{Milli: int64(gpus) * placement.WholeMilli}
		default:
			out[r.AccountID] = queue.Quota{Milli: total, Borrow: unlimited}
		}
	}
	return out, errors.Join(failed...)
}

// pricesOf knows what bundles cost, for as long as a turn takes.
type pricesOf struct {
	*Service
	rooms []fleet.Room
	known map[priceKey]priced
}

type priceKey struct {
	account, kind, model, template string
	gpus                           int
	diskGiB                        int64
}

type priced struct {
	perHour money.Amount
	sold    bool // there is such a bundle, and it has what the template needs
	err     error
}

// allowed returns the labels of the kinds of hosts that a request must not go to, since
// they have no such bundle, lack what its template needs or cost more than it pays. If
// no kind is left, because says which of that it is.
func (p *pricesOf) allowed(ctx context.Context, r *Request) (forbid map[string]string, because why, err error) {
	forbid = map[string]string{}
	seen := map[string]bool{}
	var lowest money.Amount
	dear, any := false, false
	for _, room := range p.rooms {
		if seen[room.Kind] || r.Region != "" && room.Region != r.Region || r.Zone != "" && room.Zone != r.Zone {
			continue
		}
		seen[room.Kind] = true
		c := p.price(ctx, r, room)
		if c.err != nil {
			return nil, why{}, c.err
		}
		if c.sold && c.perHour <= r.MaxPerHour {
			any = true
			continue
		}
		forbid[fleet.KindLabel+":"+room.Kind] = "1"
		if c.sold && (!dear || c.perHour < lowest) {
			dear, lowest = true, c.perHour
		}
	}
	switch {
	case any:
		return forbid, why{}, nil
	case dear:
		return nil, why{"price_above_max", fmt.Sprintf("an hour costs %s %s or more now, and it pays %s at most", lowest.Display(), r.Currency, r.MaxPerHour.Display())}, nil
	}
	return nil, why{"no_such_host", fmt.Sprintf("no host on the market lets %d × %s as it wants them, whether free or not", r.GPUs, r.GPUModel)}, nil
}

// price is what a bundle of a kind of hosts costs, whether it is free or not.
func (p *pricesOf) price(ctx context.Context, r *Request, room fleet.Room) priced {
	k := priceKey{r.AccountID, room.Kind, r.GPUModel, r.Template, r.GPUs, r.DiskGiB}
	if c, ok := p.known[k]; ok {
		return c
	}
	var c priced
	o, sold, err := p.Capacity.OfferWhenEmpty(ctx, room.ID, r.GPUModel, r.GPUs, r.DiskGiB, r.TimeZone)
	if c.err = err; err == nil && sold {
		c.perHour, c.err = p.Leases.PriceAwaited(ctx, r.AccountID, lease.QuoteRequest{Template: r.Template, Image: r.Image, DiskGiB: r.DiskGiB}, o, r.TimeZone)
		if f, ok := fault.As(c.err); ok && f.Kind == fault.Invalid {
			c.err = nil // it lacks what the template needs, or its price cannot be said
		} else {
			c.sold = c.err == nil
		}
	}
	p.known[k] = c
	return c
}

// start accepts the lease of a request on a host, at the price of now: quote, GPUs, hold,
// lease and the end of the wait are written in one transaction, or nothing is.
func (s *Service) start(ctx context.Context, r *Request, hostID string) error {
	by, err := s.Acting(ctx, r.AccountID, r.UserID)
	if err != nil {
		return err
	}
	a, err := s.Leases.OpenAwaited(r.wish)
	if err != nil {
		return fmt.Errorf("open what it wants to run: %w", err)
	}
	if r.Estimate > 0 {
		a.Create.Deadline = s.now().Add(r.Estimate)
	}
	g, err := s.Leases.PrepareAwaited(ctx, by, a, fleet.OfferID(hostID, r.GPUModel, r.GPUs), r.TimeZone)
	if err != nil {
		return err
	}
	if cost := g.Quotes()[0].Price.Totals.PerHour; cost > r.MaxPerHour {
		return fault.New(fault.Conflict, "price_moved", "an hour costs %s %s by now, and it pays %s at most", cost.Display(), r.Currency, r.MaxPerHour.Display())
	}
	var leaseID string
	err = s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		now, err := lock(ctx, tx, r.ID)
		if err != nil {
			return err
		}
		if now.State != Waiting {
			return errOvertaken
		}
		leases, err := g.Accept(ctx, tx)
		if err != nil {
			return err
		}
		now.LeaseID, leaseID = leases[0].ID, leases[0].ID
		at := s.now()
		if err := now.move(Start, "", "", at); err != nil {
			return err
		}
		if err := save(ctx, tx, now); err != nil {
			return err
		}
		return s.tell(ctx, tx, now, notify.KindWaitingStarted, at)
	})
	if err != nil {
		return err
	}
	g.Announce(ctx)
	s.Log.InfoContext(ctx, "a waiting request has become a lease", "request", r.ID, "account", r.AccountID, "lease", leaseID)
	return nil
}

// failed notes that a request could not be started. What time, money or others may cure
// lets it wait on, after a pause; anything else is its end. The first time that it is
// money, its account is told: there was room.
func (s *Service) failed(ctx context.Context, id string, cause error) error {
	f, known := fault.As(cause)
	code, message := "internal", "the cloud could not start it; it is tried again"
	if known && f.Kind != fault.Internal {
		code, message = f.Code, f.Message
	} else if ctx.Err() != nil {
		return ctx.Err() // it is not to blame that this process ends
	} else {
		s.Log.ErrorContext(ctx, "a waiting request could not be started; it is tried again", "request", id, "error", cause)
	}
	return s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		r, err := lock(ctx, tx, id)
		if err != nil || r.State.Over() {
			return err
		}
		now := s.now()
		if known && forGood(f) {
			if err := r.move(Fail, code, message, now); err != nil {
				return err
			}
			if err := save(ctx, tx, r); err != nil {
				return err
			}
			return s.tell(ctx, tx, r, notify.KindWaitingFailed, now)
		}
		told := r.Code == code
		r.Failures, r.FailedAt, r.Code, r.Message = r.Failures+1, now, code, message
		if err := save(ctx, tx, r); err != nil {
			return err
		}
		if known && f.Kind == fault.Payment && !told {
			return s.tell(ctx, tx, r, notify.KindWaitingHeldBack, now)
		}
		return nil
	})
}

// forGood reports whether a fault is of the request itself, so that it will be the same
// whenever it is tried.
func forGood(f *fault.Error) bool {
	switch f.Code {
	case "offer_gone", "offer_unfit", "offer_not_found", "trial_own_host": // of the host that was chosen
		return false
	}
	switch f.Kind {
	case fault.Invalid, fault.Unauthorized, fault.Forbidden, fault.NotFound, fault.Gone:
		return true
	}
	return false
}

// expire gives up a request whose time is over.
func (s *Service) expire(ctx context.Context, id string) error {
	return s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		r, err := lock(ctx, tx, id)
		if err != nil || r.State.Over() {
			return err
		}
		now := s.now()
		if err := r.move(Expire, r.Code, r.Message, now); err != nil {
			return err
		}
		if err := save(ctx, tx, r); err != nil {
			return err
		}
		return s.tell(ctx, tx, r, notify.KindWaitingExpired, now)
	})
}

// note writes what requests wait for, where that is another thing than before.
func (s *Service) note(ctx context.Context, list []*Request, waits map[string]why) error {
	var changed []*Request
	for _, r := range list {
		if w, ok := waits[r.ID]; ok && (r.Code != w.code || r.Message != w.message) {
			changed = append(changed, r)
		}
	}
	for part := range slices.Chunk(changed, 200) {
		err := s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			for _, r := range part {
				w := waits[r.ID]
				if _, err := tx.Exec(ctx, `UPDATE waiting_request SET code = ?, message = ? WHERE id = ? AND ended_at = 0`, w.code, w.message, r.ID); err != nil {
					return fmt.Errorf("note what a request waits for: %w", err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

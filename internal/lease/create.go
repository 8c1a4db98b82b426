package lease

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/catalog"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

// defaultDiskGiB is the disk of a lease whose template and renter name none.
const defaultDiskGiB = 10

// Price freezes the price of an offer for the caller's account. timeZone is the
// account's, in which months are counted.
func (s *Service) Price(ctx context.Context, p account.Principal, r QuoteRequest, timeZone string) (*Quote, error) {
	if r.Plan == "" {
		r.Plan = pricing.OnDemand
	}
	if err := s.checkPlan(&r); err != nil {
		return nil, err
	}
	offer, err := s.priceable(ctx, p.AccountID, &r, timeZone)
	if err != nil {
		return nil, err
	}
	now := s.Clock()
	ask := r.pricing(offer, timeZone)
	own, err := s.ownTariff(ctx, p.AccountID, tariff(offer))
	if err != nil {
		return nil, err
	}
	if r.Plan == pricing.Monthly {
		m, err := s.market(offer)
		if err != nil {
			return nil, unpriceable(err)
		}
		perMonth, err := own.month(*m.PerMonth)
		if err != nil {
			return nil, unpriceable(err)
		}
		p, err := pricing.NewPrepaid(now, timeZone, perMonth, r.TermMonths, m.Terms, r.Renews)
		if err != nil {
			return nil, unpriceable(err)
		}
		ask.Prepaid = &p
	}
	if r.Plan == pricing.OnDemand {
		if own, err = s.byPriceList(ctx, own, p.AccountID, offer, now); err != nil {
			return nil, err
		}
	}
	price, err := own.quote(ask, now)
	if err != nil {
		return nil, unpriceable(err)
	}
	q := &Quote{ID: ident.New(ident.Quote), AccountID: p.AccountID, Offer: offer, Request: r, Price: price, CreatedAt: now, ValidUntil: now.Add(s.QuoteValid)}
	err = s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error { return insertQuote(ctx, tx, q) })
	return q, err
}

// priceable checks a request, fills in what it leaves to its template, and returns
// the offer that it is for.
func (s *Service) priceable(ctx context.Context, accountID string, r *QuoteRequest, timeZone string) (fleet.Offer, error) {
	if r.RunFor < 0 || r.RunFor > maxRunFor {
		return fleet.Offer{}, invalid("body.run_seconds", "invalid_run_seconds", "run_seconds is %d; want 0 to %d", int64(r.RunFor/time.Second), int64(maxRunFor/time.Second))
	}
	if r.EgressBytes < 0 || r.EgressBytes > 1e18 {
		return fleet.Offer{}, invalid("body.egress_bytes", "invalid_egress_bytes", "egress_bytes is %d; want 0 to 10^18", r.EgressBytes)
	}
	t, err := s.template(r)
	if err != nil {
		return fleet.Offer{}, err
	}
	if r.DiskGiB == 0 {
		r.DiskGiB = max(t.DiskGiB, defaultDiskGiB)
	}
	if r.DiskGiB < 1 || r.DiskGiB > maxDiskGiB {
		return fleet.Offer{}, invalid("body.disk_gib", "invalid_disk_gib", "disk_gib is %d; want 1 to %d", r.DiskGiB, maxDiskGiB)
	}
	offer, err := s.Capacity.OfferTo(ctx, accountID, r.OfferID, r.DiskGiB, timeZone)
	if err != nil {
		return fleet.Offer{}, err
	}
	return offer, fits(t, offer)
}

// pricing is the request in the terms of the rules of price.
func (r QuoteRequest) pricing(o fleet.Offer, timeZone string) pricing.Request {
	return pricing.Request{
		Plan: r.Plan, DiskGiB: r.DiskGiB, TimeZone: timeZone, EgressBytes: r.EgressBytes,
		RunSeconds: int64(r.RunFor / time.Second), Simulated: o.Simulated,
	}
}

func unpriceable(err error) error {
	return invalid("body", "cannot_price", "this cannot be priced: %v; ask for less", err)
}

// template resolves what the request wants to run, and fills in its image.
func (s *Service) template(r *QuoteRequest) (catalog.Template, error) {
	var t catalog.Template
	if r.Template != "" {
		var ok bool
		if t, ok = s.Catalog.Template(r.Template); !ok {
			return t, invalid("body.template", "unknown_template", "there is no template %q; list the templates to see their names", r.Template)
		}
	}
	if r.Image == "" {
		r.Image = t.Image
	}
	if r.Image == "" {
		return t, invalid("body.image", "missing_image", "name a template or an image to run")
	}
	return t, checkImage(r.Image, s.InnerRegistries)
}

// Accept turns a quote into a lease: in one transaction the quote is used up,
// the GPUs are taken, the money is held and the lease is written, or nothing is.
func (s *Service) Accept(ctx context.Context, p account.Principal, c Create) (*Lease, error) {
	now := s.Clock()
	if err := c.validate(now); err != nil {
		return nil, err
	}
	quota, err := s.Tenants.Quota(ctx, p.AccountID)
	if err != nil {
		return nil, err
	}
	var l *Lease
	var change Change
	err = s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		q, err := loadQuote(ctx, tx, p.AccountID, c.QuoteID)
		if err != nil {
			return err
		}
		if q.LeaseID != "" {
			return fault.New(fault.Conflict, "quote_used", "quote %s was accepted already, by lease %s", q.ID, q.LeaseID)
		}
		if !now.Before(q.ValidUntil) {
			return fault.New(fault.Gone, "quote_expired", "quote %s was valid until %s; ask for a new one", q.ID, q.ValidUntil.Format(time.RFC3339))
		}
		l, change, err = s.take(ctx, tx, p, q, c, quota, now)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.accepted(ctx, l, change)
	return l, nil
}

// take is what of accepting a quote is the same whoever asks: all that is written.
func (s *Service) take(ctx context.Context, tx *store.Tx, p account.Principal, q *Quote, c Create, quota account.Quota, now time.Time) (*Lease, Change, error) {
	var change Change
	l, err := s.build(p, q, c, now)
	if err != nil {
		return nil, change, err
	}
	err = func() error {
		if err := s.allowed(ctx, tx, l); err != nil {
			return err
		}
		var direct []int
		if q.Offer.DirectPorts {
			direct = c.Ports // the gateway reaches them on any host
		}
		a, err := s.Capacity.Reserve(ctx, tx, fleet.Reservation{
			LeaseID: l.ID, AccountID: holder(q.Price.Plan, l.AccountID), HostID: q.Offer.HostID, GPUModel: q.Offer.GPUModel, GPUCount: q.Offer.GPUCount,
			CPUMillis: q.Offer.CPUMillis, MemoryMiB: q.Offer.MemoryMiB, DiskGiB: q.Request.DiskGiB, Ports: direct, Spot: c.bidID != "",
		})
		if err != nil {
			return err
		}
		l.GPUs, l.ProviderID, l.Simulated, l.Bundle.DirectPorts = a.GPUs, a.ProviderID, a.Simulated, a.DirectPorts
		if a.Waits && l.Price.Prepaid != nil {
			// Months are paid from the acceptance on: none of them is waited away.
			return fault.New(fault.Conflict, "offer_taken", "leases of the spot market have these GPUs; months in advance begin at once, so rent another offer, or this one on demand")
		}
		if a.Waits {
			l.WaitsUntil = now.Add(s.WaitNotice)
			l.Code, l.Message = "waiting", "waits, free of charge, until leases of the spot market have left its GPUs"
		}
		if err := s.attach(ctx, tx, l, c.Volumes); err != nil {
			return err
		}
		if err := s.Money.BeginLease(ctx, tx, billing.Terms{LeaseID: l.ID, AccountID: l.AccountID, ProviderID: l.ProviderID, Quote: l.Price, Simulated: l.Simulated, SpendingCap: l.SpendingCap, OnLapse: q.Request.OnLapse,
			GPUModel: q.Offer.GPUModel, Zone: q.Offer.Zone, GPUs: int64(q.Offer.GPUCount)}); err != nil {
			return err
		}
		// After BeginLease, which has locked the account: of two that are accepted
		// at the same time the second counts the first.
		if err := s.checkQuota(ctx, tx, p.AccountID, quota, q.Offer.GPUCount); err != nil {
			return err
		}
		if err := s.onTrial(ctx, tx, l); err != nil {
			return err
		}
		if err := insertLease(ctx, tx, l); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE quote SET lease_id=? WHERE id=? AND lease_id=''`, l.ID, q.ID); err != nil {
			return err
		}
		change = Change{ID: ident.New(ident.Event), LeaseID: l.ID, AccountID: l.AccountID, At: now, Event: "accept", To: Accepted, Code: l.Code, Message: l.Message}
		if err := insertChange(ctx, tx, change); err != nil {
			return err
		}
		return s.Tenants.Audit(ctx, tx, p, "lease.accept", l.ID, map[string]string{"quote": q.ID, "host": l.HostID})
	}()
	return l, change, err
}

// accepted is what follows the commit of a new lease.
func (s *Service) accepted(ctx context.Context, l *Lease, change Change) {
	s.track(l)
	s.Capacity.Refresh(ctx, l.HostID)
	s.announce(change)
	s.kick(l.HostID)
	s.Log.InfoContext(ctx, "lease accepted", "lease", l.ID, "account", l.AccountID, "host", l.HostID, "gpus", len(l.GPUs), "simulated", l.Simulated)
}

// build makes the lease's row out of quote, template and the renter's wishes.
func (s *Service) build(p account.Principal, q *Quote, c Create, now time.Time) (*Lease, error) {
	var template catalog.Template
	spec := Spec{Entrypoint: c.Entrypoint, Command: c.Command, StartScript: c.StartScript, NoticeSignal: c.NoticeSignal, NoticeCommand: c.NoticeCommand, Environment: map[string]string{}, Ports: slices.Clone(c.Ports), Cluster: c.cluster}
	if q.Request.Template != "" {
		t, ok := s.Catalog.Template(q.Request.Template)
		if !ok {
			return nil, fault.New(fault.Gone, "unknown_template", "template %q is no longer offered; ask for a new quote", q.Request.Template)
		}
		template = t
		maps.Copy(spec.Environment, t.Environment)
		for _, name := range t.GeneratedSecrets {
			spec.Environment[name] = rand.Text()
		}
		if len(spec.Entrypoint) == 0 && len(spec.Command) == 0 {
			spec.Entrypoint, spec.Command = t.Entrypoint, t.Command
		}
		if spec.StartScript == "" {
			spec.StartScript = t.StartScript
		}
		if spec.NoticeSignal == "" && spec.NoticeCommand == "" {
			spec.NoticeSignal, spec.NoticeCommand = t.NoticeSignal, t.NoticeCommand
		}
		for _, port := range t.Ports {
			if !slices.Contains(spec.Ports, port.Port) {
				spec.Ports = append(spec.Ports, port.Port)
			}
		}
	}
	maps.Copy(spec.Environment, c.Environment)
	sealed, err := s.seal([]byte(mustJSON(spec)))
	if err != nil {
		return nil, err
	}
	token, err := s.sealLinkKey(newLinkKey())
	if err != nil {
		return nil, err
	}
	id := ident.New(ident.Lease)
	name := c.Name
	if name == "" {
		name = "lease-" + id[len(id)-6:]
	}
	labels := c.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	var ceiling money.Amount
	if c.SpendingCap != nil {
		ceiling = *c.SpendingCap
	}
	o := q.Offer
	return &Lease{
		ID: id, AccountID: p.AccountID, UserID: p.UserID, ProviderID: o.ProviderID, HostID: o.HostID, QuoteID: q.ID,
		Name: name, Labels: labels, Template: q.Request.Template, Image: q.Request.Image, GPUModel: o.GPUModel,
		Bundle: Bundle{GPUCount: o.GPUCount, VRAMMiB: o.VRAMMiB, CPUMillis: o.CPUMillis, MemoryMiB: o.MemoryMiB,
			DiskGiB: q.Request.DiskGiB, Region: o.Region, Zone: o.Zone},
		Price: q.Price, Simulated: o.Simulated, State: Accepted, Generation: 1, Deadline: c.Deadline, Idle: s.idleStop(c.Idle, template),
		SpendingCap: ceiling, BidID: c.bidID, GangID: c.gangID, GangWaits: c.gangID != "", CreatedAt: now, ChangedAt: now, spec: sealed, accessToken: token,
	}, nil
}

// idleStop is when a new lease is stopped for want of use: as its renter says, or
// else its template, or else the cloud. Whoever provides the host has no say in it.
func (s *Service) idleStop(renter *IdleStop, t catalog.Template) IdleStop {
	switch {
	case renter != nil:
		return *renter
	case t.IdleStop != nil:
		return IdleStop{After: time.Duration(t.IdleStop.AfterSeconds) * time.Second, GPUPercent: t.IdleStop.GPUPercent, CPUPercent: t.IdleStop.CPUPercent}
	}
	return s.DefaultIdle
}

// checkQuota counts what the account has, within the accepting transaction.
func (s *Service) checkQuota(ctx context.Context, tx *store.Tx, accountID string, q account.Quota, gpus int) error {
	leases, have, err := countHeld(ctx, tx, accountID)
	if err != nil {
		return err
	}
	if q.MaxLeases > 0 && leases+1 > q.MaxLeases {
		return fault.New(fault.TooMany, "quota_leases", "this account has %d leases and may have %d; end one, or ask the operator for more", leases, q.MaxLeases)
	}
	if q.MaxGPUs > 0 && have+gpus > q.MaxGPUs {
		return fault.New(fault.TooMany, "quota_gpus", "this account rents %d GPUs, asks for %d more and may have %d; end a lease, or ask the operator for more", have, gpus, q.MaxGPUs)
	}
	return nil
}

// fits reports what an offer lacks for a template, if anything.
func fits(t catalog.Template, o fleet.Offer) error {
	n := t.Needs
	lacks := func(what string, want, have any) error {
		return fault.New(fault.Invalid, "offer_unfit", "template %s needs %s %v and this offer has %v; search for one that fits", t.Name, what, want, have).At("body.offer_id")
	}
	switch {
	case o.GPUCount < n.GPUs:
		return lacks("GPUs:", n.GPUs, o.GPUCount)
	case o.VRAMMiB < int64(n.VRAMGiB)<<10:
		return lacks("GPU memory in GiB:", n.VRAMGiB, o.VRAMMiB>>10)
	case o.MemoryMiB < int64(n.MemoryGiB)<<10:
		return lacks("memory in GiB:", n.MemoryGiB, o.MemoryMiB>>10)
	case n.CUDA != "" && catalog.CompareVersions(o.MaxCUDA, n.CUDA) < 0:
		return lacks("CUDA", n.CUDA, orNone(o.MaxCUDA))
	case n.Driver != "" && catalog.CompareVersions(o.Driver, n.Driver) < 0:
		return lacks("driver", n.Driver, orNone(o.Driver))
	case n.ComputeCapability != "" && (o.GPUVendor != string(protocol.NVIDIA) || catalog.CompareVersions(o.ComputeCapability, n.ComputeCapability) < 0):
		return lacks("compute capability", n.ComputeCapability, orNone(o.ComputeCapability))
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func tariff(o fleet.Offer) pricing.Tariff {
	p := o.Price
	return pricing.Tariff{Currency: p.Currency, Compute: p.Compute, Storage: p.Storage, Egress: p.Egress,
		Granularity: pricing.Granularity(p.Granularity), MinimumSeconds: p.MinimumSeconds, CommissionBasisPoints: p.CommissionBasisPoints}
}

func (s *Service) seal(plain []byte) (string, error) {
	b, err := s.Vault.Seal(plain)
	return base64.StdEncoding.EncodeToString(b), err
}

func (s *Service) unseal(text string) ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	return s.Vault.Open(b)
}

// open opens the sealed part of a lease.
func (s *Service) open(l *Lease) (Spec, error) {
	var spec Spec
	b, err := s.unseal(l.spec)
	if err != nil {
		return spec, err
	}
	return spec, json.Unmarshal(b, &spec)
}

// Settings returns what the lease runs, secrets included; for its own account.
func (s *Service) Settings(l *Lease) (Spec, error) { return s.open(l) }

// pidsPerCPU bounds processes and threads of an instance; a data loader of
// PyTorch starts a few dozen threads a core.
const pidsPerCPU = 1024

// instanceSpec is what the host needs to run the lease.
func (s *Service) instanceSpec(ctx context.Context, l *Lease) (*protocol.InstanceSpec, error) {
	spec, err := s.open(l)
	if err != nil {
		return nil, err
	}
	keys, err := s.Tenants.AuthorizedKeys(ctx, l.AccountID)
	if err != nil {
		return nil, err
	}
	shm := spec.ShmMiB
	if shm == 0 {
		shm = l.Bundle.MemoryMiB / 2 // the usual share of tmpfs; PyTorch's loaders need it
	}
	var activity *protocol.Activity
	if t, ok := s.Catalog.Template(l.Template); ok && t.Activity != nil {
		activity = &protocol.Activity{Kind: protocol.ActivityKind(t.Activity.Kind), Port: t.Activity.Port, TokenVariable: t.Activity.TokenVariable}
	}
	var volumes []protocol.VolumeMount
	if s.Volumes != nil {
		if volumes, err = s.Volumes.Mounts(ctx, l.ID); err != nil {
			return nil, err
		}
	}
	return &protocol.InstanceSpec{
		Volumes: volumes, Activity: activity, Image: l.Image, Entrypoint: spec.Entrypoint, Command: spec.Command, StartScript: spec.StartScript, NoticeSignal: spec.NoticeSignal, NoticeCommand: spec.NoticeCommand,
		Environment: spec.Environment, Ports: spec.Ports, DirectPorts: l.Bundle.DirectPorts, GPUs: l.GPUs,
		CPUMillis: l.Bundle.CPUMillis, MemoryMiB: l.Bundle.MemoryMiB, DiskMiB: l.Bundle.DiskGiB << 10,
		PIDs: max(pidsPerCPU, pidsPerCPU*l.Bundle.CPUMillis/1000), ShmMiB: shm, SSHKeys: keys,
		GatewayKeys: s.GatewayKeys, EgressPorts: l.Bundle.EgressPorts, Simulated: l.Simulated, Cluster: spec.Cluster,
	}, nil
}

// Update is a change to a lease that is not a change of state. Nil fields stay.
type Update struct {
	Name     *string
	Labels   map[string]string
	Deadline *time.Time // zero time: none
	Idle     *IdleStop
}

// Change applies an update. Each field is its own column, so that it cannot
// undo a state that changes at the same time; the version grows, so that the
// view in memory knows which of the two came later.
func (s *Service) Change(ctx context.Context, p account.Principal, id string, u Update) (*Lease, error) {
	now := s.Clock()
	check := Create{}
	if u.Name != nil {
		check.Name = *u.Name
	}
	check.Labels, check.Idle = u.Labels, u.Idle
	if u.Deadline != nil {
		check.Deadline = *u.Deadline
	}
	if err := check.validate(now); err != nil {
		return nil, err
	}
	if u.Name != nil && *u.Name == "" {
		return nil, invalid("body.name", "invalid_name", "a name cannot be empty")
	}
	l, err := s.Resolve(ctx, p, id)
	if err != nil {
		return nil, err
	}
	if l.State.Over() {
		return nil, fault.New(fault.Gone, "lease_state", "lease %s is %s and cannot be changed", l.ID, l.State)
	}
	err = s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		set := func(column string, v any) error {
			_, err := tx.Exec(ctx, `UPDATE lease SET `+column+`=? WHERE id=?`, v, l.ID)
			return err
		}
		var errs []error
		if u.Name != nil {
			errs = append(errs, set("name", *u.Name))
		}
		if u.Labels != nil {
			errs = append(errs, set("labels", mustJSON(u.Labels)))
		}
		if u.Deadline != nil {
			errs = append(errs, set("deadline", store.Micros(*u.Deadline)))
		}
		if u.Idle != nil {
			errs = append(errs, set("idle_seconds", int64(u.Idle.After/time.Second)), set("idle_gpu_percent", u.Idle.GPUPercent), set("idle_cpu_percent", u.Idle.CPUPercent))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE lease SET version=version+1 WHERE id=?`, l.ID); err != nil {
			return err
		}
		return s.Tenants.Audit(ctx, tx, p, "lease.change", l.ID, u)
	})
	if err != nil {
		return nil, err
	}
	fresh, err := s.find(ctx, `id=?`, l.ID)
	if err != nil {
		return nil, err
	}
	s.track(fresh[0])
	s.kick(fresh[0].HostID)
	return fresh[0], nil
}

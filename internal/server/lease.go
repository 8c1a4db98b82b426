package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/crypto/ssh"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/gateway"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/protocol"
)

const tagLease = "Leases"

// Entrance is how renters get to instances: addresses to show them, and streams
// to hosts.
type Entrance struct {
	SSHAddress string // host:port of the SSH gateway
	SSHHostKey string // its public key, as an authorized_keys line
	// AppURL returns the address of a port of a lease, its secret included.
	AppURL func(leaseID string, port int, token string) string
	// Open opens a stream to a host.
	Open func(ctx context.Context, hostID string, h protocol.StreamHeader) (net.Conn, error)
	// Enter connects to the SSH server of an instance, as the SSH gateway does for
	// renters that it has let in.
	Enter func(ctx context.Context, t gateway.Target) (*ssh.Client, error)
}

// LeasePath is embedded in the input of operations on one lease.
type LeasePath struct {
	LeaseID string `path:"lease_id" maxLength:"64" doc:"Identifier, or the name of a lease that is not over"`
}

type leaseList struct {
	Paging
	State  string `query:"state" maxLength:"20" doc:"Only leases in this state"`
	Live   bool   `query:"live" doc:"Only leases that are not over"`
	HostID string `query:"host_id" maxLength:"64" doc:"Only leases on this host"`
	Label  string `query:"label" maxLength:"330" doc:"Only leases with this label, as key=value"`
}

func (a *API) registerLease() {
	if a.Leases == nil {
		return
	}
	register(a, operation{
		ID: "createQuote", Method: http.MethodPost, Path: "/v1/quotes", Summary: "Freeze the price of an offer", Tag: tagLease,
		Description: "A quote says the whole price and is valid for a quarter of an hour. A lease is billed from its quote, whatever prices do later.",
		Action:      account.WriteLeases, Status: http.StatusCreated, Idempotent: true, Again: true,
	}, a.createQuote)
	register(a, operation{
		ID: "compareQuotes", Method: http.MethodPost, Path: "/v1/quotes/compare", Summary: "Price an offer under all plans, side by side", Tag: tagLease,
		Description: "Nothing is frozen and nothing is bought. An option that is buyable can be quoted with its plan and term and then accepted; of the others, why says what is in the way.",
		Action:      account.ReadMarket,
	}, a.compareQuotes)
	register(a, operation{
		ID: "createLease", Method: http.MethodPost, Path: "/v1/leases", Summary: "Accept a quote", Tag: tagLease,
		Action: account.WriteLeases, Status: http.StatusCreated, Idempotent: true, Again: true, // a quote is accepted once
	}, a.createLease)
	register(a, operation{ID: "listLeases", Method: http.MethodGet, Path: "/v1/leases", Summary: "List leases, newest first", Tag: tagLease, Action: account.ReadLeases},
		a.listLeases)
	register(a, operation{ID: "getLease", Method: http.MethodGet, Path: "/v1/leases/{lease_id}", Summary: "Show a lease", Tag: tagLease, Action: account.ReadLeases},
		func(ctx context.Context, p account.Principal, in *LeasePath) (*body[api.Lease], error) {
			return leaseBody(a.Leases.Resolve(ctx, p, in.LeaseID))
		})
	register(a, operation{ID: "updateLease", Method: http.MethodPatch, Path: "/v1/leases/{lease_id}", Summary: "Change a lease's settings", Tag: tagLease, Action: account.WriteLeases, Idempotent: true},
		a.updateLease)
	for _, verb := range []struct {
		name, summary string
		do            func(context.Context, account.Principal, string) (*lease.Lease, error)
	}{
		{"stop", "Remove the container and keep the disk", a.Leases.Stop},
		{"start", "Run a stopped lease again", a.Leases.Start},
		{"restart", "Give a lease a new container on the same disk", a.Leases.Restart},
		{"end", "Remove container and disk for good", a.Leases.End},
	} {
		register(a, operation{ID: verb.name + "Lease", Method: http.MethodPost, Path: "/v1/leases/{lease_id}/" + verb.name, Summary: verb.summary, Tag: tagLease, Action: account.WriteLeases, Idempotent: true},
			func(ctx context.Context, p account.Principal, in *LeasePath) (*body[api.Lease], error) {
				return leaseBody(verb.do(ctx, p, in.LeaseID))
			})
	}
	register(a, operation{ID: "listLeaseHistory", Method: http.MethodGet, Path: "/v1/leases/{lease_id}/history", Summary: "What happened to a lease", Tag: tagLease, Action: account.ReadLeases},
		a.leaseHistory)
	register(a, operation{ID: "listDemand", Method: http.MethodGet, Path: "/v1/operator/demand", Summary: "What all accounts rented and how long it ran, newest first", Tag: tagLease, Action: account.Operate,
		Description: "Without whose it was and what it ran: what simulations replay."},
		a.listDemand)
	a.registerMetrics()
	a.registerMonths()
	registerEvents(a, operation{ID: "watchLeases", Method: http.MethodGet, Path: "/v1/lease-events", Summary: "Follow the changes of all leases", Tag: tagLease, Action: account.ReadLeases},
		a.watchLeases)
	if a.Fleet != nil {
		register(a, operation{ID: "abandonHost", Method: http.MethodPost, Path: "/v1/operator/hosts/{host_id}/abandon", Summary: "Give up a host that will not come back", Tag: tagHosts, Action: account.Operate, Idempotent: true,
			Description: "Ends its leases as of its last sign of life. Should it come back, it is told to remove what is left of them before anything new starts there."},
			a.abandonHost)
	}
	if a.Entrance == nil {
		return
	}
	register(a, operation{ID: "getLeaseAccess", Method: http.MethodGet, Path: "/v1/leases/{lease_id}/access", Summary: "How to get into a lease, secrets included", Tag: tagLease, Action: account.EnterLeases},
		a.leaseAccess)
	register(a, operation{ID: "createLeaseLink", Method: http.MethodPost, Path: "/v1/leases/{lease_id}/links", Summary: "Make a link to one port of a lease", Tag: tagLease,
		Description: "Whoever has it reaches this port and no other, until it ends or is revoked. It is not kept, so it cannot be shown again.",
		Action:      account.EnterLeases, Status: http.StatusCreated},
		a.createLeaseLink)
	register(a, operation{ID: "revokeLeaseLinks", Method: http.MethodDelete, Path: "/v1/leases/{lease_id}/links", Summary: "End the links to a lease's ports", Tag: tagLease,
		Description: "Those that were given out until now, the addresses from a lease's access among them; links that are made afterwards are good. It takes effect within seconds.",
		Action:      account.EnterLeases, Idempotent: true},
		func(ctx context.Context, p account.Principal, in *struct {
			LeasePath
			Port int `query:"port" minimum:"0" maximum:"65535" doc:"Only links to this port; 0: to all"`
		}) (*none, error) {
			return nil, a.Leases.RevokeLinks(ctx, p, in.LeaseID, in.Port)
		})
	registerStream(a, operation{ID: "getLeaseLogs", Method: http.MethodGet, Path: "/v1/leases/{lease_id}/logs", Summary: "What a lease printed, also after it ended", Tag: tagLease, Action: account.EnterLeases},
		"text/plain; charset=utf-8", a.leaseLogs)
	a.registerInside()
}

func (a *API) createQuote(ctx context.Context, p account.Principal, in *body[api.QuoteRequest]) (*body[api.Quote], error) {
	acc, err := a.Accounts.Account(ctx, p.AccountID)
	if err != nil {
		return nil, err
	}
	r, err := quoteRequest(in.Body)
	if err != nil {
		return nil, err
	}
	q, err := a.Leases.Price(ctx, p, r, acc.TimeZone)
	if err != nil {
		return nil, err
	}
	return &body[api.Quote]{quoteJSON(q)}, nil
}

func quoteRequest(r api.QuoteRequest) (lease.QuoteRequest, error) {
	run, err := lease.Seconds("body.run_seconds", "invalid_run_seconds", r.RunSeconds)
	return lease.QuoteRequest{
		OfferID: r.OfferID, Plan: r.Plan, Template: r.Template, Image: r.Image, DiskGiB: r.DiskGiB,
		RunFor: run, EgressBytes: r.EgressBytes, TermMonths: r.TermMonths, Renews: r.Renews, OnLapse: billing.Lapse(r.OnLapse),
	}, err
}

func quoteLines(q pricing.Quote) []api.QuoteLine {
	out := []api.QuoteLine{}
	for _, l := range q.Lines {
		line := api.QuoteLine{Meter: string(l.Meter), Rate: l.Rate, Unit: l.Unit, Quantity: l.QuantityText,
			PerHour: l.PerHour, PerDay: l.PerDay, PerMonth: l.PerMonth, ForRun: l.ForRun}
		if q.Listed != nil && q.Listed.Rate(l.Meter) != l.Rate {
			listed := q.Listed.Rate(l.Meter)
			line.ListedRate = &listed
		}
		out = append(out, line)
	}
	return out
}

func quoteJSON(q *lease.Quote) api.Quote {
	t := q.Price.Tariff
	out := api.Quote{
		ID: q.ID, OfferID: q.Offer.ID, Plan: q.Price.Plan, GPUModel: q.Offer.GPUModel, GPUCount: q.Offer.GPUCount,
		Image: q.Request.Image, DiskGiB: q.Request.DiskGiB, Currency: string(q.Price.Currency), Granularity: string(t.Granularity),
		MinimumSeconds: t.MinimumSeconds, PerHour: q.Price.Totals.PerHour, PerDay: q.Price.Totals.PerDay,
		PerMonth: q.Price.Totals.PerMonth, ForRun: q.Price.Totals.ForRun, PricePerHourByState: map[string]api.Amount{},
		AvailableAfterSeconds: q.Offer.AvailableAfterSeconds, NotIncluded: q.Price.NotIncluded, Simulated: q.Price.Simulated, CreatedAt: q.CreatedAt, ValidUntil: q.ValidUntil,
	}
	out.Lines, out.Exchange, out.PriceList = quoteLines(q.Price), exchangeJSON(q.Price.Exchange), appliedJSON(q.Price.PriceList)
	if p := q.Price.Prepaid; p != nil {
		out.TermMonths, out.Renews, out.OnLapse = p.TermMonths, p.Renews, string(q.Request.OnLapse)
		out.DueNow, _ = p.TermPrice() // it was priced when it was quoted
	}
	for _, s := range q.Price.States {
		out.PricePerHourByState[s.State] = s.PerHour
	}
	return out
}

func (a *API) createLease(ctx context.Context, p account.Principal, in *body[api.LeaseCreate]) (*body[api.Lease], error) {
	r := in.Body
	idle, err := idleStop(r.IdleStop)
	if err != nil {
		return nil, err
	}
	c := lease.Create{
		QuoteID: r.QuoteID, Name: r.Name, Labels: r.Labels, Entrypoint: r.Entrypoint, Command: r.Command,
		StartScript: r.StartScript, NoticeSignal: r.NoticeSignal, NoticeCommand: r.NoticeCommand, Environment: r.Environment, Ports: r.Ports, SpendingCap: r.SpendingCap, Idle: idle, Volumes: volumeUses(r.Volumes),
	}
	if r.StopAt != nil {
		c.Deadline = *r.StopAt
	}
	return leaseBody(a.Leases.Accept(ctx, p, c))
}

func idleStop(i *api.IdleStop) (*lease.IdleStop, error) {
	if i == nil {
		return nil, nil
	}
	after, err := lease.Seconds("body.idle_stop.after_seconds", "invalid_idle_stop", i.AfterSeconds)
	return &lease.IdleStop{After: after, GPUPercent: i.GPUPercent, CPUPercent: i.CPUPercent}, err
}

func (a *API) listLeases(ctx context.Context, p account.Principal, in *leaseList) (*body[page[api.Lease]], error) {
	f := lease.Filter{State: lease.State(in.State), Live: in.Live, HostID: in.HostID}
	if in.Label != "" {
		k, v, ok := cut(in.Label)
		if !ok {
			return nil, fault.New(fault.Invalid, "invalid_label", "label %q: want key=value", in.Label).At("query.label")
		}
		f.Label = map[string]string{k: v}
	}
	list, next, err := a.Leases.List(ctx, p, f, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &body[page[api.Lease]]{Body: page[api.Lease]{Items: []api.Lease{}, NextCursor: next}}
	for _, l := range list {
		out.Body.Items = append(out.Body.Items, leaseJSON(l))
	}
	return out, nil
}

func (a *API) listDemand(ctx context.Context, _ account.Principal, in *Paging) (*body[page[api.Demand]], error) {
	list, next, err := a.Leases.Demand(ctx, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &body[page[api.Demand]]{Body: page[api.Demand]{Items: []api.Demand{}, NextCursor: next}}
	for _, d := range list {
		t := d.Price.Tariff
		out.Body.Items = append(out.Body.Items, api.Demand{
			ID: d.ID, Submitted: d.CreatedAt, Start: moment(d.StartedAt), End: moment(d.EndedAt), RanSeconds: int64(d.Ran / time.Second),
			GPUs: d.Bundle.GPUCount, Model: d.GPUModel, Plan: d.Price.Plan, PerHour: max(t.Compute, d.Price.Bid), Currency: string(t.Currency), Simulated: d.Simulated,
		})
	}
	return out, nil
}

func cut(s string) (k, v string, ok bool) {
	for i := range len(s) {
		if s[i] == '=' {
			return s[:i], s[i+1:], i > 0
		}
	}
	return "", "", false
}

func (a *API) updateLease(ctx context.Context, p account.Principal, in *struct {
	LeasePath
	Body api.LeaseUpdate
}) (*body[api.Lease], error) {
	u := lease.Update{Name: in.Body.Name, Labels: in.Body.Labels, Deadline: in.Body.StopAt}
	var err error
	if u.Idle, err = idleStop(in.Body.IdleStop); err != nil {
		return nil, err
	}
	return leaseBody(a.Leases.Change(ctx, p, in.LeaseID, u))
}

func (a *API) leaseHistory(ctx context.Context, p account.Principal, in *LeasePath) (*body[page[api.LeaseChange]], error) {
	l, err := a.Leases.Resolve(ctx, p, in.LeaseID)
	if err != nil {
		return nil, err
	}
	list, err := a.Leases.History(ctx, p, l.ID)
	if err != nil {
		return nil, err
	}
	out := &body[page[api.LeaseChange]]{Body: page[api.LeaseChange]{Items: []api.LeaseChange{}}}
	for _, c := range list {
		out.Body.Items = append(out.Body.Items, changeJSON(c))
	}
	return out, nil
}

func changeJSON(c lease.Change) api.LeaseChange {
	return api.LeaseChange{ID: c.ID, LeaseID: c.LeaseID, At: c.At, Event: string(c.Event), From: string(c.From), To: string(c.To), Code: c.Code, Message: c.Message}
}

func (a *API) watchLeases(ctx context.Context, p account.Principal, _ *none, emit func(event) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := a.Leases.Watch(ctx, p.AccountID)
	if err := emit(event{}); err != nil {
		return err
	}
	for c := range changes {
		if err := emit(event{ID: c.ID, Name: "lease", Data: changeJSON(c)}); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return fault.New(fault.TooMany, "too_slow", "this reader fell too far behind; read the leases again and watch anew")
}

func leaseBody(l *lease.Lease, err error) (*body[api.Lease], error) {
	if err != nil {
		return nil, err
	}
	return &body[api.Lease]{leaseJSON(l)}, nil
}

func leaseJSON(l *lease.Lease) api.Lease {
	out := api.Lease{
		ID: l.ID, Name: l.Name, State: string(l.State), Code: l.Code, Message: l.Message, ExitCode: l.ExitCode, Generation: l.Generation,
		HostID: l.HostID, Region: l.Bundle.Region, Zone: l.Bundle.Zone, GPUModel: l.GPUModel, GPUCount: l.Bundle.GPUCount,
		GPUs: l.GPUs, CPUMillis: l.Bundle.CPUMillis, MemoryMiB: l.Bundle.MemoryMiB, DiskGiB: l.Bundle.DiskGiB, Simulated: l.Simulated,
		Template: l.Template, Image: l.Image, Labels: l.Labels, Plan: l.Price.Plan, PerHour: l.Price.Totals.PerHour,
		Currency: string(l.Price.Currency), SpendingCap: l.SpendingCap, CreatedAt: l.CreatedAt, ChangedAt: l.ChangedAt,
		StopAt: moment(l.Deadline), RunningSince: moment(l.RunningSince), EndedAt: moment(l.EndedAt),
		BidID: l.BidID, InterruptAt: moment(l.InterruptAt), InterruptReason: l.InterruptReason, WaitsUntil: moment(l.WaitsUntil),
	}
	if out.GPUs == nil {
		out.GPUs = []string{}
	}
	if len(l.Bundle.DirectPorts) > 0 {
		out.Ports = map[string]int{}
		for inside, outside := range l.Bundle.DirectPorts {
			out.Ports[strconv.Itoa(inside)] = outside
		}
	}
	if l.Idle.After > 0 {
		out.IdleStop = &api.IdleStop{AfterSeconds: int64(l.Idle.After / time.Second), GPUPercent: l.Idle.GPUPercent, CPUPercent: l.Idle.CPUPercent}
	}
	if st := l.Status; st != nil && !l.State.Over() {
		out.Progress = &api.LeaseProgress{Phase: string(st.Phase), PulledBytes: st.Progress.Bytes, TotalBytes: st.Progress.Total}
		out.Usage = &api.LeaseUsage{CPUPercent: st.CPUPercent, GPUPercent: st.GPUPercent, MemoryUsedMiB: st.MemoryUsedMiB,
			DiskUsedMiB: st.DiskUsedMiB, EgressBytes: st.EgressBytes, IngressBytes: st.IngressBytes, Sessions: st.Sessions}
	}
	return out
}

// moment is how an optional time is written: absent when it is zero.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (a *API) abandonHost(ctx context.Context, p account.Principal, in *struct {
	HostID string `path:"host_id" maxLength:"64"`
}) (*none, error) {
	if _, err := a.Fleet.Host(ctx, p, in.HostID); err != nil {
		return nil, err
	}
	lastSeen, online := a.Fleet.LastSeen(in.HostID)
	if online {
		return nil, fault.New(fault.Conflict, "host_online", "host %s is there; drain it, or end its leases, instead of giving it up", in.HostID)
	}
	if err := a.Leases.Abandon(ctx, p, in.HostID, lastSeen); err != nil || a.Volumes == nil {
		return nil, err
	}
	return nil, a.Volumes.Abandon(ctx, p, in.HostID, lastSeen)
}

func (a *API) leaseAccess(ctx context.Context, p account.Principal, in *LeasePath) (*body[api.LeaseAccess], error) {
	l, err := a.Leases.Resolve(ctx, p, in.LeaseID)
	if err != nil {
		return nil, err
	}
	if l.AccountID != p.AccountID {
		// An operator may see a lease; its secrets are its account's alone.
		return nil, fault.New(fault.Forbidden, "own_account_only", "only lease %s's own account may enter it", l.ID)
	}
	spec, err := a.Leases.Settings(l)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(a.Entrance.SSHAddress)
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	out := api.LeaseAccess{SSHHost: host, SSHPort: n, SSHUser: l.ID, SSHHostKey: a.Entrance.SSHHostKey, URLs: map[string]string{}, Environment: spec.Environment}
	for _, port := range spec.Ports {
		token, err := a.Leases.PortToken(l, port, time.Time{})
		if err != nil {
			return nil, err
		}
		out.URLs[strconv.Itoa(port)] = a.Entrance.AppURL(l.ID, port, token)
	}
	return &body[api.LeaseAccess]{out}, nil
}

func (a *API) createLeaseLink(ctx context.Context, p account.Principal, in *struct {
	LeasePath
	Body api.LeaseLinkCreate
}) (*body[api.LeaseLink], error) {
	lasts, err := lease.Seconds("body.expires_in_seconds", "invalid_duration", in.Body.ExpiresInSeconds)
	if err != nil {
		return nil, err
	}
	k, err := a.Leases.MakeLink(ctx, p, in.LeaseID, in.Body.Port, lasts)
	if err != nil {
		return nil, err
	}
	return &body[api.LeaseLink]{api.LeaseLink{Port: k.Port, URL: a.Entrance.AppURL(k.Lease.ID, k.Port, k.Token), ExpiresAt: moment(k.Until)}}, nil
}

func (a *API) leaseLogs(w http.ResponseWriter, r *http.Request, p account.Principal, in *struct {
	LeasePath
	Follow bool `query:"follow" doc:"Go on until it ends"`
	Tail   int  `query:"tail" minimum:"0" maximum:"1000000" doc:"Last lines; 0: all"`
}) error {
	ctx := r.Context()
	l, err := a.Leases.Resolve(ctx, p, in.LeaseID)
	if err != nil {
		return err
	}
	if l.AccountID != p.AccountID {
		return fault.New(fault.Forbidden, "own_account_only", "only lease %s's own account may read what it printed", l.ID)
	}
	s, err := a.Entrance.Open(ctx, l.HostID, protocol.StreamHeader{Kind: protocol.StreamLogs, LeaseID: l.ID, Logs: protocol.LogOptions{Follow: in.Follow, Tail: in.Tail}})
	if err != nil {
		var refused *protocol.StreamError
		if errors.As(err, &refused) && refused.Code == "no_such_lease" {
			return fault.New(fault.NotFound, "no_logs", "lease %s has printed nothing yet, or its host no longer keeps it", l.ID)
		}
		return fault.New(fault.Unavailable, "host_offline", "the host of lease %s cannot be reached: %w", l.ID, err)
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	_ = flush.SetWriteDeadline(time.Time{})
	buf := make([]byte, 32<<10)
	for {
		n, rerr := s.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return nil // the reader has gone
			}
			_ = flush.Flush()
		}
		if rerr != nil {
			return nil
		}
	}
}

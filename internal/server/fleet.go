package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/fleet"
)

// Tags of the subjects that this file has.
const (
	tagMarket = "Market"
	tagHosts  = "Hosts"
)

// HostPath is embedded in the input of operations on one host.
type HostPath struct {
	HostID string `path:"host_id" maxLength:"64"`
}

type offerSearch struct {
	Where   string `query:"where" maxLength:"2000" doc:"Which offers, such as gpu_model = \"RTX 4090\" and gpu_count >= 2 and price_per_hour < 1.5; /v1/offers/fields lists what it can name" example:"gpu_count >= 2"`
	Sort    string `query:"sort" maxLength:"64" doc:"A field that is a number, with - before it for the largest first; absent: price_per_hour"`
	DiskGiB int64  `query:"disk_gib" minimum:"1" maximum:"16777216" default:"20" doc:"Size of disk that shall fit and that prices include"`
	Limit   int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"How many offers at most"`
	Cursor  string `query:"cursor" maxLength:"800" doc:"The next_cursor of the page before; empty for the first page"`
}

func (a *API) registerFleet() {
	if a.Fleet == nil {
		return
	}
	a.registerMarket()
	a.registerPlacement()
	a.registerHosts()
	a.registerHostChanges()
	a.registerGateways()
}

func (a *API) registerMarket() {
	register(a, operation{
		ID: "searchOffers", Method: http.MethodGet, Path: "/v1/offers", Summary: "Search the market", Tag: tagMarket, Action: account.ReadMarket,
		Description: "Comparisons are =, !=, <, <=, >, >=, in (…), not in (…) and ~ (contains), joined by and, or, not and parentheses. " +
			"A mistake is answered with bad_expression and the position of its first character.",
	}, func(ctx context.Context, p account.Principal, in *offerSearch) (*body[page[api.Offer]], error) {
		acc, err := a.Accounts.Account(ctx, p.AccountID) // its zone, as a quote has
		if err != nil {
			return nil, err
		}
		offers, next, err := a.Fleet.Search(ctx, fleet.Query{AccountID: p.AccountID, Expression: in.Where, Sort: in.Sort, Limit: in.Limit, Cursor: in.Cursor, DiskGiB: in.DiskGiB, TimeZone: acc.TimeZone})
		if err != nil {
			return nil, err
		}
		out := whole(offers, offerJSON)
		if err := a.ownPrices(ctx, acc, offers, out.Body.Items); err != nil {
			return nil, err
		}
		out.Body.NextCursor = next
		return out, nil
	})
	register(a, operation{
		ID: "listOfferFields", Method: http.MethodGet, Path: "/v1/offers/fields", Summary: "What a search can name", Tag: tagMarket, Action: account.ReadMarket,
	}, func(context.Context, account.Principal, *none) (*body[page[api.OfferField]], error) {
		return whole(fleet.Fields(), func(f fleet.Field) api.OfferField { return api.OfferField(f) }), nil
	})
	register(a, operation{
		ID: "getOffer", Method: http.MethodGet, Path: "/v1/offers/{offer_id}", Summary: "Read an offer", Tag: tagMarket, Action: account.ReadMarket,
		Description: "Offers come and go with what is free: one that is not there now answers offer_gone.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		OfferID string `path:"offer_id" maxLength:"200"`
		DiskGiB int64  `query:"disk_gib" minimum:"1" maximum:"16777216" default:"20" doc:"Size of disk that the price includes"`
	}) (*body[api.Offer], error) {
		acc, err := a.Accounts.Account(ctx, p.AccountID)
		if err != nil {
			return nil, err
		}
		o, err := a.Fleet.OfferTo(ctx, p.AccountID, in.OfferID, in.DiskGiB, acc.TimeZone)
		if err != nil {
			return nil, err
		}
		out := []api.Offer{offerJSON(o)}
		if err := a.ownPrices(ctx, acc, []fleet.Offer{o}, out); err != nil {
			return nil, err
		}
		return &body[api.Offer]{out[0]}, nil
	})
	register(a, operation{
		ID: "listProviders", Method: http.MethodGet, Path: "/v1/providers", Summary: "List who offers hosts", Tag: tagMarket, Action: account.ReadMarket,
	}, func(ctx context.Context, _ account.Principal, _ *none) (*body[page[api.Provider]], error) {
		return whole(a.Fleet.Providers(ctx), providerJSON), nil
	})
}

func (a *API) registerHosts() {
	register(a, operation{
		ID: "createJoinToken", Method: http.MethodPost, Path: "/v1/hosts/join-tokens", Summary: "Make a token that lets one machine join", Tag: tagHosts,
		Action: account.WriteHosts, Status: http.StatusCreated, Description: "The token is shown once and works once. On the machine: suanli agent join <address> --token … " +
			"Owners and admins of any account may host, unless the operator has set who_may_host to operator; others then get hosting_by_operator.",
	}, func(ctx context.Context, p account.Principal, in *body[api.CreateJoinToken]) (*body[api.JoinToken], error) {
		b := in.Body
		token, expires, err := a.Fleet.CreateJoinToken(ctx, p, fleet.JoinToken{
			Name: b.Name, Region: b.Region, Zone: b.Zone, Rack: b.Rack, Lifetime: time.Duration(b.ExpiresInSeconds) * time.Second,
		})
		if err != nil {
			return nil, err
		}
		return &body[api.JoinToken]{api.JoinToken{Token: token, ExpiresAt: expires}}, nil
	})
	register(a, operation{
		ID: "listHosts", Method: http.MethodGet, Path: "/v1/hosts", Summary: "List your hosts", Tag: tagHosts, Action: account.ReadHosts,
		Description: "An operator reads all hosts of the cloud.",
	}, func(ctx context.Context, p account.Principal, in *Paging) (*body[page[api.Host]], error) {
		hosts := a.Fleet.Hosts(ctx, p)
		from, found := slices.BinarySearchFunc(hosts, in.Cursor, func(h fleet.Host, cursor string) int { return strings.Compare(h.ID, cursor) })
		if found {
			from++
		}
		return paged(hosts[from:min(len(hosts), from+in.Limit+1)], in.Limit, func(h fleet.Host) string { return h.ID }, hostJSON), nil
	})
	register(a, operation{
		ID: "getHost", Method: http.MethodGet, Path: "/v1/hosts/{host_id}", Summary: "Read a host", Tag: tagHosts, Action: account.ReadHosts,
	}, func(ctx context.Context, p account.Principal, in *HostPath) (*body[api.Host], error) {
		return hostBody(a.Fleet.Host(ctx, p, in.HostID))
	})
}

func (a *API) registerHostChanges() {
	register(a, operation{
		ID: "updateListing", Method: http.MethodPatch, Path: "/v1/hosts/{host_id}/listing", Summary: "Set a host's prices and terms", Tag: tagHosts,
		Action: account.WriteHosts, Description: "They hold for new leases. Those that run keep the prices of their quotes.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		HostPath
		Body api.UpdateListing
	}) (*body[api.Host], error) {
		b := in.Body
		return hostBody(a.Fleet.SetListing(ctx, p, in.HostID, fleet.ListingChange{
			PerGPUHour: b.PerGPUHour, PerCPUHour: b.PerCPUHour, StoragePerGiBMonth: b.StoragePerGiBMonth, EgressPerGB: b.EgressPerGB, MinGPUs: b.MinGPUs, EndsAt: b.EndsAt,
			SpotFloorPerGPUHour: b.SpotFloorPerGPUHour, SpotFloorRule: floorRule(b.SpotFloorRule), Reserve: reserveCurve(b.Reserved),
		}))
	})
	for _, verb := range []struct {
		name, summary string
		do            func(context.Context, account.Principal, string) (fleet.Host, error)
	}{
		{"list", "Put a host on the market", a.Fleet.List},
		{"unlist", "Take a host off the market; leases go on", a.Fleet.Unlist},
		{"drain", "Let nothing new start on a host", func(ctx context.Context, p account.Principal, id string) (fleet.Host, error) {
			return a.Fleet.Drain(ctx, p, id, true)
		}},
		{"undrain", "Let leases start on a drained host again", func(ctx context.Context, p account.Principal, id string) (fleet.Host, error) {
			return a.Fleet.Drain(ctx, p, id, false)
		}},
	} {
		register(a, operation{
			ID: verb.name + "Host", Method: http.MethodPost, Path: "/v1/hosts/{host_id}/" + verb.name, Summary: verb.summary, Tag: tagHosts, Action: account.WriteHosts,
		}, func(ctx context.Context, p account.Principal, in *HostPath) (*body[api.Host], error) {
			return hostBody(verb.do(ctx, p, in.HostID))
		})
	}
	register(a, operation{
		ID: "setMaintenance", Method: http.MethodPut, Path: "/v1/hosts/{host_id}/maintenance", Summary: "Announce a host's absence", Tag: tagHosts, Action: account.WriteHosts,
		Description: "Nothing new starts within the window, and the host's absence then does not count against it.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		HostPath
		Body api.SetMaintenance
	}) (*body[api.Host], error) {
		w := fleet.Window{From: a.clock()}
		if in.Body.From != nil {
			w.From = *in.Body.From
		}
		if in.Body.Until != nil {
			w.Until = *in.Body.Until
		}
		return hostBody(a.Fleet.SetMaintenance(ctx, p, in.HostID, w))
	})
	register(a, operation{
		ID: "cancelMaintenance", Method: http.MethodDelete, Path: "/v1/hosts/{host_id}/maintenance", Summary: "Take an announced absence back", Tag: tagHosts, Action: account.WriteHosts, Status: http.StatusOK,
	}, func(ctx context.Context, p account.Principal, in *HostPath) (*body[api.Host], error) {
		return hostBody(a.Fleet.SetMaintenance(ctx, p, in.HostID, fleet.Window{}))
	})
	register(a, operation{
		ID: "removeHost", Method: http.MethodDelete, Path: "/v1/hosts/{host_id}", Summary: "Forget a host that has no lease", Tag: tagHosts, Action: account.WriteHosts,
	}, func(ctx context.Context, p account.Principal, in *HostPath) (*none, error) {
		return nil, a.Fleet.Remove(ctx, p, in.HostID)
	})
	register(a, operation{
		ID: "confirmLoss", Method: http.MethodPost, Path: "/v1/operator/fleet/confirm-loss", Summary: "Confirm that hosts which fell silent together are lost", Tag: tagHosts, Action: account.Operate,
		Description: "When most hosts fall silent at once the cloud suspects its own network and gives none of them up. This gives up those that are silent now.",
	}, func(ctx context.Context, _ account.Principal, _ *none) (*none, error) {
		a.Fleet.ConfirmLoss(ctx)
		return nil, nil
	})
}

func hostBody(h fleet.Host, err error) (*body[api.Host], error) {
	if err != nil {
		return nil, err
	}
	return &body[api.Host]{hostJSON(h)}, nil
}

// hundredths writes basis points as per cent.
func hundredths(basis int64) string { return fmt.Sprintf("%d.%02d", basis/100, basis%100) }

func offerJSON(o fleet.Offer) api.Offer {
	p := o.Price
	return api.Offer{
		ID: o.ID, HostID: o.HostID, HostName: o.HostName, ProviderID: o.ProviderID, Region: o.Region, Zone: o.Zone, Rack: o.Rack, Simulated: o.Simulated,
		GPUModel: o.GPUModel, GPUCount: o.GPUCount, GPUVendor: o.GPUVendor, GPUArchitecture: o.GPUArchitecture, VRAMMiB: o.VRAMMiB,
		ComputeCapability: o.ComputeCapability, Driver: o.Driver, MaxCUDA: o.MaxCUDA, NVLink: o.NVLink, PCIeGen: o.PCIeGen, PCIeWidth: o.PCIeWidth,
		FP32TFLOPS: tenths(o.FP32DeciTFLOPS), FP16TFLOPS: tenths(o.FP16DeciTFLOPS), VRAMBandwidthGBs: o.BandwidthGBs,
		CPUModel: o.CPUModel, CPUArchitecture: o.CPUArchitecture, CPUMillis: o.CPUMillis, MemoryMiB: o.MemoryMiB, DiskGiB: o.DiskGiB, MaxDiskGiB: o.MaxDiskGiB,
		DiskReadMBps: o.DiskReadMBps, DiskWriteMBps: o.DiskWriteMBps, NetDownMbps: o.NetDownMbps, NetUpMbps: o.NetUpMbps, DirectPorts: o.DirectPorts, Isolation: o.Isolation,
		Price: api.OfferPrice{
			Currency: string(p.Currency), PerHour: p.PerHour, ComputePerHour: p.ComputePerHour, StoragePerHour: p.StoragePerHour, Compute: p.Compute, Storage: p.Storage,
			Egress: p.Egress, Granularity: p.Granularity, MinimumSeconds: p.MinimumSeconds, CommissionBasisPoints: p.CommissionBasisPoints,
		},
		ReliabilityPercent: hundredths(o.ReliabilityBasis), AvailableAfterSeconds: o.AvailableAfterSeconds,
	}
}

func providerJSON(p fleet.Provider) api.Provider {
	return api.Provider{
		AccountID: p.AccountID, Hosts: p.Hosts, Online: p.Online, GPUs: p.GPUs, FreeGPUs: p.FreeGPUs, SimulatedGPUs: p.SimulatedGPUs,
		GPUModels: slices.Concat([]string{}, p.Models), Regions: slices.Concat([]string{}, p.Regions), ReliabilityPercent: hundredths(p.ReliabilityBasis),
	}
}

func hostJSON(h fleet.Host) api.Host {
	l := h.Listing
	out := api.Host{
		ID: h.ID, AccountID: h.AccountID, Name: h.Name, Region: h.Region, Zone: h.Zone, Rack: h.Rack, Build: h.Build, Simulated: h.Simulated,
		State: string(h.State), Reason: h.Reason, CreatedAt: h.CreatedAt, LastSeenAt: optional(h.LastSeen), ClockSkewMs: h.ClockSkew.Milliseconds(),
		ReliabilityPercent: hundredths(h.ReliabilityBasis), Total: api.Capacity(h.Total), Free: api.Capacity(h.Free),
		GPUs: []api.HostGPU{}, Leases: slices.Concat([]string{}, h.Leases),
		Listing: api.Listing{
			Listed: !l.Unlisted, PerGPUHour: l.PerGPUHour, PerCPUHour: l.PerCPUHour, StoragePerGiBMonth: l.StoragePerGiBMonth, EgressPerGB: l.EgressPerGB,
			MinGPUs: l.MinGPUs, EndsAt: optional(l.EndsAt),
			SpotFloorPerGPUHour: l.SpotFloorPerGPUHour, SpotFloorRule: floorRuleJSON(l.SpotFloorRule), Reserved: reserveCurveJSON(l.Reserve),
		},
	}
	for _, g := range h.GPUs {
		out.GPUs = append(out.GPUs, api.HostGPU{
			UUID: g.UUID, Index: g.Index, Model: g.Model, Present: g.Present, Health: string(g.Health), Reason: g.Reason, LeaseID: g.LeaseID, Simulated: h.Simulated,
			UtilizationPercent: g.Stats.UtilizationPercent, UsedMiB: g.Stats.UsedMiB, TemperatureC: g.Stats.TemperatureC, PowerWatts: g.Stats.PowerWatts,
		})
	}
	if !h.Maintenance.From.IsZero() {
		out.Maintenance = &api.Maintenance{From: h.Maintenance.From, Until: h.Maintenance.Until}
	}
	inv := h.Inventory
	if inv == nil {
		return out
	}
	out.Hardware = &api.Hardware{
		Hostname: inv.Hostname, OS: inv.OS, Kernel: inv.Kernel, Architecture: inv.Architecture, CPUModel: inv.CPUModel, CPUs: inv.CPUs,
		MemoryMiB: inv.MemoryMiB, DiskMiB: inv.DiskMiB, Runtime: inv.Runtime, Isolation: inv.Isolation, DiskQuota: inv.DiskQuota,
	}
	if len(inv.GPUs) > 0 {
		out.Hardware.Driver, out.Hardware.MaxCUDA = inv.GPUs[0].Driver, inv.GPUs[0].MaxCUDA
	}
	t := inv.SelfTest
	out.SelfTest = &api.SelfTest{
		Passed: t.Passed, Checks: []api.SelfTestCheck{}, DiskReadMBps: t.DiskReadMBps, DiskWriteMBps: t.DiskWriteMBps, NetDownMbps: t.NetDownMbps, NetUpMbps: t.NetUpMbps,
	}
	for _, c := range t.Checks {
		out.SelfTest.Checks = append(out.SelfTest.Checks, api.SelfTestCheck(c))
	}
	return out
}

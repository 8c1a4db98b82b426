package server

import (
	"context"
	"net/http"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/market"
	"suanli.dev/internal/pricing/auction"
)

const tagSpot = "Spot market"

// BidPath is embedded in the input of operations on one bid.
type BidPath struct {
	BidID string `path:"bid_id" maxLength:"64" doc:"Identifier, or the name of a bid that may still run"`
}

// MarketSpan is embedded in the input of questions about prices.
type MarketSpan struct {
	Zone     string    `query:"zone" maxLength:"100" doc:"Needed if several zones have the model"`
	GPUModel string    `query:"gpu_model" maxLength:"100" required:"true"`
	GPUs     int       `query:"gpus" minimum:"1" maximum:"10000" default:"1" doc:"The bundle size"`
	From     time.Time `query:"from" doc:"Absent: a week before the end"`
	To       time.Time `query:"to" doc:"Absent: now"`
}

func (s MarketSpan) span() market.Span {
	return market.Span{Zone: s.Zone, Model: s.GPUModel, GPUs: s.GPUs, From: s.From, To: s.To}
}

func (a *API) registerSpot() {
	if a.Market == nil {
		return
	}
	register(a, operation{
		ID: "createBid", Method: http.MethodPost, Path: "/v1/bids", Summary: "Bid on the spot market", Tag: tagSpot,
		Description: "The bid stands until it is withdrawn or its lease ends. While it wins, its lease runs at the market's price, never above the bid; outbid, the lease gets a notice, is interrupted with its disk kept, and resumes by itself when the bid wins again.",
		Action:      account.WriteLeases, Status: http.StatusCreated, Idempotent: true,
	}, a.createBid)
	register(a, operation{ID: "listBids", Method: http.MethodGet, Path: "/v1/bids", Summary: "List your bids", Tag: tagSpot, Action: account.ReadLeases},
		func(ctx context.Context, p account.Principal, in *struct {
			Paging
			Open bool `query:"open" doc:"Only bids that may still run"`
		}) (*body[page[api.Bid]], error) {
			list, next, err := a.Market.List(ctx, p, in.Open, in.Cursor, in.Limit)
			if err != nil {
				return nil, err
			}
			out := whole(list, bidJSON)
			out.Body.NextCursor = next
			return out, nil
		})
	register(a, operation{ID: "getBid", Method: http.MethodGet, Path: "/v1/bids/{bid_id}", Summary: "Read a bid", Tag: tagSpot, Action: account.ReadLeases},
		func(ctx context.Context, p account.Principal, in *BidPath) (*body[api.Bid], error) {
			return bidBody(a.Market.Get(ctx, p, in.BidID))
		})
	register(a, operation{
		ID: "updateBid", Method: http.MethodPatch, Path: "/v1/bids/{bid_id}", Summary: "Raise or lower a bid", Tag: tagSpot, Action: account.WriteLeases, Idempotent: true,
		Description: "At any time, running or not. Raised above the others within its notice, its lease stays.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		BidPath
		Body api.BidUpdate
	}) (*body[api.Bid], error) {
		return bidBody(a.Market.Change(ctx, p, in.BidID, market.Change{Price: price(in.Body.BidPerGPUHour), Max: price(in.Body.MaxPerGPUHour)}))
	})
	register(a, operation{
		ID: "cancelBid", Method: http.MethodDelete, Path: "/v1/bids/{bid_id}", Summary: "Withdraw a bid and end its lease", Tag: tagSpot, Action: account.WriteLeases, Status: http.StatusOK,
		Description: "Container and disk are removed for good. To stop bidding and keep the disk, stop the lease.",
	}, func(ctx context.Context, p account.Principal, in *BidPath) (*body[api.Bid], error) {
		return bidBody(a.Market.Cancel(ctx, p, in.BidID))
	})
	a.registerPrices()
}

func (a *API) registerPrices() {
	register(a, operation{
		ID: "listSpotMarkets", Method: http.MethodGet, Path: "/v1/market", Summary: "What the spot markets are like now", Tag: tagSpot, Action: account.ReadMarket,
		Description: "Each GPU model in each zone is a market, and each bundle size in it has a price of its own, per GPU and hour, that all pay who run it.",
	}, func(ctx context.Context, _ account.Principal, in *struct {
		Zone     string `query:"zone" maxLength:"100"`
		GPUModel string `query:"gpu_model" maxLength:"100"`
	}) (*body[page[api.SpotMarket]], error) {
		list, err := a.Market.Overviews(ctx, in.Zone, in.GPUModel)
		if err != nil {
			return nil, err
		}
		return whole(list, marketJSON), nil
	})
	register(a, operation{ID: "getPriceHistory", Method: http.MethodGet, Path: "/v1/market/history", Summary: "What a bundle size cost on the spot market", Tag: tagSpot, Action: account.ReadMarket},
		func(ctx context.Context, _ account.Principal, in *MarketSpan) (*body[api.PriceHistory], error) {
			h, err := a.Market.History(ctx, in.span())
			if err != nil {
				return nil, err
			}
			out := api.PriceHistory{Zone: h.Market.Zone, GPUModel: h.Market.Model, GPUs: h.GPUs, Simulated: h.Market.Simulated, Currency: string(h.Currency), From: h.From, To: h.To,
				Steps: []api.PriceStep{}, Min: api.Rate(h.Spread.Min), P10: api.Rate(h.Spread.P10), P50: api.Rate(h.Spread.P50), P90: api.Rate(h.Spread.P90), Max: api.Rate(h.Spread.Max)}
			for _, s := range h.Steps {
				out.Steps = append(out.Steps, api.PriceStep{At: s.At, Price: api.Rate(s.Price), Ask: api.Rate(s.Ask)})
			}
			return &body[api.PriceHistory]{out}, nil
		})
	register(a, operation{
		ID: "getBidAdvice", Method: http.MethodGet, Path: "/v1/market/advice", Summary: "How a bid would have fared", Tag: tagSpot, Action: account.ReadMarket,
		Description: "A statement about the past only. Without a bid it suggests the lowest that would have run the share of the time, and a tenth more.",
	}, func(ctx context.Context, _ account.Principal, in *struct {
		MarketSpan
		BidPerGPUHour    string `query:"bid_per_gpu_hour" maxLength:"40" doc:"Absent: suggest one"`
		ShareBasisPoints int    `query:"share_basis_points" minimum:"1" maximum:"10000" default:"9000" doc:"Of the time, in 1/100 of a per cent"`
		Headroom         int    `query:"headroom_basis_points" minimum:"0" maximum:"100000" default:"1000" doc:"Added to a suggested bid; it costs nothing until it is needed"`
	}) (*body[api.BidAdvice], error) {
		var bid auction.Price
		if in.BidPerGPUHour != "" {
			var err error
			if bid, err = auction.ParsePrice(in.BidPerGPUHour); err != nil {
				return nil, fault.New(fault.Invalid, "invalid_bid", "%w", err).At("query.bid_per_gpu_hour")
			}
		}
		v, err := a.Market.Advise(ctx, in.span(), bid, in.ShareBasisPoints, in.Headroom)
		if err != nil {
			return nil, err
		}
		return &body[api.BidAdvice]{api.BidAdvice{
			Zone: v.Market.Zone, GPUModel: v.Market.Model, GPUs: v.GPUs, Simulated: v.Market.Simulated, Currency: string(v.Currency), From: v.From, To: v.To,
			Suggested: v.Suggested, BidPerGPUHour: api.Rate(v.Bid), WindowSeconds: int64(v.Window / time.Second), RanSeconds: int64(v.Ran / time.Second),
			ShareBasisPoints: v.Share, Interruptions: v.Interruptions, CostPerGPU: v.Cost, MeanPerGPUHour: api.Rate(v.Mean),
		}}, nil
	})
}

func price(r *api.Rate) *auction.Price {
	if r == nil {
		return nil
	}
	p := auction.Price(*r)
	return &p
}

func (a *API) createBid(ctx context.Context, p account.Principal, in *body[api.BidCreate]) (*body[api.Bid], error) {
	r := in.Body
	idle, err := idleStop(r.IdleStop)
	if err != nil {
		return nil, err
	}
	c := market.Create{
		Name: r.Name, Zone: r.Zone, Model: r.GPUModel, Simulated: r.Simulated, GPUs: max(1, r.GPUs), Price: auction.Price(r.BidPerGPUHour),
		Wish: lease.SpotWish{Template: r.Template, Image: r.Image, DiskGiB: r.DiskGiB, Create: lease.Create{
			Name: r.Name, Labels: r.Labels, Entrypoint: r.Entrypoint, Command: r.Command, StartScript: r.StartScript, NoticeSignal: r.NoticeSignal, NoticeCommand: r.NoticeCommand,
			Environment: r.Environment, Ports: r.Ports, Idle: idle, SpendingCap: r.SpendingCap,
		}},
	}
	if r.MaxPerGPUHour != nil {
		c.Max = auction.Price(*r.MaxPerGPUHour)
	}
	if r.StopAt != nil {
		c.Wish.Create.Deadline = *r.StopAt
	}
	return bidBody(a.Market.Create(ctx, p, c))
}

func bidBody(b *market.Bid, err error) (*body[api.Bid], error) {
	if err != nil {
		return nil, err
	}
	return &body[api.Bid]{bidJSON(b)}, nil
}

func bidJSON(b *market.Bid) api.Bid {
	out := api.Bid{
		ID: b.ID, Name: b.Name, State: string(b.State), Code: b.Code, Message: b.Message, Zone: b.Market.Zone, GPUModel: b.Market.Model,
		GPUs: b.GPUs, Simulated: b.Market.Simulated, BidPerGPUHour: api.Rate(b.Price), PricePerGPUHour: api.Rate(b.Paid), Currency: string(b.Currency),
		LeaseID: b.LeaseID, HostID: b.HostID, Template: b.Template, Image: b.Image, DiskGiB: b.DiskGiB, LeaveAt: moment(b.LeaveAt),
		CoolUntil: moment(b.CoolUntil), PlacedAt: b.PlacedAt, ChangedAt: b.ChangedAt, EndedAt: moment(b.EndedAt),
	}
	if b.Max > 0 {
		most := api.Rate(b.Max)
		out.MaxPerGPUHour = &most
	}
	return out
}

func marketJSON(o market.Overview) api.SpotMarket {
	out := api.SpotMarket{Zone: o.Market.Zone, GPUModel: o.Market.Model, Simulated: o.Market.Simulated, Currency: string(o.Currency), At: o.At,
		Goods: []api.SpotGood{}, Depth: []api.MarketLevel{}}
	for _, g := range o.Goods {
		out.Goods = append(out.Goods, api.SpotGood{GPUs: g.GPUs, Price: api.Rate(g.Price), SettledPrice: api.Rate(g.Settled), Ask: api.Rate(g.Ask), Bids: g.Bids, Won: g.Won})
	}
	for _, l := range o.Depth {
		out.Depth = append(out.Depth, api.MarketLevel{Price: api.Rate(l.Price), Demand: l.Demand, Supply: l.Supply})
	}
	return out
}

func floorRule(r *api.SpotFloorRule) *auction.FloorRule {
	if r == nil {
		return nil
	}
	return &auction.FloorRule{OfOnDemand: r.OfOnDemandBasisPoints, OfLast: r.OfLastBasisPoints, Min: auction.Price(r.MinPerGPUHour), Max: auction.Price(r.MaxPerGPUHour)}
}

func floorRuleJSON(r *auction.FloorRule) *api.SpotFloorRule {
	if r == nil {
		return nil
	}
	return &api.SpotFloorRule{OfOnDemandBasisPoints: r.OfOnDemand, OfLastBasisPoints: r.OfLast, MinPerGPUHour: api.Rate(r.Min), MaxPerGPUHour: api.Rate(r.Max)}
}

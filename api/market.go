package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// BidCreate is a standing wish to run something on the spot market.
type BidCreate struct {
	Name          string            `json:"name,omitempty" maxLength:"63" doc:"Of the bid and its lease"`
	Zone          string            `json:"zone,omitempty" maxLength:"100" doc:"Needed if several zones have the model"`
	GPUModel      string            `json:"gpu_model" maxLength:"100"`
	GPUs          int               `json:"gpus,omitempty" minimum:"1" maximum:"10000" default:"1" doc:"On one host"`
	Simulated     *bool             `json:"simulated,omitempty" doc:"Bid for simulated GPUs, or for real ones only; absent: for real ones where there are any"`
	BidPerGPUHour Rate              `json:"bid_per_gpu_hour" doc:"The most that you pay for each GPU and hour, not for the bundle; what you pay is the market's price"`
	MaxPerGPUHour *Rate             `json:"max_per_gpu_hour,omitempty" doc:"A limit that holds whatever the bid becomes"`
	Template      string            `json:"template,omitempty" doc:"Template to run; a template or an image is needed" maxLength:"100"`
	Image         string            `json:"image,omitempty" doc:"Image to run, instead of the template's" maxLength:"520"`
	DiskGiB       int64             `json:"disk_gib,omitempty" doc:"Disk, in GiB; the template's if left out"`
	Labels        map[string]string `json:"labels,omitempty"`
	Entrypoint    []string          `json:"entrypoint,omitempty" doc:"Instead of the image's"`
	Command       []string          `json:"command,omitempty" doc:"Instead of the image's"`
	StartScript   string            `json:"start_script,omitempty" doc:"Run by /bin/sh before the command"`
	NoticeSignal  string            `json:"notice_signal,omitempty" enum:"SIGTERM,SIGINT,SIGHUP,SIGUSR1,SIGUSR2" doc:"Sent to the command when a spot lease is told of its interruption; with neither this nor notice_command, the template's"`
	NoticeCommand string            `json:"notice_command,omitempty" maxLength:"4096" doc:"Run by /bin/sh beside the command then, as the image's user"`
	Environment   map[string]string `json:"environment,omitempty" doc:"Kept encrypted"`
	Ports         []int             `json:"ports,omitempty" doc:"TCP ports served inside"`
	StopAt        *time.Time        `json:"stop_at,omitempty" doc:"Stop then"`
	IdleStop      *IdleStop         `json:"idle_stop,omitempty" doc:"Left out: the template's, or else the cloud's"`
	SpendingCap   *Amount           `json:"spending_cap,omitempty" doc:"Stop when this much is due: more than 0; left out, there is no cap"`
}

// BidUpdate changes a bid; what is left out stays.
type BidUpdate struct {
	BidPerGPUHour *Rate `json:"bid_per_gpu_hour,omitempty"`
	MaxPerGPUHour *Rate `json:"max_per_gpu_hour,omitempty" doc:"0: none"`
}

// Bid is a bid and what has become of it.
type Bid struct {
	ID              string     `json:"id"`
	Name            string     `json:"name"`
	State           string     `json:"state" enum:"waiting,placed,noticed,leaving,interrupted,paused,cancelled,over,failed"`
	Code            string     `json:"code,omitempty" doc:"Why it is so, for programs: outbid, below_floor, no_host, no_room, cooling, await, or what its lease says"`
	Message         string     `json:"message,omitempty" doc:"Why it is so, for people"`
	Zone            string     `json:"zone"`
	GPUModel        string     `json:"gpu_model"`
	GPUs            int        `json:"gpus"`
	Simulated       bool       `json:"simulated" doc:"For simulated GPUs: there is no hardware"`
	BidPerGPUHour   Rate       `json:"bid_per_gpu_hour"`
	MaxPerGPUHour   *Rate      `json:"max_per_gpu_hour,omitempty"`
	PricePerGPUHour Rate       `json:"price_per_gpu_hour" doc:"What it pays now; 0 while it does not run"`
	Currency        string     `json:"currency"`
	LeaseID         string     `json:"lease_id,omitempty"`
	HostID          string     `json:"host_id,omitempty"`
	Template        string     `json:"template,omitempty"`
	Image           string     `json:"image"`
	DiskGiB         int64      `json:"disk_gib"`
	LeaveAt         *time.Time `json:"leave_at,omitempty" doc:"When it is interrupted, unless it wins again before"`
	CoolUntil       *time.Time `json:"cool_until,omitempty" doc:"It takes no part before"`
	PlacedAt        time.Time  `json:"placed_at"`
	ChangedAt       time.Time  `json:"changed_at"`
	EndedAt         *time.Time `json:"ended_at,omitempty"`
}

// SpotMarket is one GPU model in one zone.
type SpotMarket struct {
	Zone      string        `json:"zone"`
	GPUModel  string        `json:"gpu_model"`
	Simulated bool          `json:"simulated" doc:"There is no hardware"`
	Currency  string        `json:"currency"`
	At        time.Time     `json:"at"`
	Goods     []SpotGood    `json:"goods" nullable:"false" doc:"By bundle size"`
	Depth     []MarketLevel `json:"depth" nullable:"false" doc:"Demand and supply by price, lowest first"`
}

// SpotGood is one bundle size of a market. Prices are per GPU and hour.
type SpotGood struct {
	GPUs         int  `json:"gpus"`
	Price        Rate `json:"price_per_gpu_hour" doc:"What everybody pays who runs it; 0: nobody does"`
	SettledPrice Rate `json:"settled_price_per_gpu_hour" doc:"What the price becomes when all notices are over"`
	Ask          Rate `json:"ask_per_gpu_hour" doc:"The lowest bid that would get one now; 0: none would"`
	Bids         int  `json:"bids"`
	Won          int  `json:"won" doc:"Bids that have a place"`
}

// MarketLevel is one price of a market's depth.
type MarketLevel struct {
	Price  Rate `json:"price_per_gpu_hour"`
	Demand int  `json:"demand_gpus" doc:"GPUs that are bid for at this price or more"`
	Supply int  `json:"supply_gpus" doc:"GPUs that hosts let at this price or less"`
}

// PriceHistory is what a bundle size of a market cost. Prices are per GPU and hour.
type PriceHistory struct {
	Zone      string      `json:"zone"`
	GPUModel  string      `json:"gpu_model"`
	GPUs      int         `json:"gpus"`
	Simulated bool        `json:"simulated" doc:"There is no hardware"`
	Currency  string      `json:"currency"`
	From      time.Time   `json:"from"`
	To        time.Time   `json:"to"`
	Steps     []PriceStep `json:"steps" nullable:"false" doc:"Each holds until the next"`
	Min       Rate        `json:"min_per_gpu_hour" doc:"Of the time in which somebody paid a price"`
	P10       Rate        `json:"p10_per_gpu_hour" doc:"Not exceeded for 10 % of that time"`
	P50       Rate        `json:"p50_per_gpu_hour"`
	P90       Rate        `json:"p90_per_gpu_hour"`
	Max       Rate        `json:"max_per_gpu_hour"`
}

// PriceStep is a price from a moment on.
type PriceStep struct {
	At    time.Time `json:"at"`
	Price Rate      `json:"price_per_gpu_hour" doc:"0: nobody ran"`
	Ask   Rate      `json:"ask_per_gpu_hour" doc:"0: no host was large enough"`
}

// BidAdvice is how one more bid would have fared in the past. It promises nothing.
type BidAdvice struct {
	Zone             string    `json:"zone"`
	GPUModel         string    `json:"gpu_model"`
	GPUs             int       `json:"gpus"`
	Simulated        bool      `json:"simulated" doc:"There is no hardware"`
	Currency         string    `json:"currency"`
	From             time.Time `json:"from"`
	To               time.Time `json:"to"`
	Suggested        bool      `json:"suggested" doc:"The bid was found, and not asked for"`
	BidPerGPUHour    Rate      `json:"bid_per_gpu_hour"`
	WindowSeconds    int64     `json:"window_seconds" doc:"What is known of the time asked for"`
	RanSeconds       int64     `json:"ran_seconds"`
	ShareBasisPoints int       `json:"share_basis_points" doc:"Part of the time that it would have run, in 1/100 of a per cent"`
	Interruptions    int       `json:"interruptions"`
	CostPerGPU       Amount    `json:"cost_per_gpu" doc:"Of that run"`
	MeanPerGPUHour   Rate      `json:"mean_price_per_gpu_hour"`
}

// MarketQuery names a bundle size of a market and a stretch of time.
type MarketQuery struct {
	Zone     string
	GPUModel string
	GPUs     int
	From, To time.Time // zero: the last week
}

func (q MarketQuery) values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{"zone": q.Zone, "gpu_model": q.GPUModel} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.GPUs > 0 {
		v.Set("gpus", strconv.Itoa(q.GPUs))
	}
	for name, t := range map[string]time.Time{"from": q.From, "to": q.To} {
		if !t.IsZero() {
			v.Set(name, t.UTC().Format(time.RFC3339))
		}
	}
	return v
}

// CreateBid places a bid.
func (c *Client) CreateBid(ctx context.Context, in BidCreate) (*Bid, error) {
	return do[Bid](ctx, c, http.MethodPost, "/v1/bids", in)
}

// Bid returns one bid, by identifier or by name.
func (c *Client) Bid(ctx context.Context, nameOrID string) (*Bid, error) {
	return do[Bid](ctx, c, http.MethodGet, "/v1/bids/"+url.PathEscape(nameOrID), nil)
}

// Bids returns the caller's bids, newest first; with open, those that may still run.
func (c *Client) Bids(ctx context.Context, open bool) ([]Bid, error) {
	q := url.Values{}
	if open {
		q.Set("open", "true")
	}
	return collect(all[Bid](ctx, c, "/v1/bids", q))
}

// UpdateBid raises or lowers a bid.
func (c *Client) UpdateBid(ctx context.Context, nameOrID string, in BidUpdate) (*Bid, error) {
	return do[Bid](ctx, c, http.MethodPatch, "/v1/bids/"+url.PathEscape(nameOrID), in)
}

// CancelBid withdraws a bid and ends its lease, disk included.
func (c *Client) CancelBid(ctx context.Context, nameOrID string) (*Bid, error) {
	return do[Bid](ctx, c, http.MethodDelete, "/v1/bids/"+url.PathEscape(nameOrID), nil)
}

// SpotMarkets returns what the spot markets are like now; the zone and the model
// of the query may be empty.
func (c *Client) SpotMarkets(ctx context.Context, q MarketQuery) ([]SpotMarket, error) {
	return collect(all[SpotMarket](ctx, c, "/v1/market", q.values()))
}

// PriceHistory returns what a bundle size of a market cost.
func (c *Client) PriceHistory(ctx context.Context, q MarketQuery) (*PriceHistory, error) {
	var h PriceHistory
	return &h, c.Do(ctx, http.MethodGet, "/v1/market/history", q.values(), nil, &h)
}

// BidAdvice says how a bid would have fared, or with a bid of 0 suggests one that
// would have run so much of the time.
func (c *Client) BidAdvice(ctx context.Context, q MarketQuery, bid Rate, shareBasisPoints int) (*BidAdvice, error) {
	v := q.values()
	if bid > 0 {
		v.Set("bid_per_gpu_hour", bid.String())
	}
	if shareBasisPoints > 0 {
		v.Set("share_basis_points", strconv.Itoa(shareBasisPoints))
	}
	var a BidAdvice
	return &a, c.Do(ctx, http.MethodGet, "/v1/market/advice", v, nil, &a)
}

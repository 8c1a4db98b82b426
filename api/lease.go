package api

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// QuoteRequest asks for the price of an offer.
type QuoteRequest struct {
	OfferID     string `json:"offer_id" doc:"From a search" maxLength:"200"`
	Plan        string `json:"plan,omitempty" doc:"How it is paid" enum:"on_demand,monthly" default:"on_demand"`
	Template    string `json:"template,omitempty" doc:"Template to run; a template or an image is needed" maxLength:"100"`
	Image       string `json:"image,omitempty" doc:"Image to run, instead of the template's" maxLength:"520"`
	DiskGiB     int64  `json:"disk_gib,omitempty" doc:"Disk, in GiB; the template's if left out"`
	RunSeconds  int64  `json:"run_seconds,omitempty" doc:"Price this run time too, in seconds"`
	EgressBytes int64  `json:"egress_bytes,omitempty" doc:"Bytes that you expect to send in that time"`
	TermMonths  int    `json:"term_months,omitempty" doc:"Months paid in advance at once, of the plan monthly: 1, 3, 6 or 12; 1 if left out"`
	Renews      bool   `json:"renews,omitempty" doc:"Pay for another such term whenever one ends, while there is money"`
	OnLapse     string `json:"on_lapse,omitempty" doc:"What happens when the months end: the instance stops, or runs on and is paid by use; stop if left out" enum:"stop,on_demand"`
}

// QuoteLine is one meter of a quote.
type QuoteLine struct {
	Meter    string `json:"meter" doc:"compute, storage or egress"`
	Rate     Rate   `json:"rate" doc:"Price of one unit"`
	Unit     string `json:"unit"`
	Quantity string `json:"quantity"`
	PerHour  Amount `json:"per_hour"`
	PerDay   Amount `json:"per_day"`
	PerMonth Amount `json:"per_month"`
	ForRun   Amount `json:"for_run"`

	ListedRate *Rate `json:"listed_rate,omitempty" doc:"What a unit costs whoever has no price list; absent: the same"`
}

// Quote is a frozen price.
type Quote struct {
	ID                    string            `json:"id"`
	OfferID               string            `json:"offer_id"`
	Plan                  string            `json:"plan"`
	GPUModel              string            `json:"gpu_model"`
	GPUCount              int               `json:"gpu_count"`
	Image                 string            `json:"image"`
	DiskGiB               int64             `json:"disk_gib"`
	Currency              string            `json:"currency"`
	Granularity           string            `json:"granularity" doc:"What running time is counted in: second (whole ones: a second that has only begun is not charged), minute or hour (each that has begun is charged whole)" enum:"second,minute,hour"`
	MinimumSeconds        int64             `json:"minimum_seconds" doc:"Seconds that each start is charged for, at least, however short the run"`
	Lines                 []QuoteLine       `json:"lines"`
	PerHour               Amount            `json:"per_hour" doc:"Everything while running, without egress"`
	PerDay                Amount            `json:"per_day"`
	PerMonth              Amount            `json:"per_month"`
	ForRun                Amount            `json:"for_run"`
	PricePerHourByState   map[string]Amount `json:"price_per_hour_by_state" doc:"What each state of a lease costs"`
	DueNow                Amount            `json:"due_now" doc:"Taken from the balance when it is accepted: months in advance"`
	TermMonths            int               `json:"term_months,omitempty"`
	Renews                bool              `json:"renews,omitempty"`
	OnLapse               string            `json:"on_lapse,omitempty"`
	NotIncluded           []string          `json:"not_included"`
	AvailableAfterSeconds int64             `json:"available_after_seconds,omitempty" doc:"How long a lease waits, free of charge, until leases of the spot market have left its GPUs; absent: not at all"`
	Exchange              *Exchange         `json:"exchange,omitempty" doc:"How the listed price came to be in your currency; frozen in the quote"`
	PriceList             *AppliedPriceList `json:"price_list,omitempty" doc:"By which your prices differ from the listed ones; frozen in the quote"`
	Simulated             bool              `json:"simulated" doc:"The GPUs are simulated: there is no hardware"`
	CreatedAt             time.Time         `json:"created_at"`
	ValidUntil            time.Time         `json:"valid_until"`
}

// IdleStop stops a lease that nobody uses.
type IdleStop struct {
	AfterSeconds int64 `json:"after_seconds" doc:"0: never"`
	GPUPercent   int   `json:"gpu_percent" doc:"Busy above this" default:"5"`
	CPUPercent   int   `json:"cpu_percent" doc:"Busy above this, of all its CPUs" default:"5"`
}

// LeaseCreate accepts a quote.
type LeaseCreate struct {
	QuoteID       string            `json:"quote_id" maxLength:"64"`
	Name          string            `json:"name,omitempty" maxLength:"63"`
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
	Volumes       []VolumeMount     `json:"volumes,omitempty" doc:"Volumes that are on the host of the offer, mounted from the first start on"`
	SpendingCap   *Amount           `json:"spending_cap,omitempty" doc:"Stop when this much is due: more than 0; left out, there is no cap"`
}

// LeaseUpdate changes a lease's settings; what is left out stays.
type LeaseUpdate struct {
	Name     *string           `json:"name,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	StopAt   *time.Time        `json:"stop_at,omitempty" doc:"0001-01-01T00:00:00Z: no deadline"`
	IdleStop *IdleStop         `json:"idle_stop,omitempty"`
}

// Lease is one rental.
type Lease struct {
	ID              string            `json:"id"`
	Name            string            `json:"name"`
	State           string            `json:"state"`
	Code            string            `json:"code,omitempty" doc:"Why it is in this state, for programs"`
	Message         string            `json:"message,omitempty" doc:"Why it is in this state, for people"`
	ExitCode        *int              `json:"exit_code,omitempty"`
	Generation      int64             `json:"generation"`
	HostID          string            `json:"host_id"`
	Region          string            `json:"region"`
	Zone            string            `json:"zone"`
	GPUModel        string            `json:"gpu_model"`
	GPUCount        int               `json:"gpu_count"`
	GPUs            []string          `json:"gpus"`
	CPUMillis       int64             `json:"cpu_millis" doc:"Thousandths of a CPU"`
	MemoryMiB       int64             `json:"memory_mib"`
	DiskGiB         int64             `json:"disk_gib"`
	Simulated       bool              `json:"simulated" doc:"The GPUs are simulated: there is no hardware"`
	Template        string            `json:"template,omitempty"`
	Image           string            `json:"image"`
	Labels          map[string]string `json:"labels"`
	Ports           map[string]int    `json:"direct_ports,omitempty" doc:"Container port → port of the host"`
	Plan            string            `json:"plan"`
	PerHour         Amount            `json:"per_hour"`
	Currency        string            `json:"currency"`
	StopAt          *time.Time        `json:"stop_at,omitempty"`
	BidID           string            `json:"bid_id,omitempty" doc:"Of the bid that pays for it on the spot market; per_hour is then what it cost when it began"`
	WaitsUntil      *time.Time        `json:"waits_until,omitempty" doc:"While it is accepted and leases of the spot market have its GPUs still: when they have left, as far as is known. Until it runs it costs nothing, and can be ended"`
	InterruptReason string            `json:"interrupt_reason,omitempty" doc:"Why, as a code such as outbid or on_demand"`
	InterruptAt     *time.Time        `json:"interrupt_at,omitempty" doc:"When the spot market takes its place away, unless its bid wins again before"`
	IdleStop        *IdleStop         `json:"idle_stop,omitempty"`
	SpendingCap     Amount            `json:"spending_cap,omitempty"`
	CreatedAt       time.Time         `json:"created_at"`
	ChangedAt       time.Time         `json:"changed_at"`
	RunningSince    *time.Time        `json:"running_since,omitempty"`
	EndedAt         *time.Time        `json:"ended_at,omitempty"`
	Progress        *LeaseProgress    `json:"progress,omitempty"`
	Usage           *LeaseUsage       `json:"usage,omitempty" doc:"As the host last reported"`
}

// LeaseProgress is what the host is doing to start the lease.
type LeaseProgress struct {
	Phase       string `json:"phase"`
	PulledBytes int64  `json:"pulled_bytes"`
	TotalBytes  int64  `json:"total_bytes" doc:"0: not known yet"`
}

// LeaseUsage is what an instance uses now.
type LeaseUsage struct {
	CPUPercent    int   `json:"cpu_percent" doc:"Of one CPU"`
	GPUPercent    int   `json:"gpu_percent" doc:"Mean over its GPUs"`
	MemoryUsedMiB int64 `json:"memory_used_mib"`
	DiskUsedMiB   int64 `json:"disk_used_mib"`
	EgressBytes   int64 `json:"egress_bytes"`
	IngressBytes  int64 `json:"ingress_bytes"`
	Sessions      int   `json:"sessions" doc:"Open SSH sessions"`
}

// LeaseChange is one step in the life of a lease.
type LeaseChange struct {
	ID      string    `json:"id"`
	LeaseID string    `json:"lease_id"`
	At      time.Time `json:"at"`
	Event   string    `json:"event"`
	From    string    `json:"from"`
	To      string    `json:"to"`
	Code    string    `json:"code,omitempty"`
	Message string    `json:"message,omitempty"`
}

// Demand is one rental as a simulation needs it: what was asked for and how long
// it ran, without whose it was.
type Demand struct {
	ID         string     `json:"id"`
	Submitted  time.Time  `json:"submitted"`
	Start      *time.Time `json:"start,omitempty" doc:"First running; left out: never"`
	End        *time.Time `json:"end,omitempty" doc:"Left out: not over"`
	RanSeconds int64      `json:"ran_seconds" doc:"How long it ran so far, stops left out"`
	GPUs       int        `json:"gpus"`
	Model      string     `json:"model"`
	Plan       string     `json:"plan"`
	PerHour    Rate       `json:"price_per_hour" doc:"Of the GPUs together, without disk and traffic; of spot: the bid"`
	Currency   string     `json:"currency"`
	Simulated  bool       `json:"simulated" doc:"The GPUs were simulated: there was no hardware"`
}

// Demand returns a page of what all accounts rented, newest first. It is for
// operators.
func (c *Client) Demand(ctx context.Context, cursor string, limit int) (*Page[Demand], error) {
	q := url.Values{}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	var p Page[Demand]
	return &p, c.Do(ctx, http.MethodGet, "/v1/operator/demand", q, nil, &p)
}

// LeaseAccess is how to get into a lease.
type LeaseAccess struct {
	SSHHost     string            `json:"ssh_host"`
	SSHPort     int               `json:"ssh_port"`
	SSHUser     string            `json:"ssh_user"`
	SSHHostKey  string            `json:"ssh_host_key" doc:"known_hosts line's key of the gateway"`
	URLs        map[string]string `json:"urls" doc:"Container port → address in a browser, with a secret that opens this port only, as long as the lease lives"`
	Environment map[string]string `json:"environment" doc:"Secrets made for this lease included"`
}

// LeaseLinkCreate asks for a link to one port.
type LeaseLinkCreate struct {
	Port             int   `json:"port,omitempty" minimum:"1" maximum:"65535" doc:"A port that the lease serves; needed"`
	ExpiresInSeconds int64 `json:"expires_in_seconds,omitempty" minimum:"0" maximum:"31622400" doc:"0: as long as the lease lives; else at least 60"`
}

// LeaseLink opens one port of a lease to whoever has it.
type LeaseLink struct {
	Port      int        `json:"port"`
	URL       string     `json:"url" doc:"Secret included"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

// CreateQuote freezes the price of an offer.
func (c *Client) CreateQuote(ctx context.Context, r QuoteRequest) (*Quote, error) {
	var q Quote
	return &q, c.Do(ctx, http.MethodPost, "/v1/quotes", nil, r, &q)
}

// CreateLease accepts a quote.
func (c *Client) CreateLease(ctx context.Context, r LeaseCreate) (*Lease, error) {
	var l Lease
	return &l, c.Do(ctx, http.MethodPost, "/v1/leases", nil, r, &l)
}

// Lease returns one lease, by identifier or by name.
func (c *Client) Lease(ctx context.Context, nameOrID string) (*Lease, error) {
	var l Lease
	return &l, c.Do(ctx, http.MethodGet, "/v1/leases/"+url.PathEscape(nameOrID), nil, nil, &l)
}

// Leases returns a page of leases, newest first. State may be empty.
func (c *Client) Leases(ctx context.Context, state string, live bool, cursor string, limit int) (*Page[Lease], error) {
	q := url.Values{}
	if state != "" {
		q.Set("state", state)
	}
	if live {
		q.Set("live", "true")
	}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	var p Page[Lease]
	return &p, c.Do(ctx, http.MethodGet, "/v1/leases", q, nil, &p)
}

// UpdateLease changes a lease's settings.
func (c *Client) UpdateLease(ctx context.Context, id string, u LeaseUpdate) (*Lease, error) {
	var l Lease
	return &l, c.Do(ctx, http.MethodPatch, "/v1/leases/"+url.PathEscape(id), nil, u, &l)
}

// StopLease removes the container and keeps the disk.
func (c *Client) StopLease(ctx context.Context, id string) (*Lease, error) {
	return c.act(ctx, id, "stop")
}

// StartLease runs a stopped lease again.
func (c *Client) StartLease(ctx context.Context, id string) (*Lease, error) {
	return c.act(ctx, id, "start")
}

// RestartLease gives a running lease a new container on the same disk.
func (c *Client) RestartLease(ctx context.Context, id string) (*Lease, error) {
	return c.act(ctx, id, "restart")
}

// EndLease removes container and disk for good.
func (c *Client) EndLease(ctx context.Context, id string) (*Lease, error) {
	return c.act(ctx, id, "end")
}

func (c *Client) act(ctx context.Context, id, verb string) (*Lease, error) {
	var l Lease
	return &l, c.Do(ctx, http.MethodPost, "/v1/leases/"+url.PathEscape(id)+"/"+verb, nil, nil, &l)
}

// LeaseHistory returns what happened to a lease, oldest first.
func (c *Client) LeaseHistory(ctx context.Context, id string) ([]LeaseChange, error) {
	var p Page[LeaseChange]
	err := c.Do(ctx, http.MethodGet, "/v1/leases/"+url.PathEscape(id)+"/history", nil, nil, &p)
	return p.Items, err
}

// LeaseAccess returns how to get into a lease.
func (c *Client) LeaseAccess(ctx context.Context, id string) (*LeaseAccess, error) {
	var a LeaseAccess
	return &a, c.Do(ctx, http.MethodGet, "/v1/leases/"+url.PathEscape(id)+"/access", nil, nil, &a)
}

// CreateLeaseLink makes a link to one port of a lease.
func (c *Client) CreateLeaseLink(ctx context.Context, id string, in LeaseLinkCreate) (*LeaseLink, error) {
	var l LeaseLink
	return &l, c.Do(ctx, http.MethodPost, "/v1/leases/"+url.PathEscape(id)+"/links", nil, in, &l)
}

// RevokeLeaseLinks ends all links to a port of a lease that were given out;
// port 0: to all its ports.
func (c *Client) RevokeLeaseLinks(ctx context.Context, id string, port int) error {
	return c.Do(ctx, http.MethodDelete, "/v1/leases/"+url.PathEscape(id)+"/links", url.Values{"port": {strconv.Itoa(port)}}, nil, nil)
}

// LeaseLogs streams what the lease's container printed; with follow, until it
// ends. tail is a number of last lines, 0 for all. The caller closes the reader.
func (c *Client) LeaseLogs(ctx context.Context, id string, follow bool, tail int) (io.ReadCloser, error) {
	q := url.Values{"follow": {strconv.FormatBool(follow)}, "tail": {strconv.Itoa(tail)}}
	return c.Open(ctx, http.MethodGet, "/v1/leases/"+url.PathEscape(id)+"/logs", q, "text/plain")
}

// AbandonHost gives up, as an operator, a host that will not come back: its
// leases end as of its last sign of life.
func (c *Client) AbandonHost(ctx context.Context, hostID string) error {
	return c.Do(ctx, http.MethodPost, "/v1/operator/hosts/"+url.PathEscape(hostID)+"/abandon", nil, nil, nil)
}

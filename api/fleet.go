package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// OfferQuery is a search for offers.
type OfferQuery struct {
	// Where selects offers, such as
	//	gpu_model = "RTX 4090" and gpu_count >= 2 and price_per_hour < 1.5
	// OfferFields lists what it can name; empty selects all.
	Where string
	// Sort is a field's name, with "-" before it for the largest first; empty:
	// price_per_hour.
	Sort    string
	DiskGiB int64 // that shall fit and that prices include; 0: 20
	Limit   int   // offers a page, up to 500; 0: 50
	Cursor  string
}

// Offer is one bundle that can be rented now.
type Offer struct {
	ID         string `json:"id" doc:"<host id>.<GPU model>.<count>"`
	HostID     string `json:"host_id"`
	HostName   string `json:"host_name"`
	ProviderID string `json:"provider_id" doc:"Account of the host's provider"`
	Region     string `json:"region"`
	Zone       string `json:"zone"`
	Rack       string `json:"rack,omitempty"`
	Simulated  bool   `json:"simulated" doc:"The GPUs are simulated: there is no hardware"`

	GPUModel          string `json:"gpu_model" doc:"Empty without GPUs"`
	GPUCount          int    `json:"gpu_count"`
	GPUVendor         string `json:"gpu_vendor,omitempty"`
	GPUArchitecture   string `json:"gpu_architecture,omitempty"`
	VRAMMiB           int64  `json:"vram_mib" doc:"Memory of each GPU, as the driver tells it"`
	ComputeCapability string `json:"compute_capability,omitempty"`
	Driver            string `json:"driver,omitempty"`
	MaxCUDA           string `json:"max_cuda,omitempty" doc:"Highest CUDA version of the driver"`
	NVLink            bool   `json:"nvlink"`
	PCIeGen           int    `json:"pcie_gen,omitempty"`
	PCIeWidth         int    `json:"pcie_width,omitempty"`
	FP32TFLOPS        string `json:"fp32_tflops,omitempty" doc:"Of each GPU, decimal, from its data sheet; absent if not known"`
	FP16TFLOPS        string `json:"fp16_tflops,omitempty" doc:"Dense, of each GPU, decimal, from its data sheet; absent if not known"`
	VRAMBandwidthGBs  int    `json:"vram_bandwidth_gbs,omitempty" doc:"GB/s of each GPU's memory, from its data sheet; absent if not known"`

	CPUModel        string   `json:"cpu_model,omitempty"`
	CPUArchitecture string   `json:"cpu_architecture"`
	CPUMillis       int64    `json:"cpu_millis" doc:"Thousandths of a CPU"`
	MemoryMiB       int64    `json:"memory_mib"`
	DiskGiB         int64    `json:"disk_gib" doc:"Asked for, and in the price"`
	MaxDiskGiB      int64    `json:"max_disk_gib"`
	DiskReadMBps    int64    `json:"disk_read_mbps,omitempty" doc:"Measured"`
	DiskWriteMBps   int64    `json:"disk_write_mbps,omitempty" doc:"Measured"`
	NetDownMbps     int64    `json:"net_down_mbps,omitempty" doc:"Measured"`
	NetUpMbps       int64    `json:"net_up_mbps,omitempty" doc:"Measured"`
	DirectPorts     bool     `json:"direct_ports" doc:"The host has ports of its own that are reached without the gateway"`
	Isolation       []string `json:"isolation,omitempty"`

	AvailableAfterSeconds int64      `json:"available_after_seconds" doc:"How long a lease waits, free of charge, until leases of the spot market have left its GPUs, after their notice; 0: not at all"`
	Price                 OfferPrice `json:"price"`
	ReliabilityPercent    string     `json:"reliability_percent" doc:"Part of the time that the host was online, decimal"`
}

// OfferPrice is what an offer costs.
type OfferPrice struct {
	Currency              string `json:"currency"`
	PerHour               Amount `json:"per_hour" doc:"Compute and the disk asked for, all in"`
	ComputePerHour        Amount `json:"compute_per_hour"`
	StoragePerHour        Amount `json:"storage_per_hour" doc:"Of disk_gib, in this month in your account's time zone, as a quote says it; charged as long as the disk is kept, stopped too"`
	Compute               Rate   `json:"compute_rate" doc:"Per hour, the whole bundle"`
	Storage               Rate   `json:"storage_rate" doc:"Per GiB and month"`
	Egress                Rate   `json:"egress_rate" doc:"Per GB (1,000,000,000 bytes) sent out"`
	Granularity           string `json:"granularity" doc:"What running time is counted in: second (whole ones: a second that has only begun is not charged), minute or hour (each that has begun is charged whole)" enum:"second,minute,hour"`
	MinimumSeconds        int64  `json:"minimum_seconds" doc:"Seconds that each start is charged for, at least, however short the run"`
	CommissionBasisPoints int64  `json:"commission_basis_points" doc:"The cloud's part of the price, in 1/100 of a per cent"`

	Own *OwnPrice `json:"own,omitempty" doc:"What your account pays on demand, where that is in another currency or by a price list of its own; absent too if the operator has entered no rate that holds"`
}

// OwnPrice is the price of an offer as the account pays it.
type OwnPrice struct {
	Currency string    `json:"currency"`
	PerHour  Amount    `json:"per_hour" doc:"Compute and the disk asked for, all in"`
	Compute  Rate      `json:"compute_rate"`
	Storage  Rate      `json:"storage_rate"`
	Egress   Rate      `json:"egress_rate"`
	Exchange *Exchange `json:"exchange,omitempty"`

	PriceList *AppliedPriceList `json:"price_list,omitempty"`
}

// OfferField is something of an offer that a search can name.
type OfferField struct {
	Name string `json:"name"`
	Type string `json:"type" enum:"text,number,yes/no,version"`
	Unit string `json:"unit,omitempty"`
	Doc  string `json:"doc"`
}

// Host is one machine, or what stands for one, as its provider sees it.
type Host struct {
	ID                 string       `json:"id"`
	AccountID          string       `json:"account_id"`
	Name               string       `json:"name"`
	Region             string       `json:"region"`
	Zone               string       `json:"zone"`
	Rack               string       `json:"rack,omitempty"`
	Build              string       `json:"build" doc:"Version of its agent"`
	Simulated          bool         `json:"simulated" doc:"The GPUs are simulated: there is no hardware"`
	State              string       `json:"state" enum:"refused,joining,awaited,offline,invalid,not_ready,untested,maintenance,draining,unlisted,degraded,listed"`
	Reason             string       `json:"reason,omitempty" doc:"Of the state, for people"`
	CreatedAt          time.Time    `json:"created_at"`
	LastSeenAt         *time.Time   `json:"last_seen_at,omitempty"`
	ClockSkewMs        int64        `json:"clock_skew_ms" doc:"The host's clock less the cloud's; nothing depends on it"`
	ReliabilityPercent string       `json:"reliability_percent" doc:"Decimal"`
	Total              Capacity     `json:"total" doc:"What can be rented"`
	Free               Capacity     `json:"free"`
	GPUs               []HostGPU    `json:"gpus" nullable:"false"`
	Leases             []string     `json:"leases" nullable:"false" doc:"Leases that have GPUs of it now"`
	Hardware           *Hardware    `json:"hardware,omitempty" doc:"Absent until the host has reported it"`
	SelfTest           *SelfTest    `json:"self_test,omitempty"`
	Listing            Listing      `json:"listing"`
	Maintenance        *Maintenance `json:"maintenance,omitempty"`
}

// Capacity is sizes of what can be rented.
type Capacity struct {
	GPUs      int   `json:"gpus"`
	CPUMillis int64 `json:"cpu_millis"`
	MemoryMiB int64 `json:"memory_mib"`
	DiskMiB   int64 `json:"disk_mib"`
}

// HostGPU is a GPU of a host.
type HostGPU struct {
	UUID               string `json:"uuid"`
	Index              int    `json:"index"`
	Model              string `json:"model"`
	Present            bool   `json:"present" doc:"The host sees it now"`
	Health             string `json:"health" enum:"healthy,fenced,dirty"`
	Reason             string `json:"reason,omitempty"`
	LeaseID            string `json:"lease_id,omitempty"`
	Simulated          bool   `json:"simulated" doc:"There is no hardware"`
	UtilizationPercent int    `json:"utilization_percent"`
	UsedMiB            int64  `json:"used_mib"`
	TemperatureC       int    `json:"temperature_c"`
	PowerWatts         int    `json:"power_watts"`
}

// Hardware is what a host reports of itself.
type Hardware struct {
	Hostname     string   `json:"hostname"`
	OS           string   `json:"os"`
	Kernel       string   `json:"kernel"`
	Architecture string   `json:"architecture"`
	CPUModel     string   `json:"cpu_model"`
	CPUs         int      `json:"cpus"`
	MemoryMiB    int64    `json:"memory_mib"`
	DiskMiB      int64    `json:"disk_mib"`
	Runtime      string   `json:"runtime"`
	Isolation    []string `json:"isolation,omitempty"`
	DiskQuota    string   `json:"disk_quota,omitempty"`
	Driver       string   `json:"driver,omitempty"`
	MaxCUDA      string   `json:"max_cuda,omitempty"`
}

// SelfTest is the outcome of the checks that gate listing.
type SelfTest struct {
	Passed        bool            `json:"passed"`
	Checks        []SelfTestCheck `json:"checks" nullable:"false"`
	DiskReadMBps  int64           `json:"disk_read_mbps"`
	DiskWriteMBps int64           `json:"disk_write_mbps"`
	NetDownMbps   int64           `json:"net_down_mbps"`
	NetUpMbps     int64           `json:"net_up_mbps"`
}

// SelfTestCheck is one thing that was tried.
type SelfTestCheck struct {
	Name    string `json:"name"`
	Passed  bool   `json:"passed"`
	Skipped bool   `json:"skipped"`
	Detail  string `json:"detail,omitempty"`
}

// Listing is what a provider asks for a host. What is absent is the operator's default.
type Listing struct {
	Listed             bool            `json:"listed"`
	PerGPUHour         map[string]Rate `json:"per_gpu_hour,omitempty" doc:"By GPU model"`
	PerCPUHour         *Rate           `json:"per_cpu_hour,omitempty" doc:"On hosts without GPUs"`
	StoragePerGiBMonth *Rate           `json:"storage_per_gib_month,omitempty"`
	EgressPerGB        *Rate           `json:"egress_per_gb,omitempty"`
	MinGPUs            int             `json:"min_gpus,omitempty" doc:"The smallest bundle offered"`
	EndsAt             *time.Time      `json:"ends_at,omitempty"`

	SpotFloorPerGPUHour map[string]Rate `json:"spot_floor_per_gpu_hour,omitempty" doc:"The least that bids pay, by GPU model"`
	Reserved            *ReserveCurve   `json:"reserved,omitempty" doc:"What is taken off for reservations; absent: none are offered"`
	SpotFloorRule       *SpotFloorRule  `json:"spot_floor_rule,omitempty" doc:"How the floors follow the market; without it and a floor, they are 30 % of the median price on demand"`
}

// SpotFloorRule says how a floor follows the market: the highest part counts,
// within the bounds.
type SpotFloorRule struct {
	OfOnDemandBasisPoints int  `json:"of_on_demand_basis_points,omitempty" minimum:"0" maximum:"100000" doc:"Of the median price on demand of the model in the zone, in 1/100 of a per cent"`
	OfLastBasisPoints     int  `json:"of_last_basis_points,omitempty" minimum:"0" maximum:"10000" doc:"Of the last price on the spot market"`
	MinPerGPUHour         Rate `json:"min_per_gpu_hour,omitempty"`
	MaxPerGPUHour         Rate `json:"max_per_gpu_hour,omitempty" doc:"0: none"`
}

// UpdateListing changes the fields that are given. Leases that run keep their prices.
type UpdateListing struct {
	PerGPUHour         map[string]Rate `json:"per_gpu_hour,omitempty" doc:"By GPU model; others stay"`
	PerCPUHour         *Rate           `json:"per_cpu_hour,omitempty"`
	StoragePerGiBMonth *Rate           `json:"storage_per_gib_month,omitempty"`
	EgressPerGB        *Rate           `json:"egress_per_gb,omitempty"`
	MinGPUs            *int            `json:"min_gpus,omitempty" minimum:"0" maximum:"64"`
	EndsAt             *time.Time      `json:"ends_at,omitempty"`

	SpotFloorPerGPUHour map[string]Rate `json:"spot_floor_per_gpu_hour,omitempty" doc:"The least that bids pay, by GPU model; others stay"`
	Reserved            *ReserveCurve   `json:"reserved,omitempty" doc:"Without terms: none are offered"`
	SpotFloorRule       *SpotFloorRule  `json:"spot_floor_rule,omitempty" doc:"All zero: none"`
}

// Maintenance is an announced absence.
type Maintenance struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

// SetMaintenance announces an absence.
type SetMaintenance struct {
	From  *time.Time `json:"from,omitempty" doc:"Absent: now"`
	Until *time.Time `json:"until,omitempty" doc:"Required; at most 90 days after from"`
}

// CreateJoinToken is a token that lets one machine join as a host.
type CreateJoinToken struct {
	Name             string `json:"name,omitempty" maxLength:"100" doc:"Of the host; absent: the machine's own name"`
	Region           string `json:"region,omitempty" maxLength:"64" doc:"Absent: the cloud's default"`
	Zone             string `json:"zone,omitempty" maxLength:"64"`
	Rack             string `json:"rack,omitempty" maxLength:"100"`
	ExpiresInSeconds int64  `json:"expires_in_seconds,omitempty" minimum:"60" maximum:"2592000" default:"3600"`
}

// JoinToken is shown once.
type JoinToken struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Provider sums up the hosts of one account.
type Provider struct {
	AccountID          string   `json:"account_id"`
	Hosts              int      `json:"hosts"`
	Online             int      `json:"online"`
	GPUs               int      `json:"gpus" doc:"Real ones"`
	FreeGPUs           int      `json:"free_gpus"`
	SimulatedGPUs      int      `json:"simulated_gpus"`
	GPUModels          []string `json:"gpu_models" nullable:"false"`
	Regions            []string `json:"regions" nullable:"false"`
	ReliabilityPercent string   `json:"reliability_percent" doc:"Mean of its hosts, decimal"`
}

// Offers searches the market.
func (c *Client) Offers(ctx context.Context, q OfferQuery) (*Page[Offer], error) {
	v := url.Values{}
	for name, value := range map[string]string{"where": q.Where, "sort": q.Sort, "cursor": q.Cursor} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.DiskGiB != 0 {
		v.Set("disk_gib", strconv.FormatInt(q.DiskGiB, 10))
	}
	if q.Limit != 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	var out Page[Offer]
	if err := c.Do(ctx, http.MethodGet, "/v1/offers", v, nil, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Offer reads one offer, priced with diskGiB of disk (0: 20).
func (c *Client) Offer(ctx context.Context, id string, diskGiB int64) (*Offer, error) {
	v := url.Values{}
	if diskGiB != 0 {
		v.Set("disk_gib", strconv.FormatInt(diskGiB, 10))
	}
	var out Offer
	if err := c.Do(ctx, http.MethodGet, "/v1/offers/"+url.PathEscape(id), v, nil, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// OfferFields lists what a search can name.
func (c *Client) OfferFields(ctx context.Context) ([]OfferField, error) {
	return collect(all[OfferField](ctx, c, "/v1/offers/fields", nil))
}

// Providers lists the accounts that have hosts.
func (c *Client) Providers(ctx context.Context) ([]Provider, error) {
	return collect(all[Provider](ctx, c, "/v1/providers", nil))
}

// Hosts lists the account's hosts; all of them for an operator.
func (c *Client) Hosts(ctx context.Context) ([]Host, error) {
	return collect(all[Host](ctx, c, "/v1/hosts", nil))
}

// Host reads one host.
func (c *Client) Host(ctx context.Context, id string) (*Host, error) {
	return do[Host](ctx, c, http.MethodGet, "/v1/hosts/"+url.PathEscape(id), nil)
}

// CreateJoinToken makes a token that lets one machine join.
func (c *Client) CreateJoinToken(ctx context.Context, in CreateJoinToken) (*JoinToken, error) {
	return do[JoinToken](ctx, c, http.MethodPost, "/v1/hosts/join-tokens", in)
}

// UpdateListing changes a host's prices and terms.
func (c *Client) UpdateListing(ctx context.Context, hostID string, in UpdateListing) (*Host, error) {
	return do[Host](ctx, c, http.MethodPatch, "/v1/hosts/"+url.PathEscape(hostID)+"/listing", in)
}

// ListHost puts a host on the market.
func (c *Client) ListHost(ctx context.Context, id string) (*Host, error) {
	return c.hostVerb(ctx, id, "list")
}

// UnlistHost takes a host off the market; leases on it go on.
func (c *Client) UnlistHost(ctx context.Context, id string) (*Host, error) {
	return c.hostVerb(ctx, id, "unlist")
}

// DrainHost lets nothing new start on a host; what runs goes on.
func (c *Client) DrainHost(ctx context.Context, id string) (*Host, error) {
	return c.hostVerb(ctx, id, "drain")
}

// UndrainHost takes DrainHost back.
func (c *Client) UndrainHost(ctx context.Context, id string) (*Host, error) {
	return c.hostVerb(ctx, id, "undrain")
}

func (c *Client) hostVerb(ctx context.Context, id, verb string) (*Host, error) {
	return do[Host](ctx, c, http.MethodPost, "/v1/hosts/"+url.PathEscape(id)+"/"+verb, nil)
}

// SetMaintenance announces a host's absence.
func (c *Client) SetMaintenance(ctx context.Context, id string, in SetMaintenance) (*Host, error) {
	return do[Host](ctx, c, http.MethodPut, "/v1/hosts/"+url.PathEscape(id)+"/maintenance", in)
}

// CancelMaintenance takes an announcement back.
func (c *Client) CancelMaintenance(ctx context.Context, id string) (*Host, error) {
	return do[Host](ctx, c, http.MethodDelete, "/v1/hosts/"+url.PathEscape(id)+"/maintenance", nil)
}

// RemoveHost forgets a host that has no lease.
func (c *Client) RemoveHost(ctx context.Context, id string) error {
	return c.Do(ctx, http.MethodDelete, "/v1/hosts/"+url.PathEscape(id), nil, nil, nil)
}

// ConfirmLoss says, as an operator, that hosts which fell silent together are
// really lost.
func (c *Client) ConfirmLoss(ctx context.Context) error {
	return c.Do(ctx, http.MethodPost, "/v1/operator/fleet/confirm-loss", nil, nil, nil)
}

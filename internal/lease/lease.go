package lease

import (
	"encoding/json"
	"time"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/protocol"
)

// Lease is one rental of one bundle, from accepted quote to end.
type Lease struct {
	ID         string
	AccountID  string
	UserID     string
	ProviderID string
	HostID     string
	QuoteID    string
	Name       string
	Labels     map[string]string
	Template   string
	Image      string
	GPUModel   string
	GPUs       []string // UUIDs; empty while stopped
	Bundle     Bundle
	Price      pricing.Quote
	Simulated  bool

	State      State
	Generation int64
	// Cleaned says that the host has proven that nothing is left of the lease.
	Cleaned bool
	// Code and Message explain the state: why it stopped, failed or ended.
	Code     string
	Message  string
	ExitCode *int

	Deadline    time.Time    // zero: none
	Idle        IdleStop     // zero: never
	SpendingCap money.Amount // zero: none

	BidID           string    // of the bid that pays for it; empty: not on the spot market
	WaitsUntil      time.Time // when the GPUs that it waits for are free, as far as is known; zero: it has them
	InterruptReason string    // of the notice, a code such as "outbid"
	InterruptAt     time.Time // when the spot market takes its place away; zero: no notice

	GangID    string // of the cluster that it is a node of; empty: it stands alone
	GangWaits bool   // nothing is charged until all leases of its gang run

	CreatedAt    time.Time
	ChangedAt    time.Time // of the state
	RunningSince time.Time // of the present run; zero when not running
	EndedAt      time.Time

	// Status is what the host last reported; nil: nothing yet.
	Status *protocol.InstanceStatus

	version     int64
	spec        string // sealed Spec
	accessToken string // sealed
}

// Bundle is what a lease has of its host.
type Bundle struct {
	GPUCount    int         `json:"gpu_count"`
	VRAMMiB     int64       `json:"vram_mib"` // of each GPU
	CPUMillis   int64       `json:"cpu_millis"`
	MemoryMiB   int64       `json:"memory_mib"`
	DiskGiB     int64       `json:"disk_gib"`
	DirectPorts map[int]int `json:"direct_ports,omitempty"` // container port → host port
	EgressPorts []int       `json:"egress_ports,omitempty"` // that it may reach outside; none: all
	Region      string      `json:"region"`
	Zone        string      `json:"zone"`
}

// IdleStop stops a lease that nobody uses: no open session, and GPUs and CPU
// under the thresholds, for After.
type IdleStop struct {
	After      time.Duration
	GPUPercent int
	CPUPercent int
}

// Spec is what the renter asked to run. It is stored sealed, since its
// environment holds secrets.
type Spec struct {
	Entrypoint    []string          `json:"entrypoint,omitempty"`
	Command       []string          `json:"command,omitempty"`
	StartScript   string            `json:"start_script,omitempty"`
	NoticeSignal  string            `json:"notice_signal,omitempty"`
	NoticeCommand string            `json:"notice_command,omitempty"`
	Environment   map[string]string `json:"environment,omitempty"`
	Ports         []int             `json:"ports,omitempty"`
	ShmMiB        int64             `json:"shm_mib,omitempty"`
	// Cluster is the node's place in its cluster; nil: it stands alone.
	Cluster *protocol.Cluster `json:"cluster,omitempty"`
}

// Quote is a frozen price for an offer, not yet accepted.
type Quote struct {
	ID         string
	AccountID  string
	Offer      fleet.Offer
	Request    QuoteRequest
	Price      pricing.Quote
	CreatedAt  time.Time
	ValidUntil time.Time
	LeaseID    string // of the lease that accepted it
}

// QuoteRequest is what is to be priced.
type QuoteRequest struct {
	OfferID     string        `json:"offer_id"`
	Plan        string        `json:"plan"` // "on_demand" or "monthly"
	Template    string        `json:"template"`
	Image       string        `json:"image"`        // replaces the template's
	DiskGiB     int64         `json:"disk_gib"`     // 0: the template's
	RunFor      time.Duration `json:"run_for_ns"`   // 0: no estimate for a stated run time
	EgressBytes int64         `json:"egress_bytes"` // estimate for that run

	// Of the plan monthly.
	TermMonths int           `json:"term_months,omitempty"` // 0: 1
	Renews     bool          `json:"renews,omitempty"`
	OnLapse    billing.Lapse `json:"on_lapse,omitempty"` // empty: stop
}

// Create is the acceptance of a quote.
type Create struct {
	QuoteID     string
	Name        string
	Labels      map[string]string
	Entrypoint  []string
	Command     []string
	StartScript string
	// NoticeSignal is sent to the command when it is told of its interruption, and
	// NoticeCommand run by /bin/sh beside it; empty: the template's.
	NoticeSignal  string
	NoticeCommand string
	Environment   map[string]string
	Ports         []int
	Deadline      time.Time
	Idle          *IdleStop     // nil: the template's, or else the cloud's
	SpendingCap   *money.Amount // nil: none
	Volumes       []VolumeUse

	bidID   string // of the bid that the spot market makes the lease for
	gangID  string // of the gang that it is made in
	cluster *protocol.Cluster
}

// Change is one step in the life of a lease.
type Change struct {
	ID        string
	LeaseID   string
	AccountID string
	At        time.Time
	Event     Event
	From      State
	To        State
	Code      string
	Message   string
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("marshal of a plain value: " + err.Error())
	}
	return string(b)
}

package protocol

import "time"

// Version is the protocol's version. A control plane refuses an agent whose
// version it does not know, saying which to install.
const Version = 1

// TunnelALPN is the TLS application protocol of the multiplexed tunnel; the
// same port speaks HTTP for enrolment when it is not asked for.
const TunnelALPN = "suanli-tunnel/1"

// ControlName is the name in the certificate of the listener that agents dial.
// They know the cloud by its authority, not by the address they dialled.
const ControlName = "control.suanli.internal"

// CodeHostRemoved is how a control plane tells an agent, at connecting and in its
// answers to reports, that its host was removed: it knew the host once and has
// taken it out, for good. The agent ends what it runs and itself. One that merely
// does not know the host ("unknown_host") may have lost its database, and ends
// nothing.
const CodeHostRemoved = "host_removed"

// CommandSubject is where the control plane sends commands for a host.
func CommandSubject(hostID string) string { return "host." + hostID + ".command" }

// ReportSubject is where a host's agent sends its reports.
func ReportSubject(hostID string) string { return "control." + hostID + ".report" }

// AnyReportSubject matches every host's report subject.
const AnyReportSubject = "control.*.report"

// InboxPrefix is the prefix of reply subjects that a host may subscribe to.
func InboxPrefix(hostID string) string { return "_INBOX_" + hostID }

// Instant is a reading of a host's boot clock (CLOCK_BOOTTIME), which does not
// jump and counts through suspend. Readings of different boots do not compare.
type Instant struct {
	BootID string `json:"boot_id"`
	Nanos  int64  `json:"nanos"`
}

// EnrolRequest is what a joining machine sends over HTTP to POST /agent/v1/enrol.
type EnrolRequest struct {
	Token     string `json:"token"`             // one-time join token
	CSR       string `json:"csr"`               // PEM certificate request for the agent's own ed25519 key
	BusKey    string `json:"bus_key"`           // public nkey (user) made from the same seed
	Name      string `json:"name"`              // host name shown to the provider
	Version   int    `json:"version"`           // protocol Version
	Build     string `json:"build"`             // version of the agent's binary
	Simulated bool   `json:"simulated"`         // the machine will offer simulated GPUs
	Gateway   bool   `json:"gateway,omitempty"` // it joins as a gateway and not as a host; the token is a gateway's
}

// EnrolReply gives the machine its identity.
type EnrolReply struct {
	HostID      string `json:"host_id"`     // or the gateway's id
	Certificate string `json:"certificate"` // PEM client certificate, common name = host id
	Authority   string `json:"authority"`   // PEM certificate of the cloud's own authority
	Tunnel      string `json:"tunnel"`      // host:port to dial
}

// Vendor is who made a GPU.
type Vendor string

// The vendors an agent can report.
const (
	NVIDIA Vendor = "nvidia"
	AMD    Vendor = "amd"
)

// GPU is one device as the host sees it. A field that the driver cannot tell is zero.
type GPU struct {
	UUID              string `json:"uuid"`
	Index             int    `json:"index"`
	Vendor            Vendor `json:"vendor"`
	Name              string `json:"name"` // as the driver calls it
	VRAMMiB           int64  `json:"vram_mib"`
	Driver            string `json:"driver"`             // driver version
	MaxCUDA           string `json:"max_cuda"`           // highest CUDA version of the driver, "12.4"
	ComputeCapability string `json:"compute_capability"` // "9.0"; "gfx942" on AMD
	PCIBusID          string `json:"pci_bus_id"`
	PCIeGen           int    `json:"pcie_gen"`
	PCIeWidth         int    `json:"pcie_width"`
	NUMANode          int    `json:"numa_node"` // -1: unknown
	// Machine is the node of a cluster that the GPU is in; a lease's GPUs are all in one.
	// Empty: the host is one machine.
	Machine        string   `json:"machine,omitempty"`
	NVLinks        []Link   `json:"nv_links,omitempty"`
	MIGEnabled     bool     `json:"mig_enabled"`
	ECCEnabled     bool     `json:"ecc_enabled"`
	ECCUncorrected int64    `json:"ecc_uncorrected"` // since the driver was loaded
	Simulated      bool     `json:"simulated"`       // set by the kind of driver, not editable
	Health         Health   `json:"health"`
	Stats          GPUStats `json:"stats"`
}

// Link is an NVLink connection to another GPU or to a switch.
type Link struct {
	PeerUUID string `json:"peer_uuid"` // empty: an NVSwitch
	Links    int    `json:"links"`
}

// GPUStats changes from moment to moment.
type GPUStats struct {
	UtilizationPercent int       `json:"utilization_percent"`
	UsedMiB            int64     `json:"used_mib"`
	TemperatureC       int       `json:"temperature_c"`
	PowerWatts         int       `json:"power_watts"`
	Processes          []Process `json:"processes,omitempty"`
}

// Process holds memory of a GPU.
type Process struct {
	PID     int   `json:"pid"`
	UsedMiB int64 `json:"used_mib"`
}

// Health says whether a GPU may be rented.
type Health struct {
	State  HealthState `json:"state"`
	Reason string      `json:"reason,omitempty"` // for people
	Xids   []int       `json:"xids,omitempty"`   // NVIDIA error numbers seen since boot
}

// HealthState is a GPU's fitness.
type HealthState string

// The states of a GPU's health. A fenced or dirty GPU is not offered.
const (
	Healthy HealthState = "healthy"
	Fenced  HealthState = "fenced" // hardware fault; leaves only after an active probe
	Dirty   HealthState = "dirty"  // memory or processes left over from an ended lease
)

// Inventory is what a host has. Sizes are totals, not what is free.
type Inventory struct {
	Hostname     string     `json:"hostname"`
	OS           string     `json:"os"`
	Kernel       string     `json:"kernel"`
	Architecture string     `json:"architecture"` // GOARCH
	CPUModel     string     `json:"cpu_model"`
	CPUs         int        `json:"cpus"` // logical
	MemoryMiB    int64      `json:"memory_mib"`
	DiskMiB      int64      `json:"disk_mib"` // for instances
	GPUs         []GPU      `json:"gpus"`
	Runtime      string     `json:"runtime"`                // "docker 20.10.24", "podman 4.3.1", "sim"
	Isolation    []string   `json:"isolation"`              // OCI runtimes offered: "runc", "runsc"
	DiskQuota    string     `json:"disk_quota"`             // how the disk limit is enforced: "loop", "overlay-pquota"
	Simulated    bool       `json:"simulated"`              // any GPU is simulated
	Addresses    []string   `json:"addresses"`              // of the host's interfaces
	DirectPorts  *PortRange `json:"direct_ports,omitempty"` // reachable from outside, if the host has any
	SelfTest     SelfTest   `json:"self_test"`
}

// PortRange is inclusive.
type PortRange struct {
	Address string `json:"address"`
	First   int    `json:"first"`
	Last    int    `json:"last"`
}

// SelfTest is the outcome of the checks that gate listing.
type SelfTest struct {
	RanAt         Instant `json:"ran_at"`
	Passed        bool    `json:"passed"`
	Checks        []Check `json:"checks"`
	DiskReadMBps  int64   `json:"disk_read_mbps"`
	DiskWriteMBps int64   `json:"disk_write_mbps"`
	NetDownMbps   int64   `json:"net_down_mbps"` // between host and control plane
	NetUpMbps     int64   `json:"net_up_mbps"`
	ClockSkewMs   int64   `json:"clock_skew_ms"` // host minus control plane
}

// Check is one thing that was tried.
type Check struct {
	Name    string `json:"name"`
	Passed  bool   `json:"passed"`
	Skipped bool   `json:"skipped"` // not applicable; Detail says why. A skipped check is not Passed.
	Detail  string `json:"detail"`
}

// Want is the state that the control plane wants an instance in.
type Want string

// The states to want. Absent means that nothing of the lease is left on the host.
const (
	WantRunning Want = "running"
	WantStopped Want = "stopped" // container gone, disk kept
	WantAbsent  Want = "absent"
)

// Command asks an agent to bring one lease to a state. It is idempotent; an
// agent that has seen a higher generation of the lease refuses it.
type Command struct {
	LeaseID    string        `json:"lease_id"`
	Generation int64         `json:"generation"`
	Want       Want          `json:"want"`
	Spec       *InstanceSpec `json:"spec,omitempty"` // with WantRunning
	Limits     RunLimits     `json:"limits"`
	// Volume, if set, is what the command is about, and no lease: nothing else in it
	// counts. An agent that knows no volumes refuses it, as it names no lease.
	Volume *VolumeCommand `json:"volume,omitempty"`
	// Transfer, if set, is what the command is about, as Volume is.
	Transfer *TransferCommand `json:"transfer,omitempty"`
}

// VolumeCommand asks an agent to have a volume, or to have nothing of it. It is
// idempotent, and its answer means that it is done.
type VolumeCommand struct {
	VolumeID string `json:"volume_id"`
	Present  bool   `json:"present"`
	SizeMiB  int64  `json:"size_mib"` // of one that is made
}

// VolumeMount is a volume in an instance. The host has it already.
type VolumeMount struct {
	VolumeID string `json:"volume_id"`
	Path     string `json:"path"` // absolute, inside
	ReadOnly bool   `json:"read_only,omitempty"`
}

// RunLimits bounds a run without the control plane's help. They may change
// within a generation; the latest received holds.
type RunLimits struct {
	// PaidFor is how long from receipt the instance may go on without hearing
	// from the control plane again; the agent stops it then. Zero: no limit.
	PaidFor time.Duration `json:"paid_for_ns"`
	// StopIn is how long from receipt until the renter's deadline. Zero: none.
	StopIn time.Duration `json:"stop_in_ns"`
	// InterruptIn is how long from receipt until the spot market takes the
	// instance's place away; the control plane stops it then. Zero: it does not.
	InterruptIn time.Duration `json:"interrupt_in_ns,omitempty"`
	// InterruptReason is why, such as "outbid".
	InterruptReason string `json:"interrupt_reason,omitempty"`
	// IdleAfter stops an instance with no session and GPU and CPU under the
	// thresholds for this long. Zero: never.
	IdleAfter      time.Duration `json:"idle_after_ns"`
	IdleGPUPercent int           `json:"idle_gpu_percent"`
	IdleCPUPercent int           `json:"idle_cpu_percent"`
}

// InstanceSpec is everything an agent needs to run an instance.
type InstanceSpec struct {
	Image       string            `json:"image"`                  // OCI reference, or cloud://name:tag in the cloud's own registry
	Entrypoint  []string          `json:"entrypoint,omitempty"`   // replaces the image's
	Command     []string          `json:"command,omitempty"`      // replaces the image's
	StartScript string            `json:"start_script,omitempty"` // run by /bin/sh before the command, or as the command if there is none
	Environment map[string]string `json:"environment,omitempty"`  // secrets included; never logged
	Ports       []int             `json:"ports,omitempty"`        // TCP ports served inside, reached through the gateway
	DirectPorts map[int]int       `json:"direct_ports,omitempty"` // container port → host port, on hosts that have them
	Volumes     []VolumeMount     `json:"volumes,omitempty"`
	GPUs        []string          `json:"gpus,omitempty"` // UUIDs
	CPUMillis   int64             `json:"cpu_millis"`
	MemoryMiB   int64             `json:"memory_mib"`
	DiskMiB     int64             `json:"disk_mib"`
	PIDs        int64             `json:"pids"`
	ShmMiB      int64             `json:"shm_mib"`
	SSHKeys     []string          `json:"ssh_keys"` // authorized_keys lines
	// GatewayKeys are authorized_keys lines of the cloud's own gateways.
	GatewayKeys []string `json:"gateway_keys"`
	OpenPrivate bool     `json:"open_private"` // allow private address ranges (operator's grant)
	// EgressPorts are the only ports, of TCP and UDP, that it may reach outside; none: all.
	EgressPorts []int  `json:"egress_ports,omitempty"`
	Isolation   string `json:"isolation"` // OCI runtime; empty: the host's default
	Simulated   bool   `json:"simulated"`
	// Activity is a program inside that is asked whether it is busy; nil: none.
	Activity *Activity `json:"activity,omitempty"`
	// NoticeSignal is sent to the command, and NoticeCommand run by /bin/sh beside
	// it, when the instance is told that it will be interrupted; empty: none.
	NoticeSignal  string `json:"notice_signal,omitempty"`
	NoticeCommand string `json:"notice_command,omitempty"`
	// Cluster is the node's place in its cluster; nil: it stands alone.
	Cluster *Cluster `json:"cluster,omitempty"`
}

// Activity is a program inside an instance that knows better than its meters
// whether somebody's work is going on: a notebook's cell may wait for hours.
type Activity struct {
	Kind          ActivityKind `json:"kind"`
	Port          int          `json:"port"`                     // TCP, on the instance's own loopback
	TokenVariable string       `json:"token_variable,omitempty"` // environment variable with the program's token
}

// ActivityKind is the way in which a program is asked.
type ActivityKind string

// ActivityJupyter asks the Jupyter Server REST API for kernels that are busy.
const ActivityJupyter ActivityKind = "jupyter"

// CommandResult is the agent's immediate answer; progress comes by reports.
type CommandResult struct {
	Accepted bool `json:"accepted"`
	// Code is "stale_generation", "bad_spec" or "not_ready"; of a volume, "disk_full",
	// "volume_in_use" or "bad_spec" too.
	Code       string `json:"code,omitempty"`
	Message    string `json:"message,omitempty"`
	Generation int64  `json:"generation"` // highest the agent knows for the lease
	// Transfer is how a transfer stands that the command was about.
	Transfer *TransferStatus `json:"transfer,omitempty"`
}

// Phase is where an instance is.
type Phase string

// The phases of an instance on its host.
const (
	PhasePulling  Phase = "pulling"
	PhaseCreating Phase = "creating"
	PhaseRunning  Phase = "running"
	PhaseStopping Phase = "stopping"
	PhaseStopped  Phase = "stopped" // no container; disk kept
	PhaseFailed   Phase = "failed"  // could not start; see Reason
	PhaseAbsent   Phase = "absent"  // nothing left, and its GPUs proven clean
)

// InstanceStatus is the agent's present view of one lease.
type InstanceStatus struct {
	LeaseID    string   `json:"lease_id"`
	Generation int64    `json:"generation"`
	Phase      Phase    `json:"phase"`
	Progress   Progress `json:"progress"`
	// Code and Reason explain failed and stopped: "exited", "oom_killed",
	// "image_not_found", "image_architecture", "image_too_big", "pull_stalled",
	// "registry_refused", "image_damaged", "disk_full", "gpu_missing", "host_full", "host_quota", "deadline", "idle", "unpaid", "commanded", "engine".
	Code     string `json:"code,omitempty"`
	Reason   string `json:"reason,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`
	// Started is when the instance was confirmed running, Stopped when it was
	// confirmed not to be, in this generation.
	Started *Instant `json:"started,omitempty"`
	Stopped *Instant `json:"stopped,omitempty"`
	// Counters since the lease began on this host; they never go down.
	EgressBytes   int64       `json:"egress_bytes"`
	IngressBytes  int64       `json:"ingress_bytes"`
	DiskUsedMiB   int64       `json:"disk_used_mib"`
	MemoryUsedMiB int64       `json:"memory_used_mib"`
	CPUPercent    int         `json:"cpu_percent"` // of one CPU; 250 is two and a half
	GPUPercent    int         `json:"gpu_percent"` // mean over its GPUs
	Sessions      int         `json:"sessions"`    // open SSH sessions
	DirectPorts   map[int]int `json:"direct_ports,omitempty"`
	// GPUFault says that the running instance cannot use GPUs that the host can;
	// nil: it can, or has none, or was not asked yet.
	GPUFault *GPUFault `json:"gpu_fault,omitempty"`
	// Overlay is the state of its cluster's private network on this host; nil: none.
	Overlay *Overlay `json:"overlay,omitempty"`
}

// GPUFault is a host's failure to keep a running instance's GPUs usable inside of
// it, such as when the host's service manager rewrites device rules.
type GPUFault struct {
	Since  Instant `json:"since"`  // when it was first seen
	Reason string  `json:"reason"` // for people
}

// Progress of a pull.
type Progress struct {
	Bytes int64 `json:"bytes"`
	Total int64 `json:"total"` // 0: not known yet
}

// Report is sent at each heartbeat and at each change. Seq grows by one within
// a session, so that the control plane can drop an older one that comes late.
type Report struct {
	Session   string              `json:"session"` // random, per start of the agent
	Seq       int64               `json:"seq"`
	Now       Instant             `json:"now"`
	WallNanos int64               `json:"wall_nanos"`          // to show skew, never to decide
	Inventory *Inventory          `json:"inventory,omitempty"` // when changed, and at least each minute
	GPUStats  map[string]GPUStats `json:"gpu_stats,omitempty"` // by UUID
	Health    map[string]Health   `json:"health,omitempty"`    // by UUID; GPUs that are not Healthy
	Instances []InstanceStatus    `json:"instances"`           // always all of them, so that absence means something
	Ready     bool                `json:"ready"`               // the runtime answered and Instances is complete
	Problem   string              `json:"problem,omitempty"`   // why not Ready, or what is degraded
	// Past holds runs that began or ended while nobody listened, oldest first.
	// The control plane acknowledges them by AckedPast.
	Past []PastRun `json:"past,omitempty"`
}

// PastRun is a stretch of a lease's running, kept on the agent's disk until acknowledged.
type PastRun struct {
	ID          int64    `json:"id"`
	LeaseID     string   `json:"lease_id"`
	Generation  int64    `json:"generation"`
	Started     Instant  `json:"started"`
	Stopped     *Instant `json:"stopped,omitempty"`
	Code        string   `json:"code,omitempty"`
	EgressBytes int64    `json:"egress_bytes"`
}

// ReportReply steers the agent.
type ReportReply struct {
	Accepted      bool   `json:"accepted"`
	Code          string `json:"code,omitempty"` // "duplicate_session": another agent uses this key; "unknown_host"; CodeHostRemoved
	Message       string `json:"message,omitempty"`
	NextInSeconds int    `json:"next_in_seconds"` // until the next heartbeat
	AckedPast     int64  `json:"acked_past"`      // PastRuns up to this ID may be forgotten
	SendInventory bool   `json:"send_inventory"`
	// Desired lists every lease the control plane knows on the host with its
	// generation and limits. Only when Complete may the agent remove what is not
	// in it, and then only what has been unknown in two complete replies.
	Desired  []Desired `json:"desired,omitempty"`
	Complete bool      `json:"complete"`
}

// Desired is one entry of the full desired state.
type Desired struct {
	LeaseID    string    `json:"lease_id"`
	Generation int64     `json:"generation"`
	Limits     RunLimits `json:"limits"`
	// Peers are the other nodes of the lease's cluster that are known by now.
	Peers []Peer `json:"peers,omitempty"`
}

package runtime

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"suanli.dev/internal/protocol"
)

// Error is a refusal that retrying does not cure. Code is one of the codes of
// protocol.InstanceStatus.
type Error struct {
	Code   string
	Reason string
}

func (e *Error) Error() string { return e.Reason }

// CodeOf returns the code of an Error in err's chain, or "".
func CodeOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// ErrNotRunning is returned where a running instance is needed.
var ErrNotRunning = errors.New("the instance is not running")

// Info is what an engine says of itself.
type Info struct {
	Name      string   // "docker 20.10.24"
	Isolation []string // OCI runtimes offered, the default first
	DiskQuota string   // "loop", or empty: the disk limit cannot be enforced
	Problem   string   // what is degraded and what to do, for people; empty: nothing
	DiskMiB   int64    // free for instances' disks
	// Machine is what instances run on, where that is not the agent's own machine.
	Machine *Machine
}

// Machine is what a cluster is as one host: sums over its nodes.
type Machine struct {
	Hostname     string
	OS           string
	Kernel       string
	Architecture string // GOARCH
	CPUModel     string
	CPUs         int
	MemoryMiB    int64
}

// Image is one that is on the host and fits it.
type Image struct {
	ID         string // what the engine starts
	Entrypoint []string
	Command    []string
	Env        []string
	WorkingDir string
	User       string
	SizeBytes  int64
}

// PullRequest asks for an image.
type PullRequest struct {
	Reference string // OCI reference, or cloud://name:tag
	MaxBytes  int64  // largest unpacked size; 0: any
	// Stall is how long a pull may go on without a byte of progress.
	Stall    time.Duration
	Progress func(protocol.Progress)
}

// Mount is a bind of a host file or folder, read-only.
type Mount struct {
	Source string
	Target string
}

// Attachment is what gives a container its GPUs.
type Attachment struct {
	NVIDIA  []string          // UUIDs for the engine's NVIDIA support
	Devices []string          // device nodes
	Env     map[string]string // overrides the renter's and the image's
	Mounts  []Mount
	Groups  []string // numeric group ids that own the device nodes
}

// Container is everything needed to make an instance.
type Container struct {
	LeaseID    string
	Generation int64
	Image      Image
	// Entrypoint replaces the instance's init; only the self-test sets it.
	Entrypoint  []string
	Settings    protocol.InstanceSettings
	GPUs        Attachment
	GPUUUIDs    []string // recorded in a label, to be found after a crash
	CPUMillis   int64
	MemoryMiB   int64
	DiskMiB     int64
	PIDs        int64
	ShmMiB      int64
	DirectPorts map[int]int // container port → host port
	OpenPrivate bool
	EgressPorts []int // the only ports that it may reach outside; none: all
	Volumes     []protocol.VolumeMount
	Isolation   string
}

// State is what the engine knows of an instance.
type State struct {
	LeaseID    string
	Generation int64
	Exists     bool
	Running    bool
	NeverRan   bool // made, and not started yet
	ExitCode   int
	OOMKilled  bool
	Error      string
	// Code is one of protocol.InstanceStatus, and Reason for people, where the engine
	// itself ended the instance; empty: its command did.
	Code, Reason string
	StartedAt    time.Time // by the host's wall clock
	FinishedAt   time.Time
	GPUs         []string
	DiskMiB      int64
}

// Stats are readings of a running instance.
type Stats struct {
	CPU         time.Duration // used since its start
	MemoryBytes int64
	DiskBytes   int64 // of the lease's disk
}

// Traffic counts the bytes of a lease since its network was made.
type Traffic struct {
	Out int64 // sent by the instance
	In  int64
}

// Driver runs instances. Every method is idempotent and safe for concurrent use;
// the caller makes no two calls at once for one lease.
type Driver interface {
	// Info asks the engine; an error means that it does not answer.
	Info(ctx context.Context) (Info, error)
	// Pull makes an image present. A refusal is an *Error.
	Pull(ctx context.Context, r PullRequest) (Image, error)
	// Create makes the network, disk and container of a lease; a disk that is
	// there already is kept. It fails if the lease has a container.
	Create(ctx context.Context, c Container) error
	// Start starts a created container and returns once it runs.
	Start(ctx context.Context, leaseID string) error
	// Stop ends a container's processes: asks, and kills after grace.
	Stop(ctx context.Context, leaseID string, grace time.Duration) error
	// Remove removes a stopped container, and its network; the disk stays.
	Remove(ctx context.Context, leaseID string) error
	// Erase removes everything of a lease, its disk included.
	Erase(ctx context.Context, leaseID string) error
	Inspect(ctx context.Context, leaseID string) (State, error)
	// List returns all instances that this driver's host identity made.
	List(ctx context.Context) ([]State, error)
	// Watch calls changed when an instance may have changed, until ctx ends or
	// the engine stops talking.
	Watch(ctx context.Context, changed func(leaseID string)) error
	Stats(ctx context.Context, leaseID string) (Stats, error)
	// Logs writes what the present container printed.
	Logs(ctx context.Context, leaseID string, o protocol.LogOptions, w io.Writer) error
	// Dial reaches a TCP port inside a running instance.
	Dial(ctx context.Context, leaseID string, port int) (net.Conn, error)
	// Exec runs the static binary inside a running instance, as root and with these
	// arguments, and returns the first 64 KiB that it printed. An error means that it
	// did not run to its end with success, which says nothing of what it was to find.
	Exec(ctx context.Context, leaseID string, args []string) ([]byte, error)
	// Namespace opens the network namespace of a running instance, for a device to be
	// put into it; nil: instances are simulated, and have none. The caller closes it.
	Namespace(ctx context.Context, leaseID string) (*os.File, error)
	// Report reads what the instance's init says; false: nothing fresh.
	Report(leaseID string) (protocol.InstanceReport, bool)
	// Traffic returns the counters of all leases, restoring the table of rules if
	// somebody removed it.
	Traffic(ctx context.Context) (map[string]Traffic, error)
	// Sweep removes networks and mounts of leases that keep does not name. It
	// never removes a disk.
	Sweep(ctx context.Context, keep func(leaseID string) bool) error
	// MakeVolume makes a volume of a size unless it is there. A refusal is an *Error.
	MakeVolume(ctx context.Context, id string, sizeMiB int64) error
	// EraseVolume removes a volume with all that is in it. It is an *Error
	// "volume_in_use" while a lease has it.
	EraseVolume(ctx context.Context, id string) error
	Close() error
}

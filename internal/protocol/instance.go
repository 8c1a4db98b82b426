package protocol

import "time"

// The files and folders that an agent gives to every container. The binary is
// mounted read-only; the run folder is the instance's own to write.
const (
	InstanceDir    = "/.suanli"
	InstanceBinary = "/.suanli/suanli"        // the same static binary; argv: suanli instance init
	InstanceConfig = "/.suanli/instance.json" // InstanceSettings, read-only, mode 0600 root
	InstanceGPUs   = "/.suanli/gpus.json"     // []GPU for nvidia-smi, read-only; there on simulated hosts only
	InstanceRunDir = "/.suanli/run"           // small tmpfs or bind mount: status.json, sessions
	// InstanceInterruption is an Interruption while the spot market is about to take
	// the instance's place away, and is not there otherwise.
	InstanceInterruption     = "/.suanli/run/interruption.json"
	InstanceInterruptionName = "interruption.json" // in InstanceRunDir
	// InstanceHostfile lists the nodes of the instance's cluster, for MPI; not there
	// without one.
	InstanceHostfile     = "/.suanli/run/hostfile"
	InstanceHostfileName = "hostfile" // in InstanceRunDir
	// InstanceOverlay is the interface of its cluster's private network.
	InstanceOverlay = "suanli0"
	InstanceSSHPort = 2222 // where the instance's own SSH server listens, in its own network
)

// InstanceSettings tells the process that starts in the container what to do.
type InstanceSettings struct {
	LeaseID     string            `json:"lease_id"`
	Generation  int64             `json:"generation"`
	Command     []string          `json:"command"` // resolved: the image's or the renter's; may be empty
	StartScript string            `json:"start_script"`
	Environment map[string]string `json:"environment"`
	WorkingDir  string            `json:"working_dir"`
	User        string            `json:"user"` // of the image; empty: root
	SSHKeys     []string          `json:"ssh_keys"`
	// GatewayKeys are authorized_keys lines of the cloud's gateways, which have
	// already checked the renter and speak for them.
	GatewayKeys []string `json:"gateway_keys"`
	HostKey     string   `json:"host_key"` // PEM ed25519 private key, made by the agent, kept with the disk
	Simulated   bool     `json:"simulated"`
	// Activity is a program whose own word decides whether it is busy.
	Activity *Activity `json:"activity,omitempty"`
	// NoticeSignal and NoticeCommand are what is done inside when a notice comes.
	NoticeSignal  string `json:"notice_signal,omitempty"`
	NoticeCommand string `json:"notice_command,omitempty"`
	// Cluster is the node's place in its cluster; nil: it stands alone.
	Cluster *Cluster `json:"cluster,omitempty"`
}

// NoticeSignals are the signals by which the command of an instance can be told of
// a notice: those that its first process passes on.
func NoticeSignals() []string { return []string{"SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2"} }

// Interruption is what programs inside an instance are told before the spot market
// takes its place away. Times are by the host's clock, which is the instance's too.
type Interruption struct {
	InterruptAt time.Time `json:"interrupt_at"`
	ToldAt      time.Time `json:"told_at"`
	// Reason is a code such as "outbid" or "on_demand".
	Reason string `json:"reason,omitempty"`
}

// InstanceReport is what the process in the container writes to
// InstanceRunDir/status.json, atomically, when it changes and at least every
// ten seconds. The agent reads it as a renter's claim: it may show it and use it
// to keep an instance alive, never to bill or to free something.
type InstanceReport struct {
	Started  bool `json:"started"`  // the command was started
	Sessions int  `json:"sessions"` // open SSH sessions
	ExitCode *int `json:"exit_code,omitempty"`
	// Busy says that the settings' Activity has work going on.
	Busy bool `json:"busy,omitempty"`
}

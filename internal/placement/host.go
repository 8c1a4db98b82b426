package placement

// Enforcement is how a part of a GPU is kept apart from the others on it. Two
// kinds never share a GPU: each assumes that it alone divides it.
type Enforcement string

// The kinds of [Enforcement].
const (
	Whole       Enforcement = ""             // not divided
	MIG         Enforcement = "mig"          // by the hardware, in profiles
	HAMi        Enforcement = "hami"         // memory and cores by HAMi-core in the container
	MPS         Enforcement = "mps"          // by the CUDA multi-process service
	TimeSlicing Enforcement = "time_slicing" // memory by agreement, time by turns
)

// WholeMilli is a whole GPU in thousandths.
const WholeMilli = 1000

// Part is a part of a GPU that is taken.
type Part struct {
	Kind    Enforcement
	Milli   int    // of memory, for all kinds but MIG
	Profile string // of MIG
	Start   int    // memory slice at which the profile stands
}

// GPU is one device of a host.
type GPU struct {
	UUID  string
	Index int
	Model string
	NUMA  int // node; -1: unknown
	// Free says that it may be given out: it is healthy and nobody has all of it.
	// What others have of it are its Parts.
	Free  bool
	Parts []Part
	Links []Link
}

// Link is NVLink to a peer, or to a switch if Peer is empty.
type Link struct {
	Peer  string // UUID
	Count int
}

// Hold keeps GPUs of a host for one owner: others leave as many free.
type Hold struct {
	Owner, Model string
	GPUs         int
}

// Host is what a host has, and what of it is free. Amounts below zero count as
// zero, and so do parts of a GPU that together are more than it.
type Host struct {
	ID                 string
	Region, Zone, Rack string
	// Fabric is where the host hangs in the network between hosts, from the top
	// down, such as the spine and then the leaf switch; empty: unknown.
	Fabric []string
	Labels map[string]string
	Tags   []string // of what runs there, for [Request.Avoid]
	GPUs   []GPU
	Holds  []Hold

	CPUMillis   int64 // free
	MemoryMiB   int64 // free
	DiskMiB     int64 // free
	NetworkMbps int64 // free
	Ports       int64 // free, of the host's own address

	Price       int64 // of a GPU for an hour, in any unit that all hosts share
	Reliability int   // in thousandths; the more the better
}

// Share is a part of a GPU that is asked for.
type Share struct {
	Kind    Enforcement
	Milli   int    // 1 to 999, for all kinds but MIG
	Profile string // of MIG, such as 3g.40gb
}

// Request is what must fit. All amounts are for one node.
type Request struct {
	// Nodes are as many different hosts, each with the same; 0 is 1. All are found
	// or none.
	Nodes  int
	Models []string // of GPU, any of them will do; empty: any model
	Count  int      // GPUs of one model; 0: none
	Share  Share    // of each of the GPUs; zero: all of it
	Owner  string   // whose held GPUs it may have

	CPUMillis   int64
	MemoryMiB   int64
	DiskMiB     int64
	NetworkMbps int64
	Ports       int64

	Regions, Zones []string          // any of them will do; empty: any
	Require        map[string]string // labels that the host must have
	Forbid         map[string]string // labels that the host must not have
	Avoid          []string          // tags that nothing on the host may have
	Tag            string            // of what is placed, see Host.Tags

	// Within keeps all nodes of a gang inside one domain of this level, and Spread
	// puts as few as can be of them into each. Without either, nodes are put as
	// close to each other as they go.
	Within, Spread Level

	Weights Weights
}

// Level is a kind of place that hosts share.
type Level string

// The levels, from the widest.
const (
	LevelAny    Level = ""
	LevelRegion Level = "region"
	LevelZone   Level = "zone"
	LevelSpine  Level = "spine" // the first of Host.Fabric
	LevelLeaf   Level = "leaf"  // the last of Host.Fabric
	LevelRack   Level = "rack"
)

// Weights says what else counts when several hosts would do, in GPU-milli of lost
// worth that are as bad.
type Weights struct {
	Price       float64 // as one unit of price more for a GPU
	Reliability float64 // as one thousandth of reliability less
}

// Placement is where a request goes: one choice for each node.
type Placement struct {
	Nodes []Choice
}

// Choice is where one node goes.
type Choice struct {
	HostID string
	GPUs   []string // UUIDs, by index on the host
	Starts []int    // with MIG, the memory slice of each
}

package protocol

// RankJob is a command that runs as several processes on one node of a cluster, beside
// those of the other nodes. It goes to "suanli instance ranks start" as JSON.
type RankJob struct {
	// ID names one attempt of one run. Starting it again is starting it once.
	ID          string            `json:"id"`
	NodeRank    int               `json:"node_rank"`
	Nodes       int               `json:"nodes"`
	PerNode     int               `json:"per_node"` // processes
	MasterName  string            `json:"master_name"`
	MasterPort  int               `json:"master_port"`
	Attempt     int               `json:"attempt"` // from 0
	Command     []string          `json:"command"`
	Environment map[string]string `json:"environment,omitempty"`
	// Folder is where it keeps its files; empty: a folder for temporary files.
	Folder string `json:"folder,omitempty"`
}

// RankState is how the processes of a RankJob on one node are.
type RankState string

// The states of the processes of a node.
const (
	RanksAbsent  RankState = "absent" // nothing is known of it
	RanksRunning RankState = "running"
	RanksDone    RankState = "done"
	RanksLost    RankState = "lost" // whoever looked after them is gone
)

// RankStatus is what "suanli instance ranks status" prints. It is the renter's own
// word: it decides about the renter's run, and about no money.
type RankStatus struct {
	State RankState `json:"state"`
	Ranks []Rank    `json:"ranks,omitempty"`
	// Stopped says that they were told to end.
	Stopped bool `json:"stopped,omitempty"`
	// Printed is how many bytes what they have printed takes so far. It grows with each
	// line and says no more.
	Printed int64 `json:"printed_bytes,omitempty"`
}

// Rank is one process.
type Rank struct {
	Rank     int  `json:"rank"` // of all processes of all nodes
	ExitCode *int `json:"exit_code,omitempty"`
	// First says that it was the first of its node to fail; others may have been ended
	// for it.
	First bool `json:"first,omitempty"`
}

// RankEvent is one line of what "suanli instance ranks attend" prints.
type RankEvent struct {
	Rank     int    `json:"rank"`
	Line     string `json:"line,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`
	Done     bool   `json:"done,omitempty"` // the last one
}

// PeerFailure is what the other ranks are told when one has failed, in the file that
// SUANLI_FAILURE_FILE names, before they are asked to end.
type PeerFailure struct {
	Rank     int    `json:"rank"` // -1: a whole node
	Node     int    `json:"node"`
	ExitCode int    `json:"exit_code"`
	Code     string `json:"code"`
	Message  string `json:"message"`
}

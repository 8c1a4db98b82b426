package protocol

// TransferWant is what an agent is to do with the data of a volume.
type TransferWant string

// What is wanted of a transfer. A transfer that is stopped is forgotten.
const (
	TransferSave TransferWant = "save" // the volume is written to object storage
	TransferFill TransferWant = "fill" // a volume is made of what object storage has
	TransferStop TransferWant = "stop"
)

// TransferCommand asks an agent to copy a volume to object storage, or from it. It is
// sent again and again: the first begins the transfer, and each is answered by how it
// stands. An agent that was started again has forgotten it, and begins from the start.
// The URLs are signed for single acts on one object, and are secrets while they last.
type TransferCommand struct {
	ID       string       `json:"id"` // of the transfer
	VolumeID string       `json:"volume_id"`
	Want     TransferWant `json:"want"`
	// PartMiB is the size of each part but the last, and Parts are URLs to put the
	// next ones, in order, with TransferSave.
	PartMiB int64        `json:"part_mib,omitempty"`
	Parts   []SignedPart `json:"parts,omitempty"`
	// URL is where the object is read, and what follows is what it has to be, with
	// TransferFill.
	URL           string `json:"url,omitempty"`
	SizeMiB       int64  `json:"size_mib,omitempty"` // of the new volume, at least that of the old
	Bytes         int64  `json:"bytes,omitempty"`
	ObjectSHA256  string `json:"object_sha256,omitempty"`
	ContentSHA256 string `json:"content_sha256,omitempty"`
}

// SignedPart is the URL by which one part is put.
type SignedPart struct {
	Number int    `json:"number"` // from 1
	URL    string `json:"url"`
}

// TransferState is where a transfer is.
type TransferState string

// The states of a transfer.
const (
	TransferRunning TransferState = "running"
	TransferDone    TransferState = "done"
	TransferFailed  TransferState = "failed" // for good; CommandResult.Code and Message say why
)

// TransferStatus is how a transfer stands.
type TransferStatus struct {
	State TransferState `json:"state"`
	// NextPart is the lowest part whose URL the agent does not have yet.
	NextPart int   `json:"next_part,omitempty"`
	Bytes    int64 `json:"bytes"` // of the object, put or read so far
	// What follows is known when it is done. PartsDigest sums up the answers that the
	// parts got; see objectstore.Digest.
	Parts         int    `json:"parts,omitempty"`
	PartsDigest   string `json:"parts_digest,omitempty"`
	ObjectSHA256  string `json:"object_sha256,omitempty"`
	ContentSHA256 string `json:"content_sha256,omitempty"`
}

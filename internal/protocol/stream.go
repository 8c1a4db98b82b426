package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// StreamKind says what a tunnel stream is for.
type StreamKind string

// The kinds of streams. The first four are opened by the agent or a gateway,
// the others by the control plane or, through it, by a gateway.
const (
	StreamBus      StreamKind = "bus"      // raw NATS protocol
	StreamRegistry StreamKind = "registry" // raw HTTP to the cloud's image registry
	StreamRelay    StreamKind = "relay"    // from a gateway: open Inner on host Host
	StreamLookUp   StreamKind = "look_up"  // from a gateway: a question to the directory, and its answer
	StreamPort     StreamKind = "port"     // raw TCP to a port inside an instance
	StreamSSH      StreamKind = "ssh"      // raw SSH to the instance's own server
	StreamLogs     StreamKind = "logs"     // what the container printed
	StreamSpeed    StreamKind = "speed"    // sink or source of bytes, for the self-test
)

// StreamHeader is the first line on a stream, as JSON.
type StreamHeader struct {
	Kind    StreamKind    `json:"kind"`
	LeaseID string        `json:"lease_id,omitempty"`
	Port    int           `json:"port,omitempty"`
	Host    string        `json:"host,omitempty"`  // StreamRelay
	Inner   *StreamHeader `json:"inner,omitempty"` // StreamRelay
	Logs    LogOptions    `json:"logs,omitzero"`
	Bytes   int64         `json:"bytes,omitempty"` // StreamSpeed: how many to send back; 0: to discard
}

// LogOptions selects what of a container's output is sent.
type LogOptions struct {
	Follow bool `json:"follow"`
	Tail   int  `json:"tail"` // last lines; 0: all kept
}

// streamReply is the second line, from the side that was asked.
type streamReply struct {
	OK      bool   `json:"ok"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// StreamError is a refusal by the other side.
type StreamError struct {
	Code    string // "no_such_lease", "not_running", "port_closed", "host_offline", "forbidden"
	Message string
}

func (e *StreamError) Error() string { return e.Message }

// maxLine bounds a header or reply, so that a peer cannot make us buffer without end.
const maxLine = 16 << 10

// WriteHeader sends h and waits for the answer; after a nil return the stream
// carries raw bytes.
func WriteHeader(s io.ReadWriter, h StreamHeader) error {
	if err := writeLine(s, h); err != nil {
		return fmt.Errorf("open %s stream: %w", h.Kind, err)
	}
	var r streamReply
	if err := readLine(s, &r); err != nil {
		return fmt.Errorf("open %s stream: %w", h.Kind, err)
	}
	if !r.OK {
		return &StreamError{Code: r.Code, Message: r.Message}
	}
	return nil
}

// ReadHeader reads the header of a stream that the other side opened. The
// caller answers with Accept or Refuse.
func ReadHeader(s io.Reader) (StreamHeader, error) {
	var h StreamHeader
	err := readLine(s, &h)
	return h, err
}

// Accept answers a header; raw bytes follow.
func Accept(s io.Writer) error { return writeLine(s, streamReply{OK: true}) }

// Refuse answers a header with an error.
func Refuse(s io.Writer, err error) error {
	r := streamReply{Code: "error", Message: err.Error()}
	var se *StreamError
	if errors.As(err, &se) {
		r.Code = se.Code
	}
	return writeLine(s, r)
}

func writeLine(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// readLine reads byte by byte: what follows the line belongs to somebody else.
func readLine(r io.Reader, v any) error {
	line := make([]byte, 0, 256)
	one := make([]byte, 1)
	for {
		if _, err := io.ReadFull(r, one); err != nil {
			return err
		}
		if one[0] == '\n' {
			return json.Unmarshal(line, v)
		}
		if line = append(line, one[0]); len(line) > maxLine {
			return errors.New("stream header is too long")
		}
	}
}

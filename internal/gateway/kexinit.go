package gateway

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/cpu"
)

const (
	// offerWait is how long a client may take to say first what it can. Those
	// that wait for the server instead are served all the same.
	offerWait = time.Second
	// offerLimit bounds what is read ahead: lines before the version, the
	// version, and a first packet, which RFC 4253 (section 6.1) lets be 35,000.
	offerLimit = 64 << 10
	// versionLine is what the SSH server says first.
	versionLine = "SSH-2.0-suanli"
	// msgKexInit is SSH_MSG_KEXINIT (RFC 4253, section 12).
	msgKexInit = 20
)

// fastCiphers are those for which this processor has instructions. The client's
// order decides in SSH, and OpenSSH's begins with ChaCha20, which has no
// assembly for SSH in Go on x86: a tenth of AES-GCM's speed on one core.
var fastCiphers = []string{ssh.CipherAES128GCM, ssh.CipherAES256GCM}

// hasAES reports whether AES-GCM is done by the processor.
func hasAES() bool {
	switch runtime.GOARCH {
	case "amd64":
		return cpu.X86.HasAES && cpu.X86.HasPCLMULQDQ
	case "arm64":
		return cpu.ARM64.HasAES && cpu.ARM64.HasPMULL
	}
	return false
}

// greeted is a connection on which the versions are on their way already, and
// what the client sent has been looked at and not taken.
type greeted struct {
	net.Conn
	ahead *bufio.Reader
	said  []byte // what the SSH server will say again, and must not be sent twice
}

// greet says the server's version and waits for the client's offer, so that the
// server's can be chosen to suit it: what comes back is the client's ciphers, or
// nil if it did not say in time.
func greet(conn net.Conn) (*greeted, []string, error) {
	g := &greeted{Conn: conn, ahead: bufio.NewReaderSize(conn, offerLimit), said: []byte(versionLine + "\r\n")}
	if _, err := conn.Write(g.said); err != nil {
		return nil, nil, err
	}
	_ = conn.SetReadDeadline(time.Now().Add(offerWait))
	for {
		seen, _ := g.ahead.Peek(g.ahead.Buffered())
		ciphers, complete := readOffer(seen)
		if complete {
			return g, ciphers, nil
		}
		if len(seen) == offerLimit {
			return nil, nil, errors.New("ssh: the client sent too much before its offer")
		}
		if _, err := g.ahead.Peek(len(seen) + 1); err != nil {
			var late net.Error
			if errors.As(err, &late) && late.Timeout() {
				return g, nil, nil
			}
			return nil, nil, err
		}
	}
}

// readOffer finds the ciphers that are in both directions' lists of a KEXINIT
// packet (RFC 4253, section 7.1) after a version line. A damaged packet has
// none, and is for the SSH server to refuse.
func readOffer(seen []byte) (ciphers []string, complete bool) {
	for {
		line, rest, ok := bytes.Cut(seen, []byte("\n"))
		if !ok {
			return nil, false
		}
		seen = rest
		if bytes.HasPrefix(line, []byte("SSH-")) {
			break
		}
	}
	if len(seen) < 4 {
		return nil, false
	}
	length := binary.BigEndian.Uint32(seen)
	if length > offerLimit/2 {
		return nil, true
	}
	if uint32(len(seen)-4) < length {
		return nil, false
	}
	packet := seen[4 : 4+length]
	const header = 1 + 1 + 16 // length of the padding, type, cookie
	if len(packet) < header || packet[1] != msgKexInit {
		return nil, true
	}
	packet = packet[header:]
	var lists [4][]string // key exchanges, host keys, ciphers to the server, ciphers to the client
	for i := range lists {
		if len(packet) < 4 || uint64(len(packet)-4) < uint64(binary.BigEndian.Uint32(packet)) {
			return nil, true
		}
		n := binary.BigEndian.Uint32(packet)
		lists[i] = strings.Split(string(packet[4:4+n]), ",")
		packet = packet[4+n:]
	}
	return slices.DeleteFunc(lists[2], func(c string) bool { return !slices.Contains(lists[3], c) }), true
}

// offer returns the ciphers to offer to a client with these; nil: all.
func offer(client []string) []string {
	if !hasAES() || !slices.ContainsFunc(client, func(c string) bool { return slices.Contains(fastCiphers, c) }) {
		return nil
	}
	return fastCiphers
}

// Read implements net.Conn.
func (g *greeted) Read(b []byte) (int, error) { return g.ahead.Read(b) }

// Write implements net.Conn.
func (g *greeted) Write(b []byte) (int, error) {
	if len(g.said) == 0 {
		return g.Conn.Write(b)
	}
	if !bytes.HasPrefix(b, g.said) {
		return 0, io.ErrUnexpectedEOF
	}
	again := len(g.said)
	g.said = nil
	if len(b) == again {
		return again, nil
	}
	n, err := g.Conn.Write(b[again:])
	return again + n, err
}

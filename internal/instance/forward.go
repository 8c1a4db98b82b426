package instance

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

const forwardDialTimeout = 15 * time.Second

// forwardsPerConnection bounds the listeners that one connection may ask for.
const forwardsPerConnection = 64

// directTCP is what -L and -D open: a connection from within the instance.
func (c *connection) directTCP(ch ssh.NewChannel) {
	var target struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(ch.ExtraData(), &target); err != nil {
		_ = ch.Reject(ssh.ConnectionFailed, "the request to forward is damaged")
		return
	}
	c.direct(ch, "tcp", net.JoinHostPort(target.Host, strconv.Itoa(int(target.Port))))
}

// directUnix is -L to a Unix socket in the instance.
func (c *connection) directUnix(ch ssh.NewChannel) {
	var target struct {
		Path     string
		Reserved string
		Unused   uint32
	}
	if err := ssh.Unmarshal(ch.ExtraData(), &target); err != nil {
		_ = ch.Reject(ssh.ConnectionFailed, "the request to forward is damaged")
		return
	}
	if !c.in.account.root() {
		// We would open it with root's rights and not the user's.
		_ = ch.Reject(ssh.Prohibited, "sockets are forwarded only for images that run as root")
		return
	}
	c.direct(ch, "unix", target.Path)
}

func (c *connection) direct(ch ssh.NewChannel, network, address string) {
	dialer := net.Dialer{Timeout: forwardDialTimeout}
	conn, err := dialer.DialContext(c.ctx, network, address)
	if err != nil {
		_ = ch.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	defer conn.Close()
	channel, requests, err := ch.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	c.work.Go(func() { ssh.DiscardRequests(requests) })
	join(channel, conn)
}

// join moves bytes between a channel and a connection until both directions ended.
func join(channel ssh.Channel, conn net.Conn) {
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(channel, conn)
		if channel.CloseWrite() != nil {
			conn.Close()
		}
	})
	both.Go(func() {
		_, err := io.Copy(conn, channel)
		if w, ok := conn.(interface{ CloseWrite() error }); !ok || err != nil || w.CloseWrite() != nil {
			conn.Close()
		}
	})
	both.Wait()
}

type forwardRequest struct {
	Address string
	Port    uint32
}

// globalRequests serves -R, and answers what it does not know, keep-alives among it.
func (c *connection) globalRequests(requests <-chan *ssh.Request) {
	for r := range requests {
		ok, reply := false, []byte(nil)
		switch r.Type {
		case "tcpip-forward":
			ok, reply = c.listen(r.Payload)
		case "cancel-tcpip-forward":
			ok = c.unlisten(r.Payload)
		}
		if r.WantReply {
			_ = r.Reply(ok, reply)
		}
	}
}

func (f forwardRequest) key() string { return net.JoinHostPort(f.Address, strconv.Itoa(int(f.Port))) }

// bind is the address to listen on. Only an address that was asked for by name
// opens to more than the instance itself: "localhost" and "" stay inside.
func (f forwardRequest) bind() string {
	host := f.Address
	switch host {
	case "", "localhost":
		host = "127.0.0.1"
	case "*":
		host = ""
	}
	return net.JoinHostPort(host, strconv.Itoa(int(f.Port)))
}

func (c *connection) listen(payload []byte) (bool, []byte) {
	var f forwardRequest
	if ssh.Unmarshal(payload, &f) != nil || f.Port > 65535 {
		return false, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.forwards) >= forwardsPerConnection || c.ctx.Err() != nil {
		return false, nil
	}
	ln, err := net.Listen("tcp", f.bind())
	if err != nil {
		c.in.log.Info("ssh -R refused", "error", err)
		return false, nil
	}
	port := uint32(ln.Addr().(*net.TCPAddr).Port)
	var reply []byte
	if f.Port == 0 {
		f.Port = port
		reply = ssh.Marshal(struct{ Port uint32 }{port})
	}
	c.forwards[f.key()] = ln
	c.work.Go(func() { c.acceptForwards(ln, f) })
	return true, reply
}

func (c *connection) unlisten(payload []byte) bool {
	var f forwardRequest
	if ssh.Unmarshal(payload, &f) != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ln, ok := c.forwards[f.key()]
	if ok {
		delete(c.forwards, f.key())
		ln.Close()
	}
	return ok
}

func (c *connection) closeForwards() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ln := range c.forwards {
		ln.Close()
	}
}

func (c *connection) acceptForwards(ln net.Listener, f forwardRequest) {
	for {
		conn, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			select {
			case <-c.ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		c.work.Go(func() {
			defer conn.Close()
			from := conn.RemoteAddr().(*net.TCPAddr)
			c.openToClient("forwarded-tcpip", ssh.Marshal(struct {
				Address    string
				Port       uint32
				Origin     string
				OriginPort uint32
			}{f.Address, f.Port, from.IP.String(), uint32(from.Port)}), conn)
		})
	}
}

// openToClient joins conn to a new channel that we open on the client.
func (c *connection) openToClient(kind string, extra []byte, conn net.Conn) {
	channel, requests, err := c.ssh.OpenChannel(kind, extra)
	if err != nil {
		return // the client's own end is not there
	}
	defer channel.Close()
	c.work.Go(func() { ssh.DiscardRequests(requests) })
	join(channel, conn)
}

// listenAgent makes the socket behind which the client's own SSH agent answers.
// The returned function removes it.
func (c *connection) listenAgent() (path string, remove func(), err error) {
	dir, err := os.MkdirTemp(c.in.runDir, "agent-")
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(dir, "agent.sock")
	ln, err := net.Listen("unix", path)
	if err == nil && !c.in.account.root() {
		err = errors.Join(os.Chown(dir, int(c.in.account.uid), int(c.in.account.gid)), os.Chown(path, int(c.in.account.uid), int(c.in.account.gid)))
	}
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	c.work.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			c.work.Go(func() {
				defer conn.Close()
				c.openToClient("auth-agent@openssh.com", nil, conn)
			})
		}
	})
	return path, func() { ln.Close(); os.RemoveAll(dir) }, nil
}

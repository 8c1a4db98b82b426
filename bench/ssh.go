package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// fileSize is large enough that signing in does not count.
const fileSize = 192 << 20

// benchSSH is SFTP throughput, by OpenSSH's own sftp client, into and out of an
// instance (through the SSH gateway and the tunnel to the instance's own server)
// against OpenSSH's sshd and sftp-server on the same machine. One file of 192 MiB
// up and down, three times each in turn; ours is the median of both directions
// together. Ours has five passes of encryption on the server's side of the
// client (gateway in and out, tunnel both ends, instance) where OpenSSH has
// one: with all on the same cores 0.4 of its throughput is what can be asked.
// The instance has the whole machine's processors, as OpenSSH has.
func benchSSH(ctx context.Context, w *world) (result, error) {
	t, err := w.transfer(ctx)
	if err != nil {
		return result{}, err
	}
	access, err := w.up.api.LeaseAccess(ctx, t.lease)
	if err != nil {
		return result{}, err
	}
	if err := w.startSSHD(ctx); err != nil {
		return result{}, err
	}
	file := filepath.Join(w.dir, "file")
	b := make([]byte, fileSize)
	if _, err := rand.Read(b); err != nil {
		return result{}, err
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		return result{}, err
	}
	defer os.Remove(file)
	type end struct {
		user, port, path string
		up, down, both   []float64
	}
	ours := &end{user: access.SSHUser, port: strconv.Itoa(access.SSHPort), path: "/tmp/file"}
	peer := &end{user: "root", port: "2222", path: filepath.Join(w.dir, "sshd", "file")}
	for range 3 {
		for _, e := range []*end{peer, ours} {
			up, err := w.sftp(ctx, e.user, e.port, fmt.Sprintf("put %s %s", file, e.path))
			if err != nil {
				return result{}, err
			}
			down, err := w.sftp(ctx, e.user, e.port, fmt.Sprintf("get %s %s", e.path, file+".back"))
			if err != nil {
				return result{}, err
			}
			e.up, e.down, e.both = append(e.up, rate(up)), append(e.down, rate(down)), append(e.both, 2*rate(up+down))
		}
	}
	fmt.Printf("up/down MB/s: OpenSSH %.0f/%.0f, ours %.0f/%.0f\n", middle(peer.up), middle(peer.down), middle(ours.up), middle(ours.down))
	a, p := middle(ours.both), middle(peer.both)
	return result{fmt.Sprintf("%.0fMB/s", a), fmt.Sprintf("%.0fMB/s", p), a / p, a >= 0.4*p}, nil
}

func rate(d time.Duration) float64 { return fileSize / 1e6 / d.Seconds() }

// sftp runs one command of a batch and returns how long it took.
func (w *world) sftp(ctx context.Context, user, port, command string) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, "sftp", "-q", "-b", "-", "-F", "none", "-i", w.up.pem, "-P", port, "-o", "IdentitiesOnly=yes",
		"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", user+"@127.0.0.1")
	cmd.Stdin = strings.NewReader(command + "\n")
	begin := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("sftp %s: %w: %s", command, err, out)
	}
	return time.Since(begin), nil
}

// startSSHD starts OpenSSH's server for the benchmark's key.
func (w *world) startSSHD(ctx context.Context) error {
	dir := filepath.Join(w.dir, "sshd")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.MkdirAll("/run/sshd", 0o755)); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, "host")).CombinedOutput(); err != nil {
		return fmt.Errorf("ssh-keygen: %w: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "keys"), ssh.MarshalAuthorizedKey(w.up.key.PublicKey()), 0o600); err != nil {
		return err
	}
	conf := fmt.Sprintf("Port 2222\nListenAddress 127.0.0.1\nHostKey %[1]s/host\nAuthorizedKeysFile %[1]s/keys\nPidFile %[1]s/pid\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nSubsystem sftp /usr/lib/openssh/sftp-server\n", dir)
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte(conf), 0o600); err != nil {
		return err
	}
	p, err := w.spawn("sshd", nil, "/usr/sbin/sshd", "-D", "-e", "-f", filepath.Join(dir, "config"))
	if err != nil {
		return fmt.Errorf("start sshd (package openssh-server): %w", err)
	}
	w.helpers = append(w.helpers, p)
	return poll(ctx, "sshd", 10*time.Second, 50*time.Millisecond, func() (bool, error) {
		_, err := w.sftp(ctx, "root", "2222", "pwd")
		return err == nil, err
	})
}

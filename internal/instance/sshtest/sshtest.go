// Package sshtest gives tests keys and OpenSSH's client, set up to enter a server
// on this machine. It knows nothing of what the server is.
package sshtest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// commandTime bounds a command of OpenSSH's.
const commandTime = 40 * time.Second

// Need skips the test where OpenSSH's client is not installed.
func Need(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("ssh"); err != nil {
		t.Skip("needs the OpenSSH client")
	}
}

// Key is a new ed25519 key.
type Key struct {
	PEM    string // the private half, in OpenSSH's format
	Signer ssh.Signer
}

// NewKey makes a key.
func NewKey(t testing.TB) Key {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return Key{PEM: string(pem.EncodeToMemory(block)), Signer: signer}
}

// Authorized is the line of authorized_keys that lets the key in.
func (k Key) Authorized() string { return string(ssh.MarshalAuthorizedKey(k.Signer.PublicKey())) }

// Fingerprint is the key's, by SHA-256.
func (k Key) Fingerprint() string { return ssh.FingerprintSHA256(k.Signer.PublicKey()) }

// Client is a person with a key and OpenSSH.
type Client struct {
	T   testing.TB
	Key Key
	// Dir is a folder for the test's files, with the private key in "id".
	Dir string
	// Address is where every host name leads, host:port.
	Address string

	config string
}

// NewClient returns a client whose every host name leads to a port of this
// machine, where it is root unless the command says otherwise.
func NewClient(t testing.TB, port int, key Key) *Client {
	t.Helper()
	c := &Client{T: t, Key: key, Dir: t.TempDir(), Address: fmt.Sprintf("127.0.0.1:%d", port)}
	c.config = filepath.Join(c.Dir, "config")
	id := filepath.Join(c.Dir, "id")
	config := fmt.Sprintf("Host *\nHostName 127.0.0.1\nPort %d\nUser root\nIdentityFile %s\nIdentitiesOnly yes\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\nBatchMode yes\n", port, id)
	for path, text := range map[string]string{id: key.PEM, c.config: config} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// Command is a program of OpenSSH's (ssh, scp, sftp) with the client's settings.
// It is killed when it takes too long, and with the test.
func (c *Client) Command(program string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	c.T.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, append([]string{"-F", c.config}, args...)...)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// Dial enters by Go's client.
func (c *Client) Dial(user string) *ssh.Client {
	c.T.Helper()
	conn, err := ssh.Dial("tcp", c.Address, c.Config(user))
	if err != nil {
		c.T.Fatal(err)
	}
	c.T.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Config is what Go's client needs to enter as the user.
func (c *Client) Config(user string) *ssh.ClientConfig {
	return &ssh.ClientConfig{User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(c.Key.Signer)}, HostKeyCallback: ssh.InsecureIgnoreHostKey()}
}

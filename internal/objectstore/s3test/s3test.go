// Package s3test starts a real S3 server for a test: versitygw, which keeps objects as
// files. Tests skip where it is not built. It imports objectstore for its Config.
package s3test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/objectstore"
)

// Variable is the environment variable that says where the program is.
const Variable = "SUANLI_TEST_VERSITYGW"

// Server is an S3 server of a test's own, with one bucket.
type Server struct {
	objectstore.Config

	t       *testing.T
	program string
	dir     string
	port    string
	cmd     *exec.Cmd
	out     *output
}

// output is what the server prints, which may be read while it does.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// Start starts a server that ends with the test, or skips the test.
func Start(t *testing.T) *Server {
	t.Helper()
	program := os.Getenv(Variable)
	if program == "" {
		t.Skipf("%s names no S3 server; make test-s3 builds one", Variable)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	s := &Server{t: t, program: program, dir: t.TempDir(), port: port,
		Config: objectstore.Config{Endpoint: "http://127.0.0.1:" + port, Bucket: "suanli", Region: "us-east-1", Prefix: "cloud/", AccessKey: "suanli-test-access", SecretKey: "suanli-test-secret"}}
	for _, d := range []string{filepath.Join(s.dir, "data", s.Bucket), filepath.Join(s.dir, "iam")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.Again()
	t.Cleanup(s.Kill)
	return s
}

// Kill ends the server as a crash would.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// Again starts it again, with what it had.
func (s *Server) Again() {
	s.t.Helper()
	s.out = &output{}
	s.cmd = exec.Command(s.program, "--port", "127.0.0.1:"+s.port, "--access", s.AccessKey, "--secret", s.SecretKey, "--region", s.Region, "--iam-dir", filepath.Join(s.dir, "iam"), "posix", filepath.Join(s.dir, "data"))
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("start %s: %v", s.program, err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		c, err := net.DialTimeout("tcp", "127.0.0.1:"+s.port, time.Second)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the S3 server does not listen: %v\n%s", err, s.out)
		}
	}
}

// Printed is what the server has said, for failures.
func (s *Server) Printed() string { return fmt.Sprint(s.out) }

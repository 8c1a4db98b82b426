package instance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"suanli.dev/internal/protocol"
)

// watched is an instance whose program at port is asked every few milliseconds.
func watched(t *testing.T, port int, env ...string) *instance {
	t.Helper()
	in := &instance{env: env, log: slog.New(slog.DiscardHandler)}
	in.status = newStatus(t.TempDir(), in.log)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		in.watchActivity(ctx, protocol.Activity{Kind: protocol.ActivityJupyter, Port: port, TokenVariable: "JUPYTER_TOKEN"}, 20*time.Millisecond)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return in
}

func TestAKernelThatIsBusyAndQuietIsReportedAsWork(t *testing.T) {
	t.Parallel()
	var answer atomic.Value
	var refused atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/kernels" || r.Header.Get("Authorization") != "token hunter2" {
			refused.Add(1)
			http.Error(w, `{"message": "Forbidden"}`, http.StatusForbidden)
			return
		}
		fmt.Fprint(w, answer.Load())
	}))
	defer server.Close()
	kernels := func(states ...string) string {
		list := []map[string]any{}
		for i, s := range states {
			list = append(list, map[string]any{"id": fmt.Sprint(i), "name": "python3", "last_activity": "2026-03-02T12:00:00Z", "execution_state": s, "connections": 0})
		}
		b, _ := json.Marshal(list)
		return string(b)
	}
	answer.Store(kernels("idle", "busy"))
	port := server.Listener.Addr().(*net.TCPAddr).Port
	in := watched(t, port, "JUPYTER_TOKEN=hunter2")
	eventually(t, "a busy kernel is reported", in.status.busy)
	answer.Store(kernels("idle", "idle"))
	eventually(t, "idle kernels are", func() bool { return !in.status.busy() })
	answer.Store(kernels("busy"))
	eventually(t, "it is busy again", in.status.busy)
	for _, nonsense := range []string{"[]", "null", "{", `{"execution_state":"busy"}`, "<html>"} {
		answer.Store(kernels("busy"))
		eventually(t, "it is busy", in.status.busy)
		answer.Store(nonsense)
		eventually(t, nonsense+" is no work", func() bool { return !in.status.busy() })
	}
	answer.Store(kernels("busy"))
	eventually(t, "it is busy", in.status.busy)
	stranger := watched(t, port, "JUPYTER_TOKEN=wrong")
	eventually(t, "the wrong token is refused twice", func() bool { return refused.Load() > 1 })
	if stranger.status.busy() {
		t.Error("a server that does not let us in has work")
	}
	server.Close()
	eventually(t, "a server that is gone has no work", func() bool { return !in.status.busy() })
}

// What a real server says while a cell sleeps and nobody is connected.
func TestASleepingCellOfARealJupyterServerIsWork(t *testing.T) {
	t.Parallel()
	program := os.Getenv("SUANLI_TEST_JUPYTER")
	if program == "" {
		var err error
		if program, err = exec.LookPath("jupyter-server"); err != nil {
			t.Skip("jupyter-server is not installed (pip install jupyter-server ipykernel); SUANLI_TEST_JUPYTER may name it")
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	dir := t.TempDir()
	var out bytes.Buffer
	server := exec.Command(program, "--ip=127.0.0.1", fmt.Sprint("--port=", port), "--ServerApp.port_retries=0", "--no-browser", "--allow-root", "--ServerApp.root_dir="+dir)
	server.Env = append(os.Environ(), "JUPYTER_TOKEN=hunter2", "JUPYTER_RUNTIME_DIR="+dir, "JUPYTER_CONFIG_DIR="+dir, "HOME="+dir,
		"PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
	server.Stdout, server.Stderr = &out, &out
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(os.Interrupt)
		_ = server.Process.Kill()
		_ = server.Wait()
		if t.Failed() {
			t.Logf("the server's output: %s", out.String())
		}
	})
	call := func(method, path string, into any) error {
		r, err := http.NewRequest(method, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), bytes.NewBufferString("{}"))
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "token hunter2")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if into == nil {
			return nil
		}
		return json.NewDecoder(res.Body).Decode(into)
	}
	patiently := func(what string, ok func() bool) {
		t.Helper()
		deadline := time.After(time.Minute)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for !ok() {
			select {
			case <-tick.C:
			case <-deadline:
				t.Fatalf("waited in vain until %s", what)
			}
		}
	}
	patiently("the server answers", func() bool { var v any; return call("GET", "/api/status", &v) == nil })
	var kernel struct {
		ID string `json:"id"`
	}
	if err := call("POST", "/api/kernels", &kernel); err != nil || kernel.ID == "" {
		t.Fatalf("start a kernel: %+v %v", kernel, err)
	}
	t.Cleanup(func() { _ = call("DELETE", "/api/kernels/"+kernel.ID, nil) })

	in := watched(t, port, "JUPYTER_TOKEN=hunter2")
	// The cell is sent past the server, and its sender leaves.
	run := exec.Command(filepath.Join(filepath.Dir(program), "python3"), "-c", `
import sys
from jupyter_client import BlockingKernelClient
c = BlockingKernelClient(connection_file=sys.argv[1])
c.load_connection_file()
c.start_channels()
c.wait_for_ready(timeout=60)
c.execute("import time; time.sleep(86400)")
c.stop_channels()
`, filepath.Join(dir, "kernel-"+kernel.ID+".json"))
	if b, err := run.CombinedOutput(); err != nil {
		t.Fatalf("run a cell: %s %v", b, err)
	}
	patiently("the sleeping cell is work", in.status.busy)
	if err := call("POST", "/api/kernels/"+kernel.ID+"/interrupt", nil); err != nil {
		t.Fatal(err)
	}
	patiently("the interrupted one is not", func() bool { return !in.status.busy() })
}

package gpu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/protocol"
)

// Reply is what the helper answers to each line on its standard input: one line
// of JSON. The helper knows one request, "list".
type Reply struct {
	// Error is why the driver's library cannot be used; "no driver" is no fault.
	Error    string   `json:"error,omitempty"`
	NoDriver bool     `json:"no_driver,omitempty"`
	GPUs     []Device `json:"gpus"`
}

// Device is a GPU with what is needed to hand it out. Health carries only Xids and
// what the driver calls lost; Judge decides.
type Device struct {
	protocol.GPU
	Minor int `json:"minor"` // of /dev/nvidia<minor>
}

// The patience with the helper. Listing eight GPUs takes a healthy driver well
// under a second; a hung one never answers.
const (
	helperTimeout = 10 * time.Second
	helperPause   = 5 * time.Second // between a failure and the next start
)

// NVML asks NVIDIA's library through the helper process.
type NVML struct {
	path    string
	log     *slog.Logger
	timeout time.Duration
	pause   time.Duration

	mu      sync.Mutex
	proc    *helperProcess
	failed  time.Time
	lastErr error
	devices []Device
	xids    map[string][]int // kept over restarts of the helper
}

type helperProcess struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan []byte
	done  chan struct{}
}

// NewNVML returns a source that runs the helper at path when it is first asked.
func NewNVML(path string, log *slog.Logger) *NVML {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &NVML{path: path, log: log, timeout: helperTimeout, pause: helperPause, xids: map[string][]int{}}
}

func (n *NVML) start() error {
	cmd := exec.Command(n.path)
	cmd.Env = append(os.Environ(), "SUANLI_NVML_HELPER=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", n.path, err)
	}
	p := &helperProcess{cmd: cmd, stdin: stdin, lines: make(chan []byte), done: make(chan struct{})}
	go func() {
		s := bufio.NewScanner(stdout)
		s.Buffer(make([]byte, 64<<10), 8<<20)
		for s.Scan() {
			select {
			case p.lines <- slices.Clone(s.Bytes()):
			case <-p.done:
			}
		}
		close(p.lines)
		_ = cmd.Wait()
	}()
	n.proc = p
	return nil
}

// drop gives the helper up. A process that is stuck in the driver does not die
// even of SIGKILL; it is left to the kernel, and nothing here waits for it.
func (n *NVML) drop(err error) {
	if n.proc != nil {
		close(n.proc.done)
		_ = n.proc.stdin.Close()
		_ = n.proc.cmd.Process.Kill()
		n.proc = nil
	}
	n.failed, n.lastErr = time.Now(), err
	n.log.Warn("the NVML helper failed and will be started again", "error", err)
}

// List implements Source.
func (n *NVML) List(ctx context.Context) ([]protocol.GPU, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	devices, err := n.ask(ctx)
	if err != nil {
		return nil, err
	}
	gpus := make([]protocol.GPU, len(devices))
	for i, d := range devices {
		gpus[i] = d.GPU
	}
	return gpus, nil
}

func (n *NVML) ask(ctx context.Context) ([]Device, error) {
	if n.proc == nil {
		if n.lastErr != nil && time.Since(n.failed) < n.pause {
			return nil, n.lastErr
		}
		if err := n.start(); err != nil {
			n.failed, n.lastErr = time.Now(), err
			return nil, err
		}
	}
	timer := time.NewTimer(n.timeout)
	defer timer.Stop()
	written := make(chan error, 1)
	stdin := n.proc.stdin
	go func() {
		_, err := io.WriteString(stdin, "list\n")
		written <- err
	}()
	var line []byte
	var ok bool
	select {
	case line, ok = <-n.proc.lines:
	case <-timer.C:
		err := fmt.Errorf("the NVIDIA driver did not answer within %s", n.timeout)
		n.drop(err)
		return nil, err
	case <-ctx.Done():
		// The answer would be taken for that of the next question.
		n.drop(ctx.Err())
		n.lastErr = nil
		return nil, ctx.Err()
	}
	if !ok {
		err := errors.New("the NVML helper ended")
		n.drop(err)
		return nil, err
	}
	var r Reply
	if err := json.Unmarshal(line, &r); err != nil {
		err = fmt.Errorf("the NVML helper's answer makes no sense: %w", err)
		n.drop(err)
		return nil, err
	}
	n.lastErr = nil
	if r.Error != "" && !r.NoDriver {
		err := errors.New("NVML: " + r.Error)
		n.drop(err) // a fresh process opens the driver anew
		return nil, err
	}
	for i := range r.GPUs {
		d := &r.GPUs[i]
		for _, x := range d.Health.Xids {
			if !slices.Contains(n.xids[d.UUID], x) {
				n.xids[d.UUID] = append(n.xids[d.UUID], x)
			}
		}
		lost := d.Health.State == protocol.Fenced
		reason := d.Health.Reason
		d.Health = Judge(n.xids[d.UUID])
		if lost {
			d.Health.State, d.Health.Reason = protocol.Fenced, reason
		}
		d.Vendor = protocol.NVIDIA
		d.Simulated = false
	}
	n.devices = r.GPUs
	return r.GPUs, nil
}

// Attach implements Source. Device nodes are named beside the engine's own
// support, so that the container's device rules survive a reload of the host's
// service manager.
func (n *NVML) Attach(ctx context.Context, uuids []string) (runtime.Attachment, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	devices, err := n.ask(ctx)
	if err != nil {
		return runtime.Attachment{}, err
	}
	a := runtime.Attachment{NVIDIA: slices.Clone(uuids), Env: map[string]string{"NVIDIA_DRIVER_CAPABILITIES": "compute,utility,graphics,video"}}
	ids := ""
	for i, u := range uuids {
		at := slices.IndexFunc(devices, func(d Device) bool { return d.UUID == u })
		if at < 0 {
			return runtime.Attachment{}, missing(u)
		}
		if i > 0 {
			ids += ","
		}
		ids += u
		a.Devices = append(a.Devices, "/dev/nvidia"+strconv.Itoa(devices[at].Minor))
	}
	a.Env["NVIDIA_VISIBLE_DEVICES"] = ids
	a.Devices = append(a.Devices, "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
	a.Devices = slices.DeleteFunc(a.Devices, func(p string) bool {
		_, err := os.Stat(filepath.Clean(p))
		return err != nil
	})
	return a, nil
}

// Inside implements Source.
func (n *NVML) Inside(ctx context.Context, uuids []string) ([]string, error) {
	a, err := n.Attach(ctx, uuids)
	// A driver may do without the nodes for graphics.
	return slices.DeleteFunc(a.Devices, func(p string) bool { return p == "/dev/nvidia-modeset" || p == "/dev/nvidia-uvm-tools" }), err
}

// Close implements Source.
func (n *NVML) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc != nil {
		close(n.proc.done)
		_ = n.proc.stdin.Close()
		_ = n.proc.cmd.Process.Kill()
		n.proc = nil
	}
	return nil
}

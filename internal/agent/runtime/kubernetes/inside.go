package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/protocol"
)

// Logs implements runtime.Driver.
func (d *Driver) Logs(ctx context.Context, lease string, o protocol.LogOptions, w io.Writer) error {
	pod, err := d.pod(ctx, lease)
	if err != nil {
		return err
	}
	if pod == nil {
		return runtime.ErrNotRunning
	}
	options := &corev1.PodLogOptions{Container: mainContainer, Follow: o.Follow}
	if o.Tail > 0 {
		tail := int64(o.Tail)
		options.TailLines = &tail
	}
	r, err := d.api.CoreV1().Pods(d.cfg.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	if apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) { // not started yet, or gone
		return runtime.ErrNotRunning
	}
	if err != nil {
		return fmt.Errorf("read the pod's output: %w", err)
	}
	defer r.Close()
	_, err = io.Copy(w, r)
	return err
}

// maxOutput is how much of what was run inside is read.
const maxOutput = 64 << 10

// head keeps the beginning of what is written.
type head struct{ bytes.Buffer }

func (h *head) Write(b []byte) (int, error) {
	if room := maxOutput - h.Len(); room > 0 {
		h.Buffer.Write(b[:min(room, len(b))])
	}
	return len(b), nil
}

// Exec implements runtime.Driver.
func (d *Driver) Exec(ctx context.Context, lease string, args []string) ([]byte, error) {
	pod, err := d.pod(ctx, lease)
	if err != nil {
		return nil, err
	}
	if pod == nil || !stateOf(pod).Running || d.rest == nil {
		return nil, runtime.ErrNotRunning
	}
	url := d.api.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: mainContainer, Command: append([]string{protocol.InstanceBinary}, args...), Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
	socket, err := remotecommand.NewWebSocketExecutor(d.rest, http.MethodGet, url.String())
	if err != nil {
		return nil, err
	}
	old, err := remotecommand.NewSPDYExecutor(d.rest, http.MethodPost, url)
	if err != nil {
		return nil, err
	}
	// Proxies in front of API servers, and servers before 1.30, know only the older way.
	executor, err := remotecommand.NewFallbackExecutor(socket, old, httpstream.IsUpgradeFailure)
	if err != nil {
		return nil, err
	}
	var out head
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: io.Discard}); err != nil {
		return nil, fmt.Errorf("run something inside the pod: %w", err)
	}
	return out.Bytes(), nil
}

// reachWait is how long an instance's own address is tried before the API server is
// asked to forward.
const reachWait = 3 * time.Second

// Dial implements runtime.Driver. An agent that is a pod reaches the instance's address;
// from elsewhere the API server forwards.
func (d *Driver) Dial(ctx context.Context, lease string, port int) (net.Conn, error) {
	pod, err := d.pod(ctx, lease)
	if err != nil {
		return nil, err
	}
	if pod == nil || !stateOf(pod).Running {
		return nil, runtime.ErrNotRunning
	}
	if d.cfg.AgentNamespace != "" && pod.Status.PodIP != "" {
		dialer := net.Dialer{Timeout: reachWait}
		c, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(port)))
		var slow net.Error
		if err == nil || !errors.As(err, &slow) || !slow.Timeout() {
			return c, err // refused, as by the instance itself
		}
	}
	if d.rest == nil {
		return nil, errors.New("there is no API server to forward the connection")
	}
	return d.forward(ctx, pod, port)
}

// forward opens one connection to a pod's port through the API server.
func (d *Driver) forward(ctx context.Context, pod *corev1.Pod, port int) (net.Conn, error) {
	url := d.api.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(d.rest)
	if err != nil {
		return nil, err
	}
	socket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, d.rest)
	if err != nil {
		return nil, err
	}
	dialer := portforward.NewFallbackDialerForStreaming(socket, spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url), httpstream.IsUpgradeFailure)
	type dialled struct {
		conn httpstream.Connection
		err  error
	}
	done := make(chan dialled, 1)
	go func() {
		conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
		done <- dialled{conn, err}
	}()
	var r dialled
	select {
	case r = <-done:
	case <-ctx.Done():
		go func() {
			if late := <-done; late.conn != nil {
				_ = late.conn.Close()
			}
		}()
		return nil, ctx.Err()
	}
	if r.err != nil {
		return nil, fmt.Errorf("reach port %d of the pod through the API server: %w", port, r.err)
	}
	header := http.Header{}
	header.Set(corev1.StreamType, corev1.StreamTypeError)
	header.Set(corev1.PortHeader, strconv.Itoa(port))
	header.Set(corev1.PortForwardRequestIDHeader, "0")
	faults, err := r.conn.CreateStream(header)
	if err == nil {
		_ = faults.Close() // nothing is sent on it
		header.Set(corev1.StreamType, corev1.StreamTypeData)
		var data httpstream.Stream
		if data, err = r.conn.CreateStream(header); err == nil {
			return newForwarded(r.conn, data, faults), nil
		}
	}
	_ = r.conn.Close()
	return nil, fmt.Errorf("reach port %d of the pod through the API server: %w", port, err)
}

// forwarded is one forwarded connection. The stream below it knows no deadlines, so
// that the near end of a pipe, which does, is what the caller has.
type forwarded struct {
	net.Conn
	below httpstream.Connection
}

func newForwarded(below httpstream.Connection, data, faults httpstream.Stream) net.Conn {
	near, far := net.Pipe()
	f := &forwarded{Conn: near, below: below}
	end := func() { _ = far.Close(); _ = below.Close() }
	go func() {
		// The node says here that nothing listens, or that the connection broke.
		if b, _ := io.ReadAll(io.LimitReader(faults, 4<<10)); len(b) > 0 {
			end()
		}
	}()
	go func() {
		_, _ = io.Copy(far, data)
		end()
	}()
	go func() {
		_, _ = io.Copy(data, far)
		_ = data.Close() // the near end has said all; answers may still come
	}()
	return f
}

// Close implements net.Conn.
func (f *forwarded) Close() error {
	err := f.Conn.Close()
	_ = f.below.Close()
	return err
}

// report is what an instance's init said, and when it was asked.
type report struct {
	said  protocol.InstanceReport
	fresh bool
	at    time.Time
}

// askEvery is between questions to one instance, each of which is a program that the
// node starts.
const askEvery = 20 * time.Second

// ask reads what the instance's init says, now and then.
func (d *Driver) ask(ctx context.Context, lease string) {
	d.mu.Lock()
	due := time.Since(d.reports[lease].at) >= askEvery
	d.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r := report{at: time.Now()}
	out, err := d.Exec(ctx, lease, []string{"instance", "report"})
	r.fresh = err == nil && json.Unmarshal(out, &r.said) == nil
	d.mu.Lock()
	d.reports[lease] = r
	d.mu.Unlock()
}

// Report implements runtime.Driver.
func (d *Driver) Report(lease string) (protocol.InstanceReport, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.reports[lease]
	return r.said, r.fresh && time.Since(r.at) < 2*askEvery
}

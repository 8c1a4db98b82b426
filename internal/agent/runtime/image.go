package runtime

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/client"

	"suanli.dev/internal/protocol"
)

// cloudScheme marks references to the cloud's own registry, which is reached
// through the agent's tunnel and not by the engine.
const cloudScheme = "cloud://"

// cloudHost stands for that registry in the engine's list of images.
const cloudHost = "cloud.suanli.invalid"

// defaultStall is used where a PullRequest names none.
const defaultStall = 2 * time.Minute

// Pull implements Driver.
func (d *Docker) Pull(ctx context.Context, r PullRequest) (Image, error) {
	if r.Stall <= 0 {
		r.Stall = defaultStall
	}
	if r.Progress == nil {
		r.Progress = func(protocol.Progress) {}
	}
	ref := r.Reference
	if rest, ok := strings.CutPrefix(ref, cloudScheme); ok {
		id, err := d.pullCloud(ctx, rest, r)
		if err != nil {
			return Image{}, err
		}
		return d.fit(ctx, id, r)
	}
	_, err := d.api.ImageInspect(ctx, ref)
	switch {
	case err == nil:
		return d.fit(ctx, ref, r)
	case cerrdefs.IsInvalidArgument(err):
		return Image{}, &Error{Code: "image_not_found", Reason: fmt.Sprintf("%q is not an image reference: %v", ref, err)}
	case !cerrdefs.IsNotFound(err):
		return Image{}, fmt.Errorf("look for the image: %w", err)
	}
	if err := d.pullEngine(ctx, r); err != nil {
		return Image{}, err
	}
	return d.fit(ctx, ref, r)
}

// watchdog cancels a pull that makes no progress. The size of an image and the
// speed of a line say nothing about how long is too long; silence does.
type watchdog struct {
	timer  *time.Timer
	stall  time.Duration
	fired  atomic.Bool
	cancel context.CancelFunc
}

func newWatchdog(ctx context.Context, stall time.Duration) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancel(ctx)
	w := &watchdog{stall: stall, cancel: cancel}
	w.timer = time.AfterFunc(stall, func() { w.fired.Store(true); cancel() })
	return ctx, w
}

func (w *watchdog) progress() { w.timer.Reset(w.stall) }
func (w *watchdog) stop()     { w.timer.Stop(); w.cancel() }

// pullEngine lets the engine pull, and tries again after faults of the line until
// nothing has moved for the stall time.
func (d *Docker) pullEngine(ctx context.Context, r PullRequest) error {
	pullCtx, dog := newWatchdog(ctx, r.Stall)
	defer dog.stop()
	var last error
	for wait := time.Second; ; wait = min(2*wait, 15*time.Second) {
		last = d.pullOnce(pullCtx, r, dog)
		if last == nil || CodeOf(last) != "" {
			return last
		}
		select {
		case <-time.After(wait):
		case <-pullCtx.Done():
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if dog.fired.Load() {
			return &Error{Code: "pull_stalled", Reason: fmt.Sprintf("pulling %s made no progress for %s and was given up: %v", r.Reference, r.Stall, last)}
		}
	}
}

func (d *Docker) pullOnce(ctx context.Context, r PullRequest, dog *watchdog) error {
	resp, err := d.api.ImagePull(ctx, r.Reference, client.ImagePullOptions{})
	if err != nil {
		return classifyPull(r.Reference, err.Error(), err)
	}
	defer resp.Close()
	layers := newLayers()
	for m, err := range resp.JSONMessages(ctx) {
		if err != nil {
			return classifyPull(r.Reference, err.Error(), err)
		}
		if m.Error != nil {
			return classifyPull(r.Reference, m.Error.Message, m.Error)
		}
		var current, total int64
		if m.Progress != nil {
			current, total = m.Progress.Current, m.Progress.Total
		}
		if !layers.note(m.ID, m.Status, current, total) {
			continue
		}
		dog.progress()
		p := layers.sum()
		if r.MaxBytes > 0 && p.Total > r.MaxBytes {
			return tooBig(r, p.Total)
		}
		r.Progress(p)
	}
	return nil
}

// layers follows a pull's messages, layer by layer.
type layers struct {
	state map[string]layerState
}

type layerState struct {
	status                      string
	current, downloaded, length int64
}

func newLayers() *layers { return &layers{state: map[string]layerState{}} }

// note takes in a message and says whether it shows progress. Waiting and
// retrying are not progress, however often they are announced.
func (l *layers) note(id, status string, current, total int64) bool {
	if id == "" || strings.HasPrefix(status, "Retrying") || strings.HasPrefix(status, "Waiting") || strings.HasPrefix(status, "Pulling from") {
		return false
	}
	s := l.state[id]
	moved := s.status != status || current > s.current
	s.status, s.current = status, current
	switch {
	case strings.HasPrefix(status, "Downloading"):
		s.downloaded = max(s.downloaded, current)
		s.length = max(s.length, total)
	case strings.HasPrefix(status, "Download complete"), strings.HasPrefix(status, "Extracting"), strings.HasPrefix(status, "Pull complete"):
		s.downloaded = s.length
	}
	l.state[id] = s
	return moved
}

func (l *layers) sum() protocol.Progress {
	var p protocol.Progress
	for _, s := range l.state {
		p.Bytes += s.downloaded
		p.Total += s.length
	}
	return p
}

func tooBig(r PullRequest, bytes int64) error {
	return &Error{Code: "image_too_big", Reason: fmt.Sprintf("the image %s takes at least %d MiB and the lease's disk has %d MiB; rent with a larger disk", r.Reference, bytes>>20, r.MaxBytes>>20)}
}

func classifyPull(ref, text string, err error) error {
	lower := strings.ToLower(text)
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(lower, p) {
				return true
			}
		}
		return false
	}
	switch {
	case has("no matching manifest", "no match for platform", "does not match the specified platform"):
		return &Error{Code: "image_architecture", Reason: fmt.Sprintf("the image %s is not built for this host's architecture, linux/%s", ref, goruntime.GOARCH)}
	case has("manifest unknown", "not found", "repository does not exist", "access denied", "name unknown", "unauthorized", "authentication required"):
		return &Error{Code: "image_not_found", Reason: fmt.Sprintf("the image %s does not exist or is not public: %s", ref, text)}
	case has("invalid reference", "invalid repository"):
		return &Error{Code: "image_not_found", Reason: fmt.Sprintf("%q is not an image reference: %s", ref, text)}
	case has("no space left on device"):
		return &Error{Code: "disk_full", Reason: fmt.Sprintf("the host's disk filled up while %s was being pulled", ref)}
	case has("cannot be mapped to a host id", "failed to register layer"):
		return &Error{Code: "engine", Reason: fmt.Sprintf("the engine cannot unpack the image %s: %s", ref, text)}
	}
	return fmt.Errorf("pull %s: %w", ref, err)
}

// fit checks that the image suits the host and the lease, and returns it in the
// form to start.
func (d *Docker) fit(ctx context.Context, ref string, r PullRequest) (Image, error) {
	in, err := d.api.ImageInspect(ctx, ref)
	if err != nil {
		return Image{}, fmt.Errorf("look at the image: %w", err)
	}
	if in.Architecture != "" && in.Architecture != goruntime.GOARCH {
		return Image{}, &Error{Code: "image_architecture", Reason: fmt.Sprintf("the image %s is built for %s and this host is %s", r.Reference, in.Architecture, goruntime.GOARCH)}
	}
	if r.MaxBytes > 0 && in.Size > r.MaxBytes {
		return Image{}, tooBig(r, in.Size)
	}
	img := Image{ID: in.ID, SizeBytes: in.Size}
	if in.Config == nil {
		return img, nil
	}
	img.Entrypoint, img.Command, img.Env = in.Config.Entrypoint, in.Config.Cmd, in.Config.Env
	img.WorkingDir, img.User = in.Config.WorkingDir, in.Config.User
	if len(in.Config.Volumes) > 0 {
		if img.ID, err = d.withoutVolumes(ctx, in.InspectResponse); err != nil {
			return Image{}, err
		}
	}
	return img, nil
}

// withoutVolumes makes an image of the same layers that declares no volumes. The
// engine would put declared ones outside the lease's disk, without a limit, and
// lose them at a stop. Layers that the engine has need not be in the archive, so
// this moves a few kilobytes.
func (d *Docker) withoutVolumes(ctx context.Context, in image.InspectResponse) (string, error) {
	config := map[string]any{
		"architecture": in.Architecture, "os": in.Os,
		"config": map[string]any{"Env": in.Config.Env, "Entrypoint": in.Config.Entrypoint, "Cmd": in.Config.Cmd, "WorkingDir": in.Config.WorkingDir, "User": in.Config.User},
		"rootfs": map[string]any{"type": "layers", "diff_ids": in.RootFS.Layers},
	}
	blob, err := json.Marshal(config)
	if err != nil {
		return "", err
	}
	tag := "suanli-novolumes:" + strings.TrimPrefix(in.ID, "sha256:")[:24]
	names := make([]string, len(in.RootFS.Layers))
	for i := range names {
		names[i] = fmt.Sprintf("layer%d.tar", i)
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{tag}, "Layers": names}})
	if err != nil {
		return "", err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range []struct {
		name string
		body []byte
	}{{"config.json", blob}, {"manifest.json", manifest}} {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.body))}); err != nil {
			return "", err
		}
		if _, err := w.Write(f.body); err != nil {
			return "", err
		}
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	if err := d.load(ctx, &archive); err != nil {
		return "", &Error{Code: "engine", Reason: fmt.Sprintf("the image declares volumes, and this engine cannot take the declaration away: %v", err)}
	}
	out, err := d.api.ImageInspect(ctx, tag)
	if err != nil {
		return "", fmt.Errorf("look at the image without volumes: %w", err)
	}
	return out.ID, nil
}

func (d *Docker) load(ctx context.Context, archive io.Reader) error {
	resp, err := d.api.ImageLoad(ctx, archive)
	if err != nil {
		return fmt.Errorf("load an image: %w", err)
	}
	defer resp.Close()
	dec := json.NewDecoder(resp)
	for {
		var m struct {
			Error string `json:"error"`
		}
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("load an image: %w", err)
		}
		if m.Error != "" {
			return fmt.Errorf("load an image: %s", m.Error)
		}
	}
}

// pullCloud fetches an image from the cloud's registry through the tunnel and
// hands it to the engine; the engine needs neither a route nor trust in it.
func (d *Docker) pullCloud(ctx context.Context, rest string, r PullRequest) (string, error) {
	if d.cfg.Registry == nil {
		return "", &Error{Code: "image_not_found", Reason: fmt.Sprintf("the image %s is in the cloud's registry, which this agent cannot reach", r.Reference)}
	}
	ref, err := name.ParseReference(cloudHost+"/"+rest, name.Insecure)
	if err != nil {
		return "", &Error{Code: "image_not_found", Reason: fmt.Sprintf("%q is not an image reference: %v", r.Reference, err)}
	}
	pullCtx, dog := newWatchdog(ctx, r.Stall)
	defer dog.stop()
	var got, total atomic.Int64
	line := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.cfg.Registry(ctx) },
		// Each connection is a stream of the tunnel, cheap to open, and must not
		// outlive the pull.
		DisableKeepAlives:     true,
		ResponseHeaderTimeout: r.Stall,
	}
	defer line.CloseIdleConnections()
	counted := countingTransport{inner: line, count: func(n int64) {
		dog.progress()
		r.Progress(protocol.Progress{Bytes: min(got.Add(n), max(total.Load(), 1)), Total: total.Load()})
	}}
	img, err := remote.Image(ref, remote.WithContext(pullCtx), remote.WithTransport(counted), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: goruntime.GOARCH}))
	if err != nil {
		if cached, inspectErr := d.api.ImageInspect(ctx, ref.Name()); inspectErr == nil && !isAnswer(err) {
			return cached.ID, nil // the line is down and the image is here
		}
		return "", cloudFault(r, err, dog)
	}
	id, err := img.ConfigName()
	if err != nil {
		return "", cloudFault(r, err, dog)
	}
	if _, err := d.api.ImageInspect(ctx, id.String()); err == nil {
		return id.String(), nil
	}
	manifest, err := img.Manifest()
	if err != nil {
		return "", cloudFault(r, err, dog)
	}
	size := manifest.Config.Size
	for _, l := range manifest.Layers {
		size += l.Size
	}
	total.Store(size)
	got.Store(0)
	if r.MaxBytes > 0 && size > r.MaxBytes {
		return "", tooBig(r, size)
	}
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(tarball.Write(ref, img, pw)) }()
	err = d.load(pullCtx, pr)
	pr.CloseWithError(errors.New("the engine stopped reading the image"))
	if err != nil {
		return "", cloudFault(r, err, dog)
	}
	return id.String(), nil
}

// isAnswer reports whether the registry itself answered with err.
func isAnswer(err error) bool {
	var t *transport.Error
	return errors.As(err, &t)
}

func cloudFault(r PullRequest, err error, dog *watchdog) error {
	if dog.fired.Load() {
		return &Error{Code: "pull_stalled", Reason: fmt.Sprintf("pulling %s made no progress for %s and was given up: %v", r.Reference, r.Stall, err)}
	}
	var t *transport.Error
	if errors.As(err, &t) && t.StatusCode == http.StatusNotFound {
		return &Error{Code: "image_not_found", Reason: fmt.Sprintf("the cloud's registry has no image %s", r.Reference)}
	}
	return classifyPull(r.Reference, err.Error(), err)
}

// countingTransport reports the bytes of response bodies as they are read.
type countingTransport struct {
	inner http.RoundTripper
	count func(int64)
}

func (t countingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.inner.RoundTrip(req)
	if err == nil {
		resp.Body = countingBody{resp.Body, t.count}
	}
	return resp, err
}

type countingBody struct {
	io.ReadCloser
	count func(int64)
}

func (b countingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.count(int64(n))
	}
	return n, err
}

// selfTestImage is an image with nothing in it; the self-test brings its program.
const selfTestImage = "suanli-self-test:1"

// BaseImage makes an empty image present, whose environment asks for every GPU as
// a hostile one would.
func (d *Docker) BaseImage(ctx context.Context) (Image, error) {
	if in, err := d.api.ImageInspect(ctx, selfTestImage); err == nil {
		return Image{ID: in.ID}, nil
	}
	var empty bytes.Buffer
	w := tar.NewWriter(&empty)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}); err != nil {
		return Image{}, err
	}
	if err := w.Close(); err != nil {
		return Image{}, err
	}
	resp, err := d.api.ImageImport(ctx, client.ImageImportSource{Source: &empty, SourceName: "-"}, selfTestImage, client.ImageImportOptions{Changes: []string{"ENV NVIDIA_VISIBLE_DEVICES=all"}})
	if err != nil {
		return Image{}, fmt.Errorf("import the self-test's image: %w", err)
	}
	defer resp.Close()
	if _, err := io.Copy(io.Discard, resp); err != nil {
		return Image{}, fmt.Errorf("import the self-test's image: %w", err)
	}
	in, err := d.api.ImageInspect(ctx, selfTestImage)
	if err != nil {
		return Image{}, fmt.Errorf("look at the self-test's image: %w", err)
	}
	return Image{ID: in.ID}, nil
}

// Gateway is the host's address in a lease's network, which the self-test tries
// to reach.
func (d *Docker) Gateway(ctx context.Context, lease string) (string, error) {
	r, err := d.api.NetworkInspect(ctx, networkName(lease), client.NetworkInspectOptions{})
	if err != nil {
		return "", fmt.Errorf("look at the lease's network: %w", err)
	}
	if len(r.Network.IPAM.Config) == 0 {
		return "", errors.New("the lease's network has no address range")
	}
	return r.Network.IPAM.Config[0].Gateway.String(), nil
}

// Address is the instance's own, in its network; empty if it does not run.
func (d *Docker) Address(lease string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.addr[lease]
}

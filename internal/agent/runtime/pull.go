package runtime

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/klauspost/compress/zstd"
	"github.com/moby/moby/client"

	"suanli.dev/internal/protocol"
)

// The agent pulls images itself and hands them to the engine. An engine would
// pull from outside of every isolation, connect to whatever a renter's registry
// points at, put its answers into its errors, and unpack layers without a bound;
// none of that can be limited from outside of it on every version. Docker and
// Podman of all ages load an archive, and leave out of it what they have already.

// The bounds of an image that a renter has chosen.
const (
	maxLayers       = 512
	maxFiles        = 8 << 20
	parallelLayers  = 3
	loadSilence     = 10 * time.Minute // of the engine, while it unpacks
	transferOverrun = 3                // times a layer's size, with all that came twice
)

// errDamaged is what a layer ends with that is not what its image says.
var errDamaged = errors.New("what came is not what was announced")

// pull is one image on its way.
type pull struct {
	d       *Docker
	request PullRequest
	line    *line
	pace    *pace
	dir     string // of layers

	rt       http.RoundTripper // authenticated
	repo     name.Repository
	config   []byte
	manifest v1.Hash // of the manifest, by which registries name the image
	id       v1.Hash // of the configuration, which is the image's in the engine
	layers   []v1.Descriptor
	diffs    []v1.Hash
	got      atomic.Int64
	total    int64
	unpacked atomic.Int64
	files    atomic.Int64
}

// pullFrom fetches an image from the first of places that has it, and makes it
// present in the engine.
func (d *Docker) pullFrom(ctx context.Context, r PullRequest, places []name.Reference, connect func(answer time.Duration, count func(int64)) *line) (string, error) {
	paced, pace := newPace(ctx, r.Stall)
	defer pace.stop()
	p := &pull{d: d, request: r, pace: pace}
	p.line = connect(min(firstByteWait, r.Stall), pace.note)
	defer p.line.close()
	if err := p.resolve(paced, places); err != nil {
		return "", p.explain(ctx, err)
	}
	if _, err := d.api.ImageInspect(ctx, p.id.String()); err == nil {
		d.images.used(p.id.String(), r.Reference, 0)
		return p.id.String(), nil
	}
	if err := p.fits(ctx); err != nil {
		return "", err
	}
	unpin := d.images.pin(p.id.String())
	defer unpin()
	dir, err := os.MkdirTemp(d.pullsDir(), "pull-")
	if err != nil {
		return "", fmt.Errorf("make a folder for an image: %w", err)
	}
	defer os.RemoveAll(dir)
	p.dir = dir
	have := d.leadingLayers(ctx, p.diffs)
	for {
		if err := p.fetch(paced, have); err != nil {
			return "", p.explain(ctx, err)
		}
		pace.timer.Stop() // from here on, the engine works and the line is idle
		err := p.load(ctx, have)
		if err == nil {
			break
		}
		if have == 0 || ctx.Err() != nil {
			return "", err
		}
		have = 0 // the engine wants to see the layers that it has, or has lost them
	}
	d.images.used(p.id.String(), r.Reference, max(p.unpacked.Load(), p.total))
	return p.id.String(), nil
}

func (d *Docker) pullsDir() string { return filepath.Join(d.cfg.Dir, "pulls") }

// resolve finds out what the image is made of.
func (p *pull) resolve(ctx context.Context, places []name.Reference) error {
	ctx, cancel := context.WithTimeout(ctx, min(firstByteWait, p.request.Stall))
	defer cancel()
	for wait := time.Second; ; wait *= 2 {
		var err error
		for _, ref := range places {
			if err = p.describe(ctx, ref); err == nil {
				return nil
			}
			p.d.log().Warn("an image could not be looked up", "image", p.request.Reference, "registry", ref.Context().RegistryStr(), "error", err)
		}
		if p.final(err) || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

func (p *pull) describe(ctx context.Context, ref name.Reference) error {
	platform := v1.Platform{OS: "linux", Architecture: goruntime.GOARCH}
	img, err := remote.Image(ref, remote.WithContext(ctx), remote.WithTransport(p.line), remote.WithPlatform(platform))
	if err != nil {
		return err
	}
	m, err := img.Manifest()
	if err != nil {
		return err
	}
	digest, err := img.Digest()
	if err != nil {
		return err
	}
	if m.Config.Size < 0 || m.Config.Size > maxAnswerBytes || len(m.Layers) > maxLayers {
		return errDamaged
	}
	if p.config, err = img.RawConfigFile(); err != nil {
		return err
	}
	c, err := v1.ParseConfigFile(bytes.NewReader(p.config))
	if err != nil || len(c.RootFS.DiffIDs) != len(m.Layers) {
		return errDamaged
	}
	if c.Architecture != "" && c.Architecture != goruntime.GOARCH {
		return &Error{Code: "image_architecture", Reason: fmt.Sprintf("the image %s is built for linux/%.20s and this host is linux/%s", p.request.Reference, strings.ToValidUTF8(c.Architecture, "?"), goruntime.GOARCH)}
	}
	var total int64
	for _, l := range m.Layers {
		if l.Size < 0 || l.Size > math.MaxInt64/maxLayers || l.Digest.Algorithm != "sha256" {
			return errDamaged
		}
		total += l.Size
	}
	p.repo, p.layers, p.diffs, p.id, p.total = ref.Context(), m.Layers, c.RootFS.DiffIDs, m.Config.Digest, total
	p.manifest = digest
	p.rt, err = transport.NewWithContext(ctx, p.repo.Registry, authn.Anonymous, p.line, []string{p.repo.Scope(transport.PullScope)})
	return err
}

// fits makes room, or says that there is none.
func (p *pull) fits(ctx context.Context) error {
	if p.request.MaxBytes > 0 && p.total > p.request.MaxBytes {
		return tooBig(p.request, p.total)
	}
	// Layers lie on the disk twice as they come, here and with the engine, and
	// once unpacked, which is two to three times as much.
	need := 5 * (p.total >> 20)
	p.d.makeRoom(ctx, need)
	free, err := freeMiB(p.d.cfg.Dir)
	if err != nil {
		return err
	}
	if free < need+hostReserveMiB {
		return &Error{Code: "disk_full", Reason: fmt.Sprintf("the image %s needs about %d MiB of the host's disk while it is unpacked, and %d MiB are free", p.request.Reference, need, max(0, free-hostReserveMiB))}
	}
	return nil
}

// fetch brings all layers but the first ones that the engine has.
func (p *pull) fetch(ctx context.Context, have int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.got.Store(0)
	p.unpacked.Store(0)
	p.files.Store(0)
	total := int64(0)
	next := make(chan int, len(p.layers))
	seen := map[v1.Hash]bool{}
	for i := have; i < len(p.layers); i++ {
		if d := p.layers[i].Digest; !seen[d] { // an image may have the same layer twice
			seen[d] = true
			next <- i
			total += p.layers[i].Size
		}
	}
	close(next)
	var wg sync.WaitGroup
	for range parallelLayers {
		wg.Go(func() {
			for i := range next {
				err := p.layer(ctx, p.layers[i], total)
				if err == nil {
					err = p.measure(ctx, p.layers[i])
				}
				if err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (p *pull) file(l v1.Descriptor) string { return filepath.Join(p.dir, l.Digest.Hex+".tar") }

// layer downloads one layer, going on after faults of the line where it was.
func (p *pull) layer(ctx context.Context, l v1.Descriptor, total int64) error {
	f, err := os.Create(p.file(l))
	if err != nil {
		return err
	}
	defer f.Close()
	c := &http.Client{Transport: p.rt}
	sum := sha256.New()
	at, came := int64(0), int64(0)
	for wait := time.Second; ; wait = min(2*wait, 15*time.Second) {
		before := at
		err := p.piece(ctx, c, l, at, func(b []byte, from int64) error {
			if from == 0 && at > 0 {
				// The registry begins anew.
				if err := f.Truncate(0); err != nil {
					return err
				}
				if _, err := f.Seek(0, io.SeekStart); err != nil {
					return err
				}
				p.got.Add(-at)
				sum.Reset()
				at = 0
			}
			if _, err := f.Write(b); err != nil {
				return err
			}
			_, _ = sum.Write(b)
			at += int64(len(b))
			if came += int64(len(b)); came > transferOverrun*l.Size {
				return errDamaged
			}
			p.request.Progress(protocol.Progress{Bytes: p.got.Add(int64(len(b))), Total: total})
			return nil
		})
		if err == nil && at == l.Size {
			if hex.EncodeToString(sum.Sum(nil)) != l.Digest.Hex {
				return errDamaged
			}
			return f.Sync()
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if p.final(err) {
			return err
		}
		p.d.log().Warn("a layer is being fetched again", "image", p.request.Reference, "from_byte", at, "of", l.Size, "error", err)
		if at > before {
			wait = time.Second
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// piece asks for a layer from a byte on. take is told where in the layer the
// bytes of its first call begin, and -1 afterwards.
func (p *pull) piece(ctx context.Context, c *http.Client, l v1.Descriptor, at int64, take func(b []byte, from int64) error) error {
	if l.Size == at {
		return nil
	}
	where := fmt.Sprintf("%s://%s/v2/%s/blobs/%s", p.repo.Scheme(), p.repo.RegistryStr(), p.repo.RepositoryStr(), l.Digest)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return err
	}
	req.Header.Set(layerHeader, "1")
	if at > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", at))
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	from := at
	switch {
	case resp.StatusCode == http.StatusOK:
		from = 0
	case at > 0 && resp.StatusCode == http.StatusPartialContent && strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", at)):
	default:
		return &transport.Error{StatusCode: resp.StatusCode}
	}
	body := io.LimitReader(resp.Body, l.Size-from+1)
	buf := make([]byte, 256<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if err := take(buf[:n], from); err != nil {
				return err
			}
			from = -1
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// measure adds up what a layer takes once it is unpacked, before anything unpacks
// it: a few kilobytes may stand for any number of zeros, by compression or as the
// holes of a sparse file.
func (p *pull) measure(ctx context.Context, l v1.Descriptor) error {
	f, err := os.Open(p.file(l))
	if err != nil {
		return err
	}
	defer f.Close()
	// Reading what is here already is no fault of the line.
	r, err := plain(io.TeeReader(f, signal(p.pace.note)))
	if err != nil {
		return errDamaged
	}
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil || h.Size < 0 {
			return errDamaged
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		size := h.Size
		if p.request.MaxBytes > 0 && size > p.request.MaxBytes {
			return tooBig(p.request, size)
		}
		if sum := p.unpacked.Add(size); p.request.MaxBytes > 0 && sum > p.request.MaxBytes {
			return tooBig(p.request, sum)
		}
		if p.files.Add(1) > maxFiles {
			return &Error{Code: "image_too_big", Reason: fmt.Sprintf("the image %s has more than %d files", p.request.Reference, maxFiles)}
		}
	}
}

// plain returns the tar archive in a layer, by what it begins with, as engines do.
func plain(f io.Reader) (io.Reader, error) {
	b := bufio.NewReaderSize(f, 1<<20)
	magic, _ := b.Peek(4)
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(b)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	case bytes.HasPrefix(magic, []byte("BZh")), bytes.HasPrefix(magic, []byte{0xfd, '7', 'z'}), len(magic) == 4 && magic[0] == 0x50 && magic[1] == 0x2a && magic[2] == 0x4d && magic[3] == 0x18:
		return nil, errDamaged // no tool writes layers so, and engines may unpack them
	}
	return b, nil
}

// load hands the image to the engine.
func (p *pull) load(ctx context.Context, have int) error {
	quiet, alive := newSilence(ctx, max(loadSilence, p.request.Stall))
	defer alive.stop()
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(p.archive(pw, have, alive.broken)) }()
	err := p.d.load(quiet, pr, alive.broken)
	pr.CloseWithError(errors.New("the engine stopped reading the image"))
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return classifyLoad(p.request.Reference, err)
	}
	return nil
}

func (p *pull) archive(w io.Writer, have int, alive func()) error {
	t := tar.NewWriter(w)
	put := func(name string, size int64, r io.Reader) error {
		if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size}); err != nil {
			return err
		}
		_, err := io.Copy(t, r)
		alive()
		return err
	}
	names := make([]string, len(p.layers))
	for i, l := range p.layers {
		names[i] = l.Digest.Hex + ".tar"
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": p.id.Hex + ".json", "RepoTags": []string{engineTag(p.request.Reference)}, "Layers": names}})
	if err != nil {
		return err
	}
	if err := put(p.id.Hex+".json", int64(len(p.config)), bytes.NewReader(p.config)); err != nil {
		return err
	}
	done := map[v1.Hash]bool{}
	for i, l := range p.layers {
		if i < have || done[l.Digest] {
			continue
		}
		done[l.Digest] = true
		f, err := os.Open(p.file(l))
		if err != nil {
			return err
		}
		err = put(names[i], l.Size, io.TeeReader(f, signal(func(int64) { alive() })))
		f.Close()
		if err != nil {
			return err
		}
	}
	if err := put("manifest.json", int64(len(manifest)), bytes.NewReader(manifest)); err != nil {
		return err
	}
	return t.Close()
}

// signal is a writer that only tells how much passes.
type signal func(n int64)

func (s signal) Write(b []byte) (int, error) { s(int64(len(b))); return len(b), nil }

// leadingLayers is how many of an image's first layers the engine has from
// another image, and need not be fetched.
func (d *Docker) leadingLayers(ctx context.Context, diffs []v1.Hash) int {
	list, err := d.api.ImageList(ctx, client.ImageListOptions{})
	if err != nil {
		return 0
	}
	most := 0
	for _, i := range list.Items {
		in, err := d.api.ImageInspect(ctx, i.ID)
		if err != nil {
			continue
		}
		n := 0
		for n < min(len(diffs), len(in.RootFS.Layers)) && in.RootFS.Layers[n] == diffs[n].String() {
			n++
		}
		most = max(most, n)
	}
	return most
}

// final reports whether trying again will not help.
func (p *pull) final(err error) bool {
	if err == nil {
		return false
	}
	if CodeOf(err) != "" || p.leadsInside(err) || errors.Is(err, errDamaged) || errors.Is(err, errTooLong) || errors.Is(err, remote.ErrSchema1) || strings.Contains(err.Error(), "no child with platform") {
		return true
	}
	var t *transport.Error
	return errors.As(err, &t) && t.StatusCode >= 400 && t.StatusCode < 500 && !slices.Contains([]int{http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusRequestedRangeNotSatisfiable}, t.StatusCode)
}

// leadsInside reports whether a connection was refused for its address, here or
// by the library, which looks at the literal addresses of token services itself.
func (p *pull) leadsInside(err error) bool {
	return p.line.refused.Load() || strings.Contains(err.Error(), "invalid realm in www-authenticate")
}

// explain says in our own words why a pull failed. Nothing that the registry sent
// is in them but the number of its status: a renter who points a registry at
// somebody else's service would read that service's answers.
func (p *pull) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil || CodeOf(err) != "" {
		return err
	}
	p.d.log().Warn("an image could not be pulled", "image", p.request.Reference, "error", err)
	ref, why := p.request.Reference, "its registry could not be reached"
	var t *transport.Error
	answered := errors.As(err, &t) && t.StatusCode > 0
	if answered {
		why = "its registry answered " + strconv.Itoa(t.StatusCode)
	}
	refuse := func(code, format string, args ...any) error {
		return &Error{Code: code, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case p.leadsInside(err):
		return refuse("registry_refused", "the registry of the image %s leads to an address inside of a network, where hosts do not pull from; name a public registry, or ask the operator to put the image into the cloud's own", ref)
	case strings.Contains(err.Error(), "no child with platform"):
		return refuse("image_architecture", "the image %s is not built for this host's architecture, linux/%s", ref, goruntime.GOARCH)
	case errors.Is(err, remote.ErrSchema1):
		return refuse("image_not_found", "the image %s is in the format of before 2017, which is not taken any more; push it again with a present tool", ref)
	case errors.Is(err, errDamaged), errors.Is(err, errTooLong):
		return refuse("image_damaged", "what the registry of the image %s sends is not a whole image; push it again", ref)
	case isFull(err):
		return refuse("disk_full", "the host's disk filled up while %s was being pulled", ref)
	case p.pace.tooSlow() && p.got.Load() > 0:
		return refuse("pull_stalled", "pulling %s was given up: less than %d KiB a second came over %s", ref, slowest>>10, p.request.Stall)
	case answered && slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound}, t.StatusCode):
		return refuse("image_not_found", "the image %s does not exist or is not public: %s", ref, why)
	case answered && t.StatusCode < 500 && t.StatusCode != http.StatusTooManyRequests && t.StatusCode != http.StatusRequestTimeout:
		return refuse("image_not_found", "the image %s cannot be pulled: %s", ref, why)
	}
	return refuse("pull_stalled", "pulling %s was given up after %s: %s", ref, min(firstByteWait, p.request.Stall), why)
}

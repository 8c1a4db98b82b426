package runtime

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	goruntime "runtime"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

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
	id := ref
	if known, ok := d.images.find(ref); ok {
		id = known
	}
	_, err := d.api.ImageInspect(ctx, id)
	switch {
	case err == nil:
		d.images.touch(id, ref)
		return d.fit(ctx, id, r)
	case cerrdefs.IsInvalidArgument(err):
		return Image{}, notAReference(ref)
	case !cerrdefs.IsNotFound(err):
		return Image{}, fmt.Errorf("look for the image: %w", err)
	}
	places, trusted, err := d.places(ref)
	if err != nil {
		return Image{}, notAReference(ref)
	}
	id, err = d.pullFrom(ctx, r, places, func(answer time.Duration, count func(int64)) *line { return newLine(answer, trusted, count) })
	if err != nil {
		return Image{}, err
	}
	return d.fit(ctx, id, r)
}

func notAReference(ref string) error {
	return &Error{Code: "image_not_found", Reason: fmt.Sprintf("%q is not an image reference", ref)}
}

// places is where an image may be had, in the order to try, and which hosts may be
// inside of a network for it: those that who runs the host has named, to the agent
// or as the engine's mirrors.
func (d *Docker) places(ref string) (places []name.Reference, trusted []string, err error) {
	var opts []name.Option
	for _, in := range d.cfg.InnerRegistries {
		trusted = append(trusted, in.Host)
		if first, _, _ := strings.Cut(ref, "/"); in.HTTP && strings.EqualFold(first, in.Host) {
			opts = append(opts, name.Insecure)
		}
	}
	parsed, err := name.ParseReference(ref, opts...)
	if err != nil {
		return nil, nil, err
	}
	if parsed.Context().RegistryStr() == name.DefaultRegistry {
		d.mu.Lock()
		mirrors := d.mirrors
		d.mu.Unlock()
		for _, m := range mirrors {
			host, plain := strings.CutPrefix(m, "http://")
			host = strings.Trim(strings.TrimPrefix(host, "https://"), "/")
			var opts []name.Option
			if plain {
				opts = append(opts, name.Insecure)
			}
			reg, err := name.NewRegistry(host, opts...)
			if err != nil {
				continue
			}
			trusted = append(trusted, host)
			repo := reg.Repo(parsed.Context().RepositoryStr())
			if _, pinned := parsed.(name.Digest); pinned {
				places = append(places, repo.Digest(parsed.Identifier()))
			} else {
				places = append(places, repo.Tag(parsed.Identifier()))
			}
		}
	}
	return append(places, parsed), trusted, nil
}

func tooBig(r PullRequest, bytes int64) error {
	return &Error{Code: "image_too_big", Reason: fmt.Sprintf("the image %s takes at least %d MiB and the lease's disk has %d MiB; rent with a larger disk", r.Reference, bytes>>20, r.MaxBytes>>20)}
}

func isFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || strings.Contains(strings.ToLower(err.Error()), "no space left on device")
}

// classifyLoad says why the engine did not take an image.
func classifyLoad(ref string, err error) error {
	if isFull(err) {
		return &Error{Code: "disk_full", Reason: fmt.Sprintf("the host's disk filled up while %s was being unpacked", ref)}
	}
	if text := err.Error(); strings.Contains(text, "cannot be mapped to a host") || strings.Contains(text, "failed to register layer") || strings.Contains(text, "ApplyLayer") {
		return &Error{Code: "engine", Reason: fmt.Sprintf("the engine cannot unpack the image %s: %s", ref, text)}
	}
	return fmt.Errorf("load %s into the engine: %w", ref, err)
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
		d.images.copied(img.ID, in.ID)
	}
	return img, nil
}

// copyTag begins the tags of images that withoutVolumes makes.
const copyTag = "suanli-novolumes:"

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
	tag := copyTag + strings.TrimPrefix(in.ID, "sha256:")[:24]
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
	if err := d.load(ctx, &archive, func() {}); err != nil {
		return "", &Error{Code: "engine", Reason: fmt.Sprintf("the image declares volumes, and this engine cannot take the declaration away: %v", err)}
	}
	out, err := d.api.ImageInspect(ctx, tag)
	if err != nil {
		return "", fmt.Errorf("look at the image without volumes: %w", err)
	}
	return out.ID, nil
}

// load hands an archive to the engine; alive is called whenever the engine says
// something meanwhile.
func (d *Docker) load(ctx context.Context, archive io.Reader, alive func()) error {
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
		alive()
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
	id, err := d.pullFrom(ctx, r, []name.Reference{ref}, func(answer time.Duration, count func(int64)) *line {
		return newTunnelLine(answer, d.cfg.Registry, count)
	})
	if code := CodeOf(err); code == "pull_stalled" || err != nil && code == "" {
		if cached, ok := d.images.find(r.Reference); ok {
			if _, inspectErr := d.api.ImageInspect(ctx, cached); inspectErr == nil {
				d.images.touch(cached, r.Reference)
				return cached, nil // the line is down and the image is here
			}
		}
	}
	return id, err
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

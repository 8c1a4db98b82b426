package runtime

import (
	"context"
	"log/slog"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"suanli.dev/internal/protocol"
)

// LookUp finds out what an image is made of and does not fetch it, for engines that
// pull by themselves. The identifier that it returns names the image by digest, so
// that what they pull is what was looked at. A refusal is an *Error.
func LookUp(ctx context.Context, r PullRequest, inner []InnerRegistry, log *slog.Logger) (Image, error) {
	if strings.HasPrefix(r.Reference, cloudScheme) {
		return Image{}, &Error{Code: "image_not_found", Reason: "the image " + r.Reference + " is in the cloud's own registry, which the nodes of a Kubernetes cluster cannot reach; push it to a registry that they can, or rent on another host"}
	}
	if r.Stall <= 0 {
		r.Stall = defaultStall
	}
	if r.Progress == nil {
		r.Progress = func(protocol.Progress) {}
	}
	d := &Docker{cfg: DockerConfig{InnerRegistries: inner, Log: log}}
	places, trusted, err := d.places(r.Reference)
	if err != nil {
		return Image{}, notAReference(r.Reference)
	}
	paced, pace := newPace(ctx, r.Stall)
	defer pace.stop()
	p := &pull{d: d, request: r, pace: pace}
	p.line = newLine(min(firstByteWait, r.Stall), trusted, pace.note)
	defer p.line.close()
	if err := p.resolve(paced, places); err != nil {
		return Image{}, p.explain(ctx, err)
	}
	if r.MaxBytes > 0 && p.total > r.MaxBytes {
		return Image{}, tooBig(r, p.total)
	}
	c, err := v1.ParseConfigFile(strings.NewReader(string(p.config)))
	if err != nil {
		return Image{}, p.explain(ctx, errDamaged)
	}
	return Image{
		ID: p.repo.Name() + "@" + p.manifest.String(), SizeBytes: p.total,
		Entrypoint: c.Config.Entrypoint, Command: c.Config.Cmd, Env: c.Config.Env,
		WorkingDir: c.Config.WorkingDir, User: c.Config.User,
	}, nil
}

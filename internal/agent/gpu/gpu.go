package gpu

import (
	"context"
	"fmt"
	"slices"

	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/protocol"
)

// Source finds GPUs. It is safe for concurrent use.
type Source interface {
	// List returns the GPUs with their present health and readings. After an
	// error the caller keeps what it knew and reports the host as degraded.
	List(ctx context.Context) ([]protocol.GPU, error)
	// Attach says how a container is given the GPUs with these UUIDs. A UUID that
	// the host lacks is a *runtime.Error with the code gpu_missing.
	Attach(ctx context.Context, uuids []string) (runtime.Attachment, error)
	// Inside lists what a program in a container that was given these GPUs must be
	// able to open to use them: paths in the container. An error means that the
	// host itself cannot use them now.
	Inside(ctx context.Context, uuids []string) ([]string, error)
	Close() error
}

// Set is several sources as one; a host may have GPUs of two makers.
type Set []Source

// List implements Source.
func (s Set) List(ctx context.Context) ([]protocol.GPU, error) {
	var all []protocol.GPU
	var failed error
	for _, src := range s {
		gpus, err := src.List(ctx)
		if err != nil {
			failed = err
		}
		all = append(all, gpus...)
	}
	return all, failed
}

// each calls do with every source and those of the GPUs that it has.
func (s Set) each(ctx context.Context, uuids []string, do func(src Source, mine []string) error) error {
	left := slices.Clone(uuids)
	for _, src := range s {
		gpus, err := src.List(ctx)
		if err != nil {
			continue
		}
		var mine []string
		left = slices.DeleteFunc(left, func(u string) bool {
			has := slices.ContainsFunc(gpus, func(g protocol.GPU) bool { return g.UUID == u })
			if has {
				mine = append(mine, u)
			}
			return has
		})
		if len(mine) == 0 {
			continue
		}
		if err := do(src, mine); err != nil {
			return err
		}
	}
	if len(left) > 0 {
		return missing(left[0])
	}
	return nil
}

// Inside implements Source.
func (s Set) Inside(ctx context.Context, uuids []string) ([]string, error) {
	var all []string
	err := s.each(ctx, uuids, func(src Source, mine []string) error {
		paths, err := src.Inside(ctx, mine)
		all = append(all, paths...)
		return err
	})
	return all, err
}

// Attach implements Source.
func (s Set) Attach(ctx context.Context, uuids []string) (runtime.Attachment, error) {
	var whole runtime.Attachment
	err := s.each(ctx, uuids, func(src Source, mine []string) error {
		a, err := src.Attach(ctx, mine)
		if err != nil {
			return err
		}
		whole.NVIDIA = append(whole.NVIDIA, a.NVIDIA...)
		whole.Devices = append(whole.Devices, a.Devices...)
		whole.Mounts = append(whole.Mounts, a.Mounts...)
		whole.Groups = append(whole.Groups, a.Groups...)
		for k, v := range a.Env {
			if whole.Env == nil {
				whole.Env = map[string]string{}
			}
			whole.Env[k] = v
		}
		return nil
	})
	if err != nil {
		return runtime.Attachment{}, err
	}
	return whole, nil
}

// Close implements Source.
func (s Set) Close() error {
	for _, src := range s {
		_ = src.Close()
	}
	return nil
}

func missing(uuid string) error {
	return &runtime.Error{Code: "gpu_missing", Reason: fmt.Sprintf("the GPU %s is not on this host any more", uuid)}
}

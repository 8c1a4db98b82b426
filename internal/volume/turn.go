package volume

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

// commandPatience is how long a host may take for one command: it writes a file
// system, or frees the blocks of one.
const commandPatience = 30 * time.Second

// work begins what there is to do, each part by a goroutine of its own that all waits
// for, and calls done as each has ended.
type work func(ctx context.Context, all *sync.WaitGroup, done func(error)) error

// signal makes a loop take a turn at once.
func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// loop takes turns until ctx ends. late and broken say in the log that a part of a turn,
// and that a whole one, failed.
func (s *Service) loop(ctx context.Context, wake <-chan struct{}, begin work, late, broken string) error {
	tick := time.NewTicker(s.Every)
	defer tick.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-wake:
		}
		err := begin(ctx, &all, func(err error) {
			if err != nil && ctx.Err() == nil {
				s.Log.WarnContext(ctx, late, "error", err)
			}
		})
		if err != nil && ctx.Err() == nil {
			s.Log.ErrorContext(ctx, broken, "error", err)
		}
	}
}

// once takes one turn, and returns when all of it is done.
func once(ctx context.Context, begin work) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed []error
	err := begin(ctx, &all, func(err error) {
		mu.Lock()
		defer mu.Unlock()
		failed = append(failed, err)
	})
	all.Wait()
	return errors.Join(append(failed, err)...)
}

// kick makes Run take a turn at once.
func (s *Service) kick() { signal(s.wake) }

// Run takes turns until ctx ends. Several replicas may run it.
func (s *Service) Run(ctx context.Context) error {
	return s.loop(ctx, s.wake, s.begin, "a host's volumes are not as they are wanted yet; it is tried again", "look for volumes to make and to remove")
}

// Turn brings hosts to what volumes want, and returns when all of them were told.
func (s *Service) Turn(ctx context.Context) error { return once(ctx, s.begin) }

// begin tells each host, by a goroutine of its own, what its volumes want: a host that
// hangs keeps nobody but itself waiting. One that is being told already is left out.
func (s *Service) begin(ctx context.Context, all *sync.WaitGroup, done func(error)) error {
	var open []*Volume
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		open, err = query(ctx, tx, `ended_at = 0 AND (state = 'deleting' OR state = 'creating' AND snapshot_id = '') ORDER BY id`)
		return err
	})
	if err != nil {
		return err
	}
	due := map[string][]*Volume{}
	s.mu.Lock()
	for _, v := range open {
		if !s.busy[v.HostID] {
			due[v.HostID] = append(due[v.HostID], v)
		}
	}
	for host := range due {
		s.busy[host] = true
	}
	s.mu.Unlock()
	for host, list := range due {
		all.Go(func() {
			defer func() {
				s.mu.Lock()
				delete(s.busy, host)
				s.mu.Unlock()
			}()
			var failed []error
			for _, v := range list {
				if err := s.step(ctx, v); err != nil {
					failed = append(failed, fmt.Errorf("volume %s: %w", v.ID, err))
				}
			}
			done(errors.Join(failed...))
		})
	}
	return nil
}

// step tells a host once about one volume. An answer that comes after the volume has
// moved on changes nothing: the state machine has no such transition then, and the
// next turn tells the host what is wanted now.
func (s *Service) step(ctx context.Context, v *Volume) error {
	within, cancel := context.WithTimeout(ctx, commandPatience)
	defer cancel()
	present := v.State == Creating
	res, err := s.Command(within, v.HostID, protocol.Command{Volume: &protocol.VolumeCommand{VolumeID: v.ID, Present: present, SizeMiB: v.SizeGiB << 10}})
	now := s.Clock()
	switch {
	case err == nil && res.Accepted && present:
		_, err = s.move(ctx, v.ID, Make, now, "", "")
	case err == nil && res.Accepted:
		_, err = s.move(ctx, v.ID, Gone, now, v.Code, v.Message)
	case present && err == nil && (res.Code == "disk_full" || res.Code == "bad_spec" || res.Code == "engine"):
		_, err = s.move(ctx, v.ID, Refuse, now, res.Code, "its host cannot make it: "+res.Message)
	case present && now.Sub(v.CreatedAt) > s.Patience:
		_, err = s.move(ctx, v.ID, Refuse, now, "host_unreachable", fmt.Sprintf("its host did not make it within %s", s.Patience))
	case err == nil:
		err = fmt.Errorf("%s: %s", res.Code, res.Message)
	}
	return err
}

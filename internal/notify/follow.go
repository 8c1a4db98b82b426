package notify

import (
	"context"
	"fmt"
	"slices"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/store"
)

// overlap is how far back the look for news goes each time: identifiers and times
// are given before the transaction commits, so that of two pieces of news the
// later may be seen first, and clocks of replicas differ.
const overlap = time.Minute

// replayed bounds what a follower that comes back is given of what it has missed.
const replayed = 1000

// follower is somebody who reads along.
type follower struct {
	accountID string
	kinds     []string
	news      chan Notification
	behind    bool // it was cut off
}

// Follow calls each with what p may read, as it comes, until ctx ends or each
// fails. If after is the identifier of a notification, what came after it is given
// first. A reader that falls too far behind gets a TooMany fault. ready is called
// before anything is waited for. Run must be running.
func (s *Service) Follow(ctx context.Context, p account.Principal, after string, ready func() error, each func(Notification) error) error {
	// What came before is not news to who comes now; see seen.
	if err := s.look(ctx); err != nil {
		return err
	}
	f := &follower{accountID: p.AccountID, kinds: readable(p), news: make(chan Notification, 256)}
	s.mu.Lock()
	s.followers[f] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.followers, f)
		s.mu.Unlock()
	}()
	if err := ready(); err != nil {
		return err
	}
	given := map[string]bool{}
	if after != "" {
		missed, err := s.since(ctx, p, after)
		if err != nil {
			return err
		}
		for _, n := range missed {
			given[n.ID] = true
			if err := each(n); err != nil {
				return err
			}
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case n, ok := <-f.news:
			if !ok {
				return fault.New(fault.TooMany, "too_slow", "this reader fell too far behind; read the notifications again and follow anew")
			}
			if given[n.ID] {
				continue
			}
			if err := each(n); err != nil {
				return err
			}
		}
	}
}

func (s *Service) since(ctx context.Context, p account.Principal, after string) (out []Notification, err error) {
	where, args, err := of(p, Filter{})
	if err != nil {
		return nil, err
	}
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		out, err = scanNotifications(ctx, tx, selectNotification+where+` AND id > ? ORDER BY id LIMIT ?`, append(args, after, replayed)...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read notifications: %w", err)
	}
	return out, nil
}

// spread gives followers what has come since the last look. One look serves all of
// them, and there is none while there are none.
func (s *Service) spread(ctx context.Context) error {
	s.mu.Lock()
	idle := len(s.followers) == 0
	s.mu.Unlock()
	if idle {
		return nil
	}
	return s.look(ctx)
}

// look reads what came lately, and gives followers what was not seen before.
func (s *Service) look(ctx context.Context) error {
	now := s.cfg.Clock()
	var fresh []Notification
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		fresh, err = scanNotifications(ctx, tx, selectNotification+` WHERE made_at > ? ORDER BY id`, store.Micros(now.Add(-overlap)))
		return err
	})
	if err != nil {
		return fmt.Errorf("look for news: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, made := range s.seen {
		if now.Sub(made) > 2*overlap {
			delete(s.seen, id)
		}
	}
	for _, n := range fresh {
		if _, ok := s.seen[n.ID]; ok {
			continue
		}
		s.seen[n.ID] = n.madeAt
		for f := range s.followers {
			if f.behind || f.accountID != n.AccountID || !slices.Contains(f.kinds, n.Kind) {
				continue
			}
			select {
			case f.news <- n:
			default:
				f.behind = true
				close(f.news)
			}
		}
	}
	return nil
}

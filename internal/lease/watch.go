package lease

import "context"

// watcher receives the changes of one account, or of all.
type watcher struct {
	account string // empty: all
	changes chan Change
}

// Watch returns the changes of an account's leases from now on; an empty
// account means all accounts. A reader that falls more than 256 changes behind
// is cut off (its channel is closed), and must read the leases again. The
// channel is closed when ctx ends.
func (s *Service) Watch(ctx context.Context, accountID string) <-chan Change {
	w := &watcher{account: accountID, changes: make(chan Change, 256)}
	s.mu.Lock()
	s.watchers[w] = struct{}{}
	s.mu.Unlock()
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(w)
	})
	return w.changes
}

// drop closes a watcher once. The caller holds mu.
func (s *Service) drop(w *watcher) {
	if _, ok := s.watchers[w]; ok {
		delete(s.watchers, w)
		close(w.changes)
	}
}

func (s *Service) announce(c Change) {
	if s.OnChange != nil {
		s.OnChange(c)
	}
	s.spread(c)
}

// spread tells this process's watchers.
func (s *Service) spread(c Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		if w.account != "" && w.account != c.AccountID {
			continue
		}
		select {
		case w.changes <- c:
		default:
			s.drop(w)
		}
	}
}

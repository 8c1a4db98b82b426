package server

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/gateway"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

// Bounds on what one user does inside of instances at a time through the API.
const (
	userTerminals = 16
	userTransfers = 8
)

// registerInside adds what reaches into a running instance: a terminal and its
// files. It is the SSH gateway's way in, with the API's credentials in place of
// an SSH key.
func (a *API) registerInside() {
	a.registerTerminal()
	a.registerFiles()
}

// visitors counts who is inside, by user and what for.
type visitors struct {
	mu   sync.Mutex
	open map[visit]int
}

type visit struct{ user, what string }

func newVisitors() *visitors { return &visitors{open: map[visit]int{}} }

// take admits one more, until leave is called.
func (v *visitors) take(user, what string, most int) (leave func(), err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := visit{user, what}
	if v.open[key] >= most {
		return nil, fault.New(fault.TooMany, "too_many_visits", "you have %d %s open, the most at a time; close one", most, what)
	}
	v.open[key]++
	return sync.OnceFunc(func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.open[key]--; v.open[key] == 0 {
			delete(v.open, key)
		}
	}), nil
}

// enterable is the lease that p, whose permission was checked, may enter: one of
// p's own account, as with SSH keys an operator's is good for no other either.
func (a *API) enterable(ctx context.Context, p account.Principal, nameOrID string) (*lease.Lease, error) {
	l, err := a.Leases.Resolve(ctx, p, nameOrID)
	if err != nil {
		return nil, err
	}
	if l.AccountID != p.AccountID {
		return nil, fault.New(fault.Forbidden, "own_account_only", "only lease %s's own account may enter it", l.ID)
	}
	return l, nil
}

// enter connects to the lease's instance and writes down who did, for the audit
// log and the server's. The caller closes the client.
func (a *API) enter(ctx context.Context, p account.Principal, l *lease.Lease, by string) (*ssh.Client, error) {
	t, err := target(l)
	if err != nil {
		return nil, err
	}
	client, err := a.reach(ctx, t)
	if err != nil {
		return nil, err
	}
	if by != "" {
		if err := a.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			return a.Accounts.Audit(ctx, tx, p, "lease.enter", l.ID, map[string]string{"by": by})
		}); err != nil {
			client.Close()
			return nil, err
		}
	}
	return client, nil
}

func (a *API) reach(ctx context.Context, t gateway.Target) (*ssh.Client, error) {
	client, err := a.Entrance.Enter(ctx, t)
	if err == nil {
		return client, nil
	}
	var refused *protocol.StreamError
	if errors.As(err, &refused) {
		return nil, fault.New(fault.Unavailable, "instance_not_ready", "the instance of lease %s cannot be entered now: %s", t.LeaseID, refused.Message)
	}
	return nil, fault.New(fault.Unavailable, "host_offline", "the host of lease %s cannot be reached: %w", t.LeaseID, err)
}

// stall ends something that makes no progress.
type stall struct{ timer *time.Timer }

func newStall(end func()) *stall { return &stall{time.AfterFunc(time.Hour, end)} }

// wait gives what comes next so long.
func (s *stall) wait(patience time.Duration) { s.timer.Reset(patience) }

func (s *stall) stop() { s.timer.Stop() }

// upgrades reports whether a request asks to become a WebSocket.
func upgrades(r *http.Request) bool { return r.Header.Get("Sec-WebSocket-Key") != "" }

package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/store"
)

// The bounds of sending events of use.
const (
	sinkBatch     = 500              // events in a request
	sinkTimeout   = 30 * time.Second // of a request
	sinkPoll      = 15 * time.Second // between looks for new events
	sinkClaim     = 30 * time.Second // beyond the timeout; then another process may send
	firstSinkWait = 5 * time.Second  // after the first failure; it doubles
	mostSinkWait  = 10 * time.Minute
	sinkAnswer    = 16 << 10 // bytes of an answer that are read, so that the connection is used again
)

// usageSink sends events of use to an address that the operator has set up: the
// events of GET /v1/operator/usage/events, in their order and in batches. Where it
// is with that is in the store, so it goes on there after a restart, and several
// processes may do it. A batch counts as taken only when it was answered with 2xx,
// so one whose answer is lost is sent again, with the same ids: at least once.
//
// Unlike webhooks, which renters choose, the address is the operator's own word and
// may be inside of a network, and without TLS.
type usageSink struct {
	db      *store.DB
	usage   func(ctx context.Context, q billing.UsedQuery) ([]billing.Used, error)
	clock   func() time.Time
	log     *slog.Logger
	client  *http.Client
	address string
	token   string // sent as a bearer token; empty: none
	source  string // of the events
	version string
	timeout time.Duration
}

// newUsageSink returns a sink that follows no redirects: what it sends, and the
// token, are meant for that address.
func newUsageSink(s usageSink) *usageSink {
	if s.timeout == 0 {
		s.timeout = sinkTimeout
	}
	if s.clock == nil {
		s.clock = time.Now
	}
	if s.client == nil {
		s.client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return &s
}

func (s *usageSink) key() string {
	sum := sha256.Sum256([]byte(s.address))
	return hex.EncodeToString(sum[:])
}

// Run sends what there is, until ctx ends.
func (s *usageSink) Run(ctx context.Context) error {
	defer s.client.CloseIdleConnections()
	for {
		more, err := s.turn(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "events of use were not sent; they are sent again", "error", err)
		}
		wait := sinkPoll
		if more && err == nil {
			wait = 0
		} else if err != nil {
			wait = firstSinkWait // the store says when the next attempt is due
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// turn sends one batch, if it is this process's turn, and reports whether there may
// be more to send.
func (s *usageSink) turn(ctx context.Context) (more bool, err error) {
	claim := rand.Text()
	after, ok, err := s.claim(ctx, claim)
	if err != nil || !ok {
		return false, err
	}
	list, err := s.usage(ctx, billing.UsedQuery{After: after, Limit: sinkBatch})
	if err != nil || len(list) == 0 {
		return false, errors.Join(err, s.release(ctx, claim))
	}
	if err := s.send(ctx, list); err != nil {
		if ctx.Err() != nil {
			return false, s.release(ctx, claim) // this process ends; that says nothing of the receiver
		}
		return false, errors.Join(err, s.failed(ctx, claim))
	}
	// It was taken, and is noted even if this process is about to end.
	return len(list) == sinkBatch, s.taken(context.WithoutCancel(ctx), claim, list[len(list)-1])
}

// claim makes it this process's turn for as long as a batch takes at most.
func (s *usageSink) claim(ctx context.Context, claim string) (after int64, ok bool, err error) {
	err = s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		after, ok = 0, false
		now := s.clock()
		if _, err := tx.Exec(ctx, `INSERT INTO server_usage_sink (address, number, last_id, failures, next_at, claim, claimed_at) VALUES (?, 0, '', 0, 0, '', 0) ON CONFLICT DO NOTHING`, s.key()); err != nil {
			return err
		}
		// What lies further ahead than is ever written was written by a clock that was
		// wrong: it must not hold the events up for as long as that one was ahead.
		mine := store.Micros(now.Add(s.timeout + sinkClaim))
		n, err := tx.Exec(ctx, `UPDATE server_usage_sink SET claim = ?, claimed_at = ? WHERE address = ? AND (next_at <= ? OR next_at > ?) AND (claimed_at <= ? OR claimed_at > ?)`,
			claim, mine, s.key(), store.Micros(now), store.Micros(now.Add(2*mostSinkWait)), store.Micros(now), mine)
		if err != nil || n == 0 {
			return err
		}
		ok = true
		return tx.QueryRow(ctx, `SELECT number FROM server_usage_sink WHERE address = ?`, s.key()).Scan(&after)
	})
	if err != nil {
		return 0, false, fmt.Errorf("usage sink: %w", err)
	}
	return after, ok, nil
}

// note writes how a turn ended, if it is this process's still.
func (s *usageSink) note(ctx context.Context, claim, set string, args ...any) error {
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := s.db.Update(end, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE server_usage_sink SET claim = '', claimed_at = 0`+set+` WHERE address = ? AND claim = ?`, append(args, s.key(), claim)...)
		return err
	})
	if err != nil {
		return fmt.Errorf("usage sink: %w", err)
	}
	return nil
}

func (s *usageSink) release(ctx context.Context, claim string) error { return s.note(ctx, claim, "") }

func (s *usageSink) taken(ctx context.Context, claim string, last billing.Used) error {
	return s.note(ctx, claim, `, number = ?, last_id = ?, failures = 0, next_at = 0`, last.Number, last.ID)
}

// failed puts the next attempt off, for longer each time, a fifth more or less by
// chance.
func (s *usageSink) failed(ctx context.Context, claim string) error {
	var failures int64
	err := s.db.View(context.WithoutCancel(ctx), func(ctx context.Context, tx *store.Tx) error {
		return tx.QueryRow(ctx, `SELECT failures FROM server_usage_sink WHERE address = ?`, s.key()).Scan(&failures)
	})
	if err != nil {
		return fmt.Errorf("usage sink: %w", err)
	}
	wait := mostSinkWait
	if failures < 7 {
		wait = min(wait, firstSinkWait<<failures)
	}
	wait += mathrand.N(2*wait/5+1) - wait/5
	return s.note(ctx, claim, `, failures = failures + 1, next_at = ?`, store.Micros(s.clock().Add(wait)))
}

// send posts a batch. The error names no address, as there may be secrets in it.
func (s *usageSink) send(ctx context.Context, list []billing.Used) error {
	body, err := usageBatch(s.source, list)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.address, bytes.NewReader(body))
	if err != nil {
		return errors.New("usage sink: the address is no URL")
	}
	req.Header.Set("Content-Type", api.UsageBatchType+"; charset=utf-8")
	req.Header.Set("User-Agent", "suanli/"+s.version)
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	res, err := s.client.Do(req)
	if err != nil {
		var timeout interface{ Timeout() bool }
		if errors.As(err, &timeout) && timeout.Timeout() {
			return fmt.Errorf("usage sink: no answer within %s", s.timeout)
		}
		cause := err
		for next := errors.Unwrap(cause); next != nil; next = errors.Unwrap(cause) {
			cause = next
		}
		return fmt.Errorf("usage sink: no answer: %v", cause) // the innermost cause: what is around it has the URL
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, sinkAnswer))
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("usage sink: it answered %d to %d events; want 2xx", res.StatusCode, len(list))
	}
	return nil
}

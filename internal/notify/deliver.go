package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"suanli.dev/internal/ident"
	"suanli.dev/internal/reach"
	"suanli.dev/internal/store"
)

// The bounds of talking to receivers, whom renters choose.
const (
	dialWait       = 5 * time.Second
	maxHeaderBytes = 64 << 10
	maxAnswer      = 16 << 10 // read, so that the connection may be used again; then it is closed
	maxExcerpt     = 1 << 10  // kept
	perWebhook     = 4        // attempts under way of one webhook, in a process
	atOnce         = 32       // and of all

	// claimedFor is how much longer than an attempt takes at most a delivery belongs
	// to who sends it. When that process died, another sends it again after that.
	claimedFor = 30 * time.Second
)

// The pauses between attempts: 5 s, and three times as long after each, up to 4 h.
const (
	firstPause = 5 * time.Second
	mostPause  = 4 * time.Hour
)

// pause is how long to wait after an attempt failed, by its number from 1 on, with
// a fifth more or less by chance: receivers that were away together are not called
// together again.
func pause(number int64) time.Duration {
	d := firstPause
	for range number - 1 {
		if d *= 3; d >= mostPause {
			d = mostPause
			break
		}
	}
	return d - d/5 + rand.N(2*d/5+1)
}

// client returns the way out to receivers. It uses no proxy: one would look names
// up by itself, inside of the network. It follows no redirects: those are the
// receiver's choice, and what is sent is meant for the address that was agreed.
func (s *Service) client() *http.Client {
	transport := s.cfg.Transport
	if transport == nil {
		open := net.Dialer{Timeout: dialWait}
		guarded := net.Dialer{Timeout: dialWait, Control: reach.Control(reach.Own(), nil)}
		transport = &http.Transport{
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				host, _, _ := net.SplitHostPort(address)
				if s.trusted(address) || s.trusted(host) {
					return open.DialContext(ctx, network, address)
				}
				return guarded.DialContext(ctx, network, address)
			},
			TLSHandshakeTimeout: dialWait, MaxResponseHeaderBytes: maxHeaderBytes, DisableCompression: true, ForceAttemptHTTP2: true,
			MaxConnsPerHost: perWebhook * 2, MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second,
		}
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Run sends what is due, shows news to who follows, and forgets what is old, until
// ctx ends. Any number of processes may run it on one database.
func (s *Service) Run(ctx context.Context) error {
	client := s.client()
	defer client.CloseIdleConnections()
	var sends sync.WaitGroup
	defer sends.Wait()
	tick := time.NewTicker(s.cfg.Poll)
	defer tick.Stop()
	var swept time.Time
	for {
		err := errors.Join(s.spread(ctx), s.dispatch(ctx, client, &sends))
		if now := s.cfg.Clock(); err == nil && now.Sub(swept) >= time.Hour {
			if err = s.sweep(ctx, now); err == nil {
				swept = now
			}
		}
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.ErrorContext(ctx, "deliver news", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-s.wake:
		}
	}
}

// nudge makes Run look at once.
func (s *Service) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// dispatch begins attempts of what is due. Each webhook has a few at a time, so that
// one whose receiver is slow, or that has much waiting, does not delay the others.
func (s *Service) dispatch(ctx context.Context, client *http.Client, sends *sync.WaitGroup) error {
	now := s.cfg.Clock()
	var ids []string
	webhooks := map[string]string{} // delivery → webhook
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		waiting, err := texts(ctx, tx, `SELECT endpoint_id FROM notify_deliveries WHERE state = 'pending' AND next_at <= ? GROUP BY endpoint_id ORDER BY MIN(next_at) LIMIT 1000`, store.Micros(now))
		if err != nil {
			return err
		}
		for _, w := range waiting {
			s.mu.Lock()
			free := perWebhook - s.sending[w]
			s.mu.Unlock()
			if free <= 0 {
				continue
			}
			list, err := texts(ctx, tx, `SELECT id FROM notify_deliveries WHERE endpoint_id = ? AND state = 'pending' AND next_at <= ? ORDER BY id LIMIT ?`, w, store.Micros(now), free)
			if err != nil {
				return err
			}
			for _, id := range list {
				webhooks[id] = w
				ids = append(ids, id)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for deliveries: %w", err)
	}
	for _, id := range ids {
		w := webhooks[id]
		if !s.begin(w) {
			continue
		}
		sends.Go(func() {
			defer s.nudge() // after it counts as over: there may be more to send
			defer s.over(w)
			if err := s.deliver(ctx, client, id); err != nil && ctx.Err() == nil {
				s.cfg.Log.ErrorContext(ctx, "deliver news", "delivery", id, "webhook", w, "error", err)
			}
		})
	}
	return nil
}

func (s *Service) begin(webhookID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := 0
	for _, n := range s.sending {
		total += n
	}
	if total >= atOnce || s.sending[webhookID] >= perWebhook {
		return false
	}
	s.sending[webhookID]++
	return true
}

func (s *Service) over(webhookID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sending[webhookID]--; s.sending[webhookID] == 0 {
		delete(s.sending, webhookID)
	}
}

// texts returns the one column of a query.
func texts(ctx context.Context, tx *store.Tx, query string, args ...any) ([]string, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, rows.Err()
}

// parcel is a delivery that this process has claimed.
type parcel struct {
	id, notificationID, body, claim string
	number                          int64
	firstAt                         time.Time
	webhook                         Webhook
}

// claim makes a delivery this process's for one attempt. false: it is another's,
// or there is nothing to send any more.
func (s *Service) claim(ctx context.Context, id string) (p parcel, ok bool, err error) {
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		ok = false
		now := s.cfg.Clock()
		p = parcel{id: id, claim: ident.New(ident.Event)}
		n, err := tx.Exec(ctx, `UPDATE notify_deliveries SET claim = ?, attempts = attempts + 1, next_at = ? WHERE id = ? AND state = 'pending' AND next_at <= ?`,
			p.claim, store.Micros(now.Add(s.cfg.Timeout+claimedFor)), id, store.Micros(now))
		if err != nil || n == 0 {
			return err
		}
		var endpointID string
		var first int64
		if err := tx.QueryRow(ctx, `SELECT endpoint_id, notification_id, body, attempts, first_at FROM notify_deliveries WHERE id = ?`, id).
			Scan(&endpointID, &p.notificationID, &p.body, &p.number, &first); err != nil {
			return err
		}
		p.firstAt = store.Time(first)
		list, err := scanWebhooks(ctx, tx, selectWebhook+` WHERE id = ? AND enabled = 1`, endpointID)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			// It was switched off while this was being announced.
			_, err := tx.Exec(ctx, `UPDATE notify_deliveries SET state = 'failed', claim = '', finished_at = ? WHERE id = ?`, store.Micros(now), id)
			return err
		}
		p.webhook, ok = list[0], true
		return nil
	})
	return p, ok, err
}

// deliver makes one attempt of a delivery, if nobody else does, and notes how it
// went.
func (s *Service) deliver(ctx context.Context, client *http.Client, id string) error {
	p, ok, err := s.claim(ctx, id)
	if err != nil || !ok {
		return err
	}
	a := s.attempt(ctx, client, p)
	if ctx.Err() != nil && a.Status == 0 {
		// This process ends; that says nothing of the receiver. The next sends it.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return s.cfg.DB.Update(end, func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE notify_deliveries SET claim = '', attempts = attempts - 1, next_at = ? WHERE id = ? AND claim = ?`, store.Micros(s.cfg.Clock()), p.id, p.claim)
			return err
		})
	}
	// What was sent is noted even if this process is about to end.
	return s.record(context.WithoutCancel(ctx), p, a)
}

// attempt calls the receiver once.
func (s *Service) attempt(ctx context.Context, client *http.Client, p parcel) Attempt {
	begin := s.cfg.Clock()
	a := Attempt{Number: p.number, At: begin}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	status, excerpt, err := s.call(ctx, client, p, begin)
	a.Latency = max(0, s.cfg.Clock().Sub(begin))
	a.Status, a.Excerpt = status, excerpt
	switch {
	case err != nil:
		a.Error = explain(err)
		if a.Error == "secret_unreadable" {
			s.cfg.Log.ErrorContext(ctx, "a webhook's secret cannot be read", "webhook", p.webhook.ID, "error", err)
		}
	case status >= 300 && status < 400:
		a.Error = "redirected"
	case status < 200 || status >= 300:
		a.Error = "refused"
	}
	return a
}

var errSecret = errors.New("the secret cannot be read")

func (s *Service) call(ctx context.Context, client *http.Client, p parcel, at time.Time) (status int, excerpt string, err error) {
	signature, err := s.sign(p, at)
	if err != nil {
		return 0, "", fmt.Errorf("%w: %w", errSecret, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.webhook.URL, bytes.NewReader([]byte(p.body)))
	if err != nil {
		return 0, "", err
	}
	if req.URL.Scheme != "https" && !s.inner(req.URL) {
		return 0, "", reach.ErrInside // the operator trusts it no more
	}
	req.Header.Set("Content-Type", "application/cloudevents+json; charset=utf-8")
	req.Header.Set("User-Agent", "suanli/"+s.cfg.Version)
	// Set in lower case, as the scheme writes them; HTTP does not care.
	req.Header.Set(standardwebhooks.HeaderWebhookID, p.notificationID)
	req.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	req.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	// A receiver that says that it took it has, even if its words come too late.
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp.StatusCode, shown(text), nil
}

// sign returns the signatures of what is sent, of the webhook's secret and, for a
// day after that was replaced, of the one before.
func (s *Service) sign(p parcel, at time.Time) (string, error) {
	sealed := []string{p.webhook.secret}
	if p.webhook.previous != "" && at.Before(p.webhook.PreviousUntil) {
		sealed = append(sealed, p.webhook.previous)
	}
	var out []string
	for _, box := range sealed {
		secret, err := s.openSecret(box)
		if err != nil {
			return "", err
		}
		signer, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return "", err
		}
		signature, err := signer.Sign(p.notificationID, at, []byte(p.body))
		if err != nil {
			return "", err
		}
		out = append(out, signature)
	}
	return strings.Join(out, " "), nil
}

// explain says in a stable word why no answer came. The error's own text may have
// addresses in it that are nobody's business.
func explain(err error) string {
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, errSecret):
		return "secret_unreadable"
	case errors.Is(err, reach.ErrInside):
		return "address_inside"
	case errors.As(err, &dns):
		return "name_not_found"
	case errors.As(err, &certificate), errors.As(err, &authority), errors.As(err, &record):
		return "tls_failed"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	}
	return "connection_failed"
}

// shown is the beginning of an answer as it may be stored and shown.
func shown(b []byte) string {
	cut := b[:min(len(b), maxExcerpt)]
	return strings.Map(func(r rune) rune {
		if _, hidden := ident.Hidden(string(r)); hidden && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(cut), ""))
}

// record notes an attempt and what follows from it.
func (s *Service) record(ctx context.Context, p parcel, a Attempt) error {
	return s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		now := s.cfg.Clock()
		if _, err := tx.Exec(ctx, `INSERT INTO notify_attempts (delivery_id, number, at, status, latency_us, error, excerpt) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			p.id, a.Number, store.Micros(a.At), a.Status, a.Latency.Microseconds(), a.Error, a.Excerpt); err != nil {
			return err
		}
		state, next, finished := "pending", now.Add(pause(a.Number)), time.Time{}
		end := p.firstAt.Add(s.cfg.GiveUp)
		if next.After(end) && now.Before(end) {
			next = end // the last one
		}
		gone := a.Status == http.StatusGone // which the scheme has receivers say to be left alone
		over := !now.Before(end) || gone
		switch {
		case a.Error == "":
			state, next, finished = "delivered", now, now
		case over:
			state, next, finished = "failed", now, now
		}
		n, err := tx.Exec(ctx, `UPDATE notify_deliveries SET state = ?, claim = '', next_at = ?, finished_at = ? WHERE id = ? AND claim = ?`,
			state, store.Micros(next), store.Micros(finished), p.id, p.claim)
		if err != nil || n == 0 {
			return err // it took too long, and another process has it, or the webhook is gone
		}
		if a.Error == "" {
			_, err := tx.Exec(ctx, `UPDATE notify_endpoints SET failing_since = 0 WHERE id = ? AND failing_since <> 0`, p.webhook.ID)
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE notify_endpoints SET failing_since = ? WHERE id = ? AND failing_since = 0`, store.Micros(a.At), p.webhook.ID); err != nil {
			return err
		}
		if !over {
			return nil
		}
		return s.switchOff(ctx, tx, p, gone, now)
	})
}

// switchOff disables a webhook that answered nothing for as long as deliveries are
// tried, or that wants nothing any more, and says so.
func (s *Service) switchOff(ctx context.Context, tx *store.Tx, p parcel, gone bool, now time.Time) error {
	// It took nothing since this was tried first, give or take what that took.
	reason, since := "gave_up", p.firstAt.Add(time.Hour)
	if gone {
		reason, since = "gone", now
	}
	n, err := tx.Exec(ctx, `UPDATE notify_endpoints SET enabled = 0, disabled_why = ?, changed_at = ? WHERE id = ? AND enabled = 1 AND failing_since <= ?`,
		reason, store.Micros(now), p.webhook.ID, store.Micros(since))
	if err != nil || n == 0 {
		return err // it took others in between, or is off already
	}
	var failing int64
	if err := tx.QueryRow(ctx, `SELECT failing_since FROM notify_endpoints WHERE id = ?`, p.webhook.ID).Scan(&failing); err != nil {
		return err
	}
	if err := s.abandon(ctx, tx, p.webhook.ID); err != nil {
		return err
	}
	return s.Announce(ctx, tx, p.webhook.AccountID, KindWebhookDisabled, p.webhook.ID, now,
		WebhookDisabled{URL: withoutQuery(p.webhook.URL), Reason: reason, FailingSince: store.Time(failing)})
}

// abandon gives up what waits for a webhook.
func (s *Service) abandon(ctx context.Context, tx *store.Tx, webhookID string) error {
	_, err := tx.Exec(ctx, `UPDATE notify_deliveries SET state = 'failed', claim = '', finished_at = ? WHERE endpoint_id = ? AND state = 'pending'`, store.Micros(s.cfg.Clock()), webhookID)
	return err
}

func withoutQuery(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	u.RawQuery, u.ForceQuery = "", false
	return u.String()
}

// How long things are kept.
const (
	keptNews       = 90 * 24 * time.Hour
	keptDeliveries = 30 * 24 * time.Hour
)

// sweep forgets what is old.
func (s *Service) sweep(ctx context.Context, now time.Time) error {
	old := store.Micros(now.Add(-keptDeliveries))
	err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM notify_attempts WHERE delivery_id IN (SELECT id FROM notify_deliveries WHERE state <> 'pending' AND finished_at < ?)`, old); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM notify_deliveries WHERE state <> 'pending' AND finished_at < ?`, old); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DELETE FROM notify_notifications WHERE made_at < ?`, store.Micros(now.Add(-keptNews)))
		return err
	})
	if err != nil {
		return fmt.Errorf("forget old news: %w", err)
	}
	return nil
}

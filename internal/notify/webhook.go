package notify

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/reach"
	"suanli.dev/internal/store"
)

// Webhook is an endpoint of an account that is called with its news.
type Webhook struct {
	ID, AccountID string
	URL           string
	Description   string
	Kinds         []string // that it wants; empty: all
	Enabled       bool
	DisabledWhy   string // commanded, gave_up or gone; empty: it is enabled
	FailingSince  time.Time
	// PreviousUntil is until when deliveries are signed with the secret before, too.
	PreviousUntil time.Time
	CreatedAt     time.Time
	ChangedAt     time.Time

	secret, previous string // sealed
}

// WebhookChange is what of a webhook is to become different; nil stays.
type WebhookChange struct {
	URL         *string
	Description *string
	Kinds       *[]string
	Enabled     *bool
}

// The bounds of what a webhook is made of.
const (
	maxURL         = 2000
	maxDescription = 200
	// previousFor is how long a secret signs on after it was replaced, so that
	// receivers can be changed without losing anything.
	previousFor = 24 * time.Hour
	// mostByHand bounds deliveries of one webhook that wait since people asked for
	// them: they are requests to whomever the webhook names.
	mostByHand = 100
)

const selectWebhook = `SELECT id, account_id, url, description, kinds, secret, previous, previous_until, enabled, disabled_why, failing_since, created_at, changed_at FROM notify_endpoints`

func scanWebhooks(ctx context.Context, tx *store.Tx, query string, args ...any) ([]Webhook, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Webhook
	for rows.Next() {
		var w Webhook
		var kinds string
		var until, enabled, failing, created, changed int64
		if err := rows.Scan(&w.ID, &w.AccountID, &w.URL, &w.Description, &kinds, &w.secret, &w.previous, &until, &enabled, &w.DisabledWhy, &failing, &created, &changed); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(kinds), &w.Kinds); err != nil {
			return nil, fmt.Errorf("kinds of webhook %s: %w", w.ID, err)
		}
		w.Enabled, w.PreviousUntil, w.FailingSince, w.CreatedAt, w.ChangedAt = enabled == 1, store.Time(until), store.Time(failing), store.Time(created), store.Time(changed)
		out = append(out, w)
	}
	return out, rows.Err()
}

// webhook returns a webhook of p's account, locked if that is asked for.
func webhook(ctx context.Context, tx *store.Tx, p account.Principal, id, lock string) (Webhook, error) {
	list, err := scanWebhooks(ctx, tx, selectWebhook+` WHERE id = ? AND account_id = ?`+lock, id, p.AccountID)
	if err != nil {
		return Webhook{}, err
	}
	if len(list) == 0 {
		return Webhook{}, fault.New(fault.NotFound, "webhook_not_found", "there is no webhook %s in this account", id)
	}
	return list[0], nil
}

// CreateWebhook adds a webhook and returns its secret, which is never shown again.
// Without kinds it gets all that p may read.
func (s *Service) CreateWebhook(ctx context.Context, p account.Principal, address, description string, kinds []string) (Webhook, string, error) {
	now := s.cfg.Clock().UTC().Truncate(time.Microsecond)
	w := Webhook{ID: ident.New(ident.Webhook), AccountID: p.AccountID, URL: address, Description: description, Kinds: kinds, Enabled: true, CreatedAt: now, ChangedAt: now}
	if err := s.check(p, &w); err != nil {
		return Webhook{}, "", err
	}
	secret, sealed, err := s.newSecret()
	if err != nil {
		return Webhook{}, "", err
	}
	w.secret = sealed
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO notify_accounts (account_id) VALUES (?) ON CONFLICT DO NOTHING`, p.AccountID); err != nil {
			return err
		}
		var locked string
		if err := tx.QueryRow(ctx, `SELECT account_id FROM notify_accounts WHERE account_id = ?`+tx.ForUpdate(), p.AccountID).Scan(&locked); err != nil {
			return err
		}
		var have int
		if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM notify_endpoints WHERE account_id = ?`, p.AccountID).Scan(&have); err != nil {
			return err
		}
		if have >= s.cfg.Most {
			return fault.New(fault.TooMany, "too_many_webhooks", "this account has %d webhooks, the most that it may have; delete one, or let one take more kinds", have)
		}
		if _, err := tx.Exec(ctx, `INSERT INTO notify_endpoints (id, account_id, url, description, kinds, secret, previous, previous_until, enabled, disabled_why, failing_since, created_at, changed_at)
			VALUES (?, ?, ?, ?, ?, ?, '', 0, 1, '', 0, ?, ?)`, w.ID, w.AccountID, w.URL, w.Description, listText(w.Kinds), w.secret, store.Micros(now), store.Micros(now)); err != nil {
			return err
		}
		return s.cfg.Audit(ctx, tx, p, "webhook.create", w.ID, map[string]any{"host": hostOf(w.URL), "kinds": w.Kinds})
	})
	return w, secret, err
}

// Webhooks lists the webhooks of p's account, the oldest first.
func (s *Service) Webhooks(ctx context.Context, p account.Principal) (out []Webhook, err error) {
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		out, err = scanWebhooks(ctx, tx, selectWebhook+` WHERE account_id = ? ORDER BY id`, p.AccountID)
		return err
	})
	return out, err
}

// Webhook returns one webhook of p's account.
func (s *Service) Webhook(ctx context.Context, p account.Principal, id string) (w Webhook, err error) {
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		w, err = webhook(ctx, tx, p, id, "")
		return err
	})
	return w, err
}

// ChangeWebhook changes a webhook. One that is switched on again starts afresh;
// what it missed is not sent by itself.
func (s *Service) ChangeWebhook(ctx context.Context, p account.Principal, id string, c WebhookChange) (w Webhook, err error) {
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if w, err = webhook(ctx, tx, p, id, tx.ForUpdate()); err != nil {
			return err
		}
		if err := mayHandle(p, w); err != nil {
			return err
		}
		if c.URL != nil {
			w.URL = *c.URL
		}
		if c.Description != nil {
			w.Description = *c.Description
		}
		if c.Kinds != nil {
			w.Kinds = *c.Kinds
		}
		if err := s.check(p, &w); err != nil {
			return err
		}
		if c.Enabled != nil && *c.Enabled != w.Enabled {
			w.Enabled, w.DisabledWhy, w.FailingSince = *c.Enabled, "", time.Time{}
			if !w.Enabled {
				w.DisabledWhy = "commanded"
				if err := s.abandon(ctx, tx, w.ID); err != nil {
					return err
				}
			}
		}
		w.ChangedAt = s.cfg.Clock().UTC().Truncate(time.Microsecond)
		enabled := 0
		if w.Enabled {
			enabled = 1
		}
		if _, err := tx.Exec(ctx, `UPDATE notify_endpoints SET url = ?, description = ?, kinds = ?, enabled = ?, disabled_why = ?, failing_since = ?, changed_at = ? WHERE id = ?`,
			w.URL, w.Description, listText(w.Kinds), enabled, w.DisabledWhy, store.Micros(w.FailingSince), store.Micros(w.ChangedAt), w.ID); err != nil {
			return err
		}
		return s.cfg.Audit(ctx, tx, p, "webhook.change", w.ID, map[string]any{"host": hostOf(w.URL), "kinds": w.Kinds, "enabled": w.Enabled})
	})
	return w, err
}

// RotateSecret gives a webhook a new secret and returns it, once. For a day
// deliveries are signed with the one before as well.
func (s *Service) RotateSecret(ctx context.Context, p account.Principal, id string) (w Webhook, secret string, err error) {
	secret, sealed, err := s.newSecret()
	if err != nil {
		return Webhook{}, "", err
	}
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if w, err = webhook(ctx, tx, p, id, tx.ForUpdate()); err != nil {
			return err
		}
		if err := mayHandle(p, w); err != nil {
			return err
		}
		now := s.cfg.Clock().UTC().Truncate(time.Microsecond)
		w.previous, w.secret, w.PreviousUntil, w.ChangedAt = w.secret, sealed, now.Add(previousFor), now
		if _, err := tx.Exec(ctx, `UPDATE notify_endpoints SET secret = ?, previous = ?, previous_until = ?, changed_at = ? WHERE id = ?`,
			w.secret, w.previous, store.Micros(w.PreviousUntil), store.Micros(now), w.ID); err != nil {
			return err
		}
		return s.cfg.Audit(ctx, tx, p, "webhook.rotate_secret", w.ID, nil)
	})
	return w, secret, err
}

// DeleteWebhook removes a webhook with its deliveries.
func (s *Service) DeleteWebhook(ctx context.Context, p account.Principal, id string) error {
	return s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		w, err := webhook(ctx, tx, p, id, tx.ForUpdate())
		if err != nil {
			return err
		}
		for _, q := range []string{
			`DELETE FROM notify_attempts WHERE delivery_id IN (SELECT id FROM notify_deliveries WHERE endpoint_id = ?)`,
			`DELETE FROM notify_deliveries WHERE endpoint_id = ?`,
			`DELETE FROM notify_endpoints WHERE id = ?`,
		} {
			if _, err := tx.Exec(ctx, q, w.ID); err != nil {
				return err
			}
		}
		return s.cfg.Audit(ctx, tx, p, "webhook.delete", w.ID, map[string]any{"host": hostOf(w.URL)})
	})
}

// check reports what is wrong with a webhook that p wants, and fills in its kinds.
func (s *Service) check(p account.Principal, w *Webhook) error {
	if err := s.checkURL(w.URL); err != nil {
		return err
	}
	if len(w.Description) > maxDescription {
		return fault.New(fault.Invalid, "text_too_long", "the description has %d bytes; want %d at most", len(w.Description), maxDescription).At("body.description")
	}
	if r, ok := ident.Hidden(w.Description); ok {
		return fault.New(fault.Invalid, "text_invalid", "the description holds the invisible character %U; leave it out", r).At("body.description")
	}
	slices.Sort(w.Kinds)
	w.Kinds = slices.Compact(w.Kinds)
	for _, name := range w.Kinds {
		if _, ok := kindOf(name); !ok {
			return fault.New(fault.Invalid, "unknown_kind", "there is no kind of notification %q; the kinds are %s", name, strings.Join(Kinds(), ", ")).At("body.kinds")
		}
	}
	may := readable(p)
	if len(w.Kinds) == 0 && len(may) < len(kinds) {
		w.Kinds = may
		slices.Sort(w.Kinds)
	}
	return mayHandle(p, *w)
}

// mayHandle refuses who may not read what a webhook is sent: who points it
// elsewhere, or has it sent again, reads it.
func mayHandle(p account.Principal, w Webhook) error {
	wanted := w.Kinds
	if len(wanted) == 0 {
		wanted = Kinds()
	}
	may := readable(p)
	for _, name := range wanted {
		if !slices.Contains(may, name) {
			return fault.New(fault.Forbidden, "webhook_kinds", "this webhook is for %s, which you may not read; ask for kinds that you may, or let another user do it", name).At("body.kinds")
		}
	}
	return nil
}

// checkURL refuses addresses that cannot be right. What a name leads to is looked at
// when it is connected to.
func (s *Service) checkURL(address string) error {
	wrong := func(format string, args ...any) error {
		return fault.New(fault.Invalid, "bad_webhook_url", format, args...).At("body.url")
	}
	if len(address) > maxURL {
		return wrong("the URL has %d bytes; want %d at most", len(address), maxURL)
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "" {
		return wrong("%q is not the URL of a receiver; want one like https://example.com/hooks", address)
	}
	if u.User != nil || u.Fragment != "" {
		return wrong("the URL has a user or a fragment, which are not sent; put what the receiver needs into its path or query, and trust the signature")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return wrong("the URL's port is %s; want 1 to 65535", port)
		}
	} else if strings.HasSuffix(u.Host, ":") {
		return wrong("the URL has a colon and no port; want one like https://example.com/hooks")
	}
	if s.inner(u) {
		if u.Scheme != "http" && u.Scheme != "https" {
			return wrong("the URL's scheme is %q; want https", u.Scheme)
		}
		return nil
	}
	if u.Scheme != "https" {
		return wrong("the URL's scheme is %q; want https: what is sent is about money", u.Scheme)
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	inside := wrong("%s is inside of a network; webhooks reach public addresses only, or hosts that the operator names in inner_webhooks", host)
	if a, err := netip.ParseAddr(host); err == nil {
		if reach.Inside(a, reach.Own()) {
			return inside
		}
		return nil
	}
	labels := strings.Split(host, ".")
	last := labels[len(labels)-1]
	switch {
	case slices.Contains([]string{"localhost", "internal", "local", "localdomain", "lan", "home", "corp", "intranet", "private"}, last), strings.HasSuffix(host, ".home.arpa"):
		return inside
	case len(labels) == 1 || last == "invalid" || slices.Contains(labels, "") || numeric(last) || strings.ContainsFunc(host, notInNames):
		// Nothing public has such a name. What ends in a number is an address to some
		// resolvers, in forms that hide which.
		return wrong("%s is no public name; want one like example.com", host)
	}
	return nil
}

// numeric is whether a last label makes a name an address, as 127.1 and 0x7f000001.
func numeric(label string) bool {
	_, err := strconv.ParseUint(label, 0, 64)
	return err == nil || strings.Trim(label, "0123456789") == ""
}

// notInNames is what no name that is looked up has in it; others than ASCII are written
// in it by their own rule.
func notInNames(r rune) bool {
	return r < 0x80 && r != '-' && r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
}

// inner is whether the operator lets webhooks go to a host inside of a network.
func (s *Service) inner(u *url.URL) bool {
	return s.trusted(u.Host) || s.trusted(u.Hostname())
}

// trusted is whether the operator names a host, or a host and port.
func (s *Service) trusted(host string) bool {
	return slices.ContainsFunc(s.cfg.Inside, func(h string) bool { return strings.EqualFold(h, host) })
}

// newSecret returns a secret as Standard Webhooks writes them, and sealed.
func (s *Service) newSecret() (secret, sealed string, err error) {
	b := make([]byte, 32)
	rand.Read(b) // never fails: crypto/rand ends the process instead
	secret = "whsec_" + base64.StdEncoding.EncodeToString(b)
	box, err := s.cfg.Vault.Seal([]byte(secret))
	if err != nil {
		return "", "", fmt.Errorf("seal a webhook's secret: %w", err)
	}
	return secret, base64.StdEncoding.EncodeToString(box), nil
}

func (s *Service) openSecret(sealed string) (string, error) {
	box, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil {
		return "", account.ErrSealed
	}
	plain, err := s.cfg.Vault.Open(box)
	return string(plain), err
}

func listText(list []string) string {
	if list == nil {
		list = []string{}
	}
	b, err := json.Marshal(list)
	if err != nil {
		panic("marshal of plain texts: " + err.Error())
	}
	return string(b)
}

// hostOf is what may be told of a webhook's URL: the rest may be a secret.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// Delivery is one piece of news on its way to one webhook.
type Delivery struct {
	ID, WebhookID  string
	NotificationID string
	Kind           string
	State          string // pending, delivered or failed
	Attempts       int64  // that were begun
	FirstAt        time.Time
	NextAt         time.Time // of a pending one
	FinishedAt     time.Time
	Log            []Attempt // of one that is asked for by itself
}

// Attempt is one try of a delivery.
type Attempt struct {
	Number  int64
	At      time.Time
	Status  int // of the answer; 0: none came
	Latency time.Duration
	Error   string // empty: it was taken
	Excerpt string // the beginning of the answer
}

const selectDelivery = `SELECT id, endpoint_id, notification_id, kind, state, attempts, first_at, next_at, finished_at FROM notify_deliveries`

func scanDeliveries(ctx context.Context, tx *store.Tx, query string, args ...any) ([]Delivery, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Delivery
	for rows.Next() {
		var d Delivery
		var first, next, finished int64
		if err := rows.Scan(&d.ID, &d.WebhookID, &d.NotificationID, &d.Kind, &d.State, &d.Attempts, &first, &next, &finished); err != nil {
			return nil, err
		}
		d.FirstAt, d.FinishedAt = store.Time(first), store.Time(finished)
		if d.State == "pending" {
			d.NextAt = store.Time(next)
		}
		out = append(out, d)
	}
	return out, rows.Err()
}

// Deliveries lists up to limit deliveries of a webhook, newest first, older than
// the one with the identifier before.
func (s *Service) Deliveries(ctx context.Context, p account.Principal, webhookID, state, before string, limit int) (out []Delivery, err error) {
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		if _, err := webhook(ctx, tx, p, webhookID, ""); err != nil {
			return err
		}
		out, err = scanDeliveries(ctx, tx, selectDelivery+` WHERE endpoint_id = ? AND (? = '' OR state = ?) AND (? = '' OR id < ?) ORDER BY id DESC LIMIT ?`,
			webhookID, state, state, before, before, limit)
		return err
	})
	return out, err
}

func deliveryNotFound(id string) error {
	return fault.New(fault.NotFound, "delivery_not_found", "there is no delivery %s of this webhook; they are kept for 30 days", id)
}

// Delivery returns a delivery of a webhook with the log of its attempts, in order.
func (s *Service) Delivery(ctx context.Context, p account.Principal, webhookID, id string) (d Delivery, err error) {
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		if _, err := webhook(ctx, tx, p, webhookID, ""); err != nil {
			return err
		}
		list, err := scanDeliveries(ctx, tx, selectDelivery+` WHERE endpoint_id = ? AND id = ?`, webhookID, id)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return deliveryNotFound(id)
		}
		d = list[0]
		d.Log, err = attempts(ctx, tx, id)
		return err
	})
	return d, err
}

func attempts(ctx context.Context, tx *store.Tx, deliveryID string) ([]Attempt, error) {
	rows, err := tx.Query(ctx, `SELECT number, at, status, latency_us, error, excerpt FROM notify_attempts WHERE delivery_id = ? ORDER BY number`, deliveryID)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Attempt
	for rows.Next() {
		var a Attempt
		var at, latency int64
		if err := rows.Scan(&a.Number, &at, &a.Status, &latency, &a.Error, &a.Excerpt); err != nil {
			return nil, err
		}
		a.At, a.Latency = store.Time(at), time.Duration(latency)*time.Microsecond
		out = append(out, a)
	}
	return out, rows.Err()
}

// Redeliver sends the news of a delivery once more, under the same identifier, so
// that receivers that have it already know.
func (s *Service) Redeliver(ctx context.Context, p account.Principal, webhookID, id string) (Delivery, error) {
	return s.byHand(ctx, p, webhookID, "webhook.redeliver", func(ctx context.Context, tx *store.Tx) (notificationID, kind, body string, err error) {
		err = tx.QueryRow(ctx, `SELECT notification_id, kind, body FROM notify_deliveries WHERE endpoint_id = ? AND id = ?`, webhookID, id).Scan(&notificationID, &kind, &body)
		if errors.Is(err, store.ErrNoRows) {
			err = deliveryNotFound(id)
		}
		return notificationID, kind, body, err
	})
}

// TestWebhook sends a webhook something that says that nothing happened.
func (s *Service) TestWebhook(ctx context.Context, p account.Principal, webhookID string) (Delivery, error) {
	return s.byHand(ctx, p, webhookID, "webhook.test", func(context.Context, *store.Tx) (notificationID, kind, body string, err error) {
		payload, err := json.Marshal(WebhookTest{Message: "this is a test; nothing happened"})
		if err != nil {
			return "", "", "", err
		}
		notificationID = ident.New(ident.Notification)
		body, err = s.event(notificationID, p.AccountID, kindTest, webhookID, s.cfg.Clock().UTC().Truncate(time.Microsecond), string(payload))
		return notificationID, kindTest, body, err
	})
}

// byHand adds a delivery that somebody asks for.
func (s *Service) byHand(ctx context.Context, p account.Principal, webhookID, action string, what func(context.Context, *store.Tx) (notificationID, kind, body string, err error)) (d Delivery, err error) {
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		w, err := webhook(ctx, tx, p, webhookID, tx.ForUpdate())
		if err != nil {
			return err
		}
		if err := mayHandle(p, w); err != nil {
			return err
		}
		notificationID, kind, body, err := what(ctx, tx)
		if err != nil {
			return err
		}
		if !w.Enabled {
			return fault.New(fault.Conflict, "webhook_disabled", "webhook %s is switched off (%s); switch it on first", w.ID, w.DisabledWhy)
		}
		var waiting int
		if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM notify_deliveries WHERE endpoint_id = ? AND state = 'pending'`, w.ID).Scan(&waiting); err != nil {
			return err
		}
		if waiting >= mostByHand {
			return fault.New(fault.TooMany, "too_many_deliveries", "%d deliveries of webhook %s are waiting already; have its receiver take them first", waiting, w.ID)
		}
		id, err := insertDelivery(ctx, tx, w.ID, w.AccountID, notificationID, kind, body, s.cfg.Clock())
		if err != nil {
			return err
		}
		list, err := scanDeliveries(ctx, tx, selectDelivery+` WHERE id = ?`, id)
		if err != nil || len(list) == 0 {
			return errors.Join(err, store.ErrNoRows)
		}
		d = list[0]
		return s.cfg.Audit(ctx, tx, p, action, w.ID, map[string]string{"delivery": id})
	})
	if err == nil {
		s.nudge()
	}
	return d, err
}

package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"suanli.dev/internal/ident"
	"suanli.dev/internal/store"
)

// Announce writes, in the caller's transaction, that something happened to an
// account's subject at a moment, and what its webhooks are to be sent of it. The
// same account, kind, subject and moment again changes nothing, so repeats and
// retries are free. data is the kind's payload (see kind.go) or anything with its
// fields; an unknown kind or another payload is an error. No rows of the
// transaction may be open.
func (s *Service) Announce(ctx context.Context, tx *store.Tx, accountID, kind, subject string, at time.Time, data any) error {
	k, ok := kindOf(kind)
	if !ok {
		return fmt.Errorf("announce %s of %s: there is no such kind", kind, subject)
	}
	if accountID == "" || at.IsZero() {
		return fmt.Errorf("announce %s of %s: whose news it is, and of when, is not said", kind, subject)
	}
	payload, err := k.encode(data)
	if err != nil {
		return fmt.Errorf("announce %s of %s: %w", kind, subject, err)
	}
	at = at.UTC().Truncate(time.Microsecond)
	now := s.cfg.Clock()
	id := ident.New(ident.Notification)
	n, err := tx.Exec(ctx, `INSERT INTO notify_notifications (id, account_id, kind, subject, at, data, made_at, read_at) VALUES (?, ?, ?, ?, ?, ?, ?, 0)
		ON CONFLICT (account_id, kind, subject, at) DO NOTHING`, id, accountID, kind, subject, store.Micros(at), payload, store.Micros(now))
	if err != nil {
		return fmt.Errorf("announce %s of %s: %w", kind, subject, err)
	}
	if n == 0 {
		return nil // said already
	}
	endpoints, err := wanting(ctx, tx, accountID, kind)
	if err != nil {
		return fmt.Errorf("announce %s of %s: %w", kind, subject, err)
	}
	if len(endpoints) == 0 {
		return nil
	}
	body, err := s.event(id, accountID, kind, subject, at, payload)
	if err != nil {
		return fmt.Errorf("announce %s of %s: %w", kind, subject, err)
	}
	for _, e := range endpoints {
		if _, err := insertDelivery(ctx, tx, e, accountID, id, kind, body, now); err != nil {
			return fmt.Errorf("announce %s of %s: %w", kind, subject, err)
		}
	}
	return nil
}

// wanting returns the account's webhooks that want a kind and are not switched off.
func wanting(ctx context.Context, tx *store.Tx, accountID, kind string) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT id, kinds FROM notify_endpoints WHERE account_id = ? AND enabled = 1 ORDER BY id`, accountID)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var id, text string
		if err := rows.Scan(&id, &text); err != nil {
			return nil, err
		}
		var wanted []string
		if err := json.Unmarshal([]byte(text), &wanted); err != nil {
			return nil, fmt.Errorf("kinds of webhook %s: %w", id, err)
		}
		if len(wanted) == 0 || slices.Contains(wanted, kind) {
			out = append(out, id)
		}
	}
	return out, rows.Err()
}

func insertDelivery(ctx context.Context, tx *store.Tx, endpointID, accountID, notificationID, kind, body string, now time.Time) (string, error) {
	id := ident.New(ident.Delivery)
	_, err := tx.Exec(ctx, `INSERT INTO notify_deliveries (id, endpoint_id, account_id, notification_id, kind, body, state, attempts, first_at, next_at, claim, finished_at)
		VALUES (?, ?, ?, ?, ?, ?, 'pending', 0, ?, ?, '', 0)`, id, endpointID, accountID, notificationID, kind, body, store.Micros(now), store.Micros(now))
	return id, err
}

// cloudEvent is the structured JSON of CloudEvents 1.0.
type cloudEvent struct {
	SpecVersion string          `json:"specversion"`
	ID          string          `json:"id"`
	Source      string          `json:"source"`
	Type        string          `json:"type"`
	Subject     string          `json:"subject,omitempty"`
	Time        time.Time       `json:"time"`
	ContentType string          `json:"datacontenttype"`
	AccountID   string          `json:"accountid"` // an extension; their names have no underscores
	Data        json.RawMessage `json:"data"`
}

// event returns the CloudEvent of a notification: its identifier and its source are
// the same however often it is sent.
func (s *Service) event(id, accountID, kind, subject string, at time.Time, payload string) (string, error) {
	b, err := json.Marshal(cloudEvent{
		SpecVersion: "1.0", ID: id, Source: s.cfg.Source, Type: "suanli." + kind + ".v1", Subject: subject, Time: at,
		ContentType: "application/json", AccountID: accountID, Data: json.RawMessage(payload),
	})
	return string(b), err
}

package account

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"suanli.dev/internal/ident"
	"suanli.dev/internal/store"
)

// Origin is where a request came from. Edges put it into the context; the audit
// log and the throttling of sign-ins read it.
type Origin struct {
	IP        string
	RequestID string
}

// Network is what counts as one place of origin: an IPv4 address, or the /64 of an IPv6
// customer.
func (o Origin) Network() string { return network(o.IP) }

type originKey struct{}

// WithOrigin returns ctx carrying o.
func WithOrigin(ctx context.Context, o Origin) context.Context {
	return context.WithValue(ctx, originKey{}, o)
}

// OriginFrom returns what WithOrigin put into ctx, or the zero Origin.
func OriginFrom(ctx context.Context) Origin {
	o, _ := ctx.Value(originKey{}).(Origin)
	return o
}

// AuditEntry is one write that somebody made.
type AuditEntry struct {
	ID, AccountID, UserID string
	KeyID                 string // the API key or session used
	Action                string // "lease.create"
	Subject               string // the identifier of what was changed
	Detail                json.RawMessage
	IP, RequestID         string
	At                    time.Time
}

// Audit writes down, within the caller's transaction, that p did action to
// subject. detail must hold no secrets; it is kept as JSON.
func (s *Service) Audit(ctx context.Context, tx *store.Tx, p Principal, action, subject string, detail any) error {
	return s.auditFor(ctx, tx, p.AccountID, p, action, subject, detail)
}

// auditFor is Audit with the account whose log it belongs to: what an operator
// does to an account is read in that account's log.
func (s *Service) auditFor(ctx context.Context, tx *store.Tx, accountID string, p Principal, action, subject string, detail any) error {
	text, err := json.Marshal(detail)
	if err != nil {
		return fmt.Errorf("audit %s: %w", action, err)
	}
	o := OriginFrom(ctx)
	_, err = tx.Exec(ctx, `INSERT INTO audit (id, account_id, user_id, key_id, action, subject, detail, ip, request_id, at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		ident.New(ident.Audit), accountID, p.UserID, p.KeyID, action, subject, string(text), o.IP, o.RequestID, store.Micros(s.clock()))
	if err != nil {
		return fmt.Errorf("audit %s: %w", action, err)
	}
	return nil
}

// AuditLog returns up to limit entries of an account, newest first, that come
// after the entry with the identifier cursor; "" starts at the newest.
func (s *Service) AuditLog(ctx context.Context, accountID, cursor string, limit int) ([]AuditEntry, error) {
	var out []AuditEntry
	err := s.db.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT id, account_id, user_id, key_id, action, subject, detail, ip, request_id, at
			FROM audit WHERE account_id = ? AND (? = '' OR id < ?) ORDER BY id DESC LIMIT ?`, accountID, cursor, cursor, limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var e AuditEntry
			var detail string
			var at int64
			if err := rows.Scan(&e.ID, &e.AccountID, &e.UserID, &e.KeyID, &e.Action, &e.Subject, &detail, &e.IP, &e.RequestID, &at); err != nil {
				return err
			}
			e.Detail, e.At = json.RawMessage(detail), store.Time(at)
			out = append(out, e)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	return out, nil
}

package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/store"
)

// Notification is one piece of news.
type Notification struct {
	ID, AccountID string
	Kind          string
	Subject       string
	At            time.Time // when it happened
	Data          json.RawMessage
	ReadAt        time.Time // zero: nobody of the account has

	madeAt time.Time
}

// Filter narrows a list. The zero Filter takes all.
type Filter struct {
	Kind   string // empty: all
	Unread bool
}

const selectNotification = `SELECT id, account_id, kind, subject, at, data, made_at, read_at FROM notify_notifications`

func scanNotifications(ctx context.Context, tx *store.Tx, query string, args ...any) ([]Notification, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Notification
	for rows.Next() {
		var n Notification
		var data string
		var at, made, read int64
		if err := rows.Scan(&n.ID, &n.AccountID, &n.Kind, &n.Subject, &at, &data, &made, &read); err != nil {
			return nil, err
		}
		n.At, n.Data, n.madeAt, n.ReadAt = store.Time(at), json.RawMessage(data), store.Time(made), store.Time(read)
		out = append(out, n)
	}
	return out, rows.Err()
}

// of returns a WHERE clause of what p may read and its arguments.
func of(p account.Principal, f Filter) (string, []any, error) {
	names := readable(p)
	if f.Kind != "" {
		if _, ok := kindOf(f.Kind); !ok {
			return "", nil, fault.New(fault.Invalid, "unknown_kind", "there is no kind of notification %q; the kinds are %s", f.Kind, strings.Join(Kinds(), ", ")).At("query.kind")
		}
		if !slices.Contains(names, f.Kind) {
			names = nil
		} else {
			names = []string{f.Kind}
		}
	}
	if len(names) == 0 {
		return " WHERE 1 = 0", nil, nil
	}
	args := []any{p.AccountID}
	for _, n := range names {
		args = append(args, n)
	}
	where := ` WHERE account_id = ? AND kind IN (?` + strings.Repeat(", ?", len(names)-1) + `)`
	if f.Unread {
		where += ` AND read_at = 0`
	}
	return where, args, nil
}

// List returns up to limit notifications of p's account that p may read, newest
// first, older than the one with the identifier before; empty: from the newest.
func (s *Service) List(ctx context.Context, p account.Principal, f Filter, before string, limit int) ([]Notification, error) {
	where, args, err := of(p, f)
	if err != nil {
		return nil, err
	}
	if before != "" {
		where, args = where+` AND id < ?`, append(args, before)
	}
	var out []Notification
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		out, err = scanNotifications(ctx, tx, selectNotification+where+` ORDER BY id DESC LIMIT ?`, append(args, limit)...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list notifications: %w", err)
	}
	return out, nil
}

// Unread counts what nobody of the account has read, of what p may read.
func (s *Service) Unread(ctx context.Context, p account.Principal) (count int64, err error) {
	where, args, err := of(p, Filter{Unread: true})
	if err != nil {
		return 0, err
	}
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		return tx.QueryRow(ctx, `SELECT COUNT(*) FROM notify_notifications`+where, args...).Scan(&count)
	})
	if err != nil {
		return 0, fmt.Errorf("count notifications: %w", err)
	}
	return count, nil
}

// MarkRead notes that a notification was read, for the whole account.
func (s *Service) MarkRead(ctx context.Context, p account.Principal, id string) (Notification, error) {
	var n Notification
	err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		where, args, err := of(p, Filter{})
		if err != nil {
			return err
		}
		list, err := scanNotifications(ctx, tx, selectNotification+where+` AND id = ?`, append(args, id)...)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return fault.New(fault.NotFound, "notification_not_found", "there is no notification %s in this account that you may read", id)
		}
		if n = list[0]; !n.ReadAt.IsZero() {
			return nil
		}
		n.ReadAt = s.cfg.Clock().UTC().Truncate(time.Microsecond)
		_, err = tx.Exec(ctx, `UPDATE notify_notifications SET read_at = ? WHERE id = ? AND read_at = 0`, store.Micros(n.ReadAt), id)
		return err
	})
	return n, err
}

// MarkAllRead marks what p may read, up to and including the one with the
// identifier until, and returns how many that were.
func (s *Service) MarkAllRead(ctx context.Context, p account.Principal, until string) (count int64, err error) {
	where, args, err := of(p, Filter{Unread: true})
	if err != nil {
		return 0, err
	}
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		args := append([]any{store.Micros(s.cfg.Clock())}, append(slices.Clone(args), until)...)
		count, err = tx.Exec(ctx, `UPDATE notify_notifications SET read_at = ?`+where+` AND id <= ?`, args...)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("mark notifications as read: %w", err)
	}
	return count, nil
}

package lease

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"suanli.dev/internal/store"
)

// Tags are what budgets and reports sort leases by.
type Tags struct {
	UserID string // who made it
	Labels map[string]string
}

// tagsAtOnce is how many leases are named in one query; SQLite takes no more than
// some ten thousand values in one.
const tagsAtOnce = 500

// Tags returns what the named leases of an account are sorted by. Those that the
// account does not have are absent.
func (s *Service) Tags(ctx context.Context, accountID string, ids []string) (map[string]Tags, error) {
	out := make(map[string]Tags, len(ids))
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		for len(ids) > 0 {
			n := min(tagsAtOnce, len(ids))
			if err := selectTags(ctx, tx, accountID, ids[:n], out); err != nil {
				return err
			}
			ids = ids[n:]
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("labels of leases: %w", err)
	}
	return out, nil
}

func selectTags(ctx context.Context, tx *store.Tx, accountID string, ids []string, into map[string]Tags) error {
	args := []any{accountID}
	for _, id := range ids {
		args = append(args, id)
	}
	rows, err := tx.Query(ctx, `SELECT id, user_id, labels FROM lease WHERE account_id=? AND id IN (?`+strings.Repeat(",?", len(ids)-1)+`)`, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id, labels string
		var t Tags
		if err := rows.Scan(&id, &t.UserID, &labels); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(labels), &t.Labels); err != nil {
			return fmt.Errorf("lease %s: %w", id, err)
		}
		into[id] = t
	}
	return rows.Err()
}

// CodeBudget is why a lease stops that a budget of its account stops.
const CodeBudget = "budget"

// allowed is a fault if a budget of the account refuses the lease.
func (s *Service) allowed(ctx context.Context, tx *store.Tx, l *Lease) error {
	if s.Budgets == nil {
		return nil
	}
	return s.Budgets.Allow(ctx, tx, l.AccountID, l.UserID, l.Labels)
}

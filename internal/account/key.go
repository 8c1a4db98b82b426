package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/store"
)

// AllScopes as the only scope of a new key lets it do all that its user may,
// also when the user's role changes.
const AllScopes = "*"

// Actions are all actions, which are also all scopes.
var Actions = []Action{ReadMarket, ReadLeases, WriteLeases, EnterLeases, ReadBilling, WriteBilling,
	ReadAccount, WriteAccount, WriteSelf, ReadHosts, WriteHosts, Operate}

// APIKey lets a program act for its user.
type APIKey struct {
	ID        string
	UserID    string
	AccountID string
	Name      string
	Secret    string   // in it only when the key has just been made
	Hint      string   // the last four characters of the secret
	Scopes    []Action // nil: all that the user may
	CreatedAt time.Time
	ExpiresAt time.Time // zero: never
	// LastUsedAt is written down about once a minute; zero: never used.
	LastUsedAt time.Time
}

// CreateAPIKey is a new key of p's user.
type CreateAPIKey struct {
	Name      string
	Scopes    []string  // AllScopes alone, or actions; none: the key can do nothing
	ExpiresAt time.Time // zero: never
}

// maxKeys bounds the keys of each kind that one user can have.
const maxKeys = 100

// CreateAPIKey makes a key for p's own user. A key can do no more than what
// made it, so a leaked key cannot make a stronger one.
func (s *Service) CreateAPIKey(ctx context.Context, p Principal, c CreateAPIKey) (APIKey, error) {
	if err := checkName(c.Name, "body.name"); err != nil {
		return APIKey{}, err
	}
	now := s.clock()
	if !c.ExpiresAt.IsZero() && !c.ExpiresAt.After(now) {
		return APIKey{}, fault.New(fault.Invalid, "expiry_invalid", "the key would expire at %s, which is past; give a later time or none",
			c.ExpiresAt.UTC().Format(time.RFC3339)).At("body.expires_at")
	}
	if c.ExpiresAt.Year() > 9999 {
		return APIKey{}, fault.New(fault.Invalid, "expiry_invalid", "the year %d has more than four digits", c.ExpiresAt.Year()).At("body.expires_at")
	}
	scopes, err := p.grant(c.Scopes)
	if err != nil {
		return APIKey{}, err
	}
	secret := apiKeyPrefix + randomText(bearerRandom)
	k := APIKey{
		ID: ident.New(ident.Key), UserID: p.UserID, AccountID: p.AccountID, Name: c.Name, Secret: secret, Hint: secret[len(secret)-4:],
		Scopes: scopes, CreatedAt: store.Time(store.Micros(now)), ExpiresAt: store.Time(store.Micros(c.ExpiresAt)),
	}
	text, err := json.Marshal(scopes)
	if err != nil {
		return APIKey{}, fmt.Errorf("create API key: %w", err)
	}
	err = s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		var n int64
		if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM api_keys WHERE user_id = ?`, p.UserID).Scan(&n); err != nil {
			return err
		}
		if n >= maxKeys {
			return fault.New(fault.Conflict, "too_many_keys", "you have %d API keys, the most there can be; delete one first", n)
		}
		// A key must not outlive what made it.
		if err := parentAlive(ctx, tx, p); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO api_keys (id, hash, account_id, user_id, name, hint, scopes, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			k.ID, hashBearer(secret), k.AccountID, k.UserID, k.Name, k.Hint, string(text), store.Micros(k.CreatedAt), store.Micros(k.ExpiresAt)); err != nil {
			return err
		}
		return s.Audit(ctx, tx, p, "api_key.create", k.ID, map[string]any{"name": k.Name, "scopes": k.Scopes})
	})
	if err != nil {
		return APIKey{}, fmt.Errorf("create API key: %w", err)
	}
	return k, nil
}

// parentAlive refuses a write by credentials that were revoked while the
// request was on its way.
func parentAlive(ctx context.Context, tx *store.Tx, p Principal) error {
	if p.KeyID == "" {
		return nil
	}
	var one int64
	err := tx.QueryRow(ctx, `SELECT 1 FROM api_keys WHERE id = ? UNION ALL SELECT 1 FROM sessions WHERE id = ?`, p.KeyID, p.KeyID).Scan(&one)
	if errors.Is(err, store.ErrNoRows) {
		return errBearer
	}
	return err
}

// grant turns asked-for scopes into those of a key that p makes.
func (p Principal) grant(asked []string) ([]Action, error) {
	if len(asked) == 1 && asked[0] == AllScopes {
		return slices.Clone(p.Scopes), nil
	}
	scopes := []Action{} // not nil, which would mean all
	for i, text := range asked {
		a, at := Action(text), fmt.Sprintf("body.scopes[%d]", i)
		if !slices.Contains(Actions, a) {
			return nil, fault.New(fault.Invalid, "scope_invalid", "there is no scope %q; choose of %v, or %q alone for all that you may", text, Actions, AllScopes).At(at)
		}
		if !p.May(a) {
			return nil, fault.New(fault.Forbidden, "scope_beyond_own", "you may not do %q yourself, so a key of yours cannot either", text).At(at)
		}
		if !slices.Contains(scopes, a) {
			scopes = append(scopes, a)
		}
	}
	return scopes, nil
}

// APIKeys returns up to limit keys after cursor: of p's user, or of the whole
// account where p may manage it.
func (s *Service) APIKeys(ctx context.Context, p Principal, cursor string, limit int) ([]APIKey, error) {
	user := p.UserID
	if p.May(WriteAccount) {
		user = ""
	}
	var out []APIKey
	err := s.db.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT id, user_id, account_id, name, hint, scopes, created_at, expires_at, last_used_at FROM api_keys
			WHERE account_id = ? AND (? = '' OR user_id = ?) AND id > ? ORDER BY id LIMIT ?`, p.AccountID, user, user, cursor, limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var k APIKey
			var scopes string
			var created, expires, used int64
			if err := rows.Scan(&k.ID, &k.UserID, &k.AccountID, &k.Name, &k.Hint, &scopes, &created, &expires, &used); err != nil {
				return err
			}
			if err := json.Unmarshal([]byte(scopes), &k.Scopes); err != nil {
				return fmt.Errorf("scopes of %s: %w", k.ID, err)
			}
			k.CreatedAt, k.ExpiresAt, k.LastUsedAt = store.Time(created), store.Time(expires), store.Time(used)
			out = append(out, k)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list API keys: %w", err)
	}
	return out, nil
}

// DeleteAPIKey revokes a key: p's own, or one of the account where p may manage
// it. The key is refused from the return of this on; by other replicas within
// two seconds.
func (s *Service) DeleteAPIKey(ctx context.Context, p Principal, id string) error {
	err := s.deleteOwned(ctx, p, "api_keys", id, "api_key.delete",
		fault.New(fault.NotFound, "api_key_not_found", "there is no API key %q that you could delete", id))
	if err != nil {
		return fmt.Errorf("delete API key: %w", err)
	}
	s.changed()
	return nil
}

// deleteOwned deletes a row of table that belongs to p's user, or to p's
// account where p may manage it.
func (s *Service) deleteOwned(ctx context.Context, p Principal, table, id, action string, absent error) error {
	return s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		var user, name string
		err := tx.QueryRow(ctx, `SELECT user_id, name FROM `+table+` WHERE id = ? AND account_id = ?`, id, p.AccountID).Scan(&user, &name)
		if errors.Is(err, store.ErrNoRows) || (err == nil && user != p.UserID && !p.May(WriteAccount)) {
			return absent
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE id = ?`, id); err != nil {
			return err
		}
		return s.Audit(ctx, tx, p, action, id, map[string]any{"name": name, "user_id": user})
	})
}

package account

import (
	"context"
	"crypto/rsa"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/store"
)

// SSHKey is a public key that its user enters instances with.
type SSHKey struct {
	ID          string
	UserID      string
	AccountID   string
	Name        string
	Fingerprint string // "SHA256:…", as ssh-keygen -l prints it
	PublicKey   string // type and base64, without a comment
	CreatedAt   time.Time
}

const minRSABits = 2048

// parseSSHKey reads one line in the format of authorized_keys, without options.
func parseSSHKey(text string) (key ssh.PublicKey, comment string, err error) {
	bad := func(format string, args ...any) (ssh.PublicKey, string, error) {
		return nil, "", fault.New(fault.Invalid, "ssh_key_invalid", format, args...).At("body.public_key")
	}
	text = strings.TrimSpace(text)
	if strings.Contains(text, "PRIVATE KEY") {
		return bad("this is a private key, which must never be sent to anyone: send the public half, the file that ends in .pub, and replace the pair if this was a shared place")
	}
	if len(text) > 16_384 || strings.ContainsAny(text, "\r\n\x00") {
		return bad("want one public key on one line, such as the content of ~/.ssh/id_ed25519.pub; found %d bytes on %d lines", len(text), 1+strings.Count(text, "\n"))
	}
	key, comment, options, _, perr := ssh.ParseAuthorizedKey([]byte(text))
	if perr != nil {
		return bad("this is not an SSH public key; send one line such as \"ssh-ed25519 AAAA… name\", the content of ~/.ssh/id_ed25519.pub")
	}
	if len(options) > 0 {
		return bad("the key has options (%s), which are not kept; send the key without them", strings.Join(options, ","))
	}
	switch key.Type() {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256:
	case ssh.KeyAlgoRSA:
		c, ok := key.(ssh.CryptoPublicKey)
		if !ok {
			return bad("this RSA key cannot be read; make one with ssh-keygen -t ed25519")
		}
		if k, ok := c.CryptoPublicKey().(*rsa.PublicKey); !ok || k.N.BitLen() < minRSABits {
			return bad("this RSA key is shorter than %d bits and can be broken; make one with ssh-keygen -t ed25519", minRSABits)
		}
	default:
		return bad("keys of the type %s are not accepted; make one with ssh-keygen -t ed25519", key.Type())
	}
	return key, comment, nil
}

// AddSSHKey adds a public key of p's own user; name "" takes the key's comment.
func (s *Service) AddSSHKey(ctx context.Context, p Principal, name, publicKey string) (SSHKey, error) {
	// Else an API key that may not enter leases could let itself in by SSH.
	if p.Scopes != nil && !p.May(EnterLeases) {
		return SSHKey{}, fault.New(fault.Forbidden, "scope_beyond_own", "an SSH key enters leases, which this API key may not (%q); use one that may, or sign in", EnterLeases)
	}
	key, comment, err := parseSSHKey(publicKey)
	if err != nil {
		return SSHKey{}, err
	}
	if name == "" {
		name = comment
	}
	if name == "" {
		name = key.Type()
	}
	if err := checkName(name, "body.name"); err != nil {
		return SSHKey{}, err
	}
	k := SSHKey{
		ID: ident.New(ident.SSHKey), UserID: p.UserID, AccountID: p.AccountID, Name: name, Fingerprint: ssh.FingerprintSHA256(key),
		PublicKey: strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))), CreatedAt: store.Time(store.Micros(s.clock())),
	}
	err = s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		var have int64
		if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM ssh_keys WHERE user_id = ?`, p.UserID).Scan(&have); err != nil {
			return err
		}
		if have >= maxKeys {
			return fault.New(fault.Conflict, "too_many_keys", "you have %d SSH keys, the most there can be; delete one first", have)
		}
		n, err := tx.Exec(ctx, `INSERT INTO ssh_keys (id, account_id, user_id, name, fingerprint, public_key, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (account_id, fingerprint) DO NOTHING`, k.ID, k.AccountID, k.UserID, k.Name, k.Fingerprint, k.PublicKey, store.Micros(k.CreatedAt))
		if err != nil {
			return err
		}
		if n == 0 {
			return fault.New(fault.Conflict, "ssh_key_exists", "the account has the key %s already", k.Fingerprint).At("body.public_key")
		}
		return s.Audit(ctx, tx, p, "ssh_key.create", k.ID, map[string]any{"name": k.Name, "fingerprint": k.Fingerprint})
	})
	if err != nil {
		return SSHKey{}, fmt.Errorf("add SSH key: %w", err)
	}
	return k, nil
}

// SSHKeys returns up to limit SSH keys of an account after cursor.
func (s *Service) SSHKeys(ctx context.Context, accountID, cursor string, limit int) ([]SSHKey, error) {
	var out []SSHKey
	err := s.db.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT id, user_id, account_id, name, fingerprint, public_key, created_at FROM ssh_keys
			WHERE account_id = ? AND id > ? ORDER BY id LIMIT ?`, accountID, cursor, limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var k SSHKey
			var created int64
			if err := rows.Scan(&k.ID, &k.UserID, &k.AccountID, &k.Name, &k.Fingerprint, &k.PublicKey, &created); err != nil {
				return err
			}
			k.CreatedAt = store.Time(created)
			out = append(out, k)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list SSH keys: %w", err)
	}
	return out, nil
}

// DeleteSSHKey removes a key: p's own, or one of the account where p may manage it.
func (s *Service) DeleteSSHKey(ctx context.Context, p Principal, id string) error {
	err := s.deleteOwned(ctx, p, "ssh_keys", id, "ssh_key.delete",
		fault.New(fault.NotFound, "ssh_key_not_found", "there is no SSH key %q that you could delete", id))
	if err != nil {
		return fmt.Errorf("delete SSH key: %w", err)
	}
	return nil
}

// AuthorizedKeys returns the public keys, one authorized_keys line each, of the
// users who may enter the account's leases.
func (s *Service) AuthorizedKeys(ctx context.Context, accountID string) ([]string, error) {
	keys, err := s.enterers(ctx, `k.account_id = ?`, accountID)
	if err != nil {
		return nil, fmt.Errorf("read authorized keys: %w", err)
	}
	lines := make([]string, len(keys))
	for i, k := range keys {
		lines[i] = k.line
	}
	return lines, nil
}

// AccountsBySSHKey returns who may be behind a key with this fingerprint
// ("SHA256:…"): one principal for each account whose leases it may enter. The
// principals may only enter leases, since an SSH key proves no more than that.
func (s *Service) AccountsBySSHKey(ctx context.Context, fingerprint string) ([]Principal, error) {
	keys, err := s.enterers(ctx, `k.fingerprint = ?`, fingerprint)
	if err != nil {
		return nil, fmt.Errorf("look up SSH key: %w", err)
	}
	out := make([]Principal, len(keys))
	for i, k := range keys {
		out[i] = k.p
	}
	return out, nil
}

type enterer struct {
	line string
	p    Principal
}

func (s *Service) enterers(ctx context.Context, where, arg string) ([]enterer, error) {
	var out []enterer
	err := s.db.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT k.id, k.public_key, u.id, u.account_id, u.role FROM ssh_keys k
			JOIN users u ON u.id = k.user_id JOIN accounts a ON a.id = u.account_id
			WHERE `+where+` AND u.disabled = 0 AND a.suspended = 0 ORDER BY k.id`, arg)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var e enterer
			if err := rows.Scan(&e.p.KeyID, &e.line, &e.p.UserID, &e.p.AccountID, &e.p.Role); err != nil {
				return err
			}
			e.p.Scopes = []Action{EnterLeases}
			if e.p.May(EnterLeases) {
				out = append(out, e)
			}
		}
		return rows.Err()
	})
	return out, err
}

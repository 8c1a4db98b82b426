package account

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/ratelimit"
	"suanli.dev/internal/store"
)

// Session is a signed-in user. Token is in it only when it has just been made.
type Session struct {
	ID        string
	UserID    string
	AccountID string
	Token     string
	IP        string
	CreatedAt time.Time
	ExpiresAt time.Time
}

// Bearers start with what they are, so that secret scanners and people can tell.
const (
	apiKeyPrefix  = "sk-suanli-"
	sessionPrefix = "ss-suanli-"
	bearerRandom  = 40 // characters of 5 bits
)

// hashBearer needs no salt and no slowness: a bearer has 200 random bits.
func hashBearer(bearer string) string {
	sum := sha256.Sum256([]byte(bearer))
	return hex.EncodeToString(sum[:])
}

var errCredentials = fault.New(fault.Unauthorized, "invalid_credentials",
	"the e-mail address and the password do not belong together")

// addressKept is how long an address is known after a success.
const addressKept = 180 * 24 * time.Hour

// network is what counts as one address: an IPv6 customer has a whole /64.
func network(ip string) string {
	a, err := netip.ParseAddr(ip)
	if err != nil || a.Unmap().Is4() {
		return ip
	}
	p, err := a.WithZone("").Prefix(64)
	if err != nil {
		return ip
	}
	return p.String()
}

func tooManySignIns(wait time.Duration) error {
	return fault.New(fault.TooMany, "sign_in_throttled", "too many attempts to sign in; wait %d seconds, or sign in from an address that you signed in from before", int(wait/time.Second)+1)
}

// throttle counts an attempt to sign in as who, an e-mail address or a user's id,
// from ctx's origin. What an address is refused counts for nobody else, and what
// strangers do counts not for the addresses that the user came from before:
// otherwise anybody could keep a user out.
func (s *Service) throttle(ctx context.Context, who string) error {
	from := network(OriginFrom(ctx).IP)
	_, wait := s.perLogin.Take(who+"\n"+from, 1)
	if _, w := s.perIP.Take(from, 1); w > wait {
		wait = w
	}
	if wait > 0 {
		return tooManySignIns(wait)
	}
	return s.fromAnywhere(ctx, s.perEmail, who)
}

// fromAnywhere takes from a limit that all strange addresses share.
func (s *Service) fromAnywhere(ctx context.Context, l *ratelimit.Limiter, who string) error {
	_, wait := l.Take(who, 1)
	if wait <= 0 {
		return nil
	}
	var known int64
	err := s.db.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		return tx.QueryRow(ctx, `SELECT COUNT(*) FROM sign_in_addresses x JOIN users u ON u.id = x.user_id
			WHERE (u.email = ? OR u.id = ?) AND x.network = ? AND x.last_at > ?`,
			who, who, network(OriginFrom(ctx).IP), store.Micros(s.clock().Add(-addressKept))).Scan(&known)
	})
	if err != nil {
		return fmt.Errorf("sign in: %w", err)
	}
	if known == 0 {
		return tooManySignIns(wait)
	}
	return nil
}

// unthrottle forgives the failures before a success; not the address's, which
// may be guessing at others meanwhile.
func (s *Service) unthrottle(ctx context.Context, who string) {
	s.perLogin.Reset(who + "\n" + network(OriginFrom(ctx).IP))
	s.perEmail.Reset(who)
}

// SignIn checks an e-mail address, a password and, where the user has a second
// factor, a code, and returns a new session. Fault codes: invalid_credentials,
// totp_required, totp_invalid, passkey_required, sign_in_throttled, user_disabled,
// account_suspended.
func (s *Service) SignIn(ctx context.Context, email, password, totp string) (Session, error) {
	email = strings.ToLower(email)
	if len(email) > 254 {
		return Session{}, errCredentials
	}
	if err := s.throttle(ctx, email); err != nil {
		return Session{}, err
	}
	var u User
	var phc, sealed string
	var last, suspended int64
	err := s.db.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		row := tx.QueryRow(ctx, `SELECT u.id, u.account_id, u.role, u.operator, u.disabled, u.totp_enabled, u.password_hash, u.totp_secret, u.totp_step, a.suspended, u.passkey_only
			FROM users u JOIN accounts a ON a.id = u.account_id WHERE u.email = ?`, email)
		var operator, disabled, enabled, only int64
		err = row.Scan(&u.ID, &u.AccountID, &u.Role, &operator, &disabled, &enabled, &phc, &sealed, &last, &suspended, &only)
		u.Operator, u.Disabled, u.TOTP, u.PasskeyOnly = operator == 1, disabled == 1, enabled == 1, only == 1
		return err
	})
	switch {
	case errors.Is(err, store.ErrNoRows):
		// As slow as with a user, so that time does not tell who has one.
		if _, _, err := s.verify(ctx, password, s.decoy); err != nil {
			return Session{}, fmt.Errorf("sign in: %w", err)
		}
		return Session{}, errCredentials
	case err != nil:
		return Session{}, fmt.Errorf("sign in: %w", err)
	}
	ok, cost, err := s.verify(ctx, password, phc)
	if err != nil {
		return Session{}, fmt.Errorf("sign in: %w", err)
	}
	if !ok {
		s.log.WarnContext(ctx, "sign-in refused", "user_id", u.ID, "ip", OriginFrom(ctx).IP)
		return Session{}, errCredentials
	}
	// Said only to one who knows the password.
	if u.Disabled {
		return Session{}, fault.New(fault.Forbidden, "user_disabled", "this user is disabled; ask an owner of the account")
	}
	if suspended == 1 {
		return Session{}, errSuspended
	}
	if u.PasskeyOnly {
		return Session{}, fault.New(fault.Unauthorized, "passkey_required", "this user signs in by passkey alone; use it, or have an owner of the account reset the second factor")
	}
	step := last
	if u.TOTP {
		if totp == "" {
			return Session{}, fault.New(fault.Unauthorized, "totp_required", "this user has a second factor; send the current six-digit code as totp").At("body.totp")
		}
		// Only who has the password comes this far; six digits are soon guessed.
		if err := s.fromAnywhere(ctx, s.perCode, u.ID); err != nil {
			return Session{}, err
		}
		secret, err := s.openTOTP(sealed)
		if err != nil {
			return Session{}, fmt.Errorf("sign in: %w", err)
		}
		if step, ok = totpMatch(secret, totp, s.clock(), last); !ok {
			return Session{}, errTOTP
		}
	}
	upgraded := ""
	if cost != s.cost {
		if upgraded, err = s.hash(ctx, password); err != nil {
			return Session{}, fmt.Errorf("sign in: %w", err)
		}
	}
	var session Session
	err = s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if u.TOTP {
			// Two sign-ins with one code race to here; one of them wins.
			n, err := tx.Exec(ctx, `UPDATE users SET totp_step = ? WHERE id = ? AND totp_step < ?`, step, u.ID, step)
			if err != nil {
				return err
			}
			if n == 0 {
				return errTOTP
			}
		}
		if upgraded != "" {
			if _, err := tx.Exec(ctx, `UPDATE users SET password_hash = ? WHERE id = ? AND password_hash = ?`, upgraded, u.ID, phc); err != nil {
				return err
			}
		}
		session, err = s.beginSession(ctx, tx, u, "password")
		return err
	})
	if err != nil {
		return Session{}, fmt.Errorf("sign in: %w", err)
	}
	s.unthrottle(ctx, email)
	s.perCode.Reset(u.ID)
	return session, nil
}

// beginSession makes a session for a user who has shown who he is, by the given means.
func (s *Service) beginSession(ctx context.Context, tx *store.Tx, u User, by string) (Session, error) {
	now := s.clock()
	session := Session{
		ID: ident.New(ident.Session), UserID: u.ID, AccountID: u.AccountID, Token: sessionPrefix + randomText(bearerRandom), IP: OriginFrom(ctx).IP,
		CreatedAt: store.Time(store.Micros(now)), ExpiresAt: store.Time(store.Micros(now.Add(s.cfg.SessionLifetime))),
	}
	if _, err := tx.Exec(ctx, `INSERT INTO sessions (id, hash, user_id, ip, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)`,
		session.ID, hashBearer(session.Token), u.ID, session.IP, store.Micros(session.CreatedAt), store.Micros(session.ExpiresAt)); err != nil {
		return Session{}, err
	}
	if session.IP != "" {
		if _, err := tx.Exec(ctx, `INSERT INTO sign_in_addresses (user_id, network, last_at) VALUES (?, ?, ?)
			ON CONFLICT (user_id, network) DO UPDATE SET last_at = excluded.last_at`, u.ID, network(session.IP), store.Micros(now)); err != nil {
			return Session{}, err
		}
	}
	return session, s.Audit(ctx, tx, Principal{UserID: u.ID, AccountID: u.AccountID, KeyID: session.ID}, "session.create", session.ID, map[string]string{"by": by})
}

var (
	errSuspended = fault.New(fault.Forbidden, "account_suspended", "this account is suspended; ask the operator of this cloud")
	errTOTP      = fault.New(fault.Unauthorized, "totp_invalid", "the code is not the current one, or was used already; wait for the next").At("body.totp")
	errBearer    = fault.New(fault.Unauthorized, "invalid_token", "the API key or session token is unknown, expired or revoked; sign in again or make a new key")
)

// Sessions returns p's own sessions that have not expired, newest first.
func (s *Service) Sessions(ctx context.Context, p Principal) ([]Session, error) {
	var out []Session
	err := s.db.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT id, ip, created_at, expires_at FROM sessions WHERE user_id = ? AND expires_at > ? ORDER BY id DESC LIMIT 1000`,
			p.UserID, store.Micros(s.clock()))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			x := Session{UserID: p.UserID, AccountID: p.AccountID}
			var created, expires int64
			if err := rows.Scan(&x.ID, &x.IP, &created, &expires); err != nil {
				return err
			}
			x.CreatedAt, x.ExpiresAt = store.Time(created), store.Time(expires)
			out = append(out, x)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	return out, nil
}

// SignOut ends one of p's own sessions; id "current" is the one p came with.
func (s *Service) SignOut(ctx context.Context, p Principal, id string) error {
	if id == "current" {
		if ident.Check(ident.Session, p.KeyID) != nil {
			return fault.New(fault.Conflict, "not_a_session", "this request came with an API key, not a session; to end the key, delete it")
		}
		id = p.KeyID
	}
	err := s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Exec(ctx, `DELETE FROM sessions WHERE id = ? AND user_id = ?`, id, p.UserID)
		if err != nil {
			return err
		}
		if n == 0 {
			return fault.New(fault.NotFound, "session_not_found", "you have no session %q", id)
		}
		return s.Audit(ctx, tx, p, "session.delete", id, nil)
	})
	if err != nil {
		return fmt.Errorf("sign out: %w", err)
	}
	s.changed()
	return nil
}

// Authenticate returns who a bearer, an API key or a session token, belongs to.
// Fault codes: invalid_token, account_suspended.
func (s *Service) Authenticate(ctx context.Context, bearer string) (Principal, error) {
	isKey := strings.HasPrefix(bearer, apiKeyPrefix)
	if len(bearer) != len(apiKeyPrefix)+bearerRandom || (!isKey && !strings.HasPrefix(bearer, sessionPrefix)) {
		return Principal{}, errBearer
	}
	hash, now := hashBearer(bearer), s.clock()
	s.mu.Lock()
	c, ok := s.cache[hash]
	epoch := s.epoch
	if ok && now.Before(c.until) && (c.expires.IsZero() || now.Before(c.expires)) {
		s.used(c.p, now)
		s.mu.Unlock()
		return c.p, nil
	}
	s.mu.Unlock()

	query := `SELECT x.id, u.id, u.account_id, u.role, u.operator, u.disabled, a.suspended, x.expires_at, 'null'
		FROM sessions x JOIN users u ON u.id = x.user_id JOIN accounts a ON a.id = u.account_id WHERE x.hash = ?`
	if isKey {
		query = `SELECT x.id, u.id, u.account_id, u.role, u.operator, u.disabled, a.suspended, x.expires_at, x.scopes
		FROM api_keys x JOIN users u ON u.id = x.user_id JOIN accounts a ON a.id = u.account_id WHERE x.hash = ?`
	}
	var p Principal
	var operator, disabled, suspended, expiry int64
	var scopes string
	err := s.db.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		return tx.QueryRow(ctx, query, hash).Scan(&p.KeyID, &p.UserID, &p.AccountID, &p.Role, &operator, &disabled, &suspended, &expiry, &scopes)
	})
	if errors.Is(err, store.ErrNoRows) {
		return Principal{}, errBearer
	}
	if err != nil {
		return Principal{}, fmt.Errorf("authenticate: %w", err)
	}
	expires := store.Time(expiry)
	if disabled == 1 || (!expires.IsZero() && !now.Before(expires)) {
		return Principal{}, errBearer
	}
	if suspended == 1 {
		return Principal{}, errSuspended
	}
	p.Operator = operator == 1
	if err := json.Unmarshal([]byte(scopes), &p.Scopes); err != nil {
		return Principal{}, fmt.Errorf("authenticate: scopes of %s: %w", p.KeyID, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch == epoch { // else it may have been revoked since it was read
		if len(s.cache) >= cacheMax {
			clear(s.cache)
		}
		s.cache[hash] = cached{p: p, until: now.Add(cacheFor), expires: expires}
	}
	s.used(p, now)
	return p, nil
}

// used notes the use of an API key, to be written down by Run. It needs mu.
func (s *Service) used(p Principal, now time.Time) {
	if strings.HasPrefix(p.KeyID, string(ident.Key)+"-") {
		s.lastUsed[p.KeyID] = now
	}
}

func (s *Service) openTOTP(sealed string) ([]byte, error) {
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil {
		return nil, fmt.Errorf("stored second factor: %w", err)
	}
	return s.vault.Open(raw)
}

// EnrolTOTP makes a new secret for p's second factor and returns it as an
// otpauth URL, for a QR code. It counts from ConfirmTOTP on.
func (s *Service) EnrolTOTP(ctx context.Context, p Principal, password string) (secret, link string, err error) {
	if err := s.reauthenticate(ctx, p, password, "body.password"); err != nil {
		return "", "", err
	}
	raw := []byte(randomText(20))
	sealed, err := s.vault.Seal(raw)
	if err != nil {
		return "", "", fmt.Errorf("enrol second factor: %w", err)
	}
	u := User{}
	err = s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if u, err = getUser(ctx, tx, p.AccountID, p.UserID); err != nil {
			return err
		}
		n, err := tx.Exec(ctx, `UPDATE users SET totp_secret = ?, totp_step = 0 WHERE id = ? AND totp_enabled = 0`,
			base64.StdEncoding.EncodeToString(sealed), p.UserID)
		if err == nil && n == 0 {
			return fault.New(fault.Conflict, "totp_enabled", "this user has a second factor already; remove it first")
		}
		return err
	})
	if err != nil {
		return "", "", fmt.Errorf("enrol second factor: %w", err)
	}
	secret = totpEncoding.EncodeToString(raw)
	return secret, "otpauth://totp/suanli:" + url.PathEscape(u.Email) + "?issuer=suanli&secret=" + secret, nil
}

// ConfirmTOTP turns the second factor on, once a first code proves that the
// secret has arrived, and ends p's other sessions.
func (s *Service) ConfirmTOTP(ctx context.Context, p Principal, code string) error {
	if err := s.throttle(ctx, p.UserID); err != nil {
		return err
	}
	err := s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		var sealed string
		var enabled, last int64
		if err := tx.QueryRow(ctx, `SELECT totp_secret, totp_enabled, totp_step FROM users WHERE id = ?`+tx.ForUpdate(), p.UserID).
			Scan(&sealed, &enabled, &last); err != nil {
			return err
		}
		if enabled == 1 || sealed == "" {
			return fault.New(fault.Conflict, "totp_not_enrolled", "there is no second factor to confirm; enrol one first")
		}
		secret, err := s.openTOTP(sealed)
		if err != nil {
			return err
		}
		step, ok := totpMatch(secret, code, s.clock(), last)
		if !ok {
			return fault.New(fault.Invalid, "totp_invalid", "the code is not the current one; check the clock of the device, and try the next code").At("body.totp")
		}
		if _, err := tx.Exec(ctx, `UPDATE users SET totp_enabled = 1, totp_step = ? WHERE id = ?`, step, p.UserID); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM sessions WHERE user_id = ? AND id <> ?`, p.UserID, p.KeyID); err != nil {
			return err
		}
		return s.Audit(ctx, tx, p, "user.totp_enable", p.UserID, nil)
	})
	if err != nil {
		return fmt.Errorf("confirm second factor: %w", err)
	}
	s.unthrottle(ctx, p.UserID)
	s.changed()
	return nil
}

// RemoveTOTP turns p's second factor off.
func (s *Service) RemoveTOTP(ctx context.Context, p Principal, password string) error {
	if err := s.reauthenticate(ctx, p, password, "body.password"); err != nil {
		return err
	}
	err := s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE users SET totp_enabled = 0, totp_secret = '' WHERE id = ?`, p.UserID); err != nil {
			return err
		}
		return s.Audit(ctx, tx, p, "user.totp_remove", p.UserID, nil)
	})
	if err != nil {
		return fmt.Errorf("remove second factor: %w", err)
	}
	return nil
}

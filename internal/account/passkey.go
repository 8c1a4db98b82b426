package account

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/store"
)

// Passkey is a key of an authenticator by which a user signs in.
type Passkey struct {
	ID         string
	Name       string
	Synced     bool // it is kept by the authenticator's maker, too, and not on one device only
	CreatedAt  time.Time
	LastUsedAt time.Time // zero: never
}

const (
	ceremonyFor  = 5 * time.Minute
	maxPasskeys  = 20
	maxCeremony  = 64 << 10 // bytes of an authenticator's answer
	ceremonyText = 20
)

var (
	errPasskeysOff = fault.New(fault.Unavailable, "passkeys_off", "passkeys belong to a host name, and this cloud is reached by an address; its operator sets public_url to one with a name")
	errPasskey     = fault.New(fault.Unauthorized, "passkey_invalid", "the passkey was not accepted: it is not known here, or the attempt took longer than 5 minutes; try again, or sign in another way")
)

// relyingParty is what passkeys are bound to: the host name by which people reach the
// console at publicURL. nil: it has none. A loopback address counts as localhost, as
// browsers have it.
func relyingParty(publicURL string) (*webauthn.WebAuthn, error) {
	u, err := url.Parse(publicURL)
	if err != nil || u.Host == "" {
		return nil, err
	}
	host, origin := u.Hostname(), u.Scheme+"://"+u.Host
	if ip := net.ParseIP(host); ip != nil {
		if !ip.IsLoopback() {
			return nil, nil
		}
		host, origin = "localhost", u.Scheme+"://localhost"
		if u.Port() != "" {
			origin += ":" + u.Port()
		}
	}
	return webauthn.New(&webauthn.Config{
		RPID: host, RPDisplayName: "suanli", RPOrigins: []string{origin},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			// It names its user, and asks for a PIN, a face or a finger: alone it is two
			// factors.
			ResidentKey: protocol.ResidentKeyRequirementRequired, RequireResidentKey: protocol.ResidentKeyRequired(), UserVerification: protocol.VerificationRequired,
		},
		Timeouts: webauthn.TimeoutsConfig{
			Login:        webauthn.TimeoutConfig{Enforce: true, Timeout: ceremonyFor, TimeoutUVD: ceremonyFor},
			Registration: webauthn.TimeoutConfig{Enforce: true, Timeout: ceremonyFor, TimeoutUVD: ceremonyFor},
		},
	})
}

// holder is a user as the library knows one.
type holder struct {
	user        User
	credentials []webauthn.Credential
	ids         map[string]string // credential → passkey
}

func (h *holder) WebAuthnID() []byte                         { return []byte(h.user.ID) }
func (h *holder) WebAuthnName() string                       { return h.user.Email }
func (h *holder) WebAuthnDisplayName() string                { return h.user.Name }
func (h *holder) WebAuthnCredentials() []webauthn.Credential { return h.credentials }

func credentialID(id []byte) string { return base64.RawURLEncoding.EncodeToString(id) }

// passkeysOf returns the passkeys of a user with their keys.
func passkeysOf(ctx context.Context, tx *store.Tx, u User) (*holder, []Passkey, error) {
	rows, err := tx.Query(ctx, `SELECT id, name, credential, created_at, last_used_at FROM passkeys WHERE user_id = ? ORDER BY id`, u.ID)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	h, list := &holder{user: u, ids: map[string]string{}}, []Passkey{}
	for rows.Next() {
		var p Passkey
		var text string
		var created, used int64
		if err := rows.Scan(&p.ID, &p.Name, &text, &created, &used); err != nil {
			return nil, nil, err
		}
		var c webauthn.Credential
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			return nil, nil, fmt.Errorf("passkey %s: %w", p.ID, err)
		}
		p.CreatedAt, p.Synced = store.Time(created), c.Flags.BackupState
		if used != 0 {
			p.LastUsedAt = store.Time(used)
		}
		h.credentials = append(h.credentials, c)
		h.ids[credentialID(c.ID)] = p.ID
		list = append(list, p)
	}
	return h, list, rows.Err()
}

// keepCeremony writes down what an authenticator is asked, and returns its identifier.
func (s *Service) keepCeremony(ctx context.Context, tx *store.Tx, userID string, data *webauthn.SessionData) (string, error) {
	text, err := json.Marshal(data)
	if err != nil {
		return "", err
	}
	id := randomText(ceremonyText)
	_, err = tx.Exec(ctx, `INSERT INTO passkey_ceremonies (id, user_id, data, expires_at) VALUES (?, ?, ?, ?)`, id, userID, string(text), store.Micros(s.clock().Add(ceremonyFor)))
	return id, err
}

// takeCeremony returns what an authenticator was asked; it can be taken once.
func (s *Service) takeCeremony(ctx context.Context, id, userID string) (webauthn.SessionData, error) {
	var data webauthn.SessionData
	err := s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		var text string
		err := tx.QueryRow(ctx, `SELECT data FROM passkey_ceremonies WHERE id = ? AND user_id = ? AND expires_at > ?`+tx.ForUpdate(), id, userID, store.Micros(s.clock())).Scan(&text)
		if errors.Is(err, store.ErrNoRows) {
			return errPasskey
		}
		if err != nil {
			return err
		}
		if n, err := tx.Exec(ctx, `DELETE FROM passkey_ceremonies WHERE id = ?`, id); err != nil || n == 0 {
			return errors.Join(err, errPasskey)
		}
		return json.Unmarshal([]byte(text), &data)
	})
	// The library reads the machine's clock; the ceremony's end was checked by ours.
	data.Expires = time.Time{}
	return data, err
}

// Passkeys returns p's own passkeys, oldest first.
func (s *Service) Passkeys(ctx context.Context, p Principal) ([]Passkey, error) {
	var out []Passkey
	err := s.db.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		_, out, err = passkeysOf(ctx, tx, User{ID: p.UserID})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list passkeys: %w", err)
	}
	return out, nil
}

// BeginPasskey asks for a new passkey of p's: options are for the browser, as in
// PublicKeyCredentialCreationOptionsJSON. It asks for the password, as a stolen session
// must not be able to stay.
func (s *Service) BeginPasskey(ctx context.Context, p Principal, password string) (ceremony string, options []byte, err error) {
	if s.passkeys == nil {
		return "", nil, errPasskeysOff
	}
	if err := s.reauthenticate(ctx, p, password, "body.password"); err != nil {
		return "", nil, err
	}
	err = s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		u, err := getUser(ctx, tx, p.AccountID, p.UserID)
		if err != nil {
			return err
		}
		h, list, err := passkeysOf(ctx, tx, u)
		if err != nil {
			return err
		}
		if len(list) >= maxPasskeys {
			return fault.New(fault.Conflict, "passkey_limit", "you have %d passkeys, which is the most; remove one first", len(list))
		}
		var known []protocol.CredentialDescriptor
		for _, c := range h.credentials {
			known = append(known, c.Descriptor())
		}
		creation, data, err := s.passkeys.BeginRegistration(h, webauthn.WithExclusions(known))
		if err != nil {
			return err
		}
		if options, err = json.Marshal(creation.Response); err != nil {
			return err
		}
		ceremony, err = s.keepCeremony(ctx, tx, u.ID, data)
		return err
	})
	if err != nil {
		return "", nil, fmt.Errorf("add a passkey: %w", err)
	}
	return ceremony, options, nil
}

// AddPasskey keeps the passkey that an authenticator made for BeginPasskey.
func (s *Service) AddPasskey(ctx context.Context, p Principal, ceremony, name string, answer []byte) (Passkey, error) {
	if s.passkeys == nil {
		return Passkey{}, errPasskeysOff
	}
	if err := checkName(name, "body.name"); err != nil {
		return Passkey{}, err
	}
	data, err := s.takeCeremony(ctx, ceremony, p.UserID)
	if err != nil {
		return Passkey{}, fmt.Errorf("add a passkey: %w", err)
	}
	if len(answer) > maxCeremony {
		return Passkey{}, errPasskey
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(answer)
	if err != nil {
		return Passkey{}, errPasskey
	}
	out := Passkey{ID: ident.New(ident.Passkey), Name: name, CreatedAt: store.Time(store.Micros(s.clock()))}
	err = s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		u, err := getUser(ctx, tx, p.AccountID, p.UserID)
		if err != nil {
			return err
		}
		c, err := s.passkeys.CreateCredential(&holder{user: u}, data, parsed)
		if err != nil {
			s.log.WarnContext(ctx, "passkey refused", "user_id", u.ID, "error", err)
			return errPasskey
		}
		out.Synced = c.Flags.BackupState
		text, err := json.Marshal(c)
		if err != nil {
			return err
		}
		n, err := tx.Exec(ctx, `INSERT INTO passkeys (id, user_id, credential_id, name, credential, created_at, last_used_at) VALUES (?, ?, ?, ?, ?, ?, 0) ON CONFLICT (credential_id) DO NOTHING`,
			out.ID, u.ID, credentialID(c.ID), name, string(text), store.Micros(out.CreatedAt))
		if err != nil {
			return err
		}
		if n == 0 {
			return fault.New(fault.Conflict, "passkey_exists", "this passkey is added already")
		}
		return s.Audit(ctx, tx, p, "passkey.create", out.ID, map[string]string{"name": name})
	})
	if err != nil {
		return Passkey{}, fmt.Errorf("add a passkey: %w", err)
	}
	return out, nil
}

// DeletePasskey removes one of p's own passkeys; not the last one of a user who signs
// in by no other means.
func (s *Service) DeletePasskey(ctx context.Context, p Principal, id string) error {
	err := s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		// Locking the account makes two removals of the last two meet.
		if _, err := getAccount(ctx, tx, p.AccountID, tx.ForUpdate()); err != nil {
			return err
		}
		u, err := getUser(ctx, tx, p.AccountID, p.UserID)
		if err != nil {
			return err
		}
		n, err := tx.Exec(ctx, `DELETE FROM passkeys WHERE id = ? AND user_id = ?`, id, p.UserID)
		if err != nil {
			return err
		}
		if n == 0 {
			return fault.New(fault.NotFound, "passkey_not_found", "you have no passkey %q", id)
		}
		var left int64
		if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM passkeys WHERE user_id = ?`, p.UserID).Scan(&left); err != nil {
			return err
		}
		if u.PasskeyOnly && left == 0 {
			return fault.New(fault.Conflict, "last_passkey", "this is your last passkey, and your password does not sign in; let it sign in first, or add another passkey")
		}
		return s.Audit(ctx, tx, p, "passkey.delete", id, nil)
	})
	if err != nil {
		return fmt.Errorf("remove a passkey: %w", err)
	}
	return nil
}

// SetPasskeyOnly says whether p signs in by passkeys alone, the password by itself being
// refused. It asks for the password, which stays for that.
func (s *Service) SetPasskeyOnly(ctx context.Context, p Principal, password string, only bool) error {
	if err := s.reauthenticate(ctx, p, password, "body.password"); err != nil {
		return err
	}
	err := s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if _, err := getAccount(ctx, tx, p.AccountID, tx.ForUpdate()); err != nil {
			return err
		}
		var n int64
		if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM passkeys WHERE user_id = ?`, p.UserID).Scan(&n); err != nil {
			return err
		}
		if only && n == 0 {
			return fault.New(fault.Conflict, "passkey_needed", "you have no passkey; add one first, or nobody could sign in as you")
		}
		if _, err := tx.Exec(ctx, `UPDATE users SET passkey_only = ? WHERE id = ?`, flag(only), p.UserID); err != nil {
			return err
		}
		return s.Audit(ctx, tx, p, "user.passkey_only", p.UserID, map[string]bool{"only": only})
	})
	if err != nil {
		return fmt.Errorf("set how to sign in: %w", err)
	}
	return nil
}

// BeginPasskeySignIn asks for a passkey of anybody's: options are for the browser, as in
// PublicKeyCredentialRequestOptionsJSON. It says nothing of who has one.
func (s *Service) BeginPasskeySignIn(ctx context.Context) (ceremony string, options []byte, err error) {
	if s.passkeys == nil {
		return "", nil, errPasskeysOff
	}
	if _, wait := s.perIP.Take(network(OriginFrom(ctx).IP), 1); wait > 0 {
		return "", nil, tooManySignIns(wait)
	}
	assertion, data, err := s.passkeys.BeginDiscoverableLogin(webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return "", nil, fmt.Errorf("sign in by passkey: %w", err)
	}
	if options, err = json.Marshal(assertion.Response); err != nil {
		return "", nil, fmt.Errorf("sign in by passkey: %w", err)
	}
	err = s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		ceremony, err = s.keepCeremony(ctx, tx, "", data)
		return err
	})
	if err != nil {
		return "", nil, fmt.Errorf("sign in by passkey: %w", err)
	}
	return ceremony, options, nil
}

// SignInByPasskey returns a new session for the user whose passkey has answered
// BeginPasskeySignIn. A passkey is asked for a PIN, a face or a finger, so no second
// factor is asked for. Fault codes: passkey_invalid, user_disabled, account_suspended,
// sign_in_throttled.
func (s *Service) SignInByPasskey(ctx context.Context, ceremony string, answer []byte) (Session, error) {
	if s.passkeys == nil {
		return Session{}, errPasskeysOff
	}
	if _, wait := s.perIP.Take(network(OriginFrom(ctx).IP), 1); wait > 0 {
		return Session{}, tooManySignIns(wait)
	}
	data, err := s.takeCeremony(ctx, ceremony, "")
	if err != nil {
		return Session{}, fmt.Errorf("sign in by passkey: %w", err)
	}
	if len(answer) > maxCeremony {
		return Session{}, errPasskey
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(answer)
	if err != nil {
		return Session{}, errPasskey
	}
	var session Session
	err = s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		var h *holder
		var suspended int64
		find := func(_, handle []byte) (webauthn.User, error) {
			var u User
			var disabled int64
			err := tx.QueryRow(ctx, `SELECT u.id, u.account_id, u.email, u.name, u.disabled, a.suspended FROM users u JOIN accounts a ON a.id = u.account_id WHERE u.id = ?`+tx.ForUpdate(), string(handle)).
				Scan(&u.ID, &u.AccountID, &u.Email, &u.Name, &disabled, &suspended)
			if err != nil {
				return nil, err
			}
			u.Disabled = disabled == 1
			h, _, err = passkeysOf(ctx, tx, u)
			return h, err
		}
		_, c, err := s.passkeys.ValidatePasskeyLogin(find, data, parsed)
		if err != nil || c.Authenticator.CloneWarning {
			s.log.WarnContext(ctx, "sign-in by passkey refused", "ip", OriginFrom(ctx).IP, "error", err)
			return errPasskey
		}
		// Said only to one who has shown who he is.
		if h.user.Disabled {
			return fault.New(fault.Forbidden, "user_disabled", "this user is disabled; ask an owner of the account")
		}
		if suspended == 1 {
			return errSuspended
		}
		text, err := json.Marshal(c)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE passkeys SET credential = ?, last_used_at = ? WHERE id = ?`, string(text), store.Micros(s.clock()), h.ids[credentialID(c.ID)]); err != nil {
			return err
		}
		session, err = s.beginSession(ctx, tx, h.user, "passkey")
		return err
	})
	if err != nil {
		return Session{}, fmt.Errorf("sign in by passkey: %w", err)
	}
	return session, nil
}

package trial

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Terms is what an operator's trials are.
type Terms struct {
	Worth       money.Amount // 0: there are no trials
	Currency    money.Currency
	ValidFor    time.Duration // from the first use
	MaxGPUs     int           // at once; 0: no bound of its own
	EgressPorts []int         // that instances may reach outside; none: all
	PerNetwork  int           // trials in networkFor; 0: no bound
}

// networkFor is how long a trial counts for its network.
const networkFor = 30 * 24 * time.Hour

// Money is what trial needs of billing.
type Money interface {
	GiveTrial(ctx context.Context, tx *store.Tx, accountID string, currency money.Currency, amount money.Amount, validFor time.Duration) (billing.Grant, error)
	Grants(ctx context.Context, accountID string) ([]billing.Grant, error)
}

// Accounts is what trial needs of account.
type Accounts interface {
	User(ctx context.Context, accountID, id string) (account.User, error)
	Users(ctx context.Context, accountID, cursor string, limit int) ([]account.User, error)
	Account(ctx context.Context, id string) (account.Account, error)
	Audit(ctx context.Context, tx *store.Tx, p account.Principal, action, subject string, detail any) error
}

// Config is what a Service needs.
type Config struct {
	DB       *store.DB
	Clock    func() time.Time
	Secret   []byte // the cloud's master key, 32 bytes
	Terms    Terms
	Money    Money
	Accounts Accounts
	// Send sends a mail; nil: codes cannot be sent, and operators verify contacts.
	Send func(ctx context.Context, to, subject, text string) error
}

// Service gives trials. It is safe for concurrent use, on several replicas.
type Service struct {
	cfg Config
	key []byte
}

// New returns a Service.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Clock == nil || cfg.Money == nil || cfg.Accounts == nil || len(cfg.Secret) != 32 {
		return nil, errors.New("trial: a dependency is missing from the configuration")
	}
	if cfg.Terms.Worth < 0 || cfg.Terms.Worth > 0 && (cfg.Terms.ValidFor < time.Second || !cfg.Terms.Currency.Valid()) {
		return nil, fmt.Errorf("trial: %s for %s: want an amount of a currency for at least a second", cfg.Terms.Worth, cfg.Terms.ValidFor)
	}
	key, err := hkdf.Key(sha256.New, cfg.Secret, nil, "suanli trial 1", 32)
	if err != nil {
		return nil, fmt.Errorf("trial: %w", err)
	}
	return &Service{cfg: cfg, key: key}, nil
}

// Migrate brings the tables up to date.
func (s *Service) Migrate(ctx context.Context) error {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return s.cfg.DB.Migrate(ctx, "trial", sub)
}

// digest is a keyed digest of parts of one kind.
func (s *Service) digest(kind string, parts ...string) string {
	h := hmac.New(sha256.New, s.key)
	for _, p := range append([]string{kind}, parts...) {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// NewDevice returns an identifier for a client to keep, which Start takes as its
// device.
func (s *Service) NewDevice() string {
	id := rand.Text()
	return id + "." + s.seal(id)
}

func (s *Service) seal(id string) string {
	mac := hmac.New(sha256.New, s.key)
	fmt.Fprintf(mac, "device seal %s", id)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// device returns the digest of a device's identifier, if this cloud has signed it.
func (s *Service) device(signed string) (string, error) {
	id, seal, _ := strings.Cut(signed, ".")
	if id == "" || !hmac.Equal([]byte(seal), []byte(s.seal(id))) {
		return "", fault.New(fault.Invalid, "trial_device_unknown", "the device's identifier is not one of this cloud's; ask for one and send it as it is").At("body.device")
	}
	return s.digest("device", id), nil
}

// contact is the digest of an e-mail address, however its owner can write it: what
// follows a + is the owner's own choice, and some providers ignore dots.
func (s *Service) contact(email string) string {
	name, domain, _ := strings.Cut(strings.ToLower(email), "@")
	name, _, _ = strings.Cut(name, "+")
	if domain == "googlemail.com" {
		domain = "gmail.com"
	}
	if domain == "gmail.com" {
		name = strings.ReplaceAll(name, ".", "")
	}
	return s.digest("contact", name+"@"+domain)
}

// network is the digest of the network that an address is in.
func (s *Service) network(ip string) (string, error) {
	a, err := netip.ParseAddr(ip)
	if err != nil {
		return "", fault.New(fault.Forbidden, "trial_network_unknown", "it cannot be seen which network this comes from; ask the operator for a trial")
	}
	a = a.Unmap().WithZone("")
	bits := 48
	if a.Is4() {
		bits = 24
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return "", fmt.Errorf("network of %s: %w", ip, err)
	}
	return s.digest("network", p.String()), nil
}

// State is what an account has of trials.
type State struct {
	Offered   bool // this cloud has trials
	Terms     Terms
	Mail      bool // codes can be sent
	Verified  bool // some contact of the account is
	Grant     *billing.Grant
	StartedAt time.Time
}

// Show returns what the caller's account has.
func (s *Service) Show(ctx context.Context, p account.Principal) (State, error) {
	st := State{Offered: s.cfg.Terms.Worth > 0, Terms: s.cfg.Terms, Mail: s.cfg.Send != nil}
	list, err := s.cfg.Money.Grants(ctx, p.AccountID)
	if err != nil {
		return st, err
	}
	for _, g := range list {
		if g.Kind == billing.GrantTrial {
			st.Grant, st.StartedAt = &g, g.CreatedAt
		}
	}
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		var n int64
		err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM trial_contacts WHERE account_id = ? AND verified_at <> 0`, p.AccountID).Scan(&n)
		st.Verified = n > 0
		return err
	})
	return st, err
}

// Start gives the caller's account its trial. Asked again, it returns the same one.
// Limits that are reached are Forbidden faults "trial_contact" and "trial_device" and a
// TooMany fault "trial_network"; without a verified contact it is "contact_unverified".
func (s *Service) Start(ctx context.Context, p account.Principal, device string) (State, error) {
	t := s.cfg.Terms
	if t.Worth <= 0 {
		return State{}, fault.New(fault.NotFound, "trial_off", "this cloud has no trials")
	}
	a, err := s.cfg.Accounts.Account(ctx, p.AccountID)
	if err != nil {
		return State{}, err
	}
	if a.Currency != t.Currency {
		return State{}, fault.New(fault.Invalid, "currency_mismatch", "trials are in %s and the account in %s", t.Currency, a.Currency)
	}
	deviceDigest, err := s.device(device)
	if err != nil {
		return State{}, err
	}
	network, err := s.network(account.OriginFrom(ctx).IP)
	if err != nil {
		return State{}, err
	}
	now := s.cfg.Clock()
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		var turn int64
		if err := tx.QueryRow(ctx, `SELECT id FROM trial_turn WHERE id = 1`+tx.ForUpdate()).Scan(&turn); err != nil {
			return err
		}
		counts := func(where string, args ...any) (n int64, err error) {
			err = tx.QueryRow(ctx, `SELECT COUNT(*) FROM trial_starts WHERE `+where, args...).Scan(&n)
			return n, err
		}
		if n, err := counts(`account_id = ?`, p.AccountID); err != nil || n > 0 {
			return err // it was started
		}
		var contact string
		err := tx.QueryRow(ctx, `SELECT contact FROM trial_contacts WHERE account_id = ? AND verified_at <> 0 ORDER BY verified_at LIMIT 1`, p.AccountID).Scan(&contact)
		if errors.Is(err, store.ErrNoRows) {
			return fault.New(fault.Forbidden, "contact_unverified", "a trial needs a contact that is verified; ask for a code and send it back")
		}
		if err != nil {
			return err
		}
		for _, limit := range []struct {
			where string
			args  []any
			most  int64
			fault error
		}{
			{`contact = ?`, []any{contact}, 1, fault.New(fault.Forbidden, "trial_contact", "this contact has had its trial, for another account")},
			{`device = ?`, []any{deviceDigest}, 1, fault.New(fault.Forbidden, "trial_device", "this device has had its trial, for another account")},
			{`network = ? AND started_at > ?`, []any{network, store.Micros(now.Add(-networkFor))}, int64(t.PerNetwork),
				fault.New(fault.TooMany, "trial_network", "%d trials were started from this network in the last 30 days, and no more are; ask the operator for one", t.PerNetwork)},
		} {
			if n, err := counts(limit.where, limit.args...); err != nil || limit.most > 0 && n >= limit.most {
				return errors.Join(err, limit.fault)
			}
		}
		g, err := s.cfg.Money.GiveTrial(ctx, tx, p.AccountID, t.Currency, t.Worth, t.ValidFor)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE trial_starts SET network = '' WHERE network <> '' AND started_at <= ?`, store.Micros(now.Add(-networkFor))); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO trial_starts (account_id, grant_id, contact, device, network, started_at) VALUES (?, ?, ?, ?, ?, ?)`,
			p.AccountID, g.ID, contact, deviceDigest, network, store.Micros(now)); err != nil {
			return err
		}
		return s.cfg.Accounts.Audit(ctx, tx, p, "trial.start", g.ID, map[string]string{"amount": g.Amount.String()})
	})
	if err != nil {
		return State{}, fmt.Errorf("start a trial: %w", err)
	}
	return s.Show(ctx, p)
}

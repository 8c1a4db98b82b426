package fleet

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

// JoinToken is what a new join token is made with.
type JoinToken struct {
	Name               string // of the host; empty: the host's own
	Region, Zone, Rack string // empty: the operator's defaults
	// Lifetime is how long it may be used; 0: one hour. At most 30 days.
	Lifetime time.Duration
}

// CreateJoinToken makes a token that lets one host join p's account, once. It
// is stored as a hash and cannot be shown again. Where only operators host,
// anybody else gets the fault "hosting_by_operator".
func (s *Service) CreateJoinToken(ctx context.Context, p account.Principal, t JoinToken) (token string, expires time.Time, err error) {
	if s.cfg.OperatorsHost && !p.Operator {
		return "", time.Time{}, fault.New(fault.Forbidden, "hosting_by_operator", "a token for a host was asked for; on this cloud only an operator makes them, so ask one for a token")
	}
	if err := checkLifetime(&t.Lifetime); err != nil {
		return "", time.Time{}, err
	}
	if t.Region == "" {
		if t.Zone != "" {
			return "", time.Time{}, fault.New(fault.Invalid, "unknown_zone", "zone %q was given without its region; give both", t.Zone).At("body.region")
		}
		t.Region, t.Zone = s.cfg.Defaults.Region, s.cfg.Defaults.Zone
	}
	if !s.cfg.Catalog.HasZone(t.Region, t.Zone) {
		return "", time.Time{}, fault.New(fault.Invalid, "unknown_zone",
			"there is no region %q with zone %q; the operator lists them in regions.yaml, and GET /v1/regions shows them", t.Region, t.Zone).At("body.zone")
	}
	if err := checkSeen("a host's name", t.Name, "body.name"); err != nil {
		return "", time.Time{}, err
	}
	if err := checkSeen("a rack", t.Rack, "body.rack"); err != nil {
		return "", time.Time{}, err
	}
	if len(t.Name) > 100 || len(t.Rack) > 100 {
		return "", time.Time{}, fault.New(fault.Invalid, "too_long", "a host's name and rack can have up to 100 bytes").At("body.name")
	}
	return s.makeToken(ctx, p, hostToken, t)
}

func checkLifetime(d *time.Duration) error {
	if *d == 0 {
		*d = time.Hour
	}
	if *d < time.Minute || *d > 30*24*time.Hour {
		return fault.New(fault.Invalid, "bad_lifetime",
			"a join token for %s was asked for; it can be used for 1 minute to 30 days", *d).At("body.expires_in_seconds")
	}
	return nil
}

func (s *Service) makeToken(ctx context.Context, p account.Principal, kind tokenKind, t JoinToken) (token string, expires time.Time, err error) {
	var secret [24]byte
	rand.Read(secret[:])
	token = "join-" + hex.EncodeToString(secret[:])
	now := s.clock()
	expires = now.Add(t.Lifetime).UTC()
	id := ident.New(ident.Token)
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO fleet_join_tokens (id, kind, account_id, token_hash, name, region, zone, rack, created_by, created_at, expires_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			id, string(kind), p.AccountID, hashToken(token), t.Name, t.Region, t.Zone, t.Rack, p.UserID, store.Micros(now), store.Micros(expires))
		if err != nil {
			return err
		}
		return s.audit(ctx, tx, p, string(kind)+".create_join_token", id, map[string]string{"name": t.Name, "region": t.Region, "zone": t.Zone})
	})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("create join token: %w", err)
	}
	if s.cfg.TokenSuffix != "" {
		token += "." + s.cfg.TokenSuffix
	}
	return token, expires, nil
}

func hashToken(token string) string {
	secret, _, _ := strings.Cut(token, ".")
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func (s *Service) audit(ctx context.Context, tx *store.Tx, p account.Principal, action, subject string, detail any) error {
	if s.cfg.Audit == nil {
		return nil
	}
	return s.cfg.Audit(ctx, tx, p, action, subject, detail)
}

// busKey is a NATS user's public key.
var busKey = regexp.MustCompile(`^U[A-Z2-7]{55}$`)

// checkSeen refuses a text that does not look like what it is.
func checkSeen(what, text, location string) error {
	if r, found := ident.Hidden(text); found {
		return fault.New(fault.Invalid, "text_invalid", "%s holds the control character %U, which nobody sees; leave it out", what, r).At(location)
	}
	return nil
}

func checkEnrolment(r protocol.EnrolRequest) error {
	if r.Version != protocol.Version {
		return fault.New(fault.Invalid, "version_unsupported",
			"this agent (build %q) speaks protocol version %d and the cloud speaks %d; install the agent of the cloud's own release", r.Build, r.Version, protocol.Version).At("body.version")
	}
	if !busKey.MatchString(r.BusKey) {
		return fault.New(fault.Invalid, "bad_bus_key", "bus_key is not a public user key (56 characters that start with U)").At("body.bus_key")
	}
	if len(r.Name) > 100 || len(r.Build) > 100 {
		return fault.New(fault.Invalid, "too_long", "name and build can have up to 100 bytes").At("body.name")
	}
	return checkSeen("the machine's name", r.Name, "body.name")
}

// Enrol lets a host join with a one-time token. sign makes its client
// certificate from its certificate request. The caller completes the reply with
// the authority and the address to dial. Repeating an enrolment whose answer was
// lost, with the same token and key, gives the same host.
func (s *Service) Enrol(ctx context.Context, r protocol.EnrolRequest, sign func(csr, hostID string) (certificate string, err error)) (protocol.EnrolReply, error) {
	var none protocol.EnrolReply
	if err := checkEnrolment(r); err != nil {
		return none, err
	}
	if r.Simulated && !s.cfg.AllowSimulated {
		return none, fault.New(fault.Forbidden, "simulated_refused",
			"this host would offer simulated GPUs, which this cloud does not allow; join without --simulate, or ask the cloud's operator to start the cloud with allow_simulated")
	}
	fresh := ident.New(ident.Host)
	var hostID string
	err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		hostID, err = s.enrol(ctx, tx, r, fresh)
		return err
	})
	if err != nil {
		if _, ok := fault.As(err); ok {
			return none, err
		}
		return none, fmt.Errorf("enrol host: %w", err)
	}
	certificate, err := sign(r.CSR, hostID)
	if err != nil {
		return none, fault.New(fault.Invalid, "bad_csr", "the certificate request cannot be signed: %w", err).At("body.csr")
	}
	if err := s.reload(ctx, hostID); err != nil {
		return none, fmt.Errorf("enrol host: %w", err)
	}
	s.log.InfoContext(ctx, "host enrolled", "host_id", hostID, "name", r.Name, "simulated", r.Simulated)
	return protocol.EnrolReply{HostID: hostID, Certificate: certificate}, nil
}

// tokenKind is what a join token lets in.
type tokenKind string

const (
	hostToken    tokenKind = "host"
	gatewayToken tokenKind = "gateway"
)

// command is what makes another token of the kind.
func (k tokenKind) command() string { return "suanli " + string(k) + " token" }

// joinToken is a stored token.
type joinToken struct {
	id, account, name, region, zone, rack string
	used                                  bool
	joined                                string // what used it
}

// readToken returns the token of a request, which may be used: by nobody so far,
// or by the machine that asks, again.
func (s *Service) readToken(ctx context.Context, tx *store.Tx, kind tokenKind, r protocol.EnrolRequest, now time.Time) (joinToken, error) {
	var t joinToken
	var key string
	var of tokenKind
	var expires, used int64
	err := tx.QueryRow(ctx, `SELECT id, kind, account_id, name, region, zone, rack, bus_key, host_id, expires_at, used_at
		FROM fleet_join_tokens WHERE token_hash = ?`+tx.ForUpdate(), hashToken(r.Token)).
		Scan(&t.id, &of, &t.account, &t.name, &t.region, &t.zone, &t.rack, &key, &t.joined, &expires, &used)
	t.used = used != 0
	switch {
	case errors.Is(err, store.ErrNoRows):
		return t, fault.New(fault.Unauthorized, "join_token_invalid", "this join token is not known here; make one with: %s", kind.command())
	case err != nil:
		return t, err
	case of != kind:
		return t, fault.New(fault.Unauthorized, "join_token_invalid", "this join token lets a %s join, and this is a %s; make another with: %s", of, kind, kind.command())
	case t.used && key != r.BusKey:
		return t, fault.New(fault.Conflict, "join_token_used", "this join token was used by another machine; each lets one machine join, make a new one with: %s", kind.command())
	case !t.used && now.After(store.Time(expires)):
		return t, fault.New(fault.Unauthorized, "join_token_expired", "this join token expired at %s; make a new one with: %s", store.Time(expires).Format(time.RFC3339), kind.command())
	}
	return t, nil
}

func (s *Service) useToken(ctx context.Context, tx *store.Tx, t joinToken, r protocol.EnrolRequest, joined string, now time.Time) error {
	_, err := tx.Exec(ctx, `UPDATE fleet_join_tokens SET used_at = ?, bus_key = ?, host_id = ? WHERE id = ?`, store.Micros(now), r.BusKey, joined, t.id)
	return err
}

func (s *Service) enrol(ctx context.Context, tx *store.Tx, r protocol.EnrolRequest, hostID string) (string, error) {
	now := s.clock()
	t, err := s.readToken(ctx, tx, hostToken, r, now)
	if err != nil || t.used {
		return t.joined, err
	}
	name := t.name
	if name == "" {
		name = r.Name
	}
	simulated := int64(0)
	if r.Simulated {
		simulated = 1
	}
	listing, err := json.Marshal(Listing{})
	if err != nil {
		return "", err
	}
	var owner string
	var wasSimulated int64
	err = tx.QueryRow(ctx, `SELECT id, account_id, simulated FROM fleet_hosts WHERE bus_key = ?`, r.BusKey).Scan(&hostID, &owner, &wasSimulated)
	switch {
	case errors.Is(err, store.ErrNoRows):
		_, err = tx.Exec(ctx, `INSERT INTO fleet_hosts (id, account_id, name, region, zone, rack, bus_key, build, simulated, created_at, listing)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			hostID, t.account, name, t.region, t.zone, t.rack, r.BusKey, r.Build, simulated, store.Micros(now), string(listing))
	case err != nil:
		return "", err
	case owner != t.account:
		return "", fault.New(fault.Conflict, "host_enrolled", "this machine's key belongs to a host of another account; remove the agent's state folder to join as a new host")
	case wasSimulated != simulated:
		return "", fault.New(fault.Conflict, "host_enrolled", "this machine joined before, and simulated and real hardware cannot be exchanged; remove the agent's state folder to join as a new host")
	default:
		_, err = tx.Exec(ctx, `UPDATE fleet_hosts SET name = ?, region = ?, zone = ?, rack = ?, build = ? WHERE id = ?`,
			name, t.region, t.zone, t.rack, r.Build, hostID)
	}
	if err != nil {
		return "", err
	}
	if err := s.useToken(ctx, tx, t, r, hostID, now); err != nil {
		return "", err
	}
	return hostID, s.audit(ctx, tx, account.Principal{AccountID: t.account}, "host.enrol", hostID, map[string]any{"name": name, "simulated": r.Simulated})
}

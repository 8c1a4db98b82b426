package lease

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/store"
)

// Bounds on how long a link to a port may open it.
const (
	linkShortest = time.Minute
	linkLongest  = 366 * 24 * time.Hour
)

// linkKey is what links to a lease's ports are made from, sealed in its row. A
// link is not kept: it proves itself, and revoking changes what it must prove.
type linkKey struct {
	Secret string `json:"secret"`
	// Rounds counts, by port, how often its links were revoked.
	Rounds map[int]int64 `json:"rounds,omitempty"`
}

func newLinkKey() linkKey { return linkKey{Secret: rand.Text()} }

func (s *Service) sealLinkKey(k linkKey) (string, error) { return s.seal([]byte(mustJSON(k))) }

func (s *Service) linkKey(l *Lease) (linkKey, error) {
	var k linkKey
	b, err := s.unseal(l.accessToken)
	if err != nil {
		return k, fmt.Errorf("links of lease %s: %w", l.ID, err)
	}
	if !strings.HasPrefix(string(b), "{") {
		return linkKey{Secret: string(b)}, nil // as leases were written before links had ports
	}
	return k, json.Unmarshal(b, &k)
}

// proof is what a token must show besides what it claims.
func (k linkKey) proof(leaseID string, port int, until int64) string {
	mac := hmac.New(sha256.New, []byte(k.Secret))
	fmt.Fprintf(mac, "port link\n%s\n%d\n%d\n%d", leaseID, port, until, k.Rounds[port])
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:20])
}

// PortToken is a secret that opens one port of the lease, and no other, until
// then; zero: as long as the lease lives. RevokeLinks ends it before.
func (s *Service) PortToken(l *Lease, port int, until time.Time) (string, error) {
	k, err := s.linkKey(l)
	if err != nil {
		return "", err
	}
	var end int64
	if !until.IsZero() {
		end = until.Unix()
	}
	return fmt.Sprintf("%d-%d-%s", port, end, k.proof(l.ID, port, end)), nil
}

// CheckPortToken says whether the token opens this port now: nil, or a fault of
// kind Unauthorized, which tells more only to a holder of a token that was good.
func (s *Service) CheckPortToken(l *Lease, port int, token string) error {
	refused := fault.New(fault.Unauthorized, "token_needed", "this address needs an access token of its lease's port %d", port)
	claimed, rest, _ := strings.Cut(token, "-")
	end, proof, ok := strings.Cut(rest, "-")
	of, err := strconv.Atoi(claimed)
	if err != nil || !ok {
		return refused
	}
	until, err := strconv.ParseInt(end, 10, 64)
	if err != nil {
		return refused
	}
	k, err := s.linkKey(l)
	if err != nil {
		return err
	}
	if !hmac.Equal([]byte(proof), []byte(k.proof(l.ID, of, until))) {
		return refused
	}
	switch {
	case of != port:
		return fault.New(fault.Unauthorized, "token_other_port", "this link opens port %d of the instance, and not port %d; ask whoever gave it to you for one to this port", of, port)
	case until != 0 && s.Clock().Unix() >= until:
		return fault.New(fault.Unauthorized, "token_expired", "this link ended at %s; ask whoever gave it to you for another", time.Unix(until, 0).UTC().Format(time.RFC3339))
	}
	return nil
}

// Link is a way to one port of a lease.
type Link struct {
	Lease *Lease
	Port  int
	Token string
	Until time.Time // zero: as long as the lease lives
}

// MakeLink makes a link to a port that the lease serves, for the duration; zero:
// as long as the lease lives. Only the lease's own account may.
func (s *Service) MakeLink(ctx context.Context, p account.Principal, nameOrID string, port int, lasts time.Duration) (*Link, error) {
	l, err := s.ownLinks(ctx, p, nameOrID)
	if err != nil {
		return nil, err
	}
	if l.State.Over() {
		return nil, fault.New(fault.Gone, "lease_state", "lease %s is %s; nothing of it can be reached any more", l.ID, l.State)
	}
	if port < 1 || port > 65535 {
		return nil, invalid("body.port", "invalid_port", "a link is to one port, from 1 to 65535; got %d", port)
	}
	if lasts != 0 && (lasts < linkShortest || lasts > linkLongest) {
		return nil, invalid("body.expires_in_seconds", "invalid_duration", "a link lasts from %d to %d seconds, or, with 0, as long as its lease; got %d",
			int64(linkShortest/time.Second), int64(linkLongest/time.Second), int64(lasts/time.Second))
	}
	if err := s.serves(l, port); err != nil {
		return nil, err
	}
	link := &Link{Lease: l, Port: port}
	if lasts > 0 {
		link.Until = s.Clock().Add(lasts).UTC().Truncate(time.Second)
	}
	link.Token, err = s.PortToken(l, port, link.Until)
	return link, err
}

func (s *Service) serves(l *Lease, port int) error {
	spec, err := s.open(l)
	if err != nil {
		return err
	}
	if !slices.Contains(spec.Ports, port) {
		return fault.New(fault.NotFound, "port_not_served", "lease %s does not serve port %d; it serves %v", l.ID, port, spec.Ports)
	}
	return nil
}

// ownLinks finds a lease whose links are the caller's to give and take.
func (s *Service) ownLinks(ctx context.Context, p account.Principal, nameOrID string) (*Lease, error) {
	l, err := s.Resolve(ctx, p, nameOrID)
	if err == nil && l.AccountID != p.AccountID {
		// An operator may see a lease; its secrets are its account's alone.
		return nil, fault.New(fault.Forbidden, "own_account_only", "only lease %s's own account may enter it", l.ID)
	}
	return l, err
}

// RevokeLinks ends every link to the port that was given out; 0: to all ports.
// Gateways remember a good token for a few seconds. Links that are made from now
// on are good.
func (s *Service) RevokeLinks(ctx context.Context, p account.Principal, nameOrID string, port int) error {
	l, err := s.ownLinks(ctx, p, nameOrID)
	if err != nil {
		return err
	}
	if port != 0 {
		if err := s.serves(l, port); err != nil {
			return err
		}
	}
	err = s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		now, err := loadLease(ctx, tx, l.ID)
		if err != nil {
			return err
		}
		k, err := s.linkKey(now)
		if err != nil {
			return err
		}
		if port == 0 {
			k = newLinkKey()
		} else {
			if k.Rounds == nil {
				k.Rounds = map[int]int64{}
			}
			k.Rounds[port]++
		}
		sealed, err := s.sealLinkKey(k)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE lease SET access_token=?, version=version+1 WHERE id=?`, sealed, l.ID); err != nil {
			return err
		}
		return s.Tenants.Audit(ctx, tx, p, "lease.revoke_links", l.ID, map[string]int{"port": port})
	})
	if err != nil {
		return err
	}
	fresh, err := s.find(ctx, `id=?`, l.ID)
	if err != nil {
		return err
	}
	s.track(fresh[0])
	return nil
}

package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

// Gateway is a gateway at another place than the control plane's. It may open
// streams on every host, so only operators let one in.
type Gateway struct {
	ID, Name, Build string
	CreatedAt       time.Time
}

// CreateGatewayToken makes a token that lets one gateway join, once, within
// lifetime (0: one hour; at most 30 days). name is the gateway's; empty: its
// machine's own. The token is stored as a hash and cannot be shown again.
func (s *Service) CreateGatewayToken(ctx context.Context, p account.Principal, name string, lifetime time.Duration) (token string, expires time.Time, err error) {
	if err := checkLifetime(&lifetime); err != nil {
		return "", time.Time{}, err
	}
	if len(name) > 100 {
		return "", time.Time{}, fault.New(fault.Invalid, "too_long", "a gateway's name can have up to 100 bytes").At("body.name")
	}
	return s.makeToken(ctx, p, gatewayToken, JoinToken{Name: name, Lifetime: lifetime})
}

// EnrolGateway lets a gateway join with a one-time token, as Enrol does a host.
// The reply's HostID is the gateway's identifier.
func (s *Service) EnrolGateway(ctx context.Context, r protocol.EnrolRequest, sign func(csr, gatewayID string) (certificate string, err error)) (protocol.EnrolReply, error) {
	var none protocol.EnrolReply
	if err := checkEnrolment(r); err != nil {
		return none, err
	}
	fresh := ident.New(ident.Gateway)
	var id string
	err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		id = fresh // the function may run again
		now := s.clock()
		t, err := s.readToken(ctx, tx, gatewayToken, r, now)
		if err != nil {
			return err
		}
		if t.used {
			id = t.joined
			return nil
		}
		if t.name == "" {
			t.name = r.Name
		}
		_, err = tx.Exec(ctx, `INSERT INTO fleet_gateways (id, name, bus_key, build, created_at) VALUES (?, ?, ?, ?, ?)`,
			id, t.name, r.BusKey, r.Build, store.Micros(now))
		if err != nil {
			return err
		}
		if err := s.useToken(ctx, tx, t, r, id, now); err != nil {
			return err
		}
		return s.audit(ctx, tx, account.Principal{AccountID: t.account}, "gateway.enrol", id, map[string]string{"name": t.name})
	})
	if err != nil {
		if _, ok := fault.As(err); ok {
			return none, err
		}
		return none, fmt.Errorf("enrol gateway: %w", err)
	}
	// A repeat must not bring back a gateway that was removed meanwhile.
	if err := s.AdmitGateway(ctx, id); err != nil {
		return none, err
	}
	certificate, err := sign(r.CSR, id)
	if err != nil {
		return none, fault.New(fault.Invalid, "bad_csr", "the certificate request cannot be signed: %w", err).At("body.csr")
	}
	s.log.InfoContext(ctx, "gateway enrolled", "gateway_id", id, "name", r.Name)
	return protocol.EnrolReply{HostID: id, Certificate: certificate}, nil
}

// Gateways lists the gateways that have joined, oldest first.
func (s *Service) Gateways(ctx context.Context) ([]Gateway, error) {
	var list []Gateway
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT id, name, build, created_at FROM fleet_gateways ORDER BY id`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var g Gateway
			var created int64
			if err := rows.Scan(&g.ID, &g.Name, &g.Build, &created); err != nil {
				return err
			}
			g.CreatedAt = store.Time(created)
			list = append(list, g)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list gateways: %w", err)
	}
	return list, nil
}

// AdmitGateway is a fault "unknown_gateway" unless the gateway has joined and
// was not removed.
func (s *Service) AdmitGateway(ctx context.Context, id string) error {
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		var found string
		return tx.QueryRow(ctx, `SELECT id FROM fleet_gateways WHERE id = ?`, id).Scan(&found)
	})
	switch {
	case errors.Is(err, store.ErrNoRows):
		return unknownGateway(id)
	case err != nil:
		return fmt.Errorf("look for gateway %s: %w", id, err)
	}
	return nil
}

// RemoveGateway turns a gateway away for good: it must join again.
func (s *Service) RemoveGateway(ctx context.Context, p account.Principal, id string) error {
	err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		var found string
		err := tx.QueryRow(ctx, `SELECT id FROM fleet_gateways WHERE id = ?`+tx.ForUpdate(), id).Scan(&found)
		if errors.Is(err, store.ErrNoRows) {
			return unknownGateway(id)
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM fleet_gateways WHERE id = ?`, id); err != nil {
			return err
		}
		return s.audit(ctx, tx, p, "gateway.remove", id, nil)
	})
	if err != nil {
		if _, ok := fault.As(err); ok {
			return err
		}
		return fmt.Errorf("remove gateway: %w", err)
	}
	if s.cfg.OnGatewayRemoved != nil {
		s.cfg.OnGatewayRemoved(id)
	}
	return nil
}

func unknownGateway(id string) error {
	return fault.New(fault.NotFound, "unknown_gateway", "gateway %s is not known here; suanli gateway list shows those that are", id)
}

package signup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/store"
)

// invitedFor is how long an invitation can be used.
const invitedFor = 14 * 24 * time.Hour

// Invitation lets an address sign up where only those who are invited may.
type Invitation struct {
	ID        string
	Email     string
	InvitedBy string // a user's identifier
	CreatedAt time.Time
	ExpiresAt time.Time
	UsedAt    time.Time // zero: not yet
}

// Invite lets an address sign up, and tells it so by mail if the cloud sends any. An
// address that is invited already is invited anew, for as long again.
func (s *Service) Invite(ctx context.Context, p account.Principal, email string) (Invitation, error) {
	email, err := account.NormalEmail(email)
	if err != nil {
		return Invitation{}, err
	}
	now := store.Time(store.Micros(s.cfg.Clock()))
	i := Invitation{ID: ident.New(ident.Invitation), Email: email, InvitedBy: p.UserID, CreatedAt: now, ExpiresAt: now.Add(invitedFor)}
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		taken, err := s.cfg.Accounts.EmailTaken(ctx, tx, email)
		if err != nil {
			return err
		}
		if taken {
			return fault.New(fault.Conflict, "email_taken", "there is a user with the e-mail address %s already", email).At("body.email")
		}
		if _, err := tx.Exec(ctx, `DELETE FROM invitations WHERE email = ?`, email); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO invitations (id, email, invited_by, created_at, expires_at, used_at) VALUES (?, ?, ?, ?, ?, 0)`,
			i.ID, i.Email, i.InvitedBy, store.Micros(i.CreatedAt), store.Micros(i.ExpiresAt)); err != nil {
			return err
		}
		return s.cfg.Accounts.Audit(ctx, tx, p, "invitation.create", i.ID, map[string]string{"email": email})
	})
	if err != nil {
		return Invitation{}, fmt.Errorf("invite: %w", err)
	}
	if s.cfg.Send != nil {
		where := ""
		if s.cfg.URL != "" {
			where = "\n\n" + strings.TrimSuffix(s.cfg.URL, "/") + "/sign-up"
		}
		if err := s.cfg.Send(ctx, email, "You are invited 邀请您注册", "You are invited to sign up with this address within 14 days.\n\n邀请您在 14 天内用此邮箱注册。"+where+"\n"); err != nil {
			return i, fault.New(fault.Unavailable, "mail_failed", "%s is invited, and the mail that says so could not be sent: %v; tell them another way", email, err)
		}
	}
	return i, nil
}

// Invitations returns up to limit invitations after cursor, oldest first.
func (s *Service) Invitations(ctx context.Context, cursor string, limit int) ([]Invitation, error) {
	var out []Invitation
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT id, email, invited_by, created_at, expires_at, used_at FROM invitations WHERE id > ? ORDER BY id LIMIT ?`, cursor, limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var i Invitation
			var created, expires, used int64
			if err := rows.Scan(&i.ID, &i.Email, &i.InvitedBy, &created, &expires, &used); err != nil {
				return err
			}
			i.CreatedAt, i.ExpiresAt = store.Time(created), store.Time(expires)
			if used != 0 {
				i.UsedAt = store.Time(used)
			}
			out = append(out, i)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list invitations: %w", err)
	}
	return out, nil
}

// Uninvite takes an invitation back, by its identifier or its address. What was made
// by it stays.
func (s *Service) Uninvite(ctx context.Context, p account.Principal, which string) error {
	err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		var id, email string
		err := tx.QueryRow(ctx, `SELECT id, email FROM invitations WHERE id = ? OR email = ?`, which, strings.ToLower(which)).Scan(&id, &email)
		if errors.Is(err, store.ErrNoRows) {
			return fault.New(fault.NotFound, "invitation_not_found", "there is no invitation %q", which)
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM invitations WHERE id = ?`, id); err != nil {
			return err
		}
		return s.cfg.Accounts.Audit(ctx, tx, p, "invitation.delete", id, map[string]string{"email": email})
	})
	if err != nil {
		return fmt.Errorf("take an invitation back: %w", err)
	}
	return nil
}

package trial

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/store"
)

// A code is six digits, for a quarter of an hour and five tries: who guesses has five
// chances in a million. Mails are bounded, as an address may be somebody else's.
const (
	codeFor    = 15 * time.Minute
	codeTries  = 5
	codeEvery  = time.Minute
	codesADay  = 5
	codeDigits = 6
)

// contactRow is what is known of a user's address.
type contactRow struct {
	contact, code                           string
	sentAt, sends, dayFrom, tries, verified int64
}

func contactOf(ctx context.Context, tx *store.Tx, u account.User) (r contactRow, err error) {
	if _, err := tx.Exec(ctx, `INSERT INTO trial_contacts (user_id, account_id, contact, code, sent_at, sends, day_from, tries, verified_at, verified_by)
		VALUES (?, ?, '', '', 0, 0, 0, 0, 0, '') ON CONFLICT DO NOTHING`, u.ID, u.AccountID); err != nil {
		return r, err
	}
	err = tx.QueryRow(ctx, `SELECT contact, code, sent_at, sends, day_from, tries, verified_at FROM trial_contacts WHERE user_id = ?`+tx.ForUpdate(), u.ID).
		Scan(&r.contact, &r.code, &r.sentAt, &r.sends, &r.dayFrom, &r.tries, &r.verified)
	return r, err
}

// SendCode sends the caller a code that proves that the address is read. A new code
// takes the place of the one before.
func (s *Service) SendCode(ctx context.Context, p account.Principal) error {
	if s.cfg.Terms.Worth <= 0 {
		return fault.New(fault.NotFound, "trial_off", "this cloud has no trials")
	}
	if s.cfg.Send == nil {
		return fault.New(fault.Unavailable, "mail_off", "this cloud sends no mail; ask the operator to verify the contact")
	}
	u, err := s.cfg.Accounts.User(ctx, p.AccountID, p.UserID)
	if err != nil {
		return err
	}
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		return fmt.Errorf("make a code: %w", err)
	}
	code := fmt.Sprintf("%0*d", codeDigits, n.Int64())
	now := s.cfg.Clock()
	// Written before it is sent: a crash in between costs a code, and not the bound.
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		r, err := contactOf(ctx, tx, u)
		if err != nil {
			return err
		}
		if r.verified != 0 {
			return fault.New(fault.Conflict, "contact_verified", "%s is verified already", u.Email)
		}
		if wait := store.Time(r.sentAt).Add(codeEvery).Sub(now); r.sentAt != 0 && wait > 0 {
			return fault.New(fault.TooMany, "code_sent", "a code was sent just now; look at the mail, or ask again in %d seconds", int64(wait/time.Second)+1)
		}
		if r.dayFrom == 0 || !now.Before(store.Time(r.dayFrom).Add(24*time.Hour)) {
			r.dayFrom, r.sends = store.Micros(now), 0
		}
		if r.sends >= codesADay {
			return fault.New(fault.TooMany, "code_limit", "%d codes were sent within a day; try again tomorrow, or ask the operator", codesADay)
		}
		_, err = tx.Exec(ctx, `UPDATE trial_contacts SET contact = ?, code = ?, sent_at = ?, sends = ?, day_from = ?, tries = 0 WHERE user_id = ?`,
			s.contact(u.Email), s.digest("code", u.ID, code), store.Micros(now), r.sends+1, r.dayFrom, u.ID)
		return err
	})
	if err != nil {
		return fmt.Errorf("send a code: %w", err)
	}
	text := fmt.Sprintf("Your code is %s. It can be used for 15 minutes. If you did not ask for it, do nothing.\n\n您的验证码是 %s，15 分钟内有效。如非本人操作，请忽略。\n", code, code)
	if err := s.cfg.Send(ctx, u.Email, "Your code 您的验证码", text); err != nil {
		return fault.New(fault.Unavailable, "mail_failed", "the code could not be sent to %s: %v", u.Email, err)
	}
	return nil
}

// errWrong is a code that was wrong, whose try is written down all the same.
var errWrong = fault.New(fault.Forbidden, "code_wrong", "that is not the code, or it is older than 15 minutes or was tried 5 times; ask for a new one").At("body.code")

// Verify proves the caller's address by the code that was sent to it.
func (s *Service) Verify(ctx context.Context, p account.Principal, code string) (State, error) {
	u, err := s.cfg.Accounts.User(ctx, p.AccountID, p.UserID)
	if err != nil {
		return State{}, err
	}
	now := s.cfg.Clock()
	var wrong bool
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		wrong = false
		r, err := contactOf(ctx, tx, u)
		if err != nil || r.verified != 0 {
			return err
		}
		if r.code == "" || r.tries >= codeTries || !now.Before(store.Time(r.sentAt).Add(codeFor)) {
			return errWrong
		}
		if !hmac.Equal([]byte(r.code), []byte(s.digest("code", u.ID, code))) {
			wrong = true
			_, err := tx.Exec(ctx, `UPDATE trial_contacts SET tries = tries + 1 WHERE user_id = ?`, u.ID)
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE trial_contacts SET code = '', verified_at = ? WHERE user_id = ?`, store.Micros(now), u.ID); err != nil {
			return err
		}
		return s.cfg.Accounts.Audit(ctx, tx, p, "trial.verify", u.ID, nil)
	})
	if err == nil && wrong {
		err = errWrong
	}
	if err != nil {
		return State{}, fmt.Errorf("verify a contact: %w", err)
	}
	return s.Show(ctx, p)
}

// VerifyByHand is an operator's word that a contact of an account is who it says: of
// its first owner.
func (s *Service) VerifyByHand(ctx context.Context, p account.Principal, accountID string) (State, error) {
	if !p.May(account.Operate) {
		return State{}, fault.New(fault.Forbidden, "forbidden", "only an operator can verify contacts by hand")
	}
	users, err := s.cfg.Accounts.Users(ctx, accountID, "", 1000)
	if err != nil {
		return State{}, err
	}
	for _, u := range users {
		if u.Role != account.Owner || u.Disabled {
			continue
		}
		err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			r, err := contactOf(ctx, tx, u)
			if err != nil || r.verified != 0 {
				return err
			}
			if _, err := tx.Exec(ctx, `UPDATE trial_contacts SET contact = ?, code = '', verified_at = ?, verified_by = ? WHERE user_id = ?`,
				s.contact(u.Email), store.Micros(s.cfg.Clock()), p.UserID, u.ID); err != nil {
				return err
			}
			return s.cfg.Accounts.Audit(ctx, tx, p, "trial.verify", u.ID, map[string]string{"account": accountID})
		})
		if err != nil {
			return State{}, fmt.Errorf("verify a contact: %w", err)
		}
		return s.Show(ctx, account.Principal{AccountID: accountID})
	}
	return State{}, errors.Join(fault.New(fault.NotFound, "account_not_found", "there is no account %q with an owner", accountID))
}

// Proven notes that a user has proven to read the mail of his address by another way
// than a code of SendCode: when he signed up. It is part of the caller's transaction.
func (s *Service) Proven(ctx context.Context, tx *store.Tx, u account.User) error {
	r, err := contactOf(ctx, tx, u)
	if err != nil || r.verified != 0 {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE trial_contacts SET contact = ?, code = '', verified_at = ? WHERE user_id = ?`,
		s.contact(u.Email), store.Micros(s.cfg.Clock()), u.ID)
	return err
}

// Terms returns what this cloud's trials are; they are worth 0 where there are none.
func (s *Service) Terms() Terms { return s.cfg.Terms }

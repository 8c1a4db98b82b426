package signup

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"strings"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ratelimit"
	"suanli.dev/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Mode is whom a cloud is open to.
type Mode string

// The modes.
const (
	Open    Mode = "open"    // everybody who reads the mail of an address
	Invited Mode = "invited" // those whose address an operator has invited
	Closed  Mode = "closed"  // nobody: operators make accounts
)

// A code is six digits, for a quarter of an hour and five tries: who guesses has five
// chances in a million for each mail that its owner sees come.
const (
	codeFor   = 15 * time.Minute
	codeTries = 5
	codeEvery = time.Minute
	codesADay = 5
	// kept is how long an address that asked is remembered: as long as it counts.
	kept = 24 * time.Hour
)

// Accounts is what signup needs of account.
type Accounts interface {
	CheckSignUp(c account.CreateAccount) error
	SignUp(ctx context.Context, c account.CreateAccount, proven func(ctx context.Context, tx *store.Tx, u account.User) error) (account.Session, error)
	EmailTaken(ctx context.Context, tx *store.Tx, email string) (bool, error)
	Audit(ctx context.Context, tx *store.Tx, p account.Principal, action, subject string, detail any) error
}

// Config is what a Service needs.
type Config struct {
	DB       *store.DB
	Clock    func() time.Time
	Secret   []byte // the cloud's master key, 32 bytes
	Mode     Mode
	Accounts Accounts
	// Send sends a mail; it may be nil only where Mode is Closed.
	Send func(ctx context.Context, to, subject, text string) error
	// URL is where the console is, for mails; empty: they name none.
	URL string
	// Proven is told of each user whose address was proven, in the transaction that
	// makes the account; nil: nobody is.
	Proven func(ctx context.Context, tx *store.Tx, u account.User) error
}

// Service signs people up. It is safe for concurrent use, on several replicas.
type Service struct {
	cfg     Config
	key     []byte
	asking  *ratelimit.Limiter // codes that one network has sent
	proving *ratelimit.Limiter // codes that one network tries
}

// New returns a Service.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Clock == nil || cfg.Accounts == nil || len(cfg.Secret) != 32 {
		return nil, errors.New("sign-up: a dependency is missing from the configuration")
	}
	switch cfg.Mode {
	case Open, Invited:
		if cfg.Send == nil {
			return nil, fmt.Errorf("sign_up is %q, which needs mail for the codes that prove addresses; set smtp_address and smtp_from, or sign_up to %q", cfg.Mode, Closed)
		}
	case Closed:
	default:
		return nil, fmt.Errorf("sign_up is %q; want %q, %q or %q", cfg.Mode, Open, Invited, Closed)
	}
	key, err := hkdf.Key(sha256.New, cfg.Secret, nil, "suanli sign-up 1", 32)
	if err != nil {
		return nil, fmt.Errorf("sign-up: %w", err)
	}
	return &Service{
		cfg: cfg, key: key,
		asking:  ratelimit.New(ratelimit.Rate{Every: time.Minute, Burst: 10}, cfg.Clock, 50_000),
		proving: ratelimit.New(ratelimit.Rate{Every: 10 * time.Second, Burst: 20}, cfg.Clock, 50_000),
	}, nil
}

// Migrate brings the tables up to date.
func (s *Service) Migrate(ctx context.Context) error {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return s.cfg.DB.Migrate(ctx, "signup", sub)
}

// Mode returns whom the cloud is open to.
func (s *Service) Mode() Mode { return s.cfg.Mode }

func (s *Service) digest(kind string, parts ...string) string {
	h := hmac.New(sha256.New, s.key)
	for _, p := range append([]string{kind}, parts...) {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (s *Service) admit(ctx context.Context, l *ratelimit.Limiter) error {
	if s.cfg.Mode == Closed {
		return fault.New(fault.Forbidden, "sign_up_closed", "nobody signs up to this cloud alone; ask its operator for an account")
	}
	if _, wait := l.Take(account.OriginFrom(ctx).Network(), 1); wait > 0 {
		return fault.New(fault.TooMany, "sign_up_throttled", "too many attempts to sign up came from this network; wait %d seconds", wholeSeconds(wait))
	}
	return nil
}

// wholeSeconds rounds up: who waits for less comes too early.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// What an address is told.
const (
	tellCode      = "code"
	tellTaken     = "taken"
	tellUninvited = "uninvited"
)

// Ask sends an address a mail: with a code to sign up with, or with the reason why
// there is none. Its answer does not tell which.
func (s *Service) Ask(ctx context.Context, email string) error {
	if err := s.admit(ctx, s.asking); err != nil {
		return err
	}
	email, err := account.NormalEmail(email)
	if err != nil {
		return err
	}
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		return fmt.Errorf("make a code: %w", err)
	}
	code := fmt.Sprintf("%06d", n.Int64())
	contact, now := s.digest("contact", email), s.cfg.Clock()
	var tell string
	// Written before it is sent: a crash in between costs a code, and not the bound.
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM sign_ups WHERE sent_at <= ? AND day_from <= ? AND contact <> ?`, store.Micros(now.Add(-kept)), store.Micros(now.Add(-kept)), contact); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO sign_ups (contact, code, sent_at, sends, day_from, tries) VALUES (?, '', 0, 0, 0, 0) ON CONFLICT DO NOTHING`, contact); err != nil {
			return err
		}
		var sent, sends, from int64
		if err := tx.QueryRow(ctx, `SELECT sent_at, sends, day_from FROM sign_ups WHERE contact = ?`+tx.ForUpdate(), contact).Scan(&sent, &sends, &from); err != nil {
			return err
		}
		// A clock that was ahead, and is right again, must not keep an address waiting;
		// those of two replicas may differ a little.
		if wait := store.Time(sent).Add(codeEvery).Sub(now); sent != 0 && wait > 0 && wait <= 2*codeEvery {
			return fault.New(fault.TooMany, "code_sent", "a mail was sent just now; look for it, or ask again in %d seconds", wholeSeconds(wait))
		}
		if from == 0 || !now.Before(store.Time(from).Add(kept)) || now.Add(codeEvery).Before(store.Time(from)) {
			from, sends = store.Micros(now), 0
		}
		if sends >= codesADay {
			return fault.New(fault.TooMany, "code_limit", "%d mails were sent within a day; try again tomorrow, or ask the operator", codesADay)
		}
		var err error
		if tell, err = s.standing(ctx, tx, email, now); err != nil {
			return err
		}
		sealed := ""
		if tell == tellCode {
			sealed = s.digest("code", contact, code)
		}
		_, err = tx.Exec(ctx, `UPDATE sign_ups SET code = ?, sent_at = ?, sends = ?, day_from = ?, tries = 0 WHERE contact = ?`,
			sealed, store.Micros(now), sends+1, from, contact)
		return err
	})
	if err != nil {
		return fmt.Errorf("ask for a code: %w", err)
	}
	subject, text := s.mail(tell, code)
	if err := s.cfg.Send(ctx, email, subject, text); err != nil {
		return fault.New(fault.Unavailable, "mail_failed", "the mail could not be sent to %s: %v", email, err)
	}
	return nil
}

// standing is what an address is to be told.
func (s *Service) standing(ctx context.Context, tx *store.Tx, email string, now time.Time) (string, error) {
	taken, err := s.cfg.Accounts.EmailTaken(ctx, tx, email)
	if err != nil {
		return "", err
	}
	if taken {
		return tellTaken, nil
	}
	if s.cfg.Mode == Invited {
		var n int64
		if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM invitations WHERE email = ? AND used_at = 0 AND expires_at > ?`, email, store.Micros(now)).Scan(&n); err != nil {
			return "", err
		}
		if n == 0 {
			return tellUninvited, nil
		}
	}
	return tellCode, nil
}

func (s *Service) mail(tell, code string) (subject, text string) {
	switch tell {
	case tellTaken:
		return "You have an account 您已有账户", strings.TrimSpace("Somebody asked to sign up with this address, which has an account already: sign in with it. If it was not you, do nothing.\n\n有人用此邮箱申请注册，而该邮箱已有账户：请直接登录。如非本人操作，请忽略。\n\n"+s.cfg.URL) + "\n"
	case tellUninvited:
		return "Not invited 未获邀请", "Somebody asked to sign up with this address. This cloud is open to invited addresses only, and this is none of them: ask its operator. If it was not you, do nothing.\n\n有人用此邮箱申请注册。此云仅对受邀邮箱开放，而该邮箱未获邀请：请联系运营者。如非本人操作，请忽略。\n"
	}
	return "Your code 您的验证码", fmt.Sprintf("Your code to sign up is %s. It can be used for 15 minutes. If you did not ask for it, do nothing.\n\n您的注册验证码是 %s，15 分钟内有效。如非本人操作，请忽略。\n", code, code)
}

// errWrong is a code that was wrong, whose try is written down all the same.
var errWrong = fault.New(fault.Forbidden, "code_wrong", "that is not the code of this address, or it is older than 15 minutes or was tried 5 times; ask for a new one").At("body.code")

// Complete makes the account of somebody who has the code of its address, and signs its
// owner in. A code is spent by it, and not by what is refused for another reason.
func (s *Service) Complete(ctx context.Context, c account.CreateAccount, code string) (account.Session, error) {
	if err := s.admit(ctx, s.proving); err != nil {
		return account.Session{}, err
	}
	if err := s.cfg.Accounts.CheckSignUp(c); err != nil {
		return account.Session{}, err
	}
	email, err := account.NormalEmail(c.Email)
	if err != nil {
		return account.Session{}, err
	}
	contact, now := s.digest("contact", email), s.cfg.Clock()
	sealed := s.digest("code", contact, code)
	// Before a password is hashed, which is work: a stranger has to have the code.
	right := false
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		right = false
		var want string
		var sent, tries int64
		err := tx.QueryRow(ctx, `SELECT code, sent_at, tries FROM sign_ups WHERE contact = ?`+tx.ForUpdate(), contact).Scan(&want, &sent, &tries)
		if errors.Is(err, store.ErrNoRows) {
			return nil
		}
		if err != nil || want == "" || tries >= codeTries || !now.Before(store.Time(sent).Add(codeFor)) || now.Add(codeEvery).Before(store.Time(sent)) {
			return err
		}
		if right = hmac.Equal([]byte(want), []byte(sealed)); right {
			return nil
		}
		_, err = tx.Exec(ctx, `UPDATE sign_ups SET tries = tries + 1 WHERE contact = ?`, contact)
		return err
	})
	if err != nil {
		return account.Session{}, fmt.Errorf("sign up: %w", err)
	}
	if !right {
		return account.Session{}, errWrong
	}
	return s.cfg.Accounts.SignUp(ctx, c, func(ctx context.Context, tx *store.Tx, u account.User) error {
		// Two requests with one code race to here; one of them wins.
		n, err := tx.Exec(ctx, `UPDATE sign_ups SET code = '' WHERE contact = ? AND code = ?`, contact, sealed)
		if err != nil {
			return err
		}
		if n == 0 {
			return errWrong
		}
		if s.cfg.Mode == Invited {
			n, err := tx.Exec(ctx, `UPDATE invitations SET used_at = ? WHERE email = ? AND used_at = 0 AND expires_at > ?`, store.Micros(now), email, store.Micros(now))
			if err != nil {
				return err
			}
			if n == 0 {
				return errWrong // it was taken back since
			}
		}
		if s.cfg.Proven == nil {
			return nil
		}
		return s.cfg.Proven(ctx, tx, u)
	})
}

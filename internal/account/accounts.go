package account

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // time zones are checked the same on a host without them
	"unicode/utf8"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

// Account is who pays. Its users act for it.
type Account struct {
	ID       string
	Name     string
	Currency money.Currency // fixed when the account is made: balances are kept in it
	TimeZone string         // IANA name; a storage month is a month there
	Quota    Quota
	// Suspended accounts cannot sign in, and their keys are refused.
	Suspended bool
	CreatedAt time.Time
}

// Quota bounds what an account may have at once.
type Quota struct {
	MaxLeases int // leases that have not ended
	MaxGPUs   int // GPUs in them
}

// CreateAccount is a new account and its first user, who owns it.
type CreateAccount struct {
	Name     string
	Currency money.Currency // "": USD
	TimeZone string         // "": UTC
	Email    string
	Password string
}

// UpdateAccount changes the fields that are not nil. Quota and Suspended are an
// operator's to change.
type UpdateAccount struct {
	Name      *string
	TimeZone  *string
	MaxLeases *int
	MaxGPUs   *int
	Suspended *bool
}

// checkName refuses names that are empty, longer than 100 characters, or hold
// control characters, which would garble tables and logs.
func checkName(name, location string) error {
	n := utf8.RuneCountInString(name)
	if strings.TrimSpace(name) == "" || n > 100 || !utf8.ValidString(name) {
		return fault.New(fault.Invalid, "name_invalid", "the name has %d characters; use 1 to 100, not only spaces", n).At(location)
	}
	if r, found := ident.Hidden(name); found {
		return fault.New(fault.Invalid, "name_invalid", "the name holds the control character %U, which nobody sees; leave it out", r).At(location)
	}
	return nil
}

func checkTimeZone(zone string) error {
	// LoadLocation also takes "" and "Local", which mean something else on
	// every machine.
	if _, err := time.LoadLocation(zone); err != nil || zone == "" || zone == "Local" {
		return fault.New(fault.Invalid, "time_zone_invalid",
			"the time zone %q is not known; give an IANA name such as \"Asia/Shanghai\" or \"UTC\"", zone).At("body.time_zone")
	}
	return nil
}

// Bootstrap makes the first account and its operator, unless there is an
// operator already. It reports whether it made one.
func (s *Service) Bootstrap(ctx context.Context, email, password string) (created bool, err error) {
	phc, email, err := s.credentials(ctx, email, password)
	if err != nil {
		return false, err
	}
	err = s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		created = false
		var n int64
		if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM users WHERE operator = 1`).Scan(&n); err != nil {
			return err
		}
		if n > 0 {
			return nil
		}
		created = true
		a := Account{Name: "Operator", Currency: money.USD, TimeZone: "UTC", Quota: s.cfg.DefaultQuota}
		u := User{Email: email, Name: "Operator", Role: Owner, Operator: true}
		return s.insertAccount(ctx, tx, Principal{}, &a, &u, phc)
	})
	if err != nil {
		return false, fmt.Errorf("make the first operator: %w", err)
	}
	return created, nil
}

// credentials checks and normalises what a user signs in with, and hashes the
// password before any transaction is opened, as hashing is slow on purpose.
func (s *Service) credentials(ctx context.Context, email, password string) (phc, normal string, err error) {
	normal, err = normalEmail(email)
	if err != nil {
		return "", "", err
	}
	if err := checkPassword(password, normal); err != nil {
		return "", "", err
	}
	phc, err = s.hash(ctx, password)
	return phc, normal, err
}

// check fills in what is left out, and refuses what no account can have.
func (c *CreateAccount) check() error {
	if c.Currency == "" {
		c.Currency = money.USD
	}
	if c.TimeZone == "" {
		c.TimeZone = "UTC"
	}
	if err := checkName(c.Name, "body.name"); err != nil {
		return err
	}
	if !c.Currency.Valid() {
		return fault.New(fault.Invalid, "currency_invalid",
			"the currency %q is not kept here; choose USD or CNY", c.Currency).At("body.currency")
	}
	return checkTimeZone(c.TimeZone)
}

// CreateAccount makes an account with its owner. It is an operator's act; the
// edge has checked that p is one.
func (s *Service) CreateAccount(ctx context.Context, p Principal, c CreateAccount) (Account, User, error) {
	if err := c.check(); err != nil {
		return Account{}, User{}, err
	}
	phc, email, err := s.credentials(ctx, c.Email, c.Password)
	if err != nil {
		return Account{}, User{}, err
	}
	a := Account{Name: c.Name, Currency: c.Currency, TimeZone: c.TimeZone, Quota: s.cfg.DefaultQuota}
	u := User{Email: email, Name: email, Role: Owner}
	err = s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		return s.insertAccount(ctx, tx, p, &a, &u, phc)
	})
	if err != nil {
		return Account{}, User{}, fmt.Errorf("create account: %w", err)
	}
	return a, u, nil
}

// CheckSignUp refuses what SignUp would refuse of itself, before the code of somebody
// who signs up is spent on it.
func (s *Service) CheckSignUp(c CreateAccount) error {
	if err := c.check(); err != nil {
		return err
	}
	email, err := normalEmail(c.Email)
	if err != nil {
		return err
	}
	return checkPassword(c.Password, email)
}

// NormalEmail returns an e-mail address as users have it, or a fault "email_invalid".
func NormalEmail(email string) (string, error) { return normalEmail(email) }

// EmailTaken reports whether a user has the address, which NormalEmail returned. It is
// for who tells the address's owner, and nobody else.
func (s *Service) EmailTaken(ctx context.Context, tx *store.Tx, email string) (bool, error) {
	var n int64
	err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM users WHERE email = ?`, email).Scan(&n)
	return n > 0, err
}

// SignUp makes an account for somebody who has proven to own the e-mail address, and
// signs its owner in. The proof is the caller's: proven is called in the transaction,
// and its error ends it.
func (s *Service) SignUp(ctx context.Context, c CreateAccount, proven func(ctx context.Context, tx *store.Tx, u User) error) (Session, error) {
	if err := c.check(); err != nil {
		return Session{}, err
	}
	phc, email, err := s.credentials(ctx, c.Email, c.Password)
	if err != nil {
		return Session{}, err
	}
	var session Session
	err = s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		a := Account{Name: c.Name, Currency: c.Currency, TimeZone: c.TimeZone, Quota: s.cfg.DefaultQuota}
		u := User{Email: email, Name: email, Role: Owner}
		if err := s.insertAccount(ctx, tx, Principal{}, &a, &u, phc); err != nil {
			return err
		}
		if err := proven(ctx, tx, u); err != nil {
			return err
		}
		session, err = s.beginSession(ctx, tx, u, "sign-up")
		return err
	})
	if err != nil {
		return Session{}, fmt.Errorf("sign up: %w", err)
	}
	return session, nil
}

func (s *Service) insertAccount(ctx context.Context, tx *store.Tx, p Principal, a *Account, u *User, phc string) error {
	a.ID, a.CreatedAt = ident.New(ident.Account), store.Time(store.Micros(s.clock()))
	if _, err := tx.Exec(ctx, `INSERT INTO accounts (id, name, currency, time_zone, max_leases, max_gpus, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		a.ID, a.Name, string(a.Currency), a.TimeZone, a.Quota.MaxLeases, a.Quota.MaxGPUs, store.Micros(a.CreatedAt)); err != nil {
		return err
	}
	u.AccountID = a.ID
	if err := s.insertUser(ctx, tx, u, phc); err != nil {
		return err
	}
	return s.auditFor(ctx, tx, a.ID, p, "account.create", a.ID, map[string]any{"name": a.Name, "currency": a.Currency, "owner": u.Email})
}

const accountColumns = `id, name, currency, time_zone, max_leases, max_gpus, suspended, created_at`

type scanner interface{ Scan(...any) error }

func scanAccount(row scanner) (Account, error) {
	var a Account
	var suspended, created int64
	err := row.Scan(&a.ID, &a.Name, &a.Currency, &a.TimeZone, &a.Quota.MaxLeases, &a.Quota.MaxGPUs, &suspended, &created)
	a.Suspended, a.CreatedAt = suspended == 1, store.Time(created)
	return a, err
}

// Account returns one account.
func (s *Service) Account(ctx context.Context, id string) (Account, error) {
	var a Account
	err := s.db.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		a, err = getAccount(ctx, tx, id, "")
		return err
	})
	if err != nil {
		return Account{}, fmt.Errorf("read account: %w", err)
	}
	return a, nil
}

func getAccount(ctx context.Context, tx *store.Tx, id, lock string) (Account, error) {
	a, err := scanAccount(tx.QueryRow(ctx, `SELECT `+accountColumns+` FROM accounts WHERE id = ?`+lock, id))
	if errors.Is(err, store.ErrNoRows) {
		return a, fault.New(fault.NotFound, "account_not_found", "there is no account %q", id)
	}
	return a, err
}

// Quota returns what an account may have at once.
func (s *Service) Quota(ctx context.Context, accountID string) (Quota, error) {
	a, err := s.Account(ctx, accountID)
	return a.Quota, err
}

// Accounts returns up to limit accounts, oldest first, that come after the one
// with the identifier cursor.
func (s *Service) Accounts(ctx context.Context, cursor string, limit int) ([]Account, error) {
	var out []Account
	err := s.db.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT `+accountColumns+` FROM accounts WHERE id > ? ORDER BY id LIMIT ?`, cursor, limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			a, err := scanAccount(rows)
			if err != nil {
				return err
			}
			out = append(out, a)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list accounts: %w", err)
	}
	return out, nil
}

// UpdateAccount changes an account. Only an operator may change Quota and
// Suspended, or an account that is not p's own.
func (s *Service) UpdateAccount(ctx context.Context, p Principal, id string, c UpdateAccount) (Account, error) {
	if id != p.AccountID && !p.May(Operate) {
		return Account{}, fault.New(fault.NotFound, "account_not_found", "there is no account %q", id)
	}
	if (c.MaxLeases != nil || c.MaxGPUs != nil || c.Suspended != nil) && !p.May(Operate) {
		return Account{}, fault.New(fault.Forbidden, "forbidden", "only an operator may change a quota or suspend an account")
	}
	if c.Name != nil {
		if err := checkName(*c.Name, "body.name"); err != nil {
			return Account{}, err
		}
	}
	if c.TimeZone != nil {
		if err := checkTimeZone(*c.TimeZone); err != nil {
			return Account{}, err
		}
	}
	for _, n := range []struct {
		value    *int
		location string
	}{{c.MaxLeases, "body.max_leases"}, {c.MaxGPUs, "body.max_gpus"}} {
		if n.value != nil && (*n.value < 0 || *n.value > maxQuota) {
			return Account{}, fault.New(fault.Invalid, "quota_invalid", "the quota %d is not possible; give 0 to %d", *n.value, maxQuota).At(n.location)
		}
	}
	if c.Suspended != nil && *c.Suspended && id == p.AccountID {
		return Account{}, fault.New(fault.Conflict, "own_account", "this would suspend your own account and sign you out; another operator has to do it").At("body.suspended")
	}
	var a Account
	err := s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if a, err = getAccount(ctx, tx, id, tx.ForUpdate()); err != nil {
			return err
		}
		set(&a.Name, c.Name)
		set(&a.TimeZone, c.TimeZone)
		set(&a.Quota.MaxLeases, c.MaxLeases)
		set(&a.Quota.MaxGPUs, c.MaxGPUs)
		set(&a.Suspended, c.Suspended)
		if _, err := tx.Exec(ctx, `UPDATE accounts SET name = ?, time_zone = ?, max_leases = ?, max_gpus = ?, suspended = ? WHERE id = ?`,
			a.Name, a.TimeZone, a.Quota.MaxLeases, a.Quota.MaxGPUs, flag(a.Suspended), id); err != nil {
			return err
		}
		return s.auditFor(ctx, tx, id, p, "account.update", id, map[string]any{"name": c.Name, "time_zone": c.TimeZone,
			"max_leases": c.MaxLeases, "max_gpus": c.MaxGPUs, "suspended": c.Suspended})
	})
	if err != nil {
		return Account{}, fmt.Errorf("change account: %w", err)
	}
	s.changed()
	return a, nil
}

const maxQuota = 1_000_000

func set[T any](field, to *T) {
	if to != nil {
		*field = *to
	}
}

// FirstOperator returns the oldest operator that is not disabled, as whom the
// cloud does what its configuration says.
func (s *Service) FirstOperator(ctx context.Context) (Principal, error) {
	p := Principal{Operator: true}
	err := s.db.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		return tx.QueryRow(ctx, `SELECT id, account_id, role FROM users WHERE operator = 1 AND disabled = 0 ORDER BY id LIMIT 1`).Scan(&p.UserID, &p.AccountID, &p.Role)
	})
	if err != nil {
		return Principal{}, fmt.Errorf("find an operator: %w", err)
	}
	return p, nil
}

package account

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/store"
)

// User is a person, or a program, who acts for one account.
type User struct {
	ID        string
	AccountID string
	Email     string // lower case; unique in the cloud
	Name      string
	Role      Role
	Operator  bool
	Disabled  bool
	TOTP      bool // a second factor is asked for
	// PasskeyOnly users do not sign in by their password.
	PasskeyOnly bool
	CreatedAt   time.Time
}

// CreateUser is a new user of p's account.
type CreateUser struct {
	Email    string
	Name     string // "": the e-mail address
	Role     Role
	Password string
	Operator bool // needs an operator
}

// UpdateUser changes the fields that are not nil.
type UpdateUser struct {
	Name      *string
	Role      *Role
	Disabled  *bool
	Operator  *bool
	Password  *string // for one who forgot it; ends the user's sessions
	ResetTOTP bool    // for one who lost the device: also removes the passkeys
}

// Roles are all roles, most powerful first.
var Roles = []Role{Owner, Admin, Member, Billing, Viewer}

// covers reports whether p may do all that role r may: nobody hands out, or
// alters in others, what they do not have. So an admin cannot make an owner,
// and a key with a few scopes cannot make a user with more.
func (p Principal) covers(r Role) bool {
	for _, a := range allowed[r] {
		if !p.May(a) {
			return false
		}
	}
	return true
}

func (p Principal) mustCover(r Role, operator bool, location string) error {
	if operator && !p.May(Operate) {
		return fault.New(fault.Forbidden, "role_beyond_own", "only an operator may make or change an operator").At(location)
	}
	if !p.covers(r) {
		return fault.New(fault.Forbidden, "role_beyond_own",
			"the role %q may do things that you may not, so you cannot give it or change who has it; ask an owner", r).At(location)
	}
	return nil
}

func checkRole(r Role) error {
	if _, ok := allowed[r]; !ok {
		return fault.New(fault.Invalid, "role_invalid", "there is no role %q; choose owner, admin, member, billing or viewer", r).At("body.role")
	}
	return nil
}

func normalEmail(email string) (string, error) {
	a, err := mail.ParseAddress(email)
	if err != nil || a.Address != email || len(email) > 254 || strings.ContainsAny(email, " \"<>") {
		return "", fault.New(fault.Invalid, "email_invalid", "%q is not an e-mail address; write it like \"ada@example.com\"", email).At("body.email")
	}
	return strings.ToLower(email), nil
}

const userColumns = `id, account_id, email, name, role, operator, disabled, totp_enabled, passkey_only, created_at`

func scanUser(row scanner) (User, error) {
	var u User
	var operator, disabled, totp, only, created int64
	err := row.Scan(&u.ID, &u.AccountID, &u.Email, &u.Name, &u.Role, &operator, &disabled, &totp, &only, &created)
	u.PasskeyOnly = only == 1
	u.Operator, u.Disabled, u.TOTP, u.CreatedAt = operator == 1, disabled == 1, totp == 1, store.Time(created)
	return u, err
}

func (s *Service) insertUser(ctx context.Context, tx *store.Tx, u *User, phc string) error {
	u.ID, u.CreatedAt = ident.New(ident.User), store.Time(store.Micros(s.clock()))
	n, err := tx.Exec(ctx, `INSERT INTO users (id, account_id, email, name, role, operator, password_hash, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (email) DO NOTHING`,
		u.ID, u.AccountID, u.Email, u.Name, string(u.Role), flag(u.Operator), phc, store.Micros(u.CreatedAt))
	if err == nil && n == 0 {
		return fault.New(fault.Conflict, "email_taken", "there is a user with the e-mail address %s already", u.Email).At("body.email")
	}
	return err
}

// CreateUser adds a user to p's account.
func (s *Service) CreateUser(ctx context.Context, p Principal, c CreateUser) (User, error) {
	if err := checkRole(c.Role); err != nil {
		return User{}, err
	}
	if err := p.mustCover(c.Role, c.Operator, "body.role"); err != nil {
		return User{}, err
	}
	phc, email, err := s.credentials(ctx, c.Email, c.Password)
	if err != nil {
		return User{}, err
	}
	if c.Name == "" {
		c.Name = email
	}
	if err := checkName(c.Name, "body.name"); err != nil {
		return User{}, err
	}
	// The answer tells whether an address has a user somewhere, and each user takes one:
	// where anybody can have an account, nobody may try a list of them.
	if !p.May(Operate) {
		if _, wait := s.adding.Take(p.AccountID, 1); wait > 0 {
			return User{}, fault.New(fault.TooMany, "user_throttled", "too many users were added within a short time; wait %d seconds", int(wait/time.Second)+1)
		}
	}
	u := User{AccountID: p.AccountID, Email: email, Name: c.Name, Role: c.Role, Operator: c.Operator}
	err = s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if err := s.insertUser(ctx, tx, &u, phc); err != nil {
			return err
		}
		return s.Audit(ctx, tx, p, "user.create", u.ID, map[string]any{"email": u.Email, "role": u.Role, "operator": u.Operator})
	})
	if err != nil {
		return User{}, fmt.Errorf("create user: %w", err)
	}
	return u, nil
}

func getUser(ctx context.Context, tx *store.Tx, accountID, id string) (User, error) {
	u, err := scanUser(tx.QueryRow(ctx, `SELECT `+userColumns+` FROM users WHERE id = ? AND account_id = ?`, id, accountID))
	if errors.Is(err, store.ErrNoRows) {
		return u, fault.New(fault.NotFound, "user_not_found", "there is no user %q in this account", id)
	}
	return u, err
}

// User returns one user of an account.
func (s *Service) User(ctx context.Context, accountID, id string) (User, error) {
	var u User
	err := s.db.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		u, err = getUser(ctx, tx, accountID, id)
		return err
	})
	if err != nil {
		return User{}, fmt.Errorf("read user: %w", err)
	}
	return u, nil
}

// Users returns up to limit users of an account, oldest first, after cursor.
func (s *Service) Users(ctx context.Context, accountID, cursor string, limit int) ([]User, error) {
	var out []User
	err := s.db.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT `+userColumns+` FROM users WHERE account_id = ? AND id > ? ORDER BY id LIMIT ?`, accountID, cursor, limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			u, err := scanUser(rows)
			if err != nil {
				return err
			}
			out = append(out, u)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	return out, nil
}

// UpdateUser changes a user of p's account. An account keeps an owner who can
// sign in, and the cloud an operator.
func (s *Service) UpdateUser(ctx context.Context, p Principal, id string, c UpdateUser) (User, error) {
	if c.Name != nil {
		if err := checkName(*c.Name, "body.name"); err != nil {
			return User{}, err
		}
	}
	if c.Role != nil {
		if err := checkRole(*c.Role); err != nil {
			return User{}, err
		}
	}
	phc := ""
	if c.Password != nil {
		if err := checkPassword(*c.Password, ""); err != nil {
			return User{}, err
		}
		var err error
		if phc, err = s.hash(ctx, *c.Password); err != nil {
			return User{}, err
		}
	}
	var u User
	err := s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		// Locking the account makes two removals of the last two owners meet.
		if _, err := getAccount(ctx, tx, p.AccountID, tx.ForUpdate()); err != nil {
			return err
		}
		if u, err = getUser(ctx, tx, p.AccountID, id); err != nil {
			return err
		}
		if err := p.mustCover(u.Role, u.Operator, "path.user_id"); err != nil {
			return err
		}
		before := u
		set(&u.Name, c.Name)
		set(&u.Role, c.Role)
		set(&u.Disabled, c.Disabled)
		set(&u.Operator, c.Operator)
		if err := p.mustCover(u.Role, u.Operator, "body.role"); err != nil {
			return err
		}
		if c.ResetTOTP {
			u.TOTP, u.PasskeyOnly = false, false
			if _, err := tx.Exec(ctx, `DELETE FROM passkeys WHERE user_id = ?`, id); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, `UPDATE users SET name = ?, role = ?, operator = ?, disabled = ?, totp_enabled = ?, passkey_only = ? WHERE id = ?`,
			u.Name, string(u.Role), flag(u.Operator), flag(u.Disabled), flag(u.TOTP), flag(u.PasskeyOnly), id); err != nil {
			return err
		}
		if phc != "" {
			if _, err := tx.Exec(ctx, `UPDATE users SET password_hash = ? WHERE id = ?`, phc, id); err != nil {
				return err
			}
		}
		if phc != "" || u.Disabled || c.ResetTOTP {
			if _, err := tx.Exec(ctx, `DELETE FROM sessions WHERE user_id = ?`, id); err != nil {
				return err
			}
		}
		if err := someoneLeft(ctx, tx, before); err != nil {
			return err
		}
		return s.Audit(ctx, tx, p, "user.update", id, map[string]any{"name": c.Name, "role": c.Role, "disabled": c.Disabled,
			"operator": c.Operator, "password": phc != "", "reset_totp": c.ResetTOTP})
	})
	if err != nil {
		return User{}, fmt.Errorf("change user: %w", err)
	}
	s.changed()
	return u, nil
}

// DeleteUser removes a user of p's account, with sessions, API keys and SSH keys.
func (s *Service) DeleteUser(ctx context.Context, p Principal, id string) error {
	err := s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if _, err := getAccount(ctx, tx, p.AccountID, tx.ForUpdate()); err != nil {
			return err
		}
		u, err := getUser(ctx, tx, p.AccountID, id)
		if err != nil {
			return err
		}
		if err := p.mustCover(u.Role, u.Operator, "path.user_id"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM users WHERE id = ?`, id); err != nil {
			return err
		}
		if err := someoneLeft(ctx, tx, u); err != nil {
			return err
		}
		return s.Audit(ctx, tx, p, "user.delete", id, map[string]any{"email": u.Email})
	})
	if err != nil {
		return fmt.Errorf("delete user: %w", err)
	}
	s.changed()
	return nil
}

// someoneLeft refuses a change after which nobody could manage the account or
// the cloud. before is the user as he was.
func someoneLeft(ctx context.Context, tx *store.Tx, before User) error {
	var owners, operators int64
	if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM users WHERE account_id = ? AND role = ? AND disabled = 0`,
		before.AccountID, string(Owner)).Scan(&owners); err != nil {
		return err
	}
	if before.Role == Owner && owners == 0 {
		return fault.New(fault.Conflict, "last_owner", "this is the account's last owner; make somebody else an owner first")
	}
	if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM users WHERE operator = 1 AND disabled = 0`).Scan(&operators); err != nil {
		return err
	}
	if before.Operator && operators == 0 {
		return fault.New(fault.Conflict, "last_operator", "this is the cloud's last operator; make somebody else an operator first")
	}
	return nil
}

// ChangePassword replaces p's own password and ends p's other sessions.
func (s *Service) ChangePassword(ctx context.Context, p Principal, current, next string) error {
	if err := s.reauthenticate(ctx, p, current, "body.current_password"); err != nil {
		return err
	}
	u, err := s.User(ctx, p.AccountID, p.UserID)
	if err != nil {
		return err
	}
	if err := checkPassword(next, u.Email); err != nil {
		return err
	}
	phc, err := s.hash(ctx, next)
	if err != nil {
		return err
	}
	err = s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE users SET password_hash = ? WHERE id = ?`, phc, p.UserID); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM sessions WHERE user_id = ? AND id <> ?`, p.UserID, p.KeyID); err != nil {
			return err
		}
		return s.Audit(ctx, tx, p, "user.password", p.UserID, nil)
	})
	if err != nil {
		return fmt.Errorf("change password: %w", err)
	}
	s.changed()
	return nil
}

// reauthenticate asks p for the password again, before what a stolen session
// must not be able to do.
func (s *Service) reauthenticate(ctx context.Context, p Principal, password, location string) error {
	if err := s.throttle(ctx, p.UserID); err != nil {
		return err
	}
	var phc string
	err := s.db.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		return tx.QueryRow(ctx, `SELECT password_hash FROM users WHERE id = ?`, p.UserID).Scan(&phc)
	})
	if err != nil {
		return fmt.Errorf("check password: %w", err)
	}
	ok, _, err := s.verify(ctx, password, phc)
	if err != nil {
		return fmt.Errorf("check password: %w", err)
	}
	if !ok {
		return fault.New(fault.Forbidden, "password_wrong", "the current password is another one").At(location)
	}
	s.unthrottle(ctx, p.UserID)
	return nil
}

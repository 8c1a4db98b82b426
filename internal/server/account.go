package server

import (
	"context"
	"net/http"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/money"
)

// Tags of the subjects that this file has.
const (
	tagSession = "Signing in"
	tagAccount = "Account"
	tagKeys    = "Keys"
)

type userPath struct {
	UserID string `path:"user_id" maxLength:"64"`
}

type keyPath struct {
	KeyID string `path:"key_id" maxLength:"64"`
}

type sshKeyPath struct {
	KeyID string `path:"ssh_key_id" maxLength:"64"`
}

type accountPath struct {
	AccountID string `path:"account_id" maxLength:"64"`
}

func (a *API) registerAccount() {
	if a.Accounts == nil {
		return
	}
	a.registerSessions()
	a.registerUsers()
	a.registerKeys()
	a.registerAccounts()
}

func (a *API) registerSessions() {
	register(a, operation{
		ID: "signIn", Method: http.MethodPost, Path: "/v1/sessions", Summary: "Sign in", Tag: tagSession, Status: http.StatusCreated,
		Description: "Returns a session token to be sent as a bearer. Answers totp_required where the user has a second factor and no code was sent.",
	}, func(ctx context.Context, _ account.Principal, in *body[api.SignIn]) (*body[api.Session], error) {
		s, err := a.Accounts.SignIn(ctx, in.Body.Email, in.Body.Password, in.Body.TOTP)
		if err != nil {
			return nil, err
		}
		return &body[api.Session]{sessionJSON(s)}, nil
	})
	register(a, operation{
		ID: "listSessions", Method: http.MethodGet, Path: "/v1/sessions", Summary: "List your sessions", Tag: tagSession, Action: account.WriteSelf,
	}, func(ctx context.Context, p account.Principal, _ *none) (*body[page[api.Session]], error) {
		list, err := a.Accounts.Sessions(ctx, p)
		if err != nil {
			return nil, err
		}
		out := &body[page[api.Session]]{page[api.Session]{Items: []api.Session{}}}
		for _, s := range list {
			j := sessionJSON(s)
			j.Current = s.ID == p.KeyID
			out.Body.Items = append(out.Body.Items, j)
		}
		return out, nil
	})
	register(a, operation{
		ID: "signOut", Method: http.MethodDelete, Path: "/v1/sessions/{session_id}", Summary: "Sign out", Tag: tagSession, Action: account.WriteSelf,
		Description: "Ends one of your sessions; \"current\" names the one that this request comes with.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		SessionID string `path:"session_id" maxLength:"64"`
	}) (*none, error) {
		return nil, a.Accounts.SignOut(ctx, p, in.SessionID)
	})
	register(a, operation{
		ID: "getMe", Method: http.MethodGet, Path: "/v1/me", Summary: "Who you are and what you may do", Tag: tagSession, Action: account.ReadAccount,
	}, func(ctx context.Context, p account.Principal, _ *none) (*body[api.Me], error) {
		u, err := a.Accounts.User(ctx, p.AccountID, p.UserID)
		if err != nil {
			return nil, err
		}
		acc, err := a.Accounts.Account(ctx, p.AccountID)
		if err != nil {
			return nil, err
		}
		me := api.Me{User: userJSON(u), Account: accountJSON(acc), Actions: []string{}}
		for _, x := range account.Actions {
			if p.May(x) {
				me.Actions = append(me.Actions, string(x))
			}
		}
		return &body[api.Me]{me}, nil
	})
	register(a, operation{
		ID: "changePassword", Method: http.MethodPost, Path: "/v1/me/password", Summary: "Change your password", Tag: tagSession, Action: account.WriteSelf,
		Description: "Ends your other sessions. API keys stay.",
	}, func(ctx context.Context, p account.Principal, in *body[api.ChangePassword]) (*none, error) {
		return nil, a.Accounts.ChangePassword(ctx, p, in.Body.CurrentPassword, in.Body.Password)
	})
	register(a, operation{
		ID: "enrolTotp", Method: http.MethodPost, Path: "/v1/me/totp", Summary: "Make a second factor", Tag: tagSession, Action: account.WriteSelf,
		Description: "Put the secret into an authenticator app, then confirm with its first code.",
	}, func(ctx context.Context, p account.Principal, in *body[api.ConfirmPassword]) (*body[api.TOTPSecret], error) {
		secret, link, err := a.Accounts.EnrolTOTP(ctx, p, in.Body.Password)
		if err != nil {
			return nil, err
		}
		return &body[api.TOTPSecret]{api.TOTPSecret{Secret: secret, URL: link}}, nil
	})
	register(a, operation{
		ID: "confirmTotp", Method: http.MethodPost, Path: "/v1/me/totp/confirm", Summary: "Turn the second factor on", Tag: tagSession, Action: account.WriteSelf,
	}, func(ctx context.Context, p account.Principal, in *body[api.ConfirmTOTP]) (*none, error) {
		return nil, a.Accounts.ConfirmTOTP(ctx, p, in.Body.TOTP)
	})
	register(a, operation{
		ID: "removeTotp", Method: http.MethodPost, Path: "/v1/me/totp/remove", Summary: "Turn the second factor off", Tag: tagSession, Action: account.WriteSelf,
	}, func(ctx context.Context, p account.Principal, in *body[api.ConfirmPassword]) (*none, error) {
		return nil, a.Accounts.RemoveTOTP(ctx, p, in.Body.Password)
	})
}

func (a *API) registerUsers() {
	register(a, operation{
		ID: "listUsers", Method: http.MethodGet, Path: "/v1/users", Summary: "List the account's users", Tag: tagAccount, Action: account.ReadAccount,
	}, func(ctx context.Context, p account.Principal, in *Paging) (*body[page[api.User]], error) {
		list, err := a.Accounts.Users(ctx, p.AccountID, in.Cursor, in.Limit+1)
		if err != nil {
			return nil, err
		}
		return paged(list, in.Limit, func(u account.User) string { return u.ID }, userJSON), nil
	})
	register(a, operation{
		ID: "getUser", Method: http.MethodGet, Path: "/v1/users/{user_id}", Summary: "Read a user", Tag: tagAccount, Action: account.ReadAccount,
	}, func(ctx context.Context, p account.Principal, in *userPath) (*body[api.User], error) {
		u, err := a.Accounts.User(ctx, p.AccountID, in.UserID)
		if err != nil {
			return nil, err
		}
		return &body[api.User]{userJSON(u)}, nil
	})
	register(a, operation{
		ID: "createUser", Method: http.MethodPost, Path: "/v1/users", Summary: "Add a user", Tag: tagAccount, Action: account.WriteAccount,
		Status: http.StatusCreated, Idempotent: true, Description: "The role may be none that does more than yours.",
	}, func(ctx context.Context, p account.Principal, in *body[api.CreateUser]) (*body[api.User], error) {
		u, err := a.Accounts.CreateUser(ctx, p, account.CreateUser{
			Email: in.Body.Email, Name: in.Body.Name, Role: account.Role(in.Body.Role), Password: in.Body.Password, Operator: in.Body.Operator,
		})
		if err != nil {
			return nil, err
		}
		return &body[api.User]{userJSON(u)}, nil
	})
	register(a, operation{
		ID: "updateUser", Method: http.MethodPatch, Path: "/v1/users/{user_id}", Summary: "Change a user", Tag: tagAccount, Action: account.WriteAccount,
	}, func(ctx context.Context, p account.Principal, in *struct {
		UserID string `path:"user_id" maxLength:"64"`
		Body   api.UpdateUser
	}) (*body[api.User], error) {
		c := account.UpdateUser{Name: in.Body.Name, Disabled: in.Body.Disabled, Operator: in.Body.Operator, Password: in.Body.Password, ResetTOTP: in.Body.ResetTOTP}
		if in.Body.Role != nil {
			c.Role = ptr(account.Role(*in.Body.Role))
		}
		u, err := a.Accounts.UpdateUser(ctx, p, in.UserID, c)
		if err != nil {
			return nil, err
		}
		return &body[api.User]{userJSON(u)}, nil
	})
	register(a, operation{
		ID: "deleteUser", Method: http.MethodDelete, Path: "/v1/users/{user_id}", Summary: "Remove a user", Tag: tagAccount, Action: account.WriteAccount,
		Description: "With the user's sessions, API keys and SSH keys. The last owner cannot be removed.",
	}, func(ctx context.Context, p account.Principal, in *userPath) (*none, error) {
		return nil, a.Accounts.DeleteUser(ctx, p, in.UserID)
	})
	register(a, operation{
		ID: "listAudit", Method: http.MethodGet, Path: "/v1/audit", Summary: "Read the account's audit log", Tag: tagAccount, Action: account.WriteAccount,
		Description: "Every write, newest first.",
	}, func(ctx context.Context, p account.Principal, in *Paging) (*body[page[api.AuditEntry]], error) {
		list, err := a.Accounts.AuditLog(ctx, p.AccountID, in.Cursor, in.Limit+1)
		if err != nil {
			return nil, err
		}
		return paged(list, in.Limit, func(e account.AuditEntry) string { return e.ID }, func(e account.AuditEntry) api.AuditEntry {
			return api.AuditEntry{ID: e.ID, UserID: e.UserID, KeyID: e.KeyID, Action: e.Action, Subject: e.Subject, Detail: e.Detail,
				IP: e.IP, RequestID: e.RequestID, At: e.At}
		}), nil
	})
}

func (a *API) registerKeys() {
	register(a, operation{
		ID: "listApiKeys", Method: http.MethodGet, Path: "/v1/api-keys", Summary: "List API keys", Tag: tagKeys, Action: account.ReadAccount,
		Description: "Your own; those of the whole account if you may manage it.",
	}, func(ctx context.Context, p account.Principal, in *Paging) (*body[page[api.APIKey]], error) {
		list, err := a.Accounts.APIKeys(ctx, p, in.Cursor, in.Limit+1)
		if err != nil {
			return nil, err
		}
		return paged(list, in.Limit, func(k account.APIKey) string { return k.ID }, apiKeyJSON), nil
	})
	register(a, operation{
		ID: "createApiKey", Method: http.MethodPost, Path: "/v1/api-keys", Summary: "Make an API key", Tag: tagKeys, Action: account.WriteSelf,
		Status: http.StatusCreated, Idempotent: true, Description: "The key itself is in this answer and can never be read again.",
	}, func(ctx context.Context, p account.Principal, in *body[api.CreateAPIKey]) (*body[api.APIKey], error) {
		if len(in.Body.Scopes) == 0 {
			return nil, fault.New(fault.Invalid, "scope_invalid", "a key without scopes could do nothing; choose of %v, or %q alone for all that you may", account.Actions, account.AllScopes).At("body.scopes")
		}
		c := account.CreateAPIKey{Name: in.Body.Name, Scopes: in.Body.Scopes}
		if in.Body.ExpiresAt != nil {
			c.ExpiresAt = *in.Body.ExpiresAt
		}
		k, err := a.Accounts.CreateAPIKey(ctx, p, c)
		if err != nil {
			return nil, err
		}
		return &body[api.APIKey]{apiKeyJSON(k)}, nil
	})
	register(a, operation{
		ID: "deleteApiKey", Method: http.MethodDelete, Path: "/v1/api-keys/{key_id}", Summary: "Revoke an API key", Tag: tagKeys, Action: account.WriteSelf,
	}, func(ctx context.Context, p account.Principal, in *keyPath) (*none, error) {
		return nil, a.Accounts.DeleteAPIKey(ctx, p, in.KeyID)
	})
	register(a, operation{
		ID: "listSshKeys", Method: http.MethodGet, Path: "/v1/ssh-keys", Summary: "List the account's SSH keys", Tag: tagKeys, Action: account.ReadAccount,
	}, func(ctx context.Context, p account.Principal, in *Paging) (*body[page[api.SSHKey]], error) {
		list, err := a.Accounts.SSHKeys(ctx, p.AccountID, in.Cursor, in.Limit+1)
		if err != nil {
			return nil, err
		}
		return paged(list, in.Limit, func(k account.SSHKey) string { return k.ID }, sshKeyJSON), nil
	})
	register(a, operation{
		ID: "addSshKey", Method: http.MethodPost, Path: "/v1/ssh-keys", Summary: "Add an SSH key", Tag: tagKeys, Action: account.WriteSelf,
		Status: http.StatusCreated, Idempotent: true, Description: "It opens the account's instances, present and future, if your role may enter them.",
	}, func(ctx context.Context, p account.Principal, in *body[api.AddSSHKey]) (*body[api.SSHKey], error) {
		k, err := a.Accounts.AddSSHKey(ctx, p, in.Body.Name, in.Body.PublicKey)
		if err != nil {
			return nil, err
		}
		return &body[api.SSHKey]{sshKeyJSON(k)}, nil
	})
	register(a, operation{
		ID: "deleteSshKey", Method: http.MethodDelete, Path: "/v1/ssh-keys/{ssh_key_id}", Summary: "Remove an SSH key", Tag: tagKeys, Action: account.WriteSelf,
	}, func(ctx context.Context, p account.Principal, in *sshKeyPath) (*none, error) {
		return nil, a.Accounts.DeleteSSHKey(ctx, p, in.KeyID)
	})
}

func (a *API) registerAccounts() {
	register(a, operation{
		ID: "getAccount", Method: http.MethodGet, Path: "/v1/account", Summary: "Read your account", Tag: tagAccount, Action: account.ReadAccount,
	}, func(ctx context.Context, p account.Principal, _ *none) (*body[api.Account], error) {
		acc, err := a.Accounts.Account(ctx, p.AccountID)
		if err != nil {
			return nil, err
		}
		return &body[api.Account]{accountJSON(acc)}, nil
	})
	register(a, operation{
		ID: "updateAccount", Method: http.MethodPatch, Path: "/v1/account", Summary: "Change your account", Tag: tagAccount, Action: account.WriteAccount,
	}, func(ctx context.Context, p account.Principal, in *body[api.UpdateAccount]) (*body[api.Account], error) {
		acc, err := a.Accounts.UpdateAccount(ctx, p, p.AccountID, account.UpdateAccount{Name: in.Body.Name, TimeZone: in.Body.TimeZone})
		if err != nil {
			return nil, err
		}
		return &body[api.Account]{accountJSON(acc)}, nil
	})
	const tag = "Operator"
	register(a, operation{
		ID: "listAccounts", Method: http.MethodGet, Path: "/v1/operator/accounts", Summary: "List all accounts", Tag: tag, Action: account.Operate,
	}, func(ctx context.Context, _ account.Principal, in *Paging) (*body[page[api.Account]], error) {
		list, err := a.Accounts.Accounts(ctx, in.Cursor, in.Limit+1)
		if err != nil {
			return nil, err
		}
		return paged(list, in.Limit, func(x account.Account) string { return x.ID }, accountJSON), nil
	})
	register(a, operation{
		ID: "createAccount", Method: http.MethodPost, Path: "/v1/operator/accounts", Summary: "Make an account", Tag: tag, Action: account.Operate,
		Status: http.StatusCreated, Idempotent: true,
	}, func(ctx context.Context, p account.Principal, in *body[api.CreateAccount]) (*body[api.CreatedAccount], error) {
		acc, u, err := a.Accounts.CreateAccount(ctx, p, account.CreateAccount{
			Name: in.Body.Name, Currency: money.Currency(in.Body.Currency), TimeZone: in.Body.TimeZone, Email: in.Body.Email, Password: in.Body.Password,
		})
		if err != nil {
			return nil, err
		}
		return &body[api.CreatedAccount]{api.CreatedAccount{Account: accountJSON(acc), Owner: userJSON(u)}}, nil
	})
	register(a, operation{
		ID: "getAnyAccount", Method: http.MethodGet, Path: "/v1/operator/accounts/{account_id}", Summary: "Read an account", Tag: tag, Action: account.Operate,
	}, func(ctx context.Context, _ account.Principal, in *accountPath) (*body[api.Account], error) {
		acc, err := a.Accounts.Account(ctx, in.AccountID)
		if err != nil {
			return nil, err
		}
		return &body[api.Account]{accountJSON(acc)}, nil
	})
	register(a, operation{
		ID: "updateAnyAccount", Method: http.MethodPatch, Path: "/v1/operator/accounts/{account_id}", Summary: "Change an account", Tag: tag, Action: account.Operate,
		Description: "Quotas and suspension too.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		AccountID string `path:"account_id" maxLength:"64"`
		Body      api.UpdateAnyAccount
	}) (*body[api.Account], error) {
		b := in.Body
		acc, err := a.Accounts.UpdateAccount(ctx, p, in.AccountID, account.UpdateAccount{
			Name: b.Name, TimeZone: b.TimeZone, MaxLeases: b.MaxLeases, MaxGPUs: b.MaxGPUs, Suspended: b.Suspended,
		})
		if err != nil {
			return nil, err
		}
		return &body[api.Account]{accountJSON(acc)}, nil
	})
}

func sessionJSON(s account.Session) api.Session {
	return api.Session{ID: s.ID, Token: s.Token, UserID: s.UserID, AccountID: s.AccountID, IP: s.IP, CreatedAt: s.CreatedAt, ExpiresAt: s.ExpiresAt}
}

func accountJSON(a account.Account) api.Account {
	return api.Account{ID: a.ID, Name: a.Name, Currency: string(a.Currency), TimeZone: a.TimeZone, MaxLeases: a.Quota.MaxLeases,
		MaxGPUs: a.Quota.MaxGPUs, Suspended: a.Suspended, CreatedAt: a.CreatedAt}
}

func userJSON(u account.User) api.User {
	return api.User{ID: u.ID, AccountID: u.AccountID, Email: u.Email, Name: u.Name, Role: string(u.Role), Operator: u.Operator,
		Disabled: u.Disabled, TOTP: u.TOTP, PasskeyOnly: u.PasskeyOnly, CreatedAt: u.CreatedAt}
}

func apiKeyJSON(k account.APIKey) api.APIKey {
	out := api.APIKey{ID: k.ID, UserID: k.UserID, Name: k.Name, Secret: k.Secret, Hint: k.Hint, Scopes: []string{}, CreatedAt: k.CreatedAt,
		ExpiresAt: optional(k.ExpiresAt), LastUsedAt: optional(k.LastUsedAt)}
	if k.Scopes == nil {
		out.Scopes = []string{account.AllScopes}
	}
	for _, s := range k.Scopes {
		out.Scopes = append(out.Scopes, string(s))
	}
	return out
}

func sshKeyJSON(k account.SSHKey) api.SSHKey {
	return api.SSHKey{ID: k.ID, UserID: k.UserID, Name: k.Name, Fingerprint: k.Fingerprint, PublicKey: k.PublicKey, CreatedAt: k.CreatedAt}
}

// optional is nil for the zero time, which means none.
func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

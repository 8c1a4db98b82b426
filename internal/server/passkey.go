package server

import (
	"context"
	"net/http"

	"suanli.dev/api"
	"suanli.dev/internal/account"
)

func (a *API) registerPasskeys() {
	if a.Accounts == nil {
		return
	}
	register(a, operation{
		ID: "beginPasskeySignIn", Method: http.MethodPost, Path: "/v1/sessions/passkey/begin", Summary: "Begin to sign in by passkey", Tag: tagSession,
		Description: "Give the options to the browser's navigator.credentials.get, and send its answer within 5 minutes. They are the same for everybody.",
	}, func(ctx context.Context, _ account.Principal, _ *none) (*body[api.PasskeyCeremony], error) {
		return ceremonyBody(a.Accounts.BeginPasskeySignIn(ctx))
	})
	register(a, operation{
		ID: "signInByPasskey", Method: http.MethodPost, Path: "/v1/sessions/passkey", Summary: "Sign in by passkey", Tag: tagSession, Status: http.StatusCreated,
		Description: "Returns a session token to be sent as a bearer. A passkey was asked for a PIN, a face or a finger: no further factor is.",
	}, func(ctx context.Context, _ account.Principal, in *body[api.PasskeySignIn]) (*body[api.Session], error) {
		s, err := a.Accounts.SignInByPasskey(ctx, in.Body.CeremonyID, in.Body.Credential)
		if err != nil {
			return nil, err
		}
		return &body[api.Session]{sessionJSON(s)}, nil
	})
	register(a, operation{
		ID: "listPasskeys", Method: http.MethodGet, Path: "/v1/me/passkeys", Summary: "List your passkeys", Tag: tagSession, Action: account.WriteSelf,
	}, func(ctx context.Context, p account.Principal, _ *none) (*body[page[api.Passkey]], error) {
		list, err := a.Accounts.Passkeys(ctx, p)
		if err != nil {
			return nil, err
		}
		return whole(list, passkeyJSON), nil
	})
	register(a, operation{
		ID: "beginPasskey", Method: http.MethodPost, Path: "/v1/me/passkeys/begin", Summary: "Begin to add a passkey", Tag: tagSession, Action: account.WriteSelf,
		Description: "Give the options to the browser's navigator.credentials.create, and send its answer within 5 minutes.",
	}, func(ctx context.Context, p account.Principal, in *body[api.ConfirmPassword]) (*body[api.PasskeyCeremony], error) {
		return ceremonyBody(a.Accounts.BeginPasskey(ctx, p, in.Body.Password))
	})
	register(a, operation{
		ID: "addPasskey", Method: http.MethodPost, Path: "/v1/me/passkeys", Summary: "Add a passkey", Tag: tagSession, Action: account.WriteSelf, Status: http.StatusCreated,
	}, func(ctx context.Context, p account.Principal, in *body[api.AddPasskey]) (*body[api.Passkey], error) {
		k, err := a.Accounts.AddPasskey(ctx, p, in.Body.CeremonyID, in.Body.Name, in.Body.Credential)
		if err != nil {
			return nil, err
		}
		return &body[api.Passkey]{passkeyJSON(k)}, nil
	})
	register(a, operation{
		ID: "deletePasskey", Method: http.MethodDelete, Path: "/v1/me/passkeys/{passkey_id}", Summary: "Remove a passkey", Tag: tagSession, Action: account.WriteSelf,
		Description: "Not the last one of a user who signs in by passkeys alone.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		PasskeyID string `path:"passkey_id" maxLength:"64"`
	}) (*none, error) {
		return nil, a.Accounts.DeletePasskey(ctx, p, in.PasskeyID)
	})
	register(a, operation{
		ID: "setPasskeyOnly", Method: http.MethodPost, Path: "/v1/me/passkey-only", Summary: "Sign in by passkeys alone, or by the password as well", Tag: tagSession, Action: account.WriteSelf,
	}, func(ctx context.Context, p account.Principal, in *body[api.SetPasskeyOnly]) (*none, error) {
		return nil, a.Accounts.SetPasskeyOnly(ctx, p, in.Body.Password, in.Body.PasskeyOnly)
	})
}

func ceremonyBody(id string, options []byte, err error) (*body[api.PasskeyCeremony], error) {
	if err != nil {
		return nil, err
	}
	return &body[api.PasskeyCeremony]{api.PasskeyCeremony{CeremonyID: id, Options: options}}, nil
}

func passkeyJSON(k account.Passkey) api.Passkey {
	return api.Passkey{ID: k.ID, Name: k.Name, Synced: k.Synced, CreatedAt: k.CreatedAt, LastUsedAt: optional(k.LastUsedAt)}
}

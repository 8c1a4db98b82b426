package server

import (
	"context"
	"net/http"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/money"
	"suanli.dev/internal/signup"
)

func (a *API) registerSignUp() {
	if a.SignUps == nil {
		return
	}
	register(a, operation{
		ID: "getSignUpTerms", Method: http.MethodGet, Path: "/v1/sign-up", Summary: "Show who can sign up, and what a new account can try", Tag: tagSession,
	}, func(context.Context, account.Principal, *none) (*body[api.SignUpTerms], error) {
		return &body[api.SignUpTerms]{a.signUpTerms()}, nil
	})
	register(a, operation{
		ID: "requestSignUp", Method: http.MethodPost, Path: "/v1/sign-up/code", Summary: "Have a code to sign up with sent to an address", Tag: tagSession, Status: http.StatusAccepted,
		Description: "The answer is the same for every address. The mail says whether it has an account already, or was not invited. One a minute and five a day are sent to an address; the code can be used for 15 minutes and five tries.",
	}, func(ctx context.Context, _ account.Principal, in *body[api.SignUpCode]) (*none, error) {
		return nil, a.SignUps.Ask(ctx, in.Body.Email)
	})
	register(a, operation{
		ID: "signUp", Method: http.MethodPost, Path: "/v1/sign-up", Summary: "Make an account with the code that was sent", Tag: tagSession, Status: http.StatusCreated,
		Description: "Returns a session of the account's owner, whose contact is verified. A code makes one account.",
	}, func(ctx context.Context, _ account.Principal, in *body[api.SignUp]) (*body[api.Session], error) {
		b := in.Body
		currency := money.Currency(b.Currency)
		if currency == "" {
			currency = money.Currency(a.signUpTerms().Currency)
		}
		s, err := a.SignUps.Complete(ctx, account.CreateAccount{Name: b.Name, Currency: currency, TimeZone: b.TimeZone, Email: b.Email, Password: b.Password}, b.Code)
		if err != nil {
			return nil, err
		}
		return &body[api.Session]{sessionJSON(s)}, nil
	})
	const path = "/v1/operator/invitations"
	register(a, operation{
		ID: "createInvitation", Method: http.MethodPost, Path: path, Summary: "Invite an address to sign up", Tag: tagAccount, Action: account.Operate, Status: http.StatusCreated, Idempotent: true,
		Description: "For 14 days. It is told by mail, if the cloud sends any. Needed where only those who are invited sign up.",
	}, func(ctx context.Context, p account.Principal, in *body[api.InvitationCreate]) (*body[api.Invitation], error) {
		i, err := a.SignUps.Invite(ctx, p, in.Body.Email)
		if err != nil {
			return nil, err
		}
		return &body[api.Invitation]{invitationJSON(i)}, nil
	})
	register(a, operation{
		ID: "listInvitations", Method: http.MethodGet, Path: path, Summary: "List invitations, oldest first", Tag: tagAccount, Action: account.Operate,
	}, func(ctx context.Context, _ account.Principal, in *Paging) (*body[page[api.Invitation]], error) {
		list, err := a.SignUps.Invitations(ctx, in.Cursor, in.Limit+1)
		if err != nil {
			return nil, err
		}
		return paged(list, in.Limit, func(i signup.Invitation) string { return i.ID }, invitationJSON), nil
	})
	register(a, operation{
		ID: "deleteInvitation", Method: http.MethodDelete, Path: path + "/{invitation_id}", Summary: "Take an invitation back", Tag: tagAccount, Action: account.Operate,
	}, func(ctx context.Context, p account.Principal, in *struct {
		InvitationID string `path:"invitation_id" maxLength:"254" doc:"Identifier or address"`
	}) (*none, error) {
		return nil, a.SignUps.Uninvite(ctx, p, in.InvitationID)
	})
}

func (a *API) signUpTerms() api.SignUpTerms {
	out := api.SignUpTerms{Mode: string(a.SignUps.Mode()), Currencies: []string{string(money.USD), string(money.CNY)}, Currency: string(money.USD), PasswordMinCharacters: account.MinPasswordCharacters}
	if a.Trials == nil {
		return out
	}
	t := a.Trials.Terms()
	if t.Currency.Valid() {
		out.Currency = string(t.Currency)
	}
	if t.Worth > 0 {
		out.Trial = &api.TrialOffer{
			Amount: t.Worth, Currency: string(t.Currency), ValidSeconds: int64(t.ValidFor / time.Second), MaxConcurrentGPUs: t.MaxGPUs, EgressPorts: append([]int{}, t.EgressPorts...),
		}
	}
	return out
}

func invitationJSON(i signup.Invitation) api.Invitation {
	return api.Invitation{ID: i.ID, Email: i.Email, InvitedBy: i.InvitedBy, CreatedAt: i.CreatedAt, ExpiresAt: i.ExpiresAt, UsedAt: optional(i.UsedAt)}
}

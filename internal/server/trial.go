package server

import (
	"context"
	"net/http"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/trial"
)

func (a *API) registerTrial() {
	if a.Trials == nil {
		return
	}
	answer := func(st trial.State, err error) (*body[api.Trial], error) {
		if err != nil {
			return nil, err
		}
		return &body[api.Trial]{a.trialJSON(st)}, nil
	}
	register(a, operation{
		ID: "getTrial", Method: http.MethodGet, Path: "/v1/trial", Summary: "Show what a trial is, and what the account has of it", Tag: tagBilling, Action: account.ReadBilling,
	}, func(ctx context.Context, p account.Principal, _ *none) (*body[api.Trial], error) {
		return answer(a.Trials.Show(ctx, p))
	})
	register(a, operation{
		ID: "createTrialDevice", Method: http.MethodPost, Path: "/v1/trial/device", Summary: "Get an identifier for this device", Tag: tagBilling, Action: account.WriteBilling, Status: http.StatusCreated,
		Description: "The client keeps it and starts a trial with it. A device has one trial.",
	}, func(context.Context, account.Principal, *none) (*body[api.TrialDevice], error) {
		return &body[api.TrialDevice]{api.TrialDevice{Device: a.Trials.NewDevice()}}, nil
	})
	register(a, operation{
		ID: "sendTrialCode", Method: http.MethodPost, Path: "/v1/trial/code", Summary: "Send the caller a code by mail", Tag: tagBilling, Action: account.WriteBilling,
		Description: "It can be used for 15 minutes and five tries. One a minute and five a day are sent.",
	}, func(ctx context.Context, p account.Principal, _ *none) (*body[api.Trial], error) {
		if err := a.Trials.SendCode(ctx, p); err != nil {
			return nil, err
		}
		return answer(a.Trials.Show(ctx, p))
	})
	register(a, operation{
		ID: "verifyTrialContact", Method: http.MethodPost, Path: "/v1/trial/verify", Summary: "Prove the caller's address by the code", Tag: tagBilling, Action: account.WriteBilling,
	}, func(ctx context.Context, p account.Principal, in *body[api.TrialCode]) (*body[api.Trial], error) {
		return answer(a.Trials.Verify(ctx, p, in.Body.Code))
	})
	register(a, operation{
		ID: "startTrial", Method: http.MethodPost, Path: "/v1/trial", Summary: "Start the account's trial", Tag: tagBilling, Action: account.WriteBilling, Idempotent: true,
		Description: "Needs a verified contact. A contact, a device and an account have one trial, and a network a number of them in 30 days. Asked again, it is the same trial.",
	}, func(ctx context.Context, p account.Principal, in *body[api.TrialDevice]) (*body[api.Trial], error) {
		return answer(a.Trials.Start(ctx, p, in.Body.Device))
	})
	register(a, operation{
		ID: "confirmTrialContact", Method: http.MethodPost, Path: "/v1/operator/accounts/{account_id}/trial-contact", Summary: "Verify the contact of an account by hand", Tag: tagBilling, Action: account.Operate,
	}, func(ctx context.Context, p account.Principal, in *struct {
		AccountID string `path:"account_id" maxLength:"64"`
	}) (*body[api.Trial], error) {
		return answer(a.Trials.VerifyByHand(ctx, p, in.AccountID))
	})
}

func (a *API) trialJSON(st trial.State) api.Trial {
	out := api.Trial{
		Offered: st.Offered, Amount: st.Terms.Worth, Currency: string(st.Terms.Currency), ValidSeconds: int64(st.Terms.ValidFor / time.Second),
		MaxConcurrentGPUs: st.Terms.MaxGPUs, EgressPorts: append([]int{}, st.Terms.EgressPorts...), MailSent: st.Mail, ContactVerified: st.Verified,
		StartedAt: optional(st.StartedAt),
	}
	if st.Grant != nil {
		g := a.grantJSON(*st.Grant)
		out.Grant = &g
	}
	return out
}

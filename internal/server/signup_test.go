package server

import (
	"context"
	"testing"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/signup"
	"suanli.dev/internal/store"
)

func init() {
	parts = append(parts, withSignUps)
}

// withSignUps opens a world to everybody, and tells trials of proven addresses.
func withSignUps(w *world, c *Config) {
	w.t.Helper()
	var err error
	c.SignUps, err = signup.New(signup.Config{
		DB: w.db, Clock: w.clock.Now, Secret: make([]byte, 32), Mode: signup.Open, Accounts: w.accounts, Proven: func(ctx context.Context, tx *store.Tx, u account.User) error { return c.Trials.Proven(ctx, tx, u) },
		Send: func(_ context.Context, to, _, text string) error {
			w.mails.Store(to, sentCode.FindString(text))
			return nil
		},
	})
	if err == nil {
		err = c.SignUps.Migrate(w.t.Context())
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestAStrangerSignsUpAndStartsATrialByTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	c := w.client("")
	terms, err := c.SignUpTerms(ctx)
	if err != nil || terms.Mode != "open" || terms.Currency != "USD" || terms.PasswordMinCharacters != 10 || terms.Trial == nil || terms.Trial.Amount.String() != "10.000000" || terms.Trial.ValidSeconds != 72*3600 {
		t.Fatalf("%+v, %v", terms, err)
	}
	in := api.SignUp{Email: "grace@example.com", Name: "Grace", Password: testPassword, TimeZone: "Europe/Berlin"}
	// Whether somebody has the address, the answer is the same.
	first := w.send("POST", "/v1/sign-up/code", "", api.SignUpCode{Email: in.Email})
	other := w.send("POST", "/v1/sign-up/code", "", api.SignUpCode{Email: w.ada.Email})
	if first.Status != 202 || other.Status != 202 || first.Body != other.Body {
		t.Errorf("unknown: %d %q; known: %d %q", first.Status, first.Body, other.Status, other.Body)
	}
	if code, _ := w.mails.Load(w.ada.Email); code != "" {
		t.Errorf("an address with an account is sent the code %q", code)
	}
	in.Code = "000000x"
	w.send("POST", "/v1/sign-up", "", in).want(t, 403, "code_wrong")
	code, _ := w.mails.Load(in.Email)
	in.Code = code.(string)
	s, err := c.SignUp(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	grace := w.client(s.Token)
	if st, err := grace.Trial(ctx); err != nil || !st.ContactVerified || st.Grant != nil {
		t.Fatalf("%+v, %v", st, err)
	}
	d, err := grace.NewTrialDevice(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := grace.StartTrial(ctx, d.Device); err != nil || st.Grant == nil || st.Grant.Left.String() != "10.000000" {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestOperatorsInviteByTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	i, err := w.operator.client.Invite(ctx, "grace@example.com")
	if err != nil || i.Email != "grace@example.com" || i.UsedAt != nil {
		t.Fatalf("%+v, %v", i, err)
	}
	if list, err := w.operator.client.Invitations(ctx); err != nil || len(list) != 1 || list[0].ID != i.ID {
		t.Errorf("%+v, %v", list, err)
	}
	w.send("POST", "/v1/operator/invitations", w.ada.token, api.InvitationCreate{Email: "x@example.com"}).want(t, 403, "forbidden")
	if err := w.operator.client.Uninvite(ctx, "grace@example.com"); err != nil {
		t.Fatal(err)
	}
	w.send("DELETE", "/v1/operator/invitations/"+i.ID, w.operator.token, nil).want(t, 404, "invitation_not_found")
}

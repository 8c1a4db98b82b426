package server

import (
	"context"
	"regexp"
	"testing"
	"time"

	"suanli.dev/internal/money"
	"suanli.dev/internal/trial"
)

func init() {
	parts = append(parts, withTrials)
}

var sentCode = regexp.MustCompile(`\b\d{6}\b`)

// withTrials adds trials to a world; what is mailed is in its mails.
func withTrials(w *world, c *Config) {
	w.t.Helper()
	var err error
	c.Trials, err = trial.New(trial.Config{
		DB: w.db, Clock: w.clock.Now, Secret: make([]byte, 32), Money: w.billing, Accounts: w.accounts,
		Terms: trial.Terms{Worth: 10_000_000, Currency: money.USD, ValidFor: 72 * time.Hour, MaxGPUs: 1, EgressPorts: []int{443}, PerNetwork: 1},
		Send: func(_ context.Context, to, _, text string) error {
			w.mails.Store(to, sentCode.FindString(text))
			return nil
		},
	})
	if err == nil {
		err = c.Trials.Migrate(w.t.Context())
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) mailedCode(p person) string {
	w.t.Helper()
	code, ok := w.mails.Load(p.Email)
	if !ok {
		w.t.Fatalf("no mail came to %s", p.Email)
	}
	return code.(string)
}

func TestAStrangerTriesTheCloudByTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	if st, err := w.ada.client.Trial(ctx); err != nil || !st.Offered || st.Amount.String() != "10.000000" || st.ValidSeconds != 72*3600 || st.ContactVerified || st.Grant != nil || len(st.EgressPorts) != 1 {
		t.Fatalf("%+v, %v", st, err)
	}
	d, err := w.ada.client.NewTrialDevice(ctx)
	if err != nil {
		t.Fatal(err)
	}
	w.send("POST", "/v1/trial", w.ada.token, d).want(t, 403, "contact_unverified")
	if _, err := w.ada.client.SendTrialCode(ctx); err != nil {
		t.Fatal(err)
	}
	w.send("POST", "/v1/trial/verify", w.ada.token, map[string]string{"code": "x"}).want(t, 403, "code_wrong")
	if st, err := w.ada.client.VerifyTrialContact(ctx, w.mailedCode(w.ada)); err != nil || !st.ContactVerified {
		t.Fatalf("%+v, %v", st, err)
	}
	st, err := w.ada.client.StartTrial(ctx, d.Device)
	if err != nil || st.Grant == nil || st.Grant.Kind != "trial" || st.Grant.Left.String() != "10.000000" || st.StartedAt == nil {
		t.Fatalf("%+v, %v", st, err)
	}
	if b, err := w.ada.client.Balance(ctx); err != nil || b.Granted.String() != "10.000000" {
		t.Errorf("%+v, %v", b, err)
	}
	// Another account, by the same network and device.
	w.send("POST", "/v1/operator/accounts/"+w.eve.AccountID+"/trial-contact", w.eve.token, struct{}{}).want(t, 403, "forbidden")
	if st, err := w.operator.client.ConfirmTrialContact(ctx, w.eve.AccountID); err != nil || !st.ContactVerified {
		t.Errorf("%+v, %v", st, err)
	}
	w.send("POST", "/v1/trial", w.eve.token, d).want(t, 403, "trial_device")
	other, err := w.eve.client.NewTrialDevice(ctx)
	if err != nil {
		t.Fatal(err)
	}
	w.send("POST", "/v1/trial", w.eve.token, other).want(t, 429, "trial_network")
	if st, err := w.eve.client.Trial(ctx); err != nil || st.Grant != nil {
		t.Errorf("another account sees %+v, %v", st, err)
	}
}

package fleet

import (
	"testing"
	"time"

	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

func TestGatewayTokenLetsOneGatewayJoinOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		var removed []string
		c := newCloudOn(t, db, func(cfg *Config) { cfg.OnGatewayRemoved = func(id string) { removed = append(removed, id) } })
		token, expires, err := c.CreateGatewayToken(t.Context(), operator, "shanghai", 0)
		if err != nil {
			t.Fatal(err)
		}
		if !expires.Equal(c.now.Add(time.Hour)) {
			t.Errorf("expires at %s, want in one hour", expires)
		}
		first, err := c.EnrolGateway(t.Context(), c.request(token, 1, false), sign)
		if err != nil {
			t.Fatal(err)
		}
		again, err := c.EnrolGateway(t.Context(), c.request(token, 1, false), sign)
		if err != nil || again.HostID != first.HostID {
			t.Fatalf("the repeated enrolment gave %+v, %v; want gateway %s", again, err, first.HostID)
		}
		_, err = c.EnrolGateway(t.Context(), c.request(token, 2, false), sign)
		wantCode(t, err, "join_token_used")
		list, err := c.Gateways(t.Context())
		if err != nil || len(list) != 1 || list[0].Name != "shanghai" || list[0].ID != first.HostID {
			t.Errorf("gateways %+v, %v", list, err)
		}
		if err := c.AdmitGateway(t.Context(), first.HostID); err != nil {
			t.Error(err)
		}

		if err := c.RemoveGateway(t.Context(), operator, first.HostID); err != nil {
			t.Fatal(err)
		}
		if len(removed) != 1 || removed[0] != first.HostID {
			t.Errorf("told that %v were removed", removed)
		}
		wantCode(t, c.AdmitGateway(t.Context(), first.HostID), "unknown_gateway")
		wantCode(t, c.RemoveGateway(t.Context(), operator, first.HostID), "unknown_gateway")
		_, err = c.EnrolGateway(t.Context(), c.request(token, 1, false), sign)
		wantCode(t, err, "unknown_gateway")
	})
}

func TestTokensLetInOnlyWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	forHost, _, err := c.CreateJoinToken(t.Context(), ada, JoinToken{})
	if err != nil {
		t.Fatal(err)
	}
	forGateway, _, err := c.CreateGatewayToken(t.Context(), operator, "", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.EnrolGateway(t.Context(), c.request(forHost, 1, false), sign)
	wantCode(t, err, "join_token_invalid")
	_, err = c.Enrol(t.Context(), c.request(forGateway, 1, false), sign)
	wantCode(t, err, "join_token_invalid")
	c.pass(2 * time.Minute)
	_, err = c.EnrolGateway(t.Context(), c.request(forGateway, 1, false), sign)
	wantCode(t, err, "join_token_expired")
	if _, _, err := c.CreateGatewayToken(t.Context(), operator, "", 365*24*time.Hour); err == nil {
		t.Error("a token for a year was made")
	}
}

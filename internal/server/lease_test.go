package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/budget"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/gateway"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/volume"
)

func init() {
	parts = append(parts, withLeases)
	belongings["lease_id"] = func(w *world, p person) string {
		w.deposit(p, "100")
		return w.rent(p).ID
	}
}

// withLeases adds leases and an entrance to a world. It comes after billing and
// the fleet, whose files are before this one.
func withLeases(w *world, c *Config) {
	w.t.Helper()
	ctx := w.t.Context()
	w.fleet = c.Fleet
	vault, err := account.NewVault(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		w.t.Fatal(err)
	}
	w.leases, err = lease.New(lease.Config{DB: w.db, Clock: w.clock.Now, Catalog: c.Catalog, Capacity: w.fleet, News: laterNews{w}, Money: w.billing, Tenants: w.accounts, Vault: vault,
		Reserve: pricing.Bounds{MaxMonths: 12, MaxBasisPoints: 6000},
		Monthly: lease.MonthlyTerms{Hours: 730, Discounts: []pricing.TermDiscount{{Months: 1}, {Months: 3, BasisPoints: 500}}},
		Budgets: laterBudgets{func() *budget.Service { return w.budgets }},
		Volumes: laterVolumes{func() *volume.Service { return w.volumes }},
		Command: func(context.Context, string, protocol.Command) (protocol.CommandResult, error) {
			return protocol.CommandResult{Accepted: true}, nil
		}})
	if err == nil {
		err = w.leases.Migrate(ctx)
	}
	if err == nil {
		err = w.leases.Load(ctx)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.printed("hello from inside\n")
	c.Leases = w.leases
	c.Entrance = &Entrance{
		SSHAddress: "cloud.example.com:2222", SSHHostKey: "ssh-ed25519 AAAA",
		AppURL: func(id string, port int, token string) string {
			return fmt.Sprintf("https://%d-%s.apps.example.com/?token=%s", port, id, token)
		},
		Open: func(_ context.Context, _ string, h protocol.StreamHeader) (net.Conn, error) {
			text := *w.logs.Load()
			if text == "" {
				return nil, &protocol.StreamError{Code: "no_such_lease", Message: "nothing is here"}
			}
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				fmt.Fprintf(far, "%s", text)
			}()
			return near, nil
		},
		Enter: func(context.Context, gateway.Target) (*ssh.Client, error) {
			return nil, &protocol.StreamError{Code: "not_ready", Message: "nothing is here"}
		},
	}
}

func (w *world) printed(text string) { w.logs.Store(&text) }

// market is an offer of a single GPU; a host of the operator's joins when there
// is none.
func (w *world) market() fleet.Offer {
	w.t.Helper()
	for range 2 {
		offers, _, err := w.fleet.Search(w.t.Context(), fleet.Query{Expression: "count = 1", Limit: 1})
		if err != nil {
			w.t.Fatal(err)
		}
		if len(offers) == 1 {
			w.hostID = offers[0].HostID
			return offers[0]
		}
		w.newHost(w.operator, 16)
	}
	w.t.Fatal("the host that joined has no offers")
	return fleet.Offer{}
}

// rent makes a lease of p's that is accepted and that no host was told of.
func (w *world) rent(p person, change ...func(*api.LeaseCreate)) api.Lease {
	w.t.Helper()
	q := w.quoteFor(p)
	in := api.LeaseCreate{QuoteID: q.ID}
	for _, f := range change {
		f(&in)
	}
	r := w.send(http.MethodPost, "/v1/leases", p.token, in)
	if r.Status != http.StatusCreated {
		// The walk may have ended p's session.
		r = w.send(http.MethodPost, "/v1/leases", w.newKey(p, account.AllScopes), in)
	}
	r.want(w.t, 201, "")
	return decode[api.Lease](w.t, r)
}

func (w *world) quoteFor(p person) *lease.Quote {
	w.t.Helper()
	q, err := w.leases.Price(w.t.Context(), p.principal(), lease.QuoteRequest{OfferID: w.market().ID, Image: "debian:12"}, "UTC")
	if err != nil {
		w.t.Fatal(err)
	}
	return q
}

// hostSays is a report of the host about one lease.
func (w *world) hostSays(st ...protocol.InstanceStatus) {
	w.t.Helper()
	if _, _, _, err := w.leases.OnReport(w.t.Context(), w.hostID, protocol.Report{Now: protocol.Instant{BootID: "boot", Nanos: 1 << 40}, Ready: true, Instances: st}, w.clock.Now()); err != nil {
		w.t.Fatal(err)
	}
}

func decode[T any](t *testing.T, r reply) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.Body), &v); err != nil {
		t.Fatalf("%v: %s", err, r.Body)
	}
	return v
}

func TestARenterQuotesRentsAndEndsOverHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "100")
	offer := w.market()
	r := w.send("POST", "/v1/quotes", w.ada.token, api.QuoteRequest{OfferID: offer.ID, Template: "jupyterlab", RunSeconds: 7200})
	r.want(t, 201, "")
	q := decode[api.Quote](t, r)
	if q.PerHour == 0 || q.ForRun <= q.PerHour || q.PricePerHourByState["stopped"] == 0 || q.PricePerHourByState["running"] != q.PerHour || q.Simulated || q.MinimumSeconds != 60 {
		t.Errorf("quote %+v", q)
	}
	r = w.send("POST", "/v1/leases", w.ada.token, api.LeaseCreate{QuoteID: q.ID, Name: "study", Labels: map[string]string{"team": "vision"}, Environment: map[string]string{"SECRET": "hunter2"}})
	r.want(t, 201, "")
	l := decode[api.Lease](t, r)
	if l.State != "accepted" || len(l.GPUs) != 1 || l.Name != "study" || l.PerHour != q.PerHour || strings.Contains(r.Body, "hunter2") {
		t.Errorf("lease %s", r.Body)
	}
	w.hostSays(protocol.InstanceStatus{LeaseID: l.ID, Generation: 1, Phase: protocol.PhaseRunning, GPUPercent: 97})
	l = decode[api.Lease](t, w.send("GET", "/v1/leases/study", w.ada.token, nil))
	if l.State != "running" || l.RunningSince == nil || l.Usage == nil || l.Usage.GPUPercent != 97 {
		t.Errorf("lease %+v", l)
	}
	access := decode[api.LeaseAccess](t, w.send("GET", "/v1/leases/study/access", w.ada.token, nil))
	if access.SSHHost != "cloud.example.com" || access.SSHPort != 2222 || access.SSHUser != l.ID || access.Environment["SECRET"] != "hunter2" || len(access.URLs) == 0 {
		t.Errorf("access %+v", access)
	}
	if logs := w.send("GET", "/v1/leases/study/logs?tail=1", w.ada.token, nil); logs.Status != 200 || logs.Body != "hello from inside\n" {
		t.Errorf("logs %d %q", logs.Status, logs.Body)
	}
	w.printed("")
	w.send("GET", "/v1/leases/study/logs", w.ada.token, nil).want(t, 404, "no_logs")
	stop := w.clock.Now().Add(time.Hour).UTC()
	l = decode[api.Lease](t, w.send("PATCH", "/v1/leases/study", w.ada.token, api.LeaseUpdate{StopAt: &stop, IdleStop: &api.IdleStop{AfterSeconds: 600, GPUPercent: 5, CPUPercent: 5}}))
	if l.StopAt == nil || !l.StopAt.Equal(stop) || l.IdleStop == nil || l.IdleStop.AfterSeconds != 600 {
		t.Errorf("after the change %+v", l)
	}
	for _, step := range []struct {
		verb, state string
		says        protocol.Phase
		then        string
	}{
		{"stop", "stopping", protocol.PhaseStopped, "stopped"},
		{"start", "starting", protocol.PhaseRunning, "running"},
		{"restart", "starting", protocol.PhaseRunning, "running"},
		{"end", "ending", protocol.PhaseAbsent, "ended"},
	} {
		w.clock.Advance(time.Minute)
		r := w.send("POST", "/v1/leases/"+l.ID+"/"+step.verb, w.ada.token, nil)
		if r.Status != 200 {
			t.Fatalf("%s: answer %d %s", step.verb, r.Status, r.Body)
		}
		l = decode[api.Lease](t, r)
		if l.State != step.state {
			t.Fatalf("%s: the lease is %s, want %s", step.verb, l.State, step.state)
		}
		w.hostSays(protocol.InstanceStatus{LeaseID: l.ID, Generation: l.Generation, Phase: step.says})
		if l = decode[api.Lease](t, w.send("GET", "/v1/leases/"+l.ID, w.ada.token, nil)); l.State != step.then {
			t.Fatalf("%s: then it is %s, want %s", step.verb, l.State, step.then)
		}
	}
	w.send("POST", "/v1/leases/"+l.ID+"/start", w.ada.token, nil).want(t, 410, "lease_state")
	history := decode[page[api.LeaseChange]](t, w.send("GET", "/v1/leases/"+l.ID+"/history", w.ada.token, nil))
	if n := len(history.Items); n != 11 || history.Items[0].To != "accepted" || history.Items[n-1].To != "ended" {
		t.Errorf("history %+v", history.Items)
	}
	bill, err := w.ada.client.Bill(t.Context(), l.ID)
	if err != nil || bill.Total == 0 || bill.Unbilled != 0 {
		t.Errorf("bill %+v, %v", bill, err)
	}
}

func TestALeaseThatIsSentTwiceIsMadeOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "100")
	in := api.LeaseCreate{QuoteID: w.quoteFor(w.ada).ID}
	first := w.send("POST", "/v1/leases", w.ada.token, in, "Idempotency-Key", "k")
	first.want(t, 201, "")
	if again := w.send("POST", "/v1/leases", w.ada.token, in, "Idempotency-Key", "k"); again.Body != first.Body {
		t.Errorf("the repeat answers %d %s", again.Status, again.Body)
	}
	w.send("POST", "/v1/leases", w.ada.token, in).want(t, 409, "quote_used")
}

func TestLeasesNeedMoneyAndAnswerWithTheReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send("POST", "/v1/leases", w.ada.token, api.LeaseCreate{QuoteID: w.quoteFor(w.ada).ID}).want(t, 402, "insufficient_balance")
	w.deposit(w.ada, "100")
	w.send("POST", "/v1/leases", w.ada.token, api.LeaseCreate{QuoteID: w.quoteFor(w.eve).ID}).want(t, 404, "quote_not_found")
	w.send("POST", "/v1/quotes", w.ada.token, api.QuoteRequest{OfferID: "nothing", Image: "a"}).want(t, 404, "offer_not_found")
}

// Values that are wrong in each field: a fault with a code and where it is.
func TestRefusedTimesAreRepeatedAsTheyWereGiven(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "100")
	offer, quote := w.market().ID, w.quoteFor(w.ada).ID
	for _, n := range []string{"-17", "31622401", "9223372036854775807"} {
		for _, c := range []struct{ path, body, want string }{
			{"/v1/quotes", `{"offer_id":"` + offer + `","image":"debian:12","run_seconds":` + n + `}`, "run_seconds is " + n},
			{"/v1/leases", `{"quote_id":"` + quote + `","idle_stop":{"gpu_percent":5,"cpu_percent":5,"after_seconds":` + n + `}}`, "after_seconds is " + n},
		} {
			if r := w.send("POST", c.path, w.ada.token, c.body); r.Status != 422 || !strings.Contains(r.Body, c.want) {
				t.Errorf("%s: answer %d %s, want %q in it", c.body, r.Status, r.Body, c.want)
			}
		}
	}
}

func TestWrongValuesInLeaseRequestsAreToldWithTheirPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "100")
	l := w.rent(w.ada)
	quote, offer := w.quoteFor(w.ada).ID, w.market().ID
	type place struct{ method, path, format string }
	quotes := place{"POST", "/v1/quotes", `{"offer_id":"` + offer + `","image":"debian:12",%s}`}
	leases := place{"POST", "/v1/leases", `{"quote_id":"` + quote + `",%s}`}
	change := place{"PATCH", "/v1/leases/" + l.ID, `{%s}`}
	for _, c := range []struct {
		place
		field  string
		values []string
	}{
		{quotes, "disk_gib", []string{"-1", "9223372036854775807", "99999999999999999999", "1.5", `"ten"`, "true"}},
		{quotes, "run_seconds", []string{"-1", "31622401", "9223372036854775807", "1e300", `"x"`}},
		{quotes, "egress_bytes", []string{"-1", "9223372036854775807", `"x"`, "0.5"}},
		{quotes, "plan", []string{`"spot"`, "7"}},
		{quotes, "template", []string{`"nope"`, "7", `"` + strings.Repeat("x", 500) + `"`}},
		{quotes, "image", []string{`"a b"`, `"` + strings.Repeat("x", 521) + `"`, "[]"}},
		{leases, "name", []string{`"ls-mine"`, `"` + l.ID + `"`, `"UPPER"`, `"` + strings.Repeat("x", 64) + `"`, "0"}},
		{leases, "labels", []string{`{"":"x"}`, `{"A":"x"}`, `{"a":1}`, `[]`}},
		{leases, "ports", []string{"[0]", "[-1]", "[65536]", "[99999999999999999999]", `["80"]`, "[80,80]", "[2222]", "80"}},
		{leases, "environment", []string{`{"A=B":""}`, `{"NVIDIA_VISIBLE_DEVICES":"all"}`, `{"A":1}`}},
		{leases, "stop_at", []string{`"2020-01-01T00:00:00Z"`, `"9999-01-01T00:00:00Z"`, `"tomorrow"`, "5"}},
		{leases, "idle_stop", []string{`{"after_seconds":1}`, `{"after_seconds":-60}`, `{"after_seconds":9223372036854775807}`, `{"after_seconds":600,"gpu_percent":-1}`, `{"after_seconds":600,"cpu_percent":101}`, `{"after_seconds":"x"}`}},
		{leases, "spending_cap", []string{`"0"`, `"0.00"`, `"-1"`, `"1e9"`, `"0.0000001"`, `"99999999999999999999"`, "1.5", `"x"`}},
		{leases, "command", []string{`["\u0000"]`, `"sh"`, `[1]`}},
		{leases, "start_script", []string{`"` + strings.Repeat("x", 70000) + `"`, `[]`}},
		{leases, "unheard_of", []string{"1"}},
		{change, "name", []string{`""`, `"UPPER"`, "1"}},
		{change, "stop_at", []string{`"2020-01-01T00:00:00Z"`, `"x"`}},
		{change, "idle_stop", []string{`{"after_seconds":59}`}},
	} {
		for _, v := range c.values {
			body := fmt.Sprintf(c.format, fmt.Sprintf("%q:%s", c.field, v))
			r := w.send(c.method, c.path, w.ada.token, body)
			var p struct {
				Code, Detail, Location string
				Errors                 []struct{ Location, Message string }
			}
			if err := json.Unmarshal([]byte(r.Body), &p); err != nil || p.Code == "" || (r.Status != 422 && r.Status != 400) {
				t.Errorf("%s %s %s=%.60s: answer %d %s", c.method, c.path, c.field, v, r.Status, r.Body)
				continue
			}
			at := slices.ContainsFunc(p.Errors, func(e struct{ Location, Message string }) bool {
				return strings.HasPrefix(e.Location, "body."+c.field) && e.Message != ""
			})
			// What does not fit the field's type at all is told by the reader of JSON.
			named := p.Location == "body" && (strings.Contains(p.Detail, c.field) || strings.Contains(p.Detail, strings.Trim(v, `"`)) ||
				// The character that no text may hold is found before there are fields.
				strings.Contains(v, `\u0000`) && strings.Contains(p.Detail, "U+0000"))
			if !at && !named && !strings.HasPrefix(p.Location, "body."+c.field) {
				t.Errorf("%s %s %s=%.60s: no place is given: %s", c.method, c.path, c.field, v, r.Body)
			}
		}
	}
	for _, query := range []string{"limit=0", "limit=-1", "limit=201", "limit=x", "state=asleep", "label=x", "label==x"} {
		if r := w.send("GET", "/v1/leases?"+query, w.ada.token, nil); r.Status != 422 || r.code() == "" || !strings.Contains(r.Body, `"query.`+query[:strings.IndexByte(query, '=')]) {
			t.Errorf("?%s: answer %d %s", query, r.Status, r.Body)
		}
	}
}

func TestLeasesAreListedByPageAndFilter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "100")
	for i := range 5 {
		w.rent(w.ada, func(c *api.LeaseCreate) { c.Labels = map[string]string{"odd": fmt.Sprint(i % 2)} })
	}
	var ids []string
	cursor := ""
	for range 5 {
		p := decode[page[api.Lease]](t, w.send("GET", "/v1/leases?state=accepted&live=true&label=odd%3D0&limit=1&host_id="+w.hostID+"&cursor="+cursor, w.ada.token, nil))
		for _, l := range p.Items {
			ids = append(ids, l.ID)
		}
		if cursor = p.NextCursor; cursor == "" {
			break
		}
	}
	if len(ids) != 3 || ids[0] <= ids[1] || ids[1] <= ids[2] {
		t.Errorf("paged to %v, want 3 from new to old", ids)
	}
	if r := w.send("GET", "/v1/leases?state=failed", w.ada.token, nil); r.Status != 200 || !strings.Contains(r.Body, `"items":[]`) {
		t.Errorf("an empty list is %d %s", r.Status, r.Body)
	}
}

func TestAnOperatorSeesALeaseAndNotItsSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "100")
	l := w.rent(w.ada, func(c *api.LeaseCreate) { c.Environment = map[string]string{"SECRET": "hunter2"} })
	w.send("GET", "/v1/leases/"+l.ID, w.operator.token, nil).want(t, 200, "")
	for _, what := range []string{"access", "logs"} {
		r := w.send("GET", "/v1/leases/"+l.ID+"/"+what, w.operator.token, nil)
		r.want(t, 403, "own_account_only")
		if strings.Contains(r.Body, "hunter2") {
			t.Error("the secret is in the refusal")
		}
	}
}

func TestChangesOfLeasesAreFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ *world, c *Config) { c.KeepAlive = 20 * time.Millisecond })
	w.deposit(w.ada, "100")
	w.deposit(w.eve, "100")
	w.market()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", w.url+"/v1/lease-events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.ada.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	buf := make([]byte, 4096)
	// The first sign of life says that the watch has begun.
	n, err := res.Body.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	hers, mine := w.rent(w.eve), w.rent(w.ada)
	got := string(buf[:n])
	for !strings.Contains(got, mine.ID) {
		n, err := res.Body.Read(buf)
		if err != nil {
			t.Fatalf("%v after %s", err, got)
		}
		got += string(buf[:n])
	}
	if strings.Contains(got, hers.ID) || !strings.Contains(got, `"to":"accepted"`) {
		t.Errorf("the stream has %s", got)
	}
}

// tokenOf takes the secret out of an address of a port.
func tokenOf(t *testing.T, address string) string {
	t.Helper()
	i := strings.LastIndexAny(address, "=/")
	if i < 0 || i+1 == len(address) {
		t.Fatalf("the address %q has no secret", address)
	}
	return address[i+1:]
}

func TestALinkOpensItsPortOnlyUntilItEndsOrIsRevoked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "100")
	l := w.rent(w.ada, func(in *api.LeaseCreate) { in.Ports = []int{8080, 8888} })
	other := w.rent(w.ada, func(in *api.LeaseCreate) { in.Ports = []int{8080} })
	for _, x := range []api.Lease{l, other} {
		w.hostSays(protocol.InstanceStatus{LeaseID: x.ID, Generation: 1, Phase: protocol.PhaseRunning})
	}
	dir := directory{&Cloud{Leases: w.leases}}
	ask := func(lease string, port int, token string) string {
		_, err := dir.HTTPTarget(t.Context(), lease, port, token)
		if err == nil {
			return "open"
		}
		f, ok := fault.As(err)
		if !ok {
			t.Fatal(err)
		}
		return f.Code
	}
	want := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	path := "/v1/leases/" + l.ID + "/links"
	link := func(port int, seconds int64) string {
		r := w.send("POST", path, w.ada.token, api.LeaseLinkCreate{Port: port, ExpiresInSeconds: seconds})
		r.want(t, 201, "")
		return tokenOf(t, decode[api.LeaseLink](t, r).URL)
	}
	access := decode[api.LeaseAccess](t, w.send("GET", "/v1/leases/"+l.ID+"/access", w.ada.token, nil))
	own, shared, brief := tokenOf(t, access.URLs["8888"]), link(8080, 0), link(8080, 3600)

	want("its own port", ask(l.ID, 8080, shared), "open")
	want("another port of the lease", ask(l.ID, 8888, shared), "token_other_port")
	want("the address of another port", ask(l.ID, 8080, own), "token_other_port")
	want("the same port of another lease", ask(other.ID, 8080, shared), "token_needed")
	want("a port that is not served", ask(l.ID, 9999, shared), "token_other_port")
	want("no token", ask(l.ID, 8080, ""), "token_needed")
	for _, forged := range []string{
		strings.Replace(brief, "8080-", "8888-", 1), strings.Replace(shared, "-0-", "-9999999999-", 1),
		"8080-0-", "8080--", "8080", "-", shared + "x", shared[:len(shared)-1], "8080-9223372036854775808-x",
	} {
		for _, port := range []int{8080, 8888} {
			want("the forged "+forged, ask(l.ID, port, forged), "token_needed")
		}
	}

	want("a link before its end", ask(l.ID, 8080, brief), "open")
	w.clock.Advance(time.Hour)
	want("a link after its end", ask(l.ID, 8080, brief), "token_expired")
	want("a link without an end", ask(l.ID, 8080, shared), "open")

	w.send("DELETE", path+"?port=8080", w.ada.token, nil).want(t, 204, "")
	want("a link after its port's were revoked", ask(l.ID, 8080, shared), "token_needed")
	want("another port's", ask(l.ID, 8888, own), "open")
	want("a new link", ask(l.ID, 8080, link(8080, 60)), "open")
	w.send("DELETE", path, w.ada.token, nil).want(t, 204, "")
	want("a link after all were revoked", ask(l.ID, 8888, own), "token_needed")

	w.send("POST", path, w.ada.token, api.LeaseLinkCreate{Port: 9999}).want(t, 404, "port_not_served")
	w.send("DELETE", path+"?port=9999", w.ada.token, nil).want(t, 404, "port_not_served")
	w.send("POST", path, w.ada.token, api.LeaseLinkCreate{Port: 8080, ExpiresInSeconds: 59}).want(t, 422, "invalid_duration")
	w.send("POST", path, w.eve.token, api.LeaseLinkCreate{Port: 8080}).want(t, 404, "lease_not_found")
	w.send("DELETE", path, w.eve.token, nil).want(t, 404, "lease_not_found")
	w.send("POST", path, w.operator.token, api.LeaseLinkCreate{Port: 8080}).want(t, 403, "own_account_only")
	w.send("DELETE", path, w.operator.token, nil).want(t, 403, "own_account_only")
	reader := w.newKey(w.ada, "lease:read")
	if r := w.send("POST", path, reader, api.LeaseLinkCreate{Port: 8080}); r.Status != 403 {
		t.Errorf("a key that may only read makes a link: %d %s", r.Status, r.Body)
	}
}

// An operator's export has every lease with how long it ran, and nobody's name.
func TestDemandIsOfAllAccountsAndTellsHowLongLeasesRan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "100")
	l := w.rent(w.ada)
	list, err := w.client(w.operator.token).Demand(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].ID != l.ID || list.Items[0].Start != nil || list.Items[0].GPUs != 1 || list.Items[0].PerHour == 0 {
		t.Errorf("%+v", list.Items)
	}
	if _, err := w.client(w.ada.token).Demand(t.Context(), "", 0); err == nil {
		t.Error("a renter reads what others rented")
	}
}

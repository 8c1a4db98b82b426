package stripe

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v85/webhook"

	"suanli.dev/internal/ident"
	"suanli.dev/internal/money"
	"suanli.dev/internal/payment"
)

const (
	key    = "sk_test_4eC39HqLyjWDarjtT1zdp7dc" //nolint:gosec // the one of Stripe's own documentation
	secret = "whsec_test"
)

// exchange is a request that is expected, and its answer.
type exchange struct {
	method, path string
	contains     []string // parts of the form or query
	idempotency  string
	status       int
	answer       string
}

// recorded answers with exchanges in their order.
type recorded struct {
	t    *testing.T
	mu   sync.Mutex
	list []exchange
}

func (s *recorded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == 0 {
		s.t.Errorf("%s %s: not expected", r.Method, r.URL)
		w.WriteHeader(http.StatusTeapot)
		return
	}
	x := s.list[0]
	s.list = s.list[1:]
	if err := r.ParseForm(); err != nil {
		s.t.Error(err)
	}
	form := r.Form.Encode()
	if r.Method != x.method || r.URL.Path != x.path || r.Header.Get("Authorization") != "Bearer "+key {
		s.t.Errorf("%s %s, want %s %s with the key", r.Method, r.URL.Path, x.method, x.path)
	}
	for _, part := range x.contains {
		if !strings.Contains(form, part) {
			s.t.Errorf("%s %s: %s is not in %s", r.Method, r.URL.Path, part, form)
		}
	}
	if x.idempotency != "" && r.Header.Get("Idempotency-Key") != x.idempotency {
		s.t.Errorf("the idempotency key is %q, want %q", r.Header.Get("Idempotency-Key"), x.idempotency)
	}
	w.Header().Set("Content-Type", "application/json")
	if x.status != 0 {
		w.WriteHeader(x.status)
	}
	fmt.Fprint(w, x.answer)
}

func open(t *testing.T, list ...exchange) *Provider {
	t.Helper()
	s := &recorded{t: t, list: list}
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.Close()
		if len(s.list) > 0 {
			t.Errorf("%d requests were not made, such as %s %s", len(s.list), s.list[0].method, s.list[0].path)
		}
	})
	return at(t, h.URL)
}

func at(t *testing.T, url string) *Provider {
	t.Helper()
	p, err := New(Config{Key: key, WebhookSecret: secret, URL: url, ReturnURL: "https://cloud.example.com/"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func order() payment.Order {
	return payment.Order{PaymentID: ident.New(ident.Payment), AccountID: "ac-1", Minor: 2500, Currency: money.USD, ExpiresAt: time.Now().Add(23 * time.Hour)}
}

func session(o payment.Order, status, paid string) string {
	return fmt.Sprintf(`{"id":"cs_1","object":"checkout.session","client_reference_id":%q,"amount_total":%d,"currency":"usd","status":%q,"payment_status":%q,"payment_intent":"pi_1","url":"https://checkout.example.com/c/cs_1"}`,
		o.PaymentID, o.Minor, status, paid)
}

func TestACheckoutIsMadeForTheExactAmountUnderThePaymentsIdentifier(t *testing.T) {
	t.Parallel()
	o := order()
	o.Currency = money.CNY
	p := open(t, exchange{method: "POST", path: "/v1/checkout/sessions", idempotency: o.PaymentID, answer: session(o, "open", "unpaid"), contains: []string{
		"client_reference_id=" + o.PaymentID, "unit_amount%5D=2500", "currency%5D=cny", "mode=payment", fmt.Sprintf("expires_at=%d", o.ExpiresAt.Unix()), "adaptive_pricing%5Benabled%5D=false",
	}})
	c, err := p.Create(t.Context(), o)
	if err != nil || c.Ref != "cs_1" || c.URL == "" {
		t.Fatalf("%+v, %v", c, err)
	}
}

func TestOnlyWhatStripeWillAlwaysRefuseIsARefusal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status  int
		kind    string
		refusal bool
	}{{400, "invalid_request_error", true}, {402, "card_error", true}, {400, "idempotency_error", false}, {401, "invalid_request_error", false}, {409, "api_error", false}, {429, "invalid_request_error", false}, {500, "api_error", false}} {
		t.Run(fmt.Sprint(c.status, " ", c.kind), func(t *testing.T) {
			t.Parallel()
			x := exchange{method: "POST", path: "/v1/checkout/sessions", status: c.status, answer: fmt.Sprintf(`{"error":{"type":%q,"message":"no"}}`, c.kind)}
			_, err := open(t, x).Create(t.Context(), order())
			var no *payment.Refusal
			if err == nil || errors.As(err, &no) != c.refusal {
				t.Errorf("%v: a refusal: %v", err, !c.refusal)
			}
			if strings.Contains(fmt.Sprint(err), key) {
				t.Errorf("the key is in %v", err)
			}
		})
	}
}

func TestASessionIsReadAsWhatItIs(t *testing.T) {
	t.Parallel()
	o := order()
	for _, c := range []struct {
		answer string
		kind   payment.Kind
	}{
		{session(o, "open", "unpaid"), payment.SawWaiting},
		{session(o, "complete", "unpaid"), payment.SawWaiting},
		{session(o, "complete", "paid"), payment.SawPaid},
		{session(o, "expired", "unpaid"), payment.SawExpired},
		{strings.Replace(session(o, "complete", "unpaid"), `"pi_1"`, `{"id":"pi_1","object":"payment_intent","status":"requires_payment_method"}`, 1), payment.SawFailed},
	} {
		got, err := open(t, exchange{method: "GET", path: "/v1/checkout/sessions/cs_1", answer: c.answer}).Look(t.Context(), o, "cs_1")
		if err != nil || got.Kind != c.kind || got.PaymentID != o.PaymentID || got.Minor != 2500 || got.Currency != "USD" || got.ChargeRef != "pi_1" {
			t.Errorf("%s: %+v, %v; want %s", c.answer, got, err, c.kind)
		}
	}
}

func TestARefundIsLookedForBeforeItIsMade(t *testing.T) {
	t.Parallel()
	r := payment.RefundOrder{RefundID: "rf-1", PaymentID: "pm-1", ChargeRef: "pi_1", Minor: 700, Currency: money.USD}
	refund := func(status string) string {
		return `{"id":"re_1","object":"refund","amount":700,"currency":"usd","payment_intent":"pi_1","status":"` + status + `","metadata":{"suanli_refund":"rf-1"}}`
	}
	listed := func(items string) exchange {
		return exchange{method: "GET", path: "/v1/refunds", contains: []string{"payment_intent=pi_1"}, answer: `{"object":"list","url":"/v1/refunds","has_more":false,"data":[` + items + `]}`}
	}
	p := open(t,
		listed(`{"id":"re_0","object":"refund","amount":1,"currency":"usd","status":"succeeded","metadata":{}}`),
		exchange{method: "POST", path: "/v1/refunds", idempotency: "rf-1", contains: []string{"amount=700", "payment_intent=pi_1", "suanli_refund%5D=rf-1"}, answer: refund("pending")},
		listed(refund("succeeded")))
	for _, want := range []string{payment.StillOpen, payment.Done} {
		got, err := p.Refund(t.Context(), r)
		if err != nil || got.Progress != want || got.RefundID != "rf-1" || got.ItemRef != "re_1" || got.Minor != 700 {
			t.Errorf("%+v, %v; want %s", got, err, want)
		}
	}
}

func event(kind, object string) string {
	return `{"id":"evt_1","object":"event","api_version":"2020-08-27","type":"` + kind + `","data":{"object":` + object + `}}`
}

// signed is a body with the header of docs.stripe.com/webhooks#verify-manually.
func signed(body string, at time.Time, secret string) http.Header {
	return http.Header{"Stripe-Signature": {fmt.Sprintf("t=%d,v1=%s,v0=00", at.Unix(), hex.EncodeToString(webhook.ComputeSignature(at, []byte(body), secret)))}}
}

func TestACallbackIsStripesOnlyWithAFreshSignatureOfExactlyItsBytes(t *testing.T) {
	t.Parallel()
	p := at(t, "http://127.0.0.1:1")
	body := event("checkout.session.completed", session(order(), "complete", "paid"))
	if seen, err := p.Callback(signed(body, time.Now(), secret), []byte(body)); err != nil || len(seen) != 1 || seen[0].Kind != payment.SawPaid {
		t.Fatalf("%+v, %v", seen, err)
	}
	for name, h := range map[string]http.Header{
		"none":            {},
		"another secret":  signed(body, time.Now(), "whsec_other"),
		"another body":    signed(body+" ", time.Now(), secret),
		"too old":         signed(body, time.Now().Add(-6*time.Minute), secret),
		"no time":         {"Stripe-Signature": {"v1=00"}},
		"nothing but it":  {"Stripe-Signature": {"t=1"}},
		"not hexadecimal": {"Stripe-Signature": {"t=1,v1=zz"}},
		"garbage":         {"Stripe-Signature": {"=,=,,"}},
	} {
		if seen, err := p.Callback(h, []byte(body)); !errors.Is(err, payment.ErrSignature) || seen != nil {
			t.Errorf("%s: %+v, %v", name, seen, err)
		}
	}
}

func TestEventsSayWhatMovedMoneyAndNothingElse(t *testing.T) {
	t.Parallel()
	o := order()
	dispute := func(status string) string {
		return `{"id":"dp_1","object":"dispute","amount":2500,"currency":"usd","payment_intent":"pi_1","reason":"fraudulent","status":"` + status + `"}`
	}
	refund := func(status string) string {
		return `{"id":"re_1","object":"refund","amount":2500,"currency":"usd","payment_intent":"pi_1","status":"` + status + `","metadata":null}`
	}
	for _, c := range []struct{ kind, object, want string }{
		{"checkout.session.completed", session(o, "complete", "unpaid"), "waiting"},
		{"checkout.session.async_payment_succeeded", session(o, "complete", "paid"), "paid"},
		{"checkout.session.async_payment_failed", session(o, "complete", "unpaid"), "failed"},
		{"checkout.session.expired", session(o, "expired", "unpaid"), "expired"},
		{"checkout.session.completed", strings.Replace(session(o, "complete", "paid"), o.PaymentID, "order-17", 1), ""}, // another shop's
		{"refund.updated", refund("succeeded"), "refund done"},
		{"refund.created", refund("pending"), "refund open"},
		{"refund.failed", refund("failed"), "refund failed"},
		{"charge.dispute.created", dispute("needs_response"), "dispute open"},
		{"charge.dispute.created", dispute("warning_needs_response"), ""}, // an inquiry
		{"charge.dispute.closed", dispute("won"), "dispute won"},
		{"charge.dispute.closed", dispute("lost"), "dispute lost"},
		{"charge.dispute.closed", dispute("warning_closed"), ""},
		{"customer.created", `{"id":"cus_1"}`, ""},
	} {
		body := event(c.kind, c.object)
		seen, err := at(t, "http://127.0.0.1:1").Callback(signed(body, time.Now(), secret), []byte(body))
		got := ""
		if len(seen) == 1 {
			got = strings.TrimSpace(string(seen[0].Kind) + " " + seen[0].Progress)
		}
		if err != nil || got != c.want {
			t.Errorf("%s of %s: %q, %v; want %q", c.kind, c.object, got, err, c.want)
		}
	}
}

func TestTheListOfEventsIsReadOldestFirst(t *testing.T) {
	t.Parallel()
	a, b := order(), order()
	p := open(t, exchange{method: "GET", path: "/v1/events", contains: []string{"created%5Bgte%5D=1000", "types%5B0%5D=checkout.session.completed"},
		answer: `{"object":"list","url":"/v1/events","has_more":false,"data":[` + event("checkout.session.completed", session(b, "complete", "paid")) + `,` + event("checkout.session.completed", session(a, "complete", "paid")) + `]}`})
	seen, err := p.Since(t.Context(), time.Unix(1000, 0))
	if err != nil || len(seen) != 2 || seen[0].PaymentID != a.PaymentID || seen[1].PaymentID != b.PaymentID {
		t.Errorf("%+v, %v", seen, err)
	}
}

// Whoever writes to the address of callbacks, signed or not, gets an answer and does
// not stop the process.
func FuzzCallback(f *testing.F) {
	o := payment.Order{PaymentID: ident.New(ident.Payment), Minor: 1}
	f.Add(event("checkout.session.completed", session(o, "complete", "paid")), "t=1,v1=00", true)
	f.Add(event("charge.dispute.created", `{"id":"dp_1","payment_intent":null}`), "", true)
	f.Add(`{"object":"event","type":"refund.created"}`, "t=,v1=", true)
	f.Add(`{"object":"event","type":"refund.created","data":{"object":[]}}`, "x", false)
	f.Add(`null`, "t=99999999999999999999,v1=", false)
	p, err := New(Config{Key: key, WebhookSecret: secret, ReturnURL: "https://cloud.example.com/"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body, header string, right bool) {
		h := http.Header{"Stripe-Signature": {header}}
		if right {
			h = signed(body, time.Now(), secret)
		}
		seen, err := p.Callback(h, []byte(body))
		if !right && !errors.Is(err, payment.ErrSignature) {
			t.Errorf("%+v, %v without a signature", seen, err)
		}
		for _, o := range seen {
			if o.Kind == payment.SawPaid && (o.Ref == "" || o.PaymentID == "") {
				t.Errorf("paid, and not what: %+v", o)
			}
			if _, err := json.Marshal(o); err != nil {
				t.Error(err)
			}
		}
	})
}

// Stripe's own mock checks each request against Stripe's published API.
func TestStripesMockTakesOurRequests(t *testing.T) {
	t.Parallel()
	program := os.Getenv("SUANLI_TEST_STRIPE_MOCK")
	if program == "" {
		t.Skip("SUANLI_TEST_STRIPE_MOCK names no stripe-mock; make test-stripe fetches it")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, program, "-http-port", fmt.Sprint(port), "-strict-version-check=false")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // killed, as intended
	})
	address := fmt.Sprintf("127.0.0.1:%d", port)
	// It reads Stripe's whole API first, which takes a busy machine its time.
	for deadline := time.Now().Add(2 * time.Minute); ; {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("stripe-mock does not listen:", err)
		}
		<-time.After(50 * time.Millisecond)
	}
	p := at(t, "http://"+address)
	o := order()
	c, err := p.Create(ctx, o)
	if err != nil || c.Ref == "" {
		t.Fatalf("create: %+v, %v", c, err)
	}
	if seen, err := p.Look(ctx, o, c.Ref); err != nil || seen.Ref == "" {
		t.Errorf("look: %+v, %v", seen, err)
	}
	if seen, err := p.Refund(ctx, payment.RefundOrder{RefundID: "rf-1", ChargeRef: "pi_123", Minor: 100, Currency: money.USD}); err != nil || seen.ItemRef == "" {
		t.Errorf("refund: %+v, %v", seen, err)
	}
	if _, err := p.Since(ctx, time.Now().Add(-time.Hour)); err != nil {
		t.Errorf("events: %v", err)
	}
}

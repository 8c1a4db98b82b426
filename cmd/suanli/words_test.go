package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Mistakes in arguments are said in words before anything is asked of a cloud.
func TestMistakesInArgumentsAreSaidInWords(t *testing.T) {
	for _, c := range []struct {
		args string
		want string
	}{
		{"exchange set USD CNY 7.1 --source bank", "say until when"},
		{"exchange set USD CNY 7.1 --source bank --until tomorrow", "want a moment such as"},
		{"exchange set USD CNY 7.1 --source bank --from today --until 2027-01-01T00:00:00Z", "want a moment such as"},
		{"notifications --limit -1", "--limit -1: want at least 1"},
		{"notifications --limit 0", "--limit 0: want at least 1"},
		{"webhook deliveries wh-1 --limit -3", "--limit -3: want at least 1"},
		{"budget create a -5", "the amount is -5; want more than 0"},
	} {
		args := append(strings.Fields(c.args), "--server", "http://127.0.0.1:1", "--token", "x")
		_, _, err := run(t.Context(), args...)
		if err == nil || report(err) != exitUsage || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "suanli deposit") {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
}

func TestACodeForAProvenAddressIsNotNeededAndSaysSo(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("%s %s was asked", r.Method, r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"offered": true, "amount": "5.000000", "currency": "USD", "valid_seconds": 3600, "contact_verified": true}`))
	}))
	defer server.Close()
	_, errs, err := run(t.Context(), "trial", "verify", "123456", "--server", server.URL, "--token", "x")
	out, _, _ := run(t.Context(), "trial", "verify", "123456", "--server", server.URL, "--token", "x")
	if err != nil || !strings.Contains(out+errs, "proven already") {
		t.Errorf("%v: %s %s", err, out, errs)
	}
}

package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"suanli.dev/internal/fault"
)

func TestEveryPageIsInBothLanguages(t *testing.T) {
	t.Parallel()
	for code, e := range explanations {
		if e.title[0] == "" || e.title[1] == "" || e.message == "" || (e.hint[0] == "") != (e.hint[1] == "") {
			t.Errorf("%s: %+v", code, e)
		}
	}
	for status, title := range otherwise {
		if title[0] == "" || title[1] == "" {
			t.Errorf("%d: %v", status, title)
		}
	}
}

func TestLanguageIsTheFirstOfOursThatTheVisitorReads(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]bool{
		"": false, "zh": true, "zh-CN,zh;q=0.9,en;q=0.8": true, "en-US,zh;q=0.5": false, "fr-FR, zh-TW;q=0.3": true, "de": false,
	} {
		if got := prefersChinese(header); got != want {
			t.Errorf("%q: Chinese is %v", header, got)
		}
	}
}

func TestPageTriesAgainByItselfOnlyWhatPassesAndOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, code string
		retries      bool
	}{
		{http.MethodGet, "port_closed", true}, {http.MethodPost, "port_closed", false},
		{http.MethodGet, "token_needed", false}, {http.MethodGet, "unheard_of", false},
	} {
		rec := httptest.NewRecorder()
		r := httptest.NewRequest(c.method, "/", nil)
		r.Header.Set("Accept", "text/html")
		showFault(rec, r, fault.New(fault.Unavailable, c.code, "<b>this</b> is so"))
		body := rec.Body.String()
		if strings.Contains(body, `http-equiv="refresh"`) != c.retries || strings.Contains(body, "every five seconds") != c.retries {
			t.Errorf("%s %s: %s", c.method, c.code, body)
		}
		if strings.Contains(body, "<b>") || strings.Contains(body, "<h1></h1>") {
			t.Errorf("%s %s: %s", c.method, c.code, body)
		}
	}
}

package server

import (
	"encoding/json"
	"strings"
	"testing"

	"suanli.dev/internal/documented"
)

func TestTheOpenAPIDocumentIsCurrent(t *testing.T) {
	t.Parallel()
	got, err := Document("0")
	if err != nil {
		t.Fatal(err)
	}
	documented.Whole(t, "../../api/openapi.json", string(got))
}

func TestEveryOperationIsDescribedForPeopleAndPrograms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.send("GET", "/openapi.json", "", nil)
	r.want(t, 200, "")
	var doc struct {
		OpenAPI string `json:"openapi"`
		Paths   map[string]map[string]struct {
			OperationID string                `json:"operationId"`
			Summary     string                `json:"summary"`
			Tags        []string              `json:"tags"`
			Security    []map[string][]string `json:"security"`
			Responses   map[string]any        `json:"responses"`
		} `json:"paths"`
	}
	if err := json.Unmarshal([]byte(r.Body), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("the document is OpenAPI %s, want 3.1.0", doc.OpenAPI)
	}
	page := w.send("GET", "/docs", "", nil)
	page.want(t, 200, "")
	for _, op := range w.server.operations {
		got, ok := doc.Paths[op.Path][strings.ToLower(op.Method)]
		if !ok || got.OperationID != op.ID || got.Summary == "" || len(got.Tags) != 1 || got.Tags[0] == "" {
			t.Errorf("%s %s: described as %+v; want the id %q, a summary and one tag", op.Method, op.Path, got, op.ID)
		}
		if (op.Action != "") != (len(got.Security) == 1) {
			t.Errorf("%s: needs %q but the document says %v", op.ID, op.Action, got.Security)
		}
		if got.Responses["default"] == nil {
			t.Errorf("%s: no problem response is described", op.ID)
		}
		if !strings.Contains(page.Body, `id="`+op.ID+`"`) {
			t.Errorf("%s: not on the reference page", op.ID)
		}
	}
}

func TestTheReferencePageLoadsNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.send("GET", "/docs", "", nil)
	if csp := r.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") {
		t.Errorf("Content-Security-Policy %q lets the page load things", csp)
	}
	for _, outside := range []string{"<script", "<link", "src=", "@import", "url("} {
		if strings.Contains(r.Body, outside) {
			t.Errorf("the page has %q", outside)
		}
	}
	again := w.send("GET", "/docs", "", nil, "If-None-Match", r.Header.Get("ETag"))
	if again.Status != 304 {
		t.Errorf("with its ETag the page answers %d, want 304", again.Status)
	}
}

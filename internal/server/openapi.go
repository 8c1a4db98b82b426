package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/budget"
	"suanli.dev/internal/catalog"
	"suanli.dev/internal/cluster"
	"suanli.dev/internal/drill"
	"suanli.dev/internal/earning"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/market"
	"suanli.dev/internal/notify"
	"suanli.dev/internal/payment"
	"suanli.dev/internal/reservation"
	"suanli.dev/internal/signup"
	"suanli.dev/internal/sla"
	"suanli.dev/internal/trial"
	"suanli.dev/internal/volume"
	"suanli.dev/internal/waiting"
)

// Document returns the OpenAPI document of a server with every subject,
// indented, for the file in the repository and for generators of clients.
func Document(version string) ([]byte, error) {
	s := New(Config{Services: everything(), Version: version})
	raw, err := s.document()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// everything has each service, none of them usable: describing the endpoints
// calls none.
func everything() Services {
	return Services{
		Accounts: &account.Service{}, Catalog: &catalog.Catalog{}, Fleet: &fleet.Service{}, Billing: &billing.Service{}, Earnings: &earning.Service{}, Levels: &sla.Service{},
		Leases: &lease.Service{}, Market: &market.Service{}, Trials: &trial.Service{}, SignUps: &signup.Service{}, Reservations: &reservation.Service{}, Volumes: &volume.Service{}, Clusters: &cluster.Service{}, Waiting: &waiting.Service{}, News: &notify.Service{}, Budgets: &budget.Service{}, Drills: &drill.Service{}, Payments: &payment.Service{}, Entrance: &Entrance{},
	}
}

func (s *Server) humaConfig() huma.Config {
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "suanli", Version: s.cfg.Version, License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
			Description: "The API of a suanli cloud. Times are RFC 3339 in UTC; amounts of money are decimal strings; names carry their unit. " +
				"Errors are RFC 9457 problems with a stable `code`. Lists come in pages: pass `next_cursor` as `cursor` until it is absent. " +
				"A write that takes an `Idempotency-Key` may be repeated safely with the same key.",
		},
		Components: &huma.Components{
			Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
			SecuritySchemes: map[string]*huma.SecurityScheme{"bearer": {
				Type: "http", Scheme: "bearer", Description: "An API key or a session token. A WebSocket may send it as the subprotocol `" + webSocketBearer + "TOKEN`.",
			}},
		},
	}
	if s.cfg.PublicURL != "" {
		doc.Servers = []*huma.Server{{URL: s.cfg.PublicURL}}
	}
	return huma.Config{
		OpenAPI:                      doc,
		Formats:                      map[string]huma.Format{"application/json": plainJSON, "json": plainJSON},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{explain},
	}
}

// plainJSON is JSON without the character U+0000 in any text. No value of ours
// has it, and not every database can keep it.
var plainJSON = huma.Format{
	Marshal: huma.DefaultJSONFormat.Marshal,
	Unmarshal: func(data []byte, v any) error {
		if hasNUL(data) {
			return errors.New("a text in the body holds the character U+0000; remove it")
		}
		return huma.DefaultJSONFormat.Unmarshal(data, v)
	},
}

// hasNUL finds the escape of U+0000, the only way in which JSON can hold it.
func hasNUL(data []byte) bool {
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		if bytes.HasPrefix(data[i+1:], []byte("u0000")) {
			return true
		}
		i++ // an escaped backslash begins no escape
	}
	return false
}

// problemResponse describes every answer that is not a success.
func (a *API) problemResponse() *huma.Response {
	schema := a.huma.OpenAPI().Components.Schemas.Schema(problemType, true, "Problem")
	return &huma.Response{Description: "A problem", Content: map[string]*huma.MediaType{"application/problem+json": {Schema: schema}}}
}

func (s *Server) renderDocument() ([]byte, error) {
	// huma describes its own error type, which no response of ours is.
	delete(s.huma.OpenAPI().Components.Schemas.Map(), "ErrorModel")
	return json.Marshal(s.huma.OpenAPI())
}

func (s *Server) serveDocument(w http.ResponseWriter, r *http.Request) {
	s.servePage(w, r, "openapi", "application/openapi+json", s.document)
}

func (s *Server) serveReference(w http.ResponseWriter, r *http.Request) {
	// The page is one document with its own style, and nothing else may run in it.
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	s.servePage(w, r, "docs", "text/html; charset=utf-8", s.page)
}

func (s *Server) servePage(w http.ResponseWriter, r *http.Request, operation, contentType string, render func() ([]byte, error)) {
	exchangeFrom(r.Context()).operation = operation
	content, err := render()
	if err != nil {
		writeProblem(w, problem(r.Context(), s.log, err))
		return
	}
	sum := sha256.Sum256(content)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "no-cache")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.Write(content)
}

package server

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed reference.html
var referenceHTML string

// refTag is one subject of the reference page.
type refTag struct {
	Name       string
	Operations []refOperation
}

type refOperation struct {
	ID, Method, Path, Summary, Description, Scope string
	Parameters                                    []refField
	Body                                          []refField
	Answers                                       []refAnswer
	Example                                       string
}

type refField struct {
	Name, In, Type, Description string
	Required                    bool
}

type refAnswer struct {
	Status, Description, ContentType string
	Fields                           []refField
}

// renderReference makes the reference page from the OpenAPI document, here and
// not in the browser: it needs no script, no network and no build.
func (s *Server) renderReference() ([]byte, error) {
	doc := s.huma.OpenAPI()
	tags := map[string]*refTag{}
	for path, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op == nil {
				continue
			}
			name := "Other"
			if len(op.Tags) > 0 && op.Tags[0] != "" {
				name = op.Tags[0]
			}
			if tags[name] == nil {
				tags[name] = &refTag{Name: name}
			}
			tags[name].Operations = append(tags[name].Operations, s.refOperation(path, op))
		}
	}
	var list []*refTag
	for _, t := range tags {
		slices.SortFunc(t.Operations, func(a, b refOperation) int { return strings.Compare(a.Path+a.Method, b.Path+b.Method) })
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *refTag) int { return strings.Compare(a.Name, b.Name) })
	page, err := template.New("reference").Parse(referenceHTML)
	if err != nil {
		return nil, fmt.Errorf("reference page: %w", err)
	}
	var out bytes.Buffer
	if err := page.Execute(&out, map[string]any{"Info": doc.Info, "Tags": list}); err != nil {
		return nil, fmt.Errorf("reference page: %w", err)
	}
	return out.Bytes(), nil
}

func (s *Server) refOperation(path string, op *huma.Operation) refOperation {
	o := refOperation{ID: op.OperationID, Method: op.Method, Path: path, Summary: op.Summary, Description: op.Description}
	for _, need := range op.Security {
		for _, scopes := range need {
			o.Scope = strings.Join(scopes, ", ")
		}
	}
	for _, p := range op.Parameters {
		o.Parameters = append(o.Parameters, refField{Name: p.Name, In: p.In, Type: s.typeName(p.Schema), Description: p.Description, Required: p.Required})
	}
	base := s.cfg.PublicURL
	if base == "" {
		base = "$SUANLI_URL"
	}
	o.Example = "curl -H \"Authorization: Bearer $SUANLI_TOKEN\" \\\n  " + base + path
	if op.Method != "GET" {
		o.Example = "curl -X " + op.Method + strings.TrimPrefix(o.Example, "curl")
	}
	if op.RequestBody != nil {
		for ct, m := range op.RequestBody.Content {
			o.Body = s.fields(m.Schema, "", 0)
			if ct == "application/json" && m.Schema != nil {
				if sample, err := json.Marshal(s.sample(m.Schema, 0)); err == nil {
					o.Example += " \\\n  -H 'Content-Type: application/json' \\\n  -d '" + string(sample) + "'"
				}
			}
		}
	}
	for status, r := range op.Responses {
		a := refAnswer{Status: status, Description: r.Description}
		for ct, m := range r.Content {
			a.ContentType = ct
			if status != "default" {
				a.Fields = s.fields(m.Schema, "", 0)
			}
		}
		o.Answers = append(o.Answers, a)
	}
	slices.SortFunc(o.Answers, func(a, b refAnswer) int { return strings.Compare(a.Status, b.Status) })
	return o
}

// refDepth bounds how far a type is unfolded, as types may contain themselves.
const refDepth = 4

func (s *Server) resolve(sc *huma.Schema) *huma.Schema {
	for sc != nil && sc.Ref != "" {
		sc = s.huma.OpenAPI().Components.Schemas.SchemaFromRef(sc.Ref)
	}
	return sc
}

func (s *Server) fields(sc *huma.Schema, prefix string, depth int) []refField {
	sc = s.resolve(sc)
	if sc == nil || depth > refDepth {
		return nil
	}
	if sc.Type == huma.TypeArray {
		return s.fields(sc.Items, prefix+"[]", depth+1)
	}
	names := make([]string, 0, len(sc.Properties))
	for name := range sc.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	var out []refField
	for _, name := range names {
		p := sc.Properties[name]
		full := strings.TrimPrefix(prefix+"."+name, ".")
		d := p.Description
		if r := s.resolve(p); d == "" && r != nil {
			d = r.Description
		}
		out = append(out, refField{Name: full, Type: s.typeName(p), Description: d, Required: slices.Contains(sc.Required, name)})
		out = append(out, s.fields(p, full, depth+1)...)
	}
	return out
}

func (s *Server) typeName(sc *huma.Schema) string {
	sc = s.resolve(sc)
	if sc == nil {
		return ""
	}
	t := sc.Type
	if sc.Type == huma.TypeArray {
		t = "list of " + s.typeName(sc.Items)
	}
	if sc.Format != "" && sc.Type != huma.TypeObject {
		t += ", " + sc.Format
	}
	if sc.Minimum != nil {
		t += fmt.Sprintf(", at least %v", *sc.Minimum)
	}
	if sc.Maximum != nil {
		t += fmt.Sprintf(", at most %v", *sc.Maximum)
	}
	if len(sc.Enum) > 0 {
		var values []string
		for _, v := range sc.Enum {
			values = append(values, fmt.Sprint(v))
		}
		t += ": " + strings.Join(values, ", ")
	}
	return t
}

// sample makes a small body that shows the required fields.
func (s *Server) sample(sc *huma.Schema, depth int) any {
	sc = s.resolve(sc)
	if sc == nil || depth > refDepth {
		return nil
	}
	if len(sc.Examples) > 0 {
		return sc.Examples[0]
	}
	if sc.Default != nil {
		return sc.Default
	}
	if len(sc.Enum) > 0 {
		return sc.Enum[0]
	}
	switch sc.Type {
	case huma.TypeObject:
		out := map[string]any{}
		for _, name := range sc.Required {
			if p := sc.Properties[name]; p != nil {
				out[name] = s.sample(p, depth+1)
			}
		}
		return out
	case huma.TypeArray:
		return []any{s.sample(sc.Items, depth+1)}
	case huma.TypeInteger, huma.TypeNumber:
		return 1
	case huma.TypeBoolean:
		return true
	}
	return "…"
}

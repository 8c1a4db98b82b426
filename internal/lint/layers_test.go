package lint

import (
	"slices"
	"strings"
	"testing"
)

// layer is how far up a package is. Imports point downwards or stay level.
type layer int

const (
	core    layer = iota // values, rules, and what everything stands on
	service              // the business; each owns its tables
	side                 // what talks to the world outside and knows no service
	edge                 // wires services to the world
	command              // main packages and what only they import
)

func (l layer) String() string {
	return [...]string{"core", "service", "side", "edge", "command"}[l]
}

// rule is what holds for one package and, unless they have a line of their own,
// for those below it.
type rule struct {
	layer layer
	// only lists all that may be imported of this module; nil: whatever the
	// layers allow.
	only []string
	// never lists what may not be imported although the layers allow it.
	never []string
}

var nothing = []string{}

// layers has a line for every package. The table in ARCHITECTURE.md is the same
// in words.
var layers = map[string]rule{
	"internal/money":                   {layer: core, only: nothing},
	"internal/ident":                   {layer: core, only: nothing},
	"internal/statemachine":            {layer: core, only: nothing},
	"internal/fault":                   {layer: core, only: nothing},
	"internal/ratelimit":               {layer: core, only: nothing},
	"internal/intake":                  {layer: core, only: nothing},
	"internal/reach":                   {layer: core, only: nothing},
	"internal/catalog":                 {layer: core, only: nothing},
	"internal/protocol":                {layer: core, only: nothing},
	"internal/placement":               {layer: core, only: nothing},
	"internal/placement/queue":         {layer: core, only: []string{"internal/placement"}},
	"internal/pricing":                 {layer: core, only: []string{"internal/money", "internal/statemachine"}},
	"internal/pricing/auction/welfare": {layer: core, only: []string{"internal/pricing/auction"}},
	"internal/pricing/auction":         {layer: core, only: []string{"internal/money"}},
	"internal/sim":                     {layer: core, only: []string{"internal/money", "internal/pricing", "internal/pricing/auction", "internal/placement"}},
	"internal/pdf":                     {layer: core, only: nothing},
	"internal/mail":                    {layer: core, only: nothing},
	"internal/objectstore":             {layer: core, only: []string{"internal/fault"}},
	"internal/objectstore/s3test":      {layer: side, only: []string{"internal/objectstore"}},
	"internal/config":                  {layer: core, only: []string{"internal/money", "internal/pricing"}},
	"internal/store":                   {layer: core},
	"internal/replica":                 {layer: core, only: []string{"internal/store", "internal/ident", "internal/fault"}},
	"internal/bus":                     {layer: core, never: []string{"internal/store", "internal/money"}},
	"internal/ledger":                  {layer: core, only: []string{"internal/store", "internal/money", "internal/ident", "internal/fault"}},
	"api":                              {layer: core, only: []string{"internal/money"}},

	"internal/account": {layer: service, never: []string{"internal/fleet", "internal/billing", "internal/lease"}},
	"internal/fleet":   {layer: service, never: []string{"internal/billing", "internal/lease", "internal/ledger"}},
	"internal/billing": {layer: service, never: []string{"internal/fleet", "internal/lease", "internal/catalog", "internal/protocol"}},
	"internal/earning": {layer: service},
	"internal/sla":     {layer: service},
	"internal/budget":  {layer: service, never: []string{"internal/fleet", "internal/lease", "internal/ledger", "internal/catalog", "internal/protocol"}},
	"internal/payment": {layer: service, never: []string{"internal/fleet", "internal/lease", "internal/catalog", "internal/protocol"}},
	"internal/notify":  {layer: service, only: []string{"internal/account", "internal/store", "internal/ident", "internal/fault", "internal/money", "internal/reach"}},
	"internal/lease":   {layer: service, never: []string{"internal/ledger", "internal/market"}},
	"internal/trial":   {layer: service, never: []string{"internal/lease", "internal/fleet", "internal/ledger"}},
	"internal/signup":  {layer: service, only: []string{"internal/account", "internal/store", "internal/ident", "internal/fault", "internal/ratelimit"}},
	"internal/market":  {layer: service, never: []string{"internal/ledger", "internal/billing", "internal/catalog", "internal/placement"}},

	"internal/volume":  {layer: service, never: []string{"internal/ledger", "internal/market", "internal/placement", "internal/catalog"}},
	"internal/waiting": {layer: service, never: []string{"internal/ledger", "internal/billing", "internal/market", "internal/catalog"}},
	"internal/cluster": {layer: service, never: []string{"internal/ledger", "internal/market", "internal/placement"}},
	"internal/drill":   {layer: service, only: []string{"internal/fleet", "internal/lease", "internal/account", "internal/store", "internal/ident", "internal/fault"}},

	"internal/reservation": {layer: service, never: []string{"internal/ledger", "internal/lease", "internal/market", "internal/placement"}},

	"internal/instance": {layer: side, only: []string{"internal/protocol"}},

	"internal/instance/sshtest":         {layer: side, only: nothing},
	"internal/account/passkeytest":      {layer: side, only: nothing},
	"internal/agent":                    {layer: side, never: []string{"internal/money", "internal/store", "internal/ledger", "internal/pricing", "internal/gateway", "internal/instance"}},
	"internal/agent/runtime/kubernetes": {layer: side, only: []string{"internal/agent/runtime", "internal/agent/gpu", "internal/agent/probe", "internal/protocol", "internal/reach"}},
	"internal/console":                  {layer: side, only: nothing},
	"internal/gateway":                  {layer: side, never: []string{"internal/store", "internal/money", "internal/ledger", "internal/instance"}},

	"internal/server": {layer: edge},

	"cmd":                 {layer: command},
	"internal/lint":       {layer: command, only: nothing},
	"internal/documented": {layer: core, only: nothing},
	"bench":               {layer: command},
	"e2e":                 {layer: command},
}

// ruleOf is the line of a package: its own, or that of the nearest folder above.
func ruleOf(pkg string) (string, rule, bool) {
	for p := pkg; ; {
		if r, ok := layers[p]; ok {
			return p, r, true
		}
		i := strings.LastIndexByte(p, '/')
		if i < 0 {
			return "", rule{}, false
		}
		p = p[:i]
	}
}

// within is whether pkg is folder or below it.
func within(pkg, folder string) bool {
	return pkg == folder || strings.HasPrefix(pkg, folder+"/")
}

// violation says what is wrong with pkg importing other, or nothing.
func violation(pkg, other string) string {
	own, r, ok := ruleOf(pkg)
	if !ok {
		return "package " + pkg + " has no line in the table of layers"
	}
	otherOwn, to, ok := ruleOf(other)
	if !ok {
		return "package " + other + " has no line in the table of layers"
	}
	inside := func(folder string) bool { return within(other, folder) }
	switch {
	case own == otherOwn:
		return ""
	case to.layer > r.layer:
		return pkg + " (" + r.layer.String() + ") imports " + other + " (" + to.layer.String() + "): imports point downwards"
	case r.layer == side && to.layer == service:
		return pkg + " imports the service " + other + ": it may run where there is none"
	case slices.ContainsFunc(r.never, inside):
		return pkg + " may not import " + other
	case r.only != nil && !slices.ContainsFunc(r.only, inside):
		return pkg + " imports " + other + ", and may import only [" + strings.Join(r.only, " ") + "] of this module"
	}
	return ""
}

func TestImportsPointDownwards(t *testing.T) {
	for _, s := range tree(t) {
		if s.test {
			continue
		}
		for _, other := range s.imports() {
			if wrong := violation(s.pkg, other); wrong != "" {
				t.Errorf("%s: %s", s.path, wrong)
			}
		}
	}
}

func TestEveryPackageHasALayer(t *testing.T) {
	for _, s := range tree(t) {
		if _, _, ok := ruleOf(s.pkg); !ok {
			t.Errorf("%s: package %s has no line in the table of layers", s.path, s.pkg)
		}
	}
}

func TestOnlyTestsImportWhatIsForTests(t *testing.T) {
	for _, s := range tree(t) {
		for _, other := range s.imports() {
			if strings.HasSuffix(other, "test") && !s.test && !strings.HasSuffix(s.pkg, "test") {
				t.Errorf("%s imports %s, which is for tests", s.path, other)
			}
		}
	}
}

func TestTheImportRuleSeesViolations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ pkg, other, want string }{
		{"internal/pricing", "internal/money", ""},
		{"internal/pricing", "internal/store", "may import only"},
		{"internal/store", "internal/lease", "imports point downwards"},
		{"internal/lease", "internal/server", "imports point downwards"},
		{"internal/billing", "internal/fleet", "may not import"},
		{"internal/agent/runtime", "internal/money", "may not import"},
		{"internal/agent/runtime", "internal/agent/gpu", ""},
		{"internal/gateway", "internal/account", "imports the service"},
		{"internal/gateway", "internal/agent/tunnel", ""},
		{"internal/instance", "internal/fault", "may import only"},
		{"internal/server", "internal/lease", ""},
		{"cmd/suanli", "internal/server", ""},
		{"internal/server", "internal/news", "no line"},
		{"internal/news", "internal/money", "no line"},
	} {
		got := violation(c.pkg, c.other)
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s importing %s: %q, want %q", c.pkg, c.other, got, c.want)
		}
	}
}

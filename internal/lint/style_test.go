package lint

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestGoFilesAreFormatted(t *testing.T) {
	for _, s := range tree(t) {
		want, err := format.Source(s.content)
		if err != nil {
			t.Errorf("%s: %v", s.path, err)
		} else if !bytes.Equal(want, s.content) {
			t.Errorf("%s is not formatted; run gofmt -w %s", s.path, s.path)
		}
	}
}

func TestNamesSayWhatAPackageIsAbout(t *testing.T) {
	empty := []string{"util", "utils", "helper", "helpers", "common", "misc", "base", "shared", "lib"}
	for _, s := range tree(t) {
		for _, name := range append(strings.Split(s.pkg, "/"), strings.TrimSuffix(strings.TrimSuffix(path.Base(s.path), ".go"), "_test"), s.file.Name.Name) {
			if slices.Contains(empty, name) {
				t.Errorf("%s: %q says nothing of what is in it", s.path, name)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	said := map[string]bool{}
	for _, s := range tree(t) {
		if !s.test {
			said[s.pkg] = said[s.pkg] || s.file.Doc.Text() != ""
		}
	}
	for pkg, ok := range said {
		if !ok {
			t.Errorf("package %s has no package comment; it belongs into %s/doc.go", pkg, pkg)
		}
	}
}

// A floating-point number cannot hold 0.10; whatever touches money counts in
// integers (money.Amount, money.Rate) and, in tests, in big.Rat.
func TestNoFloatingPointWhereMoneyIs(t *testing.T) {
	for _, s := range tree(t) {
		if s.test || !slices.Contains([]string{"internal/money", "internal/pricing", "internal/pricing/auction", "internal/ledger", "internal/billing"}, s.pkg) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				if n.Name == "float64" || n.Name == "float32" {
					t.Errorf("%s: %s", s.at(n.Pos()), n.Name)
				}
			case *ast.BasicLit:
				if n.Kind == token.FLOAT {
					t.Errorf("%s: the constant %s is floating point", s.at(n.Pos()), n.Value)
				}
			case *ast.SelectorExpr:
				if strings.HasSuffix(n.Sel.Name, "Float") || n.Sel.Name == "Float64" || n.Sel.Name == "Float32" {
					t.Errorf("%s: %s", s.at(n.Pos()), n.Sel.Name)
				}
			}
			return true
		})
	}
}

// A test that sleeps is slow where the machine is fast and wrong where it is
// slow: wait for what is meant, with a deadline, or use testing/synctest.
func TestTestsDoNotSleep(t *testing.T) {
	for _, s := range tree(t) {
		if !s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Sleep" {
				if x, ok := f.X.(*ast.Ident); ok && x.Name == "time" {
					t.Errorf("%s: time.Sleep", s.at(n.Pos()))
				}
			}
			return true
		})
	}
}

// Work that is left to do belongs into the tracker, where it is seen.
func TestNothingIsLeftForLater(t *testing.T) {
	later := regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)
	for _, s := range tree(t) {
		for _, group := range s.file.Comments {
			for _, c := range group.List {
				if m := later.FindString(c.Text); m != "" && s.pkg != "internal/lint" {
					t.Errorf("%s: %s", s.at(c.Pos()), m)
				}
			}
		}
	}
}

package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"suanli.dev/api"
	"suanli.dev/internal/fault"
)

// sources parses every package of the repository, tests left out.
func sources(t *testing.T) (*token.FileSet, map[string][]*ast.File) {
	t.Helper()
	files, packages := token.NewFileSet(), map[string][]*ast.File{}
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(files, name, text, 0)
		packages[path.Dir(name)] = append(packages[path.Dir(name)], file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, packages
}

// callee is a called function's name, with its package's if there is one.
func callee(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok && x.Name == "fault" {
			return "fault." + f.Sel.Name
		}
		return f.Sel.Name
	}
	return ""
}

// codeArguments says which argument of a package's functions is a fault's code:
// of fault.New, and of those that hand a parameter on to it.
func codeArguments(files []*ast.File) map[string]int {
	at := map[string]int{"fault.New": 1}
	learn := func(name string, params *ast.FieldList, body *ast.BlockStmt) {
		if body == nil {
			return
		}
		var names []string
		for _, p := range params.List {
			for _, n := range p.Names {
				names = append(names, n.Name)
			}
		}
		ast.Inspect(body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if i, ok := at[callee(call)]; ok && i < len(call.Args) {
					if x, ok := call.Args[i].(*ast.Ident); ok {
						if j := slices.Index(names, x.Name); j >= 0 {
							at[name] = j
						}
					}
				}
			}
			return true
		})
	}
	for range 3 { // as deep as they call one another
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				switch d := n.(type) {
				case *ast.FuncDecl:
					learn(d.Name.Name, d.Type.Params, d.Body)
				case *ast.AssignStmt:
					for i, v := range d.Rhs {
						if f, ok := v.(*ast.FuncLit); ok && i < len(d.Lhs) {
							if x, ok := d.Lhs[i].(*ast.Ident); ok {
								learn(x.Name, f.Type.Params, f.Body)
							}
						}
					}
				}
				return true
			})
		}
	}
	return at
}

// faultCodes returns every code that the source can refuse with, and where.
func faultCodes(t *testing.T) map[string]token.Position {
	t.Helper()
	found := map[string]token.Position{}
	files, packages := sources(t)
	for dir, list := range packages {
		at := codeArguments(list)
		for _, file := range list {
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					if i, ok := at[callee(n)]; ok && i < len(n.Args) {
						if code, ok := literalOf(n.Args[i]); ok {
							found[code] = files.Position(n.Pos())
						}
					}
				case *ast.ValueSpec: // the codes of what fails before a service is reached
					if dir == "internal/server" && n.Names[0].Name == "codes" {
						for _, e := range n.Values[0].(*ast.CompositeLit).Elts {
							if code, ok := literalOf(e.(*ast.KeyValueExpr).Value); ok {
								found[code] = files.Position(e.Pos())
							}
						}
					}
				}
				return true
			})
		}
	}
	return found
}

func TestEveryCodeOfAnErrorIsInChinese(t *testing.T) {
	t.Parallel()
	found := faultCodes(t)
	if len(found) < 120 {
		t.Fatalf("only %d codes were found: does this test still read the source right?", len(found))
	}
	for code, at := range found {
		if zhCodes[code] == "" {
			t.Errorf("%s: no Chinese for the code %q", at, code)
		}
	}
	for code := range zhCodes {
		if _, ok := found[code]; !ok {
			t.Errorf("nothing refuses with %q any more", code)
		}
	}
}

func TestErrorsAreExplainedInChineseWithTheEnglishDetail(t *testing.T) {
	inChinese(t)
	for _, c := range []struct {
		err  error
		want string
	}{
		{&api.Error{Status: 402, Code: "insufficient_balance", Detail: "1.00 USD is missing"}, "余额不足，请先充值（insufficient_balance）：1.00 USD is missing"},
		{fmt.Errorf("enter: %w", &api.Error{Code: "host_offline", Detail: "gone"}), "主机当前离线（host_offline）：enter: gone"},
		{usageError{fault.New(fault.Conflict, "already_joined", "joined")}, "本机已经加入过云（already_joined）：joined"},
		{&api.Error{Code: "of_a_newer_cloud", Detail: "as it says"}, "as it says"},
		{errors.New("what the system says"), "what the system says"},
	} {
		if got := explained(c.err); got != c.want {
			t.Errorf("got %s\nwant %s", got, c.want)
		}
	}
	_, _, err := run(t.Context(), "config", "check", "--listen", "nowhere")
	if got := explained(err); got != `listen "nowhere"（来自 --listen）：应为 HOST:PORT` {
		t.Errorf("a mistake in a setting: %s", got)
	}
	out, _, err := run(t.Context(), "config", "check", "--allow-simulated", "true")
	if err != nil || !strings.Contains(out, "警告：allow_simulated 已开启") {
		t.Errorf("a warning: %v\n%s", err, out)
	}
}

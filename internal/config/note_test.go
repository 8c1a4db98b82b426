package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestEveryNoteIsInChinese(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		if f, ok := call.Fun.(*ast.SelectorExpr); ok {
			if x, ok := f.X.(*ast.Ident); ok && (x.Name == "errors" && f.Sel.Name == "New" || x.Name == "fmt" && f.Sel.Name == "Errorf") {
				t.Errorf("an error that is no note has no Chinese: %s.%s at byte %d", x.Name, f.Sel.Name, call.Pos())
			}
		}
		if f, ok := call.Fun.(*ast.Ident); ok && f.Name == "note" {
			text, err := strconv.Unquote(call.Args[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			said = append(said, text)
		}
		return true
	})
	if len(said) < 20 {
		t.Fatalf("only %d notes were found: does this test still read the source right?", len(said))
	}
	for _, text := range said {
		if chineseNotes[text] == "" {
			t.Errorf("no Chinese for %q", text)
		}
	}
	for text := range chineseNotes {
		if !slices.Contains(said, text) {
			t.Errorf("nothing says %q any more", text)
		}
	}
}

func TestMistakesAndWarningsAreToldInChinese(t *testing.T) {
	t.Parallel()
	none := func(string) (string, bool) { return "", false }
	_, err := Load("", none, map[string]string{"listen": "nowhere", "minimum_seconds": "many"})
	if want := "listen \"nowhere\"（来自 --listen）：应为 HOST:PORT\nminimum_seconds \"many\"（来自 --minimum-seconds）：应为 0 到 86400 的整数"; InChinese(err) != want {
		t.Errorf("got %s\nwant %s", InChinese(err), want)
	}
	_, err = Load("/nonexistent/suanli.yaml", none, nil)
	if !os.IsNotExist(unwrapAll(err)) || !strings.HasPrefix(InChinese(err), "配置：open ") {
		t.Errorf("a missing file: %v, %s", err, InChinese(err))
	}
	c, err := Load("", none, map[string]string{"listen": "0.0.0.0:7080"})
	if err != nil {
		t.Fatal(err)
	}
	if w := c.Warnings(); len(w) != 1 || !strings.HasPrefix(InChinese(w[0]), "listen 为 0.0.0.0:7080 而没有 TLS") || !strings.HasPrefix(w[0].Error(), "listen is 0.0.0.0:7080 without TLS") {
		t.Errorf("warnings: %v", w)
	}
}

func unwrapAll(err error) error {
	for {
		next, ok := err.(interface{ Unwrap() error })
		if !ok || next.Unwrap() == nil {
			return err
		}
		err = next.Unwrap()
		if os.IsNotExist(err) {
			return err
		}
	}
}

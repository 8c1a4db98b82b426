package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "suanli.dev"

// source is one Go file of the tree.
type source struct {
	path    string // from the repository's root, with slashes
	pkg     string // folder of the package, likewise
	test    bool
	content []byte
	file    *ast.File
	fset    *token.FileSet
}

// imports lists the packages of this module that a file imports, by folder.
func (s source) imports() []string {
	var found []string
	for _, i := range s.file.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			continue
		}
		if rest, ours := strings.CutPrefix(p, module+"/"); ours {
			found = append(found, rest)
		}
	}
	return found
}

func (s source) at(p token.Pos) string {
	return s.path + ":" + strconv.Itoa(s.fset.Position(p).Line)
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatalf("the repository's root is not where it is expected: %v", err)
	}
	return dir
}

// read parses the tree once for all tests.
var read = sync.OnceValues(func() ([]source, error) {
	var all []source
	fset := token.NewFileSet()
	err := filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel("../..", name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"bin", "dist", "node_modules", "testdata", "shared"}, d.Name())) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(fset, name, content, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all = append(all, source{path: rel, pkg: path.Dir(rel), test: strings.HasSuffix(rel, "_test.go"), content: content, file: f, fset: fset})
		return nil
	})
	return all, err
})

func tree(t *testing.T) []source {
	t.Helper()
	all, err := read()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("only %d Go files were found: the tree is not where it is expected", len(all))
	}
	return all
}

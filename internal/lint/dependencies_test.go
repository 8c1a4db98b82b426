package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestEveryDependencyIsListedWithItsLicence(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(root(t), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(filepath.Join(root(t), "DEPENDENCIES.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\S+\.\S+) \| (\S[^|]*) \| (\S[^|]*) \|$`).FindAllStringSubmatch(string(doc), -1) {
		listed[row[1]] = true
	}
	for _, row := range regexp.MustCompile(`(?m)^(?:require |\t)(\S+\.\S+) v\S+(.*)$`).FindAllStringSubmatch(string(mod), -1) {
		if strings.Contains(row[2], "// indirect") {
			continue
		}
		if !listed[row[1]] {
			t.Errorf("%s is in go.mod and has no row in DEPENDENCIES.md", row[1])
		}
		delete(listed, row[1])
	}
	for module := range listed {
		t.Errorf("%s has a row in DEPENDENCIES.md and is not imported any more", module)
	}
}

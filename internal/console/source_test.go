package console

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
)

const sourceFolder = "../../console/src"

// texts are a language's texts, by key and by the form of plurals.
func texts(t *testing.T, language string) map[string]string {
	t.Helper()
	all, of := map[string]string{}, map[string]string{}
	files, err := fs.Glob(os.DirFS(sourceFolder), "i18n/"+language+"/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("the texts of %s: %d files, %v", language, len(files), err)
	}
	for _, f := range files {
		content, err := os.ReadFile(path.Join(sourceFolder, f))
		if err != nil {
			t.Fatal(err)
		}
		var texts map[string]string
		if err := json.Unmarshal(content, &texts); err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		for k, v := range texts {
			if other, ok := of[k]; ok && all[k] != v {
				t.Errorf("%q is in %s and, with another text, in %s", k, f, other)
			}
			if strings.TrimSpace(v) == "" {
				t.Errorf("%s: %q has no text", f, k)
			}
			all[k], of[k] = v, f
		}
	}
	return all
}

var (
	pluralForm  = regexp.MustCompile(`_(zero|one|two|few|many|other)$`)
	placeholder = regexp.MustCompile(`\{\{\s*-?\s*([a-z_A-Z0-9]+)`)
	// The first argument of t is a key, a template that begins like some, or chooses
	// between keys.
	call    = regexp.MustCompile(`\b(?:t|words\.current|i18n\.t|i18n\.exists)\(`)
	named   = regexp.MustCompile(`\b(?:text|keys): "([a-z0-9_]+(?:\.[a-z0-9_]+)+)"`)
	literal = regexp.MustCompile(`"([a-zA-Z0-9_.-]+)"`)
	// What a template begins with that makes keys, also one within another.
	template = regexp.MustCompile("`([a-z0-9_]+\\.[^`\n$]*)\\$\\{")
	keyShape = regexp.MustCompile(`^[a-z0-9_]+(\.[a-zA-Z0-9_-]+)+$`)
)

// forms are a language's keys without the form of plurals, with the placeholders of
// all forms.
func forms(texts map[string]string) map[string][]string {
	out := map[string][]string{}
	for k, v := range texts {
		k = pluralForm.ReplaceAllString(k, "")
		list := out[k]
		for _, m := range placeholder.FindAllStringSubmatch(v, -1) {
			if !slices.Contains(list, m[1]) {
				list = append(list, m[1])
			}
		}
		sort.Strings(list)
		out[k] = list
	}
	return out
}

func TestBothLanguagesHaveTheSameTextsWithTheSameValues(t *testing.T) {
	t.Parallel()
	en, zh := forms(texts(t, "en")), forms(texts(t, "zh-CN"))
	for k, values := range en {
		other, ok := zh[k]
		if !ok {
			t.Errorf("%q is not in Chinese", k)
		} else if !slices.Equal(values, other) {
			t.Errorf("%q shows %v in English and %v in Chinese", k, values, other)
		}
	}
	for k := range zh {
		if _, ok := en[k]; !ok {
			t.Errorf("%q is in Chinese only", k)
		}
	}
}

// argument is a call's first argument, from behind its parenthesis on.
func argument(source string) string {
	depth, quote := 0, byte(0)
	for i := range len(source) {
		c := source[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '`' || c == '\'':
			quote = c
		case c == '(' || c == '[' || c == '{':
			depth++
		case c == ')' && depth == 0, c == ',' && depth == 0:
			return source[:i]
		case c == ')' || c == ']' || c == '}':
			depth--
		}
	}
	return source
}

func TestEveryTextOfTheConsoleIsThereAndUsed(t *testing.T) {
	t.Parallel()
	en := forms(texts(t, "en"))
	literals, prefixes := map[string]bool{}, map[string]bool{}
	err := fs.WalkDir(os.DirFS(sourceFolder), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || name == "api/schema.d.ts" || path.Ext(name) != ".ts" && path.Ext(name) != ".tsx" {
			return err
		}
		content, err := os.ReadFile(path.Join(sourceFolder, name))
		if err != nil {
			return err
		}
		source := string(content)
		for _, m := range literal.FindAllStringSubmatch(source, -1) {
			literals[m[1]] = true
		}
		for _, m := range template.FindAllStringSubmatch(source, -1) {
			prefixes[m[1]] = true
		}
		missing := func(key string) {
			if _, ok := en[pluralForm.ReplaceAllString(key, "")]; !ok {
				t.Errorf("%s asks for the text %q, which is not there", name, key)
			}
		}
		for _, at := range call.FindAllStringIndex(source, -1) {
			first := argument(source[at[1]:])
			for _, m := range literal.FindAllStringSubmatch(first, -1) {
				if keyShape.MatchString(m[1]) {
					missing(m[1])
				}
			}
			for _, m := range template.FindAllStringSubmatch(first, -1) {
				found := false
				for k := range en {
					found = found || strings.HasPrefix(k, m[1])
				}
				if !found {
					t.Errorf("%s asks for texts that begin with %q, and none does", name, m[1])
				}
			}
		}
		for _, m := range named.FindAllStringSubmatch(source, -1) {
			missing(m[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for k := range en {
		used := literals[k]
		for p := range prefixes {
			used = used || strings.HasPrefix(k, p)
		}
		if !used {
			t.Errorf("nothing asks for the text %q", k)
		}
	}
}

// The first page must be there within a second on a slow line and a slow laptop.
const firstPageBudget = 280 << 10 // bytes, packed

var asset = regexp.MustCompile(`(?:src|href)="/console/(assets/[^"]+)"`)

func TestTheFirstPageIsSmall(t *testing.T) {
	t.Parallel()
	if !Built() {
		t.Skip("the console is not built (make console)")
	}
	page, err := fs.ReadFile(dist, "index.html")
	if err != nil {
		t.Fatal(err)
	}
	total := int64(len(page))
	for _, m := range asset.FindAllStringSubmatch(string(page), -1) {
		about, err := fs.Stat(dist, m[1]+".gz")
		if err != nil {
			t.Fatal(err)
		}
		total += about.Size()
		t.Logf("%7d %s", about.Size(), m[1])
	}
	t.Logf("%7d bytes, packed", total)
	if total > firstPageBudget {
		t.Errorf("the first page loads %d bytes, more than the %d that are allowed: load by page what not every page needs", total, firstPageBudget)
	}
	for _, name := range []string{"Terminal", "Graphs"} {
		if strings.Contains(string(page), name+"-") {
			t.Errorf("%s is loaded with the first page, and is for few", name)
		}
	}
}

package pricing_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestTheDocumentHasTheFiguresOfTheExamples(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/pricing.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(doc), ",", "")
	figure := regexp.MustCompile(`\b\d+\.\d{2,}\b`)
	figures := 0
	for _, line := range strings.Split(string(examples), "\n") {
		if !strings.HasPrefix(line, "\t// ") {
			continue
		}
		for _, f := range figure.FindAllString(line, -1) {
			if figures++; !strings.Contains(text, f) {
				t.Errorf("docs/pricing.md does not say %s, which an example comes to", f)
			}
		}
	}
	if figures < 15 {
		t.Errorf("%d figures were compared", figures)
	}
}

package pdf_test

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"os"

	"suanli.dev/internal/pdf"
)

func sample() []byte {
	d := pdf.New("账单 1")
	for range 2 {
		d.AddPage()
		d.Text(50, 800, pdf.Bold, 16, "Invoice (账单) \\ café, Škoda 𠮷")
		d.Figure(545, 780, 10, "1,234.50")
		d.Line(50, 770, 545, 770)
	}
	return d.Bytes()
}

// A reader finds objects by these offsets.
func TestTheTableOfObjectsPointsAtThem(t *testing.T) {
	t.Parallel()
	b := sample()
	at, err := strconv.Atoi(string(regexp.MustCompile(`startxref\n(\d+)\n%%EOF\n$`).FindSubmatch(b)[1]))
	if err != nil || !bytes.HasPrefix(b[at:], []byte("xref\n0 13\n")) {
		t.Fatalf("the table is not at %d, %v", at, err)
	}
	for i, m := range regexp.MustCompile(`(?m)^(\d{10}) 00000 n $`).FindAllSubmatch(b[at:], -1) {
		n, _ := strconv.Atoi(string(m[1]))
		if want := strconv.Itoa(i+1) + " 0 obj\n"; !bytes.HasPrefix(b[n:], []byte(want)) {
			t.Errorf("object %d is not at %d", i+1, n)
		}
	}
	for _, m := range regexp.MustCompile(`(?s)<< /Length (\d+) >>\nstream\n(.*?)endstream`).FindAllSubmatch(b, -1) {
		if n, _ := strconv.Atoi(string(m[1])); n != len(m[2]) {
			t.Errorf("a stream of %d bytes says %d", len(m[2]), n)
		}
	}
	if !bytes.Equal(b, sample()) {
		t.Error("the same content is not the same bytes")
	}
}

func TestAReaderReadsBothScripts(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("pdftotext"); err != nil {
		t.Skip("there is no pdftotext here")
	}
	name := filepath.Join(t.TempDir(), "a.pdf")
	if err := os.WriteFile(name, sample(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "pdftotext", "-layout", name, "-").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Invoice (", "\\ café", "1,234.50"} {
		if strings.Count(string(out), want) != 2 {
			t.Errorf("%q is not on both pages: %s", want, out)
		}
	}
}

package pdf

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf16"
)

// Size of a page, A4, in points of 1/72 inch; the origin is at the lower left.
const (
	Width  = 595
	Height = 842
)

// Font is how text looks.
type Font string

// The fonts of Western text. Chinese characters look the same in all of them.
const (
	Regular Font = "F1"
	Bold    Font = "F2"
	Figures Font = "F3" // of one width, for columns
)

const chinese = "F4"

// Document is a document that is being written.
type Document struct {
	title string
	pages []*bytes.Buffer
}

// New returns a document without pages.
func New(title string) *Document { return &Document{title: title} }

// AddPage begins a page.
func (d *Document) AddPage() { d.pages = append(d.pages, &bytes.Buffer{}) }

// Pages returns how many pages there are.
func (d *Document) Pages() int { return len(d.pages) }

// Text writes one line of text that begins at a place on the page that was begun
// last. Characters that no font here has are shown as question marks.
func (d *Document) Text(x, y int, f Font, size int, text string) {
	p := d.pages[len(d.pages)-1]
	fmt.Fprintf(p, "BT 1 0 0 1 %d %d Tm\n", x, y)
	for _, r := range runs(text) {
		if r.wide {
			fmt.Fprintf(p, "/%s %d Tf <%s> Tj\n", chinese, size, ucs2(r.text))
		} else {
			fmt.Fprintf(p, "/%s %d Tf (%s) Tj\n", f, size, latin(r.text))
		}
	}
	p.WriteString("ET\n")
}

// Figure writes text in Figures that ends at x, as a column of amounts does.
func (d *Document) Figure(x, y, size int, text string) {
	d.Text(x-len([]rune(text))*size*6/10, y, Figures, size, text)
}

// Line draws a thin line from one place to another.
func (d *Document) Line(x1, y1, x2, y2 int) {
	fmt.Fprintf(d.pages[len(d.pages)-1], "0.5 w %d %d m %d %d l S\n", x1, y1, x2, y2)
}

type run struct {
	text string
	wide bool
}

// runs cuts text where it changes between Western and Chinese.
func runs(text string) []run {
	var out []run
	for _, r := range text {
		wide := r >= 0x100
		if n := len(out); n > 0 && out[n-1].wide == wide {
			out[n-1].text += string(r)
		} else {
			out = append(out, run{string(r), wide})
		}
	}
	return out
}

// ucs2 is text in hexadecimal, two bytes a character.
func ucs2(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r > 0xffff || utf16.IsSurrogate(r) {
			r = '?'
		}
		fmt.Fprintf(&b, "%04X", r)
	}
	return b.String()
}

// latin is text in Latin-1, as which WinAnsiEncoding reads what is here, with what
// a string of the format must not have in it escaped.
func latin(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '(' || r == ')' || r == '\\':
			b.WriteByte('\\')
			b.WriteByte(byte(r))
		case r < ' ' || r >= 0x7f && r < 0xa0:
			b.WriteByte('?')
		case r >= 0x80:
			fmt.Fprintf(&b, "\\%03o", r)
		default:
			b.WriteByte(byte(r))
		}
	}
	return b.String()
}

// Bytes returns the document.
func (d *Document) Bytes() []byte {
	var out bytes.Buffer
	var offsets []int
	object := func(format string, args ...any) {
		offsets = append(offsets, out.Len())
		fmt.Fprintf(&out, "%d 0 obj\n", len(offsets))
		fmt.Fprintf(&out, format, args...)
		out.WriteString("\nendobj\n")
	}
	out.WriteString("%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
	const first = 9 // object of the first page; its content is the next one
	var kids []string
	for i := range d.pages {
		kids = append(kids, fmt.Sprintf("%d 0 R", first+2*i))
	}
	object("<< /Type /Catalog /Pages 2 0 R >>")
	object("<< /Type /Pages /Kids [%s] /Count %d >>", strings.Join(kids, " "), len(kids))
	object("<< /Title <FEFF%s> /Producer (suanli) >>", ucs2(d.title))
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>")
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Courier /Encoding /WinAnsiEncoding >>")
	object("<< /Type /Font /Subtype /Type0 /BaseFont /STSong-Light /Encoding /UniGB-UCS2-H /DescendantFonts [8 0 R] >>")
	object("<< /Type /Font /Subtype /CIDFontType0 /BaseFont /STSong-Light /CIDSystemInfo << /Registry (Adobe) /Ordering (GB1) /Supplement 2 >> /DW 1000 " +
		"/FontDescriptor << /Type /FontDescriptor /FontName /STSong-Light /Flags 6 /FontBBox [-25 -254 1000 880] /ItalicAngle 0 /Ascent 880 /Descent -120 /CapHeight 880 /StemV 93 >> >>")
	for i, p := range d.pages {
		object("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Contents %d 0 R /Resources << /Font << /F1 4 0 R /F2 5 0 R /F3 6 0 R /F4 7 0 R >> >> >>", Width, Height, first+2*i+1)
		object("<< /Length %d >>\nstream\n%sendstream", p.Len(), p.String())
	}
	at := out.Len()
	fmt.Fprintf(&out, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, o := range offsets {
		fmt.Fprintf(&out, "%010d 00000 n \n", o)
	}
	fmt.Fprintf(&out, "trailer\n<< /Size %d /Root 1 0 R /Info 3 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(offsets)+1, at)
	return out.Bytes()
}

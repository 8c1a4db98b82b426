package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// wantsJSON reports whether --json was given.
func wantsJSON(cmd *cobra.Command) bool {
	v, _ := cmd.Flags().GetBool("json")
	return v
}

func printJSON(cmd *cobra.Command, v any) error {
	e := json.NewEncoder(cmd.OutOrStdout())
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// table is rows of text, aligned by display width, since Chinese characters
// take two columns.
type table struct {
	rows [][]string
}

func newTable(header ...string) *table { return &table{rows: [][]string{header}} }

func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.rows = append(t.rows, row)
}

// terminalWidth is how many columns the terminal that w is has, or 0 if it is
// none. Nothing but a terminal is laid out to fit, or sent control codes: what
// goes into a file or a pipe is for programs and has everything in one line.
func terminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 1 {
		return 80
	}
	return width
}

func (t *table) print(w io.Writer) { t.layout(w, terminalWidth(w)) }

// layout prints a table that fits into a width, 0 being any. If it is too wide
// the last column goes on in further lines; if that is not enough, each row is
// printed by itself, a line for each of its cells. Nothing is cut off, since
// people copy identifiers out of it.
func (t *table) layout(w io.Writer, width int) {
	const leastText = 24 // columns that words can still be read in
	before, last := 0, 0
	for i := range t.rows[0] {
		widest := 0
		for _, row := range t.rows {
			if i < len(row) {
				widest = max(widest, runewidth.StringWidth(row[i]))
			}
		}
		if i < len(t.rows[0])-1 {
			before += widest + 2
		} else {
			last = widest
		}
	}
	switch {
	case width == 0 || before+last <= width:
		t.columns(w, 0)
	case before+leastText <= width || len(t.rows[0]) == 2:
		t.columns(w, max(width-before, leastText))
	default:
		t.records(w, width)
	}
}

// records prints each row by itself, under the names of the columns.
func (t *table) records(w io.Writer, width int) {
	for i, row := range t.rows[1:] {
		if i > 0 {
			fmt.Fprintln(w)
		}
		one := &table{}
		for j, c := range row {
			one.rows = append(one.rows, []string{t.rows[0][j], c})
		}
		one.layout(w, width)
	}
}

// folded breaks text at spaces, or between Chinese characters, into lines of at
// most width columns; 0: one line. A longer word stays whole: it may be an
// identifier to copy.
func folded(text string, width int) []string {
	if width == 0 || runewidth.StringWidth(text) <= width {
		return []string{text}
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		parts := []string{word}
		if runewidth.StringWidth(word) > width && strings.ContainsFunc(word, func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
			parts = strings.Split(runewidth.Wrap(word, width), "\n")
		}
		for _, part := range parts {
			if line != "" && runewidth.StringWidth(line)+1+runewidth.StringWidth(part) > width {
				lines = append(lines, line)
				line = ""
			}
			if line != "" {
				line += " "
			}
			line += part
		}
	}
	return append(lines, line)
}

// columns prints rows side by side, the last column at most lastWidth wide.
func (t *table) columns(w io.Writer, lastWidth int) {
	widths := map[int]int{}
	for _, row := range t.rows {
		for i, c := range row {
			widths[i] = max(widths[i], runewidth.StringWidth(c))
		}
	}
	for _, row := range t.rows {
		var line strings.Builder
		indent := 0
		for i, c := range row[:len(row)-1] {
			line.WriteString(c + strings.Repeat(" ", widths[i]-runewidth.StringWidth(c)+2))
			indent += widths[i] + 2
		}
		for i, part := range folded(row[len(row)-1], lastWidth) {
			if i > 0 {
				line.Reset()
				line.WriteString(strings.Repeat(" ", indent))
			}
			line.WriteString(part)
			fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
		}
	}
}

// say prints a translated line for people; with --json it is silent on stdout.
func say(cmd *cobra.Command, english string, args ...any) {
	if !wantsJSON(cmd) {
		fmt.Fprintln(cmd.OutOrStdout(), tr(english, args...))
	}
}

// done reports what a command did: v with --json, the translated line without.
func done(cmd *cobra.Command, v any, english string, args ...any) error {
	if wantsJSON(cmd) {
		return printJSON(cmd, v)
	}
	say(cmd, english, args...)
	return nil
}

// warn tells people about something on standard error, where it is in nobody's
// way who reads the result.
func warn(cmd *cobra.Command, english string, args ...any) {
	fmt.Fprintln(cmd.ErrOrStderr(), tr(english, args...))
}

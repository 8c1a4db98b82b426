package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"
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

func (t *table) print(w io.Writer) {
	widths := map[int]int{}
	for _, row := range t.rows {
		for i, c := range row {
			widths[i] = max(widths[i], runewidth.StringWidth(c))
		}
	}
	for _, row := range t.rows {
		var line strings.Builder
		for i, c := range row {
			line.WriteString(c)
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-runewidth.StringWidth(c)+2))
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
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

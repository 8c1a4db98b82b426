package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"suanli.dev/internal/config"
	"suanli.dev/internal/documented"
	"suanli.dev/internal/fleet"
)

//go:generate go test suanli.dev/cmd/suanli -run TestTheDocumentListsEveryCommand -update

// commandList is the generated part of docs/cli.md.
func commandList(root *cobra.Command) string {
	var b strings.Builder
	var write func(c *cobra.Command)
	write = func(c *cobra.Command) {
		if c.Hidden {
			return
		}
		if !c.HasSubCommands() {
			fmt.Fprintf(&b, "### %s\n\n%s.\n\n", strings.TrimSuffix(c.UseLine(), " [flags]"), c.Short)
			if c.Long != "" {
				fmt.Fprintf(&b, "%s\n\n", c.Long)
			}
			if c.Example != "" {
				fmt.Fprintf(&b, "```\n%s\n```\n\n", trimLines(c.Example))
			}
			isSetting := map[string]bool{}
			if c.Flags().Lookup("config") != nil {
				isSetting["config"] = true
				for _, s := range config.Settings() {
					isSetting[s.Flag()] = true
				}
				b.WriteString("Takes every [setting](configuration.md) as a flag.\n\n")
			}
			lines := 0
			c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
				if isSetting[f.Name] || f.Name == "help" {
					return
				}
				kind, usage := pflag.UnquoteUsage(f)
				name := "--" + f.Name
				if f.Shorthand != "" {
					name = "-" + f.Shorthand + ", " + name
				}
				switch {
				case strings.HasPrefix(kind, "string"):
					kind = "text"
				case strings.HasPrefix(kind, "int"):
					kind = "number"
				}
				if kind != "" {
					name += " " + strings.ToUpper(kind)
				}
				def := ""
				if f.DefValue != "" && f.DefValue != "0" && f.DefValue != "0s" && f.DefValue != "[]" && f.DefValue != "false" {
					def = " (default: `" + f.DefValue + "`)"
				}
				fmt.Fprintf(&b, "- `%s`: %s%s\n", name, usage, def)
				lines++
			})
			if lines > 0 {
				b.WriteString("\n")
			}
		}
		for _, sub := range c.Commands() {
			write(sub)
		}
	}
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, "## %s\n\n", strings.TrimSuffix(g.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == g.ID {
				write(c)
			}
		}
	}
	return b.String()
}

func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n")
}

func TestTheDocumentListsEveryCommand(t *testing.T) {
	documented.Part(t, "../../docs/cli.md", documented.Begins, documented.Ends, "\n"+commandList(newRoot()))
}

var inlineCommand = regexp.MustCompile("`suanli ([^`]+)`")

// A reader who copies a command out of a document must get what it promises.
func TestCommandsInDocumentsExist(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	units, err := filepath.Glob("../../deploy/systemd/*.service")
	if err != nil {
		t.Fatal(err)
	}
	files = append(append(files, units...), "../../README.md", "../../CONTRIBUTING.md", "../../ARCHITECTURE.md")
	checked := 0
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(b), "\\\n", " ")
		fenced := false
		for i, line := range strings.Split(text, "\n") {
			trimmed := strings.TrimSpace(line)
			if strings.HasPrefix(trimmed, "```") {
				fenced = !fenced
				continue
			}
			var commands []string
			if fenced {
				commands = append(commands, strings.TrimPrefix(strings.TrimPrefix(trimmed, "$ "), "sudo "))
			} else if start, ok := strings.CutPrefix(trimmed, "ExecStart="); ok {
				commands = append(commands, start)
			} else {
				for _, m := range inlineCommand.FindAllStringSubmatch(line, -1) {
					commands = append(commands, "suanli "+m[1])
				}
			}
			for _, command := range commands {
				words := shellWords(command)
				if len(words) < 2 || filepath.Base(words[0]) != "suanli" || words[1] == "…" {
					continue
				}
				checked++
				if err := exists(words[1:], fenced); err != nil {
					t.Errorf("%s:%d: %s: %v", filepath.Base(file), i+1, command, err)
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d commands were found in %d documents", checked, len(files))
	}
}

// exists looks a command up and, if whole, checks its flags and arguments.
func exists(words []string, whole bool) error {
	root := newRoot()
	if words[0] == "instance" || words[0] == "help" || words[0] == "completion" || strings.HasPrefix(words[0], "--") {
		return nil
	}
	cmd, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if cmd == root {
		return fmt.Errorf("there is no command %q", words[0])
	}
	if cmd.HasSubCommands() && cmd.RunE == nil {
		if len(rest) > 0 || whole {
			return fmt.Errorf("%s has no subcommand %q", cmd.Name(), rest)
		}
		return nil
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if !whole {
		return nil
	}
	// A flag that exists can still have a value that the cloud refuses, or leave
	// a script waiting for somebody to type.
	if f := cmd.Flags().Lookup("sort"); f != nil && f.Value.String() != "" {
		field := strings.TrimPrefix(f.Value.String(), "-")
		if !slices.ContainsFunc(fleet.Fields(), func(f fleet.Field) bool { return f.Name == field && f.Type != "text" }) {
			return fmt.Errorf("offers cannot be sorted by %q", field)
		}
	}
	if cmd.CommandPath() == "suanli account create" && !cmd.Flags().Changed("password-file") {
		return errors.New("without --password-file it fails where there is no terminal")
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// shellWords splits a line as a shell would, up to a comment, pipe or redirection.
func shellWords(line string) []string {
	var words []string
	var word strings.Builder
	quote, in := rune(0), false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, in = r, true
		case r == ' ' || r == '\t':
			if in {
				words = append(words, word.String())
				word.Reset()
				in = false
			}
		case !in && strings.ContainsRune("#|>&;", r):
			return words
		default:
			word.WriteRune(r)
			in = true
		}
	}
	if in {
		words = append(words, word.String())
	}
	return words
}

package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"suanli.dev/api"
	"suanli.dev/internal/lease"
)

// textArgument is which argument of a function is a text for people.
var textArgument = map[string]int{"tr": 0, "say": 1, "warn": 1, "done": 2, "next": 0}

// passesOn are the functions that hand a text on to tr; there it is no literal.
var passesOn = []string{"say", "warn", "done", "next"}

// texts returns every text of this command's source, with where it is.
func texts(t *testing.T) map[string]token.Position {
	t.Helper()
	found := map[string]token.Position{}
	files := token.NewFileSet()
	names, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			within, _ := d.(*ast.FuncDecl)
			ast.Inspect(d, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				i, ok := textArgument[called(call)]
				if !ok || len(call.Args) <= i {
					return true
				}
				text, literal := literalOf(call.Args[i])
				switch {
				case literal:
					found[text] = files.Position(call.Pos())
				case within == nil || !slices.Contains(passesOn, within.Name.Name):
					t.Errorf("%s: the text is no literal, so nothing says whether it has a translation", files.Position(call.Pos()))
				}
				return true
			})
		}
	}
	return found
}

func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok && x.Name == "d" { // the guide's own method
			return f.Sel.Name
		}
	}
	return ""
}

func literalOf(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(l.Value)
	return s, err == nil
}

var verb = regexp.MustCompile(`%[-+# 0]*[0-9]*(\.[0-9]+)?(\[[0-9]+\])?[a-zA-Z%]`)

func TestEveryTextIsInChinese(t *testing.T) {
	t.Parallel()
	found := texts(t)
	if len(found) < 200 {
		t.Fatalf("only %d texts were found: does this test still read the source right?", len(found))
	}
	for text, at := range found {
		if _, ok := zhTexts[text]; !ok {
			t.Errorf("%s: no Chinese for %q", at, text)
		}
	}
}

func TestNoTranslationIsOfNothing(t *testing.T) {
	t.Parallel()
	found := texts(t)
	for text := range zhTexts {
		if _, ok := found[text]; !ok {
			t.Errorf("nothing says %q any more", text)
		}
	}
}

func TestTranslationsFormatTheSameValues(t *testing.T) {
	t.Parallel()
	for text, zh := range zhTexts {
		if want, got := verb.FindAllString(text, -1), verb.FindAllString(zh, -1); !slices.Equal(want, got) {
			t.Errorf("%q formats %v, its translation %v", text, want, got)
		}
		han := strings.ContainsFunc(zh, func(r rune) bool { return unicode.Is(unicode.Han, r) })
		if !han && zh != text && !strings.Contains(zh, "：") {
			t.Errorf("the translation of %q is not Chinese: %q", text, zh)
		}
	}
}

// inChinese runs the rest of a test in Chinese. Such tests do not run in
// parallel, as the language is the program's.
func inChinese(t *testing.T) {
	t.Helper()
	chinese = true
	t.Cleanup(func() { chinese = false })
}

func TestHelpIsInChineseThroughout(t *testing.T) {
	inChinese(t)
	english := regexp.MustCompile(`\b(the|of|and|for|with|default|Usage|Flags|Available)\b`)
	flagName := regexp.MustCompile(`--[a-z-]+`)
	root := newRoot()
	for _, c := range all(root) {
		if c.Name() == "help" {
			continue
		}
		var out bytes.Buffer
		c.SetOut(&out)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if m := english.FindString(flagName.ReplaceAllString(line, "")); m != "" && !strings.Contains(line, "suanli search") {
				t.Errorf("%s: %q is in the help: %s", c.CommandPath(), m, strings.TrimSpace(line))
			}
		}
		if !strings.ContainsFunc(c.Short, func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
			t.Errorf("%s is described in another language: %q", c.CommandPath(), c.Short)
		}
	}
}

func TestBillIsExplainedInChinese(t *testing.T) {
	inChinese(t)
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.Local)
	end := at.Add(time.Hour)
	rate, err := api.ParseRate("0.5")
	if err != nil {
		t.Fatal(err)
	}
	amount, err := api.ParseAmount("0.01")
	if err != nil {
		t.Fatal(err)
	}
	b := &api.Bill{Currency: "CNY", Simulated: true}
	for _, c := range []struct {
		line api.BillLine
		want string
	}{
		{api.BillLine{Meter: "compute", Used: 61, Charged: 61, RateUnit: "hour", Rate: rate, Amount: amount, Words: "ran"}, "运行 61 秒，单价 0.50 CNY/小时：合计 0.01 CNY（模拟）"},
		{api.BillLine{Meter: "compute", Used: 7, Charged: 60, RateUnit: "hour", Rate: rate, Amount: amount, Open: true}, "运行 7 秒，按 60 秒计费（含最短计费时长和按粒度进位），单价 0.50 CNY/小时：合计 0.01 CNY，仍在计费（模拟）"},
		{api.BillLine{Meter: "storage", Start: &at, End: &end, Used: 72000, Charged: 72000, RateUnit: "GiB-month", Rate: rate, Amount: amount},
			"2026-05-01 12:00:00 至 2026-05-01 13:00:00 保留磁盘，共 72000 GiB·秒（月价按当月实际时长折算），单价 0.50 CNY/GiB·月：合计 0.01 CNY（模拟）"},
		{api.BillLine{Meter: "egress", Used: 5, Charged: 5, RateUnit: "GB", Rate: rate, Amount: amount}, "向外发送 5 字节（1 GB 为 1,000,000,000 字节），单价 0.50 CNY/GB：合计 0.01 CNY（模拟）"},
		{api.BillLine{Meter: "unheard-of", Words: "as the cloud says it"}, "as the cloud says it"},
	} {
		if got := explain(c.line, b); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.line.Meter, got, c.want)
		}
	}
	if got := explain(api.BillLine{Meter: "egress", Words: "sent 5 bytes"}, b); got == "sent 5 bytes" {
		t.Error("the bill is not in Chinese")
	}
}

func TestLanguageIsChosenByFlagThenEnvironmentThenLocale(t *testing.T) {
	for _, c := range []struct {
		args []string
		env  map[string]string
		want bool
	}{
		{nil, nil, false},
		{nil, map[string]string{"LANG": "zh_CN.UTF-8"}, true},
		{nil, map[string]string{"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, false},
		{nil, map[string]string{"LANG": "C", "SUANLI_LANG": "zh"}, true},
		{[]string{"ps", "--lang", "en"}, map[string]string{"SUANLI_LANG": "zh"}, false},
		{[]string{"--lang=zh", "ps"}, nil, true},
	} {
		chooseLanguage(c.args, func(k string) string { return c.env[k] })
		if chinese != c.want {
			t.Errorf("%v with %v: Chinese %v", c.args, c.env, chinese)
		}
	}
	chinese = false
}

func TestStatesAndEventsAreInChineseInTables(t *testing.T) {
	inChinese(t)
	for _, s := range lease.States() {
		if word(string(s)) == string(s) {
			t.Errorf("no Chinese for the state %q", s)
		}
	}
	for _, m := range regexp.MustCompile(`([a-z_]+) → \*`).FindAllStringSubmatch(lease.TransitionTable(), -1) {
		if word(m[1]) == m[1] {
			t.Errorf("no Chinese for the event %q", m[1])
		}
	}
	p := newPretence(t)
	out, _, err := run(t.Context(), "ps", "--server", p.url, "--token", "t")
	if err != nil || !strings.Contains(out, "运行中") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, _, err := run(t.Context(), "ps", "--json", "--server", p.url, "--token", "t"); err != nil || !strings.Contains(out, `"running"`) {
		t.Errorf("what programs read is %v\n%s", err, out)
	}
}

// The codes of bids are words of other things, too, which mean something else there.
func TestABidSaysWhyItIsInItsState(t *testing.T) {
	for code, want := range map[string]string{"outbid": "waiting: others bid more", "on_demand": "waiting: a lease on demand needs the GPUs", "no_room": "waiting: the GPUs are not free on one host"} {
		if got := bidLine(&api.Bid{State: "waiting", Code: code}); got != want {
			t.Errorf("a bid with the code %s says %q, want %q", code, got, want)
		}
	}
	if got := word("on_demand"); got != "on demand" {
		t.Errorf("the plan reads %q", got)
	}
}

package main

import (
	"fmt"
	"strings"
)

// chinese is whether texts are in Simplified Chinese. It is set once, before
// any command is made.
var chinese bool

// chooseLanguage looks at --lang, then SUANLI_LANG, then the locale.
func chooseLanguage(args []string, getenv func(string) string) {
	lang := ""
	for _, k := range []string{"LANG", "LC_MESSAGES", "LC_ALL", "SUANLI_LANG"} {
		if v := getenv(k); v != "" {
			lang = v
		}
	}
	for i, a := range args {
		if v, ok := strings.CutPrefix(a, "--lang="); ok {
			lang = v
		}
		if a == "--lang" && i+1 < len(args) {
			lang = args[i+1]
		}
	}
	chinese = strings.HasPrefix(strings.ToLower(lang), "zh")
}

// tr returns a text in the language chosen, formatted. The English text is its
// own key; the table below has the other language, and a test checks that it
// is complete.
func tr(english string, args ...any) string {
	text := english
	if chinese {
		if zh, ok := zhTexts[english]; ok {
			text = zh
		}
	}
	if len(args) == 0 {
		return text
	}
	return fmt.Sprintf(text, args...)
}

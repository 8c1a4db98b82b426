package main

import (
	"strings"
	"testing"
	"time"
	"unicode"

	"suanli.dev/api"
	"suanli.dev/internal/notify"
)

func TestEveryKindOfNewsIsASentenceInBothLanguages(t *testing.T) {
	for _, zh := range []bool{false, true} {
		if zh {
			inChinese(t)
		}
		for _, k := range notify.Kinds() {
			s := sentence(api.Notification{Kind: k, Subject: "ls-1", Data: api.NewsData{"name": "train", "number": "INV-000001", "url": "https://example.com", "amount": "5.000000", "until": time.Now()}})
			if strings.Contains(s, k) || !strings.Contains(s, " ") || strings.Contains(s, "%!") {
				t.Errorf("%s is told as %q", k, s)
			}
			if han := strings.ContainsFunc(s, func(r rune) bool { return unicode.Is(unicode.Han, r) }); han != zh {
				t.Errorf("%s is told in another language: %q", k, s)
			}
		}
		if s := sentence(api.Notification{Kind: "news.of_tomorrow", Subject: "x"}); s != "news.of_tomorrow x" {
			t.Errorf("a kind that is not known reads %q", s)
		}
	}
}

package ident

import "testing"

func TestCharactersThatNobodySeesAreFound(t *testing.T) {
	t.Parallel()
	for _, r := range []rune{0, 7, '\n', 0x1b, 0x7f, 0x85, 0x9b, 0x200e, 0x202a, 0x202e, 0x2066, 0x2069} {
		if got, found := Hidden("bank " + string(r) + "118"); !found || got != r {
			t.Errorf("%U: got %U, %v", r, got, found)
		}
	}
	for _, text := range []string{"", "Example Lab", "示例实验室", "مختبر", "nœud-1 · 8×4090"} {
		if r, found := Hidden(text); found {
			t.Errorf("%q: %U is refused", text, r)
		}
	}
}

package statemachine

import "testing"

func TestATableHasARowForEachStateAndSaysWhichAreFinal(t *testing.T) {
	t.Parallel()
	moves := map[string]map[string]string{"open": {"shut": "closed", "break": "broken"}, "closed": {"unlock": "open"}}
	got := Table([]string{"open", "closed", "broken"}, []string{"unlock", "shut", "break"}, func(s, e string) (string, bool) {
		to, ok := moves[s][e]
		return to, ok
	})
	want := "| state | event → next state |\n|---|---|\n" +
		"| **open** | shut → **closed**; break → **broken** |\n" +
		"| **closed** | unlock → **open** |\n" +
		"| **broken** | final |\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

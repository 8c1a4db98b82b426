package statemachine

import (
	"fmt"
	"strings"
)

// Table returns a state machine as a Markdown table with a row for each state. next
// is the state that an event leads to, and whether there is such a transition.
func Table[State, Event ~string](states []State, events []Event, next func(State, Event) (State, bool)) string {
	out := "| state | event → next state |\n|---|---|\n"
	for _, s := range states {
		var moves []string
		for _, e := range events {
			if to, ok := next(s, e); ok {
				moves = append(moves, fmt.Sprintf("%s → **%s**", e, to))
			}
		}
		if moves == nil {
			moves = []string{"final"}
		}
		out += fmt.Sprintf("| **%s** | %s |\n", s, strings.Join(moves, "; "))
	}
	return out
}

package pricing

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"suanli.dev/internal/money"
)

// RunsOut returns the last moment, in whole seconds after from, up to which what is
// due is within a budget; from itself if it never is. ok is false if the budget
// lasts to the horizon. due must not fall as time goes on.
func RunsOut(due func(time.Time) (money.Amount, error), budget money.Amount, from, horizon time.Time) (until time.Time, ok bool, err error) {
	last, err := due(horizon)
	if err != nil || last <= budget || !from.Before(horizon) {
		return horizon, false, err
	}
	n := sort.Search(int(horizon.Sub(from)/time.Second)+1, func(s int) bool {
		d, e := due(from.Add(time.Duration(s) * time.Second))
		if e != nil {
			err = e
		}
		return d > budget
	})
	return from.Add(time.Duration(max(0, n-1)) * time.Second), true, err
}

// Warnings are how long before the money ends an account is told, longest first.
var Warnings = [...]time.Duration{24 * time.Hour, time.Hour, 10 * time.Minute}

// Warning returns the shortest of Warnings that so much time left is within, and
// whether there is one.
func Warning(left time.Duration) (time.Duration, bool) {
	for i := len(Warnings) - 1; i >= 0; i-- {
		if left <= Warnings[i] {
			return Warnings[i], true
		}
	}
	return 0, false
}

// Forecast returns what a month comes to if what burns now goes on to its end.
func Forecast(spent, burnPerHour money.Amount, p Period, at time.Time) (money.Amount, error) {
	if at.Before(p.Start) {
		at = p.Start
	}
	left := max(0, int64(p.End.Sub(at)/time.Second))
	more, err := part(burnPerHour, left, secondsPerHour)
	if err != nil {
		return 0, fmt.Errorf("forecast: %w", err)
	}
	return spent.Add(more)
}

// Alert is a mark of a budget that has been passed.
type Alert struct {
	BasisPoints int64 `json:"basis_points"` // of the budget
	Forecast    bool  `json:"forecast"`     // by what is expected of the month, not by what is spent
}

// StandardAlerts are the marks of a budget for which nobody chose others: 50 %, 80 %
// and all of it spent, and all of it expected.
func StandardAlerts() []Alert {
	return []Alert{{5000, false}, {8000, false}, {10_000, false}, {10_000, true}}
}

// BudgetAlerts returns which of a budget's marks are passed and have not fired in
// the period yet, in their order.
func BudgetAlerts(budget money.Amount, marks []Alert, spent, forecast money.Amount, fired []Alert) ([]Alert, error) {
	var out []Alert
	for _, a := range marks {
		passed, err := a.Passed(budget, spent, forecast)
		if err != nil {
			return nil, err
		}
		if passed && !slices.Contains(fired, a) {
			out = append(out, a)
		}
	}
	return out, nil
}

// Passed reports whether what is spent, or for a mark of the forecast what is
// expected, has come to the mark.
func (a Alert) Passed(budget, spent, forecast money.Amount) (bool, error) {
	if budget <= 0 {
		return false, fmt.Errorf("a budget of %s: want more than 0", budget)
	}
	mark, err := part(budget, a.BasisPoints, basisPoints)
	if a.Forecast {
		spent = forecast
	}
	return spent >= mark, err
}

package auction

import (
	"fmt"
	"time"
)

// Calibration is what became of advice that was given again and again.
type Calibration struct {
	// Cases are how often it was given, None how often no bid would have done.
	Cases int `json:"cases"`
	None  int `json:"none"`
	// Held are the cases in which the bid then ran at least the share that it would
	// have run before, less the slack.
	Held int `json:"held"`
	// Mean and Worst are the shares of the time after the advice that the bids ran,
	// in basis points.
	Mean  int `json:"mean_share_basis_points"`
	Worst int `json:"worst_share_basis_points"`
}

// Trial is how advice is put to the test.
type Trial struct {
	// Past is what advice knows, Next what it is held against, Every how often
	// it is given.
	Past, Next, Every time.Duration
	// Share, Headroom and Slack are in basis points; see Suggest. A bid that then
	// runs at least Share less Slack holds.
	Share, Headroom, Slack int
}

// Calibrate gives advice as Suggest does at many moments of a history, each time
// from what was known then, and looks at what came next. Only moments with the
// whole of Past before and of Next after them count.
func Calibrate(steps []Step, from, to time.Time, t Trial, p Params) (Calibration, error) {
	var out Calibration
	sum := 0
	if t.Past <= 0 || t.Next <= 0 || t.Every <= 0 {
		return Calibration{}, fmt.Errorf("advice from %s for %s, every %s: want more than 0 of each", t.Past, t.Next, t.Every)
	}
	for at := from.Add(t.Past); !at.Add(t.Next).After(to); at = at.Add(t.Every) {
		advice, ok, err := Suggest(steps, at.Add(-t.Past), at, t.Share, t.Headroom, p)
		if err != nil {
			return Calibration{}, err
		}
		if !ok {
			out.None++
			continue
		}
		came, err := Advise(steps, at, at.Add(t.Next), advice.Bid, p)
		if err != nil {
			return Calibration{}, err
		}
		out.Cases++
		if sum += came.Share; out.Cases == 1 || came.Share < out.Worst {
			out.Worst = came.Share
		}
		if came.Share >= t.Share-t.Slack {
			out.Held++
		}
	}
	out.Mean = sum / max(out.Cases, 1)
	return out, nil
}

// And is what became of both.
func (c Calibration) And(o Calibration) Calibration {
	if c.Cases == 0 {
		c.Worst = o.Worst
	}
	if o.Cases > 0 {
		c.Mean = (c.Mean*c.Cases + o.Mean*o.Cases) / (c.Cases + o.Cases)
		c.Worst = min(c.Worst, o.Worst)
	}
	c.Cases, c.None, c.Held = c.Cases+o.Cases, c.None+o.None, c.Held+o.Held
	return c
}

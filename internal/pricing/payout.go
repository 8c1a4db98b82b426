package pricing

import (
	"fmt"
	"time"

	"suanli.dev/internal/money"
)

// PenaltyStep is what a host loses of its share when it was down for so long.
type PenaltyStep struct {
	FromSeconds int64 `json:"from_seconds"` // of the month, by its own fault
	BasisPoints int64 `json:"basis_points"` // of its share of the lease's charge
}

// PenaltyRule is an operator's rule for hosts' faults.
type PenaltyRule struct {
	Steps []PenaltyStep `json:"steps"` // the last that is reached applies
	// ClawBack says that the host's part of a credit for availability is taken
	// from it, in proportion to its part of the time that the lease was down.
	ClawBack bool `json:"claw_back"`
}

// Penalty is what a host loses for one lease and month, by a rule.
type Penalty struct {
	FaultSeconds int64        `json:"fault_seconds"`
	BasisPoints  int64        `json:"basis_points"`
	Fault        money.Amount `json:"fault"`     // by the steps
	ClawBack     money.Amount `json:"claw_back"` // its part of the credit
	Total        money.Amount `json:"total"`     // never more than the share
}

// Penalise computes what a host loses of its share of a lease's month.
func (r PenaltyRule) Penalise(a Availability, share, credit money.Amount, commissionBasisPoints int64) (Penalty, error) {
	p := Penalty{FaultSeconds: a.HostDownSeconds}
	if share < 0 || credit < 0 {
		return p, fmt.Errorf("penalty for a share of %s and a credit of %s: want at least 0", share, credit)
	}
	for i, s := range r.Steps {
		if s.FromSeconds < 0 || s.BasisPoints < 0 || s.BasisPoints > basisPoints {
			return p, fmt.Errorf("penalty from %d s with %d basis points: want at least 0, and 0 to 10000", s.FromSeconds, s.BasisPoints)
		}
		if i > 0 && r.Steps[i-1].FromSeconds >= s.FromSeconds {
			return p, fmt.Errorf("penalty from %d s comes after the one from %d s: want them in order", s.FromSeconds, r.Steps[i-1].FromSeconds)
		}
		if a.HostDownSeconds > 0 && a.HostDownSeconds >= s.FromSeconds {
			p.BasisPoints = s.BasisPoints
		}
	}
	var err error
	if p.Fault, err = part(share, p.BasisPoints, basisPoints); err != nil {
		return p, err
	}
	if r.ClawBack && a.DownSeconds > 0 {
		hosts, _, err := Split(credit, commissionBasisPoints)
		if err != nil {
			return p, err
		}
		if p.ClawBack, err = part(hosts, a.HostDownSeconds, a.DownSeconds); err != nil {
			return p, err
		}
	}
	if p.Total, err = p.Fault.Add(p.ClawBack); err != nil {
		return p, err
	}
	p.Total = min(p.Total, share)
	return p, nil
}

// Earning is what moves a provider's balance: its share of a charge, or, less than
// 0, a refund, a penalty or a credit that is taken from it.
type Earning struct {
	Reference string       `json:"reference"` // of the charge that it is about
	At        time.Time    `json:"at"`
	Amount    money.Amount `json:"amount"`
}

// Payable is a provider's balance at a moment. Held, Available, Reserved and Paid
// less Owed are all that was earned.
type Payable struct {
	Earned    money.Amount `json:"earned"`
	Held      money.Amount `json:"held"`      // younger than the holding period
	Available money.Amount `json:"available"` // can be paid out now
	Reserved  money.Amount `json:"reserved"`  // kept back for ever, by the rule
	Owed      money.Amount `json:"owed"`      // taken back after it was paid out
	Paid      money.Amount `json:"paid"`
	NextAt    time.Time    `json:"next_at"` // when something held becomes available; zero: nothing is held
}

// Payouts is an operator's rule for paying providers.
type Payouts struct {
	HoldSeconds        int64 `json:"hold_seconds"`         // from when it was earned
	ReserveBasisPoints int64 `json:"reserve_basis_points"` // of what is past its holding period
}

// At computes a provider's balance at a moment. What is taken back for a charge
// comes out of what is held for that charge first, then out of what is available,
// and what neither covers is owed.
func (p Payouts) At(earnings []Earning, paid money.Amount, at time.Time) (Payable, error) {
	out := Payable{Paid: paid}
	if p.HoldSeconds < 0 || p.ReserveBasisPoints < 0 || p.ReserveBasisPoints > basisPoints || paid < 0 {
		return out, fmt.Errorf("payouts held for %d s with %d basis points in reserve, %s paid: want at least 0, and 0 to 10000", p.HoldSeconds, p.ReserveBasisPoints, paid)
	}
	hold := time.Duration(p.HoldSeconds) * time.Second
	held := map[string]money.Amount{}
	var free, back money.Amount
	var err error
	for _, e := range earnings {
		if e.At.After(at) {
			continue
		}
		if out.Earned, err = out.Earned.Add(e.Amount); err != nil {
			return out, err
		}
		if release := e.At.Add(hold); e.Amount > 0 && release.After(at) {
			held[e.Reference], err = held[e.Reference].Add(e.Amount)
		} else if e.Amount > 0 {
			free, err = free.Add(e.Amount)
		}
		if err != nil {
			return out, err
		}
	}
	for _, e := range earnings {
		if e.Amount >= 0 || e.At.After(at) {
			continue
		}
		of := min(-e.Amount, held[e.Reference])
		held[e.Reference] -= of
		if back, err = back.Add(-e.Amount - of); err != nil {
			return out, err
		}
	}
	for _, e := range earnings {
		if release := e.At.Add(hold).UTC(); e.Amount > 0 && !e.At.After(at) && release.After(at) && held[e.Reference] > 0 && (out.NextAt.IsZero() || release.Before(out.NextAt)) {
			out.NextAt = release
		}
	}
	for _, h := range held {
		if out.Held, err = out.Held.Add(h); err != nil {
			return out, err
		}
	}
	left := free - back
	if left > 0 {
		if out.Reserved, err = part(left, p.ReserveBasisPoints, basisPoints); err != nil {
			return out, err
		}
	}
	left -= out.Reserved + paid
	if left < 0 {
		// What has been paid already comes out of the reserve before it is owed.
		from := min(out.Reserved, -left)
		out.Reserved -= from
		left += from
	}
	out.Available, out.Owed = max(0, left), max(0, -left)
	return out, nil
}

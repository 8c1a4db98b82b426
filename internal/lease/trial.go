package lease

import (
	"context"
	"slices"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// TrialTerms bound what an account may rent that has a trial and has never paid.
type TrialTerms struct {
	MaxGPUs     int   // together; 0: no bound
	EgressPorts []int // that its instances may reach outside; none: all
}

// onTrial bounds a new lease of an account that has nothing but a trial: strangers
// who pay nothing get what shows them the cloud, and not what an abuser wants. The
// caller holds the account's lock.
func (s *Service) onTrial(ctx context.Context, tx *store.Tx, l *Lease) error {
	only, err := s.Money.OnlyTrial(ctx, tx, l.AccountID)
	if err != nil || !only {
		return err
	}
	if l.Price.Plan != pricing.OnDemand {
		return fault.New(fault.Forbidden, "trial_plan", "a trial pays for leases on demand, and this one is %s; add money to the account first", l.Price.Plan)
	}
	// Its price would come back to it as earnings: money out of nothing.
	if l.ProviderID == l.AccountID {
		return fault.New(fault.Forbidden, "trial_own_host", "host %s is the account's own, which a trial does not pay for; choose another offer, or add money to the account first", l.HostID)
	}
	if s.Trial.MaxGPUs > 0 {
		_, have, err := countHeld(ctx, tx, l.AccountID)
		if err != nil {
			return err
		}
		if have+l.Bundle.GPUCount > s.Trial.MaxGPUs {
			return fault.New(fault.TooMany, "trial_gpus", "this account rents %d GPUs, asks for %d more and may have %d on its trial; end a lease, or add money to the account first",
				have, l.Bundle.GPUCount, s.Trial.MaxGPUs)
		}
	}
	l.Bundle.EgressPorts = slices.Clone(s.Trial.EgressPorts)
	return nil
}

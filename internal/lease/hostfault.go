package lease

import (
	"context"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/protocol"
)

// The codes of a running lease whose host is at fault.
const (
	// CodeGPUsRefused: the host has the GPUs, and the running instance can no
	// longer use them.
	CodeGPUsRefused = "gpus_refused"
	// CodeGPUFault: a GPU of the lease is lost or broken.
	CodeGPUFault = "gpu_fault"
)

// observeFault takes in what a host says of the GPUs of an instance that runs. The
// lease itself remembers what was told, so that each fault is one event, whichever
// process takes in the reports.
func (s *Service) observeFault(ctx context.Context, l *Lease, f *protocol.GPUFault, now protocol.Instant, received time.Time) error {
	switch {
	case f != nil && l.Code == "":
		_, err := s.move(ctx, l.ID, step{
			event: HostFault, at: when(&f.Since, now, received, l.RunningSince), code: CodeGPUsRefused,
			message: f.Reason + "; restart the lease to get them back: its disk is kept",
		})
		return err
	case f == nil && l.Code == CodeGPUsRefused:
		_, err := s.move(ctx, l.ID, step{event: HostFaultOver, at: received})
		return err
	}
	return nil
}

// OnGPUFault tells a lease that a GPU that it has was lost or has a fault.
func (s *Service) OnGPUFault(ctx context.Context, f fleet.GPUFault) error {
	l, err := s.Lookup(ctx, f.LeaseID)
	if err != nil {
		return err
	}
	if l.State != Running || l.Code == CodeGPUFault {
		return nil // told already, or in no one's use
	}
	_, err = s.move(ctx, l.ID, step{
		event: HostFault, code: CodeGPUFault,
		message: "GPU " + f.UUID + " is lost: " + f.Reason + "; stop and start the lease to get another one of this host, if it has one free: its disk is kept",
	})
	if err != nil && gone(err) {
		return nil
	}
	return err
}

// Outage is a stretch of time in which a lease could not be used by its host's
// fault while it was to run: what service levels are measured by.
type Outage struct {
	From  time.Time
	Until time.Time // zero: it goes on
	Code  string    // "host_silent", "gpus_refused", "gpu_fault"
}

// Outages finds the outages in what happened to a lease, oldest first.
func Outages(history []Change) []Outage {
	var list []Outage
	open := false
	for _, c := range history {
		if open {
			list[len(list)-1].Until = c.At
			open = false
		}
		if c.Event == HostFault || c.To == Unreachable {
			list = append(list, Outage{From: c.At, Code: c.Code})
			open = true
		}
	}
	return list
}

// Outages returns when a lease could not be used by its host's fault.
func (s *Service) Outages(ctx context.Context, p account.Principal, id string) ([]Outage, error) {
	history, err := s.History(ctx, p, id)
	return Outages(history), err
}

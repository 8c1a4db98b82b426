package billing

import "time"

// stoppedSince is since when an account's disks are kept unpaid: from when its
// money ran out, or its compute was stopped for an invoice; zero: they are not.
func (a *accountRow) stoppedSince() time.Time { return earliest(a.exhaustedAt, a.overdueSince) }

// deletionAt is when an account's disks are deleted; zero: they are not.
func (s *Service) deletionAt(a *accountRow, now time.Time) time.Time {
	since := a.stoppedSince()
	if since.IsZero() {
		return time.Time{}
	}
	told := a.deletionTold
	if told.IsZero() {
		told = now
	}
	return s.cfg.Dunning.DeletionAt(since, told)
}

// paidAgain forgets what was said about the deletion of disks once nothing stands
// for it any more.
func (a *accountRow) paidAgain() {
	if a.stoppedSince().IsZero() {
		a.graceWarned, a.deletionTold = 0, time.Time{}
	}
}

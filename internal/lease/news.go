package lease

import (
	"context"
	"time"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/notify"
	"suanli.dev/internal/store"
)

// News is what lease needs of notify.
type News interface {
	// Announce tells an account in tx what happened, once.
	Announce(ctx context.Context, tx *store.Tx, accountID, kind, subject string, at time.Time, data any) error
}

// tell announces what of a change its renter has to know. st is as it was applied.
func (s *Service) tell(ctx context.Context, tx *store.Tx, l *Lease, st step, c Change) error {
	if s.News == nil {
		return nil
	}
	unpaid := func(code string) bool {
		return code == string(billing.ReasonBalance) || code == string(billing.ReasonSpendingCap) || code == string(billing.ReasonOverdue) || code == CodeBudget
	}
	var kind string
	switch {
	case st.event == Notice:
		return s.News.Announce(ctx, tx, l.AccountID, notify.KindSpotNotice, l.ID, c.At,
			notify.SpotNotice{Name: l.Name, BidID: l.BidID, Code: c.Code, InterruptAt: st.interruptAt.UTC(), Simulated: l.Simulated})
	case st.event == RequestEnd && c.Code == string(billing.ReasonGraceOver):
		return s.News.Announce(ctx, tx, l.AccountID, notify.KindDeleted, l.ID, c.At, notify.StorageDeleted{Name: l.Name, Code: c.Code, Simulated: l.Simulated})
	case st.event == ConfirmInterrupted:
		kind = notify.KindInterrupted
	case st.event == RequestStart && c.From == Interrupted:
		kind = notify.KindResumed
	case c.To == Failed && c.From != Failed:
		kind = notify.KindFailed
	case unpaid(c.Code) && (st.event == RequestStop || st.event == ConfirmStopped && c.From != Stopping):
		// Its agent may have stopped it by itself, before it was told.
		kind = notify.KindStoppedForBalance
	default:
		return nil
	}
	return s.News.Announce(ctx, tx, l.AccountID, kind, l.ID, c.At, notify.LeaseNews{Name: l.Name, BidID: l.BidID, Code: c.Code, Message: c.Message, Simulated: l.Simulated})
}

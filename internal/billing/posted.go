package billing

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"suanli.dev/internal/ident"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

// Posted is what has been charged in one currency since the cloud began.
type Posted struct {
	Currency   money.Currency
	Simulated  bool // for simulated GPUs
	Charges    int64
	Amount     money.Amount // less corrections
	Commission money.Amount // the cloud's part of it
}

type postedKey struct {
	currency  money.Currency
	simulated bool
}

// postedSoFar keeps the sums of old charges, which do not change any more, so
// that a look at all of them reads only what is new.
type postedSoFar struct {
	mu    sync.Mutex
	sums  map[postedKey]Posted
	until string // they are of all charges whose identifier is less
}

// settling is how long after a charge's identifier was made its transaction may
// still commit, with room for clocks of replicas that differ.
const settling = 10 * time.Minute

// endOfTime is after every identifier's.
var endOfTime = time.UnixMilli(1<<48 - 1)

// Posted returns the sums of all posted charges, by currency.
func (s *Service) Posted(ctx context.Context) ([]Posted, error) {
	s.posted.mu.Lock()
	defer s.posted.mu.Unlock()
	// Identifiers are made by the machine's clock, not by billing's.
	until := ident.First(ident.Charge, time.Now().Add(-settling))
	old, err := s.sumCharges(ctx, s.posted.until, until)
	if err != nil {
		return nil, fmt.Errorf("sum charges: %w", err)
	}
	recent, err := s.sumCharges(ctx, until, ident.First(ident.Charge, endOfTime))
	if err != nil {
		return nil, fmt.Errorf("sum charges: %w", err)
	}
	if s.posted.sums == nil {
		s.posted.sums = map[postedKey]Posted{}
	}
	if until > s.posted.until {
		for k, p := range old {
			s.posted.sums[k] = p.plus(s.posted.sums[k])
		}
		s.posted.until = until
	}
	all := map[postedKey]Posted{}
	for k, p := range s.posted.sums {
		all[k] = p
	}
	for k, p := range recent {
		all[k] = p.plus(all[k])
	}
	var list []Posted
	for _, p := range all {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b Posted) int {
		if c := cmp.Compare(a.Currency, b.Currency); c != 0 || a.Simulated == b.Simulated {
			return c
		}
		if a.Simulated {
			return 1
		}
		return -1
	})
	return list, nil
}

func (p Posted) plus(q Posted) Posted {
	p.Charges, p.Amount, p.Commission = p.Charges+q.Charges, p.Amount+q.Amount, p.Commission+q.Commission
	return p
}

// sumCharges sums the charges whose identifiers are from on, and less than to.
func (s *Service) sumCharges(ctx context.Context, from, to string) (map[postedKey]Posted, error) {
	sums := map[postedKey]Posted{}
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT currency, simulated, COUNT(*), CAST(SUM(amount) AS BIGINT), CAST(SUM(commission) AS BIGINT)
			FROM billing_charges WHERE id >= ? AND id < ? GROUP BY currency, simulated`, from, to)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var p Posted
			var currency string
			var simulated, amount, commission int64
			if err := rows.Scan(&currency, &simulated, &p.Charges, &amount, &commission); err != nil {
				return err
			}
			p.Currency, p.Simulated = money.Currency(currency), simulated != 0
			p.Amount, p.Commission = money.Amount(amount), money.Amount(commission)
			sums[postedKey{p.Currency, p.Simulated}] = p
		}
		return rows.Err()
	})
	return sums, err
}

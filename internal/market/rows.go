package market

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"suanli.dev/internal/fleet"
	"suanli.dev/internal/pricing/auction"
	"suanli.dev/internal/store"
)

const bidColumns = `id, account_id, user_id, name, zone, gpu_model, simulated, gpus, price, max_price, currency, time_zone, template, image,
	disk_gib, wish, state, code, message, lease_id, host_id, since_at, floor, paid, leave_at, cool_until, avoid, placed_at, changed_at, ended_at`

func selectBids(ctx context.Context, tx *store.Tx, where string, args ...any) ([]*Bid, error) {
	rows, err := tx.Query(ctx, `SELECT `+bidColumns+` FROM market_bid WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read bids: %w", err)
	}
	defer rows.Close()
	var list []*Bid
	for rows.Next() {
		var b Bid
		var simulated, since, leave, cool, placed, changed, ended int64
		var avoid string
		if err := rows.Scan(&b.ID, &b.AccountID, &b.UserID, &b.Name, &b.Market.Zone, &b.Market.Model, &simulated, &b.GPUs, &b.Price, &b.Max,
			&b.Currency, &b.timeZone, &b.Template, &b.Image, &b.DiskGiB, &b.wish, &b.State, &b.Code, &b.Message, &b.LeaseID, &b.HostID,
			&since, &b.floor, &b.Paid, &leave, &cool, &avoid, &placed, &changed, &ended); err != nil {
			return nil, fmt.Errorf("read bids: %w", err)
		}
		if avoid != "" {
			if err := json.Unmarshal([]byte(avoid), &b.avoid); err != nil {
				return nil, fmt.Errorf("bid %s: %w", b.ID, err)
			}
		}
		b.Market.Simulated = simulated != 0
		b.Since, b.LeaveAt, b.CoolUntil = store.Time(since), store.Time(leave), store.Time(cool)
		b.PlacedAt, b.ChangedAt, b.EndedAt = store.Time(placed), store.Time(changed), store.Time(ended)
		list = append(list, &b)
	}
	return list, rows.Err()
}

func insertBid(ctx context.Context, tx *store.Tx, b *Bid) error {
	_, err := tx.Exec(ctx, `INSERT INTO market_bid (`+bidColumns+`) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
		b.ID, b.AccountID, b.UserID, b.Name, b.Market.Zone, b.Market.Model, bit(b.Market.Simulated), b.GPUs, int64(b.Price), int64(b.Max),
		string(b.Currency), b.timeZone, b.Template, b.Image, b.DiskGiB, b.wish, string(b.State), b.Code, b.Message, b.LeaseID, b.HostID,
		store.Micros(b.Since), int64(b.floor), int64(b.Paid), store.Micros(b.LeaveAt), store.Micros(b.CoolUntil), "",
		store.Micros(b.PlacedAt), store.Micros(b.ChangedAt), store.Micros(b.EndedAt))
	if err != nil {
		return fmt.Errorf("write bid %s: %w", b.ID, err)
	}
	return nil
}

// saveBid writes what may have changed of a bid, if anything has.
func saveBid(ctx context.Context, tx *store.Tx, b *Bid) error {
	if !b.changed {
		return nil
	}
	avoid := ""
	if len(b.avoid) > 0 {
		text, err := json.Marshal(b.avoid)
		if err != nil {
			return err
		}
		avoid = string(text)
	}
	_, err := tx.Exec(ctx, `UPDATE market_bid SET price = ?, max_price = ?, state = ?, code = ?, message = ?, lease_id = ?, host_id = ?, since_at = ?,
		floor = ?, paid = ?, leave_at = ?, cool_until = ?, avoid = ?, changed_at = ?, ended_at = ? WHERE id = ?`,
		int64(b.Price), int64(b.Max), string(b.State), b.Code, b.Message, b.LeaseID, b.HostID, store.Micros(b.Since),
		int64(b.floor), int64(b.Paid), store.Micros(b.LeaveAt), store.Micros(b.CoolUntil), avoid, store.Micros(b.ChangedAt), store.Micros(b.EndedAt), b.ID)
	if err != nil {
		return fmt.Errorf("write bid %s: %w", b.ID, err)
	}
	return nil
}

// lockMarket makes everybody else who changes something of a market wait until
// the end of the transaction, and reads when a round last changed something.
func lockMarket(ctx context.Context, tx *store.Tx, k fleet.MarketKey, clearedAt *time.Time) error {
	args := []any{k.Zone, k.Model, bit(k.Simulated)}
	var cleared int64
	read := func() error {
		return tx.QueryRow(ctx, `SELECT cleared_at FROM market WHERE zone = ? AND gpu_model = ? AND simulated = ?`+tx.ForUpdate(), args...).Scan(&cleared)
	}
	err := read()
	if errors.Is(err, store.ErrNoRows) {
		if _, err := tx.Exec(ctx, `INSERT INTO market (zone, gpu_model, simulated, cleared_at) VALUES (?, ?, ?, 0) ON CONFLICT DO NOTHING`, args...); err != nil {
			return fmt.Errorf("lock market: %w", err)
		}
		err = read()
	}
	if err != nil {
		return fmt.Errorf("lock market: %w", err)
	}
	if clearedAt != nil {
		*clearedAt = store.Time(cleared)
	}
	return nil
}

// marketsWithBids counts the bids that may still run, by market.
func (s *Service) marketsWithBids(ctx context.Context) (map[fleet.MarketKey]int, error) {
	out := map[fleet.MarketKey]int{}
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT zone, gpu_model, simulated, COUNT(*) FROM market_bid WHERE ended_at = 0 GROUP BY zone, gpu_model, simulated`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var k fleet.MarketKey
			var simulated int64
			var n int
			if err := rows.Scan(&k.Zone, &k.Model, &simulated, &n); err != nil {
				return err
			}
			k.Simulated = simulated != 0
			out[k] = n
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("count bids: %w", err)
	}
	return out, nil
}

// lastSteps returns the last recorded step of each bundle size of a market.
func lastSteps(ctx context.Context, tx *store.Tx, k fleet.MarketKey) (map[int]auction.Step, error) {
	rows, err := tx.Query(ctx, `SELECT p.gpus, p.at, p.price, p.ask FROM market_price p JOIN
		(SELECT gpus, MAX(at) AS at FROM market_price WHERE zone = ? AND gpu_model = ? AND simulated = ? GROUP BY gpus) last
		ON p.gpus = last.gpus AND p.at = last.at WHERE p.zone = ? AND p.gpu_model = ? AND p.simulated = ?`,
		k.Zone, k.Model, bit(k.Simulated), k.Zone, k.Model, bit(k.Simulated))
	if err != nil {
		return nil, fmt.Errorf("read prices: %w", err)
	}
	defer rows.Close()
	out := map[int]auction.Step{}
	for rows.Next() {
		var gpus int
		var at int64
		var step auction.Step
		if err := rows.Scan(&gpus, &at, &step.Price, &step.Ask); err != nil {
			return nil, fmt.Errorf("read prices: %w", err)
		}
		step.At = store.Time(at)
		out[gpus] = step
	}
	return out, rows.Err()
}

// steps returns the recorded steps of a bundle size that say something of the
// time between two moments: those in it, and the last before.
func steps(ctx context.Context, tx *store.Tx, k fleet.MarketKey, gpus int, from, to time.Time) ([]auction.Step, error) {
	args := []any{k.Zone, k.Model, bit(k.Simulated), gpus}
	rows, err := tx.Query(ctx, `SELECT at, price, ask FROM market_price WHERE zone = ? AND gpu_model = ? AND simulated = ? AND gpus = ? AND at < ?
		AND at >= COALESCE((SELECT MAX(at) FROM market_price WHERE zone = ? AND gpu_model = ? AND simulated = ? AND gpus = ? AND at <= ?), 0) ORDER BY at`,
		append(append(append(args, store.Micros(to)), args...), store.Micros(from))...)
	if err != nil {
		return nil, fmt.Errorf("read prices: %w", err)
	}
	defer rows.Close()
	var out []auction.Step
	for rows.Next() {
		var at int64
		var step auction.Step
		if err := rows.Scan(&at, &step.Price, &step.Ask); err != nil {
			return nil, fmt.Errorf("read prices: %w", err)
		}
		step.At = store.Time(at)
		out = append(out, step)
	}
	return out, rows.Err()
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

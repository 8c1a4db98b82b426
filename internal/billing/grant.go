package billing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// The codes of the transfers of grants.
const (
	CodeGrant        = "grant"
	CodeGrantExpired = "grant_expired"
)

// The kinds of grants.
const (
	GrantPromotion = "promotion"
	GrantTrial     = "trial"  // an account has one in its life
	GrantCoupon    = "coupon" // redeemed by the account itself
)

// maxGrantFor is the longest that a grant can be valid.
const maxGrantFor = 10 * 366 * 24 * time.Hour

// Grant is money that an operator gives an account for use. It pays before the
// wallet, for use in its time only.
type Grant struct {
	ID, AccountID, Kind string
	Currency            money.Currency
	Amount, Spent       money.Amount
	Meters              []pricing.Meter // it pays for; empty: all
	ValidFor            time.Duration   // from the first use; 0: until ExpiresAt
	ActiveFrom          time.Time
	ExpiresAt           time.Time // zero: it has not been used yet
	Reference           string
	CreatedAt           time.Time
	SharePPM            int64  // it pays this share of use, in millionths, up to Amount; 0: all of it
	GPUModel            string // it pays for leases of this model; empty: of all
	expired             bool   // what was lost is posted
	taken               map[pricing.SpendKey]pricing.Taken
}

// isFor reports whether g pays for a meter of leases of a model.
func (g *Grant) isFor(m pricing.Meter, gpuModel string) bool {
	return (len(g.Meters) == 0 || slices.Contains(g.Meters, m)) && (g.GPUModel == "" || g.GPUModel == gpuModel)
}

// rule is g as the rules of price have it. One that has not been used yet counts
// as if it were used for the first time now.
func (g *Grant) rule(now time.Time) pricing.Grant {
	r := pricing.Grant{ID: g.ID, Kind: g.Kind, Cap: g.Amount, Spent: g.Spent, Meters: g.Meters, ActiveFrom: g.ActiveFrom, ExpiresAt: g.ExpiresAt, SharePPM: g.SharePPM, Taken: g.taken}
	if g.GPUModel != "" {
		r.GPUModels = []string{g.GPUModel}
	}
	if r.ExpiresAt.IsZero() {
		r.ActiveFrom, r.ExpiresAt = now, now.Add(g.ValidFor)
	}
	return r
}

// Left returns what of g can be spent at a moment.
func (g *Grant) Left(at time.Time) money.Amount { return g.rule(at).Available(at) }

// CreateGrant is what an operator gives.
type CreateGrant struct {
	AccountID string
	Kind      string // empty: GrantPromotion
	Amount    money.Amount
	Meters    []pricing.Meter
	ValidFor  time.Duration // from the first use; or
	ExpiresAt time.Time     // of a trial, neither: 72 hours from the first use
	Reference string
	GPUModel  string // leases of this model only; empty: of all
}

func (c *CreateGrant) check(now time.Time) error {
	if c.Kind == "" {
		c.Kind = GrantPromotion
	}
	if c.Kind == GrantTrial && c.ValidFor == 0 && c.ExpiresAt.IsZero() {
		c.ValidFor = pricing.TrialSeconds * time.Second
	}
	switch {
	case c.Kind != GrantPromotion && c.Kind != GrantTrial:
		return fault.New(fault.Invalid, "invalid_grant", "a grant of kind %q; want promotion or trial", c.Kind).At("body.kind")
	case c.Amount <= 0:
		return fault.New(fault.Invalid, "amount_invalid", "a grant of %s: want more than 0", c.Amount.Display()).At("body.amount")
	case (c.ValidFor == 0) == c.ExpiresAt.IsZero():
		return fault.New(fault.Invalid, "invalid_grant", "say either how long the grant is valid from its first use, or when it expires").At("body.expires_at")
	case c.ValidFor < 0 || c.ValidFor > maxGrantFor || c.ValidFor%time.Second != 0:
		return fault.New(fault.Invalid, "invalid_grant", "valid for %d seconds: want 1 to %d", int64(c.ValidFor/time.Second), int64(maxGrantFor/time.Second)).At("body.valid_seconds")
	case !c.ExpiresAt.IsZero() && (store.Micros(c.ExpiresAt) <= store.Micros(now) || c.ExpiresAt.Sub(now) > maxGrantFor):
		return fault.New(fault.Invalid, "invalid_grant", "it expires at %s: want a time in the next ten years", c.ExpiresAt.Format(time.RFC3339)).At("body.expires_at")
	case len(c.GPUModel) > 100:
		return fault.New(fault.Invalid, "text_too_long", "want a GPU model of at most 100 characters").At("body.gpu_model")
	case len(c.Reference) > 200:
		return fault.New(fault.Invalid, "text_too_long", "want a reference of at most 200 characters").At("body.reference")
	}
	if err := checkLargest(c.Amount, "body.amount"); err != nil {
		return err
	}
	if r, found := ident.Hidden(c.Reference); found {
		return fault.New(fault.Invalid, "text_invalid", "the reference holds the control character %U, which nobody sees; leave it out", r).At("body.reference")
	}
	for i, m := range c.Meters {
		if !slices.Contains(pricing.Meters[:], m) || slices.Contains(c.Meters[:i], m) {
			return fault.New(fault.Invalid, "invalid_grant", "meter %q: want each of the meters at most once", m).At("body.meters")
		}
	}
	return nil
}

// Grant gives an account money for use. The same key with the same grant returns
// the first one; with another it is a Conflict fault "idempotency_conflict".
func (s *Service) Grant(ctx context.Context, p account.Principal, c CreateGrant, key string) (Grant, error) {
	if !p.May(account.Operate) {
		return Grant{}, fault.New(fault.Forbidden, "forbidden", "only an operator can give grants")
	}
	now := s.cfg.Clock()
	if err := c.check(now); err != nil {
		return Grant{}, err
	}
	currency, err := s.cfg.CurrencyOf(ctx, c.AccountID)
	if err != nil {
		return Grant{}, fmt.Errorf("grant: %w", err)
	}
	if key == "" {
		key = ident.New(ident.Transfer)
	}
	sum := sha256.Sum256([]byte(key))
	key = "grant:" + c.AccountID + ":" + hex.EncodeToString(sum[:])
	var g Grant
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		a, err := s.lockAccount(ctx, tx, c.AccountID, currency)
		if err != nil {
			return err
		}
		if known, err := s.cfg.Ledger.Find(ctx, tx, key); err == nil {
			list, err := s.loadGrants(ctx, tx, `id = ?`, known.Reference)
			if err != nil || len(list) != 1 {
				return errors.Join(err, fmt.Errorf("grant %s: %d are there", known.Reference, len(list)))
			}
			if g = *list[0]; g.Amount != c.Amount || g.Kind != c.Kind || g.Reference != c.Reference || g.ValidFor != c.ValidFor || c.ValidFor == 0 && store.Micros(g.ExpiresAt) != store.Micros(c.ExpiresAt) || g.GPUModel != c.GPUModel || !slices.Equal(g.Meters, c.Meters) {
				return fault.New(fault.Conflict, "idempotency_conflict", "this key was used for another grant; use a new key for a new one")
			}
			return nil
		} else if !errors.Is(err, store.ErrNoRows) {
			return err
		}
		g = Grant{ID: ident.New(ident.Grant), AccountID: c.AccountID, Kind: c.Kind, Currency: currency, Amount: c.Amount, Meters: c.Meters,
			ValidFor: c.ValidFor, Reference: c.Reference, GPUModel: c.GPUModel, CreatedAt: now}
		if c.ValidFor == 0 {
			g.ActiveFrom, g.ExpiresAt = now.UTC().Truncate(time.Microsecond), c.ExpiresAt.UTC().Truncate(time.Microsecond)
		}
		if err := s.give(ctx, tx, a, g, key, now); err != nil {
			return err
		}
		if s.cfg.Audit != nil {
			detail := map[string]string{"account": a.id, "amount": g.Amount.String(), "currency": string(currency), "kind": g.Kind, "reference": g.Reference}
			if err := s.cfg.Audit(ctx, tx, p, "grant", g.ID, detail); err != nil {
				return fmt.Errorf("audit: %w", err)
			}
		}
		return s.rebalance(ctx, tx, a, now)
	})
	if errors.Is(err, money.ErrOverflow) {
		return Grant{}, fault.New(fault.Invalid, "amount_too_large", "a grant of %s: with it the books would hold more than they can count; give a smaller one", c.Amount.Display()).At("body.amount")
	}
	if err != nil {
		return Grant{}, fmt.Errorf("grant: %w", err)
	}
	s.changed(c.AccountID)
	return g, nil
}

// give writes a grant and posts it by a key of its own.
func (s *Service) give(ctx context.Context, tx *store.Tx, a *accountRow, g Grant, key string, now time.Time) error {
	meters, err := json.Marshal(g.Meters)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO billing_grants (id, account_id, kind, cap, spent, meters, valid_seconds, active_from, expires_at, expired, reference, created_at, share_ppm, gpu_model)
		VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?, 0, ?, ?, ?, ?)`, g.ID, g.AccountID, g.Kind, int64(g.Amount), string(meters), int64(g.ValidFor/time.Second),
		store.Micros(g.ActiveFrom), store.Micros(g.ExpiresAt), g.Reference, store.Micros(now), g.SharePPM, g.GPUModel); store.IsUnique(err) {
		return fault.New(fault.Conflict, "trial_given", "account %s has had its trial; give it a promotion instead", g.AccountID)
	} else if err != nil {
		return err
	}
	leases, err := s.openLeases(ctx, tx, a.id)
	if err != nil {
		return err
	}
	for _, l := range leases {
		if l.openInterval(pricing.Compute) == nil {
			continue
		}
		if err := s.firstUse(ctx, tx, a.id, l.gpuModel, now); err != nil {
			return err
		}
	}
	return s.cfg.Ledger.Post(ctx, tx, ledger.Transfer{Key: key, Debit: ledger.Promotions, Credit: ledger.Grant(a.id), Amount: g.Amount,
		Currency: g.Currency, Code: CodeGrant, Reference: g.ID, EffectiveAt: now})
}

// Grants lists what an account was given, newest first.
func (s *Service) Grants(ctx context.Context, accountID string) ([]Grant, error) {
	currency, err := s.cfg.CurrencyOf(ctx, accountID)
	if err != nil {
		return nil, fmt.Errorf("grants: %w", err)
	}
	var out []Grant
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		list, err := s.loadGrants(ctx, tx, `account_id = ?`, accountID)
		for _, g := range slices.Backward(list) {
			g.Currency = currency
			out = append(out, *g)
		}
		return err
	})
	return out, err
}

func (s *Service) loadGrants(ctx context.Context, tx *store.Tx, where string, args ...any) ([]*Grant, error) {
	rows, err := tx.Query(ctx, `SELECT id, account_id, kind, cap, spent, meters, valid_seconds, active_from, expires_at, expired, reference, created_at, share_ppm, gpu_model
		FROM billing_grants WHERE `+where+` ORDER BY id`, args...)
	if err != nil {
		return nil, fmt.Errorf("load grants: %w", err)
	}
	defer rows.Close()
	var out []*Grant
	for rows.Next() {
		var g Grant
		var meters []byte
		var valid, from, expires, expired, created int64
		if err := rows.Scan(&g.ID, &g.AccountID, &g.Kind, &g.Amount, &g.Spent, &meters, &valid, &from, &expires, &expired, &g.Reference, &created, &g.SharePPM, &g.GPUModel); err != nil {
			return nil, fmt.Errorf("load grants: %w", err)
		}
		if err := json.Unmarshal(meters, &g.Meters); err != nil {
			return nil, fmt.Errorf("load grant %s: %w", g.ID, err)
		}
		g.ValidFor, g.expired = time.Duration(valid)*time.Second, expired == 1
		g.ActiveFrom, g.ExpiresAt, g.CreatedAt = store.Time(from), store.Time(expires), store.Time(created)
		out = append(out, &g)
	}
	return out, rows.Err()
}

// usableGrants returns the grants of an account of which something may be left. Of
// those that pay a share what it is of is followed beyond their cap, as corrections
// may make it less.
func (s *Service) usableGrants(ctx context.Context, tx *store.Tx, accountID string) ([]*Grant, error) {
	list, err := s.loadGrants(ctx, tx, `account_id = ? AND expired = 0 AND (spent < cap OR share_ppm > 0)`, accountID)
	if err != nil {
		return nil, err
	}
	return list, loadTaken(ctx, tx, list)
}

// granted is what grants that pay for all compute have left at a moment, and those
// that pay for that of one model, by model, less what they will have paid by then. What
// pays a share counts for nothing: there must be money for the rest.
func granted(grants []*Grant, at time.Time, covered map[string]money.Amount) (sum money.Amount, ofModel map[string]money.Amount) {
	for _, g := range grants {
		if g.SharePPM > 0 || len(g.Meters) > 0 && !slices.Contains(g.Meters, pricing.Compute) {
			continue
		}
		left := max(0, g.Left(at)-covered[g.ID])
		if g.GPUModel == "" {
			sum += left
			continue
		}
		if ofModel == nil {
			ofModel = map[string]money.Amount{}
		}
		ofModel[g.GPUModel] += left
	}
	return sum, ofModel
}

// firstUse begins the time of grants that run from their first use on, and are for
// leases of a model.
func (s *Service) firstUse(ctx context.Context, tx *store.Tx, accountID, gpuModel string, at time.Time) error {
	list, err := s.loadGrants(ctx, tx, `account_id = ? AND expires_at = 0 AND (gpu_model = '' OR gpu_model = ?)`, accountID, gpuModel)
	if err != nil {
		return err
	}
	for _, g := range list {
		from := latest(at, g.CreatedAt)
		if _, err := tx.Exec(ctx, `UPDATE billing_grants SET active_from = ?, expires_at = ? WHERE id = ? AND expires_at = 0`,
			store.Micros(from), store.Micros(from.Add(g.ValidFor)), g.ID); err != nil {
			return fmt.Errorf("first use of grant %s: %w", g.ID, err)
		}
	}
	if len(list) > 0 {
		s.changed(accountID)
	}
	return nil
}

// cuts are the moments within a stretch at which a grant begins or ends.
func cuts(grants []*Grant, from, until time.Time) []time.Time {
	var out []time.Time
	for _, g := range grants {
		for _, at := range []time.Time{g.ActiveFrom, g.ExpiresAt} {
			if at.After(from) && at.Before(until) {
				out = append(out, at)
			}
		}
	}
	slices.SortFunc(out, time.Time.Compare)
	return slices.CompactFunc(out, time.Time.Equal)
}

// timed reports whether a meter's use has a time; bytes have the one at which they
// are charged.
func timed(m pricing.Meter) bool { return m != pricing.Egress && m != pricing.Ingress }

// draw decides what grants pay of spends.
func draw(grants []*Grant, spends []pricing.Spend, now time.Time) ([]pricing.Draw, error) {
	rules := make([]pricing.Grant, len(grants))
	for i, g := range grants {
		rules[i] = g.rule(now)
	}
	draws, _, err := pricing.DrawGrants(rules, spends)
	return draws, err
}

// coverage is what each grant will pay of what leases have cost by a moment and is not
// posted.
func coverage(grants []*Grant, leases []*leaseRow, at, now time.Time, dueBy func(l *leaseRow, at time.Time) (map[pricing.Meter]money.Amount, error)) (map[string]money.Amount, error) {
	if len(grants) == 0 {
		return nil, nil
	}
	rules := make([]*Grant, len(grants)) // with the times that they have or would have
	for i, g := range grants {
		r, c := g.rule(now), *g
		c.ActiveFrom, c.ExpiresAt = r.ActiveFrom, r.ExpiresAt
		rules[i] = &c
	}
	var spends []pricing.Spend
	for _, l := range leases {
		from := earliest(latest(l.begun, l.settled), at)
		moments := append(cuts(rules, from, at), at)
		before := l.posted
		for _, until := range moments {
			due, err := dueBy(l, until)
			if err != nil {
				return nil, err
			}
			next := postedFor{}
			for _, m := range pricing.Meters {
				next[m] = due[m]
				if !timed(m) && until.Before(at) {
					next[m] = before[m]
				}
				if amount := next[m] - before[m]; amount > 0 {
					spends = append(spends, pricing.Spend{Reference: l.id, Meter: m, GPUModel: l.gpuModel, From: from, Until: until, Amount: amount})
				}
			}
			from, before = until, next
		}
	}
	draws, err := draw(rules, spends, now)
	out := map[string]money.Amount{}
	for _, d := range draws {
		out[d.GrantID] += d.Amount
	}
	return out, err
}

// inAll is the sum of what each grant pays.
func inAll(covered map[string]money.Amount) (sum money.Amount) {
	for _, a := range covered {
		sum += a
	}
	return sum
}

// coveredNow is what grants will pay of what leases have used and is not posted.
func (s *Service) coveredNow(grants []*Grant, leases []*leaseRow, now time.Time) (map[string]money.Amount, error) {
	return coverage(grants, leases, now, now, func(l *leaseRow, at time.Time) (map[pricing.Meter]money.Amount, error) {
		return l.rated(s.usage(l, at))
	})
}

// drawn writes what grants pay of the spends of a lease, and returns it by meter, with
// what of it is shares.
func (s *Service) drawn(ctx context.Context, tx *store.Tx, l *leaseRow, grants []*Grant, spends []pricing.Spend, draws []pricing.Draw) (map[pricing.Meter]money.Amount, map[pricing.Meter][]shared, error) {
	byMeter, shares := map[pricing.Meter]money.Amount{}, map[pricing.Meter][]shared{}
	for _, d := range draws {
		m := spends[d.Spend].Meter
		for _, g := range grants {
			if g.ID != d.GrantID {
				continue
			}
			g.Spent += d.Amount
			if g.SharePPM > 0 {
				key := pricing.SpendKey{Reference: l.id, Meter: m}
				t := g.taken[key]
				g.taken[key] = pricing.Taken{Base: t.Base + d.Base, Amount: t.Amount + d.Amount}
				shares[m] = append(shares[m], shared{g.ID, d.Base, d.Amount})
			}
		}
		if _, err := tx.Exec(ctx, `UPDATE billing_grants SET spent = spent + ? WHERE id = ?`, int64(d.Amount), d.GrantID); err != nil {
			return nil, nil, fmt.Errorf("draw on grant %s: %w", d.GrantID, err)
		}
		if _, err := tx.Exec(ctx, `INSERT INTO billing_draws (grant_id, lease_id, meter, amount, base) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (grant_id, lease_id, meter) DO UPDATE SET amount = billing_draws.amount + excluded.amount, base = billing_draws.base + excluded.base`, d.GrantID, l.id, string(m), int64(d.Amount), int64(d.Base)); err != nil {
			return nil, nil, fmt.Errorf("draw on grant %s: %w", d.GrantID, err)
		}
		byMeter[m] += d.Amount
	}
	return byMeter, shares, nil
}

// undrawn gives back to grants what they have paid of a meter of a lease, up to an
// amount: a correction must not turn what was given into money. live is what goes to
// grants that can still be spent, lost what goes to those that are over.
func (s *Service) undrawn(ctx context.Context, tx *store.Tx, l *leaseRow, m pricing.Meter, amount money.Amount) (live, lost money.Amount, err error) {
	rows, err := tx.Query(ctx, `SELECT d.grant_id, d.amount, g.expired FROM billing_draws d JOIN billing_grants g ON g.id = d.grant_id
		WHERE d.lease_id = ? AND d.meter = ? AND d.amount > 0 AND g.share_ppm = 0 AND g.kind <> 'volume_discount' ORDER BY d.grant_id DESC`, l.id, string(m))
	if err != nil {
		return 0, 0, fmt.Errorf("draws of lease %s: %w", l.id, err)
	}
	type part struct {
		grant   string
		amount  money.Amount
		expired bool
	}
	var parts []part
	for rows.Next() {
		var p part
		var expired int64
		if err := rows.Scan(&p.grant, &p.amount, &expired); err != nil {
			rows.Close()
			return 0, 0, fmt.Errorf("draws of lease %s: %w", l.id, err)
		}
		p.expired = expired == 1
		parts = append(parts, p)
	}
	err = rows.Err()
	rows.Close()
	if err != nil {
		return 0, 0, fmt.Errorf("draws of lease %s: %w", l.id, err)
	}
	for _, p := range parts {
		back := min(p.amount, amount-live-lost)
		if back <= 0 {
			break
		}
		if _, err := tx.Exec(ctx, `UPDATE billing_draws SET amount = amount - ? WHERE grant_id = ? AND lease_id = ? AND meter = ?`, int64(back), p.grant, l.id, string(m)); err != nil {
			return 0, 0, fmt.Errorf("give back to grant %s: %w", p.grant, err)
		}
		if _, err := tx.Exec(ctx, `UPDATE billing_grants SET spent = spent - ? WHERE id = ?`, int64(back), p.grant); err != nil {
			return 0, 0, fmt.Errorf("give back to grant %s: %w", p.grant, err)
		}
		if p.expired {
			lost += back
		} else {
			live += back
		}
	}
	return live, lost, nil
}

// expire posts back what is lost of grants that are over, once each. All use of
// the account's open leases must have been charged up to now. That it cannot be
// spent any more does not wait for this.
func (s *Service) expire(ctx context.Context, tx *store.Tx, a *accountRow, now time.Time) error {
	list, err := s.loadGrants(ctx, tx, `account_id = ? AND expired = 0 AND expires_at <> 0 AND expires_at <= ?`, a.id, store.Micros(now))
	if err != nil {
		return err
	}
	for _, g := range list {
		if lost := g.Amount - g.Spent; lost > 0 {
			if err := s.cfg.Ledger.Post(ctx, tx, ledger.Transfer{Key: "grant_expired:" + g.ID, Debit: ledger.Grant(a.id), Credit: ledger.Promotions, Amount: lost,
				Currency: a.currency, Code: CodeGrantExpired, Reference: g.ID, EffectiveAt: g.ExpiresAt}); err != nil {
				return fmt.Errorf("expire grant %s: %w", g.ID, err)
			}
		}
		if _, err := tx.Exec(ctx, `UPDATE billing_grants SET expired = 1 WHERE id = ?`, g.ID); err != nil {
			return fmt.Errorf("expire grant %s: %w", g.ID, err)
		}
	}
	return nil
}

// accountsWithGrantsOver lists the accounts that have lost something of a grant
// which is not posted yet.
func (s *Service) accountsWithGrantsOver(ctx context.Context, now time.Time) ([]string, error) {
	var out []string
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		list, err := s.loadGrants(ctx, tx, `expired = 0 AND expires_at <> 0 AND expires_at <= ?`, store.Micros(now))
		for _, g := range list {
			out = append(out, g.AccountID)
		}
		return err
	})
	return out, err
}

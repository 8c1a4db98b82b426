package billing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// PriceList is what an operator gives accounts: prices of their own on demand. Who
// pays for what is taken off is the platform: providers are paid by what they listed.
type PriceList struct {
	pricing.PriceList
	CreatedBy string // a user
	CreatedAt time.Time
	Accounts  []PricedAccount // that have or had it, in the order in which they got it
}

// PricedAccount is an account that has or had a price list.
type PricedAccount struct {
	AccountID  string
	AssignedAt time.Time
	EndedAt    time.Time // zero: it has it
	AssignedBy string    // a user
}

// NewPriceList asks for a price list.
type NewPriceList struct {
	Name     string
	Currency money.Currency // of its rates
	Rules    []pricing.PriceRule
	From     time.Time // zero: now
	Until    time.Time // zero: for ever
}

// Bounds of price lists: each quote looks through one.
const (
	maxPriceRules   = 500
	maxPriceListRun = 10 * 366 * 24 * time.Hour
	// quoteOnItsWay is how long after a list was taken away a quote by it may bear: who
	// quotes reads the list without a lock, and its clock is another replica's.
	quoteOnItsWay = time.Minute
)

func (n *NewPriceList) check(now time.Time) error {
	n.Name = strings.TrimSpace(n.Name)
	if n.From.IsZero() {
		n.From = now
	}
	n.From, n.Until = n.From.UTC().Truncate(time.Microsecond), n.Until.UTC().Truncate(time.Microsecond)
	bad := func(field, format string, args ...any) error {
		return fault.New(fault.Invalid, "invalid_price_list", format, args...).At("body." + field)
	}
	switch {
	case n.Name == "" || len(n.Name) > 100:
		return bad("name", "a name of %d bytes; want 1 to 100", len(n.Name))
	case len(n.Rules) > maxPriceRules:
		return bad("rules", "%d prices; want at most %d", len(n.Rules), maxPriceRules)
	case n.From.After(now.Add(maxPriceListRun)):
		return bad("valid_from", "it would begin at %s; want the next ten years", n.From.Format(time.RFC3339))
	case !n.Until.IsZero() && !n.Until.After(now):
		return bad("valid_until", "it is over at %s; want a time to come", n.Until.Format(time.RFC3339))
	case n.Currency != "" && !n.Currency.Valid():
		return bad("currency", "prices in %q; want CNY or USD", n.Currency)
	}
	if r, found := ident.Hidden(n.Name); found {
		return bad("name", "the name holds the control character %U, which nobody sees; leave it out", r)
	}
	rates := false
	for i, r := range n.Rules {
		rates = rates || r.Rate != nil
		if len(r.GPUModel) > 100 {
			return bad(fmt.Sprintf("rules.%d.gpu_model", i), "a GPU model of %d bytes; want at most 100", len(r.GPUModel))
		}
		if r.Rate != nil && *r.Rate > maxRate {
			return bad(fmt.Sprintf("rules.%d.rate", i), "a price of %s; want at most 1000", r.Rate.Display())
		}
	}
	if !rates {
		n.Currency = ""
	}
	if err := (pricing.PriceList{Name: n.Name, Currency: n.Currency, Rules: n.Rules, From: n.From, Until: n.Until}).Check(); err != nil {
		return bad("rules", "%v", err)
	}
	return nil
}

// CreatePriceList makes a price list that no account has yet. It is an Invalid fault
// "invalid_price_list" if it is not sound, and a Conflict fault "price_list_exists" if
// there is one of its name.
func (s *Service) CreatePriceList(ctx context.Context, p account.Principal, n NewPriceList) (PriceList, error) {
	if !p.May(account.Operate) {
		return PriceList{}, fault.New(fault.Forbidden, "forbidden", "only an operator can make price lists")
	}
	now := s.cfg.Clock().UTC().Truncate(time.Microsecond)
	if err := n.check(now); err != nil {
		return PriceList{}, err
	}
	rules, err := json.Marshal(n.Rules)
	if err != nil {
		return PriceList{}, fmt.Errorf("make price list: %w", err)
	}
	out := PriceList{
		PriceList: pricing.PriceList{ID: ident.New(ident.PriceList), Name: n.Name, Currency: n.Currency, Rules: n.Rules, From: n.From, Until: n.Until},
		CreatedBy: p.UserID, CreatedAt: now,
	}
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO billing_price_lists (id, name, currency, rules, valid_from, valid_until, created_by, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			out.ID, out.Name, string(out.Currency), string(rules), store.Micros(out.From), store.Micros(out.Until), p.UserID, store.Micros(now)); store.IsUnique(err) {
			return fault.New(fault.Conflict, "price_list_exists", "there is a price list %q already; choose another name", out.Name).At("body.name")
		} else if err != nil {
			return err
		}
		return s.audit(ctx, tx, p, "price_list.create", out.ID, map[string]string{"name": out.Name, "rules": string(rules)})
	})
	if err != nil {
		return PriceList{}, fmt.Errorf("make price list: %w", err)
	}
	return out, nil
}

func (s *Service) audit(ctx context.Context, tx *store.Tx, p account.Principal, action, subject string, detail any) error {
	if s.cfg.Audit == nil {
		return nil
	}
	if err := s.cfg.Audit(ctx, tx, p, action, subject, detail); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

// PriceLists lists all price lists with the accounts that have them, newest first.
func (s *Service) PriceLists(ctx context.Context) ([]PriceList, error) {
	var out []PriceList
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		out, err = loadPriceLists(ctx, tx, `1 = 1`)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list price lists: %w", err)
	}
	slices.Reverse(out)
	return out, nil
}

// PriceListsOf lists the price lists that an account has, in their time or not, with
// no other account's name.
func (s *Service) PriceListsOf(ctx context.Context, accountID string) ([]PriceList, error) {
	var out []PriceList
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		all, err := loadPriceLists(ctx, tx, `id IN (SELECT list_id FROM billing_priced_accounts WHERE account_id = ? AND ended_at = 0)`, accountID)
		for _, l := range all {
			l.Accounts = slices.DeleteFunc(l.Accounts, func(a PricedAccount) bool { return a.AccountID != accountID })
			out = append(out, l)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("price lists of %s: %w", accountID, err)
	}
	return out, nil
}

// PriceListInForce returns the price list by which quotes of a moment, now, are made
// for an account; nil: by what is listed.
func (s *Service) PriceListInForce(ctx context.Context, accountID string, at time.Time) (*pricing.PriceList, error) {
	list, err := s.PriceListsOf(ctx, accountID)
	if err != nil {
		return nil, err
	}
	for _, l := range list {
		if l.Holds(at) && slices.ContainsFunc(l.Accounts, func(a PricedAccount) bool { return a.EndedAt.IsZero() && !a.AssignedAt.After(at) }) {
			return &l.PriceList, nil
		}
	}
	return nil, nil
}

// AssignPriceList gives an account a price list: quotes from now on are made by it
// while it holds. Whoever has it already keeps it. It is an Invalid fault
// "currency_mismatch" if the list has prices in another currency than the account's,
// and a Conflict fault "price_list_overlap" if the account has another one that holds
// at some moment of its time.
func (s *Service) AssignPriceList(ctx context.Context, p account.Principal, listID, accountID string) (PriceList, error) {
	if !p.May(account.Operate) {
		return PriceList{}, fault.New(fault.Forbidden, "forbidden", "only an operator can give price lists")
	}
	currency, err := s.cfg.CurrencyOf(ctx, accountID)
	if err != nil {
		return PriceList{}, fmt.Errorf("give price list: %w", err)
	}
	now := s.cfg.Clock().UTC().Truncate(time.Microsecond)
	var out PriceList
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		// Two that are given to an account at the same time come one after the other.
		if _, err := s.lockAccount(ctx, tx, accountID, currency); err != nil {
			return err
		}
		if out, err = priceListOf(ctx, tx, listID); err != nil {
			return err
		}
		if slices.ContainsFunc(out.Accounts, func(a PricedAccount) bool { return a.AccountID == accountID && a.EndedAt.IsZero() }) {
			return nil
		}
		if out.Currency != "" && out.Currency != currency {
			return fault.New(fault.Invalid, "currency_mismatch", "the price list is in %s and the account in %s; make one in %s", out.Currency, currency, currency)
		}
		if !out.Until.IsZero() && !out.Until.After(now) {
			return fault.New(fault.Gone, "price_list_over", "the price list %s was over at %s; make another", out.Name, out.Until.Format(time.RFC3339))
		}
		has, err := loadPriceLists(ctx, tx, `id IN (SELECT list_id FROM billing_priced_accounts WHERE account_id = ? AND ended_at = 0)`, accountID)
		if err != nil {
			return err
		}
		for _, o := range has {
			over := !o.Until.IsZero() && !o.Until.After(now)
			if !over && (o.Until.IsZero() || out.From.Before(o.Until)) && (out.Until.IsZero() || o.From.Before(out.Until)) {
				return fault.New(fault.Conflict, "price_list_overlap", "account %s has the price list %s, and the two hold at the same time; take that one away first", accountID, o.ID)
			}
		}
		if _, err := tx.Exec(ctx, `INSERT INTO billing_priced_accounts (list_id, account_id, assigned_at, ended_at, assigned_by) VALUES (?, ?, ?, 0, ?)`, listID, accountID, store.Micros(now), p.UserID); err != nil {
			return err
		}
		out.Accounts = append(out.Accounts, PricedAccount{AccountID: accountID, AssignedAt: now, AssignedBy: p.UserID})
		return s.audit(ctx, tx, p, "price_list.assign", accountID, map[string]string{"price_list": listID})
	})
	if err != nil {
		return PriceList{}, fmt.Errorf("give price list: %w", err)
	}
	return out, nil
}

// WithdrawPriceList takes a price list from an account: quotes from now on are made
// by what is listed. Quotes and leases that are there keep their prices. It is a
// NotFound fault "price_list_not_found" if the account does not have it.
func (s *Service) WithdrawPriceList(ctx context.Context, p account.Principal, listID, accountID string) error {
	if !p.May(account.Operate) {
		return fault.New(fault.Forbidden, "forbidden", "only an operator can take price lists away")
	}
	now := s.cfg.Clock()
	err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		list, err := priceListOf(ctx, tx, listID)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list.Accounts, func(a PricedAccount) bool { return a.AccountID == accountID && a.EndedAt.IsZero() })
		if i < 0 {
			return fault.New(fault.NotFound, "price_list_not_found", "account %q does not have the price list %s", accountID, listID)
		}
		// A clock that was ahead, and is right again, does not make what was quoted by the
		// list until now a price that no list gave.
		ended := latest(now, list.Accounts[i].AssignedAt)
		leases, err := s.loadLeases(ctx, tx, `account_id = ? AND (ended_at = 0 OR ended_at > ?)`, accountID, store.Micros(now))
		if err != nil {
			return err
		}
		for _, l := range leases {
			if q := l.quote; q.PriceList != nil && q.PriceList.ID == listID {
				ended = latest(ended, q.QuotedAt)
			}
		}
		if _, err := tx.Exec(ctx, `UPDATE billing_priced_accounts SET ended_at = ? WHERE list_id = ? AND account_id = ? AND ended_at = 0`, store.Micros(ended), listID, accountID); err != nil {
			return err
		}
		return s.audit(ctx, tx, p, "price_list.withdraw", accountID, map[string]string{"price_list": listID})
	})
	if err != nil {
		return fmt.Errorf("take price list away: %w", err)
	}
	return nil
}

func priceListOf(ctx context.Context, tx *store.Tx, id string) (PriceList, error) {
	list, err := loadPriceLists(ctx, tx, `id = ?`, id)
	if err != nil {
		return PriceList{}, err
	}
	if len(list) == 0 {
		return PriceList{}, fault.New(fault.NotFound, "price_list_not_found", "there is no price list %q; `suanli pricelist ls` lists them", id)
	}
	return list[0], nil
}

// loadPriceLists returns the lists that a WHERE clause selects, oldest first.
func loadPriceLists(ctx context.Context, tx *store.Tx, where string, args ...any) ([]PriceList, error) {
	rows, err := tx.Query(ctx, `SELECT id, name, currency, rules, valid_from, valid_until, created_by, created_at FROM billing_price_lists WHERE `+where+` ORDER BY id`, args...)
	if err != nil {
		return nil, fmt.Errorf("read price lists: %w", err)
	}
	defer rows.Close()
	var out []PriceList
	byID := map[string]int{}
	for rows.Next() {
		var l PriceList
		var rules []byte
		var from, until, created int64
		if err := rows.Scan(&l.ID, &l.Name, &l.Currency, &rules, &from, &until, &l.CreatedBy, &created); err != nil {
			return nil, fmt.Errorf("read price lists: %w", err)
		}
		if err := json.Unmarshal(rules, &l.Rules); err != nil {
			return nil, fmt.Errorf("read price list %s: %w", l.ID, err)
		}
		l.From, l.Until, l.CreatedAt = store.Time(from), store.Time(until), store.Time(created)
		byID[l.ID] = len(out)
		out = append(out, l)
	}
	if err := rows.Err(); err != nil || len(out) == 0 {
		return nil, err
	}
	rows.Close()
	marks, err := tx.Query(ctx, `SELECT list_id, account_id, assigned_at, ended_at, assigned_by FROM billing_priced_accounts
		WHERE list_id IN (SELECT id FROM billing_price_lists WHERE `+where+`) ORDER BY assigned_at, account_id`, args...)
	if err != nil {
		return nil, fmt.Errorf("read who has price lists: %w", err)
	}
	defer marks.Close()
	for marks.Next() {
		var id string
		var a PricedAccount
		var at, ended int64
		if err := marks.Scan(&id, &a.AccountID, &at, &ended, &a.AssignedBy); err != nil {
			return nil, fmt.Errorf("read who has price lists: %w", err)
		}
		a.AssignedAt, a.EndedAt = store.Time(at), store.Time(ended)
		if n, ok := byID[id]; ok {
			out[n].Accounts = append(out[n].Accounts, a)
		}
	}
	return out, marks.Err()
}

// priceLists are the price lists by which leases may have been quoted.
type priceLists map[string]PriceList

func allPriceLists(ctx context.Context, tx *store.Tx) (priceLists, error) {
	list, err := loadPriceLists(ctx, tx, `1 = 1`)
	out := priceLists{}
	for _, l := range list {
		out[l.ID] = l
	}
	return out, err
}

// verify names a lease whose own prices are not those that a list which its account
// had makes of the listed ones.
func (p priceLists) verify(r *Report, l *leaseRow) {
	q := l.quote
	switch {
	case q.PriceList == nil && q.Listed == nil:
		return
	case q.PriceList == nil || q.Listed == nil:
		r.wrong(l.id, "its quote has prices of its account's own, and not what made them")
		return
	}
	a := *q.PriceList
	if err := a.Check(*q.Listed, q.Tariff); err != nil {
		r.wrong(l.id, "%v", err)
	}
	if a.GPUModel != l.gpuModel || a.GPUs != l.gpus {
		r.wrong(l.id, "its prices are for %d × %q, and it has %d × %q", a.GPUs, a.GPUModel, l.gpus, l.gpuModel)
	}
	list, ok := p[a.ID]
	if !ok {
		r.wrong(l.id, "it was quoted by the price list %s, and there is none", a.ID)
		return
	}
	want, applied, err := list.Tariff(*q.Listed, a.GPUModel, a.GPUs, q.QuotedAt)
	if err == nil && (applied == nil || want != q.Tariff) {
		err = errors.New("it gives other prices")
	}
	if err != nil {
		r.wrong(l.id, "it was quoted at %s by the price list %s: %v", q.QuotedAt, a.ID, err)
	}
	if !slices.ContainsFunc(list.Accounts, func(x PricedAccount) bool {
		return x.AccountID == l.accountID && !q.QuotedAt.Before(x.AssignedAt) && (x.EndedAt.IsZero() || !q.QuotedAt.After(x.EndedAt.Add(quoteOnItsWay)))
	}) {
		r.wrong(l.id, "it was quoted at %s by the price list %s, which account %s did not have then", q.QuotedAt, a.ID, l.accountID)
	}
}

package payment

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// Bank is the provider of transfers that an operator enters. Nobody calls back.
const Bank = "bank"

// Money is what payment needs of billing.
type Money interface {
	Receive(ctx context.Context, tx *store.Tx, in billing.Receipt) (ledger.Transfer, bool, error)
	GiveBack(ctx context.Context, tx *store.Tx, in billing.Receipt, taken bool) (ledger.Transfer, bool, error)
	Changed(accountID string)
}

// Config is what a Service needs.
type Config struct {
	DB    *store.DB
	Clock func() time.Time
	Money Money
	Log   *slog.Logger // nil: discard
	// Providers are those that are set up, by their names; bank transfers need none.
	Providers []Provider
	// CurrencyOf returns the currency of an account, or a NotFound fault.
	CurrencyOf func(ctx context.Context, accountID string) (money.Currency, error)
	// Audit records a write within its transaction.
	Audit func(ctx context.Context, tx *store.Tx, p account.Principal, action, subject string, detail any) error
	// Announce tells an account of payment.received within the transaction that
	// credits it; nil: nobody is told.
	Announce func(ctx context.Context, tx *store.Tx, accountID, kind, subject string, at time.Time, data any) error
	// PollEvery is between looks at what needs one; 0: 15 seconds.
	PollEvery time.Duration
}

//go:embed migrations/*.sql
var migrations embed.FS

// Service is payments. It is safe for concurrent use, on several replicas, and
// keeps nothing in memory.
type Service struct {
	cfg       Config
	providers map[string]Provider
}

// New returns a Service.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Clock == nil || cfg.Money == nil || cfg.CurrencyOf == nil || cfg.Audit == nil {
		return nil, errors.New("payment: a dependency is missing from the configuration")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.PollEvery <= 0 {
		cfg.PollEvery = 15 * time.Second
	}
	s := &Service{cfg: cfg, providers: map[string]Provider{}}
	for _, p := range cfg.Providers {
		if _, taken := s.providers[p.Name()]; taken || p.Name() == Bank || p.Name() == "" {
			return nil, fmt.Errorf("payment: there cannot be another provider %q", p.Name())
		}
		s.providers[p.Name()] = p
	}
	return s, nil
}

// Migrate brings the tables up to date.
func (s *Service) Migrate(ctx context.Context) error {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return s.cfg.DB.Migrate(ctx, "payment", sub)
}

// Providers lists the names of those that payments can be made with.
func (s *Service) Providers() []string {
	var names []string
	for _, p := range s.cfg.Providers {
		names = append(names, p.Name())
	}
	return names
}

// Payment is money on its way into an account.
type Payment struct {
	ID, AccountID, Provider string
	Currency                money.Currency
	Amount                  money.Amount // asked for
	State                   State
	Ref                     string // the provider's name of it, or the bank's reference
	ChargeRef               string // the provider's name of the money
	CheckoutURL             string // where to pay while it is pending
	ReceivedMinor           int64  // as the provider said; 0: it has not
	ReceivedCurrency        string
	Credited                money.Amount
	Refunded                money.Amount // refunds under way included
	Reason                  string       // why it failed, was reversed or put aside
	Attention               string       // what an operator should look at
	CreatedBy               string
	CreatedAt               time.Time
	ChangedAt               time.Time
	ExpiresAt               time.Time // zero: never
	Refunds                 []Repayment
	Disputes                []Contest

	key    string
	claim  string
	nextAt time.Time
	tries  int64
}

// Repayment is a part of a payment that goes back.
type Repayment struct {
	ID        string
	Amount    money.Amount
	State     string // open, done or failed
	Ref       string // the provider's
	Reason    string
	CreatedAt time.Time
	ChangedAt time.Time

	paymentID string
	nextAt    time.Time
}

// Contest is a dispute over a payment.
type Contest struct {
	Ref    string
	Amount money.Amount
	State  string // open, lost, won, or aside where it is not of the payment's currency or amount
	At     time.Time
}

const columns = `id, account_id, provider, currency, amount, state, request_key, ref, claim, charge_ref, checkout_url, received_minor, received_currency,
	credited, refunded, reason, attention, created_by, created_at, changed_at, expires_at, next_at, tries`

func selectPayments(ctx context.Context, tx *store.Tx, where string, args ...any) ([]Payment, error) {
	rows, err := tx.Query(ctx, `SELECT `+columns+` FROM payments WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read payments: %w", err)
	}
	defer rows.Close()
	var out []Payment
	for rows.Next() {
		var p Payment
		var created, changed, expires, next int64
		if err := rows.Scan(&p.ID, &p.AccountID, &p.Provider, &p.Currency, &p.Amount, &p.State, &p.key, &p.Ref, &p.claim, &p.ChargeRef, &p.CheckoutURL,
			&p.ReceivedMinor, &p.ReceivedCurrency, &p.Credited, &p.Refunded, &p.Reason, &p.Attention, &p.CreatedBy, &created, &changed, &expires, &next, &p.tries); err != nil {
			return nil, fmt.Errorf("read payments: %w", err)
		}
		p.CreatedAt, p.ChangedAt, p.ExpiresAt, p.nextAt = store.Time(created), store.Time(changed), store.Time(expires), store.Time(next)
		out = append(out, p)
	}
	return out, rows.Err()
}

// lock reads a payment for changing it, or is a NotFound fault.
func lock(ctx context.Context, tx *store.Tx, id string) (*Payment, error) {
	list, err := selectPayments(ctx, tx, `id = ?`+tx.ForUpdate(), id)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, notFound(id)
	}
	return &list[0], nil
}

func notFound(id string) error {
	return fault.New(fault.NotFound, "payment_not_found", "there is no payment %q; list them to see their identifiers", id)
}

// insert writes a new payment, unless one of its key is there.
func (p *Payment) insert(ctx context.Context, tx *store.Tx) (fresh bool, err error) {
	n, err := tx.Exec(ctx, `INSERT INTO payments (`+columns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (request_key) DO NOTHING`,
		p.ID, p.AccountID, p.Provider, string(p.Currency), int64(p.Amount), string(p.State), p.key, p.Ref, p.claim, p.ChargeRef, p.CheckoutURL,
		p.ReceivedMinor, p.ReceivedCurrency, int64(p.Credited), int64(p.Refunded), p.Reason, p.Attention, p.CreatedBy,
		store.Micros(p.CreatedAt), store.Micros(p.ChangedAt), store.Micros(p.ExpiresAt), store.Micros(p.nextAt), p.tries)
	return n == 1, err
}

// save writes back what may have changed of a locked payment.
func (p *Payment) save(ctx context.Context, tx *store.Tx) error {
	_, err := tx.Exec(ctx, `UPDATE payments SET state = ?, ref = ?, claim = ?, charge_ref = ?, checkout_url = ?, received_minor = ?, received_currency = ?,
		credited = ?, refunded = ?, reason = ?, attention = ?, changed_at = ?, expires_at = ?, next_at = ?, tries = ? WHERE id = ?`,
		string(p.State), p.Ref, p.claim, p.ChargeRef, p.CheckoutURL, p.ReceivedMinor, p.ReceivedCurrency,
		int64(p.Credited), int64(p.Refunded), p.Reason, p.Attention, store.Micros(p.ChangedAt), store.Micros(p.ExpiresAt), store.Micros(p.nextAt), p.tries, p.ID)
	if err != nil {
		return fmt.Errorf("save payment %s: %w", p.ID, err)
	}
	return nil
}

// move takes a payment along an event, if there is a way.
func (p *Payment) move(e Event, at time.Time) bool {
	to, ok := p.State.Next(e)
	if !ok {
		return false
	}
	p.State, p.ChangedAt = to, at
	return true
}

func (p *Payment) order() (Order, error) {
	minor, err := minorOf(p.Amount, p.Currency)
	return Order{PaymentID: p.ID, AccountID: p.AccountID, Minor: minor, Currency: p.Currency, ExpiresAt: p.ExpiresAt}, err
}

// minorOf is an amount in whole minor units; a part of one is an error.
func minorOf(a money.Amount, c money.Currency) (int64, error) {
	unit, err := pricing.MinorUnit(c)
	if err != nil {
		return 0, err
	}
	if a%unit != 0 {
		return 0, fmt.Errorf("%s %s is not in whole minor units", a.Display(), c)
	}
	return int64(a / unit), nil
}

// ofMinor is minorOf the other way.
func ofMinor(minor int64, c money.Currency) (money.Amount, error) {
	unit, err := pricing.MinorUnit(c)
	if err != nil {
		return 0, err
	}
	a := money.Amount(minor) * unit
	if minor < 0 || int64(a/unit) != minor {
		return 0, money.ErrOverflow
	}
	return a, nil
}

// lifetime is how long a checkout can be paid at.
const lifetime = 23 * time.Hour

// largest is the most that a payment can be, as providers have bounds too.
const largest = 999_999_990_000 // 999,999.99

// Create begins a payment of an amount in the account's currency with a provider;
// empty: the only one there is. The same key returns the same payment, and goes on
// with it where the first attempt ended before its provider had answered.
func (s *Service) Create(ctx context.Context, by account.Principal, amount money.Amount, provider, key string) (Payment, error) {
	if !by.May(account.WriteBilling) {
		return Payment{}, fault.New(fault.Forbidden, "forbidden", "your role cannot make payments")
	}
	if provider == "" && len(s.cfg.Providers) == 1 {
		provider = s.cfg.Providers[0].Name()
	}
	with := s.providers[provider]
	if with == nil {
		if len(s.providers) == 0 {
			return Payment{}, fault.New(fault.Invalid, "payment_provider_unknown", "this cloud takes no payments by itself; pay its operator by bank transfer").At("body.provider")
		}
		return Payment{}, fault.New(fault.Invalid, "payment_provider_unknown", "payments with %q: want one of %s", provider, strings.Join(s.Providers(), ", ")).At("body.provider")
	}
	currency, err := s.cfg.CurrencyOf(ctx, by.AccountID)
	if err != nil {
		return Payment{}, err
	}
	if _, err := minorOf(amount, currency); err != nil || amount <= 0 || amount > largest {
		return Payment{}, fault.New(fault.Invalid, "payment_amount_invalid", "a payment of %s %s: want more than 0, at most %s, in whole cents or fen", amount.Display(), currency, money.Amount(largest).Display()).At("body.amount")
	}
	now := s.cfg.Clock()
	p := Payment{ID: ident.New(ident.Payment), AccountID: by.AccountID, Provider: provider, Currency: currency, Amount: amount, State: Created,
		CreatedBy: by.UserID, CreatedAt: now, ChangedAt: now, ExpiresAt: now.Add(lifetime), nextAt: now.Add(creating)}
	p.claim, p.key = p.ID, p.ID
	if key != "" {
		p.key = "pay:" + key
	}
	if err := s.begin(ctx, by, &p); err != nil {
		return Payment{}, err
	}
	if p.State == Created {
		if err := s.offer(ctx, with, p.ID); err != nil {
			return Payment{}, err
		}
	}
	return s.Payment(ctx, by.AccountID, p.ID)
}

// creating is how long a provider's answer to Create is waited for before Run asks
// again.
const creating = time.Minute

// begin writes a payment down before its provider hears of it, or finds the one of
// the same key.
func (s *Service) begin(ctx context.Context, by account.Principal, p *Payment) error {
	asked := *p
	return s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		*p = asked
		fresh, err := p.insert(ctx, tx)
		if err != nil {
			return fmt.Errorf("begin a payment: %w", err)
		}
		if fresh {
			return s.cfg.Audit(ctx, tx, by, "payment.create", p.ID, map[string]string{"amount": p.Amount.String(), "currency": string(p.Currency), "provider": p.Provider})
		}
		list, err := selectPayments(ctx, tx, `request_key = ?`, p.key)
		if err != nil {
			return err
		}
		if len(list) != 1 {
			return fmt.Errorf("payment of key %q: %w", p.key, store.ErrNoRows)
		}
		if was := list[0]; was.AccountID != p.AccountID || was.Amount != p.Amount || was.Provider != p.Provider {
			return fault.New(fault.Conflict, "idempotency_conflict", "the key was used for payment %s of %s %s; use a new one for another payment", was.ID, was.Amount.Display(), was.Currency)
		}
		*p = list[0]
		return nil
	})
}

// offer asks the provider for a checkout and writes it down. What may be in the
// middle is for Run.
func (s *Service) offer(ctx context.Context, with Provider, id string) error {
	p, err := s.find(ctx, id)
	if err != nil || p.State != Created {
		return err
	}
	o, err := p.order()
	if err != nil {
		return err
	}
	c, err := with.Create(ctx, o)
	var no *Refusal
	refused := errors.As(err, &no)
	if err != nil && !refused {
		s.cfg.Log.WarnContext(ctx, "ask a provider for a checkout", "payment", id, "provider", p.Provider, "error", err)
		return fault.New(fault.Unavailable, "payment_provider_unavailable", "%s did not answer; payment %s is kept: send the same request with the same key again, or begin a new one", p.Provider, id)
	}
	err = s.change(ctx, id, func(ctx context.Context, tx *store.Tx, p *Payment, now time.Time) error {
		if refused {
			if p.move(Fail, now) {
				p.Reason, p.nextAt = clip(no.Message), time.Time{}
			}
			return nil
		}
		if p.Ref == "" {
			p.Ref, p.claim, p.CheckoutURL = c.Ref, p.Provider+":"+c.Ref, c.URL
		}
		if p.move(Offer, now) {
			p.tries, p.nextAt = 0, now.Add(patience(0))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if refused {
		return fault.New(fault.Invalid, "payment_refused", "%s refuses the payment: %s", p.Provider, clip(no.Message))
	}
	return nil
}

// change runs fn with a locked payment and saves it. Outside of what fn does, it
// moves nothing.
func (s *Service) change(ctx context.Context, id string, fn func(ctx context.Context, tx *store.Tx, p *Payment, now time.Time) error) error {
	var accountID string
	err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		p, err := lock(ctx, tx, id)
		if err != nil {
			return err
		}
		accountID = p.AccountID
		if err := fn(ctx, tx, p, s.cfg.Clock()); err != nil {
			return err
		}
		return p.save(ctx, tx)
	})
	if accountID != "" {
		s.cfg.Money.Changed(accountID)
	}
	return err
}

func (s *Service) find(ctx context.Context, id string) (Payment, error) {
	var list []Payment
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		list, err = selectPayments(ctx, tx, `id = ?`, id)
		return err
	})
	if err == nil && len(list) == 0 {
		err = notFound(id)
	}
	if err != nil {
		return Payment{}, err
	}
	return list[0], nil
}

// Payment returns a payment of an account; without an account any, which is for
// operators. Another's is a NotFound fault.
func (s *Service) Payment(ctx context.Context, accountID, id string) (Payment, error) {
	var out Payment
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		list, err := selectPayments(ctx, tx, `id = ?`, id)
		if err != nil {
			return err
		}
		if len(list) == 0 || accountID != "" && list[0].AccountID != accountID {
			return notFound(id)
		}
		out = list[0]
		if out.Refunds, err = selectRefunds(ctx, tx, `payment_id = ? ORDER BY id`, id); err != nil {
			return err
		}
		out.Disputes, err = disputesOf(ctx, tx, id)
		return err
	})
	return out, err
}

// Filter narrows a list of payments.
type Filter struct {
	AccountID string // empty: all accounts', which is for operators
	State     State  // empty: any
	Attention bool   // only what an operator should look at
	Before    string // identifier that the list goes on after; empty: from the newest
	Limit     int
}

// Payments lists payments, newest first.
func (s *Service) Payments(ctx context.Context, f Filter) ([]Payment, error) {
	if f.State != "" && !slices.Contains(States(), f.State) {
		return nil, fault.New(fault.Invalid, "invalid_state", "there is no state %q; the states are %v", f.State, States()).At("query.state")
	}
	if f.Before == "" {
		f.Before = "~" // sorts after every identifier
	}
	where, args := `id < ?`, []any{f.Before}
	if f.AccountID != "" {
		where, args = where+` AND account_id = ?`, append(args, f.AccountID)
	}
	if f.State != "" {
		where, args = where+` AND state = ?`, append(args, string(f.State))
	}
	if f.Attention {
		where += ` AND attention <> ''`
	}
	var out []Payment
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		out, err = selectPayments(ctx, tx, where+` ORDER BY id DESC LIMIT ?`, append(args, f.Limit)...)
		return err
	})
	return out, err
}

// Callback takes a message of a provider: first who it is from, then what it says.
// It returns the answer that the provider wants. A message that is not the
// provider's is an Invalid fault "callback_signature".
func (s *Service) Callback(ctx context.Context, provider string, header map[string][]string, body []byte) (contentType, answer string, err error) {
	with := s.providers[provider]
	if with == nil {
		return "", "", fault.New(fault.NotFound, "payment_provider_unknown", "this cloud has no payment provider of that name")
	}
	seen, err := with.Callback(header, body)
	if errors.Is(err, ErrSignature) {
		return "", "", fault.New(fault.Invalid, "callback_signature", "the message is not signed by %s, or too old", provider)
	}
	if err != nil {
		return "", "", fault.New(fault.Invalid, "callback_invalid", "the message of %s is not understood: %v", provider, err)
	}
	for _, o := range seen {
		if err := s.Observe(ctx, provider, o); err != nil {
			return "", "", err // the provider sends it again
		}
	}
	contentType, answer = with.Accepted()
	return contentType, answer, nil
}

// early keeps an observation of money that no payment is known to be yet.
func early(ctx context.Context, tx *store.Tx, provider string, o Observation, at time.Time) error {
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO payment_early (provider, charge_ref, what, observation, at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		provider, o.ChargeRef, string(o.Kind)+":"+o.ItemRef+":"+o.Progress, string(raw), store.Micros(at))
	return err
}

// clip bounds what others say to what is kept of it.
func clip(text string) string {
	text = strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text), "")
	for len(text) > 300 {
		r := []rune(text)
		text = string(r[:len(r)*3/4])
	}
	return text
}

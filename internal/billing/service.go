package billing

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"suanli.dev/internal/account"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Reason says why a lease has to stop.
type Reason string

// The reasons for which OnExhausted is called.
const (
	ReasonBalance     Reason = "balance"         // stop the instance, keep the disk
	ReasonSpendingCap Reason = "spending_cap"    // stop the instance, keep the disk
	ReasonGraceOver   Reason = "storage_grace"   // end the lease and delete the disk
	ReasonTermOver    Reason = "term_over"       // of months in advance: stop the instance, keep the disk
	ReasonOverdue     Reason = "invoice_overdue" // stop the instance, keep the disk

	// ReasonRequested is of a limit alone: somebody asked it to stop already.
	ReasonRequested Reason = "requested"
)

// WarningKind says what a warning announces.
type WarningKind string

// The kinds of warnings.
const (
	WarnBalance WarningKind = "balance"       // instances will stop at Until
	WarnGrace   WarningKind = "storage_grace" // disks will be deleted at Until
	WarnRenewal WarningKind = "renewal"       // the lease's months end at Until, and the money for the next is missing
	WarnTerm    WarningKind = "term"          // the lease's months end at Until and do not renew
)

// Warning announces that an account's money, its patience, or a lease's months run out.
type Warning struct {
	Kind    WarningKind
	LeaseID string // of WarnRenewal and WarnTerm
	Until   time.Time
	Left    time.Duration // the threshold that was crossed
}

// Config is what a Service needs.
type Config struct {
	DB     *store.DB
	Clock  func() time.Time
	Ledger *ledger.Ledger
	Log    *slog.Logger

	// CurrencyOf returns the currency of an account, or a NotFound fault.
	CurrencyOf func(ctx context.Context, accountID string) (money.Currency, error)
	// Audit writes to the audit log in tx. Nil: deposits are not audited.
	Audit func(ctx context.Context, tx *store.Tx, p account.Principal, action, subject string, detail any) error

	// OnExhausted is told which leases must stop, and why, again and again until
	// they have: it must be idempotent. It is called outside of transactions.
	OnExhausted func(ctx context.Context, accountID, leaseID string, reason Reason)
	// OnWarning is told once each time that one of Warnings is reached.
	OnWarning func(ctx context.Context, accountID string, w Warning)

	// News tells accounts of warnings, exhaustion and invoices, in the transaction
	// in which they come about; nil: nobody does.
	News News

	// PartyOf says who an account is on paper, or is a NotFound fault. Nil: its
	// identifier, in UTC.
	PartyOf func(ctx context.Context, accountID string) (Party, error)
	// Taxes are the operator's tax rules, and Jurisdiction is the one of accounts
	// whose billing profile has none.
	Taxes        []pricing.TaxRule
	Jurisdiction string
	Issuer       string        // who issues invoices: name, address, tax number
	InvoiceDelay time.Duration // after a month's end until it is closed; 0: 1 hour
	CloseEvery   time.Duration // between looks for months to close; 0: 1 minute

	// Tracer gives settlements spans; nil: none.
	Tracer trace.Tracer

	SettleEvery time.Duration   // between postings; 0: 1 hour, on the hour
	WatchEvery  time.Duration   // between looks at who runs out; 0: 5 seconds
	Warnings    []time.Duration // before the money ends; nil: 24 h, 1 h, 10 min
	// TermWarnings are before the end of months in advance; nil: 7 days, 24 h, 1 h.
	TermWarnings []time.Duration
	Grace        time.Duration // that disks are kept unpaid; 0: 7 days
	NetDays      int           // that an account has to pay an invoice, if it has no number of its own; 0: 14
	// Dunning says what happens when invoices are not paid; its Grace is Grace. Nil:
	// the standard rule.
	Dunning    *pricing.Dunning
	MaxPaidFor time.Duration // longest that an agent may go on alone; 0: 7 days
}

// Service is billing. It is safe for concurrent use.
type Service struct {
	cfg Config

	mu       sync.Mutex
	alive    map[string]time.Time // lease → last sign of life
	outlooks map[string]outlook   // account → what was last computed
	good     map[string]time.Time // account → when it last had money; lease → when it was last under its cap
	payers   map[string]string    // lease → account

	posted postedSoFar

	quotes sync.Map // lease → pricing.Quote as it was accepted, which never changes; agreed prices are read each time
}

// New returns a Service.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Clock == nil || cfg.Ledger == nil || cfg.CurrencyOf == nil {
		return nil, errors.New("billing: want a database, a clock, a ledger and a way to look up an account's currency")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Tracer == nil {
		cfg.Tracer = noop.NewTracerProvider().Tracer("")
	}
	if cfg.OnExhausted == nil {
		cfg.OnExhausted = func(context.Context, string, string, Reason) {}
	}
	if cfg.OnWarning == nil {
		cfg.OnWarning = func(context.Context, string, Warning) {}
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	if cfg.NetDays <= 0 {
		cfg.NetDays = 14
	}
	def(&cfg.SettleEvery, time.Hour)
	def(&cfg.WatchEvery, 5*time.Second)
	def(&cfg.Grace, 7*24*time.Hour)
	def(&cfg.MaxPaidFor, 7*24*time.Hour)
	dunning := pricing.StandardDunning()
	if cfg.Dunning != nil {
		dunning = *cfg.Dunning
	}
	dunning.Grace = cfg.Grace
	cfg.Dunning = &dunning
	if err := dunning.Check(); err != nil {
		return nil, fmt.Errorf("billing: %w", err)
	}
	def(&cfg.InvoiceDelay, time.Hour)
	def(&cfg.CloseEvery, time.Minute)
	if cfg.PartyOf == nil {
		cfg.PartyOf = func(_ context.Context, accountID string) (Party, error) {
			return Party{Name: accountID, TimeZone: "UTC"}, nil
		}
	}
	if cfg.Warnings == nil {
		cfg.Warnings = []time.Duration{24 * time.Hour, time.Hour, 10 * time.Minute}
	}
	if cfg.TermWarnings == nil {
		cfg.TermWarnings = []time.Duration{7 * 24 * time.Hour, 24 * time.Hour, time.Hour}
	}
	return &Service{cfg: cfg, alive: map[string]time.Time{}, outlooks: map[string]outlook{},
		good: map[string]time.Time{}, payers: map[string]string{}}, nil
}

// Migrate brings billing's tables up to date. The ledger has its own Migrate.
func (s *Service) Migrate(ctx context.Context) error {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return s.cfg.DB.Migrate(ctx, "billing", sub)
}

// ConfirmAlive says that the instances of these leases were seen running at a
// moment of the control plane's clock. It writes nothing.
func (s *Service) ConfirmAlive(leaseIDs []string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range leaseIDs {
		if at.After(s.alive[id]) {
			s.alive[id] = at
		}
	}
}

func (s *Service) lastAlive(leaseID string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alive[leaseID]
}

// forget drops what is kept in memory of leases and accounts that are not known
// to be open.
func (s *Service) forget(known map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := func(id string) bool { return !known[id] }
	maps.DeleteFunc(s.alive, func(id string, _ time.Time) bool { return gone(id) })
	maps.DeleteFunc(s.good, func(id string, _ time.Time) bool { return gone(id) })
	maps.DeleteFunc(s.payers, func(id, _ string) bool { return gone(id) })
	maps.DeleteFunc(s.outlooks, func(id string, _ outlook) bool { return gone(id) })
	s.quotes.Range(func(id, _ any) bool {
		if gone(id.(string)) {
			s.quotes.Delete(id)
		}
		return true
	})
}

// changed makes the next look at an account compute its outlook anew.
func (s *Service) changed(accountID string) {
	s.mu.Lock()
	delete(s.outlooks, accountID)
	s.mu.Unlock()
}

// postedFor is the posted columns, by meter.
type postedFor map[pricing.Meter]money.Amount

func (p postedFor) total() (sum money.Amount) {
	for _, amount := range p {
		sum += amount
	}
	return sum
}

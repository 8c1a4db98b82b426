package server

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/budget"
	"suanli.dev/internal/catalog"
	"suanli.dev/internal/cluster"
	"suanli.dev/internal/console"
	"suanli.dev/internal/drill"
	"suanli.dev/internal/earning"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/market"
	"suanli.dev/internal/notify"
	"suanli.dev/internal/payment"
	"suanli.dev/internal/ratelimit"
	"suanli.dev/internal/reservation"
	"suanli.dev/internal/signup"
	"suanli.dev/internal/sla"
	"suanli.dev/internal/store"
	"suanli.dev/internal/trial"
	"suanli.dev/internal/volume"
	"suanli.dev/internal/waiting"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Services is what the API is an edge of. A subject whose service is nil has no
// endpoints.
type Services struct {
	Accounts *account.Service
	Catalog  *catalog.Catalog
	Fleet    *fleet.Service
	Billing  *billing.Service
	Leases   *lease.Service
	Earnings *earning.Service
	Levels   *sla.Service
	Market   *market.Service
	Payments *payment.Service
	Trials   *trial.Service
	SignUps  *signup.Service
	News     *notify.Service
	Budgets  *budget.Service
	Drills   *drill.Service
	// Reservations sells capacity for a term.
	Reservations *reservation.Service
	Volumes      *volume.Service
	Clusters     *cluster.Service
	Waiting      *waiting.Service
	Entrance     *Entrance
}

// subjects is every subject's registration. Each is a method in the file of its
// name that adds nothing if its service is nil.
func (a *API) subjects() {
	a.registerAccount()
	a.registerDrills()
	a.registerCatalog()
	a.registerFleet()
	a.registerLease()
	a.registerSpot()
	a.registerReservations()
	a.registerVolumes()
	a.registerSnapshots()
	a.registerClusters()
	a.registerWaiting()
	a.registerBilling()
	a.registerEarning()
	a.registerSLA()
	a.registerTrial()
	a.registerSignUp()
	a.registerPasskeys()
	a.registerOperatorMoney()
	a.registerPayments()
	a.registerNews()
	a.registerBudgets()
	a.registerPriceChanges()
}

// Config is what a Server needs. Accounts is the one service without which
// there is no API.
type Config struct {
	Services
	DB      *store.DB        // for the answers of idempotent requests
	Clock   func() time.Time // nil: time.Now
	Log     *slog.Logger     // nil: discard
	Version string
	// PublicURL is where clients reach this server, such as
	// "https://cloud.example.com"; it is written into the OpenAPI document.
	PublicURL string
	// Metrics is the registry served at /metrics, to which the HTTP metrics are
	// added; nil: a new one.
	Metrics *prometheus.Registry
	// Tracing gives requests spans; nil: none.
	Tracing trace.TracerProvider
	// Ready are checks of /readyz by name, beside the database's.
	Ready map[string]func(context.Context) error
	// TrustedProxies are the networks whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	// Limits bound how fast requests come; nil: DefaultLimits.
	Limits *Limits
	// KeepAlive is how often an event stream that is silent says that it is
	// alive; 0: 15 s.
	KeepAlive time.Duration
	// Recheck is how often the credentials of a response that lasts are checked
	// again; 0: 2 s.
	Recheck time.Duration
}

// Limits are rates of requests.
type Limits struct {
	PerKey ratelimit.Rate // of one API key or session
	PerIP  ratelimit.Rate // without credentials, of one address (IPv6: of one /64)
	// Refused bounds bearers that are not valid, of one address.
	Refused ratelimit.Rate
}

// DefaultLimits are generous to programs that poll and tight for guessing.
var DefaultLimits = Limits{
	PerKey:  ratelimit.Rate{Every: 10 * time.Millisecond, Burst: 500},
	PerIP:   ratelimit.Rate{Every: 50 * time.Millisecond, Burst: 100},
	Refused: ratelimit.Rate{Every: time.Second, Burst: 30},
}

// API is the HTTP API.
type API struct {
	Services
	huma       huma.API
	log        *slog.Logger
	clock      func() time.Time
	db         *store.DB
	keepAlive  time.Duration
	recheck    time.Duration
	origin     string // host of the public address, of which pages may open WebSockets
	inside     *visitors
	source     string // of events: the public URL
	maxFile    int64  // bytes of a file that is fetched from an instance or put into one
	operations []operation
}

// Server is the control plane's HTTP side.
type Server struct {
	*API
	cfg     Config
	mux     *http.ServeMux
	metrics *httpMetrics
	perKey  *ratelimit.Limiter
	perIP   *ratelimit.Limiter
	refused *ratelimit.Limiter
	writes  writeProbe

	document func() ([]byte, error) // the OpenAPI document, made once
	page     func() ([]byte, error) // the reference page, made once
}

// New returns a server of every subject whose service is given. It panics if
// two endpoints collide or Accounts is missing, as both are mistakes in the
// program, not in its input.
func New(cfg Config) *Server {
	if cfg.Accounts == nil {
		panic(errors.New("server: no account service given"))
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Metrics == nil {
		cfg.Metrics = prometheus.NewRegistry()
	}
	if cfg.Limits == nil {
		cfg.Limits = &DefaultLimits
	}
	if cfg.KeepAlive == 0 {
		cfg.KeepAlive = 15 * time.Second
	}
	if cfg.Recheck == 0 {
		cfg.Recheck = 2 * time.Second
	}
	const keys = 100_000
	public, _ := url.Parse(cfg.PublicURL) // one that is not valid is nobody's origin
	s := &Server{
		API: &API{
			Services: cfg.Services, log: slog.New(LogHandler(cfg.Log.Handler())), clock: cfg.Clock, db: cfg.DB, keepAlive: cfg.KeepAlive, recheck: cfg.Recheck,
			source: cfg.PublicURL, inside: newVisitors(), maxFile: maxFile,
		},
		cfg: cfg, mux: http.NewServeMux(), metrics: newHTTPMetrics(cfg.Metrics),
		perKey:  ratelimit.New(cfg.Limits.PerKey, cfg.Clock, keys),
		perIP:   ratelimit.New(cfg.Limits.PerIP, cfg.Clock, keys),
		refused: ratelimit.New(cfg.Limits.Refused, cfg.Clock, keys),
	}
	if public != nil {
		s.origin = public.Host
	}
	s.huma = humago.New(s.mux, s.humaConfig())
	s.subjects()
	s.document = sync.OnceValues(s.renderDocument)
	s.page = sync.OnceValues(s.renderReference)
	s.mux.HandleFunc("GET /openapi.json", s.serveDocument)
	s.mux.HandleFunc("GET /docs", s.serveReference)
	home := "/docs"
	if console.Built() {
		home = console.Prefix
	}
	s.mux.Handle("GET /{$}", http.RedirectHandler(home, http.StatusFound))
	s.mux.Handle("GET "+console.Prefix, console.Handler())
	s.mux.HandleFunc("GET /healthz", serveHealth)
	s.mux.HandleFunc("GET /readyz", s.serveReady)
	s.mux.HandleFunc("GET /metrics", s.serveMetrics)
	return s
}

// Migrate brings the server's own tables up to date.
func (s *Server) Migrate(ctx context.Context) error {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return s.db.Migrate(ctx, "server", sub)
}

// Run forgets old idempotency keys, until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Minute)
	defer tick.Stop()
	for {
		if err := s.forgetRequests(ctx); err != nil && ctx.Err() == nil {
			s.log.ErrorContext(ctx, "forget idempotency keys", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

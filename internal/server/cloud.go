package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/crypto/ssh"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/budget"
	"suanli.dev/internal/bus"
	"suanli.dev/internal/catalog"
	"suanli.dev/internal/cluster"
	"suanli.dev/internal/config"
	"suanli.dev/internal/drill"
	"suanli.dev/internal/earning"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/gateway"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/intake"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/mail"
	"suanli.dev/internal/market"
	"suanli.dev/internal/money"
	"suanli.dev/internal/notify"
	"suanli.dev/internal/objectstore"
	"suanli.dev/internal/payment"
	"suanli.dev/internal/payment/stripe"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/replica"
	"suanli.dev/internal/reservation"
	"suanli.dev/internal/signup"
	"suanli.dev/internal/sla"
	"suanli.dev/internal/store"
	"suanli.dev/internal/trial"
	"suanli.dev/internal/volume"
	"suanli.dev/internal/waiting"
)

// Cloud is a whole control plane with its gateway, ready to run.
type Cloud struct {
	Accounts  *account.Service
	Fleet     *fleet.Service
	Billing   *billing.Service
	Ledger    *ledger.Ledger
	Leases    *lease.Service
	Earnings  *earning.Service
	Levels    *sla.Service
	Market    *market.Service
	Trials    *trial.Service
	SignUps   *signup.Service
	Payments  *payment.Service
	News      *notify.Service
	Reserve   *reservation.Service
	Clusters  *cluster.Service
	Waiting   *waiting.Service
	Budgets   *budget.Service
	Volumes   *volume.Service
	Drills    *drill.Service
	Authority *gateway.Authority
	Tunnels   *gateway.Tunnels
	DB        *store.DB
	Replicas  *replica.Service
	objects   *objectstore.Store // nil: none is set up

	unlock  func() error // gives the embedded database up to another control plane
	cfg     *config.Config
	log     *slog.Logger
	bus     *bus.Bus
	http    *Server
	images  *Images
	ssh     *gateway.SSH
	apps    *gateway.HTTP
	api     net.Listener
	agents  net.Listener
	sshIn   net.Listener
	version string

	tracing trace.TracerProvider // nil: nothing is traced
	tracer  trace.Tracer
	flush   func(context.Context) error // delivers the traces that are left
	clock   func() time.Time            // steady: see steadyClock
	peers   peers
}

// OpenCloud opens the stores and listeners of a control plane. On an error
// nothing is left open.
func OpenCloud(ctx context.Context, cfg *config.Config, version string, log *slog.Logger) (c *Cloud, err error) {
	log = slog.New(LogHandler(log.Handler()))
	c = &Cloud{cfg: cfg, log: log, version: version, clock: steadyClock()}
	opened := c // returning an error clears c
	defer func() {
		if err != nil {
			_ = opened.Close()
		}
	}()
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	// Each listener has its own share of the descriptors, so that a crowd at one
	// closes none of the others.
	room := intake.Room()
	// Ports first: what is taken is said at once, and nothing was changed yet.
	for _, l := range []struct {
		name, address string
		into          *net.Listener
		most          int
	}{{"listen", cfg.Listen, &c.api, room / 2}, {"agent_listen", cfg.AgentListen, &c.agents, room / 4}, {"ssh_listen", cfg.SSHListen, &c.sshIn, room / 4}} {
		ln, err := net.Listen("tcp", l.address)
		if err != nil {
			return nil, fmt.Errorf("%s: %w; is another cloud running here? Choose another address with --%s", l.name, err, strings.ReplaceAll(l.name, "_", "-"))
		}
		*l.into = intake.Share(l.most, cfg.Proxies()).Listener(ln)
	}
	if c.unlock, err = store.Lock(cfg.DatabaseAddress()); err != nil {
		return nil, err
	}
	if c.tracing, c.flush, err = openTracing(ctx, cfg.OTLPEndpoint, version, log); err != nil {
		return nil, err
	}
	c.tracer = tracer(c.tracing)
	keyFile := cfg.MasterKeyFile
	if keyFile == "" {
		keyFile = filepath.Join(cfg.DataDir, "master.key")
	}
	secret, err := masterKey(keyFile)
	if err != nil {
		return nil, err
	}
	if c.DB, err = store.Open(ctx, cfg.DatabaseAddress()); err != nil {
		return nil, err
	}
	if err := c.shareKeys(ctx, secret, filepath.Join(cfg.DataDir, "authority")); err != nil {
		return nil, err
	}
	if c.Authority, err = gateway.OpenAuthority(filepath.Join(cfg.DataDir, "authority"), time.Now); err != nil {
		return nil, err
	}
	images := cfg.ImagesDir
	if images == "" {
		images = filepath.Join(cfg.DataDir, "images")
	}
	if c.images, err = OpenImages(images); err != nil {
		return nil, err
	}
	if err := c.openServices(ctx, secret); err != nil {
		return nil, err
	}
	if err := c.Replicas.Join(ctx); err != nil {
		return nil, err
	}
	if c.bus, err = bus.Open(ctx, bus.Config{URL: cfg.Bus, HostKey: func(ctx context.Context, hostID string) (string, bool) { return c.Fleet.BusKey(ctx, hostID) }, Log: log}); err != nil {
		return nil, err
	}
	if _, err := c.bus.Handle(protocol.AnyReportSubject, "control", c.takeReport); err != nil {
		return nil, err
	}
	if err := c.listenToReplicas(); err != nil {
		return nil, err
	}
	c.openEdges()
	return c, c.bootstrap(ctx)
}

func (c *Cloud) openServices(ctx context.Context, secret []byte) error {
	cfg, log := c.cfg, c.log
	if err := c.openReplicas(ctx); err != nil {
		return err
	}
	cat, err := catalog.Load(cfg.CatalogDir)
	if err != nil {
		return err
	}
	if c.Accounts, err = account.New(account.Config{DB: c.DB, Secret: secret, Log: log, PublicURL: c.cfg.APIURL()}); err != nil {
		return err
	}
	vault, err := account.NewVault(secret)
	if err != nil {
		return err
	}
	if c.News, err = notify.New(notify.Config{
		DB: c.DB, Clock: c.clock, Vault: vault, Audit: c.Accounts.Audit, Source: cfg.APIURL(), Inside: cfg.WebhookHosts(), Version: c.version, Log: log,
	}); err != nil {
		return err
	}
	if c.Ledger, err = ledger.New(c.DB, c.clock); err != nil {
		return err
	}
	defaults := fleet.StandardDefaults()
	defaults.Currency, defaults.Granularity, defaults.MinimumSeconds = cfg.Currency, cfg.Granularity, cfg.MinimumSeconds
	defaults.StoragePerGiBMonth, defaults.EgressPerGB = cfg.StoragePrice, cfg.EgressPrice
	defaults.CommissionBasisPoints, defaults.Region, defaults.Zone = cfg.CommissionBasisPoints, cfg.Region, cfg.Zone
	defaults.ReserveBounds = reserveBounds(cfg)
	c.Fleet, err = fleet.New(fleet.Config{
		DB: c.DB, Catalog: cat, AllowSimulated: cfg.AllowSimulated, OperatorsHost: cfg.WhoMayHost == "operator", Defaults: defaults,
		HeartbeatSeconds: int(cfg.HeartbeatSeconds), TokenSuffix: c.Authority.Fingerprint(), Audit: c.Accounts.Audit, Log: log,
		OnReport: func(ctx context.Context, hostID string, r protocol.Report, at time.Time) ([]protocol.Desired, bool, int64, error) {
			return c.Leases.OnReport(ctx, hostID, r, at)
		},
		OnSilent: func(ctx context.Context, hostID string, lastSeen time.Time) error {
			return c.Leases.OnSilent(ctx, hostID, lastSeen)
		},
		SpotHolds: func(ctx context.Context, tx *store.Tx, hostID string) (map[string]fleet.SpotHold, error) {
			return c.Market.Holds(ctx, tx, hostID)
		},
		Replicas: c.fleetReplicas(), OnChange: c.tellHost,
		// A gateway's streams end with its tunnel, at once.
		OnGatewayRemoved: func(id string) { c.Tunnels.Disconnect(id) },
		OnGPUFault: func(ctx context.Context, f fleet.GPUFault) {
			log.WarnContext(ctx, "a rented GPU is at fault", "fault", fmt.Sprintf("%+v", f))
			if err := c.Leases.OnGPUFault(ctx, f); err != nil {
				log.ErrorContext(ctx, "tell a lease of its GPU's fault", "lease", f.LeaseID, "error", err)
			}
		},
	})
	if err != nil {
		return err
	}
	taxes, err := readTaxes(cfg.TaxTable)
	if err != nil {
		return err
	}
	c.Billing, err = billing.New(billing.Config{
		DB: c.DB, Clock: c.clock, Ledger: c.Ledger, Log: log, Audit: c.Accounts.Audit, Tracer: c.tracer, News: c.News,
		CurrencyOf: func(ctx context.Context, accountID string) (money.Currency, error) {
			a, err := c.Accounts.Account(ctx, accountID)
			if err != nil {
				return "", err
			}
			return a.Currency, nil
		},
		PartyOf: func(ctx context.Context, accountID string) (billing.Party, error) {
			a, err := c.Accounts.Account(ctx, accountID)
			return billing.Party{Name: a.Name, TimeZone: a.TimeZone}, err
		},
		Taxes: taxes, Jurisdiction: cfg.TaxJurisdiction, Issuer: cfg.InvoiceIssuer,
		NetDays: int(cfg.InvoiceNetDays), Dunning: dunning(cfg), Grace: time.Duration(cfg.StorageGraceDays) * 24 * time.Hour,
		OnExhausted: func(ctx context.Context, accountID, leaseID string, reason billing.Reason) {
			if ident.Check(ident.Reservation, leaseID) == nil {
				if err := c.Reserve.Exhaust(ctx, leaseID, reason == billing.ReasonGraceOver); err != nil {
					log.WarnContext(ctx, "suspend an unpaid reservation", "reservation", leaseID, "account", accountID, "error", err)
				}
				return
			}
			if ident.Check(ident.Volume, leaseID) == nil {
				if reason != billing.ReasonGraceOver {
					return // it is kept until then
				}
				if err := c.Volumes.Exhaust(ctx, leaseID); err != nil {
					log.WarnContext(ctx, "remove an unpaid volume", "volume", leaseID, "account", accountID, "error", err)
				}
				return
			}
			if ident.Check(ident.Snapshot, leaseID) == nil {
				if reason != billing.ReasonGraceOver {
					return
				}
				if err := c.Volumes.ExhaustSnapshot(ctx, leaseID); err != nil {
					log.WarnContext(ctx, "remove an unpaid snapshot", "snapshot", leaseID, "account", accountID, "error", err)
				}
				return
			}
			if err := c.Leases.Exhaust(ctx, leaseID, string(reason), reason == billing.ReasonGraceOver); err != nil {
				log.WarnContext(ctx, "stop an unpaid lease", "lease", leaseID, "account", accountID, "error", err)
			}
		},
		OnWarning: func(ctx context.Context, accountID string, w billing.Warning) {
			log.WarnContext(ctx, "an account's money runs out", "account", accountID, "kind", w.Kind, "lease", w.LeaseID, "until", w.Until, "left", w.Left)
		},
	})
	if err != nil {
		return err
	}
	c.Leases, err = lease.New(lease.Config{
		DB: c.DB, Clock: c.clock, Catalog: cat, Capacity: c.Fleet, Money: c.Billing, Tenants: c.Accounts, Vault: vault, Command: c.command,
		Monthly: lease.MonthlyTerms{Hours: cfg.MonthlyHours, Discounts: cfg.MonthlyTerms}, Reserve: reserveBounds(cfg),
		Trial:       lease.TrialTerms{MaxGPUs: int(cfg.TrialMaxGPUs), EgressPorts: cfg.TrialEgressPorts},
		DefaultIdle: lease.IdleStop{After: time.Duration(cfg.IdleStopSeconds) * time.Second, GPUPercent: 5, CPUPercent: 5},
		GatewayKeys: []string{c.Authority.GatewayAuthorizedKey()}, InnerRegistries: c.cfg.InnerRegistryHosts(), Log: log, News: c.News, Budgets: laterBudgets{func() *budget.Service { return c.Budgets }}, Gangs: laterClusters{func() *cluster.Service { return c.Clusters }},
		Volumes:  laterVolumes{func() *volume.Service { return c.Volumes }},
		Commands: c.commands(), Leads: c.Replicas.Leads, OnChange: c.tellLease,
	})
	if err != nil {
		return err
	}
	promise, penalty := levels(cfg)
	c.Levels, err = sla.New(sla.Config{
		DB: c.DB, Clock: c.clock, Ledger: c.Ledger, Money: c.Billing, Leases: c.Leases, Hosts: c.Fleet, Audit: c.Accounts.Audit,
		Promise: promise, Penalty: penalty, Log: log,
	})
	if err != nil {
		return err
	}
	c.Earnings, err = earning.New(earning.Config{
		DB: c.DB, Clock: c.clock, Ledger: c.Ledger, Money: c.Billing, Hosts: c.Fleet, Leases: earningPlaces{c}, ZoneOf: c.zoneOf, Audit: c.Accounts.Audit, Taken: c.Levels.Taken,
		Rule: pricing.Payouts{HoldSeconds: cfg.PayoutHoldSeconds, ReserveBasisPoints: cfg.PayoutReserve},
	})
	if err != nil {
		return err
	}
	c.Market, err = market.New(market.Config{
		DB: c.DB, Clock: c.clock, Supply: c.Fleet, Leases: c.Leases, Money: c.Billing, Audit: c.Accounts.Audit, Currency: cfg.Currency, Log: log, Allow: laterBudgets{func() *budget.Service { return c.Budgets }}.Allow,
		Account: func(ctx context.Context, accountID string) (money.Currency, string, error) {
			a, err := c.Accounts.Account(ctx, accountID)
			return a.Currency, a.TimeZone, err
		},
	})
	if err != nil {
		return err
	}
	send, err := openMail(cfg)
	if err != nil {
		return err
	}
	if c.Trials, err = openTrials(c, secret, send); err != nil {
		return err
	}
	c.SignUps, err = signup.New(signup.Config{
		DB: c.DB, Clock: c.clock, Secret: secret, Mode: signup.Mode(cfg.SignUp), Accounts: c.Accounts, Send: send, URL: cfg.APIURL() + "/console", Proven: c.Trials.Proven,
	})
	if err != nil {
		return err
	}
	if c.Payments, err = c.openPayments(); err != nil {
		return err
	}
	c.Reserve, err = reservation.New(reservation.Config{
		DB: c.DB, Clock: c.clock, Capacity: c.Fleet, Money: c.Billing, Audit: c.Accounts.Audit, Bounds: reserveBounds(cfg), Log: log, News: c.News,
		Account: func(ctx context.Context, accountID string) (money.Currency, string, error) {
			a, err := c.Accounts.Account(ctx, accountID)
			return a.Currency, a.TimeZone, err
		},
	})
	if err != nil {
		return err
	}
	if c.objects, err = openObjectStore(cfg); err != nil {
		return err
	}
	snapshots := volume.SnapshotConfig{Price: cfg.SnapshotPrice, Currency: cfg.Currency}
	if c.objects != nil {
		snapshots.Objects = c.objects
	}
	c.Volumes, err = volume.New(volume.Config{
		Snapshots: snapshots,
		DB:        c.DB, Clock: c.clock, Capacity: c.Fleet, Money: c.Billing, Leases: c.Leases, TimeZone: c.zoneOf, Command: c.command, Audit: c.Accounts.Audit, Log: log,
	})
	if err != nil {
		return err
	}
	if c.Clusters, err = c.openClusters(); err != nil {
		return err
	}
	if c.Waiting, err = c.openWaiting(cat); err != nil {
		return err
	}
	if c.Budgets, err = c.openBudgets(); err != nil {
		return err
	}
	c.Drills, err = drill.New(drill.Config{DB: c.DB, Clock: c.clock, Hosts: c.Fleet, Leases: c.Leases, Audit: c.Accounts.Audit, Log: log,
		Cut: func(hostID string) { c.Tunnels.Disconnect(hostID) }})
	if err != nil {
		return err
	}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	entrance := &Entrance{SSHAddress: c.sshIn.Addr().String(), SSHHostKey: strings.TrimSpace(sshLine(c.Authority)), AppURL: c.appURL, Open: c.openStream, Enter: c.enter}
	c.http = New(Config{
		Services: Services{Accounts: c.Accounts, Catalog: cat, Fleet: c.Fleet, Billing: c.Billing, Leases: c.Leases, Market: c.Market, Reservations: c.Reserve, Volumes: c.Volumes, Clusters: c.Clusters, Waiting: c.Waiting, Payments: c.Payments, Earnings: c.Earnings, Levels: c.Levels, News: c.News, Budgets: c.Budgets, Drills: c.Drills, Trials: c.Trials, SignUps: c.SignUps, Entrance: entrance},
		DB:       c.DB, Log: log, Version: c.version, PublicURL: cfg.APIURL(), TrustedProxies: cfg.Proxies(), Metrics: metrics, Tracing: c.tracing,
	})
	for _, m := range []interface{ Migrate(context.Context) error }{c.Accounts, c.Ledger, c.Fleet, c.Billing, c.Leases, c.Market, c.Reserve, c.Volumes, c.Clusters, c.Waiting, c.Earnings, c.Levels, c.News, c.Payments, c.Trials, c.SignUps, c.Budgets, c.Drills, c.http} {
		if err := m.Migrate(ctx); err != nil {
			return err
		}
	}
	if err := c.Fleet.Load(ctx); err != nil {
		return err
	}
	if err := c.Leases.Load(ctx); err != nil {
		return err
	}
	return registerGauges(metrics, c)
}

// openMail returns what sends mail as the operator has set it; nil: nothing does.
func openMail(cfg *config.Config) (func(ctx context.Context, to, subject, text string) error, error) {
	if cfg.SMTPAddress == "" {
		return nil, nil
	}
	sender := &mail.Sender{Address: cfg.SMTPAddress, Security: cfg.SMTPSecurity, User: cfg.SMTPUser, From: cfg.SMTPFrom}
	if cfg.SMTPPasswordFile != "" {
		b, err := os.ReadFile(cfg.SMTPPasswordFile)
		if err != nil {
			return nil, fmt.Errorf("smtp_password_file: %w", err)
		}
		sender.Password = strings.TrimSpace(string(b))
	}
	return sender.Send, nil
}

// openTrials makes trials as the operator has set them.
func openTrials(c *Cloud, secret []byte, send func(ctx context.Context, to, subject, text string) error) (*trial.Service, error) {
	cfg := c.cfg
	return trial.New(trial.Config{
		DB: c.DB, Clock: c.clock, Secret: secret, Money: c.Billing, Accounts: c.Accounts, Send: send,
		Terms: trial.Terms{
			Worth: cfg.TrialAmount, Currency: cfg.Currency, ValidFor: time.Duration(cfg.TrialHours) * time.Hour, MaxGPUs: int(cfg.TrialMaxGPUs),
			EgressPorts: cfg.TrialEgressPorts, PerNetwork: int(cfg.TrialsPerNetwork),
		},
	})
}

// openPayments opens payments with the providers that are set up.
func (c *Cloud) openPayments() (*payment.Service, error) {
	cfg := c.cfg
	var providers []payment.Provider
	if cfg.StripeKey != "" {
		back := cfg.PaymentReturnURL
		if back == "" {
			back = cfg.APIURL()
		}
		p, err := stripe.New(stripe.Config{Key: cfg.StripeKey, WebhookSecret: cfg.StripeWebhookSecret, URL: cfg.StripeURL, ReturnURL: back})
		if err != nil {
			return nil, err
		}
		providers = append(providers, p)
	}
	return payment.New(payment.Config{
		DB: c.DB, Clock: c.clock, Money: c.Billing, Log: c.log, Providers: providers, Audit: c.Accounts.Audit, News: c.News,
		CurrencyOf: func(ctx context.Context, accountID string) (money.Currency, error) {
			a, err := c.Accounts.Account(ctx, accountID)
			return a.Currency, err
		},
	})
}

// readTaxes reads the operator's table of taxes; none: no taxes.
func readTaxes(path string) ([]pricing.TaxRule, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("tax_table: %w", err)
	}
	defer f.Close()
	rules, err := pricing.ParseTaxTable(f)
	if err != nil {
		return nil, fmt.Errorf("tax_table %s: %w", path, err)
	}
	return rules, nil
}

// dunning is the operator's rule for invoices that are not paid.
func dunning(cfg *config.Config) *pricing.Dunning {
	d := pricing.StandardDunning()
	d.ReminderDays, d.StopDays = cfg.DunningDays, int(cfg.DunningStopDays)
	return &d
}

// levels are the operator's promise to renters and rule for hosts' faults.
func levels(cfg *config.Config) (pricing.Promise, pricing.PenaltyRule) {
	p := pricing.Promise{MinimumSeconds: cfg.SLAMinimumSeconds, NoticeSeconds: cfg.SLANoticeSeconds}
	for _, s := range cfg.SLACredits {
		p.Credits = append(p.Credits, pricing.Credit{BelowPPM: s.Bound, BasisPoints: s.Share})
	}
	r := pricing.PenaltyRule{ClawBack: cfg.HostClawback}
	for _, s := range cfg.HostPenalties {
		r.Steps = append(r.Steps, pricing.PenaltyStep{FromSeconds: s.Bound, BasisPoints: s.Share})
	}
	return p, r
}

// reserveBounds are what hosts may take off for reservations.
func reserveBounds(cfg *config.Config) pricing.Bounds {
	return pricing.Bounds{MaxMonths: int(cfg.ReserveMaxMonths), MaxBasisPoints: cfg.ReserveMaxDiscount}
}

// zoneOf returns an account's time zone.
func (c *Cloud) zoneOf(ctx context.Context, accountID string) (string, error) {
	a, err := c.Accounts.Account(ctx, accountID)
	if err != nil {
		return "", err
	}
	return a.TimeZone, nil
}

// sendCommand sends a command to a host over the bus.
func (c *Cloud) sendCommand(ctx context.Context, hostID string, cmd protocol.Command) (protocol.CommandResult, error) {
	var res protocol.CommandResult
	if !c.Tunnels.Connected(hostID) && c.cfg.Bus == "" {
		return res, fault.New(fault.Unavailable, "host_offline", "host %s has no tunnel to this cloud now", hostID)
	}
	return res, c.bus.Request(ctx, protocol.CommandSubject(hostID), cmd, &res)
}

func (c *Cloud) openStream(ctx context.Context, hostID string, h protocol.StreamHeader) (net.Conn, error) {
	return c.Tunnels.OpenStream(ctx, hostID, h)
}

// enter goes by the SSH gateway, which is opened later than the API is made.
func (c *Cloud) enter(ctx context.Context, t gateway.Target) (*ssh.Client, error) {
	return c.ssh.Enter(ctx, t)
}

// takeReport is the receiving end of a host's reports. The subject, which the
// bus guards, says which host it is; the body is only believed about itself.
func (c *Cloud) takeReport(ctx context.Context, subject string, data []byte) (any, error) {
	received := c.clock()
	hostID := strings.TrimSuffix(strings.TrimPrefix(subject, "control."), ".report")
	var r protocol.Report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fault.New(fault.Invalid, "bad_report", "the report is not JSON of protocol version %d: %v", protocol.Version, err)
	}
	c.tellReport(ctx, hostID, data)
	return c.Fleet.Report(ctx, hostID, r, received)
}

// bootstrap makes the first operator on an empty database. Its password is in a
// file that only this machine's owner reads.
func (c *Cloud) bootstrap(ctx context.Context) error {
	password := rand.Text()
	created, err := c.Accounts.Bootstrap(ctx, c.cfg.AdminEmail, password)
	if err != nil || !created {
		return err
	}
	path := filepath.Join(c.cfg.DataDir, "admin-password")
	if err := os.WriteFile(path, []byte(password+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the first operator's password: %w", err)
	}
	c.log.InfoContext(ctx, "made the first operator", "email", c.cfg.AdminEmail, "password_file", path)
	return nil
}

// Addresses are where the cloud listens, after ports 0 were chosen.
func (c *Cloud) Addresses() (api, agents, ssh string) {
	return c.api.Addr().String(), c.agents.Addr().String(), c.sshIn.Addr().String()
}

// Run serves until ctx ends, then stops gracefully: requests in progress are
// answered, instances run on. The first part that fails ends all.
func (c *Cloud) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	part := func(name string, run func(context.Context) error) {
		all.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	// Of several replicas one does what is to be done once.
	once := c.Replicas.Leading
	part("replicas", c.Replicas.Run)
	part("accounts", c.Accounts.Run)
	part("answers", once(c.http.Run))
	part("fleet", c.Fleet.Run)
	part("billing", once(c.Billing.Run))
	part("invoices", once(c.Billing.RunInvoices))
	part("dunning", once(c.Billing.RunDunning))
	part("leases", c.Leases.Run)
	part("service levels", c.Levels.Run)
	part("spot market", once(c.Market.Run))
	part("payments", once(c.Payments.Run))
	part("news", c.News.Run)
	part("drills", c.Drills.Run)
	part("reservations", once(c.Reserve.Run))
	part("volumes", c.Volumes.Run)
	part("snapshots", once(c.Volumes.RunSnapshots))
	all.Go(func() { c.checkObjectStore(ctx) })
	part("budgets", once(c.Budgets.Run))
	if c.cfg.UsageSinkURL != "" {
		sink := newUsageSink(usageSink{db: c.DB, usage: c.Billing.Usage, clock: c.clock, log: c.log, address: c.cfg.UsageSinkURL, token: c.cfg.UsageSinkToken,
			source: c.cfg.APIURL(), version: c.version})
		part("usage sink", once(sink.Run))
	}
	part("clusters", once(c.Clusters.Run))
	part("waiting requests", once(c.Waiting.Run))
	part("tunnels", func(ctx context.Context) error { return c.Tunnels.Serve(ctx, c.agents) })
	part("SSH gateway", func(ctx context.Context) error { return c.ssh.Serve(ctx, c.sshIn) })
	part("HTTP", c.serveHTTP)
	<-ctx.Done()
	all.Wait()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

func (c *Cloud) serveHTTP(ctx context.Context) error {
	s := &http.Server{Handler: c.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(c.log.Handler(), slog.LevelDebug)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if s.Shutdown(end) != nil {
			s.Close() // streams that are followed do not end by themselves
		}
	}()
	var err error
	if c.cfg.TLSCert != "" {
		err = s.ServeTLS(c.api, c.cfg.TLSCert, c.cfg.TLSKey)
	} else {
		err = s.Serve(c.api)
	}
	if errors.Is(err, http.ErrServerClosed) {
		<-done
		return nil
	}
	return err
}

// Close gives back what OpenCloud opened. Run must have returned.
func (c *Cloud) Close() error {
	var errs []error
	for _, l := range []net.Listener{c.api, c.agents, c.sshIn} {
		if l != nil {
			if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	c.peers.close()
	if c.bus != nil {
		c.bus.Close()
	}
	if c.DB != nil {
		errs = append(errs, c.DB.Close())
	}
	if c.flush != nil {
		if err := c.flush(context.Background()); err != nil {
			c.log.Warn("the last traces were not delivered", "error", err)
		}
	}
	if c.unlock != nil {
		errs = append(errs, c.unlock()) // last: nothing of this one is at work any more
		c.unlock = nil
	}
	return errors.Join(errs...)
}

// masterKey reads the key that secrets are sealed with, and makes it at the
// first start. It is kept out of the database, so that a copy of the database
// alone gives nothing away.
func masterKey(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		key := make([]byte, 32)
		if _, err := rand.Read(key); err != nil {
			return nil, err
		}
		if err := writeDurably(path, []byte(hex.EncodeToString(key)+"\n")); err != nil {
			return nil, fmt.Errorf("write the master key: %w", err)
		}
		return key, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the master key: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(b)))
	if err != nil || len(key) != 32 {
		return nil, fmt.Errorf("%s is not a master key (64 hexadecimal digits): restore it from a backup, secrets in the database cannot be read without it", path)
	}
	return key, nil
}

// FirstOperator is the operator that was made with the cloud, for the machine's
// own agent to join by.
func (c *Cloud) FirstOperator(ctx context.Context) (account.Principal, error) {
	return c.Accounts.FirstOperator(ctx)
}

// steadyClock is the time of day at the start plus what has elapsed since: a
// clock that somebody sets while leases run must not lengthen or shorten what
// they are charged for. It follows the system's clock again at the next start.
func steadyClock() func() time.Time {
	start := time.Now()
	return func() time.Time { return start.Add(time.Since(start)).Round(0) }
}

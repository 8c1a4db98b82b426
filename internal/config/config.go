package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

// Config is the configuration of a cloud or of one part of it.
type Config struct {
	DataDir      string
	Listen       string // HTTP API
	PublicURL    string
	TLSCert      string
	TLSKey       string
	AgentListen  string // tunnel and enrolment
	AgentAddress string // how agents reach AgentListen; several, separated by commas
	// ReplicaAddress is how other replicas reach AgentListen.
	ReplicaAddress string
	// CloudAddress is where an agent or a gateway dials instead of where it joined.
	CloudAddress  string
	MasterKeyFile string
	ImagesDir     string
	SSHListen     string
	// TrustedProxies are networks or addresses, separated by commas; see Proxies.
	TrustedProxies string
	AppsDomain     string // host names of instances' ports
	Database       string
	Bus            string // empty: embedded

	AllowSimulated bool
	Simulate       string
	Docker         string // address of the container engine
	Runtime        string // "docker" or "kubernetes"
	Kubeconfig     string
	Kubernetes     Kubernetes
	Isolation      string // default OCI runtime
	DirectPorts    string // "ADDRESS:FIRST-LAST"
	FirewallTable  string // nftables table of the agent
	// InnerRegistries are image registries that may be inside of a network, separated
	// by commas.
	InnerRegistries string
	// InnerWebhooks are hosts inside of a network that webhooks may be at; see
	// WebhookHosts.
	InnerWebhooks string
	ImageCacheGiB int64 // of a host's disk; 0: a fifth of what leases and images have

	Region                string
	Zone                  string
	Currency              money.Currency
	Granularity           string
	WhoMayHost            string
	MinimumSeconds        int64
	IdleStopSeconds       int64
	CommissionBasisPoints int64
	PayoutHoldSeconds     int64
	PayoutReserve         int64 // basis points
	SLAMinimumSeconds     int64
	SLANoticeSeconds      int64
	SLACredits            []Step // from an availability down: millionths, basis points of the charge
	HostPenalties         []Step // from so long at fault on: seconds, basis points of the share
	HostClawback          bool
	StoragePrice          money.Rate             // per GiB-month
	EgressPrice           money.Rate             // per GB
	MonthlyTerms          []pricing.TermDiscount // that months in advance are sold in; empty: none
	MonthlyHours          int64                  // that a month in advance costs
	ReserveMaxMonths      int64                  // of a reservation; 0: none are sold
	ReserveMaxDiscount    int64                  // basis points, that hosts may take off
	TrialAmount           money.Amount           // that a trial is worth; 0: none
	TrialHours            int64
	TrialMaxGPUs          int64
	TrialEgressPorts      []int  // empty: all
	TrialsPerNetwork      int64  // in 30 days
	SignUp                string // open, invited or closed
	SMTPAddress           string
	SMTPSecurity          string
	SMTPUser              string
	SMTPPasswordFile      string
	SMTPFrom              string
	CatalogDir            string
	TaxTable              string // path of a CSV file; see pricing.ParseTaxTable
	TaxJurisdiction       string
	InvoiceIssuer         string
	InvoiceNetDays        int64 // to pay an invoice
	DunningDays           []int // of reminders, from the day an invoice is due
	DunningStopDays       int64 // after that day, until compute stops; 0: never
	StorageGraceDays      int64 // from when compute stopped for money until disks are deleted

	S3Endpoint      string // of object storage; empty: there is none
	S3Bucket        string
	S3Region        string
	S3Prefix        string
	S3Addressing    string // path or host
	S3AccessKey     string
	S3SecretKeyFile string
	SnapshotPrice   money.Rate // per GiB-month

	StripeKey           string // empty: no payments by Stripe
	StripeWebhookSecret string
	StripeURL           string // empty: Stripe's own
	PaymentReturnURL    string

	UsageSinkURL   string // that events of use are posted to; empty: nowhere
	UsageSinkToken string

	AdminEmail       string
	HeartbeatSeconds int64
	LogLevel         string
	LogFormat        string
	OTLPEndpoint     string
}

// Kubernetes says how a cluster is a host.
type Kubernetes struct {
	Namespace    string // of leases' pods
	Image        string // that has this binary
	Security     string // "restricted" or "baseline"
	StorageClass string // empty: disks end with their pods
	Nodes        string // "KEY=VALUE,…", labels of the nodes that are rented out
	Queue        string // Kueue's
	DNS          string // addresses, separated by commas
	KubeletCA    string // PEM file
}

// Labels are the labels of Nodes, which has been checked.
func (k Kubernetes) Labels() map[string]string {
	labels, _ := labelList(k.Nodes)
	return labels
}

// labelList reads KEY=VALUE, separated by commas.
func labelList(text string) (map[string]string, error) {
	labels := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		k, v, ok := strings.Cut(part, "=")
		if !ok || k == "" {
			return nil, note("want KEY=VALUE, separated by commas")
		}
		labels[k] = v
	}
	return labels, nil
}

func nodeLabels(text string) error {
	_, err := labelList(text)
	return err
}

func ipList(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" && net.ParseIP(part) == nil {
			return note("want IP addresses, separated by commas")
		}
	}
	return nil
}

// Setting is one thing to set.
type Setting struct {
	Key     string // in the file: snake_case; the flag is the same with dashes
	Default string
	Doc     string
	DocZH   string // Doc in Simplified Chinese
	Secret  bool   // its value is shown nowhere
	parse   func(*Config, string) error
	show    func(*Config) string
}

// Env is the environment variable of the setting.
func (s Setting) Env() string { return "SUANLI_" + strings.ToUpper(s.Key) }

// Flag is the command-line flag of the setting, without dashes in front.
func (s Setting) Flag() string { return strings.ReplaceAll(s.Key, "_", "-") }

func text(key, def, doc string, field func(*Config) *string, check ...func(string) error) Setting {
	return Setting{Key: key, Default: def, Doc: doc,
		parse: func(c *Config, v string) error {
			for _, f := range check {
				if err := f(v); err != nil {
					return err
				}
			}
			*field(c) = v
			return nil
		},
		show: func(c *Config) string { return *field(c) }}
}

// hidden is how a secret that is set is shown.
const hidden = "***"

// secret is a text that is shown nowhere.
func secret(key, doc string, field func(*Config) *string) Setting {
	s := text(key, "", doc, field)
	s.Secret = true
	s.show = func(c *Config) string {
		if *field(c) == "" {
			return ""
		}
		return hidden
	}
	return s
}

func number(key, def, doc string, lo, hi int64, field func(*Config) *int64) Setting {
	return Setting{Key: key, Default: def, Doc: doc,
		parse: func(c *Config, v string) error {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil || n < lo || n > hi {
				return note("want a whole number from %d to %d", lo, hi)
			}
			*field(c) = n
			return nil
		},
		show: func(c *Config) string { return strconv.FormatInt(*field(c), 10) }}
}

func yes(key, def, doc string, field func(*Config) *bool) Setting {
	return Setting{Key: key, Default: def, Doc: doc,
		parse: func(c *Config, v string) error {
			b, err := strconv.ParseBool(v)
			if err != nil {
				return note("want true or false")
			}
			*field(c) = b
			return nil
		},
		show: func(c *Config) string { return strconv.FormatBool(*field(c)) }}
}

func rate(key, def, doc string, field func(*Config) *money.Rate) Setting {
	return Setting{Key: key, Default: def, Doc: doc,
		parse: func(c *Config, v string) error {
			r, err := money.ParseRate(v)
			if err != nil {
				return err
			}
			if r < 0 {
				return note("a price cannot be negative")
			}
			*field(c) = r
			return nil
		},
		show: func(c *Config) string { return field(c).Display() }}
}

// Step is a share from a bound on.
type Step struct {
	Bound int64 // millionths of a percentage, or seconds
	Share int64 // basis points
}

// days is a list of whole numbers of days in order, each once.
func days(key, def, doc string, field func(*Config) *[]int) Setting {
	return Setting{Key: key, Default: def, Doc: doc,
		parse: func(c *Config, v string) error {
			*field(c) = nil
			if v == "" {
				return nil
			}
			var list []int
			for _, part := range strings.Split(v, ",") {
				n, err := strconv.Atoi(strings.TrimSpace(part))
				if err != nil || n < -366 || n > 366 || len(list) > 0 && n <= list[len(list)-1] {
					return note("want whole numbers from -366 to 366 in rising order, separated by commas, such as -3,0,1,7")
				}
				list = append(list, n)
			}
			*field(c) = list
			return nil
		},
		show: func(c *Config) string {
			var out []string
			for _, n := range *field(c) {
				out = append(out, strconv.Itoa(n))
			}
			return strings.Join(out, ",")
		}}
}

// steps reads bounds with their shares. Bounds end with unit: "%", or nothing for
// whole seconds.
func steps(key, def, doc, unit string, field func(*Config) *[]Step) Setting {
	return Setting{Key: key, Default: def, Doc: doc,
		parse: func(c *Config, v string) error {
			*field(c) = nil
			if v == "" {
				return nil
			}
			var list []Step
			for _, part := range strings.Split(v, ",") {
				bound, share, _ := strings.Cut(strings.TrimSpace(part), "=")
				s := Step{}
				var ok, ok2 bool
				if unit == "%" {
					s.Bound, ok = percentage(bound, 4)
				} else {
					n, err := strconv.ParseInt(bound, 10, 64)
					s.Bound, ok = n, err == nil && n >= 0
				}
				s.Share, ok2 = percentage(share, 2)
				if !ok || !ok2 {
					return note("%q: want BOUND%s=SHARE%%, with a share of 0%% to 100%%", part, unit)
				}
				if n := len(list); n > 0 && (unit == "%" && (list[n-1].Bound <= s.Bound || list[n-1].Share > s.Share) || unit == "" && list[n-1].Bound >= s.Bound) {
					return note("%q is not in order: want the mildest first", part)
				}
				list = append(list, s)
			}
			*field(c) = list
			return nil
		},
		show: func(c *Config) string {
			var parts []string
			for _, s := range *field(c) {
				bound := strconv.FormatInt(s.Bound, 10)
				if unit == "%" {
					bound = fixed(s.Bound, 4) + "%"
				}
				parts = append(parts, bound+"="+fixed(s.Share, 2)+"%")
			}
			return strings.Join(parts, ",")
		}}
}

// percentage reads such as "99.9%" in units of so many decimals of a per cent.
func percentage(v string, decimals int) (int64, bool) {
	v, ok := strings.CutSuffix(v, "%")
	whole, part, _ := strings.Cut(v, ".")
	if !ok || len(part) > decimals || len(whole) > 3 || whole == "" || strings.Trim(whole+part, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(whole+part+strings.Repeat("0", decimals-len(part)), 10, 64)
	most, _ := strconv.ParseInt("100"+strings.Repeat("0", decimals), 10, 64)
	return n, err == nil && n <= most
}

// fixed shows a number of so many decimals, without zeros at its end.
func fixed(n int64, decimals int) string {
	digits := fmt.Sprintf("%0*d", decimals+1, n)
	whole, part := digits[:len(digits)-decimals], strings.TrimRight(digits[len(digits)-decimals:], "0")
	if part == "" {
		return whole
	}
	return whole + "." + part
}

// Settings lists everything that can be set, in the order of the documents.
func Settings() []Setting {
	list := settings()
	for i := range list {
		list[i].DocZH = chinese[list[i].Key]
	}
	return list
}

func settings() []Setting {
	return []Setting{
		text("data_dir", defaultDataDir(), "Folder of everything this machine keeps: database, keys, logs, instances' disks.", func(c *Config) *string { return &c.DataDir }, filled),
		text("listen", "127.0.0.1:7080", "Address of the HTTP API. Anything but loopback needs tls_cert and tls_key, or a proxy that speaks TLS in front.", func(c *Config) *string { return &c.Listen }, address),
		text("public_url", "", "URL by which renters reach the API, when it is not http(s)://listen.", func(c *Config) *string { return &c.PublicURL }, optional(webURL)),
		text("tls_cert", "", "PEM file of the API's certificate.", func(c *Config) *string { return &c.TLSCert }, optional(file)),
		text("tls_key", "", "PEM file of the API's private key.", func(c *Config) *string { return &c.TLSKey }, optional(file)),
		text("agent_listen", "127.0.0.1:7081", "Address that agents dial: TLS with the cloud's own authority, always. Set 0.0.0.0:7081 to let other machines join.", func(c *Config) *string { return &c.AgentListen }, address),
		text("agent_address", "", "host:port by which agents reach agent_listen, when it is not agent_listen itself. With several replicas: the addresses of all, separated by commas, or one name that leads to them.", func(c *Config) *string { return &c.AgentAddress }, addressList),
		text("replica_address", "", "host:port by which the other replicas of this cloud reach agent_listen of this one; empty: agent_listen itself, or this machine's name if that is a wildcard.", func(c *Config) *string { return &c.ReplicaAddress }, optional(address)),
		text("cloud_address", "", "Addresses (host:port, separated by commas) where an agent or a gateway dials its cloud; empty: where it was told to when it joined.", func(c *Config) *string { return &c.CloudAddress }, addressList),
		text("ssh_listen", "127.0.0.1:7022", "Address of the SSH gateway.", func(c *Config) *string { return &c.SSHListen }, address),
		text("trusted_proxies", "", "Addresses or networks (CIDR) of proxies in front of listen, separated by commas, such as 127.0.0.1 or 10.0.0.0/8. Their X-Forwarded-For says where a request comes from, and one of them may have any number of connections open.", func(c *Config) *string { return &c.TrustedProxies }, proxyList),
		text("apps_domain", "apps.localhost", "Domain whose host names <port>-<lease>.<domain> lead to instances' ports.", func(c *Config) *string { return &c.AppsDomain }, filled),
		text("database", "", "sqlite:PATH or postgres://…; empty: SQLite in data_dir.", func(c *Config) *string { return &c.Database }, optional(database)),
		text("bus", "", "nats-leaf://[USER:PASSWORD@]HOST:PORT of an external NATS's leaf node port, by which replicas hear of each other's changes at once; several of one cluster are separated by commas. Empty: none.", func(c *Config) *string { return &c.Bus }, leafList),
		text("master_key_file", "", "File of the key that secrets in the database are sealed with, the same for all replicas; empty: master.key in data_dir, made at the first start.", func(c *Config) *string { return &c.MasterKeyFile }, optional(file)),
		text("images_dir", "", "Folder of the cloud's own image registry, shared by all replicas; empty: images in data_dir.", func(c *Config) *string { return &c.ImagesDir }),
		yes("allow_simulated", "false", "Whether hosts with simulated GPUs may join. They are labelled wherever they are shown.", func(c *Config) *bool { return &c.AllowSimulated }),
		text("simulate", "", "Machine whose GPUs this agent simulates, such as 8x4090 or dgx-h100; empty: real ones only.", func(c *Config) *string { return &c.Simulate }),
		text("docker", "", "Address of the container engine (Docker's or Podman's API), such as unix:///run/docker.sock; empty: DOCKER_HOST, or the usual sockets.", func(c *Config) *string { return &c.Docker }),
		text("runtime", "docker", "What instances run on: docker (Docker's or Podman's API), or kubernetes: a cluster that joins as one host.", func(c *Config) *string { return &c.Runtime }, oneOf("docker", "kubernetes")),
		text("kubeconfig", "", "kubeconfig file by which a cluster is reached; empty: as the pod that this agent is in, or as kubectl would.", func(c *Config) *string { return &c.Kubeconfig }, optional(file)),
		text("kubernetes_namespace", "suanli-leases", "Namespace of leases' pods in a cluster, and of nothing else.", func(c *Config) *string { return &c.Kubernetes.Namespace }, filled),
		text("kubernetes_image", "", "Image that has this binary as /suanli, from which instances in a cluster get their first process. A cluster needs it.", func(c *Config) *string { return &c.Kubernetes.Image }),
		text("kubernetes_security", "restricted", "Pod Security Standard of instances in a cluster: restricted (no root), or baseline (root inside, without privileges).", func(c *Config) *string { return &c.Kubernetes.Security }, oneOf("restricted", "baseline")),
		text("kubernetes_storage_class", "", "Storage class of disks and volumes in a cluster; empty: the disk of an instance is its node's and ends with a stop, and there are no volumes.", func(c *Config) *string { return &c.Kubernetes.StorageClass }),
		text("kubernetes_nodes", "", "Labels of the nodes of a cluster that are rented out, KEY=VALUE, separated by commas; empty: all nodes.", func(c *Config) *string { return &c.Kubernetes.Nodes }, nodeLabels),
		text("kubernetes_queue", "", "Kueue's local queue that admits leases in a cluster; empty: none.", func(c *Config) *string { return &c.Kubernetes.Queue }),
		text("kubernetes_dns", "1.1.1.1,8.8.8.8", "Name servers of instances in a cluster, separated by commas: public ones, since the cluster's own are closed to renters.", func(c *Config) *string { return &c.Kubernetes.DNS }, ipList),
		text("kubernetes_kubelet_ca", "", "PEM file of the authority of the kubelets' certificates, whose figures of use are read; empty: the cluster's own.", func(c *Config) *string { return &c.Kubernetes.KubeletCA }, optional(file)),
		text("isolation", "", "OCI runtime for instances, such as runc or runsc; empty: the engine's default. In a cluster: a RuntimeClass.", func(c *Config) *string { return &c.Isolation }),
		text("direct_ports", "", "ADDRESS:FIRST-LAST: ports of this host that are reachable from outside; empty: none, everything goes through the gateway.", func(c *Config) *string { return &c.DirectPorts }, optional(portRange)),
		text("firewall_table", "suanli", "nftables table (family inet) with the rules that keep instances apart. Agents that share a network namespace need one each.", func(c *Config) *string { return &c.FirewallTable }, tableName),
		text("inner_registries", "", "Image registries inside of a network that renters' images may come from, separated by commas: HOST, HOST:PORT, or http://HOST:PORT for one without TLS. Hosts pull from public ones only but for these; both the cloud and its hosts need the setting.", func(c *Config) *string { return &c.InnerRegistries }, registryList),
		text("inner_webhooks", "", "Hosts inside of a network that webhooks may be at, separated by commas: HOST or HOST:PORT. Plain HTTP is used there only; other webhooks reach public addresses by HTTPS.", func(c *Config) *string { return &c.InnerWebhooks }, optional(hostList)),
		number("image_cache_gib", "0", "What pulled images may take of this host's disk, in GiB, before those that no lease uses are removed, the longest unused first. 0: a fifth of what leases and images have of it.", 0, 1<<20, func(c *Config) *int64 { return &c.ImageCacheGiB }),
		text("region", "local", "Region of hosts that join without naming one.", func(c *Config) *string { return &c.Region }, filled),
		text("zone", "local-1", "Zone of hosts that join without naming one.", func(c *Config) *string { return &c.Zone }, filled),
		{Key: "currency", Default: "USD", Doc: "Currency of prices: USD or CNY.",
			parse: func(c *Config, v string) error {
				c.Currency = money.Currency(v)
				if !c.Currency.Valid() {
					return note("want USD or CNY")
				}
				return nil
			}, show: func(c *Config) string { return string(c.Currency) }},
		text("granularity", "second", "What running time is counted in: second (whole ones), minute or hour (started ones).", func(c *Config) *string { return &c.Granularity }, oneOf("second", "minute", "hour")),
		number("minimum_seconds", "60", "Shortest time that a run is charged for, in seconds.", 0, 86400, func(c *Config) *int64 { return &c.MinimumSeconds }),
		number("idle_stop_seconds", "0", "Stop leases that nobody has used for this time, in seconds, if neither the renter nor the template says otherwise; 0: never.", 0, 366*86400, func(c *Config) *int64 { return &c.IdleStopSeconds }),
		number("commission_basis_points", "1000", "The platform's share of a charge, in hundredths of a per cent.", 0, 10000, func(c *Config) *int64 { return &c.CommissionBasisPoints }),
		number("payout_hold_seconds", "604800", "How long a provider's earnings are held before they can be paid out, in seconds.", 0, 366*86400, func(c *Config) *int64 { return &c.PayoutHoldSeconds }),
		number("payout_reserve_basis_points", "0", "What of a provider's earnings is kept back for good, in hundredths of a per cent.", 0, 10000, func(c *Config) *int64 { return &c.PayoutReserve }),
		number("sla_minimum_seconds", "60", "Outages of a lease that are shorter do not count against its availability, in seconds.", 0, 86400, func(c *Config) *int64 { return &c.SLAMinimumSeconds }),
		number("sla_notice_seconds", "259200", "How long before a host's maintenance must be announced for its absence not to count, in seconds.", 0, 90*86400, func(c *Config) *int64 { return &c.SLANoticeSeconds }),
		steps("sla_credits", "99.9%=10%,99%=25%,95%=100%", "What a lease gets back of a month's charge when its availability is under a bound: BOUND=SHARE, highest bound first, separated by commas; empty: nothing.", "%", func(c *Config) *[]Step { return &c.SLACredits }),
		steps("host_penalties", "", "What of its share a host loses that was at fault for so many seconds of a lease's month: SECONDS=SHARE, such as 3600=5%,86400=20%; empty: nothing.", "", func(c *Config) *[]Step { return &c.HostPenalties }),
		yes("host_clawback", "true", "Whether a host at fault pays its part of what its renters get back.", func(c *Config) *bool { return &c.HostClawback }),
		rate("storage_price", "0.10", "Price of a GiB of disk for a month, also while stopped.", func(c *Config) *money.Rate { return &c.StoragePrice }),
		rate("egress_price", "0.01", "Price of a GB (10^9 bytes) sent to the outside.", func(c *Config) *money.Rate { return &c.EgressPrice }),
		text("tax_table", "", "CSV file with the taxes that invoices have, with the columns jurisdiction, name, rate, mode, from and until; empty: no taxes.", func(c *Config) *string { return &c.TaxTable }),
		text("tax_jurisdiction", "", "Jurisdiction of accounts whose billing profile names none, as in tax_table.", func(c *Config) *string { return &c.TaxJurisdiction }),
		text("invoice_issuer", "", "Who issues invoices: name, address and tax number, as printed on them.", func(c *Config) *string { return &c.InvoiceIssuer }),
		{Key: "monthly_terms", Default: "1=0% 3=5% 6=10% 12=15%", Doc: "Terms in months (1, 3, 6, 12) that can be bought in advance, with what each takes off; empty: none.",
			parse: func(c *Config, v string) (err error) {
				if c.MonthlyTerms, err = pricing.ParseTerms(v); err != nil {
					return note("want terms of 1, 3, 6 or 12 months in rising order, each taking off no less than the one before, such as 1=0%% 3=5%% 12=15%%")
				}
				return nil
			}, show: func(c *Config) string { return pricing.FormatTerms(c.MonthlyTerms) }},
		number("monthly_hours", "730", "Hours on demand that a month in advance costs, before what its term takes off.", 1, 744, func(c *Config) *int64 { return &c.MonthlyHours }),
		{Key: "trial_amount", Default: "0", Doc: "What a trial is worth, in the cloud's currency; 0: no trials.",
			parse: func(c *Config, v string) (err error) {
				if c.TrialAmount, err = money.ParseAmount(v); err == nil && c.TrialAmount < 0 {
					err = note("a price cannot be negative")
				}
				return err
			}, show: func(c *Config) string { return c.TrialAmount.Display() }},
		number("trial_hours", "72", "How long a trial is valid from its first use, in hours.", 1, 8784, func(c *Config) *int64 { return &c.TrialHours }),
		number("trial_max_gpus", "1", "GPUs at once of an account that has a trial and has never paid; 0: as any account.", 0, 1024, func(c *Config) *int64 { return &c.TrialMaxGPUs }),
		{Key: "trial_egress_ports", Default: "22,53,80,443", Doc: "Ports outside that instances of such an account may reach, separated by commas; empty: all.",
			parse: func(c *Config, v string) error {
				c.TrialEgressPorts = nil
				for _, f := range strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' }) {
					n, err := strconv.ParseUint(f, 10, 16)
					if err != nil || n == 0 {
						return note("want ports from 1 to 65535, separated by commas")
					}
					c.TrialEgressPorts = append(c.TrialEgressPorts, int(n))
				}
				return nil
			}, show: func(c *Config) string {
				return strings.Trim(strings.ReplaceAll(fmt.Sprint(c.TrialEgressPorts), " ", ","), "[]")
			}},
		number("trials_per_network", "3", "Trials that a network (an IPv4 /24 or an IPv6 /48) may start in 30 days; 0: any number.", 0, 1_000_000, func(c *Config) *int64 { return &c.TrialsPerNetwork }),
		text("sign_up", "closed", "Who makes an account without an operator: everybody (open), those whose address an operator has invited (invited), or nobody (closed). All but closed needs smtp_address.", func(c *Config) *string { return &c.SignUp }, oneOf("open", "invited", "closed")),
		text("smtp_address", "", "HOST:PORT of the server by which the cloud sends mail; empty: it sends none.", func(c *Config) *string { return &c.SMTPAddress }, optional(address)),
		text("smtp_security", "starttls", "How mail is encrypted on the way to smtp_address: starttls, tls from the first byte on, or none.", func(c *Config) *string { return &c.SMTPSecurity }, oneOf("starttls", "tls", "none")),
		text("smtp_user", "", "User to sign in as at smtp_address; empty: without signing in.", func(c *Config) *string { return &c.SMTPUser }),
		text("smtp_password_file", "", "File with the password of smtp_user.", func(c *Config) *string { return &c.SMTPPasswordFile }, optional(file)),
		text("smtp_from", "", "E-mail address that the cloud's mail comes from.", func(c *Config) *string { return &c.SMTPFrom }),
		text("s3_endpoint", "", "URL (http://… or https://…, without a path) of the S3 service with the bucket that snapshots of volumes are kept in; hosts reach it, too. Empty: there are no snapshots.", func(c *Config) *string { return &c.S3Endpoint }, optional(webURL)),
		text("s3_bucket", "", "Bucket at s3_endpoint, which has to be there.", func(c *Config) *string { return &c.S3Bucket }),
		text("s3_region", "us-east-1", "Region of s3_bucket, which requests are signed for.", func(c *Config) *string { return &c.S3Region }, filled),
		text("s3_prefix", "", "What the names of all objects begin with, such as suanli/, where the bucket is used by others, too.", func(c *Config) *string { return &c.S3Prefix }),
		text("s3_addressing", "path", "Where the bucket stands in URLs: path (https://HOST/BUCKET) or host (https://BUCKET.HOST).", func(c *Config) *string { return &c.S3Addressing }, oneOf("path", "host")),
		secret("s3_access_key", "Identifier of the key to s3_bucket. Give it in the file or the environment: flags are seen by everybody on the machine.", func(c *Config) *string { return &c.S3AccessKey }),
		text("s3_secret_key_file", "", "File with the secret of s3_access_key. Hosts never see it: they are given URLs for single parts of single objects.", func(c *Config) *string { return &c.S3SecretKeyFile }, optional(file)),
		rate("snapshot_price", "0.03", "Price of a GiB of a snapshot for a month, as compressed and rounded up to whole GiB.", func(c *Config) *money.Rate { return &c.SnapshotPrice }),
		secret("stripe_key", "Secret or restricted API key of Stripe, with which payments are taken; empty: none are. Give it in the file or the environment: flags are seen by everybody on the machine.", func(c *Config) *string { return &c.StripeKey }),
		secret("stripe_webhook_secret", "Signing secret of the webhook endpoint at Stripe that sends to PUBLIC_URL/v1/payment-callbacks/stripe.", func(c *Config) *string { return &c.StripeWebhookSecret }),
		text("stripe_url", "", "URL of Stripe's API, when it is another than Stripe's own, such as a mock's.", func(c *Config) *string { return &c.StripeURL }, optional(webURL)),
		text("payment_return_url", "", "URL to which payers return from a provider's checkout; empty: public_url.", func(c *Config) *string { return &c.PaymentReturnURL }, optional(webURL)),
		text("usage_sink_url", "", "URL that what leases use is posted to, as CloudEvents in batches, each at least once; empty: nowhere. It may be inside of a network, and without TLS.", func(c *Config) *string { return &c.UsageSinkURL }, optional(webURL)),
		secret("usage_sink_token", "Bearer token that is sent to usage_sink_url; empty: none. Give it in the file or the environment: flags are seen by everybody on the machine.", func(c *Config) *string { return &c.UsageSinkToken }),
		number("invoice_net_days", "14", "Days that an account has to pay an invoice, if it has no number of its own.", 1, 366, func(c *Config) *int64 { return &c.InvoiceNetDays }),
		days("dunning_days", "-3,0,1,7", "Days on which accounts are reminded of an invoice, counted from the day it is due, separated by commas; empty: none.", func(c *Config) *[]int { return &c.DunningDays }),
		number("dunning_stop_days", "14", "Days after the day an invoice is due until compute stops for it, which is announced three days before; 0: never.", 0, 366, func(c *Config) *int64 { return &c.DunningStopDays }),
		number("storage_grace_days", "7", "Days that disks are kept after compute stopped for money, before they are deleted, which is announced.", 1, 366, func(c *Config) *int64 { return &c.StorageGraceDays }),
		number("reserve_max_months", "12", "Longest term of a reservation, in months; 0: none are sold. Hosts say which terms they offer, and what those take off.", 0, 60, func(c *Config) *int64 { return &c.ReserveMaxMonths }),
		number("reserve_max_discount_basis_points", "6000", "The most that hosts may take off for reservations, all discounts together, in hundredths of a per cent.", 0, 10000, func(c *Config) *int64 { return &c.ReserveMaxDiscount }),
		text("catalog_dir", "", "Folder with the operator's own templates and regions.", func(c *Config) *string { return &c.CatalogDir }, optional(folder)),
		text("who_may_host", "anyone", "Who may let hosts join: anyone (owners and admins of every account) or operator. Whoever has root on a host can read what runs there.", func(c *Config) *string { return &c.WhoMayHost }, oneOf("anyone", "operator")),
		text("admin_email", "admin@localhost", "E-mail address of the first operator, made when the database is empty. The password is written to data_dir/admin-password.", func(c *Config) *string { return &c.AdminEmail }, filled),
		number("heartbeat_seconds", "5", "Time between reports of an agent, in seconds. A host that misses three is silent.", 1, 60, func(c *Config) *int64 { return &c.HeartbeatSeconds }),
		text("log_level", "info", "debug, info, warn or error.", func(c *Config) *string { return &c.LogLevel }, oneOf("debug", "info", "warn", "error")),
		text("log_format", "text", "text or json.", func(c *Config) *string { return &c.LogFormat }, oneOf("text", "json")),
		text("otlp_endpoint", "", "URL of an OpenTelemetry collector (OTLP over HTTP) for traces; empty: none.", func(c *Config) *string { return &c.OTLPEndpoint }, optional(webURL)),
	}
}

// Load reads the file at path (none if empty), the environment and flags, given
// by setting key, and checks the whole. The error lists everything that is
// wrong, not only the first.
func Load(path string, environ func(string) (string, bool), flags map[string]string) (*Config, error) {
	c := &Config{}
	from := map[string]map[string]string{"file": {}, "flag": flags}
	if path != "" {
		values, err := readFile(path)
		if err != nil {
			return nil, err
		}
		from["file"] = values
	}
	var errs []error
	for _, s := range Settings() {
		value, source := s.Default, "default"
		if v, ok := from["file"][s.Key]; ok {
			value, source = v, path
		}
		if v, ok := environ(s.Env()); ok {
			value, source = v, s.Env()
		}
		if v, ok := flags[s.Key]; ok {
			value, source = v, "--"+s.Flag()
		}
		if err := s.parse(c, value); err != nil {
			errs = append(errs, note("%s %q (from %s): %w", s.Key, value, source, err))
		}
	}
	if len(errs) == 0 {
		errs = append(errs, c.check())
	}
	return c, errors.Join(errs...)
}

func readFile(path string) (map[string]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, note("configuration: %w", err)
	}
	var raw map[string]any
	if err := yaml.Unmarshal(b, &raw); err != nil {
		return nil, note("configuration %s: %s", path, yaml.FormatError(err, false, true))
	}
	known := map[string]bool{}
	var keys []string
	for _, s := range Settings() {
		known[s.Key] = true
		keys = append(keys, s.Key)
	}
	values := map[string]string{}
	var errs []error
	for k, v := range raw {
		if !known[k] {
			errs = append(errs, note("configuration %s: there is no setting %q; did you mean %q?", path, k, nearest(k, keys)))
			continue
		}
		switch v.(type) {
		case map[string]any, []any:
			errs = append(errs, note("configuration %s: %s is a single value, not a list or a map", path, k))
		case nil:
		default:
			values[k] = fmt.Sprint(v)
		}
	}
	return values, errors.Join(errs...)
}

// check is what settings must be together.
func (c *Config) check() error {
	var errs []error
	if (c.TLSCert == "") != (c.TLSKey == "") {
		errs = append(errs, note("tls_cert and tls_key: give both or neither"))
	}
	if (c.StripeKey == "") != (c.StripeWebhookSecret == "") {
		errs = append(errs, note("stripe_key and stripe_webhook_secret: give both or neither"))
	}
	if c.S3Endpoint != "" && (c.S3Bucket == "" || c.S3AccessKey == "" || c.S3SecretKeyFile == "") {
		errs = append(errs, note("s3_endpoint is given without all of s3_bucket, s3_access_key and s3_secret_key_file; give these too, or leave it out"))
	}
	if c.S3Endpoint == "" && (c.S3Bucket != "" || c.S3AccessKey != "" || c.S3SecretKeyFile != "") {
		errs = append(errs, note("s3_bucket, s3_access_key or s3_secret_key_file is given without s3_endpoint; give the URL that they are for"))
	}
	if c.UsageSinkToken != "" && c.UsageSinkURL == "" {
		errs = append(errs, note("usage_sink_token is given without usage_sink_url; give the URL that it is for"))
	}
	ports := map[string]string{}
	for name, a := range map[string]string{"listen": c.Listen, "agent_listen": c.AgentListen, "ssh_listen": c.SSHListen} {
		if _, port, _ := net.SplitHostPort(a); port != "0" {
			if other, taken := ports[a]; taken {
				errs = append(errs, note("%s and %s are both %s", name, other, a))
			}
			ports[a] = name
		}
	}
	if s := c.IdleStopSeconds; s > 0 && s < 60 {
		errs = append(errs, note("idle_stop_seconds is %d; want at least 60, or 0 for never", s))
	}
	return errors.Join(errs...)
}

// CheckOwnAgent is what settings must be together where the agent joins the cloud
// of the same process; elsewhere allow_simulated is another machine's setting.
func (c *Config) CheckOwnAgent() error {
	if c.Simulate != "" && !c.AllowSimulated {
		return note("simulate is set, and allow_simulated is not: this cloud would refuse its own agent; set allow_simulated too, or leave simulate out")
	}
	return nil
}

// Warnings returns what is allowed and rarely meant.
func (c *Config) Warnings() []*Note {
	var w []*Note
	host, _, _ := net.SplitHostPort(c.Listen)
	if ip := net.ParseIP(host); c.TLSCert == "" && (ip == nil || !ip.IsLoopback()) && host != "localhost" {
		w = append(w, note("listen is %s without TLS: passwords and keys cross the network readable unless a proxy in front speaks TLS", c.Listen))
	}
	if c.AllowSimulated {
		w = append(w, note("allow_simulated is on: simulated GPUs can be rented here, always labelled as such"))
	}
	return w
}

// Values returns each setting's value, for a person to read.
func (c *Config) Values() map[string]string {
	m := map[string]string{}
	for _, s := range Settings() {
		m[s.Key] = s.show(c)
	}
	return m
}

// DatabaseAddress is Database, or its default.
func (c *Config) DatabaseAddress() string {
	if c.Database != "" {
		return c.Database
	}
	return "sqlite:" + filepath.Join(c.DataDir, "suanli.db")
}

// APIURL is the URL by which renters reach the API.
func (c *Config) APIURL() string {
	if c.PublicURL != "" {
		return strings.TrimSuffix(c.PublicURL, "/")
	}
	if c.TLSCert != "" {
		return "https://" + c.Listen
	}
	return "http://" + c.Listen
}

func defaultDataDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/suanli"
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "share", "suanli")
	}
	return "suanli-data"
}

func filled(v string) error {
	if strings.TrimSpace(v) == "" {
		return note("must not be empty")
	}
	return nil
}

func optional(f func(string) error) func(string) error {
	return func(v string) error {
		if v == "" {
			return nil
		}
		return f(v)
	}
}

func address(v string) error {
	_, port, err := net.SplitHostPort(v)
	if err != nil {
		return note("want HOST:PORT")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return note("the port must be 0 to 65535")
	}
	return nil
}

// addressList checks addresses that are separated by commas, or nothing.
func addressList(v string) error {
	for part := range strings.SplitSeq(v, ",") {
		if v == "" {
			continue
		}
		if err := address(strings.TrimSpace(part)); err != nil {
			return err
		}
	}
	return nil
}

// leafList checks addresses of leaf node ports that are separated by commas, or nothing.
func leafList(v string) error {
	for part := range strings.SplitSeq(v, ",") {
		if v == "" {
			continue
		}
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil || u.Scheme != "nats-leaf" || u.Port() == "" {
			return note("want nats-leaf://[USER:PASSWORD@]HOST:PORT")
		}
	}
	return nil
}

func webURL(v string) error {
	u, err := url.Parse(v)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return note("want http://… or https://…")
	}
	return nil
}

func file(v string) error {
	st, err := os.Stat(v)
	if err != nil {
		return err
	}
	if st.IsDir() {
		return note("is a folder; want a file")
	}
	return nil
}

func folder(v string) error {
	st, err := os.Stat(v)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return note("is a file; want a folder")
	}
	return nil
}

func database(v string) error {
	if strings.HasPrefix(v, "sqlite:") || strings.HasPrefix(v, "postgres://") || strings.HasPrefix(v, "postgresql://") {
		return nil
	}
	return note("want sqlite:PATH or postgres://…")
}

// tableName checks a name as nftables takes it without quotes.
func tableName(v string) error {
	ok := len(v) > 0 && len(v) <= 63
	for i, r := range v {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		ok = ok && (letter || i > 0 && (r >= '0' && r <= '9' || r == '-' || r == '_'))
	}
	if !ok {
		return note("want a letter, then letters, digits, - and _, 63 at most")
	}
	return nil
}

// InnerRegistryHosts are the registries of InnerRegistries, each a host with its
// port if one is given.
func (c *Config) InnerRegistryHosts() []string {
	var hosts []string
	for part := range strings.SplitSeq(c.InnerRegistries, ",") {
		host := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(part), "http://"), "https://")
		if host = strings.ToLower(strings.TrimSuffix(host, "/")); host != "" {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// WebhookHosts are the hosts of InnerWebhooks.
func (c *Config) WebhookHosts() []string {
	var hosts []string
	for part := range strings.SplitSeq(c.InnerWebhooks, ",") {
		if host := strings.ToLower(strings.TrimSpace(part)); host != "" {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// hostList checks hosts as inner_webhooks names them.
func hostList(v string) error {
	for part := range strings.SplitSeq(v, ",") {
		if part = strings.TrimSpace(part); part != "" && strings.ContainsAny(part, "/ @?#") {
			return note("%q is not a host; want HOST or HOST:PORT", part)
		}
	}
	return nil
}

// registryList checks registries as inner_registries names them.
func registryList(v string) error {
	for part := range strings.SplitSeq(v, ",") {
		host := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(part), "http://"), "https://")
		if strings.ContainsAny(strings.TrimSuffix(host, "/"), "/ @") {
			return note("want HOST, HOST:PORT or http://HOST:PORT, separated by commas")
		}
	}
	return nil
}

func oneOf(words ...string) func(string) error {
	return func(v string) error {
		if !slices.Contains(words, v) {
			return note("want one of %s", strings.Join(words, ", "))
		}
		return nil
	}
}

func portRange(v string) error {
	_, _, _, err := ParsePortRange(v)
	return err
}

// ParsePortRange reads "ADDRESS:FIRST-LAST".
func ParsePortRange(v string) (host string, first, last int, err error) {
	host, ports, ok := strings.Cut(v, ":")
	a, b, ok2 := strings.Cut(ports, "-")
	first, err1 := strconv.Atoi(a)
	last, err2 := strconv.Atoi(b)
	if !ok || !ok2 || err1 != nil || err2 != nil || host == "" || first < 1024 || last < first || last > 65535 {
		return "", 0, 0, note("want ADDRESS:FIRST-LAST with ports from 1024 to 65535")
	}
	return host, first, last, nil
}

// nearest returns the word with the smallest edit distance to v.
func nearest(v string, words []string) string {
	best, least := "", 1<<30
	for _, w := range words {
		if d := distance(v, w); d < least {
			best, least = w, d
		}
	}
	return best
}

func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			next := min(row[j]+1, row[j-1]+1)
			if a[i-1] == b[j-1] {
				next = min(next, diag)
			} else {
				next = min(next, diag+1)
			}
			diag, row[j] = row[j], next
		}
	}
	return row[len(b)]
}

package server

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/protocol"
)

// registerGauges adds what is read off the services when metrics are scraped.
func registerGauges(r *prometheus.Registry, c *Cloud) error {
	for _, more := range []prometheus.Collector{newGPUCollector(c.Fleet), newMoneyCollector(c.Billing, c.log)} {
		if err := r.Register(more); err != nil {
			return err
		}
	}
	return r.Register(&leaseCollector{cloud: c,
		leases: prometheus.NewDesc("suanli_leases", "Leases that are not over, by state.", []string{"state", "simulated"}, nil),
		lag:    prometheus.NewDesc("suanli_reconciler_lag_seconds", "Age of the oldest command that a host has not taken.", nil, nil),
		hosts:  prometheus.NewDesc("suanli_hosts_connected", "Hosts with a tunnel to this process.", nil, nil),
	})
}

type leaseCollector struct {
	cloud              *Cloud
	leases, lag, hosts *prometheus.Desc
}

func (l *leaseCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- l.leases
	ch <- l.lag
	ch <- l.hosts
}

func (l *leaseCollector) Collect(ch chan<- prometheus.Metric) {
	counts, lag := l.cloud.Leases.Counts()
	for k, n := range counts {
		ch <- prometheus.MustNewConstMetric(l.leases, prometheus.GaugeValue, float64(n), string(k.State), strconv.FormatBool(k.Simulated))
	}
	ch <- prometheus.MustNewConstMetric(l.lag, prometheus.GaugeValue, lag.Seconds())
	if l.cloud.Tunnels != nil {
		ch <- prometheus.MustNewConstMetric(l.hosts, prometheus.GaugeValue, float64(l.cloud.Tunnels.Hosts()))
	}
}

// gpuCollector tells what hosts last reported of their GPUs. What a silent host
// said is not told again as if it were so now; its GPUs' health is.
type gpuCollector struct {
	fleet                                                  *fleet.Service
	hosts, health, utilization, temperature, memory, power *prometheus.Desc
}

func newGPUCollector(f *fleet.Service) *gpuCollector {
	gpu := []string{"host_id", "gpu", "model", "simulated"}
	return &gpuCollector{fleet: f,
		hosts:       prometheus.NewDesc("suanli_hosts", "Hosts, by state.", []string{"state", "simulated"}, nil),
		health:      prometheus.NewDesc("suanli_gpu_health", "1 for the state that a GPU is in: healthy, fenced, dirty or absent.", append(gpu, "health"), nil),
		utilization: prometheus.NewDesc("suanli_gpu_utilization_percent", "How busy a GPU is.", gpu, nil),
		temperature: prometheus.NewDesc("suanli_gpu_temperature_celsius", "Temperature of a GPU.", gpu, nil),
		memory:      prometheus.NewDesc("suanli_gpu_memory_used_mib", "Memory in use on a GPU.", gpu, nil),
		power:       prometheus.NewDesc("suanli_gpu_power_watts", "What a GPU draws.", gpu, nil),
	}
}

func (g *gpuCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.hosts, g.health, g.utilization, g.temperature, g.memory, g.power} {
		ch <- d
	}
}

func (g *gpuCollector) Collect(ch chan<- prometheus.Metric) {
	type key struct {
		state     fleet.State
		simulated bool
	}
	hosts := map[key]int{}
	// All hosts are an operator's to see, and so is /metrics.
	for _, h := range g.fleet.Hosts(context.Background(), account.Principal{UserID: "metrics", Operator: true}) {
		hosts[key{h.State, h.Simulated}]++
		reports := h.State != fleet.StateOffline && h.State != fleet.StateAwaited && h.State != fleet.StateRefused
		for _, u := range h.GPUs {
			labels := []string{h.ID, u.UUID, u.Model, strconv.FormatBool(h.Simulated)}
			tell := func(d *prometheus.Desc, v int64, more ...string) {
				ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), append(labels[:len(labels):len(labels)], more...)...)
			}
			health := string(u.Health)
			switch {
			case !u.Present:
				health = "absent"
			case health == "":
				health = string(protocol.Healthy)
			}
			tell(g.health, 1, health)
			if !reports || !u.Present {
				continue
			}
			tell(g.utilization, int64(u.Stats.UtilizationPercent))
			tell(g.memory, u.Stats.UsedMiB)
			// What a driver cannot tell is zero; no GPU that is on is that cold.
			if u.Stats.TemperatureC != 0 {
				tell(g.temperature, int64(u.Stats.TemperatureC))
			}
			if u.Stats.PowerWatts != 0 {
				tell(g.power, int64(u.Stats.PowerWatts))
			}
		}
	}
	for k, n := range hosts {
		ch <- prometheus.MustNewConstMetric(g.hosts, prometheus.GaugeValue, float64(n), string(k.state), strconv.FormatBool(k.simulated))
	}
}

// moneyCollector tells what has been charged. Sums are whole numbers of micros,
// which the format of metrics holds exactly up to nine thousand million units of
// a currency; the books are what counts.
type moneyCollector struct {
	billing                     *billing.Service
	log                         *slog.Logger
	charges, amount, commission *prometheus.Desc
}

func newMoneyCollector(b *billing.Service, log *slog.Logger) *moneyCollector {
	labels := []string{"currency", "simulated"}
	return &moneyCollector{billing: b, log: log,
		charges:    prometheus.NewDesc("suanli_charges_posted_total", "Charges posted, corrections among them.", labels, nil),
		amount:     prometheus.NewDesc("suanli_charges_posted_micros", "Sum of the posted charges less corrections, in millionths of the currency's unit.", labels, nil),
		commission: prometheus.NewDesc("suanli_commission_posted_micros", "The cloud's part of the posted charges, in millionths of the currency's unit.", labels, nil),
	}
}

func (m *moneyCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.charges, m.amount, m.commission} {
		ch <- d
	}
}

// scrapeTime bounds the look into the database: the other metrics must come even
// if it does not answer.
const scrapeTime = 5 * time.Second

func (m *moneyCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	list, err := m.billing.Posted(ctx)
	if err != nil {
		// Left out rather than failed: a scrape that fails hides everything else.
		m.log.WarnContext(ctx, "sum charges for metrics", "error", err)
		return
	}
	for _, p := range list {
		labels := []string{string(p.Currency), strconv.FormatBool(p.Simulated)}
		ch <- prometheus.MustNewConstMetric(m.charges, prometheus.CounterValue, float64(p.Charges), labels...)
		ch <- prometheus.MustNewConstMetric(m.amount, prometheus.GaugeValue, float64(p.Amount), labels...)
		ch <- prometheus.MustNewConstMetric(m.commission, prometheus.GaugeValue, float64(p.Commission), labels...)
	}
}

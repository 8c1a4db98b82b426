package server

import (
	"github.com/prometheus/client_golang/prometheus"
)

// registerGauges adds what is read off the services when metrics are scraped.
func registerGauges(r *prometheus.Registry, c *Cloud) error {
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
		simulated := "false"
		if k.Simulated {
			simulated = "true"
		}
		ch <- prometheus.MustNewConstMetric(l.leases, prometheus.GaugeValue, float64(n), string(k.State), simulated)
	}
	ch <- prometheus.MustNewConstMetric(l.lag, prometheus.GaugeValue, lag.Seconds())
	if l.cloud.Tunnels != nil {
		ch <- prometheus.MustNewConstMetric(l.hosts, prometheus.GaugeValue, float64(l.cloud.Tunnels.Hosts()))
	}
}

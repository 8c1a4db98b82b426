package server

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"suanli.dev/internal/fleet"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

// gpuHost is a host of the operator's with one GPU that is busy and one that is
// at fault.
func (w *world) gpuHost(key string, simulated bool) string {
	w.t.Helper()
	ctx := w.t.Context()
	token, _, err := w.server.Fleet.CreateJoinToken(ctx, w.operator.principal(), fleet.JoinToken{})
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := w.server.Fleet.Enrol(ctx, protocol.EnrolRequest{Token: token, CSR: "csr", BusKey: "U" + strings.Repeat(key, 55), Name: "box", Version: protocol.Version, Simulated: simulated},
		func(_, id string) (string, error) { return id, nil })
	if err != nil {
		w.t.Fatal(err)
	}
	now := protocol.Instant{BootID: "b", Nanos: 1000}
	inv := &protocol.Inventory{CPUs: 16, MemoryMiB: 65536, DiskMiB: 1 << 20, Architecture: "amd64", Runtime: "docker", SelfTest: protocol.SelfTest{RanAt: now, Passed: true}}
	for i, uuid := range []string{"GPU-busy-" + key, "GPU-bad-" + key} {
		inv.GPUs = append(inv.GPUs, protocol.GPU{
			UUID: uuid, Index: i, Vendor: protocol.NVIDIA, Name: "NVIDIA GeForce RTX 4090", VRAMMiB: 24564, Driver: "550.54.15", Simulated: simulated,
			Health: protocol.Health{State: protocol.Healthy},
		})
	}
	if _, err := w.server.Fleet.Report(ctx, r.HostID, protocol.Report{Session: "s", Seq: 1, Now: now, Ready: true, Inventory: inv}, w.clock.Now()); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.server.Fleet.Report(ctx, r.HostID, protocol.Report{
		Session: "s", Seq: 2, Now: now, Ready: true,
		GPUStats: map[string]protocol.GPUStats{"GPU-busy-" + key: {UtilizationPercent: 97, TemperatureC: 71, UsedMiB: 20000, PowerWatts: 412}},
		Health:   map[string]protocol.Health{"GPU-bad-" + key: {State: protocol.Fenced, Reason: "Xid 79"}},
	}, w.clock.Now()); err != nil {
		w.t.Fatal(err)
	}
	return r.HostID
}

func TestMetricsTellOfGPUsMoneyLeasesAndTheReconciler(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	w := newWorld(t, func(_ *world, c *Config) { c.Metrics = metrics })
	if err := registerGauges(metrics, &Cloud{Fleet: w.server.Fleet, Billing: w.billing, Leases: w.leases, log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	ask := func() string {
		r := w.send("GET", "/metrics", "", nil)
		r.want(t, 200, "")
		return r.Body
	}
	if text := ask(); !strings.Contains(text, "suanli_reconciler_lag_seconds 0") || strings.Contains(text, "suanli_charges_posted_total{") {
		t.Errorf("before anything has happened:\n%s", ours(text))
	}

	realHost, pretended := w.gpuHost("A", false), w.gpuHost("B", true)
	w.deposit(w.ada, "10")
	for _, simulated := range []bool{false, true} {
		id := w.billedLease(w.ada, simulated)
		w.clock.Advance(1000 * time.Second)
		w.billing.ConfirmAlive([]string{id}, w.clock.Now())
		if err := w.billing.Settle(t.Context(), w.clock.Now()); err != nil {
			t.Fatal(err)
		}
		if err := w.db.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error { return w.billing.EndLease(ctx, tx, id, w.clock.Now()) }); err != nil {
			t.Fatal(err)
		}
	}
	text := ask()
	for _, want := range []string{
		`suanli_gpu_utilization_percent{gpu="GPU-busy-A",host_id="` + realHost + `",model="RTX 4090",simulated="false"} 97`,
		`suanli_gpu_temperature_celsius{gpu="GPU-busy-A",host_id="` + realHost + `",model="RTX 4090",simulated="false"} 71`,
		`suanli_gpu_memory_used_mib{gpu="GPU-busy-A",host_id="` + realHost + `",model="RTX 4090",simulated="false"} 20000`,
		`suanli_gpu_power_watts{gpu="GPU-busy-A",host_id="` + realHost + `",model="RTX 4090",simulated="false"} 412`,
		`suanli_gpu_utilization_percent{gpu="GPU-busy-B",host_id="` + pretended + `",model="RTX 4090",simulated="true"} 97`,
		`suanli_gpu_health{gpu="GPU-busy-A",health="healthy",host_id="` + realHost + `",model="RTX 4090",simulated="false"} 1`,
		`suanli_gpu_health{gpu="GPU-bad-A",health="fenced",host_id="` + realHost + `",model="RTX 4090",simulated="false"} 1`,
		`suanli_hosts{simulated="true",state="degraded"} 1`,
		`suanli_charges_posted_micros{currency="USD",simulated="false"} 1e+06`,
		`suanli_charges_posted_micros{currency="USD",simulated="true"} 1e+06`,
		`suanli_commission_posted_micros{currency="USD",simulated="false"} 200000`,
		`suanli_charges_posted_total{currency="USD",simulated="false"} 1`,
		`suanli_reconciler_lag_seconds 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("missing: %s\n%s", want, ours(text))
		}
	}
}

// ours are the lines that are not the runtime's.
func ours(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "suanli_") && !strings.HasPrefix(line, "suanli_http_") {
			b.WriteString(line)
		}
	}
	return b.String()
}

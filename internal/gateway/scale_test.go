package gateway_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/agent/tunnel"
	"suanli.dev/internal/protocol"
)

func TestManyHostsConnectAtOnceAndReport(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	stop, err := c.bus.Handle(protocol.AnyReportSubject, "control", func(context.Context, string, []byte) (any, error) { return 1, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	began := time.Now()
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			id, err := tunnel.Enrol(t.Context(), c.address, c.token(), tunnel.Machine{Name: "machine"})
			if err != nil {
				t.Error(err)
				return
			}
			tun, err := tunnel.Dial(t.Context(), tunnel.Config{Identity: id})
			if err != nil {
				t.Error(err)
				return
			}
			defer tun.Close()
			for range 5 {
				if err := tun.Request(t.Context(), protocol.ReportSubject(id.HostID), protocol.Report{}, nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	t.Logf("200 hosts joined, connected and sent 1,000 reports in %v", time.Since(began))
	eventually(t, "all tunnels are gone", func() bool { return c.tunnels.Hosts() == 0 })
}

package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"suanli.dev/internal/account"
	"testing"
	"time"

	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

func TestImpossibleInventoryWithdrawsAllOffersAndShowsNothingAbsurd(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*protocol.Inventory){
		"more GPU memory used than there is": func(i *protocol.Inventory) { i.GPUs[0].Stats.UsedMiB = 99999 },
		"negative use":                       func(i *protocol.Inventory) { i.GPUs[1].Stats.UsedMiB = -1 },
		"memory after an underflow":          func(i *protocol.Inventory) { i.MemoryMiB = 17_179_869_145 * 1024 },
		"negative memory":                    func(i *protocol.Inventory) { i.MemoryMiB = -1 },
		"negative disk":                      func(i *protocol.Inventory) { i.DiskMiB = -5 },
		"no CPUs":                            func(i *protocol.Inventory) { i.CPUs = 0 },
		"one UUID twice":                     func(i *protocol.Inventory) { i.GPUs[1].UUID = i.GPUs[0].UUID },
		"no UUID":                            func(i *protocol.Inventory) { i.GPUs[0].UUID = "" },
		"a GPU without memory":               func(i *protocol.Inventory) { i.GPUs[0].VRAMMiB = 0 },
		"simulated GPUs on a real host":      func(i *protocol.Inventory) { i.GPUs[0].Simulated = true },
		"ports that are none":                func(i *protocol.Inventory) { i.DirectPorts = &protocol.PortRange{Address: "a", First: 9, Last: 70000} },
		"a name of a megabyte":               func(i *protocol.Inventory) { i.Hostname = strings.Repeat("x", 1<<20) },
	} {
		c := newCloud(t)
		host, inv := c.rtx4090s(2)
		if _, err := c.reserve("ls-1", host, 1); err != nil {
			t.Fatal(err)
		}
		bad := *inv
		bad.GPUs = slices.Clone(inv.GPUs)
		spoil(&bad)
		c.report(host, protocolReport(&bad))
		h := c.view(host)
		if h.State != StateInvalid || h.Reason == "" || c.offered("") != 0 {
			t.Errorf("%s: host is %s (%s) with %d offers, want invalid with none", name, h.State, h.Reason, c.offered(""))
		}
		if h.Total.MemoryMiB < 0 || h.Total.MemoryMiB > maxMemoryMiB || h.Free.DiskMiB < 0 {
			t.Errorf("%s: total %+v, free %+v", name, h.Total, h.Free)
		}
		if _, err := c.reserve("ls-2", host, 1); err == nil {
			t.Errorf("%s: a GPU of the host was reserved", name)
		}
		c.report(host, protocolReport(inv))
		if n := c.offered(""); n != 1 {
			t.Errorf("%s: %d offers after it was put right, want 1", name, n)
		}
	}
}

func TestImpossibleHeartbeatWithdrawsOffersUntilTheNextGoodOne(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	host, inv := c.rtx4090s(1)
	uuid := inv.GPUs[0].UUID
	c.report(host, protocol.Report{Ready: true, GPUStats: map[string]protocol.GPUStats{uuid: {UsedMiB: 1 << 40}}})
	if n := c.offered(""); n != 0 {
		t.Errorf("%d offers, want none", n)
	}
	c.report(host, protocol.Report{Ready: true, GPUStats: map[string]protocol.GPUStats{uuid: {UsedMiB: 100}}})
	if n := c.offered(""); n != 1 {
		t.Errorf("%d offers, want 1", n)
	}
}

func TestNothingIsOfferedOfAHostThatIsSilentOrNotReady(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	host, _ := c.rtx4090s(8)
	if n := c.offered(""); n != 8 {
		t.Fatalf("%d offers, want 8", n)
	}
	c.report(host, protocol.Report{Ready: false, Problem: "the engine does not answer"})
	if n := c.offered(""); n != 0 {
		t.Errorf("%d offers of a host that is not ready", n)
	}
	c.report(host, protocol.Report{Ready: true})
	c.beats(4)
	if n := c.offered(""); n != 0 {
		t.Errorf("%d offers of a silent host", n)
	}
	if _, err := c.reserve("ls-1", host, 1); err == nil {
		t.Error("a silent host was reserved")
	} else {
		wantCode(t, err, "host_offline")
	}
	c.report(host, protocol.Report{Ready: true})
	if n := c.offered(""); n != 8 {
		t.Errorf("%d offers after it came back, want 8", n)
	}
}

func TestLosingOneGPULeavesTheOthersRentableAndTellsItsRenter(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	host, inv := c.rtx4090s(8)
	a, err := c.reserve("ls-1", host, 1)
	if err != nil {
		t.Fatal(err)
	}
	lost := a.GPUs[0]
	seven := *inv
	seven.GPUs = slices.DeleteFunc(slices.Clone(inv.GPUs), func(g protocol.GPU) bool { return g.UUID == lost })
	for range 3 { // it is told once
		c.report(host, protocolReport(&seven))
	}
	if h := c.view(host); h.State != StateDegraded || h.Free.GPUs != 7 {
		t.Errorf("host is %s with %d free GPUs, want degraded with 7", h.State, h.Free.GPUs)
	}
	if n := c.offered("count = 7"); n != 1 {
		t.Errorf("%d offers of the 7 that are left, want 1", n)
	}
	if len(c.faults) != 1 || c.faults[0].LeaseID != "ls-1" || c.faults[0].UUID != lost {
		t.Errorf("faults told: %+v", c.faults)
	}
	if err := c.tx(host, func(ctx context.Context, tx *store.Tx) error { return c.ReleaseAll(ctx, tx, "ls-1") }); err != nil {
		t.Fatal(err)
	}
	if n := c.offered(""); n != 7 {
		t.Errorf("%d offers after the lease ended, want 7: the lost GPU must not be offered", n)
	}
}

func TestXidsOfApplicationsAreNotedAndThoseOfHardwareFence(t *testing.T) {
	t.Parallel()
	for xid, fences := range map[int]bool{13: false, 31: false, 43: false, 45: false, 68: false, 48: true, 63: true, 64: true, 74: true, 79: true, 94: true, 95: true} {
		c := newCloud(t)
		host, inv := c.rtx4090s(2)
		uuid := inv.GPUs[0].UUID
		c.report(host, protocol.Report{Ready: true, Health: map[string]protocol.Health{uuid: {State: protocol.Healthy, Xids: []int{xid}}}})
		if got := c.view(host).GPUs[0].Health == protocol.Fenced; got != fences {
			t.Errorf("Xid %d: fenced %v, want %v", xid, got, fences)
		}
	}
}

func TestFenceIsLeftOnlyAfterAProbeThatCameLater(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	host, inv := c.rtx4090s(2)
	uuid := inv.GPUs[0].UUID
	fenced := func() bool { return c.view(host).GPUs[0].Health == protocol.Fenced }
	c.pass(time.Minute)
	c.report(host, protocol.Report{Ready: true, Health: map[string]protocol.Health{uuid: {State: protocol.Fenced, Reason: "Xid 79", Xids: []int{79}}}})
	if !fenced() || c.offered("") != 1 {
		t.Fatalf("fenced %v, %d offers; want fenced and the other GPU on offer", fenced(), c.offered(""))
	}
	// A restarted agent or host reports all well without having tried.
	c.pass(time.Minute)
	c.report(host, protocol.Report{Ready: true})
	c.report(host, protocolReport(inv))
	if !fenced() {
		t.Fatal("the fence was left without a probe")
	}
	// And a test that began before the fence proves nothing.
	old := *inv
	old.SelfTest.RanAt.Nanos += int64(30 * time.Second)
	c.report(host, protocolReport(&old))
	if !fenced() {
		t.Fatal("the fence was left by a test from before it")
	}
	fresh := *inv
	c.test(host, &fresh)
	c.report(host, protocol.Report{Ready: true, Inventory: &fresh, Health: map[string]protocol.Health{uuid: {State: protocol.Healthy, Xids: []int{79}}}})
	if fenced() || c.offered("") != 2 {
		t.Fatalf("after a probe: fenced %v, %d offers; want healthy and 2", fenced(), c.offered(""))
	}
	// The old Xid, which the driver lists until the next boot, does not fence again.
	c.report(host, protocol.Report{Ready: true, Health: map[string]protocol.Health{uuid: {State: protocol.Healthy, Xids: []int{79}}}})
	if fenced() {
		t.Error("an Xid that a probe has cleared fenced again")
	}
}

func TestDirtyGPUIsNotOfferedUntilItIsClean(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	host, inv := c.rtx4090s(2)
	c.report(host, protocol.Report{Ready: true, Health: map[string]protocol.Health{inv.GPUs[1].UUID: {State: protocol.Dirty, Reason: "512 MiB left over"}}})
	if n := c.offered(""); n != 1 {
		t.Errorf("%d offers with a dirty GPU, want 1", n)
	}
	a, err := c.reserve("ls-1", host, 1)
	if err != nil || a.GPUs[0] != inv.GPUs[0].UUID {
		t.Errorf("reserved %v, %v; want the clean GPU", a.GPUs, err)
	}
	c.report(host, protocol.Report{Ready: true})
	if n := c.offered(""); n != 1 {
		t.Errorf("%d offers after it was cleaned, want 1", n)
	}
}

func TestUpgradeOfTheEngineNeedsANewSelfTest(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	host, inv := c.rtx4090s(2)
	upgraded := *inv
	upgraded.Runtime = "docker 26.1.0"
	c.report(host, protocolReport(&upgraded))
	if h := c.view(host); h.State != StateUntested || c.offered("") != 0 {
		t.Fatalf("host is %s with %d offers, want untested with none", h.State, c.offered(""))
	}
	_, err := c.List(t.Context(), ada, host)
	wantCode(t, err, "not_ready_to_list")
	c.test(host, &upgraded)
	c.report(host, protocolReport(&upgraded))
	if n := c.offered(""); n != 2 {
		t.Errorf("%d offers after the test, want 2", n)
	}
	failed := upgraded
	c.test(host, &failed)
	failed.SelfTest.Passed = false
	failed.SelfTest.Checks = []protocol.Check{{Name: "gpus", Detail: "a container sees 1 of 2 GPUs"}}
	c.report(host, protocolReport(&failed))
	if h := c.view(host); h.State != StateUntested || !strings.Contains(h.Reason, "sees 1 of 2") {
		t.Errorf("host is %s (%s), want untested with the failed check", h.State, h.Reason)
	}
}

func TestGPUOfAnotherHostCannotBeClaimedButMayMove(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	first, inv := c.rtx4090s(1)
	thief := c.join(false)
	stolen := c.machine(thief, "NVIDIA GeForce RTX 4090", 24564, 1)
	stolen.GPUs[0].UUID = inv.GPUs[0].UUID
	for range 2 {
		c.report(thief, protocolReport(stolen))
	}
	if h := c.view(thief); h.State != StateInvalid {
		t.Errorf("the host that claims it is %s, want invalid", h.State)
	}
	if h := c.view(first); h.State != StateListed || c.offered("") != 1 {
		t.Errorf("the owner is %s with %d offers, want listed with 1", h.State, c.offered(""))
	}
	none := *inv
	none.GPUs = nil
	c.report(first, protocolReport(&none))
	c.report(thief, protocolReport(stolen))
	if h := c.view(thief); h.State != StateListed {
		t.Errorf("after the GPU was moved its new host is %s (%s), want listed", h.State, h.Reason)
	}
}

func TestSecondAgentWithOneKeyIsRefusedAndARestartedOneIsNot(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	host, _ := c.rtx4090s(1)
	for range 10 {
		c.pass(5 * time.Second)
		if r := c.report(host, protocol.Report{Ready: true}); !r.Accepted {
			t.Fatalf("the first agent is refused: %+v", r)
		}
		if r := c.report(host, protocol.Report{Session: "second", Ready: true}); r.Accepted || r.Code != "duplicate_session" || r.NextInSeconds < 1 {
			t.Fatalf("the second agent gets %+v", r)
		}
	}
	if h := c.view(host); !strings.Contains(h.Reason, "another machine") {
		t.Errorf("its provider reads %q", h.Reason)
	}
	// The first one dies; its successor gets through before the host is offline.
	for range 7 {
		c.pass(3 * time.Second)
		c.Silent(t.Context())
		c.report(host, protocol.Report{Session: "second", Ready: true})
	}
	if r := c.report(host, protocol.Report{Session: "second", Ready: true}); !r.Accepted || len(c.silent) != 0 {
		t.Errorf("the successor gets %+v; silent were %v", r, c.silent)
	}
}

func TestLateReportAndUnknownHostAreRefused(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	host, _ := c.rtx4090s(1)
	r, err := c.Service.Report(t.Context(), host, protocol.Report{Session: "first", Seq: 1}, c.now)
	if err != nil || r.Accepted || r.Code != "stale_report" {
		t.Errorf("late report: %+v, %v", r, err)
	}
	r, err = c.Service.Report(t.Context(), "ho-nobody", protocol.Report{Session: "first", Seq: 1}, c.now)
	if err != nil || r.Accepted || r.Code != "unknown_host" {
		t.Errorf("unknown host: %+v, %v", r, err)
	}
}

func TestARemovedHostIsToldAndAnUnknownOneIsNot(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	host, _ := c.rtx4090s(1)
	operator := account.Principal{Operator: true}
	if err := c.Remove(t.Context(), operator, host); err != nil {
		t.Fatal(err)
	}
	r, err := c.Service.Report(t.Context(), host, protocol.Report{Session: "first", Seq: 2}, c.now)
	if err != nil || r.Accepted || r.Code != protocol.CodeHostRemoved {
		t.Errorf("a removed host: %+v, %v", r, err)
	}
	for id, want := range map[string]bool{host: true, "ho-nobody": false, "": false} {
		if got, err := c.Removed(t.Context(), id); err != nil || got != want {
			t.Errorf("%q was removed: %t, %v", id, got, err)
		}
	}
}

func TestHeartbeatsCostNoWrite(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	host, inv := c.rtx4090s(1)
	before := c.host(host).record
	for i := range 100 {
		c.report(host, protocol.Report{Ready: true, GPUStats: map[string]protocol.GPUStats{inv.GPUs[0].UUID: {UtilizationPercent: i}}})
		c.report(host, protocolReport(inv))
	}
	if c.host(host).record != before {
		t.Error("the record was written although nothing changed")
	}
}

func TestReportCarriesTheLeasesPartOfTheReply(t *testing.T) {
	t.Parallel()
	fail := false
	c := newCloud(t, func(cfg *Config) {
		cfg.OnReport = func(_ context.Context, hostID string, r protocol.Report, _ time.Time) ([]protocol.Desired, bool, int64, error) {
			if fail {
				return nil, false, 0, fmt.Errorf("the store is away")
			}
			return []protocol.Desired{{LeaseID: "ls-1", Generation: 3}}, true, 7, nil
		}
	})
	host := c.join(false)
	r := c.report(host, protocol.Report{Ready: true})
	if !r.Accepted || !r.Complete || r.AckedPast != 7 || len(r.Desired) != 1 || !r.SendInventory || r.NextInSeconds != 10 {
		t.Errorf("reply %+v", r)
	}
	fail = true
	if _, err := c.Service.Report(t.Context(), host, protocol.Report{Session: "first", Seq: 99}, c.now); err == nil {
		t.Error("a report that was not kept was acknowledged")
	}
}

func TestClockOfAHostIsShownAndDecidesNothing(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	host, _ := c.rtx4090s(1)
	for _, skew := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		c.pass(10 * time.Second)
		c.report(host, protocol.Report{Ready: true, WallNanos: c.now.Add(skew).UnixNano()})
		c.Silent(t.Context())
		if h := c.view(host); h.ClockSkew != skew || h.State != StateListed || !h.LastSeen.Equal(c.now) {
			t.Errorf("with a skew of %s: shown %s, %s, last seen %s", skew, h.ClockSkew, h.State, h.LastSeen)
		}
	}
}

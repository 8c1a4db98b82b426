package sim_test

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"suanli.dev/internal/pricing"
	"suanli.dev/internal/pricing/auction"
	"suanli.dev/internal/sim"
)

var start = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

func price(t *testing.T, s string) auction.Price {
	t.Helper()
	p, err := auction.ParsePrice(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// oneHost is a host of so many GPUs at 1.00 on demand with a floor of 0.40.
func oneHost(t *testing.T, gpus int) sim.Fleet {
	return sim.Fleet{Currency: "USD", Groups: []sim.Group{{Name: "h", Count: 1, Model: "A", GPUs: gpus, Price: price(t, "1"), Floor: auction.FloorRule{Fixed: price(t, "0.4")}}}}
}

func onDemand(id string, after, run time.Duration, gpus int) sim.Job {
	return sim.Job{ID: id, Submitted: start.Add(after), Run: run, GPUs: gpus, Plan: pricing.OnDemand}
}

func spot(t *testing.T, id string, after, run time.Duration, gpus int, bid string) sim.Job {
	return sim.Job{ID: id, Submitted: start.Add(after), Run: run, GPUs: gpus, Plan: pricing.Spot, Bid: price(t, bid)}
}

func run(t *testing.T, f sim.Fleet, p sim.Policy, jobs ...sim.Job) sim.Report {
	t.Helper()
	r, err := sim.Run(f, p, sim.Trace{Jobs: jobs})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestWhoFindsNoRoomWaitsAndPaysForWhatItRuns(t *testing.T) {
	t.Parallel()
	r := run(t, oneHost(t, 2), sim.Standard(),
		onDemand("a", 0, time.Hour, 2), onDemand("b", 10*time.Minute, 30*time.Minute, 1), onDemand("c", 20*time.Minute, 2*time.Hour, 1))
	p := r.Plans[0]
	want(t, "cost", p.Cost.String(), "4.500000") // 2 h + 0.5 h + 2 h
	want(t, "revenue", r.Revenue, p.Cost)
	want(t, "commission", r.Commission.String(), "0.675000")
	want(t, "hosts and commission", r.Hosts+r.Commission, r.Revenue)
	want(t, "median wait", p.Wait.P50Seconds, 2400)
	want(t, "longest wait", p.Wait.MaxSeconds, 3000)
	want(t, "GPU-seconds", p.GPUSeconds, 16200)
	want(t, "seconds", r.Seconds, 10800)
	want(t, "utilisation", r.Utilisation, 7500) // 4.5 of 6 GPU-hours
	want(t, "finished", p.Finished, 3)
}

func TestASmallJobIsNotHeldBackByALargeOne(t *testing.T) {
	t.Parallel()
	r := run(t, oneHost(t, 2), sim.Standard(),
		onDemand("a", 0, time.Hour, 1), onDemand("large", time.Minute, time.Hour, 2), onDemand("small", 2*time.Minute, 10*time.Minute, 1))
	want(t, "median wait", r.Plans[0].Wait.P50Seconds, 0)
	want(t, "longest wait", r.Plans[0].Wait.MaxSeconds, 3540)
}

// The example of docs/market.md, by the clock.
func TestOutbidBidsLeaveAfterTheirNoticeAndResume(t *testing.T) {
	t.Parallel()
	r := run(t, oneHost(t, 4), sim.Standard(),
		spot(t, "first", 0, 2*time.Hour, 2, "1"), spot(t, "second", 0, 2*time.Hour, 2, "0.8"), spot(t, "third", time.Hour, time.Hour, 2, "0.9"))
	p := r.Plans[1]
	want(t, "interruptions by others' bids", p.Interruptions[string(auction.Outbid)], 1)
	want(t, "interruptions", p.Total(), 1)
	want(t, "evictions", p.Evictions(), 0)
	want(t, "finished", p.Finished, 3)
	// The second gets its notice at 1:00 and leaves at 1:02; the first ends at 2:00,
	// and the second goes on for the 58 minutes that it lacks.
	want(t, "seconds", r.Seconds, 2*3600+58*60)
	want(t, "longest wait", p.Wait.MaxSeconds, 120)
	want(t, "GPU-seconds", p.GPUSeconds, 2*5*3600)
	// 0.40 for the first hour (both, 4 GPUs): 1.60. 1:00 to 1:02 at 0.80, which is
	// all that the second agreed to: 4 × 2 min: 0.106667. While the second cools, 4
	// × 1 min at the floor: 0.026667, and to 2:00 at 0.8001, 4 × 57 min: 3.040380.
	// Then the floor again, for the third to 2:02 and the second to 2:58: 0.80.
	want(t, "cost", p.Cost.String(), "5.573714")
	want(t, "cost on demand", p.OnDemand.String(), "10.000000")
	want(t, "bundle sizes", len(r.Models[0].Spot), 1)
	want(t, "highest price", r.Models[0].Spot[0].Max.String(), "0.800100000")
	want(t, "lowest price", r.Models[0].Spot[0].Min.String(), "0.400000000")
	want(t, "notices", r.Models[0].Notices, 1)
}

func TestLeasesOnDemandGetTheGPUsOfBidsAfterTheirNotice(t *testing.T) {
	t.Parallel()
	jobs := []sim.Job{spot(t, "bid", 0, 2*time.Hour, 2, "0.5"), onDemand("lease", time.Hour, time.Hour, 1)}
	r := run(t, oneHost(t, 2), sim.Standard(), jobs...)
	want(t, "wait", r.Plans[0].Wait.MaxSeconds, 120)
	want(t, "evictions", r.Plans[1].Evictions(), 1)
	want(t, "reason", r.Plans[1].Interruptions[string(auction.OnDemand)], 1)
	want(t, "finished", r.Plans[1].Finished, 1)

	p := sim.Standard()
	p.Preempt = false
	r = run(t, oneHost(t, 2), p, jobs...)
	want(t, "wait without preemption", r.Plans[0].Wait.MaxSeconds, 3600)
	want(t, "interruptions without preemption", r.Plans[1].Total(), 0)
}

func TestAnInterruptionLosesTheWorkSinceACheckpoint(t *testing.T) {
	t.Parallel()
	p := sim.Standard()
	p.Checkpoint = 25 * time.Minute
	r := run(t, oneHost(t, 2), p, spot(t, "bid", 0, 2*time.Hour, 2, "0.5"), onDemand("lease", time.Hour, time.Hour, 2))
	// It ran 62 minutes, of which 50 are saved.
	want(t, "lost", r.Plans[1].LostGPUSeconds, 2*12*60)
	want(t, "ran", r.Plans[1].GPUSeconds, 2*(120+12)*60)
}

func TestALostHostInterruptsAtOnce(t *testing.T) {
	t.Parallel()
	f := oneHost(t, 1)
	f.Groups[0].Count = 0
	f.Groups[0].Churn = []sim.Churn{{0, true, "n1"}, {time.Hour, false, "n1"}, {2 * time.Hour, true, "n2"}}
	r := run(t, f, sim.Standard(), onDemand("lease", 0, 90*time.Minute, 1))
	want(t, "interruptions", r.Plans[0].Interruptions["host_lost"], 1)
	want(t, "seconds", r.Seconds, 2*3600+30*60)
	want(t, "cost", r.Plans[0].Cost.String(), "1.500000")
	r = run(t, f, sim.Standard(), spot(t, "bid", 0, 90*time.Minute, 1, "0.5"))
	want(t, "interruptions of the bid", r.Plans[1].Interruptions["host_lost"], 1)
	want(t, "cost of the bid", r.Plans[1].Cost.String(), "0.600000")
	want(t, "offered", r.Models[0].OfferedGPUSeconds, 3600+30*60)
}

func TestSpotUseThatThePlatformEndsInItsFirstMinuteIsFree(t *testing.T) {
	t.Parallel()
	f := oneHost(t, 1)
	f.Groups[0].Count = 0
	f.Groups[0].Churn = []sim.Churn{{0, true, "n1"}, {59 * time.Second, false, "n1"}}
	r := run(t, f, sim.Standard(), spot(t, "bid", 0, time.Hour, 1, "0.5"))
	want(t, "cost", r.Plans[1].Cost, 0)
	want(t, "GPU-seconds", r.Plans[1].GPUSeconds, 59)
}

// The price that a bid pays is that of the trace, and it runs while its bid is not
// below it.
func TestAPriceTraceIsThePrice(t *testing.T) {
	t.Parallel()
	f := oneHost(t, 2)
	f.Others = []sim.Others{{Model: "A", Prices: []sim.PricePoint{
		{start, price(t, "0.5")}, {start.Add(2 * time.Hour), price(t, "0.7")}, {start.Add(3 * time.Hour), price(t, "0.45")}, {start.Add(8 * time.Hour), price(t, "0.45")}}}}
	r := run(t, f, sim.Standard(), spot(t, "bid", 0, 4*time.Hour, 1, "0.6"))
	want(t, "highest price", r.Models[0].Spot[0].Max.String(), "0.700000000")
	want(t, "interruptions", r.Plans[1].Total(), 1)
	want(t, "finished", r.Plans[1].Finished, 1)
	// 0.50 for 120 minutes, the first one too, in which nobody can be outbid; its bid
	// for the 2 of its notice; a tick above 0.45 for the 118 that are left, from 3:02, since who is
	// there then has a notice, too. What the others hold is not counted.
	want(t, "cost", r.Plans[1].Cost.String(), "1.905197")
	want(t, "GPU-seconds", r.Plans[1].GPUSeconds, 4*3600)
	want(t, "utilisation counts jobs only", r.Models[0].SpotGPUSeconds, 4*3600)
}

func TestPatienceEnds(t *testing.T) {
	t.Parallel()
	p := sim.Standard()
	p.Patience = 10 * time.Minute
	r := run(t, oneHost(t, 1), p, onDemand("a", 0, time.Hour, 1), onDemand("b", 0, time.Hour, 1), spot(t, "c", 0, time.Hour, 1, "0.5"))
	want(t, "gave up", r.Plans[0].GaveUp+r.Plans[1].GaveUp, 2)
	want(t, "seconds", r.Seconds, 3600)
}

func TestWhatDoesNotFitIsCountedAndLeftOut(t *testing.T) {
	t.Parallel()
	r := run(t, oneHost(t, 2), sim.Standard(), onDemand("a", 0, time.Hour, 1), onDemand("b", 0, time.Hour, 4))
	want(t, "left out", r.LeftOut["no host is large enough"], 1)
	want(t, "jobs", r.Plans[0].Jobs, 1)
}

func TestTheEndCutsWhatRuns(t *testing.T) {
	t.Parallel()
	p := sim.Standard()
	p.Until = 30 * time.Minute
	r := run(t, oneHost(t, 2), p, onDemand("a", 0, time.Hour, 1), onDemand("for ever", 0, 0, 1))
	want(t, "cost", r.Plans[0].Cost.String(), "1.000000")
	want(t, "utilisation", r.Utilisation, 10_000)
	want(t, "finished", r.Plans[0].Finished, 0)
}

func files(dir string) func(string) (io.ReadCloser, error) {
	return func(name string) (io.ReadCloser, error) { return os.Open(filepath.Join(dir, name)) }
}

func example(t *testing.T) (sim.Fleet, sim.Policy, sim.Trace) {
	t.Helper()
	f, err := os.Open("../../docs/simulate/fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fleet, policy, err := sim.ReadFleet(f, files("../../docs/simulate"))
	if err != nil {
		t.Fatal(err)
	}
	j, err := os.Open("../../docs/simulate/jobs.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	trace, err := sim.ReadTrace(j, "")
	if err != nil {
		t.Fatal(err)
	}
	return fleet, policy, trace
}

func TestTheSameArgumentsGiveTheSameReport(t *testing.T) {
	t.Parallel()
	var first []byte
	for range 3 {
		f, p, trace := example(t)
		r, err := sim.Run(f, p, trace)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b
		} else if !bytes.Equal(first, b) {
			t.Fatalf("another report:\n%s\n%s", first, b)
		}
	}
	if !strings.Contains(string(first), `"simulation":"SIMULATION: `) {
		t.Errorf("the report does not say that it is a simulation: %s", first)
	}
	f, p, trace := example(t)
	p.Seed++
	r, err := sim.Run(f, p, trace)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := json.Marshal(r); bytes.Equal(first, b) {
		t.Error("the seed makes no difference")
	}
}

// Whatever the trace and the policy, GPU-time is not sold twice, money adds up, and
// bids pay no more than they said.
func TestNothingIsSoldTwiceAndEverythingAddsUp(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		f, p, trace := example(t)
		p.Seed, p.SpotShare = seed, int(seed%5)*2500
		p.Preempt = seed%2 == 0
		p.Round = time.Duration(seed%3) * 30 * time.Second
		r, err := sim.Run(f, p, trace)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "hosts and commission", r.Hosts+r.Commission, r.Revenue)
		want(t, "plans", r.Plans[0].Cost+r.Plans[1].Cost, r.Revenue)
		var ran, sold int64
		for _, m := range r.Models {
			if m.OnDemandGPUSeconds+m.SpotGPUSeconds > m.OfferedGPUSeconds {
				t.Errorf("seed %d: %s ran %d + %d GPU-seconds of %d", seed, m.Model, m.OnDemandGPUSeconds, m.SpotGPUSeconds, m.OfferedGPUSeconds)
			}
			sold += m.OnDemandGPUSeconds + m.SpotGPUSeconds
		}
		for _, plan := range r.Plans {
			ran += plan.GPUSeconds
			want(t, "jobs", plan.Started+plan.GaveUp+plan.Waiting, plan.Jobs)
		}
		want(t, "GPU-seconds of jobs and of models", ran, sold)
		if r.Plans[1].Cost > r.Plans[1].OnDemand {
			t.Errorf("seed %d: spot costs %s, on demand %s", seed, r.Plans[1].Cost, r.Plans[1].OnDemand)
		}
	}
}

func TestFormatsAreRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, in string
		want     []sim.Job
		leftOut  int
	}{
		{"philly", "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,a\n2017-10-09 07:00:00,0.0,1,0,a\n2017-10-09 06:00:00,10.0,4,40,a\n", []sim.Job{
			{ID: "line-4", Submitted: time.Date(2017, 10, 9, 6, 0, 0, 0, time.UTC), Run: 10 * time.Second, GPUs: 4},
			{ID: "line-2", Submitted: time.Date(2017, 10, 9, 7, 1, 55, 0, time.UTC), Run: 66 * time.Second, GPUs: 1}}, 1},
		{"openb", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\np0,1,1,1,460,T4|P100,LS,Running,10,100,40\np1,1,1,0,0,,LS,Running,10,100,40\n", []sim.Job{
			{ID: "p0", Submitted: time.Date(2026, 1, 1, 0, 0, 10, 0, time.UTC), Run: time.Minute, GPUs: 1, Models: []string{"T4", "P100"}}}, 1},
		{"openb without times", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1,1,2,1000\n", []sim.Job{
			{ID: "p0", Submitted: time.Date(2026, 1, 1, 0, 0, 2, 0, time.UTC), GPUs: 2}}, 0},
		{"leases", `{"id":"ls-1","submitted":"2026-03-02T00:00:00Z","start":"2026-03-02T00:01:00Z","end":"2026-03-02T01:01:00Z","gpus":2,"model":"A","plan":"spot","price_per_hour":"1.000000000"}
{"id":"ls-2","submitted":"2026-03-02T00:00:00Z","gpus":1,"model":"A","plan":"on_demand","price_per_hour":"1.0"}
{"id":"ls-3","submitted":"2026-03-02T00:00:00Z","start":"2026-03-02T00:01:00Z","ran_seconds":5,"end":"2026-03-02T01:01:00Z","gpus":1,"model":"A","plan":"reserved","price_per_hour":"1.0"}
`, []sim.Job{
			{ID: "ls-1", Submitted: start, Run: time.Hour, GPUs: 2, Models: []string{"A"}, Plan: pricing.Spot, Bid: 500_000_000},
			{ID: "ls-3", Submitted: start, Run: 5 * time.Second, GPUs: 1, Models: []string{"A"}, Plan: pricing.OnDemand}}, 1},
	} {
		got, err := sim.ReadTrace(strings.NewReader(c.in), "")
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		left := 0
		for _, n := range got.LeftOut {
			left += n
		}
		same := slices.EqualFunc(got.Jobs, c.want, func(a, b sim.Job) bool {
			return a.ID == b.ID && a.Submitted.Equal(b.Submitted) && a.Run == b.Run && a.GPUs == b.GPUs && slices.Equal(a.Models, b.Models) && a.Plan == b.Plan && a.Bid == b.Bid
		})
		if !same || left != c.leftOut {
			t.Errorf("%s: %+v, %d left out, want %+v, %d", c.name, got.Jobs, left, c.want, c.leftOut)
		}
	}
}

func TestWrongInputIsRefusedWithItsPlace(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"hello":                                "want the first line of a trace",
		"timestamp,duration,gpus\n":            `no column "num_gpus"`,
		"timestamp,duration,num_gpus\nx,1,1\n": "line 2",
		"timestamp,duration,num_gpus\n2017-10-09 07:01:55,-1,1\n":  "-1 seconds",
		"timestamp,duration,num_gpus\n2017-10-09 07:01:55,NaN,1\n": "NaN seconds",
		"timestamp,duration,num_gpus\n2017-10-09 07:01:55,1,-1\n":  "-1 GPUs",
		"{\"gpus\":}\n": "line 1",
	} {
		if _, err := sim.ReadTrace(strings.NewReader(in), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
	for in, want := range map[string]string{
		"hosts: []": "want at least one group",
		"hostz: []": "hostz",
		"hosts: [{gpu_model: A, gpus: 1, count: 1, price_per_gpu_hour: free}]":                                        "free",
		"hosts: [{gpu_model: A, gpus: 0, count: 1, price_per_gpu_hour: 1}]":                                           "0 GPUs",
		"hosts: [{gpu_model: A, gpus: 1, count: 1, price_per_gpu_hour: 0}]":                                           "more than 0",
		"hosts: [{gpu_model: A, gpus: 1, count: 1, price_per_gpu_hour: 1}]\ncurrency: XXX":                            "USD or CNY",
		"hosts: [{gpu_model: A, gpus: 1, count: 1, price_per_gpu_hour: 1}]\npolicy: {notice: long}":                   "want a time",
		"hosts: [{gpu_model: A, gpus: 1, count: 1, price_per_gpu_hour: 1}]\npolicy: {spot_share_basis_points: 10001}": "spot share",
		"hosts: [{gpu_model: A, gpus: 1, count: 1, price_per_gpu_hour: 1, churn: absent.csv}]":                        "absent.csv",
	} {
		_, _, err := sim.ReadFleet(strings.NewReader(in), func(name string) (io.ReadCloser, error) {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}

// The parsers are given what people have.
func FuzzTraces(f *testing.F) {
	f.Add([]byte("timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,a\n"))
	f.Add([]byte("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np0,1,1,1,460,T4|P100\n"))
	f.Add([]byte(`{"id":"a","submitted":"2026-03-02T00:00:00Z","start":"2026-03-02T00:00:00Z","gpus":1}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, format := range []string{"", sim.Philly, sim.OpenB, sim.Leases} {
			if trace, err := sim.ReadTrace(bytes.NewReader(in), format); err == nil {
				for _, j := range trace.Jobs {
					if j.GPUs < 1 || j.Run < 0 {
						t.Errorf("%+v", j)
					}
				}
			}
		}
		_, _ = sim.ReadChurn(bytes.NewReader(in))
		_, _ = sim.ReadAllPrices(bytes.NewReader(in), 1)
		_, _, _ = sim.ReadFleet(bytes.NewReader(in), func(string) (io.ReadCloser, error) { return nil, fs.ErrNotExist })
	})
}

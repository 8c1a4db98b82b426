package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/pricing/auction"
	"suanli.dev/internal/sim"
)

// listPrices are AWS's prices on demand in us-east-1 at the time of the traces, by
// type, with how many GPUs an instance has.
var listPrices = map[string]struct {
	perGPU auction.Price
	gpus   int
}{
	"p2.xlarge":  {900_000_000, 1},
	"p3.2xlarge": {3_060_000_000, 1},
	"p3.8xlarge": {3_060_000_000, 4},
}

// spotCost is what simulated renters paid, and what useful work of theirs would have
// cost on demand.
type spotCost struct {
	paid, onDemand money.Amount
	interruptions  int
	jobs, finished int
	ran, lost      int64 // GPU-seconds
}

func (c *spotCost) take(r sim.Report, list auction.Price) error {
	p := r.Plans[1]
	useful, err := money.Rate(list).Times(p.GPUSeconds-p.LostGPUSeconds, 3600)
	if err != nil {
		return err
	}
	c.paid, c.onDemand = c.paid+p.Cost, c.onDemand+useful
	c.interruptions, c.jobs, c.finished = c.interruptions+p.Total(), c.jobs+p.Jobs, c.finished+p.Finished
	c.ran, c.lost = c.ran+p.GPUSeconds, c.lost+p.LostGPUSeconds
	return nil
}

func (c spotCost) String() string {
	return fmt.Sprintf("%d of %d jobs finished, %d interruptions in %d GPU-hours, %d of them lost; paid %s, on demand %s",
		c.finished, c.jobs, c.interruptions, c.ran/3600, c.lost/3600, c.paid.Display(), c.onDemand.Display())
}

// benchSpotReplay replays real spot prices and real coming and going of spot
// machines through the simulator, which is the product's auction and rating, and
// compares with leases on demand. SUANLI_BENCH_SPOT_PRICES is the folder of
// spot-price, SUANLI_BENCH_SPOT_CHURN a file of uclasystem/bamboo, such as
// traces/p3.csv (MIT).
//
// Prices: for each series a host of four GPUs, others who bid the trace's price for
// all of them, and a job of eight hours every six hours, with a bid a twentieth above
// the price at the trace's start. Churn: the hosts of the trace, with a floor of
// 30 % of the price on demand, and 32 jobs of eight hours, one every ten minutes.
// All lose what they did since the last full ten minutes when they are interrupted.
// Ours is all that they pay; the peer is what the work that was not lost costs on
// demand.
func benchSpotReplay(_ context.Context, _ *world) (result, error) {
	files, err := filepath.Glob(filepath.Join(os.Getenv("SUANLI_BENCH_SPOT_PRICES"), "*.json"))
	churnFile := os.Getenv("SUANLI_BENCH_SPOT_CHURN")
	if err != nil || len(files) == 0 || churnFile == "" {
		return result{}, errors.Join(err, errors.New("SUANLI_BENCH_SPOT_PRICES has to name a folder with answers of DescribeSpotPriceHistory, and SUANLI_BENCH_SPOT_CHURN a file of spot churn"))
	}
	policy := sim.Standard()
	policy.Checkpoint = 10 * time.Minute
	var byPrice, byChurn spotCost
	for _, name := range files {
		if err := replayPrices(name, policy, &byPrice); err != nil {
			return result{}, err
		}
	}
	fmt.Printf("prices: %s\n", byPrice)
	f, err := os.Open(churnFile)
	if err != nil {
		return result{}, err
	}
	defer f.Close()
	churn, err := sim.ReadChurn(f)
	if err != nil {
		return result{}, err
	}
	list := listPrices["p3.2xlarge"].perGPU
	r, err := sim.Run(sim.Fleet{
		Currency: money.USD,
		Groups:   []sim.Group{{Name: "p3", Model: "V100", GPUs: 1, Price: list, Floor: auction.FloorRule{OfOnDemand: 3000}, Churn: churn}},
		Demand:   []sim.Demand{{Count: 32, Every: 10 * time.Minute, GPUs: 1, Run: 8 * time.Hour, Plan: pricing.Spot, Bid: list / 2}},
	}, policy, sim.Trace{})
	if err == nil {
		err = byChurn.take(r, list)
	}
	if err != nil {
		return result{}, err
	}
	fmt.Printf("churn: %s\n", byChurn)
	paid, onDemand := byPrice.paid+byChurn.paid, byPrice.onDemand+byChurn.onDemand
	ratio := float64(paid) / float64(onDemand)
	return result{paid.Display() + "USD", onDemand.Display() + "USD", ratio, ratio < 1}, nil
}

func replayPrices(name string, policy sim.Policy, sum *spotCost) error {
	for instance, list := range listPrices {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		all, err := sim.ReadAllPrices(f, list.gpus)
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, series := range slices.Sorted(maps.Keys(all)) {
			if !strings.HasPrefix(series, instance+" ") {
				continue
			}
			points := all[series]
			lasts := points[len(points)-1].At.Sub(points[0].At)
			r, err := sim.Run(sim.Fleet{
				Currency: money.USD,
				Groups:   []sim.Group{{Name: "spot", Count: 1, Model: instance, GPUs: 4, Price: list.perGPU}},
				Others:   []sim.Others{{Model: instance, Prices: points}},
				Demand: []sim.Demand{{Count: max(1, int(lasts/(6*time.Hour))-1), Every: 6 * time.Hour, GPUs: 1, Run: 8 * time.Hour, Plan: pricing.Spot,
					Bid: points[0].Price + points[0].Price/20}},
			}, policy, sim.Trace{})
			if err != nil {
				return fmt.Errorf("%s: %w", series, err)
			}
			var own spotCost
			if err := errors.Join(own.take(r, list.perGPU), sum.take(r, list.perGPU)); err != nil {
				return err
			}
			fmt.Printf("  %-22s %s\n", series, own)
		}
	}
	return nil
}

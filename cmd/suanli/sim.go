package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/internal/pricing"
	"suanli.dev/internal/pricing/auction"
	"suanli.dev/internal/sim"
)

func simCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "sim", Short: tr("Simulate a cloud on a trace of demand (operator)")}
	cmd.AddCommand(simRunCommand(), simExportCommand())
	return cmd
}

func simRunCommand() *cobra.Command {
	var fleetFile, format, granularity, floor string
	var spotShare, floorShare int
	var minimum int64
	var seed uint64
	var noPreempt bool
	var notice, minRun, until, patience time.Duration
	cmd := &cobra.Command{
		Use: "run [FILE]", Short: tr("Replay a trace on a fleet, and say what it would have earned"), Args: cobra.MaximumNArgs(1),
		Long: tr("FILE is a trace of jobs: leases that suanli sim export wrote, or a public trace (docs/simulate.md says which). Without it, the fleet's own demand is run. Nothing is rented, and no cloud is asked."),
		Example: `  suanli sim run jobs.csv --fleet fleet.yaml
  suanli sim run leases.jsonl --fleet fleet.yaml --spot-share 5000 --notice 30s --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if fleetFile == "" {
				return usageError{fmt.Errorf("%s", tr("no fleet is named: give --fleet FILE"))}
			}
			f, p, err := readFleet(fleetFile)
			if err != nil {
				return usageError{err}
			}
			given := cmd.Flags().Changed
			if given("granularity") {
				p.Granularity = pricing.Granularity(granularity)
			}
			if given("minimum-seconds") {
				p.MinimumSeconds = minimum
			}
			if given("spot-share") {
				p.SpotShare = spotShare
			}
			for name, to := range map[string]struct{ to, from *time.Duration }{
				"notice": {&p.Market.Notice, &notice}, "minimum-run": {&p.Market.MinRun, &minRun},
				"until": {&p.Until, &until}, "patience": {&p.Patience, &patience},
			} {
				if given(name) {
					*to.to = *to.from
				}
			}
			if given("no-preempt") {
				p.Preempt = !noPreempt
			}
			p.Seed = seed
			if given("floor") || given("floor-share") {
				rule := auction.FloorRule{OfOnDemand: floorShare}
				if floor != "" {
					if rule.Fixed, err = auction.ParsePrice(floor); err != nil {
						return usageError{err}
					}
				}
				if err := rule.Validate(); err != nil {
					return usageError{err}
				}
				for i := range f.Groups {
					f.Groups[i].Floor = rule
				}
			}
			var trace sim.Trace
			if len(args) == 1 {
				if trace, err = readTrace(args[0], format); err != nil {
					return usageError{err}
				}
			}
			r, err := sim.Run(f, p, trace)
			if err != nil {
				return usageError{err}
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, r)
			}
			printSimulation(cmd, r)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&fleetFile, "fleet", "", tr("file that describes hosts, prices and policy, in YAML"))
	flags.StringVar(&format, "format", "", tr("the trace's: philly, openb or leases (default: what its first line looks like)"))
	flags.Uint64Var(&seed, "seed", 1, tr("what the trace leaves open is drawn from it"))
	flags.StringVar(&granularity, "granularity", "", tr("what running time is counted in: second, minute or hour"))
	flags.Int64Var(&minimum, "minimum-seconds", 0, tr("seconds that each start on demand is charged for at least"))
	flags.IntVar(&spotShare, "spot-share", 0, tr("how many of the jobs without a plan bid, in 1/100 of a per cent"))
	flags.StringVar(&floor, "floor", "", tr("floor of all hosts, per GPU and hour"))
	flags.IntVar(&floorShare, "floor-share", 0, tr("floor of all hosts, in 1/100 of a per cent of the price on demand"))
	flags.DurationVar(&notice, "notice", 0, tr("how long who is outbid goes on running"))
	flags.DurationVar(&minRun, "minimum-run", 0, tr("how long nobody can be outbid after a start"))
	flags.DurationVar(&until, "until", 0, tr("end so long after the start (default: when nothing is left to happen)"))
	flags.DurationVar(&patience, "patience", 0, tr("how long a job waits for its first start (default: for ever)"))
	flags.BoolVar(&noPreempt, "no-preempt", false, tr("leases on demand do not get GPUs that bids hold"))
	return cmd
}

// readFleet reads a description; the files that it names lie beside it.
func readFleet(name string) (sim.Fleet, sim.Policy, error) {
	r, err := os.Open(name)
	if err != nil {
		return sim.Fleet{}, sim.Policy{}, err
	}
	defer r.Close()
	return sim.ReadFleet(r, func(other string) (io.ReadCloser, error) {
		if !filepath.IsAbs(other) {
			other = filepath.Join(filepath.Dir(name), other)
		}
		return os.Open(other)
	})
}

func readTrace(name, format string) (sim.Trace, error) {
	r, err := os.Open(name)
	if err != nil {
		return sim.Trace{}, err
	}
	defer r.Close()
	t, err := sim.ReadTrace(r, format)
	if err != nil {
		return t, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

func printSimulation(cmd *cobra.Command, r sim.Report) {
	say(cmd, "SIMULATION, with the seed %d: nobody rented or paid anything.", r.Seed)
	say(cmd, "%d jobs in %s of the trace's time, %d rounds of the market", r.Jobs, time.Duration(r.Seconds)*time.Second, r.Rounds)
	for _, why := range slices.Sorted(maps.Keys(r.LeftOut)) {
		say(cmd, "left out: %d (%s)", r.LeftOut[why], word(why))
	}
	out := cmd.OutOrStdout()
	t := newTable(tr("REVENUE"), r.Revenue.Display()+" "+string(r.Currency))
	t.add(tr("HOSTS EARN"), r.Hosts.Display())
	t.add(tr("COMMISSION"), r.Commission.Display())
	t.add(tr("UTILISATION"), percent(r.Utilisation))
	t.print(out)
	fmt.Fprintln(out)
	t = newTable(tr("PLAN"), tr("JOBS"), tr("STARTED"), tr("FINISHED"), tr("GAVE UP"), tr("WAITING"), tr("GPU-HOURS"), tr("COST"), tr("ON DEMAND"), tr("INTERRUPTED"), tr("EVICTED"), tr("WAIT p50 p90 p99"))
	for _, p := range r.Plans {
		t.add(word(p.Plan), p.Jobs, p.Started, p.Finished, p.GaveUp, p.Waiting, hours(p.GPUSeconds), p.Cost.Display(), p.OnDemand.Display(), p.Total(), p.Evictions(),
			fmt.Sprint(short(p.Wait.P50Seconds), " ", short(p.Wait.P90Seconds), " ", short(p.Wait.P99Seconds)))
	}
	t.print(out)
	fmt.Fprintln(out)
	t = newTable(tr("MODEL"), tr("GPU-HOURS OFFERED"), tr("ON DEMAND"), tr("SPOT"), tr("UTILISATION"), tr("SPOT PRICE p10 p50 p90, BY BUNDLE"))
	for _, m := range r.Models {
		var prices []string
		for _, g := range m.Spot {
			prices = append(prices, fmt.Sprintf("%d×: %s %s %s", g.GPUs, g.P10.Display(), g.P50.Display(), g.P90.Display()))
		}
		t.add(m.Model, hours(m.OfferedGPUSeconds), hours(m.OnDemandGPUSeconds), hours(m.SpotGPUSeconds), percent(m.Utilisation), strings.Join(prices, "; "))
	}
	t.print(out)
}

// percent writes basis points, hours seconds in hours, both rounded down.
func percent(basisPoints int64) string {
	return fmt.Sprintf("%d.%02d %%", basisPoints/100, basisPoints%100)
}
func hours(seconds int64) string { return fmt.Sprintf("%d.%d", seconds/3600, seconds%3600/360) }

func short(seconds int64) string { return (time.Duration(seconds) * time.Second).String() }

func simExportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "export", Short: tr("Write what was rented in this cloud as a trace, a line of JSON for each lease (operator)"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			lines := json.NewEncoder(cmd.OutOrStdout())
			lines.SetEscapeHTML(false)
			for cursor := ""; ; {
				p, err := c.Demand(cmd.Context(), cursor, 200)
				if err != nil {
					return err
				}
				for _, d := range p.Items {
					if err := lines.Encode(d); err != nil {
						return err
					}
				}
				if cursor = p.NextCursor; cursor == "" {
					return nil
				}
			}
		},
	}
}

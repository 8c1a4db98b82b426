package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

func launchCommand() *cobra.Command {
	var in api.RunCreate
	var cluster string
	var env []string
	var detach bool
	cmd := &cobra.Command{
		Use: "launch -- COMMAND…", Short: tr("Run a command on all nodes of a cluster; exits with the code of the rank that fails"), Args: cobra.MinimumNArgs(1),
		Long: tr("Each node runs the command once for each of its GPUs, with RANK, WORLD_SIZE, MASTER_ADDR and the like set; torchrun, which starts processes itself, wants --procs-per-node 1. What all ranks print comes as one stream, each line with its rank before it. When one fails, the others are told and ended."),
		Example: `  suanli launch --cluster train -- python train.py
  suanli launch --cluster train --procs-per-node 1 --policy restart --max-restarts 3 --end -- sh -c 'torchrun $SUANLI_TORCHRUN_ARGS train.py'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			if in.Environment, err = pairs("--env", env); err != nil {
				return err
			}
			if cluster == "" {
				if cluster, err = onlyCluster(cmd.Context(), c); err != nil {
					return err
				}
			}
			in.Command = args
			r, err := c.CreateRun(cmd.Context(), cluster, in)
			if err != nil {
				return err
			}
			if detach {
				return done(cmd, r, "Run %s is %s; see what it prints with: suanli cluster logs %s", r.ID, word("run_"+r.State), r.ID)
			}
			out := cmd.OutOrStdout()
			if wantsJSON(cmd) {
				out = cmd.ErrOrStderr() // the result is the run
			}
			if r, err = followRun(cmd.Context(), c, r.ID, out); err != nil {
				return err
			}
			if wantsJSON(cmd) {
				err = printJSON(cmd, r)
			} else if r.State != "succeeded" {
				warn(cmd, "Run %s: %s: %s", r.ID, word("run_"+r.State), r.Message)
			}
			if err == nil && r.ExitCode != nil && *r.ExitCode != 0 {
				err = exitError{*r.ExitCode}
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&cluster, "cluster", "", tr("cluster to run it on (default: your only one)"))
	f.StringArrayVarP(&env, "env", "e", nil, tr("environment variable NAME=VALUE; may be repeated"))
	f.IntVar(&in.ProcsPerNode, "procs-per-node", 0, tr("processes on each node (default: one for each GPU)"))
	f.StringVar(&in.Policy, "policy", "", tr("when a rank fails: fail, restart or replace (default: the cluster's)"))
	f.IntVar(&in.MaxRestarts, "max-restarts", 0, tr("how often all ranks begin again at most"))
	f.BoolVar(&in.EndCluster, "end", false, tr("end the cluster when the run is over, however it ends"))
	f.BoolVarP(&detach, "detach", "d", false, tr("return at once"))
	f.SetInterspersed(false)
	return cmd
}

// onlyCluster is the cluster that is meant when none is named.
func onlyCluster(ctx context.Context, c *api.Client) (string, error) {
	list, err := c.Clusters(ctx, true)
	if err != nil {
		return "", err
	}
	list = slices.DeleteFunc(list, func(k api.Cluster) bool { return k.State == "ending" || k.State == "failing" })
	if len(list) != 1 {
		return "", usageError{errors.New(tr("you have %d clusters; name one with --cluster", len(list)))}
	}
	return list[0].ID, nil
}

// followRun copies what a run prints until it is over, and returns it then.
func followRun(ctx context.Context, c *api.Client, id string, out io.Writer) (*api.Run, error) {
	log, err := c.RunLogs(ctx, id, true)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(out, log)
	log.Close()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		r, rerr := c.Run(ctx, id)
		if rerr != nil {
			return nil, cmp.Or(rerr, err)
		}
		if r.EndedAt != nil {
			return r, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// clusterRunCommands are the commands about runs.
func clusterRunCommands() []*cobra.Command {
	var follow bool
	logs := &cobra.Command{
		Use: "logs RUN", Short: tr("What all ranks of a run print, in one stream"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			log, err := c.RunLogs(cmd.Context(), args[0], follow)
			if err != nil {
				return err
			}
			defer log.Close()
			if wantsJSON(cmd) {
				return printLines(cmd, log)
			}
			_, err = io.Copy(cmd.OutOrStdout(), log)
			return err
		},
	}
	logs.Flags().BoolVarP(&follow, "follow", "f", false, tr("go on until it ends"))
	return []*cobra.Command{
		showing("runs CLUSTER", tr("List the runs of a cluster"), cobra.ExactArgs(1),
			func(cmd *cobra.Command, c *api.Client, args []string) ([]api.Run, error) {
				return c.Runs(cmd.Context(), args[0])
			}, func(cmd *cobra.Command, list []api.Run) {
				t := newTable(tr("RUN"), tr("STATE"), tr("ATTEMPT"), tr("SINCE"), tr("WHY"))
				for _, r := range list {
					t.add(r.ID, word("run_"+r.State), fmt.Sprint(r.Attempt+1), r.SinceAt.Local().Format(time.DateTime), r.Message)
				}
				t.print(cmd.OutOrStdout())
			}),
		logs,
		showing("stop-run RUN", tr("End a run; its cluster stays"), cobra.ExactArgs(1),
			func(cmd *cobra.Command, c *api.Client, args []string) (*api.Run, error) {
				return c.StopRun(cmd.Context(), args[0])
			}, func(cmd *cobra.Command, r *api.Run) { say(cmd, "Run %s is %s", r.ID, word("run_"+r.State)) }),
		clusterCheckCommand(),
	}
}

// nodeSpeed is what one node measured; see suanli instance allreduce.
type nodeSpeed struct {
	Node      int     `json:"node"`
	Nodes     int     `json:"nodes"`
	Bytes     int64   `json:"bytes"`
	Seconds   float64 `json:"seconds"`
	BusMbps   float64 `json:"bus_mbps"`
	LatencyMS float64 `json:"latency_ms"`
	Correct   bool    `json:"correct"`
}

func clusterCheckCommand() *cobra.Command {
	var mib, rounds int
	cmd := &cobra.Command{
		Use: "check CLUSTER", Short: tr("Measure the network between a cluster's nodes by an all-reduce"), Args: cobra.ExactArgs(1),
		Long: tr("All nodes sum a vector in a ring over the private network, as training does. What a node could carry is told as NCCL's tests reckon it (bus bandwidth)."),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			r, err := c.CreateRun(cmd.Context(), args[0], api.RunCreate{Command: []string{"/.suanli/suanli", "instance", "allreduce", fmt.Sprint(mib), fmt.Sprint(rounds)}, ProcsPerNode: 1, Policy: "fail"})
			if err != nil {
				return err
			}
			var log bytes.Buffer
			if r, err = followRun(cmd.Context(), c, r.ID, &log); err != nil {
				return err
			}
			if r.State != "succeeded" {
				return errors.New(tr("the check did not end well: %s\n%s", r.Message, log.String()))
			}
			speeds := []nodeSpeed{}
			for in := bufio.NewScanner(&log); in.Scan(); {
				_, text, _ := strings.Cut(in.Text(), "] ")
				var s nodeSpeed
				if json.Unmarshal([]byte(text), &s) == nil && s.Nodes > 0 {
					speeds = append(speeds, s)
				}
			}
			slices.SortFunc(speeds, func(a, b nodeSpeed) int { return cmp.Compare(a.Node, b.Node) })
			if wantsJSON(cmd) {
				return printJSON(cmd, speeds)
			}
			t := newTable(tr("NODE"), tr("BUS BANDWIDTH"), tr("LATENCY"), tr("CORRECT"))
			for _, s := range speeds {
				t.add(fmt.Sprint(s.Node), fmt.Sprintf("%.0f Mbit/s", s.BusMbps), fmt.Sprintf("%.2f ms", s.LatencyMS), yesNo(s.Correct))
			}
			t.print(cmd.OutOrStdout())
			return nil
		},
	}
	cmd.Flags().IntVar(&mib, "mib", 64, tr("size of the vector, in MiB"))
	cmd.Flags().IntVar(&rounds, "rounds", 3, tr("how often; the fastest counts"))
	return cmd
}

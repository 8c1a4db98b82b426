package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// benchmark is one line of results.
type benchmark struct {
	name string
	goal string
	run  func(ctx context.Context, w *world) (result, error)
}

// result is what a benchmark found. Ours and Peer carry their unit.
type result struct {
	ours, peer string
	ratio      float64
	pass       bool
}

var benchmarks = []benchmark{
	{"size", "<peer", benchSize},
	{"start", "<2000ms", benchStart},
	{"idle", "<150MB", benchIdle},
	{"idle-agent", "<60MB", benchIdleAgent},
	{"rent", "<=peer+300ms", benchRent},
	{"stop", "<=peer+300ms", benchStop},
	{"http", ">=0.30xnginx", benchHTTP},
	{"http-latency", "p50<=nginx+1ms", benchHTTPLatency},
	{"ssh", ">=0.40xOpenSSH", benchSSH},
	{"search", "p99<10ms", benchSearch},
	{"agents", "<100%core", benchAgents},
	{"metering", "<1commit/s", benchMetering},
	{"auction", "<100ms", benchAuction},
	{"auction-welfare", ">=95%optimum", benchWelfare},
	{"spot-price", ">=90%ran", benchSpotPrice},
	{"spot-advice", ">=95%held", benchSpotAdvice},
	{"spot-replay", "<on-demand", benchSpotReplay},
	{"openb", ">=FGD+1", benchOpenb},
	{"placement-speed", "<2x1000hosts,gang<10ms", benchPlacementSpeed},
	{"kube-scheduler", "<=1/20peer", benchKubeScheduler},
	{"slurm", "<=1/20peer", benchSlurm},
	{"philly", "<=best,use,near", benchPhilly},
	{"lingjun", "<=best,use,near", benchLingjun},
	{"month-end", "<300s,<=1.5xlinear", benchMonthEnd},
	{"ledger-sqlite", ">=fsync", benchLedgerSQLite},
	{"ledger-postgres", ">=fsync", benchLedgerPostgres},
	{"ledger-formance", ">=10xFormance", benchFormance},
	{"ledger-bulk", ">=10xFormance", benchFormanceBulk},
}

// scratch names the folder of a run, for the process inside the namespace.
const scratch = "SUANLI_BENCH_DIR"

func main() {
	if len(os.Args) > 2 && os.Args[1] == "payload" {
		os.Exit(payload(os.Args[2:]))
	}
	list := flag.Bool("list", false, "list the benchmarks")
	flag.Parse()
	if *list {
		for _, b := range benchmarks {
			fmt.Printf("%-14s goal %s\n", b.name, b.goal)
		}
		return
	}
	for _, name := range flag.Args() {
		if !slices.ContainsFunc(benchmarks, func(b benchmark) bool { return b.name == name }) {
			fmt.Fprintf(os.Stderr, "bench: there is no benchmark %q; -list shows them\n", name)
			os.Exit(2)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if dir := os.Getenv(scratch); dir != "" {
		err = inside(ctx, dir, flag.Args())
	} else {
		err = outside(ctx, flag.Args())
	}
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			os.Exit(exit.ExitCode())
		}
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// outside builds the binaries and starts the run in namespaces of its own.
func outside(ctx context.Context, names []string) error {
	if os.Geteuid() != 0 {
		return errors.New("run it as root: it makes network namespaces, disks and containers")
	}
	dir, err := os.MkdirTemp("", "suanli-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for out, pkg := range map[string]string{"suanli": "./cmd/suanli", "bench": "./bench"} {
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", filepath.Join(dir, out), pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("build %s (run from the repository's root): %w", pkg, err)
		}
	}
	cmd := exec.Command(filepath.Join(dir, "bench"), names...)
	cmd.Env = append(os.Environ(), scratch+"="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// In its own process group it gets an interrupt once, from us.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start in a network namespace: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })()
	return cmd.Wait()
}

func inside(ctx context.Context, dir string, names []string) error {
	for _, line := range []string{"mount --make-rprivate /", "ip link set lo up"} {
		args := strings.Fields(line)
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", line, err, out)
		}
	}
	w := &world{dir: dir, suanli: filepath.Join(dir, "suanli"), self: filepath.Join(dir, "bench")}
	defer w.close()
	fmt.Println(machine())
	failed := 0
	for _, b := range benchmarks {
		if len(names) > 0 && !slices.Contains(names, b.name) {
			continue
		}
		fmt.Printf("== %s (load %s)\n", b.name, load())
		r, err := b.run(ctx, w)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed++
			fmt.Printf("%s could not be measured: %v\n", b.name, err)
			w.showLogs()
			continue
		}
		verdict := "SHORT"
		if r.pass {
			verdict = "PASS"
		}
		fmt.Printf("RESULT %s %s %s %.4f %s %s\n", b.name, r.ours, r.peer, r.ratio, b.goal, verdict)
	}
	if failed > 0 {
		return fmt.Errorf("%d could not be measured", failed)
	}
	return nil
}

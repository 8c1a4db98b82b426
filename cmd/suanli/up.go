package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"suanli.dev/internal/agent"
	"suanli.dev/internal/agent/gpu"
	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/agent/tunnel"
	"suanli.dev/internal/config"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/server"
)

// settingFlags adds a flag for each setting.
func settingFlags(cmd *cobra.Command) {
	cmd.Flags().String("config", "", tr("configuration file (YAML)"))
	for _, s := range config.Settings() {
		cmd.Flags().String(s.Flag(), "", settingDoc(s)+" "+tr("(default %q)", s.Default))
	}
}

// settingDoc says what a setting does, in the language chosen.
func settingDoc(s config.Setting) string {
	if chinese {
		return s.DocZH
	}
	return s.Doc
}

// settings reads the configuration that the command line asks for.
func settings(cmd *cobra.Command) (*config.Config, error) {
	flags := map[string]string{}
	for _, s := range config.Settings() {
		if cmd.Flags().Changed(s.Flag()) {
			v, err := cmd.Flags().GetString(s.Flag())
			if err != nil {
				return nil, err
			}
			flags[s.Key] = v
		}
	}
	path, err := cmd.Flags().GetString("config")
	if err != nil {
		return nil, err
	}
	cfg, err := config.Load(path, os.LookupEnv, flags)
	if err != nil {
		return nil, usageError{err}
	}
	return cfg, nil
}

func newLog(cfg *config.Config, w io.Writer) *slog.Logger {
	var level slog.Level
	// The configuration was checked: the word is one of slog's.
	_ = level.UnmarshalText([]byte(cfg.LogLevel))
	opts := &slog.HandlerOptions{Level: level}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

func upCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "up", Short: tr("Run a whole cloud on this machine: control plane, gateway and agent"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runCloud(cmd, true) },
	}
	settingFlags(cmd)
	return cmd
}

func serverCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "server", Short: tr("Run the control plane and the gateway, without an agent"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runCloud(cmd, false) },
	}
	settingFlags(cmd)
	return cmd
}

func runCloud(cmd *cobra.Command, withAgent bool) error {
	cfg, err := settings(cmd)
	if err != nil {
		return err
	}
	if withAgent {
		if err := cfg.CheckOwnAgent(); err != nil {
			return usageError{err}
		}
	}
	log := newLog(cfg, cmd.ErrOrStderr())
	for _, w := range cfg.Warnings() {
		log.Warn(w.Error())
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	cloud, err := server.OpenCloud(ctx, cfg, version, log)
	if err != nil {
		return err
	}
	defer cloud.Close()
	apiAddress, agentAddress, sshAddress := cloud.Addresses()
	log.Info("cloud is up", "api", cfg.APIURL(), "listen", apiAddress, "agents", agentAddress, "ssh", sshAddress, "data", cfg.DataDir)
	var local sync.WaitGroup
	if withAgent {
		local.Go(func() {
			if err := runLocalAgent(ctx, cfg, cloud, agentAddress, log.With("part", "agent")); err != nil && ctx.Err() == nil {
				log.Error("the agent of this machine ended; the cloud goes on without it", "error", err)
			}
		})
	}
	err = cloud.Run(ctx)
	cancel()
	local.Wait()
	return err
}

// runLocalAgent enrols this machine with its own cloud, once, and runs its agent.
func runLocalAgent(ctx context.Context, cfg *config.Config, cloud *server.Cloud, address string, log *slog.Logger) error {
	if os.Geteuid() != 0 {
		return errors.New("an agent needs root for disks, networks and devices of instances; run as root, or run suanli server and join other machines")
	}
	dir := filepath.Join(cfg.DataDir, "agent")
	id, err := agent.ReadIdentity(dir)
	if errors.Is(err, os.ErrNotExist) {
		admin, aerr := cloud.FirstOperator(ctx)
		if aerr != nil {
			return aerr
		}
		name, _ := os.Hostname()
		token, _, terr := cloud.Fleet.CreateJoinToken(ctx, admin, fleet.JoinToken{Name: name})
		if terr != nil {
			return terr
		}
		id, err = tunnel.Enrol(ctx, loopback(address), token, tunnel.Machine{Name: name, Build: version, Simulated: cfg.Simulate != ""})
		if err != nil {
			return err
		}
		if err := agent.WriteIdentity(dir, id); err != nil {
			return err
		}
		log.InfoContext(ctx, "this machine joined its own cloud", "host", id.HostID)
	} else if err != nil {
		return err
	}
	id.Address = loopback(address)
	return runAgent(ctx, cfg, dir, id, log)
}

// loopback is where this machine reaches a listener of its own.
func loopback(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// engineFile is in an agent's folder and has the address of its container engine,
// so that suanli doctor asks the same one. It is for people's convenience only.
const engineFile = "engine"

// runAgent runs an agent with an identity until ctx ends.
func runAgent(ctx context.Context, cfg *config.Config, dir string, id tunnel.Identity, log *slog.Logger) error {
	address := cfg.Docker
	if address == "" {
		address = os.Getenv("DOCKER_HOST")
	}
	if err := os.WriteFile(filepath.Join(dir, engineFile), []byte(address+"\n"), 0o600); err != nil {
		return err
	}
	inner, err := runtime.ParseInnerRegistries(cfg.InnerRegistries)
	if err != nil {
		return usageError{err}
	}
	last := "" // address that was connected to
	c := agent.Config{
		Elsewhere:       len(tunnel.Addresses(id.Address)) > 1,
		InnerRegistries: inner, ImageMiB: cfg.ImageCacheGiB << 10,
		Dir: dir, HostID: id.HostID, Simulate: cfg.Simulate, DockerHost: cfg.Docker, Isolation: cfg.Isolation, Table: cfg.FirewallTable, Log: log,
		Connect: func(ctx context.Context) (agent.Connection, error) {
			t, err := tunnel.Dial(ctx, tunnel.Config{Identity: id, Last: last, Log: log})
			if err != nil {
				return agent.Connection{}, err
			}
			last = t.Address()
			return agent.Connection{Bus: t, Streams: t, Done: t.Done(), Close: t.Close}, nil
		},
	}
	if cfg.DirectPorts != "" {
		host, first, last, err := config.ParsePortRange(cfg.DirectPorts)
		if err != nil {
			return err
		}
		c.DirectPorts = &protocol.PortRange{Address: host, First: first, Last: last}
	}
	if cfg.Runtime == "kubernetes" {
		if err := useCluster(&c, cfg, dir); err != nil {
			return err
		}
	}
	err = agent.Run(ctx, c)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // it was asked to stop, and did
	}
	return err
}

func agentCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "agent", Short: tr("Offer this machine's GPUs to a cloud")}
	var token string
	join := &cobra.Command{
		Use: "join ADDRESS", Short: tr("Join a cloud with a one-time token, then run the agent"), Args: cobra.ExactArgs(1),
		Long: tr("ADDRESS is the host:port that agents dial (agent_listen of the cloud). The token comes from suanli host token."),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := settings(cmd)
			if err != nil {
				return err
			}
			if token == "" {
				return usageError{errors.New(tr("give --token; the cloud makes one with suanli host token"))}
			}
			if cfg.Simulate != "" && !slices.Contains(gpu.Machines(), cfg.Simulate) {
				return usageError{errors.New(tr("no machine %q can be simulated; there are: %s", cfg.Simulate, strings.Join(gpu.Machines(), ", ")))}
			}
			if err := checkCluster(cfg); err != nil {
				return err
			}
			dir := filepath.Join(cfg.DataDir, "agent")
			if id, err := agent.ReadIdentity(dir); err == nil {
				return fault.New(fault.Conflict, "already_joined", "this machine is host %s of the cloud at %s already; run suanli agent run, or remove %s to join anew", id.HostID, id.Address, dir)
			}
			name, _ := os.Hostname()
			id, err := tunnel.Enrol(cmd.Context(), args[0], token, tunnel.Machine{Name: name, Build: version, Simulated: cfg.Simulate != ""})
			if err != nil {
				return err
			}
			if err := agent.WriteIdentity(dir, id); err != nil {
				return err
			}
			if err := done(cmd, map[string]string{"host_id": id.HostID}, "joined as host %s", id.HostID); err != nil {
				return err
			}
			return runAgent(cmd.Context(), cfg, dir, id, newLog(cfg, cmd.ErrOrStderr()))
		},
	}
	join.Flags().StringVar(&token, "token", "", tr("one-time token"))
	var first, tokenFile string
	run := &cobra.Command{
		Use: "run", Short: tr("Run the agent of a machine that has joined"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := settings(cmd)
			if err != nil {
				return err
			}
			if err := checkCluster(cfg); err != nil {
				return err
			}
			dir := filepath.Join(cfg.DataDir, "agent")
			id, err := agent.ReadIdentity(dir)
			if errors.Is(err, os.ErrNotExist) && first != "" {
				id, err = joinFirst(cmd.Context(), cfg, dir, first, tokenFile)
				if err != nil {
					return err
				}
			}
			if err != nil {
				return errors.New(tr("this machine has not joined a cloud: run suanli agent join first (%s)", err))
			}
			id.Address = cmp.Or(cfg.CloudAddress, id.Address)
			return runAgent(cmd.Context(), cfg, dir, id, newLog(cfg, cmd.ErrOrStderr()))
		},
	}
	run.Flags().StringVar(&first, "join", "", tr("cloud to join first, if this machine has not joined one: host:port"))
	run.Flags().StringVar(&tokenFile, "token-file", "", tr("file with the one-time token of --join"))
	for _, c := range []*cobra.Command{join, run} {
		settingFlags(c)
		cmd.AddCommand(c)
	}
	return cmd
}

func configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: tr("Look at the configuration")}
	check := &cobra.Command{
		Use: "check", Short: tr("Check the configuration and explain it"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := settings(cmd)
			if err != nil {
				return err
			}
			if try, _ := cmd.Flags().GetBool("try-s3"); try {
				if err := server.TryObjectStore(cmd.Context(), cfg); err != nil {
					return err
				}
			}
			values := cfg.Values()
			if wantsJSON(cmd) {
				warnings := []string{}
				for _, w := range cfg.Warnings() {
					warnings = append(warnings, w.Error())
				}
				return printJSON(cmd, map[string]any{"settings": values, "warnings": warnings})
			}
			t := newTable(tr("SETTING"), tr("VALUE"), tr("WHAT IT DOES"))
			for _, s := range config.Settings() {
				t.add(s.Key, values[s.Key], settingDoc(s))
			}
			t.print(cmd.OutOrStdout())
			for _, w := range cfg.Warnings() {
				say(cmd, "warning: %s", explained(w))
			}
			say(cmd, "The configuration is valid.")
			return nil
		},
	}
	settingFlags(check)
	check.Flags().Bool("try-s3", false, tr("also write, read and remove a small object in the bucket of snapshots"))
	cmd.AddCommand(check)
	return cmd
}

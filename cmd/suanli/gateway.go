package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
	"suanli.dev/internal/agent"
	"suanli.dev/internal/agent/tunnel"
	"suanli.dev/internal/config"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/gateway"
)

func gatewayCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "gateway", Short: tr("Gateways at other places, by which renters reach instances")}
	var in api.CreateGatewayToken
	create := joinToken(tr("Make a one-time token for a gateway to join (operator)"), func(ctx context.Context, c *api.Client, valid int64) (*api.JoinToken, error) {
		in.ExpiresInSeconds = valid
		return c.CreateGatewayToken(ctx, in)
	})
	create.Flags().StringVar(&in.Name, "name", "", tr("name of the gateway"))
	list := listing("list", tr("List gateways that have joined (operator)"),
		func(ctx context.Context, c *api.Client) ([]api.Gateway, error) { return c.Gateways(ctx) },
		[]string{tr("NAME"), tr("ID"), tr("VERSION"), tr("JOINED")},
		func(g api.Gateway) []any {
			return []any{g.Name, g.ID, g.Build, g.CreatedAt.Local().Format(time.DateTime)}
		})
	remove := removal("remove GATEWAY", tr("Turn a gateway away for good (operator)"), itself, (*api.Client).RemoveGateway,
		func(id string) string { return tr("gateway %s is removed", id) })
	var token string
	join := &cobra.Command{
		Use: "join ADDRESS", Short: tr("Join a cloud with a one-time token, then run the gateway"), Args: cobra.ExactArgs(1),
		Long: tr("ADDRESS is the host:port that agents dial (agent_listen of the cloud). The token comes from suanli gateway token. SSH is served at ssh_listen and instances' ports at listen, under apps_domain."),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := settings(cmd)
			if err != nil {
				return err
			}
			if token == "" {
				return usageError{errors.New(tr("give --token; the cloud makes one with suanli gateway token"))}
			}
			dir := gatewayDir(cfg)
			if id, err := agent.ReadIdentity(dir); err == nil {
				return fault.New(fault.Conflict, "already_joined", "this machine is gateway %s of the cloud at %s already; run suanli gateway run, or remove %s to join anew", id.HostID, id.Address, dir)
			}
			// What is taken is said before the token is used up.
			at, err := listenSite(cfg)
			if err != nil {
				return err
			}
			name, _ := os.Hostname()
			id, err := tunnel.Enrol(cmd.Context(), args[0], token, tunnel.Machine{Name: name, Build: version, Gateway: true})
			if err == nil {
				err = agent.WriteIdentity(dir, id)
			}
			if err != nil {
				at.close()
				return err
			}
			joined := map[string]string{"gateway_id": id.HostID, "ssh": at.ssh.Addr().String(), "http": at.http.Addr().String()}
			if err := done(cmd, joined, "joined as gateway %s", id.HostID); err != nil {
				at.close()
				return err
			}
			return runSite(cmd.Context(), cfg, id, at, newLog(cfg, cmd.ErrOrStderr()))
		},
	}
	join.Flags().StringVar(&token, "token", "", tr("one-time token"))
	run := &cobra.Command{
		Use: "run", Short: tr("Run the gateway of a machine that has joined"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := settings(cmd)
			if err != nil {
				return err
			}
			id, err := agent.ReadIdentity(gatewayDir(cfg))
			if err != nil {
				return errors.New(tr("this machine has not joined a cloud: run suanli gateway join first (%s)", err))
			}
			id.Address = cmp.Or(cfg.CloudAddress, id.Address)
			at, err := listenSite(cfg)
			if err != nil {
				return err
			}
			return runSite(cmd.Context(), cfg, id, at, newLog(cfg, cmd.ErrOrStderr()))
		},
	}
	for _, c := range []*cobra.Command{join, run} {
		settingFlags(c)
	}
	cmd.AddCommand(create, list, remove, join, run)
	return cmd
}

func gatewayDir(cfg *config.Config) string { return filepath.Join(cfg.DataDir, "gateway") }

// site is where a gateway listens.
type site struct{ ssh, http net.Listener }

func (s site) close() {
	s.ssh.Close()
	s.http.Close()
}

func listenSite(cfg *config.Config) (site, error) {
	var s site
	var err error
	if s.ssh, err = net.Listen("tcp", cfg.SSHListen); err != nil {
		return s, fmt.Errorf("ssh_listen: %w", err)
	}
	if s.http, err = net.Listen("tcp", cfg.Listen); err != nil {
		s.ssh.Close()
		return s, fmt.Errorf("listen: %w", err)
	}
	return s, nil
}

func runSite(ctx context.Context, cfg *config.Config, id tunnel.Identity, at site, log *slog.Logger) error {
	log.Info("gateway is up", "gateway", id.HostID, "http", at.http.Addr().String(), "ssh", at.ssh.Addr().String(), "control_plane", id.Address)
	return gateway.RunSite(ctx, gateway.SiteConfig{
		Identity: id, SSH: at.ssh, HTTP: at.http, Domain: cfg.AppsDomain, Secure: strings.HasPrefix(cfg.APIURL(), "https:"),
		TLSCert: cfg.TLSCert, TLSKey: cfg.TLSKey, TrustedProxies: cfg.Proxies(), Log: log,
	})
}

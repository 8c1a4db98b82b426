// Command suanli is a GPU rental cloud in one binary: the whole cloud (up), its
// parts (server, agent, gateway) and the client that renters, hosts and
// operators use.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"suanli.dev/api"
	"suanli.dev/internal/agent"
	"suanli.dev/internal/agent/probe"
	"suanli.dev/internal/instance"
	"suanli.dev/internal/protocol"
)

// version is set when a release is built.
var version = "0.1.0-dev"

// Exit codes, also in docs/cli.md. Commands that run something inside an
// instance exit with its code.
const (
	exitFailure      = 1
	exitUsage        = 2
	exitNotFound     = 3
	exitUnauthorized = 4
	exitPayment      = 5
	exitConflict     = 6
	exitUnavailable  = 7
	exitRemoved      = 8
)

// exitError carries the code of something that ran inside an instance.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", e.code) }

// usageError is a mistake on the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// missing is something that a command line names and that is not there.
type missing struct{ what string }

func (m missing) Error() string { return m.what }

// signedOut is that nothing says which cloud, or as whom.
type signedOut struct{ what string }

func (s signedOut) Error() string { return s.what }

func main() {
	// Inside containers this binary is the first process; nothing of the client
	// may run before it.
	if code, ran := inContainer(os.Args); ran {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	chooseLanguage(os.Args[1:], os.Getenv)
	root := newRoot()
	err := root.ExecuteContext(ctx)
	os.Exit(report(err))
}

// inContainer runs what agents start inside containers.
func inContainer(args []string) (code int, ran bool) {
	switch {
	case filepath.Base(args[0]) == "nvidia-smi":
		return instance.NVIDIASMI(protocol.InstanceGPUs, args[1:], os.Stdout, os.Stderr), true
	case len(args) > 2 && args[1] == "instance" && args[2] == "probe":
		return probe.Main(args[3:], os.Stdout), true
	case len(args) > 1 && args[1] == "instance":
		return instance.Main(args[2:]), true
	}
	return 0, false
}

// report prints an error as a person should read it and returns the exit code.
func report(err error) int {
	if err == nil {
		return 0
	}
	var exit exitError
	if errors.As(err, &exit) {
		return exit.code
	}
	fmt.Fprintln(os.Stderr, tr("suanli: %s", explained(err)))
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	var nobody signedOut
	if errors.As(err, &nobody) {
		return exitUnauthorized
	}
	var absent missing
	if errors.As(err, &absent) {
		return exitNotFound
	}
	var problem *api.Error
	if errors.As(err, &problem) {
		switch problem.Status {
		case 401, 403:
			return exitUnauthorized
		case 402:
			return exitPayment
		case 404, 410:
			return exitNotFound
		case 409, 412:
			return exitConflict
		case 422, 400:
			return exitUsage
		case 429, 503:
			return exitUnavailable
		}
	}
	if errors.Is(err, agent.ErrRemoved) {
		return exitRemoved
	}
	var unreached *url.Error
	if errors.As(err, &unreached) {
		return exitUnavailable
	}
	return exitFailure
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "suanli",
		Short:         tr("A GPU rental cloud that you can run yourself"),
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			lang, err := cmd.Flags().GetString("lang")
			if err != nil || lang == "" || spoken(lang) {
				return err
			}
			return usageError{errors.New(tr("there is no language %q; there are en and zh", lang))}
		},
	}
	root.SetFlagErrorFunc(explainFlag)
	root.PersistentFlags().Bool("json", false, tr("print JSON"))
	root.PersistentFlags().String("lang", "", tr("language of texts: en or zh"))
	root.PersistentFlags().String("server", "", tr("URL of the cloud (default: the one signed in to)"))
	root.PersistentFlags().String("token", "", tr("API key (default: that of the sign-in, or SUANLI_TOKEN)"))
	root.AddGroup(
		&cobra.Group{ID: "rent", Title: tr("Rent:")},
		&cobra.Group{ID: "enter", Title: tr("Work inside:")},
		&cobra.Group{ID: "host", Title: tr("Host:")},
		&cobra.Group{ID: "account", Title: tr("Account and money:")},
		&cobra.Group{ID: "operate", Title: tr("Operate:")},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("rent", searchCommand(), placeCommand(), quoteCommand(), rentCommand(), psCommand(), showCommand(), stopCommand(), startCommand(),
		restartCommand(), endCommand(), setCommand(), historyCommand(), bidCommand(), spotMarketCommand(), queueCommand(), reserveCommand(), volumeCommand(), snapshotCommand(), clusterCommand(), launchCommand(), templatesCommand(), modelsCommand(), regionsCommand())
	add("enter", sshCommand(), execCommand(), logsCommand(), cpCommand(), forwardCommand(), topCommand(), openCommand())
	add("host", hostCommand(), agentCommand(), earningsCommand(), payoutCommand())
	add("account", loginCommand(), signUpCommand(), logoutCommand(), accountCommand(), keyCommand(), balanceCommand(), payCommand(), billCommand(), monthlyCommand(), couponCommand(), trialCommand(), invoiceCommand(), budgetCommand(), priceCommand(), slaCommand(), statusCommand(), notificationsCommand(), webhookCommand())
	add("operate", upCommand(), serverCommand(), gatewayCommand(), configCommand(), doctorCommand(), backupCommand(), restoreCommand(), migrateCommand(), drillCommand(),
		ledgerCommand(), exchangeCommand(), priceListCommand(), volumeDiscountCommand(), depositCommand(), refundCommand(), imageCommand(), openapiCommand(), demoCommand(), simCommand())
	finish(root)
	return root
}

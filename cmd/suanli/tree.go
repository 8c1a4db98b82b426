package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"suanli.dev/api"
)

func init() {
	cobra.AddTemplateFunc("flagUsages", flagUsages)
	// Commands are listed in the order in which people need them.
	cobra.EnableCommandSorting = false
}

// helpTemplate has a command's short text before the long one, which assumes it.
const helpTemplate = `{{.Short}}{{with .Long}}

{{.}}{{end}}

{{.UsageString}}`

// defaultNote is what the flag library says, in English only, of a default.
var defaultNote = regexp.MustCompile(` \(default (.*)\)\n`)

func flagUsages(f *pflag.FlagSet) string {
	text := f.FlagUsages()
	if !chinese {
		return text
	}
	return defaultNote.ReplaceAllString(text, "（默认 $1）\n")
}

// finish gives every command what all have alike: the texts that the command
// library brings in English, completion of the names that its arguments take,
// and mistakes in arguments that exit as such.
func finish(root *cobra.Command) {
	root.SetUsageTemplate(strings.NewReplacer(
		"Usage:", tr("Usage:"),
		"Aliases:", tr("Aliases:"),
		"Examples:", tr("Examples:"),
		"Available Commands:", tr("Available Commands:"),
		"Additional Commands:", tr("Additional Commands:"),
		"Global Flags:", tr("Global Flags:"),
		"Flags:", tr("Flags:"),
		"Additional help topics:", tr("Additional help topics:"),
		`Use "{{.CommandPath}} [command] --help" for more information about a command.`, tr(`Use "{{.CommandPath}} [command] --help" for more information about a command.`),
		".LocalFlags.FlagUsages", "(flagUsages .LocalFlags)",
		".InheritedFlags.FlagUsages", "(flagUsages .InheritedFlags)",
	).Replace(root.UsageTemplate()))
	root.SetHelpTemplate(helpTemplate)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd("completion")
	root.InitDefaultVersionFlag()
	root.Flags().Lookup("version").Usage = tr("print the version")
	_ = root.RegisterFlagCompletionFunc("lang", cobra.FixedCompletions([]cobra.Completion{"en", "zh"}, cobra.ShellCompDirectiveNoFileComp))
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Short = tr("Explain a command")
		case "completion":
			c.Short = tr("Print a script that makes a shell complete commands and names")
			c.Long = "" // English only, and said by each shell's own
			for _, shell := range c.Commands() {
				shell.Short = tr("Print the script for %s", shell.Name())
				shell.Long = tr("For the shell that runs now: %s\nFor every new one, put that line into the file that it reads at its start.", loadScript[shell.Name()])
				if f := shell.Flags().Lookup("no-descriptions"); f != nil {
					f.Usage = tr("complete without descriptions")
				}
				shell.RunE = printScript
			}
		}
	}
	walk(root, func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		c.Flags().Lookup("help").Usage = tr("explain %s", c.Name())
		if c.Name() == "help" {
			return
		}
		if c.HasSubCommands() && c.RunE == nil {
			refuseUnknown(c)
			return
		}
		checkArgs(c) // also of one that does something itself, such as bill
		if c.ValidArgsFunction == nil {
			c.ValidArgsFunction = completerOf(c)
		}
		for flag, complete := range flagCompletions {
			if c.LocalNonPersistentFlags().Lookup(flag) != nil {
				_ = c.RegisterFlagCompletionFunc(flag, complete) // fails only for a flag that is not there
			}
		}
	})
}

// loadScript is how each shell reads a script that a command prints.
var loadScript = map[string]string{
	"bash":       "source <(suanli completion bash)",
	"zsh":        "source <(suanli completion zsh)",
	"fish":       "suanli completion fish | source",
	"powershell": "suanli completion powershell | Out-String | Invoke-Expression",
}

// printScript prints a shell's script where the command prints; the library's
// own has chosen where to before anybody could say.
func printScript(cmd *cobra.Command, _ []string) error {
	plain, _ := cmd.Flags().GetBool("no-descriptions")
	root, out := cmd.Root(), cmd.OutOrStdout()
	switch cmd.Name() {
	case "bash":
		return root.GenBashCompletionV2(out, !plain)
	case "zsh":
		if plain {
			return root.GenZshCompletionNoDesc(out)
		}
		return root.GenZshCompletion(out)
	case "fish":
		return root.GenFishCompletion(out, !plain)
	}
	if plain {
		return root.GenPowerShellCompletion(out)
	}
	return root.GenPowerShellCompletionWithDesc(out)
}

func walk(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		walk(sub, visit)
	}
}

// refuseUnknown makes a group of commands explain itself, and refuse a word that
// is none of its commands rather than explain itself and succeed.
func refuseUnknown(c *cobra.Command) {
	c.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		hint := ""
		if near := near(cmd, args[0]); len(near) > 0 {
			hint = tr("; did you mean %s?", strings.Join(near, ", "))
		}
		return usageError{errors.New(tr("%s has no command %q", cmd.CommandPath(), args[0]) + hint)}
	}
	c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// near returns those commands of a group that somebody who typed a word may have
// meant.
func near(group *cobra.Command, typed string) []string {
	group.SuggestionsMinimumDistance = 2
	return group.SuggestionsFor(typed)
}

// explainFlag makes a mistake in a flag one of usage, and names the flags of the
// command that may have been meant.
func explainFlag(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || unknown.GetSpecifiedName() == "" {
		return usageError{err}
	}
	if name := unknown.GetSpecifiedName(); strings.Contains(cmd.Use, " AMOUNT") && strings.Trim(name, "0123456789.") == "" {
		return notPositive(cmd, "-"+unknown.GetSpecifiedShortnames())
	}
	flags := &cobra.Command{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	if list := near(flags, unknown.GetSpecifiedName()); len(list) > 0 {
		return usageError{errors.New(tr("%s has no flag --%s", cmd.CommandPath(), unknown.GetSpecifiedName()) + tr("; did you mean %s?", "--"+strings.Join(list, ", --")))}
	}
	return usageError{errors.New(tr("%s has no flag --%s; see %s --help", cmd.CommandPath(), unknown.GetSpecifiedName(), cmd.CommandPath()))}
}

// checkArgs makes a wrong number of arguments a mistake of usage, and says what
// is wanted.
func checkArgs(c *cobra.Command) {
	check := c.Args
	if check == nil {
		return
	}
	c.Args = func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) == nil {
			return nil
		}
		return usageError{errors.New(tr("%d arguments were given; want: %s", len(args), cmd.UseLine()))}
	}
}

// completerOf returns what completes a command's arguments, which its own line
// of usage names.
func completerOf(c *cobra.Command) cobra.CompletionFunc {
	switch {
	case c.Name() == "cp":
		return completeCopy
	case strings.Contains(c.Use, " LEASE"):
		return first(completeLeases)
	case strings.Contains(c.Use, " BID"):
		return first(completeBids)
	case strings.Contains(c.Use, " REQUEST"):
		return first(completeWaiting)
	case strings.Contains(c.Use, " HOST"):
		return first(completeHosts)
	case strings.Contains(c.Use, "OFFER"):
		return first(completeOffers)
	case strings.Contains(c.Use, " GATEWAY"):
		return first(completeGateways)
	case strings.Contains(c.Use, " KEY"):
		return first(completeKeys)
	case strings.Contains(c.Use, " ACCOUNT"):
		return first(completeAccounts)
	case strings.Contains(c.Use, "FILE"), strings.Contains(c.Use, "ROOTFS"):
		return nil // the shell's own files
	}
	return cobra.NoFileCompletions
}

// first completes the first argument only.
func first(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, typed)
	}
}

// completionTime is how long a shell waits for the cloud: a person has pressed a
// key and looks on.
const completionTime = 3 * time.Second

// asking runs a question to the cloud for a completion. There is nobody to tell
// an error to, so it completes nothing.
func asking(cmd *cobra.Command, ask func(context.Context, *api.Client) ([]cobra.Completion, error)) ([]cobra.Completion, cobra.ShellCompDirective) {
	s, err := whereTo(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	list, err := ask(ctx, api.New(s.Server, s.Token, api.WithAttempts(1)))
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

func completeLeases(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return asking(cmd, func(ctx context.Context, c *api.Client) ([]cobra.Completion, error) {
		// A bill, a history and a log can be of a lease that is over.
		over := cmd.Name() == "bill" || cmd.Name() == "history" || cmd.Name() == "logs" || cmd.Name() == "show"
		p, err := c.Leases(ctx, "", !over, "", 100)
		if err != nil {
			return nil, err
		}
		var list []cobra.Completion
		for _, l := range p.Items {
			// A name can be used again once its lease is over; then only the
			// identifier says which.
			name := l.Name
			if l.EndedAt != nil || name == "" {
				name = l.ID
			}
			if !strings.HasPrefix(name, typed) && strings.HasPrefix(l.ID, typed) {
				name = l.ID
			}
			if strings.HasPrefix(name, typed) {
				list = append(list, cobra.CompletionWithDesc(name, fmt.Sprintf("%s, %d × %s%s", l.State, l.GPUCount, l.GPUModel, mark(l.Simulated))))
			}
		}
		return list, nil
	})
}

func completeHosts(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return asking(cmd, func(ctx context.Context, c *api.Client) ([]cobra.Completion, error) {
		hosts, err := c.Hosts(ctx)
		if err != nil {
			return nil, err
		}
		called := map[string]int{}
		for _, h := range hosts {
			called[h.Name]++
		}
		var list []cobra.Completion
		for _, h := range hosts {
			// A name that several have says nothing.
			name, other := h.Name, h.ID
			if called[name] > 1 || !strings.HasPrefix(name, typed) && strings.HasPrefix(h.ID, typed) {
				name, other = h.ID, h.Name
			}
			if strings.HasPrefix(name, typed) {
				list = append(list, cobra.CompletionWithDesc(name, other+", "+h.State+mark(h.Simulated)))
			}
		}
		return list, nil
	})
}

// completing completes to what a list of the cloud names, with what else people
// should know of it.
func completing[T any](read func(context.Context, *api.Client) ([]T, error), name func(T) (name, what string)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return asking(cmd, func(ctx context.Context, c *api.Client) ([]cobra.Completion, error) {
			all, err := read(ctx, c)
			if err != nil {
				return nil, err
			}
			var list []cobra.Completion
			for _, v := range all {
				if n, what := name(v); strings.HasPrefix(n, typed) {
					list = append(list, cobra.CompletionWithDesc(n, what))
				}
			}
			return list, nil
		})
	}
}

var (
	completeTemplates = completing(func(ctx context.Context, c *api.Client) ([]api.Template, error) { return c.Templates(ctx) },
		func(t api.Template) (string, string) { return t.Name, t.Image })
	completeModels = completing(func(ctx context.Context, c *api.Client) ([]api.GPUModel, error) { return c.GPUModels(ctx) },
		func(m api.GPUModel) (string, string) { return m.Name, m.Architecture })
	completeRegions = completing(func(ctx context.Context, c *api.Client) ([]api.Region, error) { return c.Regions(ctx) },
		func(r api.Region) (string, string) { return r.ID, r.Name })
	completeZones = completing(func(ctx context.Context, c *api.Client) ([]api.Zone, error) {
		regions, err := c.Regions(ctx)
		var zones []api.Zone
		for _, r := range regions {
			zones = append(zones, r.Zones...)
		}
		return zones, err
	}, func(z api.Zone) (string, string) { return z.ID, z.Name })
	completeGateways = completing(func(ctx context.Context, c *api.Client) ([]api.Gateway, error) { return c.Gateways(ctx) },
		func(g api.Gateway) (string, string) { return g.ID, g.Name })
	completeKeys = completing(func(ctx context.Context, c *api.Client) ([]api.APIKey, error) { return c.APIKeys(ctx) },
		func(k api.APIKey) (string, string) { return k.ID, k.Name })
	completeAccounts = completing(func(ctx context.Context, c *api.Client) ([]api.Account, error) { return c.Accounts(ctx) },
		func(a api.Account) (string, string) { return a.ID, a.Name })
	completeOffers = completing(func(ctx context.Context, c *api.Client) ([]api.Offer, error) {
		p, err := c.Offers(ctx, api.OfferQuery{Limit: 500})
		if err != nil {
			return nil, err
		}
		return p.Items, nil
	}, func(o api.Offer) (string, string) {
		return o.ID, fmt.Sprintf("%d × %s%s, %s %s", o.GPUCount, o.GPUModel, mark(o.Simulated), o.Price.PerHour.Display(), o.Price.Currency)
	})
	// completeSort offers the fields that offers can be sorted by.
	completeSort = completing(func(ctx context.Context, c *api.Client) ([]api.OfferField, error) { return c.OfferFields(ctx) },
		func(f api.OfferField) (string, string) { return f.Name, f.Doc })
)

// flagCompletions complete the values of flags, in every command that has them.
var flagCompletions = map[string]cobra.CompletionFunc{
	"template":  completeTemplates,
	"gpu-model": completeModels,
	"region":    completeRegions,
	"zone":      completeZones,
	"sort":      completeSort,
	"state": cobra.FixedCompletions([]cobra.Completion{"accepted", "provisioning", "running", "stopping", "stopped", "starting", "interrupted", "unreachable", "ending", "ended", "failed"},
		cobra.ShellCompDirectiveNoFileComp),
	"currency": cobra.FixedCompletions([]cobra.Completion{"USD", "CNY"}, cobra.ShellCompDirectiveNoFileComp),
}

// completeCopy offers leases with the colon that a path follows, and files.
func completeCopy(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if strings.ContainsAny(typed, ":/.") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	leases, directive := completeLeases(cmd, args, typed)
	if directive == cobra.ShellCompDirectiveError {
		return nil, cobra.ShellCompDirectiveDefault
	}
	for i, l := range leases {
		name, what, _ := strings.Cut(l, "\t")
		leases[i] = cobra.CompletionWithDesc(name+":", what)
	}
	return leases, cobra.ShellCompDirectiveNoSpace
}

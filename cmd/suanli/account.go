package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"suanli.dev/api"
)

func loginCommand() *cobra.Command {
	var email, passwordFile, code string
	cmd := &cobra.Command{
		Use: "login URL", Short: tr("Sign in to a cloud; later commands use it"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkServer(args[0]); err != nil {
				return err
			}
			c := api.New(args[0], "")
			if email == "" {
				var err error
				if email, err = ask(cmd, tr("E-mail: ")); err != nil {
					return err
				}
			}
			password, err := readPassword(cmd, passwordFile)
			if err != nil {
				return err
			}
			s, err := c.SignIn(cmd.Context(), api.SignIn{Email: email, Password: password, TOTP: code})
			if err != nil {
				return err
			}
			return begin(cmd, c, args[0], s)
		},
	}
	cmd.Flags().StringVar(&email, "email", "", tr("e-mail address (asked for if left out)"))
	cmd.Flags().StringVar(&passwordFile, "password-file", "", tr("file with the password; - for standard input (asked for if left out)"))
	cmd.Flags().StringVar(&code, "totp", "", tr("six-digit code, if the user has a second factor"))
	return cmd
}

func ask(cmd *cobra.Command, prompt string) (string, error) {
	fmt.Fprint(cmd.ErrOrStderr(), prompt)
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil {
		return "", errors.New(tr("nothing was typed; give it by a flag where there is no terminal"))
	}
	return strings.TrimSpace(line), nil
}

func readPassword(cmd *cobra.Command, file string) (string, error) {
	switch {
	case file == "-":
		line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
		if err != nil && line == "" {
			return "", err
		}
		return strings.TrimRight(line, "\r\n"), nil
	case file != "":
		b, err := os.ReadFile(file)
		return strings.TrimRight(string(b), "\r\n"), err
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return "", errors.New(tr("there is no terminal to ask on: give --password-file"))
	}
	fmt.Fprint(cmd.ErrOrStderr(), tr("Password: "))
	b, err := term.ReadPassword(int(os.Stdin.Fd()))
	fmt.Fprintln(cmd.ErrOrStderr())
	return string(b), err
}

// begin keeps a session that was just begun, and says so.
func begin(cmd *cobra.Command, c *api.Client, server string, s *api.Session) error {
	if err := writeSignIn(signIn{Server: server, Token: s.Token}); err != nil {
		return err
	}
	if err := registerKey(cmd, c.WithToken(s.Token)); err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return printJSON(cmd, map[string]any{"server": server, "account_id": s.AccountID, "expires_at": s.ExpiresAt})
	}
	say(cmd, "signed in to %s until %s", server, s.ExpiresAt.Local().Format(time.DateTime))
	return nil
}

// registerKey makes the client's SSH key known, so that ssh, exec and cp work.
func registerKey(cmd *cobra.Command, c *api.Client) error {
	_, line, err := sshKey()
	if err != nil {
		return err
	}
	name, _ := os.Hostname()
	_, err = c.AddSSHKey(cmd.Context(), api.AddSSHKey{Name: "suanli on " + name, PublicKey: strings.TrimSpace(line)})
	var problem *api.Error
	if errors.As(err, &problem) && problem.Status == 409 {
		return nil // known already
	}
	return err
}

func logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: tr("Sign out"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			list, err := c.Sessions(cmd.Context())
			if err != nil {
				return err
			}
			for _, s := range list {
				if s.Current {
					if err := c.SignOut(cmd.Context(), s.ID); err != nil {
						return err
					}
				}
			}
			if err := writeSignIn(signIn{}); err != nil {
				return err
			}
			return done(cmd, map[string]bool{"signed_out": true}, "signed out")
		},
	}
}

func accountCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "account", Short: tr("Accounts and their users")}
	show := &cobra.Command{
		Use: "show", Short: tr("Show who you are and what you may do"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			me, err := c.Me(cmd.Context())
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, me)
			}
			t := newTable(tr("ACCOUNT"), me.Account.Name+" ("+me.Account.ID+")")
			t.add(tr("USER"), me.User.Email+", "+me.User.Role)
			t.add(tr("CURRENCY"), me.Account.Currency)
			t.add(tr("TIME ZONE"), me.Account.TimeZone)
			t.add(tr("MAY"), strings.Join(me.Actions, " "))
			t.print(cmd.OutOrStdout())
			return nil
		},
	}
	list := listing("list", tr("List all accounts (operator)"),
		func(ctx context.Context, c *api.Client) ([]api.Account, error) { return c.Accounts(ctx) },
		[]string{tr("ID"), tr("NAME"), tr("CURRENCY")},
		func(a api.Account) []any { return []any{a.ID, a.Name, a.Currency} })
	var in api.CreateAccount
	var passwordFile string
	create := &cobra.Command{
		Use: "create NAME", Short: tr("Make an account with its owner (operator)"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			in.Name = args[0]
			if in.Password, err = readPassword(cmd, passwordFile); err != nil {
				return err
			}
			a, err := c.CreateAccount(cmd.Context(), in)
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, a)
			}
			say(cmd, "account %s is made", a.Account.ID)
			return nil
		},
	}
	create.Flags().StringVar(&in.Email, "email", "", tr("the owner's e-mail address"))
	create.Flags().StringVar(&in.Currency, "currency", "", tr("USD or CNY"))
	create.Flags().StringVar(&in.TimeZone, "time-zone", "", tr("IANA time zone, such as Asia/Shanghai"))
	create.Flags().StringVar(&passwordFile, "password-file", "", tr("file with the password; - for standard input (asked for if left out)"))
	cmd.AddCommand(show, list, create, grantCommand(), creditLimitCommand(), grantsCommand())
	cmd.AddCommand(invitationCommands()...)
	return cmd
}

func keyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "key", Short: tr("API keys and SSH keys")}
	var scopes []string
	create := &cobra.Command{
		Use: "create NAME", Short: tr("Make an API key; its secret is shown once"), Args: cobra.ExactArgs(1),
		Example: `  suanli key create ci --scope market:read,lease:read`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			k, err := c.CreateAPIKey(cmd.Context(), api.CreateAPIKey{Name: args[0], Scopes: scopes})
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, k)
			}
			fmt.Fprintln(cmd.OutOrStdout(), k.Secret)
			return nil
		},
	}
	create.Flags().StringSliceVar(&scopes, "scope", []string{"*"}, tr("what the key may do, such as lease:read (suanli account show lists what you may); * for all of that"))
	list := listing("list", tr("List API keys"),
		func(ctx context.Context, c *api.Client) ([]api.APIKey, error) { return c.APIKeys(ctx) },
		[]string{tr("ID"), tr("NAME"), tr("KEY"), tr("MAY")},
		func(k api.APIKey) []any { return []any{k.ID, k.Name, "…" + k.Hint, strings.Join(k.Scopes, " ")} })
	remove := removal("delete KEY", tr("Revoke an API key"), itself, (*api.Client).DeleteAPIKey,
		func(id string) string { return tr("key %s is revoked", id) })
	sshAdd := &cobra.Command{
		Use: "ssh-add FILE", Short: tr("Add an SSH public key"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			b, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			k, err := c.AddSSHKey(cmd.Context(), api.AddSSHKey{PublicKey: strings.TrimSpace(string(b))})
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, k)
			}
			say(cmd, "key %s is known", k.ID)
			return nil
		},
	}
	cmd.AddCommand(create, list, remove, sshAdd)
	return cmd
}

package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

func signUpCommand() *cobra.Command {
	var in api.SignUp
	var passwordFile string
	cmd := &cobra.Command{
		Use: "signup URL", Short: tr("Make an account of your own on a cloud, and sign in to it"), Args: cobra.ExactArgs(1),
		Example: `  suanli signup https://cloud.example.com --email ada@example.com --name Ada`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkServer(args[0]); err != nil {
				return err
			}
			c, err := api.New(args[0], ""), error(nil)
			if in.Email == "" {
				if in.Email, err = ask(cmd, tr("E-mail: ")); err != nil {
					return err
				}
			}
			if in.Code == "" {
				if err := c.RequestSignUp(cmd.Context(), in.Email); err != nil {
					return err
				}
				say(cmd, "A mail was sent to %s. If it holds a code, enter it within 15 minutes.", in.Email)
				if in.Code, err = ask(cmd, tr("Code: ")); err != nil {
					return err
				}
			}
			if in.Name == "" {
				in.Name = in.Email
			}
			if in.Password, err = readPassword(cmd, passwordFile); err != nil {
				return err
			}
			s, err := c.SignUp(cmd.Context(), in)
			if err != nil {
				return err
			}
			return begin(cmd, c, args[0], s)
		},
	}
	f := cmd.Flags()
	f.StringVar(&in.Email, "email", "", tr("e-mail address (asked for if left out)"))
	f.StringVar(&in.Code, "code", "", tr("from the mail (sent and asked for if left out)"))
	f.StringVar(&in.Name, "name", "", tr("of the account; the e-mail address if left out"))
	f.StringVar(&in.Currency, "currency", "", tr("USD or CNY"))
	f.StringVar(&in.TimeZone, "time-zone", "", tr("IANA time zone, such as Asia/Shanghai"))
	f.StringVar(&passwordFile, "password-file", "", tr("file with the password; - for standard input (asked for if left out)"))
	return cmd
}

// invitationCommands are an operator's, for a cloud that is open to those who are
// invited.
func invitationCommands() []*cobra.Command {
	return []*cobra.Command{
		showing("invite EMAIL", tr("Let an address sign up, and tell it so by mail (operator)"), cobra.ExactArgs(1),
			func(cmd *cobra.Command, c *api.Client, args []string) (*api.Invitation, error) {
				return c.Invite(cmd.Context(), args[0])
			}, func(cmd *cobra.Command, i *api.Invitation) {
				say(cmd, "%s is invited until %s", i.Email, i.ExpiresAt.Local().Format(time.DateTime))
			}),
		listing("invitations", tr("List who is invited (operator)"),
			func(ctx context.Context, c *api.Client) ([]api.Invitation, error) { return c.Invitations(ctx) },
			[]string{tr("ID"), tr("E-MAIL"), tr("EXPIRES"), tr("USED AT")},
			func(i api.Invitation) []any {
				used := "-"
				if i.UsedAt != nil {
					used = i.UsedAt.Local().Format(time.DateTime)
				}
				return []any{i.ID, i.Email, i.ExpiresAt.Local().Format(time.DateTime), used}
			}),
		removal("uninvite EMAIL", tr("Take an invitation back (operator)"), itself, (*api.Client).Uninvite,
			func(id string) string { return tr("%s is not invited any more", id) }),
	}
}

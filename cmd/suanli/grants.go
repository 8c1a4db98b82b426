package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

func grantCommand() *cobra.Command {
	var in api.CreateGrant
	var trial bool
	var valid time.Duration
	var until, key string
	cmd := &cobra.Command{
		Use: "grant ACCOUNT AMOUNT", Short: tr("Give an account money for use (operator)"), Args: cobra.ExactArgs(2),
		Long: tr("It pays before the balance, for use in its time only. What is not used then is lost."),
		Example: `  suanli account grant ac-… 20 --trial
  suanli account grant ac-… 100 --until 2027-01-01T00:00:00Z --meter compute --reference "spring fair"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			in.AccountID = args[0]
			if in.Amount, err = api.ParseAmount(args[1]); err != nil {
				return usageError{err}
			}
			if trial {
				in.Kind = "trial"
			}
			in.ValidSeconds = int64(valid / time.Second)
			if until != "" {
				at, err := time.Parse(time.RFC3339, until)
				if err != nil {
					return usageError{err}
				}
				in.ExpiresAt = &at
			}
			ctx := cmd.Context()
			if key != "" {
				ctx = api.IdempotencyKey(ctx, key)
			}
			g, err := c.CreateGrant(ctx, in)
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, g)
			}
			say(cmd, "%s %s given to %s (%s)", g.Amount.Display(), g.Currency, g.AccountID, g.ID)
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVar(&trial, "trial", false, tr("as the account's trial, of which it has one; valid for 72 hours if nothing else is said"))
	f.DurationVar(&valid, "valid-for", 0, tr("how long it is valid from its first use, such as 72h"))
	f.StringVar(&until, "until", "", tr("when it expires, such as 2027-01-01T00:00:00Z"))
	f.StringArrayVar(&in.Meters, "meter", nil, tr("what it pays for, such as compute (default: all); may be repeated"))
	f.StringVar(&in.GPUModel, "gpu-model", "", tr("for leases of this GPU model only"))
	f.StringVar(&in.Reference, "reference", "", tr("why it is given"))
	f.StringVar(&key, "key", "", tr("idempotency key: giving it twice counts once"))
	return cmd
}

func grantsCommand() *cobra.Command {
	return listing("grants", tr("List what the account was given for use"),
		func(ctx context.Context, c *api.Client) ([]api.Grant, error) { return c.Grants(ctx) },
		[]string{tr("GRANT"), tr("KIND"), tr("AMOUNT"), tr("SPENT"), tr("LEFT"), tr("PAYS FOR"), tr("EXPIRES")},
		func(g api.Grant) []any {
			meters := tr("everything")
			if len(g.Meters) > 0 {
				names := make([]string, len(g.Meters))
				for i, m := range g.Meters {
					names[i] = word(m)
				}
				meters = strings.Join(names, ", ")
			}
			if g.GPUModel != "" {
				meters += ", " + g.GPUModel
			}
			if g.SharePPM > 0 {
				meters = sharePercent(g.SharePPM) + " % × " + meters
			}
			expires := tr("%s after the first use", time.Duration(g.ValidSeconds)*time.Second)
			if g.ExpiresAt != nil {
				expires = g.ExpiresAt.Local().Format(time.DateTime)
			}
			return []any{g.ID, word(g.Kind), g.Amount.Display() + " " + g.Currency, g.Spent.Display(), g.Left.Display(), meters, expires}
		})
}

// sharePercent writes millionths as per cent, without the sign.
func sharePercent(ppm int64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%04d", ppm/10_000, ppm%10_000), "0"), ".")
}

func couponCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "coupon", Short: tr("Codes by which accounts get a grant")}
	var valid time.Duration
	create := showing("create RULE", tr("Make a coupon (operator)"), cobra.ExactArgs(1),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.Coupon, error) {
			return c.CreateCoupon(cmd.Context(), api.CreateCoupon{Rule: args[0], ValidSeconds: int64(valid / time.Second)})
		},
		func(cmd *cobra.Command, m *api.Coupon) { say(cmd, "Coupon %s is made", m.Code) })
	create.Example = `  suanli coupon create 'THANKS 50.00CNY max=100 until=2027-01-01T00:00:00Z meters=compute' --valid-for 720h
  suanli coupon create 'WELCOME 12.5% upto=50.00CNY from=2026-12-01T00:00:00Z'`
	create.Long = tr("RULE is a code, a sum or a share up to a sum, and conditions: how many accounts (max=), when it can be redeemed (from=, until=), what it pays for (meters=). A sum pays before the balance; a share is taken off what is used, before that, and ends with until=.")
	create.Flags().DurationVar(&valid, "valid-for", 90*24*time.Hour, tr("how long the grant is valid from when it is redeemed"))
	cmd.AddCommand(create,
		listing("list", tr("List coupons (operator)"),
			func(ctx context.Context, c *api.Client) ([]api.Coupon, error) { return c.Coupons(ctx) },
			[]string{tr("COUPON"), tr("VALID FOR"), tr("USED")},
			func(m api.Coupon) []any { return []any{m.Rule, time.Duration(m.ValidSeconds) * time.Second, m.Used} }),
		showing("redeem CODE", tr("Redeem a coupon for your account"), cobra.ExactArgs(1),
			func(cmd *cobra.Command, c *api.Client, args []string) (*api.Grant, error) {
				return c.RedeemCoupon(cmd.Context(), args[0])
			},
			func(cmd *cobra.Command, g *api.Grant) {
				if g.SharePPM > 0 {
					say(cmd, "It takes %s %% off what you use from now on, up to %s %s (%s)", sharePercent(g.SharePPM), g.Amount.Display(), g.Currency, g.ID)
					return
				}
				say(cmd, "%s %s given to %s (%s)", g.Amount.Display(), g.Currency, g.AccountID, g.ID)
			}))
	return cmd
}

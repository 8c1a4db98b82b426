package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

func priceListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "pricelist", Short: tr("Prices that the operator gives accounts")}
	header := []string{tr("PRICE LIST"), tr("NAME"), tr("PRICES"), tr("BEGINS"), tr("ENDS"), tr("ACCOUNTS")}
	row := func(l api.PriceList) []any {
		ends := tr("never")
		if l.ValidUntil != nil {
			ends = l.ValidUntil.Local().Format(time.DateTime)
		}
		prices, accounts := make([]string, len(l.Rules)), []string{}
		for i, r := range l.Rules {
			prices[i] = ruleText(r, l.Currency)
		}
		for _, a := range l.Accounts {
			if a.EndedAt == nil {
				accounts = append(accounts, a.AccountID)
			}
		}
		return []any{l.ID, l.Name, strings.Join(prices, ", "), l.ValidFrom.Local().Format(time.DateTime), ends, strings.Join(accounts, ", ")}
	}
	withdraw := &cobra.Command{
		Use: "withdraw LIST ACCOUNT", Short: tr("Take a price list from an account (operator)"), Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			if err := c.WithdrawPriceList(cmd.Context(), args[0], args[1]); err != nil {
				return err
			}
			return done(cmd, map[string]string{"id": args[0], "account_id": args[1]}, "Account %s pays by the listed prices from now on; what it rents keeps its price", args[1])
		},
	}
	cmd.AddCommand(createPriceList(),
		listing("ls", tr("List price lists and the accounts that have them (operator)"),
			func(ctx context.Context, c *api.Client) ([]api.PriceList, error) { return c.PriceLists(ctx) }, header, row),
		listing("own", tr("List the price lists that your account has"),
			func(ctx context.Context, c *api.Client) ([]api.PriceList, error) { return c.OwnPriceLists(ctx) }, header, row),
		showing("assign LIST ACCOUNT", tr("Give an account a price list (operator)"), cobra.ExactArgs(2),
			func(cmd *cobra.Command, c *api.Client, args []string) (*api.PriceList, error) {
				return c.AssignPriceList(cmd.Context(), args[0], args[1])
			},
			func(cmd *cobra.Command, l *api.PriceList) {
				say(cmd, "Quotes for the account are made by the price list %s from now on, while it holds; what it rents keeps its price", l.Name)
			}),
		withdraw)
	return cmd
}

func createPriceList() *cobra.Command {
	var in api.CreatePriceList
	var since, until string
	cmd := &cobra.Command{
		Use: "create NAME PRICE...", Short: tr("Make a price list (operator)"), Args: cobra.MinimumNArgs(2),
		Long: tr("A price is METER=12.5%, for a share off the listed price, or METER=PRICE for another in its place (of compute: for each GPU and hour), with MODEL: before it for one GPU model only. What is taken off is the platform's to bear: providers are paid by what they listed. A price list is for plans on demand."),
		Example: `  suanli pricelist create research compute=12.5% storage=50%
  suanli pricelist create partner "H100 SXM:compute=1.85" egress=0 --currency USD --until 2027-01-01T00:00:00Z`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			in.Name, in.Rules = args[0], nil
			for _, text := range args[1:] {
				r, err := parsePriceRule(text)
				if err != nil {
					return usageError{err}
				}
				in.Rules = append(in.Rules, r)
			}
			for _, t := range []struct {
				text string
				into **time.Time
			}{{since, &in.ValidFrom}, {until, &in.ValidUntil}} {
				if t.text == "" {
					continue
				}
				at, err := time.Parse(time.RFC3339, t.text)
				if err != nil {
					return usageError{err}
				}
				*t.into = &at
			}
			l, err := c.CreatePriceList(cmd.Context(), in)
			if err != nil {
				return err
			}
			return done(cmd, l, "Price list %s is made (%s); `suanli pricelist assign` gives it to an account", l.Name, l.ID)
		},
	}
	f := cmd.Flags()
	f.StringVar(&in.Currency, "currency", "", tr("what its prices are in: CNY or USD"))
	f.StringVar(&since, "from", "", tr("when it begins, such as 2027-01-01T00:00:00Z (default: now)"))
	f.StringVar(&until, "until", "", tr("when it is over, such as 2027-01-01T00:00:00Z (default: never)"))
	return cmd
}

// parsePriceRule reads a price as ruleText writes it.
func parsePriceRule(text string) (api.PriceRule, error) {
	var r api.PriceRule
	name, value, ok := strings.Cut(text, "=")
	if i := strings.LastIndex(name, ":"); i >= 0 {
		r.GPUModel, name = name[:i], name[i+1:]
	}
	r.Meter = name
	if !ok || name == "" {
		return r, fmt.Errorf("price %q: want METER=SHARE%% or METER=PRICE, such as compute=12.5%%", text)
	}
	digits, share := strings.CutSuffix(value, "%")
	if share {
		a, err := api.ParseAmount(digits)
		if err != nil || a%100 != 0 {
			return r, fmt.Errorf("price %q: want up to four decimals of a per cent, such as compute=12.5%%", text)
		}
		r.OffPPM = int64(a) / 100
		return r, nil
	}
	rate, err := api.ParseRate(value)
	if err != nil {
		return r, fmt.Errorf("price %q: %w", text, err)
	}
	r.Rate = &rate
	return r, nil
}

func ruleText(r api.PriceRule, currency string) string {
	text := word(r.Meter) + " "
	if r.GPUModel != "" {
		text = r.GPUModel + ": " + text
	}
	if r.Rate != nil {
		return text + r.Rate.Display() + " " + currency
	}
	return text + "−" + sharePercent(r.OffPPM) + " %"
}

// printPriceList says by which price list a quote is.
func printPriceList(cmd *cobra.Command, q *api.Quote) {
	if q.PriceList == nil {
		return
	}
	for _, l := range q.Lines {
		if l.ListedRate != nil {
			say(cmd, "By your price list %s: %s %s instead of %s.", q.PriceList.Name, word(l.Meter), l.Rate.Display(), l.ListedRate.Display())
		}
	}
}

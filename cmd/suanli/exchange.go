package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

func exchangeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "exchange", Short: tr("Exchange rates between currencies (operator)")}
	var in api.SetExchangeRate
	var since, until, key string
	set := &cobra.Command{
		Use: "set FROM TO RATE", Short: tr("Enter what one unit of a currency is worth in another (operator)"), Args: cobra.ExactArgs(3),
		Long:    tr("Accounts rent what is priced in another currency by the rate in force; their quotes keep it. A rate converts one way only. Nothing is quoted by a rate that is over."),
		Example: `  suanli exchange set USD CNY 7.1234 --source "PBOC central parity" --until 2027-01-01T00:00:00Z`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			in.From, in.To = args[0], args[1]
			if in.Rate, err = api.ParseRate(args[2]); err != nil {
				return usageError{err}
			}
			if since != "" {
				at, err := time.Parse(time.RFC3339, since)
				if err != nil {
					return usageError{errors.New(tr("%s %q: want a moment such as 2027-01-31T00:00:00Z", "--from", since))}
				}
				in.ValidFrom = &at
			}
			if until == "" {
				return usageError{errors.New(tr("say until when the rate may be used, with --until 2027-01-01T00:00:00Z; an old rate is worse than none"))}
			}
			if in.ValidUntil, err = time.Parse(time.RFC3339, until); err != nil {
				return usageError{errors.New(tr("%s %q: want a moment such as 2027-01-31T00:00:00Z", "--until", until))}
			}
			ctx := cmd.Context()
			if key != "" {
				ctx = api.IdempotencyKey(ctx, key)
			}
			r, err := c.SetExchangeRate(ctx, in)
			if err != nil {
				return err
			}
			return done(cmd, r, "One %s is %s %s until %s (%s)", r.From, r.Rate.Display(), r.To, r.ValidUntil.Local().Format(time.DateTime), r.ID)
		},
	}
	f := set.Flags()
	f.StringVar(&in.Source, "source", "", tr("whose rate it is"))
	f.StringVar(&since, "from", "", tr("when it begins, such as 2027-01-01T00:00:00Z (default: now)"))
	f.StringVar(&until, "until", "", tr("when it is over, such as 2027-01-01T00:00:00Z"))
	f.StringVar(&key, "key", "", tr("idempotency key: giving it twice counts once"))
	cmd.AddCommand(set,
		listing("ls", tr("List the exchange rates that were entered, newest first (operator)"),
			func(ctx context.Context, c *api.Client) ([]api.ExchangeRate, error) { return c.ExchangeRates(ctx) },
			[]string{tr("RATE"), tr("FROM"), tr("TO"), tr("WORTH"), tr("SOURCE"), tr("BEGINS"), tr("ENDS")},
			func(r api.ExchangeRate) []any {
				return []any{r.ID, r.From, r.To, r.Rate.Display(), r.Source, r.ValidFrom.Local().Format(time.DateTime), r.ValidUntil.Local().Format(time.DateTime)}
			}))
	return cmd
}

// printExchange says how a quote came to be in the account's currency.
func printExchange(cmd *cobra.Command, x *api.Exchange) {
	if x == nil {
		return
	}
	say(cmd, "Priced in %s; one %s is %s %s by %s (since %s, rate %s), which the quote keeps.", x.From, x.From, x.Rate.Display(), x.To, x.Source, x.Since.Local().Format(time.DateTime), x.RateID)
}

// offerPrice is an offer's price an hour, and what it is in the account's currency if
// that is another.
func offerPrice(p api.OfferPrice) string {
	text := p.PerHour.Display() + " " + p.Currency
	if p.Own != nil {
		text += " (" + p.Own.PerHour.Display() + " " + p.Own.Currency + ")"
	}
	return text
}

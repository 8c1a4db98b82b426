package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

func invoiceCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "invoice", Short: tr("Read and download invoices")}
	cmd.AddCommand(
		listing("ls", tr("List invoices, newest first"), func(ctx context.Context, c *api.Client) ([]api.Invoice, error) { return c.Invoices(ctx) },
			[]string{tr("NUMBER"), tr("FROM"), tr("TO"), tr("TOTAL"), tr("CURRENCY")},
			func(v api.Invoice) []any {
				return []any{v.Number + mark(v.Simulated), dayIn(v.Start, v), dayIn(v.End.Add(-time.Microsecond), v), v.Total.Display(), v.Currency}
			}),
		showing("show NUMBER", tr("Show an invoice, line by line"), cobra.ExactArgs(1),
			func(cmd *cobra.Command, c *api.Client, args []string) (*api.Invoice, error) {
				return c.Invoice(cmd.Context(), args[0])
			}, printInvoice),
		downloadCommand(),
		listing("statements", tr("List closed months: opening, invoiced, paid, closing"), func(ctx context.Context, c *api.Client) ([]api.Statement, error) { return c.Statements(ctx) },
			[]string{tr("FROM"), tr("TO"), tr("OPENING"), tr("INVOICED"), tr("CREDITED"), tr("PAID"), tr("REFUNDED"), tr("GIVEN"), tr("CLOSING"), tr("CURRENCY")},
			func(s api.Statement) []any {
				return []any{s.Start.Local().Format(time.DateTime), s.End.Local().Format(time.DateTime), s.Opening.Display(), s.Invoiced.Display(), s.Credited.Display(),
					s.Paid.Display(), s.Refunded.Display(), s.Given.Display(), s.Closing.Display(), s.Currency}
			}),
		duesCommand(), creditsCommand(), creditCommand(), writeOffCommand(), profileCommand(),
	)
	return cmd
}

// dayIn is a day by the calendar of an invoice's customer.
func dayIn(t time.Time, v api.Invoice) string {
	zone, err := time.LoadLocation(v.Customer.TimeZone)
	if err != nil {
		zone = time.UTC
	}
	return t.In(zone).Format(time.DateOnly)
}

func printInvoice(cmd *cobra.Command, v *api.Invoice) {
	say(cmd, "Invoice %s%s for %s, from %s to %s (%s)", v.Number, mark(v.Simulated), v.Customer.Name, dayIn(v.Start, *v), dayIn(v.End.Add(-time.Microsecond), *v), v.Customer.TimeZone)
	t := newTable(tr("LEASE"), tr("METER"), tr("WHAT"), tr("EXACT"), tr("AMOUNT"))
	for _, l := range v.Lines {
		what := tr("use")
		if l.Correction {
			what = tr("correction of an earlier month")
		}
		t.add(l.LeaseID+mark(l.Simulated), word(l.Meter), what, l.Amount.String(), (l.Shown + l.Discount).Display())
	}
	if v.Discount != 0 {
		t.add(tr("paid by grants"), "", "", "", (-v.Discount).Display())
	}
	t.add(tr("subtotal"), "", "", v.Exact.String(), v.Subtotal.Display())
	for _, x := range v.Taxes {
		what := tr("added")
		if x.Inclusive {
			what = tr("in the prices")
		}
		t.add(fmt.Sprintf("%s %s %s", x.Jurisdiction, x.Name, percent(x.RatePPM)), "", what, "", x.Amount.Display())
	}
	t.add(tr("total"), "", "", v.Currency, v.Total.Display())
	t.print(cmd.OutOrStdout())
}

// percent writes millionths as a percentage.
func percent(ppm int64) string {
	s := fmt.Sprintf("%d.%04d", ppm/10_000, ppm%10_000)
	for s[len(s)-1] == '0' {
		s = s[:len(s)-1]
	}
	if s[len(s)-1] == '.' {
		s = s[:len(s)-1]
	}
	return s + "%"
}

func downloadCommand() *cobra.Command {
	var format, output, note string
	cmd := &cobra.Command{
		Use: "download NUMBER", Short: tr("Download an invoice as PDF or CSV"), Args: cobra.ExactArgs(1),
		Example: "suanli invoice download INV-000001\nsuanli invoice download INV-000001 --format csv --output -",
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "pdf" && format != "csv" {
				return usageError{fmt.Errorf("%s", tr("the format %q is not known; want pdf or csv", format))}
			}
			c, err := client(cmd)
			if err != nil {
				return err
			}
			v, err := c.Invoice(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			number := v.Number
			var in io.ReadCloser
			if note != "" {
				if format != "pdf" {
					return usageError{fmt.Errorf("%s", tr("a credit note is there as pdf only"))}
				}
				number = strings.ToUpper(note)
				in, err = c.CreditNotePDF(cmd.Context(), v.ID, note)
			} else {
				in, err = c.InvoiceFile(cmd.Context(), v.ID, format)
			}
			if err != nil {
				return err
			}
			defer in.Close()
			if output == "-" {
				_, err = io.Copy(cmd.OutOrStdout(), in)
				return err
			}
			if output == "" {
				output = number + "." + format
			}
			f, err := os.Create(output)
			if err != nil {
				return err
			}
			if _, err := io.Copy(f, in); err != nil {
				f.Close()
				return err
			}
			if err := f.Close(); err != nil {
				return err
			}
			return done(cmd, v, "%s written", output)
		},
	}
	cmd.Flags().StringVar(&format, "format", "pdf", tr("pdf or csv"))
	cmd.Flags().StringVar(&note, "note", "", tr("number of one of its credit notes, to download that"))
	cmd.Flags().StringVar(&output, "output", "", tr("file to write; -: standard output (default: the number and the format)"))
	return cmd
}

func creditsCommand() *cobra.Command {
	return showing("credits NUMBER", tr("List an invoice's credit notes"), cobra.ExactArgs(1),
		func(cmd *cobra.Command, c *api.Client, args []string) ([]api.CreditNote, error) {
			return c.CreditNotes(cmd.Context(), args[0])
		},
		func(cmd *cobra.Command, list []api.CreditNote) {
			t := newTable(tr("NUMBER"), tr("ISSUED"), tr("TOTAL"), tr("CURRENCY"), tr("REASON"))
			for _, n := range list {
				t.add(n.Number, n.IssuedAt.Local().Format(time.DateTime), n.Total.Display(), n.Currency, n.Reason)
			}
			t.print(cmd.OutOrStdout())
		})
}

func creditCommand() *cobra.Command {
	var in api.Credit
	var lines []string
	var key string
	cmd := &cobra.Command{
		Use: "credit NUMBER", Short: tr("Take back an invoice or a part of it (operator)"), Args: cobra.ExactArgs(1),
		Example: "suanli invoice credit INV-000001 --line 0=12.50 --reason \"host at fault\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, l := range lines {
				position, amount, _ := strings.Cut(l, "=")
				n, err := strconv.Atoi(position)
				if err != nil {
					return usageError{fmt.Errorf("%s", tr("--line %q: want a line's place, counted from 0, and an amount, such as 0=12.50", l))}
				}
				a, err := api.ParseAmount(amount)
				if err != nil {
					return usageError{err}
				}
				in.Lines = append(in.Lines, api.CreditLine{Position: n, Amount: a})
			}
			c, err := client(cmd)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if key != "" {
				ctx = api.IdempotencyKey(ctx, key)
			}
			n, err := c.CreditInvoice(ctx, args[0], in)
			if err != nil {
				return err
			}
			return done(cmd, n, "%s takes back %s %s of %s", n.Number, n.Total.Display(), n.Currency, n.Invoice)
		},
	}
	cmd.Flags().StringArrayVar(&lines, "line", nil, tr("PLACE=AMOUNT of a line, counted from 0; may be repeated (default: all that is left of every line)"))
	cmd.Flags().StringVar(&in.Reason, "reason", "", tr("why"))
	cmd.Flags().BoolVar(&in.Refund, "refund", false, tr("pay it out, and not into the balance"))
	cmd.Flags().StringVar(&key, "key", "", tr("idempotency key: entering it twice counts once"))
	return cmd
}

func refundCommand() *cobra.Command {
	var in api.Deposit
	var key string
	cmd := &cobra.Command{
		Use: "refund ACCOUNT AMOUNT", Short: tr("Enter money that was paid back to an account (operator)"), Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			in.AccountID = args[0]
			if in.Amount, err = paid(args[1]); err != nil {
				return err
			}
			ctx := cmd.Context()
			if key != "" {
				ctx = api.IdempotencyKey(ctx, key)
			}
			t, err := c.Refund(ctx, in)
			if err != nil {
				return err
			}
			return done(cmd, t, "%s %s paid back to %s", t.Amount.Display(), t.Currency, in.AccountID)
		},
	}
	cmd.Flags().StringVar(&in.Reference, "reference", "", tr("where the money went, such as the bank's number"))
	cmd.Flags().StringVar(&key, "key", "", tr("idempotency key: entering it twice counts once"))
	return cmd
}

func profileCommand() *cobra.Command {
	var in api.BillingProfile
	cmd := &cobra.Command{
		Use: "customer ACCOUNT", Short: tr("Write down who an account is on invoices and whose taxes apply (operator)"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			p, err := c.SetBillingProfile(cmd.Context(), args[0], in)
			if err != nil {
				return err
			}
			return done(cmd, p, "%s is %s on its next invoice, with the taxes of %q", args[0], p.Name, p.Jurisdiction)
		},
	}
	cmd.Flags().StringVar(&in.Name, "name", "", tr("name (default: the account's)"))
	cmd.Flags().StringVar(&in.Address, "address", "", tr("address"))
	cmd.Flags().StringVar(&in.TaxNumber, "tax-number", "", tr("tax number"))
	cmd.Flags().StringVar(&in.Jurisdiction, "jurisdiction", "", tr("whose taxes apply, as in the table of taxes"))
	return cmd
}

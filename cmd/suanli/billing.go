package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"suanli.dev/api"
)

func balanceCommand() *cobra.Command {
	return showing("balance", tr("Show the account's money and how long it lasts"), cobra.NoArgs,
		func(cmd *cobra.Command, c *api.Client, _ []string) (*api.Balance, error) {
			return c.Balance(cmd.Context())
		},
		func(cmd *cobra.Command, b *api.Balance) {
			t := newTable(tr("SETTLED"), b.Settled.Display()+" "+b.Currency)
			t.add(tr("HELD"), b.Held.Display())
			t.add(tr("DUE, NOT POSTED"), b.UnbilledDue.Display())
			t.add(tr("AVAILABLE"), b.Available.Display())
			if b.Granted > 0 {
				t.add(tr("GRANTED"), b.Granted.Display())
			}
			t.add(tr("BURN PER HOUR"), b.BurnPerHour.Display())
			if b.RunsOutAt != nil {
				t.add(tr("LASTS UNTIL"), b.RunsOutAt.Local().Format(time.DateTime))
			}
			t.print(cmd.OutOrStdout())
		})
}

func billCommand() *cobra.Command {
	cmd := showing("bill LEASE", tr("Show what a lease costs so far, line by line"), cobra.ExactArgs(1),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.Bill, error) {
			l, err := c.Lease(cmd.Context(), args[0])
			if err != nil {
				return nil, err
			}
			return c.Bill(cmd.Context(), l.ID)
		},
		func(cmd *cobra.Command, b *api.Bill) {
			printBill(cmd, b)
		})
	cmd.AddCommand(chargesCommand(), explainCommand(), exportCommand(), usageCommand())
	return cmd
}

func printBill(cmd *cobra.Command, b *api.Bill) {
	say(cmd, "Bill of lease %s%s at %s", b.LeaseID, mark(b.Simulated), b.At.Local().Format(time.DateTime))
	t := newTable(tr("METER"), tr("FROM"), tr("TO"), tr("USED"), tr("CHARGED"), tr("RATE"), tr("AMOUNT"))
	when := func(at *time.Time) string {
		if at == nil {
			return ""
		}
		return at.Local().Format("01-02 15:04:05.000")
	}
	for _, l := range b.Lines {
		t.add(word(l.Meter), when(l.Start), when(l.End), fmt.Sprintf("%d %s", l.Used, word(l.Unit)), fmt.Sprintf("%d %s", l.Charged, word(l.Unit)), l.Rate.Display()+" / "+word(l.RateUnit), l.Amount.Display())
	}
	t.add(tr("total"), "", "", "", "", b.Currency, b.Total.Display())
	t.print(cmd.OutOrStdout())
	for _, l := range b.Lines {
		say(cmd, "  %s", explain(l, b))
	}
	say(cmd, "Of this the provider earns %s and the cloud keeps %s.", b.ProviderShare, b.Commission)
}

// explain says a line of a bill in a sentence. The API's own words are English;
// in another language they are made from the line's fields.
func explain(l api.BillLine, b *api.Bill) string {
	if !chinese {
		return l.Words
	}
	var what string
	switch l.Meter {
	case "compute":
		what = fmt.Sprintf("运行 %d 秒", l.Used)
		if l.Charged == 0 && l.Used > 0 {
			what += "，开始后 60 秒内被中断，不计费"
		} else if l.Charged != l.Used {
			what += fmt.Sprintf("，按 %d 秒计费（含最短计费时长和按粒度进位）", l.Charged)
		}
	case "storage":
		what = fmt.Sprintf("保留磁盘，共 %d GiB·秒", l.Used)
		if l.Start != nil && l.End != nil {
			what = fmt.Sprintf("%s 至 %s 保留磁盘，共 %d GiB·秒（月价按当月实际时长折算）", l.Start.Local().Format(time.DateTime), l.End.Local().Format(time.DateTime), l.Used)
		}
	case "egress":
		what = fmt.Sprintf("向外发送 %d 字节（1 GB 为 1,000,000,000 字节）", l.Used)
	default:
		return l.Words
	}
	switch l.Kind {
	case "term", "renewal", "change", "refund", "upfront", "lost", "early_end":
		return explainMonths(l, b)
	case "covered":
		what += "，已预付"
		if b.Simulated {
			what += "（模拟）"
		}
		return what
	}
	what += fmt.Sprintf("，单价 %s %s/%s：合计 %s %s", l.Rate.Display(), b.Currency, word(l.RateUnit), l.Amount.Display(), b.Currency)
	if l.Open {
		what += "，仍在计费"
	}
	if b.Simulated {
		what += "（模拟）"
	}
	return what
}

func depositCommand() *cobra.Command {
	var in api.Deposit
	var key string
	var yes bool
	cmd := &cobra.Command{
		Use: "deposit ACCOUNT AMOUNT", Short: tr("Enter money that an account has paid (operator)"), Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			in.AccountID = args[0]
			if in.Amount, err = paid(args[1]); err != nil {
				return err
			}
			if !yes && in.Amount >= largeDeposit && term.IsTerminal(int(os.Stdin.Fd())) {
				if err := confirm(cmd, tr("Enter %s for %s? Type yes: ", in.Amount.Display(), in.AccountID)); err != nil {
					return err
				}
			}
			ctx := cmd.Context()
			if key != "" {
				ctx = api.IdempotencyKey(ctx, key)
			}
			t, err := c.Deposit(ctx, in)
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, t)
			}
			say(cmd, "%s %s entered for %s", t.Amount.Display(), t.Currency, in.AccountID)
			return nil
		},
	}
	cmd.Flags().StringVar(&in.Reference, "reference", "", tr("where the money came from, such as the bank's number"))
	cmd.Flags().BoolVar(&yes, "yes", false, tr("do not ask on a terminal whether a sum of 10,000 or more is meant"))
	cmd.Flags().StringVar(&key, "key", "", tr("idempotency key: entering it twice counts once"))
	return cmd
}

// largeDeposit is a sum that a person at a terminal confirms: one digit too many is
// easily typed, and only a refund takes it back.
const largeDeposit api.Amount = 10_000_000_000

// paid reads an amount of money that has changed hands.
func paid(text string) (api.Amount, error) {
	a, err := api.ParseAmount(text)
	if err != nil {
		return 0, usageError{err}
	}
	if a <= 0 {
		return 0, notPositive(nil, text)
	}
	return a, nil
}

// notPositive refuses an amount that would take money the other way. Without a command
// it is of money that has changed hands.
func notPositive(cmd *cobra.Command, text string) error {
	if cmd != nil && cmd.Name() != "deposit" && cmd.Name() != "refund" {
		return usageError{errors.New(tr("the amount is %s; want more than 0", text))}
	}
	return usageError{errors.New(tr("the amount is %s; want more than 0: suanli deposit enters money that was paid, and suanli refund money that was paid back", text))}
}

// confirm asks whether something is meant.
func confirm(cmd *cobra.Command, question string) error {
	answer, err := ask(cmd, question)
	if err != nil {
		return err
	}
	if answer != "yes" {
		return errors.New(tr("not confirmed; nothing was done"))
	}
	return nil
}

func ledgerCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ledger", Short: tr("Check the books (operator)")}
	cmd.AddCommand(&cobra.Command{
		Use: "verify", Short: tr("Prove every balance, charge and invoice from use, quotes and postings"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			r, err := c.VerifyLedger(cmd.Context())
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				if err := printJSON(cmd, r); err != nil {
					return err
				}
			} else {
				for _, s := range r.Sums {
					say(cmd, "%s: debits %s, credits %s", s.Currency, s.Debits, s.Credits)
				}
				for _, m := range r.Mismatches {
					say(cmd, "wrong: %s %s: %s", m.Path, m.Currency, m.What)
				}
				for _, x := range r.Wrong {
					say(cmd, "wrong: %s: %s", x.Subject, x.What)
				}
				say(cmd, "%d accounts, %d transfers, %d leases, %d charges, %d invoices and credit notes", r.Accounts, r.Transfers, r.Leases, r.Charges, r.Invoices)
			}
			if !r.OK {
				return errors.New(tr("the books are not right"))
			}
			return nil
		},
	})
	return cmd
}

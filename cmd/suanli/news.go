package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
	"suanli.dev/internal/notify"
)

// payload reads what a notification of a kind says. What does not fit stays empty.
func payload[T any](n api.Notification) (v T) {
	b, err := json.Marshal(n.Data)
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		var empty T
		return empty
	}
	return v
}

func clockTime(t time.Time) string { return t.Local().Format(time.DateTime) }

// sentence says what a notification says. One of a kind that this program does not
// know is shown as it is.
func sentence(n api.Notification) string {
	switch n.Kind {
	case notify.KindBalanceLow:
		p := payload[notify.BalanceLow](n)
		return tr("The money lasts until %s at %s %s an hour (%s %s left): deposit more, or what runs is stopped", clockTime(p.Until), p.BurnPerHour.Display(), p.Currency, p.Funds.Display(), p.Currency)
	case notify.KindBalanceExhausted:
		p := payload[notify.BalanceExhausted](n)
		return tr("The money is used up (%s %s owed): what runs is stopped, and disks are deleted at %s", p.Debt.Display(), p.Currency, clockTime(p.DeleteAt))
	case notify.KindSpotNotice:
		p := payload[notify.SpotNotice](n)
		return tr("Lease %s loses its place on the spot market at %s (%s)", p.Name, clockTime(p.InterruptAt), word(p.Code)) + mark(p.Simulated)
	case notify.KindInterrupted:
		p := payload[notify.LeaseNews](n)
		return tr("Lease %s was interrupted (%s); its disk is kept, and it resumes when its bid wins again", p.Name, word(p.Code)) + mark(p.Simulated)
	case notify.KindResumed:
		p := payload[notify.LeaseNews](n)
		return tr("Lease %s has won a place again and starts", p.Name) + mark(p.Simulated)
	case notify.KindFailed:
		p := payload[notify.LeaseNews](n)
		return tr("Lease %s could not be started (%s) and costs nothing", p.Name, word(p.Code)) + mark(p.Simulated)
	case notify.KindStoppedForBalance:
		p := payload[notify.LeaseNews](n)
		return tr("Lease %s was stopped (%s); its disk is kept", p.Name, word(p.Code)) + mark(p.Simulated)
	case notify.KindDeletionPlanned:
		return tr("Unpaid disks are deleted at %s unless money comes in", clockTime(payload[notify.DeletionPlanned](n).DeleteAt))
	case notify.KindDeleted:
		p := payload[notify.StorageDeleted](n)
		return tr("The disk of %s was deleted: it was unpaid for too long", p.Name) + mark(p.Simulated)
	case notify.KindInvoiceIssued:
		p := payload[notify.InvoiceNews](n)
		return tr("Invoice %s over %s %s was issued", p.Number, p.Total.Display(), p.Currency) + mark(p.Simulated)
	case notify.KindInvoiceDue:
		p := payload[notify.InvoiceNews](n)
		return tr("Invoice %s is due at %s: %s %s are open", p.Number, dueAt(p), p.Open.Display(), p.Currency) + mark(p.Simulated)
	case notify.KindInvoiceOverdue:
		p := payload[notify.InvoiceNews](n)
		return tr("Invoice %s was due at %s: %s %s are unpaid", p.Number, dueAt(p), p.Open.Display(), p.Currency) + mark(p.Simulated)
	case notify.KindBudgetReached:
		p := payload[notify.BudgetReached](n)
		return tr("Budget %s: %s of %s %s are spent", p.Name, p.Spent.Display(), p.Amount.Display(), p.Currency)
	case notify.KindPriceChange:
		p := payload[notify.PriceChange](n)
		return tr("The provider of lease %s proposes %s instead of %s %s an hour from %s on; answer by %s", p.Name, p.NewPerHour.Display(), p.PerHour.Display(), p.Currency, clockTime(p.EffectiveAt), clockTime(p.AnswerBy)) + mark(p.Simulated)
	case notify.KindReservationEnding:
		p := payload[notify.ReservationEnding](n)
		if p.MoneyMissing {
			return tr("The term of %s ends at %s, and the money for the next one is missing (%s %s)", p.Name, clockTime(p.Until), p.NextPrice.Display(), p.Currency) + mark(p.Simulated)
		}
		return tr("The term of %s ends at %s", p.Name, clockTime(p.Until)) + mark(p.Simulated)
	case notify.KindPaymentReceived:
		p := payload[notify.PaymentReceived](n)
		return tr("%s %s have come in (%s)", p.Amount.Display(), p.Currency, word(p.Method))
	case notify.KindWaitingStarted:
		p := payload[notify.WaitingNews](n)
		return tr("Request %s has become a lease", p.Name) + mark(p.Simulated)
	case notify.KindWaitingHeldBack:
		p := payload[notify.WaitingNews](n)
		return tr("There is room for request %s, and it is held back (%s)", p.Name, reason(p.Code)) + mark(p.Simulated)
	case notify.KindWaitingExpired:
		p := payload[notify.WaitingNews](n)
		return tr("Request %s has waited in vain, and is over", p.Name) + mark(p.Simulated)
	case notify.KindWaitingFailed:
		p := payload[notify.WaitingNews](n)
		return tr("Request %s can never become a lease as it is: %s", p.Name, reason(p.Code)) + mark(p.Simulated)
	case notify.KindWebhookDisabled:
		p := payload[notify.WebhookDisabled](n)
		return tr("The webhook at %s was switched off (%s)", p.URL, word(p.Reason))
	}
	return fmt.Sprintf("%s %s", n.Kind, n.Subject)
}

func dueAt(p notify.InvoiceNews) string {
	if p.DueAt == nil {
		return "-"
	}
	return clockTime(*p.DueAt)
}

func notificationsCommand() *cobra.Command {
	var f api.NotificationFilter
	var follow, read bool
	var most int
	cmd := &cobra.Command{
		Use: "notifications", Short: tr("What happened to your money and leases"), Args: cobra.NoArgs,
		Example: `  suanli notifications --unread --mark-read
  suanli notifications --follow`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			if err := atLeastOne("--limit", most); err != nil {
				return err
			}
			list := []api.Notification{}
			for n, err := range c.Notifications(cmd.Context(), f) {
				if err != nil {
					return err
				}
				if list = append(list, n); len(list) >= most {
					break
				}
			}
			if err := showNews(cmd, list, follow); err != nil {
				return err
			}
			if read && len(list) > 0 {
				if _, err := c.ReadNotifications(cmd.Context(), list[0].ID); err != nil {
					return err
				}
			}
			if !follow {
				return nil
			}
			after := ""
			if len(list) > 0 {
				after = list[0].ID
			}
			for n, err := range c.FollowNotifications(cmd.Context(), after) {
				if err != nil {
					return err
				}
				if f.Kind != "" && n.Kind != f.Kind {
					continue
				}
				if err := showNews(cmd, []api.Notification{n}, true); err != nil {
					return err
				}
			}
			return nil
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.Kind, "kind", "", tr("only of one kind, such as lease.interrupted"))
	fl.BoolVar(&f.Unread, "unread", false, tr("only what nobody of the account has read"))
	fl.BoolVar(&read, "mark-read", false, tr("note for the whole account that what is shown, and what is older, was read"))
	fl.BoolVar(&follow, "follow", false, tr("go on with what comes"))
	fl.IntVar(&most, "limit", 50, tr("how many at most"))
	return cmd
}

// atLeastOne refuses a number of things to show that shows none.
func atLeastOne(flag string, n int) error {
	if n < 1 {
		return usageError{errors.New(tr("%s %d: want at least 1", flag, n))}
	}
	return nil
}

// showNews prints notifications, the oldest first: the newest is where one looks.
// What is followed is one JSON value each.
func showNews(cmd *cobra.Command, list []api.Notification, each bool) error {
	if wantsJSON(cmd) && !each {
		return printJSON(cmd, list)
	}
	for i := len(list) - 1; i >= 0; i-- {
		if wantsJSON(cmd) {
			if err := printJSON(cmd, list[i]); err != nil {
				return err
			}
			continue
		}
		unread := " "
		if list[i].ReadAt == nil {
			unread = "*"
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s %s %s\n", unread, clockTime(list[i].At), sentence(list[i]))
	}
	return nil
}

func webhookCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "webhook", Short: tr("URLs that are called with notifications"), Long: tr("Deliveries are CloudEvents, signed by the Standard Webhooks scheme.")}
	cmd.AddCommand(webhookListCommand(), webhookCreateCommand(), webhookChangeCommand(),
		webhookAct("rotate WEBHOOK", tr("Replace a webhook's secret; the old one signs for a day as well"), func(cmd *cobra.Command, c *api.Client, id string) error {
			w, err := c.RotateWebhookSecret(cmd.Context(), id)
			if err != nil {
				return err
			}
			return done(cmd, w, "The new secret, which is not shown again: %s", w.Secret)
		}),
		webhookAct("delete WEBHOOK", tr("Remove a webhook and the log of its deliveries"), func(cmd *cobra.Command, c *api.Client, id string) error {
			if err := c.DeleteWebhook(cmd.Context(), id); err != nil {
				return err
			}
			return done(cmd, map[string]string{"id": id}, "Webhook %s is removed", id)
		}),
		webhookAct("test WEBHOOK", tr("Send a webhook something that says that nothing happened"), func(cmd *cobra.Command, c *api.Client, id string) error {
			d, err := c.TestWebhook(cmd.Context(), id)
			if err != nil {
				return err
			}
			return done(cmd, d, "Delivery %s is on its way; see how it goes with: suanli webhook deliveries %s", d.ID, id)
		}),
		webhookDeliveriesCommand(), redeliverCommand())
	return cmd
}

// webhookAct is a command that does something with one webhook.
func webhookAct(use, short string, act func(*cobra.Command, *api.Client, string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		c, err := client(cmd)
		if err != nil {
			return err
		}
		return act(cmd, c, args[0])
	}}
}

func webhookListCommand() *cobra.Command {
	return &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: tr("List webhooks"), Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		c, err := client(cmd)
		if err != nil {
			return err
		}
		list, err := c.Webhooks(cmd.Context())
		if err != nil {
			return err
		}
		if wantsJSON(cmd) {
			return printJSON(cmd, list)
		}
		t := newTable(tr("ID"), tr("URL"), tr("KINDS"), tr("STATE"))
		for _, w := range list {
			kinds, state := tr("all"), tr("on")
			if len(w.Kinds) > 0 {
				kinds = tr("%d of %d", len(w.Kinds), len(notify.Kinds()))
			}
			if !w.Enabled {
				state = tr("off: %s", word(w.DisabledWhy))
			}
			t.add(w.ID, w.URL, kinds, state)
		}
		t.print(cmd.OutOrStdout())
		return nil
	}}
}

func webhookCreateCommand() *cobra.Command {
	var in api.WebhookCreate
	cmd := &cobra.Command{
		Use: "create URL", Short: tr("Add a webhook; its secret is shown once"), Args: cobra.ExactArgs(1),
		Example: `  suanli webhook create https://example.com/hooks --kind lease.interrupted`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			in.URL = args[0]
			w, err := c.CreateWebhook(cmd.Context(), in)
			if err != nil {
				return err
			}
			return done(cmd, w, "Webhook %s is on. Its secret, which is not shown again: %s", w.ID, w.Secret)
		},
	}
	cmd.Flags().StringSliceVar(&in.Kinds, "kind", nil, tr("call it with this kind only; may be repeated (default: all that you may read)"))
	cmd.Flags().StringVar(&in.Description, "description", "", tr("what it is for"))
	return cmd
}

func webhookChangeCommand() *cobra.Command {
	var address, description string
	var kinds []string
	var enabled bool
	cmd := &cobra.Command{
		Use: "change WEBHOOK", Short: tr("Change a webhook, or switch it on or off"), Args: cobra.ExactArgs(1),
		Example: `  suanli webhook change wh-01jv9z3k8h6e2m4q7r5t8w0xyz --enabled=false`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			var in api.WebhookChange
			for name, set := range map[string]func(){
				"url": func() { in.URL = &address }, "description": func() { in.Description = &description }, "kind": func() { in.Kinds = &kinds }, "enabled": func() { in.Enabled = &enabled },
			} {
				if cmd.Flags().Changed(name) {
					set()
				}
			}
			w, err := c.ChangeWebhook(cmd.Context(), args[0], in)
			if err != nil {
				return err
			}
			return done(cmd, w, "Webhook %s is changed", w.ID)
		},
	}
	f := cmd.Flags()
	f.StringVar(&address, "url", "", tr("where it is"))
	f.StringVar(&description, "description", "", tr("what it is for"))
	f.StringSliceVar(&kinds, "kind", nil, tr("call it with this kind only; may be repeated"))
	f.BoolVar(&enabled, "enabled", true, tr("whether it is called"))
	return cmd
}

func webhookDeliveriesCommand() *cobra.Command {
	var state string
	var most int
	cmd := &cobra.Command{
		Use: "deliveries WEBHOOK [DELIVERY]", Short: tr("What a webhook was sent, and how that went"), Args: cobra.RangeArgs(1, 2),
		Long: tr("With a delivery, each of its attempts."),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			if err := atLeastOne("--limit", most); err != nil {
				return err
			}
			if len(args) == 2 {
				return showDelivery(cmd, c, args[0], args[1])
			}
			list := []api.WebhookDelivery{}
			for d, err := range c.WebhookDeliveries(cmd.Context(), args[0], state) {
				if err != nil {
					return err
				}
				if list = append(list, d); len(list) >= most {
					break
				}
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, list)
			}
			t := newTable(tr("ID"), tr("KIND"), tr("STATE"), tr("ATTEMPTS"), tr("SINCE"))
			for _, d := range list {
				t.add(d.ID, d.Kind, word(d.State), d.Attempts, clockTime(d.FirstAt))
			}
			t.print(cmd.OutOrStdout())
			return nil
		},
	}
	cmd.Flags().StringVar(&state, "state", "", tr("only those that are pending, delivered or failed"))
	cmd.Flags().IntVar(&most, "limit", 50, tr("how many at most"))
	return cmd
}

func showDelivery(cmd *cobra.Command, c *api.Client, webhookID, id string) error {
	d, err := c.WebhookDelivery(cmd.Context(), webhookID, id)
	if err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return printJSON(cmd, d)
	}
	t := newTable(tr("ATTEMPT"), tr("TIME"), tr("STATUS"), tr("MILLISECONDS"), tr("ERROR"), tr("ANSWER"))
	for _, a := range d.Log {
		t.add(a.Number, clockTime(a.At), a.Status, a.LatencyMilli, word(a.Error), a.Excerpt)
	}
	t.print(cmd.OutOrStdout())
	return nil
}

func redeliverCommand() *cobra.Command {
	return &cobra.Command{Use: "redeliver WEBHOOK DELIVERY", Short: tr("Send what a delivery was about once more"), Args: cobra.ExactArgs(2), RunE: func(cmd *cobra.Command, args []string) error {
		c, err := client(cmd)
		if err != nil {
			return err
		}
		d, err := c.Redeliver(cmd.Context(), args[0], args[1])
		if err != nil {
			return err
		}
		return done(cmd, d, "Delivery %s is on its way; see how it goes with: suanli webhook deliveries %s", d.ID, args[0])
	}}
}

package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

func init() {
	maps.Copy(zhTexts, payZH)
	for state, both := range map[string][2]string{
		"created":    {"created", "已创建"},
		"pending":    {"pending", "待支付"},
		"aside":      {"put aside", "待运营者处理"},
		"succeeded":  {"succeeded", "已收到"},
		"credited":   {"credited", "已入账"},
		"expired":    {"expired", "已过期"},
		"refunding":  {"refunding", "退款中"},
		"refunded":   {"refunded", "已退款"},
		"disputed":   {"disputed", "有争议"},
		"open":       {"open", "进行中"},
		"done":       {"done", "完成"},
		"won":        {"won", "胜诉"},
		"lost":       {"lost", "败诉"},
		"bank":       {"bank", "银行转账"},
		"shortfall":  {"shortfall", "欠款"},
		"refund_of":  {"refund", "退款"},
		"dispute_of": {"dispute", "争议"},
	} {
		if _, taken := words[state]; !taken {
			words[state] = both
		}
	}
}

func payCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "pay", Short: tr("Pay into the account, and look after payments")}
	var in api.CreatePayment
	var key string
	create := showing("create AMOUNT", tr("Pay an amount into the account"), cobra.ExactArgs(1),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.Payment, error) {
			var err error
			if in.Amount, err = paid(args[0]); err != nil {
				return nil, err
			}
			return c.CreatePayment(keyed(cmd.Context(), key), in)
		},
		func(cmd *cobra.Command, p *api.Payment) {
			if p.CheckoutURL == "" {
				printPayment(cmd, p)
				return
			}
			say(cmd, "Pay %s %s here: %s", p.Amount.Display(), p.Currency, p.CheckoutURL)
			say(cmd, "Payment %s; suanli pay show says how it stands", p.ID)
		})
	create.Flags().StringVar(&in.Provider, "provider", "", tr("with whom to pay (default: the only one there is)"))
	keyFlag(create, &key)

	var q api.PaymentQuery
	list := listing("list", tr("List payments, newest first"),
		func(ctx context.Context, c *api.Client) ([]api.Payment, error) {
			q.All = q.All || q.Attention
			return c.Payments(ctx, q)
		},
		[]string{"ID", tr("ACCOUNT"), tr("WITH"), tr("STATE"), tr("AMOUNT"), tr("WHEN"), tr("NOTE")},
		func(p api.Payment) []any {
			note := p.Attention
			if note == "" {
				note = p.Reason
			}
			return []any{p.ID, p.AccountID, word(p.Provider), word(p.State), p.Amount.Display() + " " + p.Currency, p.CreatedAt.Local().Format(time.DateTime), note}
		})
	list.Aliases = []string{"ls"}
	list.Flags().BoolVar(&q.All, "all", false, tr("of all accounts (operator)"))
	list.Flags().BoolVar(&q.Attention, "attention", false, tr("only what an operator should look at (operator)"))
	list.Flags().StringVar(&q.State, "in-state", "", tr("only in this state, such as pending or credited"))

	cmd.AddCommand(create, list,
		showing("show PAYMENT", tr("Show a payment with its refunds and disputes"), cobra.ExactArgs(1),
			func(cmd *cobra.Command, c *api.Client, args []string) (*api.Payment, error) {
				return c.Payment(cmd.Context(), args[0])
			}, printPayment),
		payRefundCommand(), payEnterCommand(),
		showing("confirm PAYMENT AMOUNT", tr("Confirm a bank transfer by its amount, once more (operator)"), cobra.ExactArgs(2),
			func(cmd *cobra.Command, c *api.Client, args []string) (*api.Payment, error) {
				amount, err := paid(args[1])
				if err != nil {
					return nil, err
				}
				return c.ConfirmTransfer(cmd.Context(), args[0], api.ConfirmTransfer{Amount: amount})
			}, printPayment),
		payReverseCommand(), payResolveCommand())
	return cmd
}

func keyed(ctx context.Context, key string) context.Context {
	if key == "" {
		return ctx
	}
	return api.IdempotencyKey(ctx, key)
}

func keyFlag(cmd *cobra.Command, key *string) {
	cmd.Flags().StringVar(key, "key", "", tr("idempotency key: doing it twice counts once"))
}

func payRefundCommand() *cobra.Command {
	var in api.RefundPayment
	var amount, key string
	cmd := showing("refund PAYMENT", tr("Give a payment back to where it came from (operator)"), cobra.ExactArgs(1),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.Payment, error) {
			if amount != "" {
				var err error
				if in.Amount, err = paid(amount); err != nil {
					return nil, err
				}
			}
			return c.RefundPayment(keyed(cmd.Context(), key), args[0], in)
		}, printPayment)
	cmd.Flags().StringVar(&amount, "amount", "", tr("only a part"))
	cmd.Flags().StringVar(&in.Reason, "reason", "", tr("why"))
	keyFlag(cmd, &key)
	return cmd
}

func payEnterCommand() *cobra.Command {
	var in api.Deposit
	var key string
	cmd := showing("enter ACCOUNT AMOUNT", tr("Enter a bank transfer, to be confirmed (operator)"), cobra.ExactArgs(2),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.Payment, error) {
			var err error
			in.AccountID = args[0]
			if in.Amount, err = paid(args[1]); err != nil {
				return nil, err
			}
			return c.EnterTransfer(keyed(cmd.Context(), key), in)
		}, printPayment)
	cmd.Long = tr("It reaches the account when it is confirmed by suanli pay confirm. suanli deposit does both at once.")
	cmd.Flags().StringVar(&in.Reference, "reference", "", tr("the bank's number of the transfer; an account has each once"))
	keyFlag(cmd, &key)
	return cmd
}

func payReverseCommand() *cobra.Command {
	var in api.ReversePayment
	cmd := showing("reverse PAYMENT", tr("Take back a bank transfer that was entered wrongly (operator)"), cobra.ExactArgs(1),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.Payment, error) {
			return c.ReversePayment(cmd.Context(), args[0], in)
		}, printPayment)
	cmd.Flags().StringVar(&in.Reason, "reason", "", tr("why"))
	return cmd
}

func payResolveCommand() *cobra.Command {
	var in api.ResolvePayment
	cmd := showing("resolve PAYMENT", tr("Decide on a payment that was put aside (operator)"), cobra.ExactArgs(1),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.Payment, error) {
			return c.ResolvePayment(cmd.Context(), args[0], in)
		}, printPayment)
	cmd.Flags().BoolVar(&in.Accept, "accept", false, tr("credit what came; otherwise it is over, and given back at the provider"))
	cmd.Flags().StringVar(&in.Reason, "reason", "", tr("why"))
	return cmd
}

func printPayment(cmd *cobra.Command, p *api.Payment) {
	say(cmd, "Payment %s of %s %s is %s", p.ID, p.Amount.Display(), p.Currency, word(p.State))
	for _, note := range slices.Compact([]string{p.Attention, p.Reason}) {
		if note = strings.TrimSpace(note); note != "" {
			say(cmd, "  %s", note)
		}
	}
	if len(p.Refunds)+len(p.Disputes) == 0 {
		return
	}
	t := newTable(tr("WHAT"), tr("STATE"), tr("AMOUNT"), tr("WHEN"), tr("REFERENCE"))
	for _, r := range p.Refunds {
		t.add(word("refund_of"), word(r.State), r.Amount.Display(), r.CreatedAt.Local().Format(time.DateTime), r.Reference)
	}
	for _, d := range p.Disputes {
		t.add(word("dispute_of"), word(d.State), d.Amount.Display(), d.At.Local().Format(time.DateTime), d.Reference)
	}
	t.print(cmd.OutOrStdout())
}

var payZH = map[string]string{
	"Pay into the account, and look after payments":               "向账户付款，管理付款",
	"Pay an amount into the account":                              "向账户支付一笔金额",
	"Pay %s %s here: %s":                                          "请在此支付 %s %s：%s",
	"Payment %s; suanli pay show says how it stands":              "付款 %s；用 suanli pay show 查看进展",
	"with whom to pay (default: the only one there is)":           "支付渠道（默认：唯一可用的渠道）",
	"List payments, newest first":                                 "列出付款，最新的在前",
	"of all accounts (operator)":                                  "所有账户的（运营者）",
	"only what an operator should look at (operator)":             "仅需要运营者处理的（运营者）",
	"only in this state, such as pending or credited":             "仅此状态的，例如 pending（待支付）或 credited（已入账）",
	"Show a payment with its refunds and disputes":                "显示一笔付款及其退款和争议",
	"Confirm a bank transfer by its amount, once more (operator)": "再次输入金额以确认银行转账（运营者）",
	"idempotency key: doing it twice counts once":                 "幂等键：重复执行只算一次",
	"Give a payment back to where it came from (operator)":        "将付款原路退回（运营者）",
	"only a part": "仅退一部分",
	"Enter a bank transfer, to be confirmed (operator)":                                                    "登记一笔待确认的银行转账（运营者）",
	"the bank's number of the transfer; an account has each once":                                          "银行的转账流水号；每个账户中不可重复",
	"Take back a bank transfer that was entered wrongly (operator)":                                        "撤销登记有误的银行转账（运营者）",
	"Decide on a payment that was put aside (operator)":                                                    "处理被搁置的付款（运营者）",
	"Payment %s of %s %s is %s":                                                                            "付款 %s，金额 %s %s，状态：%s",
	"credit what came; otherwise it is over, and given back at the provider":                               "按实收金额入账；否则视为已在支付渠道退回并结束",
	"It reaches the account when it is confirmed by suanli pay confirm. suanli deposit does both at once.": "用 suanli pay confirm 确认后才入账。suanli deposit 一次完成登记和确认。",
	"WITH": "渠道",
	"NOTE": "备注",
}

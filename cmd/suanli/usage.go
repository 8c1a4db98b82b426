package main

import (
	"fmt"
	"maps"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

func init() {
	maps.Copy(zhTexts, map[string]string{
		"List what was used, in the order of writing":              "按写入顺序列出用量",
		"only what comes after the event with this id":             "只列出该标识的事件之后的用量",
		"only of this lease":                                       "只列出该租约",
		"only of this meter: compute, storage, egress or reserved": "只列出该计量项：compute、storage、egress 或 reserved",
		"only what ends after this moment, such as %s":             "只列出在该时刻之后结束的用量，如 %s",
		"of all accounts (operator)":                               "所有账户（运营方）",
		"--from %q: want a moment such as %s":                      "--from %q：应为时刻，如 %s",
		"QUANTITY":                                                 "用量",
	})
}

// usageCommand prints events of use; as JSON, as the CloudEvents that they are.
func usageCommand() *cobra.Command {
	var q api.UsageQuery
	var from string
	var all bool
	const example = "2026-11-01T00:00:00Z"
	cmd := &cobra.Command{
		Use: "usage", Short: tr("List what was used, in the order of writing"), Args: cobra.NoArgs,
		Example: "suanli bill usage --lease ls-… --meter compute\nsuanli bill usage --json --cursor ur-…",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from != "" {
				at, err := time.Parse(time.RFC3339, from)
				if err != nil {
					return usageError{fmt.Errorf("%s", tr("--from %q: want a moment such as %s", from, example))}
				}
				q.From = at
			}
			c, err := client(cmd)
			if err != nil {
				return err
			}
			read := c.Usage
			if all {
				read = c.AllUsage
			}
			events := []api.UsageEvent{}
			q.Limit = 1000
			for {
				list, err := read(cmd.Context(), q)
				if err != nil {
					return err
				}
				events = append(events, list...)
				if len(list) < q.Limit {
					break
				}
				q.Cursor = list[len(list)-1].ID
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, events)
			}
			t := newTable(tr("LEASE"), tr("METER"), tr("FROM"), tr("TO"), tr("QUANTITY"))
			for _, e := range events {
				t.add(e.Data.LeaseID+mark(e.Data.Simulated), word(e.Data.Meter), e.Data.FromAt.Local().Format(time.DateTime), e.Data.ToAt.Local().Format(time.DateTime), e.Data.Quantity+" "+word(e.Data.Unit))
			}
			t.print(cmd.OutOrStdout())
			return nil
		},
	}
	cmd.Flags().StringVar(&q.Cursor, "cursor", "", tr("only what comes after the event with this id"))
	cmd.Flags().StringVar(&q.LeaseID, "lease", "", tr("only of this lease"))
	cmd.Flags().StringVar(&q.Meter, "meter", "", tr("only of this meter: compute, storage, egress or reserved"))
	cmd.Flags().StringVar(&from, "from", "", tr("only what ends after this moment, such as %s", example))
	cmd.Flags().BoolVar(&all, "all-accounts", false, tr("of all accounts (operator)"))
	return cmd
}

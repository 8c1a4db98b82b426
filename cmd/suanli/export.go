package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
)

func exportCommand() *cobra.Command {
	var format, period, as, output string
	cmd := &cobra.Command{
		Use: "export", Short: tr("Export a month's costs by the FinOps specification FOCUS"), Args: cobra.NoArgs,
		Example: "suanli bill export --format focus --period 2026-11\nsuanli bill export --period 2026-11 --as jsonl --output -",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "focus" {
				return usageError{fmt.Errorf("%s", tr("the format %q is not known; want focus", format))}
			}
			if as != "csv" && as != "jsonl" {
				return usageError{fmt.Errorf("%s", tr("--as %q: want csv or jsonl", as))}
			}
			if period == "" {
				period = time.Now().Format("2006-01")
			}
			c, err := client(cmd)
			if err != nil {
				return err
			}
			in, err := c.Focus(cmd.Context(), period, as)
			if err != nil {
				return err
			}
			defer in.Close()
			if output == "-" {
				_, err = io.Copy(cmd.OutOrStdout(), in)
				return err
			}
			if output == "" {
				output = "focus-" + period + "." + as
			}
			f, err := os.Create(output)
			if err != nil {
				return err
			}
			_, err = io.Copy(f, in)
			if closed := f.Close(); err == nil {
				err = closed
			}
			if err != nil {
				return err
			}
			return done(cmd, map[string]string{"file": output}, "%s written", output)
		},
	}
	cmd.Flags().StringVar(&format, "format", "focus", tr("what to export: focus"))
	cmd.Flags().StringVar(&period, "period", "", tr("a month, such as 2026-11 (default: this one, so far)"))
	cmd.Flags().StringVar(&as, "as", "csv", tr("csv or jsonl"))
	cmd.Flags().StringVar(&output, "output", "", tr("file to write, or - for the terminal (default: focus-PERIOD.csv)"))
	return cmd
}

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

func volumeDiscountCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "volume-discount", Short: tr("What a month's compute takes off")}
	set := showing("set CURRENCY [FROM=SHARE%...]", tr("Set what months that begin from now on take off (operator)"), cobra.MinimumNArgs(1),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.VolumeTiers, error) {
			in := api.SetVolumeTiers{Currency: args[0], Tiers: []api.VolumeTier{}}
			for _, text := range args[1:] {
				t, err := parseTier(text)
				if err != nil {
					return nil, usageError{err}
				}
				in.Tiers = append(in.Tiers, t)
			}
			return c.SetVolumeTiers(cmd.Context(), in)
		},
		func(cmd *cobra.Command, v *api.VolumeTiers) {
			say(cmd, "Months that begin from now on take off %s in %s (%s)", tiersText(*v), v.Currency, v.ID)
		})
	set.Long = tr("A tier takes its share off what an account pays for compute on demand and on the spot market in a calendar month of its time zone beyond a sum, up to the next tier. It is taken off when the month is closed. Without tiers nothing is.")
	set.Example = `  suanli volume-discount set CNY 1000=5% 5000=10%
  suanli volume-discount set CNY`
	cmd.AddCommand(set,
		listing("ls", tr("List what months take off, newest first"),
			func(ctx context.Context, c *api.Client) ([]api.VolumeTiers, error) { return c.VolumeTiers(ctx) },
			[]string{tr("DISCOUNT"), tr("CURRENCY"), tr("TIERS"), tr("SET")},
			func(v api.VolumeTiers) []any {
				return []any{v.ID, v.Currency, tiersText(v), v.SetAt.Local().Format(time.DateTime)}
			}))
	return cmd
}

// parseTier reads a tier such as 1000=5%.
func parseTier(text string) (api.VolumeTier, error) {
	from, share, ok := strings.Cut(text, "=")
	digits, percent := strings.CutSuffix(share, "%")
	if !ok || !percent {
		return api.VolumeTier{}, fmt.Errorf("tier %q: want FROM=SHARE%%, such as 1000=5%%", text)
	}
	sum, err := api.ParseAmount(from)
	if err != nil {
		return api.VolumeTier{}, fmt.Errorf("tier %q: %w", text, err)
	}
	off, err := api.ParseAmount(digits)
	if err != nil || off%10_000 != 0 {
		return api.VolumeTier{}, fmt.Errorf("tier %q: want up to two decimals of a per cent, such as 1000=5%%", text)
	}
	return api.VolumeTier{From: sum, BasisPoints: int64(off) / 10_000}, nil
}

func tiersText(v api.VolumeTiers) string {
	if len(v.Tiers) == 0 {
		return tr("nothing")
	}
	out := make([]string, len(v.Tiers))
	for i, t := range v.Tiers {
		out[i] = fmt.Sprintf("%s=%s%%", t.From.Display(), sharePercent(t.BasisPoints*100))
	}
	return strings.Join(out, " ")
}

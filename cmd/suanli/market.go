package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

func searchCommand() *cobra.Command {
	var q api.OfferQuery
	var fields bool
	cmd := &cobra.Command{
		Use: "search [EXPRESSION]", Short: tr("Search the market"), Args: cobra.MaximumNArgs(1),
		Example: `  suanli search 'gpu_model = "RTX 4090" and gpu_count >= 2 and price_per_hour < 1.5'
  suanli search --sort -vram_gb 'not simulated'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			if fields {
				list, err := c.OfferFields(cmd.Context())
				if err != nil {
					return err
				}
				if wantsJSON(cmd) {
					return printJSON(cmd, list)
				}
				t := newTable(tr("FIELD"), tr("TYPE"), tr("UNIT"), tr("WHAT IT IS"))
				for _, f := range list {
					t.add(f.Name, f.Type, f.Unit, f.Doc)
				}
				t.print(cmd.OutOrStdout())
				return nil
			}
			if len(args) == 1 {
				q.Where = args[0]
			}
			p, err := c.Offers(cmd.Context(), q)
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, p)
			}
			t := newTable(tr("OFFER"), tr("GPU"), "VRAM GiB", "CUDA", "CPU", tr("MEMORY GiB"), tr("DISK GiB"), tr("ZONE"), tr("RELIABILITY"), tr("PER HOUR"))
			for _, o := range p.Items {
				t.add(o.ID, fmt.Sprintf("%d × %s%s%s", o.GPUCount, o.GPUModel, mark(o.Simulated), later(o.AvailableAfterSeconds)), o.VRAMMiB>>10, o.MaxCUDA, cpus(o.CPUMillis),
					o.MemoryMiB>>10, o.MaxDiskGiB, o.Zone, o.ReliabilityPercent+" %", offerPrice(o.Price))
			}
			t.print(cmd.OutOrStdout())
			if p.NextCursor != "" {
				say(cmd, "There is more: --cursor %s", p.NextCursor)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&q.Sort, "sort", "", tr("field to sort by, with - before it for the largest first"))
	cmd.Flags().Int64Var(&q.DiskGiB, "disk", 0, tr("disk in GiB that prices include"))
	cmd.Flags().IntVar(&q.Limit, "limit", 0, tr("how many offers"))
	cmd.Flags().StringVar(&q.Cursor, "cursor", "", tr("go on after a page"))
	cmd.Flags().BoolVar(&fields, "fields", false, tr("list what an expression can name"))
	return cmd
}

func templatesCommand() *cobra.Command {
	return listing("templates", tr("List templates"),
		func(ctx context.Context, c *api.Client) ([]api.Template, error) { return c.Templates(ctx) },
		[]string{tr("NAME"), tr("SCENARIO"), tr("IMAGE"), tr("WHAT IT IS")},
		func(m api.Template) []any {
			what := m.Description
			if chinese && m.DescriptionZH != "" {
				what = m.DescriptionZH
			}
			return []any{m.Name, m.Scenario, m.Image, what}
		})
}

func modelsCommand() *cobra.Command {
	return listing("models", tr("List GPU models"),
		func(ctx context.Context, c *api.Client) ([]api.GPUModel, error) { return c.GPUModels(ctx) },
		[]string{tr("MODEL"), tr("ARCHITECTURE"), tr("COMPUTE CAPABILITY"), "VRAM GB", "GB/s", "FP32 TFLOPS", "FP16 TFLOPS"},
		func(m api.GPUModel) []any {
			return []any{m.Name, m.Architecture, m.ComputeCapability, m.VRAMGB, m.BandwidthGBs, m.FP32TFLOPS, m.FP16TFLOPS}
		})
}

func regionsCommand() *cobra.Command {
	return listing("regions", tr("List regions and their zones"),
		func(ctx context.Context, c *api.Client) ([]api.Region, error) { return c.Regions(ctx) },
		[]string{tr("REGION"), tr("ZONE"), tr("NAME")},
		func(r api.Region) []any {
			name, zones := r.Name, make([]string, len(r.Zones))
			if chinese && r.NameZH != "" {
				name = r.NameZH
			}
			for i, z := range r.Zones {
				zones[i] = z.ID
			}
			return []any{r.ID, strings.Join(zones, " "), name}
		})
}

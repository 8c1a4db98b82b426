package server

import (
	"context"
	"fmt"
	"net/http"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/catalog"
	"suanli.dev/internal/fault"
)

const tagCatalog = "Catalog"

func (a *API) registerCatalog() {
	if a.Catalog == nil {
		return
	}
	register(a, operation{
		ID: "listGpuModels", Method: http.MethodGet, Path: "/v1/gpu-models", Summary: "List GPU models", Tag: tagCatalog, Action: account.ReadMarket,
	}, func(context.Context, account.Principal, *none) (*body[page[api.GPUModel]], error) {
		return whole(a.Catalog.Models(), modelJSON), nil
	})
	register(a, operation{
		ID: "listCudaReleases", Method: http.MethodGet, Path: "/v1/cuda-releases", Summary: "List CUDA releases and the drivers they need", Tag: tagCatalog, Action: account.ReadMarket,
	}, func(context.Context, account.Principal, *none) (*body[page[api.CUDARelease]], error) {
		return whole(a.Catalog.CUDA(), func(r catalog.CUDARelease) api.CUDARelease { return api.CUDARelease(r) }), nil
	})
	register(a, operation{
		ID: "listTemplates", Method: http.MethodGet, Path: "/v1/templates", Summary: "List templates", Tag: tagCatalog, Action: account.ReadMarket,
	}, func(context.Context, account.Principal, *none) (*body[page[api.Template]], error) {
		return whole(a.Catalog.Templates(), templateJSON), nil
	})
	register(a, operation{
		ID: "getTemplate", Method: http.MethodGet, Path: "/v1/templates/{template}", Summary: "Read a template", Tag: tagCatalog, Action: account.ReadMarket,
	}, func(_ context.Context, _ account.Principal, in *struct {
		Template string `path:"template" maxLength:"64"`
	}) (*body[api.Template], error) {
		t, ok := a.Catalog.Template(in.Template)
		if !ok {
			return nil, fault.New(fault.NotFound, "template_not_found", "there is no template %q; GET /v1/templates lists them", in.Template)
		}
		return &body[api.Template]{templateJSON(t)}, nil
	})
	register(a, operation{
		ID: "listRegions", Method: http.MethodGet, Path: "/v1/regions", Summary: "List regions and zones", Tag: tagCatalog, Action: account.ReadMarket,
	}, func(context.Context, account.Principal, *none) (*body[page[api.Region]], error) {
		return whole(a.Catalog.Regions(), regionJSON), nil
	})
}

// whole is a list that is always one page.
func whole[S, T any](items []S, convert func(S) T) *body[page[T]] {
	out := &body[page[T]]{page[T]{Items: make([]T, 0, len(items))}}
	for _, item := range items {
		out.Body.Items = append(out.Body.Items, convert(item))
	}
	return out
}

// tenths writes tenths as a decimal; nothing for 0, which is not known.
func tenths(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d", n/10, n%10)
}

func modelJSON(m catalog.Model) api.GPUModel {
	return api.GPUModel{
		Name: m.Name, Vendor: m.Vendor, Architecture: m.Architecture, ComputeCapability: m.ComputeCapability, VRAMGB: m.VRAMGB, Memory: m.Memory,
		BandwidthGBs: m.BandwidthGBs, FP32TFLOPS: tenths(m.FP32DeciTFLOPS), FP16TFLOPS: tenths(m.FP16DeciTFLOPS), TDPWatts: m.TDPWatts,
		NVLinkGBs: m.NVLinkGBs, NVENCUnits: m.NVENCUnits, Source: m.Source,
	}
}

func templateJSON(t catalog.Template) api.Template {
	out := api.Template{
		Name: t.Name, Title: t.Title, TitleZH: t.TitleZH, Description: t.Description, DescriptionZH: t.DescriptionZH, Scenario: t.Scenario,
		Image: t.Image, Command: t.Command, StartScript: t.StartScript, NoticeSignal: t.NoticeSignal, NoticeCommand: t.NoticeCommand, Environment: t.Environment, GeneratedSecrets: t.GeneratedSecrets,
		Ports: []api.TemplatePort{}, DiskGiB: t.DiskGiB, Needs: api.TemplateNeeds(t.Needs),
	}
	for _, p := range t.Ports {
		out.Ports = append(out.Ports, api.TemplatePort(p))
	}
	return out
}

func regionJSON(r catalog.Region) api.Region {
	out := api.Region{ID: r.ID, Name: r.Name, NameZH: r.NameZH, Zones: []api.Zone{}}
	for _, z := range r.Zones {
		out.Zones = append(out.Zones, api.Zone(z))
	}
	return out
}

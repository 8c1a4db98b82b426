package api

import (
	"context"
	"net/http"
	"net/url"
)

// GPUModel is a kind of GPU. Figures that could not be confirmed are absent.
type GPUModel struct {
	Name              string `json:"name"`
	Vendor            string `json:"vendor"`
	Architecture      string `json:"architecture"`
	ComputeCapability string `json:"compute_capability"`
	VRAMGB            int    `json:"vram_gb" doc:"As the vendor states it"`
	Memory            string `json:"memory,omitempty"`
	BandwidthGBs      int    `json:"bandwidth_gbs,omitempty" doc:"Of its memory, GB/s"`
	FP32TFLOPS        string `json:"fp32_tflops,omitempty" doc:"Decimal"`
	FP16TFLOPS        string `json:"fp16_tflops,omitempty" doc:"Decimal, dense"`
	TDPWatts          int    `json:"tdp_watts,omitempty"`
	NVLinkGBs         int    `json:"nvlink_gbs,omitempty" doc:"All links, both directions, GB/s"`
	NVENCUnits        int    `json:"nvenc_units,omitempty" doc:"Video encoders"`
	Source            string `json:"source" doc:"Where the figures are from"`
}

// CUDARelease is a CUDA toolkit and the Linux driver that it asks for.
type CUDARelease struct {
	CUDA        string `json:"cuda"`
	Update      string `json:"update"`
	Driver      string `json:"driver" doc:"The lowest that has all of the release"`
	MinorDriver string `json:"minor_driver" doc:"The lowest on which programs built with it run, by minor version compatibility"`
	CCMin       string `json:"cc_min" doc:"Lowest compute capability that it compiles for"`
	CCMax       string `json:"cc_max" doc:"Highest compute capability that it knows"`
	Source      string `json:"source"`
}

// Template is a starting point for a rental.
type Template struct {
	Name             string            `json:"name"`
	Title            string            `json:"title"`
	TitleZH          string            `json:"title_zh,omitempty"`
	Description      string            `json:"description"`
	DescriptionZH    string            `json:"description_zh,omitempty"`
	Scenario         string            `json:"scenario"`
	Image            string            `json:"image"`
	Command          []string          `json:"command,omitempty"`
	StartScript      string            `json:"start_script,omitempty"`
	NoticeSignal     string            `json:"notice_signal,omitempty" doc:"Sent to the command when a spot lease is told of its interruption"`
	NoticeCommand    string            `json:"notice_command,omitempty" doc:"Run by /bin/sh beside the command then"`
	Environment      map[string]string `json:"environment,omitempty"`
	GeneratedSecrets []string          `json:"generated_secrets,omitempty" doc:"Environment variables that get a random value of their own in each rental"`
	Ports            []TemplatePort    `json:"ports" nullable:"false"`
	DiskGiB          int64             `json:"disk_gib"`
	Needs            TemplateNeeds     `json:"needs"`
}

// TemplatePort is a TCP port that is served inside.
type TemplatePort struct {
	Port     int    `json:"port"`
	Name     string `json:"name,omitempty"`
	Protocol string `json:"protocol" enum:"http,tcp"`
}

// TemplateNeeds is what a template asks of an offer.
type TemplateNeeds struct {
	GPUs              int    `json:"gpus,omitempty"`
	VRAMGiB           int    `json:"vram_gib,omitempty" doc:"Of each GPU"`
	CUDA              string `json:"cuda,omitempty"`
	Driver            string `json:"driver,omitempty"`
	ComputeCapability string `json:"compute_capability,omitempty"`
	MemoryGiB         int    `json:"memory_gib,omitempty"`
}

// Region is a place with one or more zones.
type Region struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	NameZH string `json:"name_zh,omitempty"`
	Zones  []Zone `json:"zones" nullable:"false"`
}

// Zone is a part of a region that fails on its own.
type Zone struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	NameZH string `json:"name_zh,omitempty"`
}

// GPUModels lists the catalog's GPU models.
func (c *Client) GPUModels(ctx context.Context) ([]GPUModel, error) {
	return collect(all[GPUModel](ctx, c, "/v1/gpu-models", nil))
}

// CUDAReleases lists CUDA releases and the drivers that they ask for.
func (c *Client) CUDAReleases(ctx context.Context) ([]CUDARelease, error) {
	return collect(all[CUDARelease](ctx, c, "/v1/cuda-releases", nil))
}

// Templates lists all templates.
func (c *Client) Templates(ctx context.Context) ([]Template, error) {
	return collect(all[Template](ctx, c, "/v1/templates", nil))
}

// Template reads one template.
func (c *Client) Template(ctx context.Context, name string) (*Template, error) {
	return do[Template](ctx, c, http.MethodGet, "/v1/templates/"+url.PathEscape(name), nil)
}

// Regions lists regions and their zones.
func (c *Client) Regions(ctx context.Context) ([]Region, error) {
	return collect(all[Region](ctx, c, "/v1/regions", nil))
}

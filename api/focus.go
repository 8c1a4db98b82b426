package api

import (
	"context"
	"io"
	"net/http"
	"net/url"
)

// Focus downloads a month of the caller's account, such as "2026-11", as the FinOps
// Open Cost and Usage Specification has it, in the format csv or jsonl.
func (c *Client) Focus(ctx context.Context, period, format string) (io.ReadCloser, error) {
	return c.Open(ctx, http.MethodGet, "/v1/exports/focus", url.Values{"period": {period}, "format": {format}}, "*/*")
}

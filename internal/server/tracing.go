package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"suanli.dev/internal/protocol"
)

const (
	tracerName = "suanli.dev"
	// tracesPath is where a collector takes traces, under its address.
	tracesPath = "/v1/traces"
	// flushTime bounds how long a stop waits for a collector.
	flushTime = 5 * time.Second
)

// openTracing sends traces to the collector at endpoint. The provider is nil and
// flush does nothing if endpoint is empty: then nothing is traced at all.
func openTracing(ctx context.Context, endpoint, version string, log *slog.Logger) (provider trace.TracerProvider, flush func(context.Context) error, err error) {
	flush = func(context.Context) error { return nil }
	if endpoint == "" {
		return nil, flush, nil
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, flush, fmt.Errorf("otlp_endpoint: %w", err)
	}
	if !strings.HasSuffix(u.Path, tracesPath) {
		u.Path = strings.TrimSuffix(u.Path, "/") + tracesPath
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.String()))
	if err != nil {
		return nil, flush, fmt.Errorf("otlp_endpoint: %w", err)
	}
	// A collector that is away is told here once per batch, and stops nothing.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces were not delivered", "error", err) }))
	p := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "suanli"), attribute.String("service.version", version))),
	)
	return p, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
		defer cancel()
		return p.Shutdown(ctx)
	}, nil
}

// tracer returns the tracer of a provider that may be nil.
func tracer(p trace.TracerProvider) trace.Tracer {
	if p == nil {
		p = noop.NewTracerProvider()
	}
	return p.Tracer(tracerName)
}

// traced gives each request a span, which is named after its operation once that
// is known. Whoever calls decides nothing about our traces: theirs is linked to
// ours and does not contain it.
func traced(next http.Handler, p trace.TracerProvider) http.Handler {
	if p == nil {
		return next
	}
	return otelhttp.NewHandler(next, "request",
		otelhttp.WithTracerProvider(p),
		otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithPublicEndpointFn(func(*http.Request) bool { return true }),
		otelhttp.WithFilter(func(r *http.Request) bool { return !probe(r.URL.Path) }),
		otelhttp.WithSpanNameFormatter(func(operation string, r *http.Request) string { return knownMethod(r.Method) + " " + operation }),
	)
}

// command sends a command to a host, within a span.
func (c *Cloud) command(ctx context.Context, hostID string, cmd protocol.Command) (protocol.CommandResult, error) {
	ctx, span := c.tracer.Start(ctx, "host command", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("suanli.host_id", hostID), attribute.String("suanli.lease_id", cmd.LeaseID),
		attribute.Int64("suanli.generation", cmd.Generation), attribute.String("suanli.want", string(cmd.Want))))
	defer span.End()
	res, err := c.sendCommand(ctx, hostID, cmd)
	if err != nil {
		span.RecordError(err)
		span.SetStatus(otelcodes.Error, err.Error())
	}
	return res, err
}

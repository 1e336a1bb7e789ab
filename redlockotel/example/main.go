// Command example shows what redlockotel tells of locks: it takes locks that are
// contended, on five nodes in memory of which some fail for a while, and serves
// the metrics for Prometheus on 127.0.0.1.
//
//	go run ./redlockotel/example           # until it is interrupted
//	go run ./redlockotel/example -print    # a few seconds, then the spans and metrics as text
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	promexporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quorumlock/redlock/redlockotel"
)

func main() {
	show := flag.Bool("print", false, "print the spans of some calls and the metrics page, and end")
	buckets := flag.Bool("buckets", true, "with -print: also the buckets of histograms")
	addr := flag.String("addr", "127.0.0.1:0", "where to serve the metrics")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *addr, *show, *buckets, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// telemetry is where spans and metrics go.
type telemetry struct {
	registry *prometheus.Registry
	meters   *sdkmetric.MeterProvider
	tracers  *sdktrace.TracerProvider
	spans    *tracetest.InMemoryExporter
	observer *redlockotel.Observer
}

// newTelemetry keeps spans only on demand: those of a long run would fill the memory.
func newTelemetry(keepSpans bool) (*telemetry, error) {
	t := &telemetry{registry: prometheus.NewRegistry(), spans: tracetest.NewInMemoryExporter()}
	exporter, err := promexporter.New(promexporter.WithRegisterer(t.registry), promexporter.WithoutScopeInfo(), promexporter.WithoutTargetInfo())
	if err != nil {
		return nil, err
	}
	t.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	var tracing []sdktrace.TracerProviderOption
	if keepSpans {
		tracing = append(tracing, sdktrace.WithSyncer(t.spans))
	}
	t.tracers = sdktrace.NewTracerProvider(tracing...)
	t.observer, err = redlockotel.New(redlockotel.WithMeterProvider(t.meters), redlockotel.WithTracerProvider(t.tracers),
		redlockotel.WithLockNames(family))
	return t, err
}

// page serves the metrics.
func (t *telemetry) page() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{}))
	return mux
}

func (t *telemetry) close(ctx context.Context) error {
	return errors.Join(t.tracers.Shutdown(ctx), t.meters.Shutdown(ctx))
}

// run ends with ctx, or, if it is to show what it saw, after a few seconds.
func run(ctx context.Context, addr string, show, buckets bool, out io.Writer) error {
	t, err := newTelemetry(show)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: t.page(), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	page := "http://" + listener.Addr().String() + "/metrics"
	if !show {
		fmt.Fprintln(out, "metrics:", page)
	}

	err = shop(ctx, t.tracers.Tracer("shop"), t.observer, show)
	if err == nil && show {
		err = report(t.spans.GetSpans(), page, buckets, out)
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(closing), t.close(closing))
	if end := <-served; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}

// family is the part of a lock's name that does not grow with the shop.
func family(name string) string {
	before, _, _ := strings.Cut(name, ":")
	return before
}

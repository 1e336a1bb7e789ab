package redlockotel_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/redlockotel"
	"github.com/quorumlock/redlock/redlocktest"
)

// A lock in the trace of a request. In a service the providers are the global
// ones, and New needs no options.
func Example() {
	spans := tracetest.NewInMemoryExporter()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	observer, err := redlockotel.New(redlockotel.WithTracerProvider(tracers))
	if err != nil {
		log.Fatal(err)
	}
	locks, err := redlock.New(redlocktest.NewNodes(1).Pools(), redlock.WithObserver(observer))
	if err != nil {
		log.Fatal(err)
	}

	ctx, request := tracers.Tracer("shop").Start(context.Background(), "checkout")
	err = locks.Do(ctx, "order:8123", func(ctx context.Context) error {
		ctx = observer.Within(ctx, "order:8123") // so that the next span lies below the hold
		_, span := tracers.Tracer("shop").Start(ctx, "charge")
		defer span.End()
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	request.End()
	if err := locks.Close(context.Background()); err != nil {
		log.Fatal(err)
	}

	all := spans.GetSpans()
	names := map[string]string{}
	for _, s := range all {
		names[s.SpanContext.SpanID().String()] = s.Name
	}
	for _, s := range all {
		if above := names[s.Parent.SpanID().String()]; above != "" {
			fmt.Println(s.Name, "below", above)
		}
	}
	// Output:
	// redlock.lock below checkout
	// charge below redlock.hold
	// redlock.unlock below redlock.hold
	// redlock.hold below checkout
}

// A few families of names in place of one name for each order.
func ExampleWithLockNames() {
	family := func(name string) string {
		before, _, _ := strings.Cut(name, ":")
		return before
	}
	observer, err := redlockotel.New(redlockotel.WithLockNames(family))
	fmt.Println(observer != nil, err, family("order:8123"))
	// Output: true <nil> order
}

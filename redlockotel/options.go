package redlockotel

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// An Option sets a property of an Observer.
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

type config struct {
	tracers     trace.TracerProvider
	meters      metric.MeterProvider
	spanNames   func(string) string
	metricNames func(string) string
}

func newConfig(opts []Option) config {
	c := config{tracers: otel.GetTracerProvider(), meters: otel.GetMeterProvider()}
	for _, o := range opts {
		if o != nil {
			o.apply(&c)
		}
	}
	return c
}

// WithTracerProvider sets where spans go. By default, and for nil, the global
// provider at the time of New.
func WithTracerProvider(p trace.TracerProvider) Option {
	return optionFunc(func(c *config) {
		if p != nil {
			c.tracers = p
		}
	})
}

// WithMeterProvider sets where metrics go. By default, and for nil, the global
// provider at the time of New.
func WithMeterProvider(p metric.MeterProvider) Option {
	return optionFunc(func(c *config) {
		if p != nil {
			c.meters = p
		}
	})
}

// WithLockNames puts the lock's name, as mapped by f, into the attribute
// redlock.name of spans and metrics, but for the metrics of nodes. Each result of f
// costs some time series: map "order:8123" to "order". An empty result leaves the
// attribute out; a nil f takes names as they are, for programs whose locks are few.
func WithLockNames(f func(name string) string) Option {
	return optionFunc(func(c *config) { c.spanNames, c.metricNames = orSame(f), orSame(f) })
}

// WithSpanLockNames is WithLockNames for spans alone, where a name costs nothing
// but its length. Given after WithLockNames it changes the names of spans only.
func WithSpanLockNames(f func(name string) string) Option {
	return optionFunc(func(c *config) { c.spanNames = orSame(f) })
}

func orSame(f func(string) string) func(string) string {
	if f == nil {
		return func(name string) string { return name }
	}
	return f
}

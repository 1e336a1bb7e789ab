package redlockotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Attributes. What may be behind them is bounded; docs/observability.md lists it.
const (
	keyName    = attribute.Key("redlock.name")
	keyVerb    = attribute.Key("redlock.verb")
	keyOutcome = attribute.Key("redlock.outcome")
	keyNode    = attribute.Key("redlock.node")
	keyRequest = attribute.Key("redlock.request")
	keyWokenBy = attribute.Key("redlock.woken_by")
	keyError   = attribute.Key("error.type")

	// Of spans only.
	keyToken    = attribute.Key("redlock.token")
	keyAttempts = attribute.Key("redlock.attempts")
	keyNodes    = attribute.Key("redlock.nodes")
	keyDegraded = attribute.Key("redlock.degraded")
	keyLatency  = attribute.Key("redlock.latency") // seconds
	keyMessage  = attribute.Key("exception.message")
)

// Seconds. Locks are taken within milliseconds and held for up to minutes.
var (
	callBounds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	holdBounds = []float64{.001, .005, .025, .1, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}
)

type instruments struct {
	operations, waits, holds, requests    metric.Float64Histogram
	grants, losses, degraded, faults, odd metric.Int64Counter
}

func newInstruments(meter metric.Meter) (i instruments, err error) {
	var errs []error
	histogram := func(name, what string, bounds []float64) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(bounds...))
		errs = append(errs, err)
		return h
	}
	counter := func(name, unit, what string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return c
	}
	i = instruments{
		operations: histogram("redlock.operation.duration", "Time of a call of lock, unlock, extend, or of a renewal; of a lock with its waiting.", callBounds),
		waits:      histogram("redlock.wait.duration", "Time of one pause of a waiter, by what ended it.", callBounds),
		holds:      histogram("redlock.hold.duration", "Time from a grant to the end of its unlock, or to its loss.", holdBounds),
		requests:   histogram("redlock.node.request.duration", "Time of one request to one node, by the node's answer.", callBounds),
		grants:     counter("redlock.grants", "{grant}", "Locks that were granted."),
		losses:     counter("redlock.losses", "{loss}", "Held locks that were lost before their unlock."),
		degraded:   counter("redlock.degraded", "{quorum}", "Calls that won their quorum although some node failed."),
		faults:     counter("redlock.node.errors", "{error}", "Requests to a node that failed."),
		odd:        counter("redlock.background.errors", "{error}", "Faults that no caller was left to hear of, such as a clean-up that was given up."),
	}
	return i, errors.Join(errs...)
}

func seconds(ctx context.Context, h metric.Float64Histogram, d time.Duration, with ...attribute.KeyValue) {
	h.Record(ctx, d.Seconds(), metric.WithAttributes(with...))
}

func count(ctx context.Context, c metric.Int64Counter, with ...attribute.KeyValue) {
	c.Add(ctx, 1, metric.WithAttributes(with...))
}

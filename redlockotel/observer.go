package redlockotel

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorumlock/redlock"
)

const scope = "github.com/quorumlock/redlock/redlockotel"

// An Observer makes spans and metrics of what it is told; give it to
// redlock.WithObserver. One will do for all locks of a process. It is safe for
// concurrent use, has no goroutine and needs no closing.
type Observer struct {
	config config
	tracer trace.Tracer
	meters instruments
	holds  *holds
}

var (
	_ redlock.Observer           = (*Observer)(nil)
	_ redlock.VerbObserver       = (*Observer)(nil)
	_ redlock.WaitObserver       = (*Observer)(nil)
	_ redlock.BackgroundObserver = (*Observer)(nil)
)

// New makes an observer. The error is the meter provider's, when it refuses an
// instrument.
func New(opts ...Option) (*Observer, error) {
	c := newConfig(opts)
	meters, err := newInstruments(c.meters.Meter(scope))
	if err != nil {
		return nil, fmt.Errorf("redlockotel: %w", err)
	}
	return &Observer{config: c, tracer: c.tracers.Tracer(scope), meters: meters, holds: newHolds()}, nil
}

// Within makes the span of a hold the current one of ctx, so that the spans of
// the work under the lock lie below it. ctx is the one that Do or Hold gave, name
// the lock's; without a hold to be found ctx is returned as it is.
func (o *Observer) Within(ctx context.Context, name string) context.Context {
	token, ok := redlock.TokenFromContext(ctx)
	if !ok {
		return ctx
	}
	if h := o.holds.of(name, token); h != nil {
		return trace.ContextWithSpan(ctx, h.span)
	}
	return ctx
}

// A call is one verb on its way, as its context carries it.
type call struct {
	span   trace.Span
	parent context.Context // of the caller

	mu    sync.Mutex
	ended bool // guarded by mu; its span takes no more events
}

type callKey struct{}

func named(f func(string) string, name string, with []attribute.KeyValue) []attribute.KeyValue {
	if f != nil {
		if mapped := f(name); mapped != "" {
			with = append(with, keyName.String(mapped))
		}
	}
	return with
}

func (o *Observer) spanAttributes(name string, with ...attribute.KeyValue) trace.SpanStartEventOption {
	return trace.WithAttributes(named(o.config.spanNames, name, with)...)
}

func (o *Observer) metricAttributes(name string, with ...attribute.KeyValue) []attribute.KeyValue {
	return named(o.config.metricNames, name, with)
}

// VerbStart implements redlock.VerbObserver.
func (o *Observer) VerbStart(ctx context.Context, verb, name string) context.Context {
	c := &call{parent: ctx}
	above := ctx
	if verb != "lock" {
		if h := o.holds.near(name, trace.SpanContextFromContext(ctx)); h != nil {
			above = trace.ContextWithSpan(ctx, h.span)
		}
	}
	ctx, c.span = o.tracer.Start(above, "redlock."+verb, o.spanAttributes(name))
	return context.WithValue(ctx, callKey{}, c)
}

// VerbDone implements redlock.VerbObserver.
func (o *Observer) VerbDone(ctx context.Context, e redlock.VerbEvent) {
	now, outcome := time.Now(), outcomeOf(e.Err)
	if c, _ := ctx.Value(callKey{}).(*call); c != nil {
		c.end(now, outcome, e)
		ctx = c.parent
	}
	seconds(ctx, o.meters.operations, e.Duration, o.metricAttributes(e.Name, keyVerb.String(e.Verb), keyOutcome.String(outcome))...)
	if e.Degraded {
		count(ctx, o.meters.degraded, o.metricAttributes(e.Name, keyVerb.String(e.Verb))...)
	}
	switch {
	case e.Verb == "lock" && e.Err == nil:
		count(ctx, o.meters.grants, o.metricAttributes(e.Name)...)
		o.held(ctx, now, e)
	case e.Verb == "unlock":
		word := "released"
		if e.Err != nil {
			word = outcome
		}
		if h := o.holds.of(e.Name, e.Token); h != nil && o.holds.finish(h, true) {
			o.ended(ctx, h, now, word)
		}
	}
}

// end ends the span of a verb.
func (c *call) end(now time.Time, outcome string, e redlock.VerbEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if !c.span.IsRecording() {
		return
	}
	c.span.SetAttributes(keyOutcome.String(outcome))
	if e.Token != 0 {
		c.span.SetAttributes(keyToken.Int64(e.Token))
	}
	if e.Attempts != 0 {
		c.span.SetAttributes(keyAttempts.Int(e.Attempts))
	}
	if e.Nodes != 0 {
		c.span.SetAttributes(keyNodes.Int(e.Nodes))
	}
	if e.Degraded {
		c.span.SetAttributes(keyDegraded.Bool(true))
	}
	// A busy lock is an answer. The text of an error would tell the lock's name.
	if e.Err != nil && outcome != outcomeTaken {
		c.span.SetAttributes(keyError.String(outcome))
		c.span.SetStatus(codes.Error, outcome)
	}
	c.span.End(trace.WithTimestamp(now))
}

// held starts the span of a grant, beside that of its lock.
func (o *Observer) held(ctx context.Context, now time.Time, e redlock.VerbEvent) {
	h := &hold{name: e.Name, token: e.Token, parent: trace.SpanContextFromContext(ctx), started: now}
	_, h.span = o.tracer.Start(ctx, "redlock.hold", trace.WithTimestamp(now), o.spanAttributes(e.Name, keyToken.Int64(e.Token)))
	if old := o.holds.add(h); old != nil {
		old.span.SetAttributes(keyOutcome.String("unknown"))
		old.span.End()
	}
}

// ended ends the span of a grant and enters how long it was held.
func (o *Observer) ended(ctx context.Context, h *hold, now time.Time, outcome string) {
	h.span.SetAttributes(keyOutcome.String(outcome))
	if outcome != "released" {
		h.span.SetStatus(codes.Error, outcome)
	}
	h.span.End(trace.WithTimestamp(now))
	seconds(ctx, o.meters.holds, now.Sub(h.started), o.metricAttributes(h.name, keyOutcome.String(outcome))...)
}

// WaitDone implements redlock.WaitObserver.
func (o *Observer) WaitDone(ctx context.Context, e redlock.WaitEvent) {
	now := time.Now()
	seconds(ctx, o.meters.waits, e.Duration, o.metricAttributes(e.Name, keyWokenBy.String(e.WokenBy))...)
	_, span := o.tracer.Start(ctx, "redlock.wait", trace.WithTimestamp(now.Add(-e.Duration)), o.spanAttributes(e.Name, keyWokenBy.String(e.WokenBy)))
	span.End(trace.WithTimestamp(now))
}

// NodeDone implements redlock.Observer.
func (o *Observer) NodeDone(ctx context.Context, e redlock.NodeEvent) {
	node := e.Addr
	if node == "" {
		node = strconv.Itoa(e.Node)
	}
	with := []attribute.KeyValue{keyNode.String(node), keyRequest.String(e.Verb), keyOutcome.String(e.Outcome)}
	// No lock names here: times nodes, requests and answers they would be too many.
	seconds(ctx, o.meters.requests, e.Latency, with...)
	if e.Err != nil {
		kind := keyError.String(errorType(e.Err))
		count(ctx, o.meters.faults, keyNode.String(node), keyRequest.String(e.Verb), kind)
		with = append(with, kind, keyMessage.String(e.Err.Error()))
	}
	c, _ := ctx.Value(callKey{}).(*call)
	if c == nil || !c.span.SpanContext().IsSampled() {
		return
	}
	now := time.Now()
	if c.event(now, append(with, keyLatency.Float64(e.Latency.Seconds()))) {
		return
	}
	_, span := o.tracer.Start(trace.ContextWithSpan(ctx, c.span), "redlock.node", trace.WithTimestamp(now.Add(-e.Latency)), o.spanAttributes(e.Name, with...))
	if e.Err != nil {
		span.SetStatus(codes.Error, errorType(e.Err))
	}
	span.End(trace.WithTimestamp(now))
}

// event adds a node's reply to the verb's span, if that has not ended.
func (c *call) event(now time.Time, with []attribute.KeyValue) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.span.AddEvent("node", trace.WithTimestamp(now), trace.WithAttributes(with...))
	}
	return !c.ended
}

// BackgroundError implements redlock.BackgroundObserver.
func (o *Observer) BackgroundError(ctx context.Context, name string, err error) {
	if !errors.Is(err, redlock.ErrLost) {
		count(ctx, o.meters.odd, o.metricAttributes(name)...)
		return
	}
	count(ctx, o.meters.losses, o.metricAttributes(name)...)
	if h := o.holds.near(name, trace.SpanContextFromContext(ctx)); h != nil && o.holds.finish(h, false) {
		o.ended(ctx, h, time.Now(), "lost")
	}
}

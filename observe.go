package redlock

import (
	"context"
	"log/slog"
	"time"
)

// Observer is told of every request to a node. An implementation may also have
// the methods of VerbObserver, WaitObserver and BackgroundObserver. All are called
// on the goroutine that does the work, from many at once, and must not block.
type Observer interface {
	// NodeDone is called once for each request, when its reply or fault is known;
	// a reply may come after the verb has returned.
	NodeDone(ctx context.Context, e NodeEvent)
}

// VerbObserver is told of each call of a verb: lock, unlock, extend, renew.
type VerbObserver interface {
	// VerbStart may return a context with values; NodeDone and VerbDone see it.
	VerbStart(ctx context.Context, verb, name string) context.Context
	VerbDone(ctx context.Context, e VerbEvent)
}

// WaitObserver is told of each pause of a waiter.
type WaitObserver interface {
	WaitDone(ctx context.Context, e WaitEvent)
}

// BackgroundObserver is told of faults that no caller is left to hear of.
type BackgroundObserver interface {
	BackgroundError(ctx context.Context, name string, err error)
}

// NodeEvent is one request to one node. Fields may be added.
type NodeEvent struct {
	Verb    string // acquire, release, touch, leave, inspect, break
	Name    string // of the lock
	Node    int
	Addr    string
	Outcome string // granted, busy, stale, released, held, … or "error"
	Err     error  // a *NodeError, or nil
	Latency time.Duration
}

// VerbEvent is one call. Fields may be added.
type VerbEvent struct {
	Verb     string
	Name     string
	Err      error
	Duration time.Duration
	Attempts int   // of a lock
	Token    int64 // of the grant, 0 where there is none
	Nodes    int   // that voted for it when it was decided
	// Degraded is set when the quorum was won but some node failed.
	Degraded bool
}

// WaitEvent is one pause. Fields may be added.
type WaitEvent struct {
	Name     string
	WokenBy  string // notice, timer, poll, or end: of ctx, or by Close
	Duration time.Duration
}

// eyes is the observer and the logger of one mutex; its zero value sees nothing.
type eyes struct {
	node       Observer
	verb       VerbObserver
	wait       WaitObserver
	background BackgroundObserver
	log        *slog.Logger
}

func newEyes(o Observer, log *slog.Logger) eyes {
	e := eyes{node: o, log: log}
	if o != nil {
		e.verb, _ = o.(VerbObserver)
		e.wait, _ = o.(WaitObserver)
		e.background, _ = o.(BackgroundObserver)
	}
	return e
}

func (e *eyes) start(ctx context.Context, verb, name string) context.Context {
	if e.verb != nil {
		return e.verb.VerbStart(ctx, verb, name)
	}
	return ctx
}

func (e *eyes) done(ctx context.Context, v VerbEvent) {
	if e.verb != nil {
		e.verb.VerbDone(ctx, v)
	}
	if e.log != nil && v.Degraded {
		e.log.WarnContext(ctx, "redlock: degraded quorum", "verb", v.Verb, "name", v.Name, "nodes", v.Nodes)
	}
}

func (e *eyes) lost(ctx context.Context, name string, why error) {
	if e.log != nil {
		e.log.ErrorContext(ctx, "redlock: lock lost", "name", name, "why", why)
	}
	if e.background != nil {
		e.background.BackgroundError(ctx, name, why)
	}
}

func (e *eyes) fault(ctx context.Context, name string, err error) {
	if e.log != nil {
		e.log.WarnContext(ctx, "redlock: background clean-up failed", "name", name, "err", err)
	}
	if e.background != nil {
		e.background.BackgroundError(ctx, name, err)
	}
}

// Package lazyctx is a context for requests that come in great numbers.
package lazyctx

import (
	"context"
	"sync"
	"time"
)

// Context has the values of another context, an end of its own, and nothing of the
// other's end. It is a part of what it is for, and makes a channel and timers only for
// those who ask for Done: a client that hands the deadline to its socket never does.
type Context struct {
	values   context.Context
	early    context.Context
	deadline time.Time

	mu    sync.Mutex
	err   error         // guarded by mu
	done  chan struct{} // guarded by mu; nil until asked for
	timer *time.Timer   // guarded by mu; ends it at the deadline
	stop  func() bool   // guarded by mu; no longer waits for early
}

// Begin must come before any other use. early ends the context with its own end, and
// may be nil. A zero deadline is none. Whoever calls it calls End in the end.
func (c *Context) Begin(values, early context.Context, deadline time.Time) {
	c.values, c.early, c.deadline = values, early, deadline
}

// Deadline is of [context.Context].
func (c *Context) Deadline() (deadline time.Time, ok bool) { return c.deadline, !c.deadline.IsZero() }

// Value is of [context.Context].
func (c *Context) Value(key any) any { return c.values.Value(key) }

// Err is of [context.Context].
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
		c.endLocked(context.DeadlineExceeded)
	}
	return c.err
}

// Done is of [context.Context].
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done != nil {
		return c.done
	}
	c.done = make(chan struct{})
	if c.err != nil {
		close(c.done)
		return c.done
	}
	if !c.deadline.IsZero() {
		c.timer = time.AfterFunc(time.Until(c.deadline), func() { c.End(context.DeadlineExceeded) })
	}
	if c.early != nil {
		c.stop = context.AfterFunc(c.early, func() { c.End(context.Canceled) })
	}
	return c.done
}

// End ends the context, once, and frees its timers.
func (c *Context) End(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(err)
}

func (c *Context) endLocked(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.stop != nil {
		c.stop()
	}
	if c.done != nil {
		close(c.done)
	}
}

package redlock

import (
	"context"
	"time"
)

// errand is one request to one node that nobody waits for.
type errand struct {
	ask  func(ctx context.Context, n *node) reply
	then func(n *node, r reply) // may be nil

	ctx     context.Context // for its values
	timeout time.Duration
	r       *Redlock
}

// background sends an errand to n. It outlives ctx, and ends at the timeout.
func (r *Redlock) background(ctx context.Context, n *node, timeout time.Duration, e errand) {
	e.ctx, e.timeout, e.r = context.WithoutCancel(ctx), timeout, r
	r.tasks.add(1)
	n.submit(&e)
}

// backgroundContext has the values of ctx, and ends at the timeout or when Close
// gives up.
func (r *Redlock) backgroundContext(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	stop := context.AfterFunc(r.patience, cancel)
	return ctx, func() { stop(); cancel() }
}

// run is of job.
func (e *errand) run(n *node) {
	defer e.r.tasks.done()
	ctx, cancel := e.r.backgroundContext(e.ctx, e.timeout)
	defer cancel()
	e.end(n, e.ask(ctx, n))
}

// patience is of job.
func (e *errand) patience() time.Duration { return e.timeout }

// refuse is of job.
func (e *errand) refuse(n *node, err error) {
	defer e.r.tasks.done()
	e.end(n, reply{err: err, unsent: true})
}

func (e *errand) end(n *node, a reply) {
	if e.then != nil {
		e.then(n, a)
	}
}

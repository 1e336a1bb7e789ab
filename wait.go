package redlock

import (
	"context"
	"time"
)

// waiter is one caller of Lock while the lock is busy.
type waiter struct{}

func (w *waiter) join(int64) (channel, ticket string) { return "", "0" }

// maxFaults is how many attempts without a quorum of nodes an acquire makes when
// its tries are not limited.
const maxFaults = 3

// contend makes attempts until one wins, or the rules of LockContext end it.
func (m *Mutex) contend(ctx context.Context, tries int) (g *grant, attempts int, err error) {
	unreachable := 0
	for attempts = 1; ; attempts++ {
		g, no := m.attempt(ctx, nil)
		if g != nil {
			return g, attempts, nil
		}
		if no.err == ErrNoQuorum {
			unreachable++
		}
		if ctx.Err() != nil || no.hopeless || attempts == tries || tries == 0 && unreachable == maxFaults {
			return nil, attempts, m.refused(ctx, no)
		}
		if !m.pause(ctx, attempts, no) {
			return nil, attempts, m.refused(ctx, no)
		}
	}
}

// pause waits before the next try, and reports whether there is to be one.
func (m *Mutex) pause(ctx context.Context, attempts int, no *refusal) bool {
	d := m.config.delay(attempts)
	if no.free > 0 {
		d = min(d, no.free)
	}
	started := time.Now()
	timer := time.NewTimer(d)
	defer timer.Stop()
	wokenBy := "poll"
	select {
	case <-timer.C:
	case <-ctx.Done():
		wokenBy = "ctx"
	case <-m.r.closing:
		wokenBy = "close"
	}
	if m.eyes.wait != nil {
		m.eyes.wait.WaitDone(ctx, WaitEvent{Name: m.name, WokenBy: wokenBy, Duration: time.Since(started)})
	}
	return wokenBy == "poll"
}

// refused is the error of a failed acquire.
func (m *Mutex) refused(ctx context.Context, no *refusal) error {
	switch {
	case ctx.Err() != nil:
		why := no.err
		if why == ErrNoQuorum {
			why = nil // the nodes were not given the time to answer
		}
		return fail("lock", m.name, ErrFailed, ctx.Err(), why)
	case m.r.closed():
		return fail("lock", m.name, ErrFailed, ErrClosed)
	}
	return fail("lock", m.name, ErrFailed, no.err, faults(no.faults))
}

package redlock

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// hold is one grant that renews itself, and the context that ends with it.
type hold struct {
	m      *Mutex
	grant  *grant
	ctx    *heldContext
	cancel context.CancelCauseFunc
	margin time.Duration
	until  time.Time             // of WithMaxHold; zero: no limit
	lost   atomic.Pointer[error] // why, once
	reason atomic.Pointer[error] // why the last renewal won no quorum

	// Guarded by the scheduler's mu.
	index   int       // in the heap, -1 when not scheduled
	due     time.Time // when to look again
	renewAt time.Time
	asking  bool // a renewal is on its way
	failed  int  // renewals in a row that won no quorum
}

// Renewal comes when a third of the life is over; a failed one is repeated after a
// twentieth of it, within these limits.
const (
	minRenewRetry = 5 * time.Millisecond
	maxRenewRetry = 500 * time.Millisecond
)

// maxRenewals is how many renewals may be on their way at a time, and renewalPause how
// long one that is due waits beyond that. Thousands that fall due together would only
// wait in the nodes' queues until their time is up.
const (
	maxRenewals  = 256
	renewalPause = 5 * time.Millisecond
)

// lossMargin is how long before the end of validity a held context ends, so that
// code has the time to stop: a twentieth of the expiry, 1 s at the most.
func lossMargin(expiry time.Duration) time.Duration {
	return min(expiry/20, time.Second)
}

type heldKey struct{}

// TokenFromContext is the fencing token of the lock held by Do or Hold, of the
// innermost where they are nested.
func TokenFromContext(ctx context.Context) (int64, bool) {
	token, ok := ctx.Value(heldKey{}).(int64)
	return token, ok
}

// heldContext reads the clocks whenever it is asked, so that it has ended even if
// the process was suspended and no timer has run yet.
type heldContext struct {
	context.Context
	hold *hold
}

func (c *heldContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	if h := c.hold; h.over(time.Now()) {
		h.lose(h.why())
	}
	return c.Context.Err()
}

func (c *heldContext) Value(key any) any {
	if key == (heldKey{}) {
		return c.hold.grant.token
	}
	return c.Context.Value(key)
}

// over reports whether less than the margin of validity, or nothing of the longest
// hold, is left.
func (h *hold) over(now time.Time) bool {
	return !h.grant.lease.validAt(now.Add(h.margin)) || !h.until.IsZero() && reached(now, h.until)
}

func (h *hold) why() error {
	if !h.until.IsZero() && reached(time.Now(), h.until) {
		return fmt.Errorf("%w: %q was held for as long as WithMaxHold(%v) allows", ErrLost, h.m.name, h.m.config.maxHold)
	}
	if reason := h.reason.Load(); reason != nil {
		return fmt.Errorf("%w: %q could not be renewed: %w", ErrLost, h.m.name, *reason)
	}
	return fmt.Errorf("%w: %q could not be renewed in time", ErrLost, h.m.name)
}

func (h *hold) lose(why error) {
	if h.lost.CompareAndSwap(nil, &why) { // also where ctx has ended: the lock outlives it
		h.m.eyes.lost(h.ctx.Context, h.m.name, why)
	}
	h.cancel(why)
	h.m.r.renewals.remove(h)
}

// stop ends renewal and the held context.
func (h *hold) stop(cause error) {
	h.m.r.renewals.remove(h)
	h.cancel(cause)
}

// Hold acquires the lock like LockContext and keeps it by renewal until Unlock,
// Close or the limit of WithMaxHold, even when ctx has ended: its user may still
// be at work. The context it returns ends with ctx, with Unlock, or a margin (a
// twentieth of the expiry, at most 1 s) before the lock is lost; then its cause
// matches ErrLost. Unlock must be called in every case. To limit the waiting alone, use
// WithTries, or cancel ctx yourself before Hold has returned.
func (m *Mutex) Hold(ctx context.Context) (context.Context, error) {
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.grant
	if g == nil { // unlocked by someone else meanwhile
		return nil, fail("lock", m.name, ErrFailed, ErrNotHeld)
	}
	h := &hold{m: m, grant: g, margin: lossMargin(m.config.expiry), index: -1}
	base, cancel := context.WithCancelCause(ctx)
	h.ctx, h.cancel = &heldContext{Context: base, hold: h}, cancel
	now := time.Now()
	if m.config.maxHold > 0 {
		h.until = now.Add(m.config.maxHold)
	}
	h.renewAt = now.Add(m.config.expiry / 3)
	m.hold = h
	m.r.renewals.add(h)
	return h.ctx, nil
}

// Do acquires the lock, runs fn and releases the lock once fn has returned,
// renewing it meanwhile. fn's context is that of Hold: it ends before the lock
// is lost, and carries the token for TokenFromContext.
//
// The result matches fn's error, ErrLost when the lock was lost while fn ran, and
// the errors of Lock and Unlock.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	held, err := m.Hold(ctx)
	if err != nil {
		return err
	}
	defer func() {
		var lost error
		h := held.(*heldContext).hold
		if h.over(time.Now()) {
			h.lose(h.why())
		}
		// ctx may have ended before the lock was lost: then the cause is ctx's.
		if why := h.lost.Load(); why != nil {
			lost = *why
		} else if cause := context.Cause(held); errors.Is(cause, ErrClosed) {
			lost = cause
		}
		// fn may have returned because ctx ended; the release must not end with it.
		_, unlocked := m.UnlockContext(context.WithoutCancel(ctx))
		if errs := errors.Join(lost, unlocked); errs != nil {
			err = errors.Join(err, errs)
		}
	}()
	return fn(held)
}

// Do is NewMutex(name, opts...).Do(ctx, fn).
func (r *Redlock) Do(ctx context.Context, name string, fn func(ctx context.Context) error, opts ...Option) error {
	return r.NewMutex(name, opts...).Do(ctx, fn)
}

// renewals is the scheduler of every held lock: one goroutine while there are
// any, and a heap by the time at which each wants a look.
type renewals struct {
	r *Redlock

	mu      sync.Mutex
	heap    holdHeap      // guarded by mu
	running bool          // guarded by mu
	flying  int           // guarded by mu; renewals on their way
	wake    chan struct{} // a new earliest time
}

func (s *renewals) add(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scheduleLocked(h)
	if !s.running {
		s.running = true
		s.r.tasks.add(1)
		go s.run()
	}
}

func (s *renewals) remove(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.index >= 0 {
		heap.Remove(&s.heap, h.index)
		s.nudge() // the goroutine ends with the last hold
	}
}

// scheduleLocked puts h where it belongs: at its renewal, or at its end if that
// comes first.
func (s *renewals) scheduleLocked(h *hold) {
	end := h.grant.lease.validity().Add(-h.margin)
	if !h.until.IsZero() && h.until.Before(end) {
		end = h.until
	}
	h.due = end
	if !h.asking && h.renewAt.Before(end) {
		h.due = h.renewAt
	}
	if h.index >= 0 {
		heap.Fix(&s.heap, h.index)
	} else {
		heap.Push(&s.heap, h)
	}
	if h.index == 0 {
		s.nudge()
	}
}

func (s *renewals) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run looks at each hold when it is due, and ends with the last.
func (s *renewals) run() {
	defer s.r.tasks.done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.wake:
		case <-s.r.closing:
			s.endAll()
			return
		}
		next, ok := s.sweep(time.Now())
		if !ok {
			return
		}
		timer.Reset(time.Until(next))
	}
}

// sweep attends to what is due and returns when to come again; not ok when
// nothing is held any more.
func (s *renewals) sweep(now time.Time) (next time.Time, ok bool) {
	for {
		s.mu.Lock()
		if len(s.heap) == 0 {
			s.running = false
			s.mu.Unlock()
			return time.Time{}, false
		}
		h := s.heap[0]
		if due := h.due; now.Before(due) {
			s.mu.Unlock()
			return due, true
		}
		if h.over(now) {
			s.mu.Unlock()
			h.lose(h.why())
			continue
		}
		if s.flying >= maxRenewals {
			h.renewAt = now.Add(renewalPause)
			s.scheduleLocked(h)
			s.mu.Unlock()
			continue
		}
		h.asking = true
		s.flying++
		s.scheduleLocked(h)
		s.mu.Unlock()
		s.renew(h)
	}
}

// renew starts a renewal; its result comes to renewed.
func (s *renewals) renew(h *hold) {
	started := time.Now()
	ctx := h.m.eyes.start(context.WithoutCancel(h.ctx.Context), "renew", h.m.name)
	_, err := h.m.touch(ctx, h.grant, h.m.config.expiry, func(rd *round, v verdict) {
		e := VerbEvent{
			Verb: "renew", Name: h.m.name, Duration: time.Since(started), Token: h.grant.token,
			Nodes: h.grant.lease.count(time.Now()),
		}
		if v == won {
			e.Degraded = rd.noes() > 0
		} else {
			why := h.m.lostTo(ctx, rd.snapshot(), !h.grant.lease.alive(time.Now()), codeGone, codeOtherHolder)
			h.reason.Store(&why[0])
			e.Err = fail("renew", h.m.name, append([]error{ErrExtendFailed}, why...)...)
		}
		h.m.eyes.done(ctx, e)
		s.renewed(h, v)
	})
	if err != nil {
		s.mu.Lock()
		s.flying--
		s.mu.Unlock()
		h.m.eyes.done(ctx, VerbEvent{Verb: "renew", Name: h.m.name, Err: err, Duration: time.Since(started), Token: h.grant.token})
		if !errors.Is(err, ErrNotHeld) { // an Unlock is on its way
			h.lose(fmt.Errorf("%w: %q: %w", ErrLost, h.m.name, err))
		}
	}
}

func (s *renewals) renewed(h *hold, v verdict) {
	now, expiry := time.Now(), h.m.config.expiry
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flying--
	h.asking = false
	if h.index < 0 {
		return // removed meanwhile
	}
	if v == won {
		h.failed = 0
		h.renewAt = now.Add(expiry / 3)
	} else {
		h.failed++
		h.renewAt = now.Add(min(max(expiry/20, minRenewRetry), maxRenewRetry))
	}
	s.scheduleLocked(h)
}

// endAll ends every held context: nobody renews after Close.
func (s *renewals) endAll() {
	s.mu.Lock()
	all := s.heap
	s.heap, s.running = nil, false
	for _, h := range all {
		h.index = -1
	}
	s.mu.Unlock()
	for _, h := range all {
		h.cancel(ErrClosed)
	}
}

type holdHeap []*hold

func (h holdHeap) Len() int           { return len(h) }
func (h holdHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h holdHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *holdHeap) Push(x any) {
	item := x.(*hold)
	item.index = len(*h)
	*h = append(*h, item)
}

func (h *holdHeap) Pop() any {
	old := *h
	item := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	item.index = -1
	return item
}

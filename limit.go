package redlock

import (
	"context"
	"sync"
	"time"
)

// limit is the context of one round: the values of the caller's, a deadline of its
// own, and nothing of the caller's end. It is part of the round and makes a channel
// and a timer only for those who ask for Done: an adapter that hands the deadline to
// its socket never does.
type limit struct {
	parent   context.Context // for its values
	patience context.Context // ends it early: Close has given up
	deadline time.Time

	mu    sync.Mutex
	err   error         // guarded by mu
	done  chan struct{} // guarded by mu; nil until asked for
	timer *time.Timer   // guarded by mu; ends it at the deadline
	stop  func() bool   // guarded by mu; no longer waits for patience
}

func (l *limit) Deadline() (time.Time, bool) { return l.deadline, true }

func (l *limit) Value(key any) any { return l.parent.Value(key) }

func (l *limit) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil && !time.Now().Before(l.deadline) {
		l.endLocked(context.DeadlineExceeded)
	}
	return l.err
}

func (l *limit) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if l.err != nil {
			close(l.done)
		} else {
			l.timer = time.AfterFunc(time.Until(l.deadline), func() { l.end(context.DeadlineExceeded) })
			l.stop = context.AfterFunc(l.patience, func() { l.end(context.Canceled) })
		}
	}
	return l.done
}

// end ends the context, once, and frees its timer.
func (l *limit) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLocked(err)
}

func (l *limit) endLocked(err error) {
	if l.err != nil {
		return
	}
	l.err = err
	if l.done != nil {
		l.timer.Stop()
		l.stop()
		close(l.done)
	}
}

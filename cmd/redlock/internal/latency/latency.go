// Package latency measures a lock's verbs on given nodes, and draws the results as
// text.
package latency

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock"
)

// Config bounds a measurement: whichever of Count and Time is used up first ends
// each of its parts.
type Config struct {
	Count   int           // of each verb, and of hand-overs
	Time    time.Duration // for all
	Waiters int           // that contend for the hand-overs
	Name    string        // of the lock; nobody else may use it
	// Open makes a client of its own: hand-overs are between processes.
	Open func() (*redlock.Redlock, func(), error)
}

// Result is what a measurement found. Samples are in the order they were taken.
type Result struct {
	Lock, Unlock, HandOver []time.Duration
	Failed                 int // calls that ended with an error
	FirstError             error
}

// Measure runs until it has its samples or ctx ends. An error is that of the first call
// that failed, when a part was given up or got no sample at all; the result is there
// with it.
func Measure(ctx context.Context, c Config) (*Result, error) {
	r := &Result{}
	half, cancel := context.WithTimeout(ctx, c.Time/2)
	defer cancel()
	if err := r.verbs(half, c); err != nil {
		return r, err
	}
	rest, cancelRest := context.WithTimeout(ctx, c.Time/2)
	defer cancelRest()
	if err := r.handOvers(rest, c); err != nil {
		return r, err
	}
	if ctx.Err() != nil {
		return r, nil
	}
	return r, r.lacking()
}

// lacking is why a part has no sample at all: nil where the time was just too short.
func (r *Result) lacking() error {
	if len(r.Lock) == 0 || len(r.HandOver) == 0 {
		return r.FirstError
	}
	return nil
}

func (r *Result) fail(err error) {
	r.Failed++
	r.FirstError = cmp.Or(r.FirstError, err)
}

// maxFailures ends a measurement of nodes that do not work.
const maxFailures = 3

// verbs locks and unlocks with nobody in the way.
func (r *Result) verbs(ctx context.Context, c Config) error {
	locks, closeLocks, err := c.Open()
	if err != nil {
		return err
	}
	defer closeLocks()
	m := locks.NewMutex(c.Name)
	// The first one connects and learns the clocks: not what is to be measured.
	for i := -1; i < c.Count && ctx.Err() == nil; i++ {
		started := time.Now()
		err := m.LockContext(ctx)
		took := time.Since(started)
		if err == nil {
			started = time.Now()
			_, err = m.Unlock()
		}
		switch {
		case err == nil && i >= 0:
			r.Lock = append(r.Lock, took)
			r.Unlock = append(r.Unlock, time.Since(started))
		case err != nil && ctx.Err() == nil:
			if r.fail(err); r.Failed >= maxFailures {
				return r.FirstError
			}
		}
	}
	return nil
}

// handOvers has several clients wait for one lock. A hand-over is the time from the
// call of Unlock to the return of the next holder's Lock.
func (r *Result) handOvers(ctx context.Context, c Config) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex // of r
	var released atomic.Pointer[time.Time]
	work := func(locks *redlock.Redlock) {
		m := locks.NewMutex(c.Name)
		for ctx.Err() == nil {
			err := m.LockContext(ctx)
			now := time.Now()
			if err == nil {
				before := released.Swap(nil)
				mu.Lock()
				if before != nil && len(r.HandOver) < c.Count {
					r.HandOver = append(r.HandOver, now.Sub(*before))
				}
				if len(r.HandOver) == c.Count {
					stop()
				}
				mu.Unlock()
				hold(ctx)
				left := time.Now()
				released.Store(&left)
				_, err = m.Unlock()
			}
			if err != nil && ctx.Err() == nil {
				mu.Lock()
				if r.fail(err); r.Failed >= maxFailures {
					stop()
				}
				mu.Unlock()
			}
		}
	}
	var clients sync.WaitGroup
	var errs []error
	for range c.Waiters {
		locks, closeLocks, err := c.Open()
		if err != nil {
			errs = append(errs, err)
			stop()
			break
		}
		clients.Go(func() {
			defer closeLocks()
			work(locks)
		})
	}
	clients.Wait()
	if len(errs) == 0 && r.Failed >= maxFailures {
		return r.FirstError
	}
	return errors.Join(errs...)
}

// hold is long enough for the one who has just unlocked to queue again.
func hold(ctx context.Context) {
	timer := time.NewTimer(2 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

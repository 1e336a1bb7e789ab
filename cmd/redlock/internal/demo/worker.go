package demo

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// tally counts what happened, for all or for one client.
type tally struct {
	grants, failed, lost atomic.Int64
}

// The critical section takes a moment; between two of them a worker takes none.
const (
	shortestSection = time.Millisecond
	longestSection  = 3 * time.Millisecond
	afterFailure    = 20 * time.Millisecond
)

// work takes the lock again and again until ctx ends.
func (r *run) work(ctx context.Context, worker int) {
	c := r.clients[worker/workersPerClient]
	for ctx.Err() == nil {
		mutex := c.locks.NewMutex(lockName)
		asked := time.Now()
		held, err := mutex.Hold(ctx)
		granted := time.Now()
		r.timeline.add(worker, false, 0, asked, granted)
		if err != nil {
			if ctx.Err() == nil {
				c.tally.failed.Add(1)
				r.tally.failed.Add(1)
				sleep(ctx, afterFailure)
			}
			continue
		}
		r.waits.add(granted.Sub(asked))
		visit := r.witness.enter(worker, mutex.Token())
		sleep(held, shortestSection+rand.N(longestSection-shortestSection))
		r.timeline.add(worker, true, mutex.Token(), granted, time.Now())
		r.witness.leave(visit)
		c.tally.grants.Add(1)
		r.tally.grants.Add(1)
		_, err = mutex.Unlock()
		if err != nil {
			c.tally.lost.Add(1)
			r.tally.lost.Add(1)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

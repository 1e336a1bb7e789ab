// Package cron runs a job once for each tick, although every machine fires it.
package cron

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/redlock"
)

// Once runs job on one of the machines that call it at about the same time, and
// reports whether it was this one. The lock is held for atLeast, however short the
// job is: a machine whose clock is late must still find it taken. Choose more than the
// clocks differ by and less than the time between two ticks.
//
// The job's context ends if the lock is lost, and with ctx. Whichever way job ends, also
// by a panic, which then goes on, or because ctx has ended, the lock stays until atLeast
// is over and is released then; Once returns after that. A process that goes down need
// not wait for it: once locks is closed or the process is gone, the lock is renewed no
// more and ends by its expiry, which is atLeast.
//
// The error matches job's own and what the release failed with. Of a machine that found
// the lock taken there is none.
func Once(ctx context.Context, locks *redlock.Redlock, name string, atLeast time.Duration, job func(context.Context) error) (ran bool, err error) {
	// With this expiry the lock lasts for as long even if this machine dies at once.
	m := locks.NewMutex("cron:"+name, redlock.WithExpiry(atLeast), redlock.WithTries(1))
	started := time.Now()
	held, err := m.Hold(ctx) // renews, if the job takes longer
	switch {
	case errors.Is(err, redlock.ErrTaken):
		return false, nil
	case err != nil:
		return false, err
	}
	// Deferred, for a lock that nobody releases is renewed as long as the process lives:
	// no machine would run the job again.
	defer func() {
		rest := time.NewTimer(time.Until(started.Add(atLeast)))
		defer rest.Stop()
		select {
		case <-rest.C:
		case <-held.Done():
			if errors.Is(context.Cause(held), redlock.ErrClosed) {
				return
			}
			<-rest.C
		}
		// ctx may have ended; the release must not end with it.
		_, unlocked := m.UnlockContext(context.WithoutCancel(ctx))
		err = errors.Join(err, unlocked)
	}()
	return true, job(held)
}

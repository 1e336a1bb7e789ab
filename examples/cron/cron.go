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
// The job's context ends if the lock is lost.
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
	err = job(held)

	rest := time.NewTimer(time.Until(started.Add(atLeast)))
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-ctx.Done():
		// The machine goes down. Nobody unlocks: after Redlock.Close the lock is not
		// renewed any more, and ends by its expiry.
		return true, err
	}
	_, unlocked := m.UnlockContext(ctx)
	return true, errors.Join(err, unlocked)
}

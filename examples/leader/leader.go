// Package leader has one of several processes lead, and another follow it when it
// dies, hangs or is cut off.
package leader

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/redlock"
)

// Campaign waits to be elected, leads for as long as it can, and stands again after
// it has lost, or lead has returned nil. It returns when ctx ends or lead returns an
// error of its own, whatever became of the lock meanwhile: any error while its context
// lives, and afterwards one that does not match the context's error or its cause.
//
// lead gets a context that ends before another can lead, and a term that is higher
// than those of all leaders before. It must return when its context ends: until then
// nobody else here is elected, but elsewhere somebody soon is. What it writes should
// carry the term, so that a store can refuse a leader of the past.
func Campaign(ctx context.Context, locks *redlock.Redlock, name string, lead func(ctx context.Context, term int64) error) error {
	for {
		var led bool
		var own error
		err := locks.Do(ctx, "leader:"+name, func(ctx context.Context) error {
			led = true
			term, _ := redlock.TokenFromContext(ctx)
			err := lead(ctx, term)
			if !stopped(ctx, err) {
				own = err
			}
			return err
		}, redlock.WithExpiry(5*time.Second))
		switch {
		case own != nil:
			return err // own, and what the lock failed with
		case ctx.Err() != nil:
			return ctx.Err()
		case led, errors.Is(err, redlock.ErrNoQuorum):
			// Stepped down, or nobody can be elected: the nodes may come back.
		case err != nil:
			return err
		}
		pause := time.NewTimer(500 * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
	}
}

// stopped reports whether err says no more than that ctx has ended.
func stopped(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}

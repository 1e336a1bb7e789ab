// Package datacentres holds a lock over nodes that are far apart.
package datacentres

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/pool"
)

// Figures of a service with nodes in several data centres.
const (
	// Farthest is the round trip to the farthest node, on a bad day.
	Farthest = 150 * time.Millisecond
	// NodeTimeout leaves that node the time to vote: below it, an outage in the nearest
	// data centre would leave no quorum. A node that is dead costs nobody this much: the
	// call returns at the quorum.
	NodeTimeout = 2 * Farthest
	// Expiry pays for some tries of a renewal, each of which may take a NodeTimeout. It
	// is also how long others wait for a holder that died.
	Expiry = 10 * time.Second
	// Margin is the validity that must be left before a step begins: more than the step
	// takes, the network included.
	Margin = 2 * time.Second
)

// New makes locks over one node, or more, in each data centre; an odd number in all.
func New(nodes []pool.Pool, opts ...redlock.Option) (*redlock.Redlock, error) {
	return redlock.New(nodes, append([]redlock.Option{
		redlock.WithExpiry(Expiry),
		redlock.WithNodeTimeout(NodeTimeout),
	}, opts...)...)
}

// Steps does one step after the other under a lock. No step begins with less than
// Margin of validity: the lock is extended first, and if that fails, or ctx has ended, the
// rest is left undone and the error says how much was done.
func Steps(ctx context.Context, locks *redlock.Redlock, name string, steps ...func(ctx context.Context) error) (err error) {
	m := locks.NewMutex(name)
	if err := m.LockContext(ctx); err != nil {
		return err
	}
	defer func() {
		if _, unlocked := m.UnlockContext(context.WithoutCancel(ctx)); err == nil {
			err = unlocked
		}
	}()
	for i, step := range steps {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%d of %d steps done: %w", i, len(steps), err)
		}
		if time.Until(m.Until()) < Margin {
			if _, err := m.ExtendContext(ctx); err != nil {
				return fmt.Errorf("%d of %d steps done: %w", i, len(steps), err)
			}
		}
		if err := step(ctx); err != nil {
			return fmt.Errorf("%d of %d steps done: %w", i, len(steps), err)
		}
	}
	return nil
}

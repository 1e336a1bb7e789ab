package datacentres_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/examples/datacentres"
	"github.com/quorumlock/redlock/redlocktest"
)

// Two nodes here, one in each of three data centres.
var roundTrips = []time.Duration{time.Millisecond, time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond, 120 * time.Millisecond}

func setUp(t *testing.T) (redlocktest.Nodes, *redlock.Redlock) {
	t.Helper()
	nodes := redlocktest.NewNodes(len(roundTrips))
	for i, n := range nodes {
		n.SetDelay(roundTrips[i]/2, roundTrips[i]/2)
	}
	locks, err := datacentres.New(nodes.Pools())
	require.NoError(t, err)
	return nodes, locks
}

// A lock costs the round trip to the node that completes the quorum, whoever is dead.
func TestLockCostsTheQuorum(t *testing.T) {
	for title, c := range map[string]struct {
		dead []int
		want time.Duration
	}{
		"all there":             {nil, 40 * time.Millisecond},
		"the farthest is dead":  {[]int{4}, 40 * time.Millisecond},
		"one here is dead":      {[]int{0}, 80 * time.Millisecond},
		"all of here is dead":   {[]int{0, 1}, 120 * time.Millisecond},
		"no quorum, in bounded": {[]int{0, 1, 2}, datacentres.NodeTimeout},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes, locks := setUp(t)
				for _, i := range c.dead {
					nodes[i].DropRequests(true)
				}
				m := locks.NewMutex("ledger")
				started := time.Now()
				err := m.TryLock()
				require.Equal(t, c.want, time.Since(started))
				if len(c.dead) > 2 {
					require.ErrorIs(t, err, redlock.ErrNoQuorum)
				} else {
					require.NoError(t, err)
					// What may be relied on is the expiry, less drift, counted from before the
					// request was sent.
					drift := datacentres.Expiry/100 + 2*time.Millisecond
					require.Equal(t, started.Add(datacentres.Expiry-drift), m.Until())
					_, err = m.Unlock()
					require.NoError(t, err)
				}
				for _, i := range c.dead {
					nodes[i].DropRequests(false)
				}
				require.NoError(t, locks.Close(t.Context()))
			})
		})
	}
}

func TestStepsKeepTheMargin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, locks := setUp(t)
		extends := 0
		nodes[0].OnExec(func(c redlocktest.Call) {
			if c.Name == "touch" {
				extends++
			}
		})
		step := func(context.Context) error { time.Sleep(1500 * time.Millisecond); return nil }
		require.NoError(t, datacentres.Steps(t.Context(), locks, "ledger", step, step, step, step, step, step, step, step))
		require.Equal(t, 1, extends, "12 s of work, begun with 10 s of validity")

		done := 0
		cut := func(context.Context) error {
			done++
			for _, n := range nodes[:3] {
				n.DropRequests(true)
			}
			time.Sleep(datacentres.Expiry - datacentres.Margin)
			return nil
		}
		err := datacentres.Steps(t.Context(), locks, "ledger", cut, cut)
		require.ErrorIs(t, err, redlock.ErrExtendFailed)
		require.ErrorContains(t, err, "1 of 2 steps done")
		require.Equal(t, 1, done, "the second was not begun")
		for _, n := range nodes[:3] {
			n.DropRequests(false)
		}
		require.NoError(t, locks.Close(t.Context()))
	})
}

func TestStepThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, locks := setUp(t)
		broken := errors.New("no database")
		err := datacentres.Steps(t.Context(), locks, "ledger",
			func(context.Context) error { return nil }, func(context.Context) error { return broken })
		require.ErrorIs(t, err, broken)
		require.NoError(t, locks.NewMutex("ledger").TryLock(), "it was released")
		require.NoError(t, locks.Close(t.Context()))
	})
}

// No step begins once ctx has ended, and the lock is released all the same.
func TestContextEndsBetweenSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, locks := setUp(t)
		ctx, end := context.WithCancel(t.Context())
		err := datacentres.Steps(ctx, locks, "ledger",
			func(context.Context) error { end(); return nil },
			func(context.Context) error { t.Error("begun"); return nil })
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "1 of 2 steps done")
		require.NoError(t, locks.NewMutex("ledger").TryLock(), "it was released")
		require.NoError(t, locks.Close(t.Context()))
	})
}

func TestStepThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, locks := setUp(t)
		require.Panics(t, func() {
			_ = datacentres.Steps(t.Context(), locks, "ledger", func(context.Context) error { panic("no database") })
		})
		require.NoError(t, locks.NewMutex("ledger").TryLock(), "it was released")
		require.NoError(t, locks.Close(t.Context()))
	})
}

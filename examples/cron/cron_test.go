package cron_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/examples/cron"
	"github.com/quorumlock/redlock/redlocktest"
)

// machines are processes that share the nodes and nothing else.
func machines(t *testing.T, nodes redlocktest.Nodes, n int) []*redlock.Redlock {
	t.Helper()
	all := make([]*redlock.Redlock, n)
	for i := range all {
		var err error
		all[i], err = redlock.New(nodes.Pools())
		require.NoError(t, err)
	}
	return all
}

// Eight machines, whose clocks differ by up to 700 ms, fire three ticks of a job of
// one millisecond.
func TestOnceForEachTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.NewNodes(3)
		for _, n := range nodes {
			n.SetDelay(time.Millisecond, time.Millisecond)
		}
		fleet := machines(t, nodes, 8)
		for tick := range 3 {
			var ran, told atomic.Int32
			for i, locks := range fleet {
				go func() {
					time.Sleep(time.Duration(i) * 100 * time.Millisecond)
					mine, err := cron.Once(t.Context(), locks, "report", 5*time.Second, func(context.Context) error {
						ran.Add(1)
						time.Sleep(time.Millisecond)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
					if mine {
						told.Add(1)
					}
				}()
			}
			time.Sleep(time.Minute)
			require.EqualValues(t, 1, ran.Load(), "tick %d", tick)
			require.EqualValues(t, 1, told.Load(), "tick %d", tick)
		}
		for _, locks := range fleet {
			require.NoError(t, locks.Close(t.Context()))
		}
	})
}

// The machine goes down right after its job: one that is late must not run it again.
func TestLateMachineAfterAShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := machines(t, redlocktest.NewNodes(3), 2)
		job := func(context.Context) error { return nil }
		ctx, down := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, down)
		ran, err := cron.Once(ctx, fleet[0], "report", 5*time.Second, job)
		require.NoError(t, err)
		require.True(t, ran)
		require.NoError(t, fleet[0].Close(t.Context()))

		ran, err = cron.Once(t.Context(), fleet[1], "report", 5*time.Second, job)
		require.NoError(t, err)
		require.False(t, ran)
		time.Sleep(5 * time.Second) // the next tick
		ran, err = cron.Once(t.Context(), fleet[1], "report", 5*time.Second, job)
		require.NoError(t, err)
		require.True(t, ran)
		require.NoError(t, fleet[1].Close(t.Context()))
	})
}

// A job that is longer than atLeast keeps its lock.
func TestLongJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := machines(t, redlocktest.NewNodes(3), 2)
		second := make(chan bool)
		go func() {
			time.Sleep(30 * time.Second)
			ran, err := cron.Once(t.Context(), fleet[1], "report", 5*time.Second, func(context.Context) error { return nil })
			if err != nil {
				t.Error(err)
			}
			second <- ran
		}()
		ran, err := cron.Once(t.Context(), fleet[0], "report", 5*time.Second, func(ctx context.Context) error {
			time.Sleep(time.Minute)
			return ctx.Err()
		})
		require.NoError(t, err)
		require.True(t, ran)
		require.False(t, <-second)
		for _, locks := range fleet {
			require.NoError(t, locks.Close(t.Context()))
		}
	})
}

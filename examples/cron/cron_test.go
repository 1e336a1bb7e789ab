package cron_test

import (
	"context"
	"errors"
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
		ended := make(chan error)
		go func() {
			_, err := cron.Once(t.Context(), fleet[0], "report", 5*time.Second, done)
			ended <- err
		}()
		time.Sleep(time.Second)
		require.NoError(t, fleet[0].Close(t.Context()))
		started := time.Now()
		require.NoError(t, <-ended)
		require.Equal(t, started, time.Now(), "nobody waits for a lock that ends by itself")

		require.False(t, once(t, fleet[1]))
		time.Sleep(5 * time.Second) // the next tick
		require.True(t, once(t, fleet[1]))
		require.NoError(t, fleet[1].Close(t.Context()))
	})
}

func done(context.Context) error { return nil }

// once is another machine that fires the tick.
func once(t *testing.T, locks *redlock.Redlock) bool {
	t.Helper()
	ran, err := cron.Once(t.Context(), locks, "report", 5*time.Second, done)
	require.NoError(t, err)
	return ran
}

// Whatever ends the job while the process lives on: the slot stays taken until atLeast
// is over, and the next one is free.
func TestSlotEndsHoweverTheJobDoes(t *testing.T) {
	broken := errors.New("no database")
	for title, c := range map[string]struct {
		job  func(context.Context) error
		end  time.Duration // of ctx
		want error
	}{
		"an error": {
			job: func(context.Context) error { return broken }, end: time.Hour, want: broken,
		},
		"a panic that the scheduler recovers": {
			job: func(context.Context) error { panic(broken) }, end: time.Hour, want: broken,
		},
		"its ctx, while it is at work": {
			job: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, end: time.Second, want: context.Canceled,
		},
		"its ctx, after its work": {job: done, end: time.Second},
		"a panic when its ctx ends": {
			job: func(ctx context.Context) error { <-ctx.Done(); panic(broken) }, end: time.Second, want: broken,
		},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fleet := machines(t, redlocktest.NewNodes(3), 2)
				ctx, end := context.WithCancel(t.Context())
				defer end()
				time.AfterFunc(c.end, end)
				ended := make(chan error)
				started := time.Now()
				go func() { ended <- recovered(ctx, fleet[0], c.job) }()
				time.Sleep(4900 * time.Millisecond)
				require.False(t, once(t, fleet[1]), "late for the slot")
				require.ErrorIs(t, <-ended, c.want)
				require.Equal(t, 5*time.Second, time.Since(started))
				require.True(t, once(t, fleet[1]), "the next slot")
				for _, locks := range fleet {
					require.NoError(t, locks.Close(t.Context()))
				}
			})
		})
	}
}

// recovered is a scheduler that outlives the panics of its jobs.
func recovered(ctx context.Context, locks *redlock.Redlock, job func(context.Context) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = r.(error)
		}
	}()
	_, err = cron.Once(ctx, locks, "report", 5*time.Second, job)
	return err
}

// By the end of the job both ctx and atLeast are over. Which is seen first must not
// matter: many runs, for a choice between the two would be by chance.
func TestContextEndedUnderALongJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := machines(t, redlocktest.NewNodes(3), 2)
		for range 50 {
			ctx, end := context.WithTimeout(t.Context(), 6*time.Second)
			ran, err := cron.Once(ctx, fleet[0], "report", 5*time.Second, func(context.Context) error {
				time.Sleep(7 * time.Second)
				return nil
			})
			end()
			require.NoError(t, err)
			require.True(t, ran)
			require.True(t, once(t, fleet[1]), "it was released")
		}
		for _, locks := range fleet {
			require.NoError(t, locks.Close(t.Context()))
		}
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

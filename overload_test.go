package redlock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/redlocktest"
)

// busyNode runs one request at a time, and those too that their callers have given up.
type busyNode struct {
	pool.Pool
	turn chan struct{}
	work *atomic.Int64 // ns for each request
}

func (n busyNode) Eval(ctx context.Context, s *pool.Script, keys []string, args ...any) ([]int64, error) {
	type outcome struct {
		ints []int64
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		n.turn <- struct{}{}
		time.Sleep(time.Duration(n.work.Load()))
		ints, err := n.Pool.Eval(context.WithoutCancel(ctx), s, keys, args...)
		<-n.turn
		done <- outcome{ints, err}
	}()
	select {
	case o := <-done:
		return o.ints, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (n busyNode) Subscribe(ctx context.Context, channel string, ready func(), message func(string)) error {
	return n.Pool.(pool.Subscriber).Subscribe(ctx, channel, ready, message)
}

// All nodes become so slow that no request is answered in time. When they are as fast
// as before again, the requests that were given up must not keep them busy for ever.
func TestOverloadEnds(t *testing.T) {
	virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
		const usual, overload, clients, workers = 25 * time.Millisecond, 200 * time.Millisecond, 6, 18
		var work, grants atomic.Int64
		work.Store(int64(usual))
		slow := make([]pool.Pool, len(nodes))
		for i, n := range nodes {
			n.SetDelay(100*time.Microsecond, 100*time.Microsecond)
			slow[i] = busyNode{Pool: n, turn: make(chan struct{}, 1), work: &work}
		}
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for c := range clients {
			r := factoryOf(t, slow)
			for range workers / clients {
				all.Go(func() {
					for ctx.Err() == nil {
						within, cancel := context.WithTimeout(ctx, 5*time.Second)
						m := r.NewMutex([]string{"a", "b", "c"}[c%3])
						if m.LockContext(within) == nil {
							grants.Add(1)
							time.Sleep(5 * time.Millisecond)
							_, _ = m.Unlock()
						}
						cancel()
					}
				})
			}
		}
		during := func(d time.Duration) int64 {
			before := grants.Load()
			time.Sleep(d)
			return grants.Load() - before
		}
		during(5 * time.Second)
		healthy := during(5 * time.Second)
		require.Greater(t, healthy, int64(20))
		work.Store(int64(overload))
		during(5 * time.Second)
		require.Less(t, during(10*time.Second), healthy/4, "that was no overload")
		work.Store(int64(usual))
		during(30 * time.Second)
		after := during(5 * time.Second)
		t.Logf("grants in 5 s: %d before, %d after", healthy, after)
		require.Greater(t, after, healthy*3/4)
		stop()
		all.Wait()
		time.Sleep(time.Minute)
		for _, name := range []string{"a", "b", "c"} {
			require.Zero(t, heldBy(nodes, name))
			require.Empty(t, queued(nodes, name))
		}
	})
}

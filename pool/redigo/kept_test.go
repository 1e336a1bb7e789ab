package redigo

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
)

var one = pool.NewScript("one", "return {1}")

// counted is a pool that keeps so many connections, and the number it has dialled.
func counted(t *testing.T, addr string, keep int) (*redis.Pool, *atomic.Int64) {
	t.Helper()
	var dialled atomic.Int64
	p := &redis.Pool{
		MaxIdle: keep,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			dialled.Add(1)
			return redis.DialContext(ctx, "tcp", addr)
		},
	}
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p, &dialled
}

func TestBurstWaitsForKeptConnections(t *testing.T) {
	const keep, callers, calls = 2, 16, 50
	p, dialled := counted(t, testutil.StartRedis(t).Addr(), keep)
	n := NewPool(p)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range calls {
				got, err := n.Eval(t.Context(), one, nil)
				if err != nil || len(got) != 1 || got[0] != 1 {
					t.Errorf("Eval: %v, %v", got, err)
				}
			}
		})
	}
	all.Wait()
	// Two, but for calls that a busy machine kept waiting too long. Without the wait
	// most of the 800 calls dial.
	require.Less(t, dialled.Load(), int64(callers*calls/10))
	require.LessOrEqual(t, p.IdleCount(), keep)
}

func TestWaitForKeptConnectionsIsShort(t *testing.T) {
	s := testutil.StartRedis(t)
	p, dialled := counted(t, s.Addr(), 1)
	n := NewPool(p)
	_, err := n.Eval(t.Context(), one, nil)
	require.NoError(t, err)
	require.NoError(t, s.Pause())

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	results := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := n.Eval(ctx, one, nil)
			results <- err
		}()
	}
	// The second call does not wait for a connection that may never come back.
	testutil.Eventually(t, 5*time.Second, func() bool { return dialled.Load() == 2 }, "a second connection")
	require.NoError(t, s.Resume())
	for range 2 {
		require.NoError(t, <-results)
	}

	// Nor longer than its own time.
	require.NoError(t, s.Pause())
	short, cancelShort := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancelShort()
	started := time.Now()
	for range 2 {
		go func() {
			_, err := n.Eval(short, one, nil)
			results <- err
		}()
	}
	for range 2 {
		require.Error(t, <-results)
	}
	require.Less(t, time.Since(started), 5*time.Second)
	require.NoError(t, s.Resume())
}

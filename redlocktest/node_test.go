package redlocktest_test

import (
	"context"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/redlocktest"
)

const (
	granted = 1
	busy    = 2
	stale   = 3
)

// bubble runs f with one node in virtual time; a goroutine that the node left
// behind fails the test.
func bubble(t *testing.T, f func(t *testing.T, node *redlocktest.Node, c client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		node := redlocktest.NewNode("node0")
		f(t, node, client{node})
	})
}

func TestAcquireAndRelease(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, node *redlocktest.Node, c client) {
		ctx := within(t, time.Second)
		p := c.ballot()
		got, err := c.acquire(ctx, "a.1.", p, 8*time.Second, "")
		require.NoError(t, err)
		now := node.Now().UnixMicro()
		assert.Equal(t, []int64{granted, now}, got)

		got, err = c.acquire(ctx, "b.1.", p+1, 8*time.Second, "b")
		require.NoError(t, err)
		assert.Equal(t, []int64{busy, now, p, 8000, p, 0}, got)
		assert.Equal(t, []string{"L", "L:f", "L:q"}, node.Keys())

		got, err = c.release(ctx, "a.1.", p)
		require.NoError(t, err)
		assert.Equal(t, []int64{1, 0, 0, 0, 0, 0}, got)
		assert.Equal(t, []string{"L:f"}, node.Keys())

		got, err = c.acquire(ctx, "a.1.", p, 8*time.Second, "")
		require.NoError(t, err)
		assert.Equal(t, []int64{stale, now, p, 0, 0, -1}, got, "a late request of a released grant")
	})
}

func TestKeysExpireByTheNodesClock(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, node *redlocktest.Node, c client) {
		node.Set("k", "v", 10*time.Millisecond)
		ttl, found := node.TTL("k")
		assert.Equal(t, 10*time.Millisecond, ttl)
		assert.True(t, found)
		time.Sleep(10 * time.Millisecond)
		ttl, found = node.TTL("k")
		assert.Zero(t, ttl, "a key lives through the millisecond of its deadline")
		assert.True(t, found)
		time.Sleep(time.Millisecond)
		_, found = node.TTL("k")
		assert.False(t, found)

		node.Set("k", "v", 10*time.Second)
		node.SetClockRate(1.25)
		time.Sleep(4 * time.Second)
		ttl, _ = node.TTL("k")
		assert.Equal(t, 5*time.Second, ttl)
		node.SetClockOffset(time.Hour)
		assert.Empty(t, node.Keys())
		assert.Equal(t, time.Now().Add(time.Hour), node.Now())

		node.Set("k", "v", 0)
		ttl, found = node.TTL("k")
		assert.Equal(t, time.Duration(redlocktest.NoExpiry), ttl)
		assert.True(t, found)
	})
}

func TestDelayedRequestOutlivesItsClient(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, node *redlocktest.Node, c client) {
		node.SetDelay(30*time.Millisecond, 40*time.Millisecond)
		start := time.Now()
		_, err := c.acquire(within(t, time.Second), "a.1.", c.ballot(), time.Second, "")
		require.NoError(t, err)
		assert.Equal(t, 70*time.Millisecond, time.Since(start))

		start = time.Now()
		_, err = c.release(within(t, 10*time.Millisecond), "a.1.", c.ballot())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 10*time.Millisecond, time.Since(start))
		assert.Contains(t, node.Keys(), "L")
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		assert.NotContains(t, node.Keys(), "L", "the request arrived after its client had left")
	})
}

func TestHungNodeExecutesInOrderWhenItResumes(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, node *redlocktest.Node, c client) {
		var executed []string
		node.OnExec(func(call redlocktest.Call) {
			executed = append(executed, strings.TrimRight(call.Args[0], "0123456789"))
		})
		p := c.ballot()
		node.Hang()
		for i, id := range []string{"a.1.", "b.1.", "c.1."} {
			_, err := c.acquire(within(t, 10*time.Millisecond), id, p+int64(i), time.Second, "")
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		assert.Equal(t, 3, node.Stats().Pending)
		assert.Empty(t, executed)

		var waited sync.WaitGroup
		waited.Go(func() {
			got, err := c.acquire(within(t, time.Second), "d.1.", p+9, time.Second, "")
			assert.NoError(t, err)
			assert.EqualValues(t, busy, got[0])
		})
		synctest.Wait()
		node.Resume()
		waited.Wait()
		assert.Equal(t, []string{"a.1.", "b.1.", "c.1.", "d.1."}, executed)
		value, _ := node.Value("L")
		assert.Contains(t, value, "a.1.")
		assert.Zero(t, node.Stats().Pending)
	})
}

// Each Resume returns only when the backlog has run, whoever runs it.
func TestResumesAtOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, node *redlocktest.Node, c client) {
		var mu sync.Mutex
		var executed []string
		held, free := true, make(chan struct{})
		node.OnExec(func(call redlocktest.Call) {
			mu.Lock()
			first := held
			held = false
			executed = append(executed, strings.TrimRight(call.Args[0], "0123456789"))
			mu.Unlock()
			if first {
				<-free
			}
		})
		node.Hang()
		for i, id := range []string{"a.1.", "b.1.", "c.1."} {
			_, err := c.acquire(within(t, 10*time.Millisecond), id, c.ballot()+int64(i), time.Second, "")
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		var first sync.WaitGroup
		first.Go(node.Resume)
		synctest.Wait()
		assert.Equal(t, 1, node.Stats().Executed["acquire"], "the first is held up in the observer")
		_, err := c.acquire(within(t, 10*time.Millisecond), "d.1.", c.ballot()+3, time.Second, "")
		require.ErrorIs(t, err, context.DeadlineExceeded, "it does not overtake the backlog")
		node.Resume()
		assert.Equal(t, 4, node.Stats().Executed["acquire"])
		assert.Zero(t, node.Stats().Pending)
		close(free)
		first.Wait()
		assert.Equal(t, []string{"a.1.", "b.1.", "c.1.", "d.1."}, executed)
	})
}

func TestDownResetsAndRefuses(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, node *redlocktest.Node, c client) {
		node.Set("k", "v", 0)
		node.Hang()
		var waited sync.WaitGroup
		for range 3 {
			waited.Go(func() {
				_, err := c.acquire(t.Context(), "a.1.", c.ballot(), time.Second, "")
				assert.ErrorIs(t, err, syscall.ECONNRESET)
			})
		}
		synctest.Wait()
		run := node.RunID()
		node.Down()
		waited.Wait()
		_, _, err := node.Get(t.Context(), "k")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		node.Up()
		node.Resume()
		assert.Zero(t, node.Stats().Executed["acquire"], "requests of reset connections are lost")
		value, found, err := node.Get(t.Context(), "k")
		require.NoError(t, err)
		assert.True(t, found)
		assert.Equal(t, "v", value)
		assert.Equal(t, run, node.RunID())
	})
}

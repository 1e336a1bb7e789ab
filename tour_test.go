package redlock

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/redlocktest"
)

// startable counts the calls that a tour has made, and may keep one waiting.
type startable struct {
	*redlocktest.Node
	started atomic.Int32
	block   atomic.Int64 // ns that Start takes
}

func (s *startable) Start(ctx context.Context, script *pool.Script, words []any, into []int64) pool.Pending {
	s.started.Add(1)
	time.Sleep(time.Duration(s.block.Load()))
	return s.Node.Start(ctx, script, words, into)
}

// toured is a client of five nodes with the round trips given that has asked each
// before.
func toured(t *testing.T, trips ...time.Duration) (*Redlock, []*startable) {
	t.Helper()
	all := make([]*startable, len(trips))
	pools := make([]pool.Pool, len(trips))
	for i, n := range redlocktest.NewNodes(len(trips)) {
		n.SetDelay(trips[i]/2, trips[i]/2)
		all[i] = &startable{Node: n}
		pools[i] = all[i]
	}
	r, err := New(pools)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close(context.Background())) })
	m := r.NewMutex("first")
	require.NoError(t, m.Lock())
	_, err = m.Unlock()
	require.NoError(t, err)
	time.Sleep(time.Second)
	for _, n := range all {
		n.started.Store(0)
	}
	return r, all
}

const us = time.Microsecond

// Near nodes are asked by a tour, and the round ends with the decisive reply.
func TestTourOfNearNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, nodes := toured(t, 500*us, 100*us, 300*us, 40*time.Millisecond, 200*us)
		m := r.NewMutex("jobs")
		started := time.Now()
		require.NoError(t, m.Lock())
		require.Equal(t, 300*us, time.Since(started))
		for i, n := range nodes {
			require.EqualValues(t, map[bool]int{true: 0, false: 1}[i == 3], n.started.Load(), "node %d", i)
		}
		time.Sleep(time.Second)
		require.Equal(t, 5, m.current().lease.count(time.Now()), "what came later counts, too")
		_, err := m.Unlock()
		require.NoError(t, err)
	})
}

// Of a node that does not answer, a tour knows only when it waits for it: the others
// are taken from it, and the node is left out of the next.
func TestTourIsSplitByASilentNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, nodes := toured(t, 100*us, 200*us, 200*us, 200*us, 300*us)
		nodes[0].Hang()
		m := r.NewMutex("jobs")
		started := time.Now()
		require.NoError(t, m.Lock())
		require.InDelta(t, tourPatience+4*300*us, time.Since(started), float64(10*us)) // by trips that creep up
		started = time.Now()
		_, err := m.Unlock()
		require.NoError(t, err)
		require.InDelta(t, tourPatience+4*300*us, time.Since(started), float64(10*us)) // by trips that creep up
		time.Sleep(time.Second)                                                        // its silence is known
		started = time.Now()
		require.NoError(t, m.Lock())
		require.Equal(t, 200*us, time.Since(started))
		nodes[0].Resume()
		_, err = m.Unlock()
		require.NoError(t, err)
		time.Sleep(time.Second)
		for i, n := range nodes {
			_, held := n.Value("jobs")
			require.False(t, held, "node %d", i)
		}
	})
}

// A pool that takes its time to send, for it has to connect, does not hold up the nodes
// that come after it.
func TestTourIsSplitByASlowStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, nodes := toured(t, 100*us, 200*us, 200*us, 200*us, 200*us)
		nodes[0].block.Store(int64(50 * time.Millisecond))
		m := r.NewMutex("jobs")
		started := time.Now()
		require.NoError(t, m.Lock())
		require.InDelta(t, tourPatience+4*200*us+200*us, time.Since(started), float64(10*us))
		for _, n := range nodes[1:] {
			require.Zero(t, n.started.Load())
		}
		_, err := m.Unlock()
		require.NoError(t, err)
	})
}

// When a node is busy already, requests to it share a write: a tour leaves it out.
func TestTourLeavesBusyNodesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, nodes := toured(t, 300*us, 300*us, 300*us)
		const callers = 20
		done := make(chan error, callers)
		for i := range callers {
			go func() { done <- r.NewMutex(string(rune('a' + i))).Lock() }()
		}
		for range callers {
			require.NoError(t, <-done)
		}
		for i, n := range nodes {
			require.EqualValues(t, tourLanes, n.started.Load(), "node %d", i)
		}
	})
}

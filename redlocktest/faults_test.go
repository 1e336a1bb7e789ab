package redlocktest_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/redlocktest"
)

func TestDroppedRequestsAndReplies(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, node *redlocktest.Node, c client) {
		node.DropRequests(true)
		_, err := c.acquire(within(t, time.Second), "a.1.", c.ballot(), time.Minute, "")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Empty(t, node.Keys())
		node.DropRequests(false)

		node.DropReplies(true)
		_, err = c.acquire(within(t, time.Second), "a.1.", c.ballot(), time.Minute, "")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Contains(t, node.Keys(), "L")
		node.DropReplies(false)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = c.release(ctx, "a.1.", c.ballot())
		require.ErrorIs(t, err, context.Canceled)
		assert.Contains(t, node.Keys(), "L", "a request that was cancelled before is not sent")
	})
}

func TestFaultsForEachRequest(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, node *redlocktest.Node, c client) {
		var codes []int64
		node.OnExec(func(call redlocktest.Call) {
			assert.Equal(t, "node0", call.Node)
			assert.Equal(t, call.Time, node.Now(), "an observer may use the node")
			if call.Err == nil {
				codes = append(codes, call.Reply[0])
			}
		})
		node.SetFaults(func(call redlocktest.Call) redlocktest.Fault {
			switch call.Name {
			case "acquire":
				return redlocktest.Fault{Duplicates: []time.Duration{time.Second, 3 * time.Second}}
			case "inspect":
				return redlocktest.Fault{Err: redlocktest.ServerError("LOADING Redis is loading the dataset in memory")}
			}
			return redlocktest.Fault{ReplyDelay: time.Millisecond}
		})
		ctx, p := within(t, time.Minute), c.ballot()
		_, err := c.acquire(ctx, "a.1.", p, time.Minute, "")
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		start := time.Now()
		_, err = c.release(ctx, "a.1.", p)
		require.NoError(t, err)
		assert.Equal(t, time.Millisecond, time.Since(start))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, []int64{granted, granted, 1, stale}, codes, "granted, its duplicate, released, the late duplicate")
		_, err = c.eval(ctx, "inspect", []string{"L", "L:f", "L:q"})
		require.EqualError(t, err, "LOADING Redis is loading the dataset in memory")
	})
}

func TestErrorInPlaceOfEachDelivery(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, node *redlocktest.Node, c client) {
		loading := redlocktest.ServerError("LOADING Redis is loading the dataset in memory")
		var mu sync.Mutex
		var copies []bool
		node.OnExec(func(call redlocktest.Call) {
			mu.Lock()
			defer mu.Unlock()
			copies = append(copies, call.Duplicate)
			assert.Equal(t, loading, call.Err)
		})
		node.SetFaults(func(redlocktest.Call) redlocktest.Fault {
			return redlocktest.Fault{Err: loading, Duplicates: []time.Duration{time.Second, 2 * time.Second}}
		})
		_, err := c.acquire(within(t, time.Minute), "a.1.", c.ballot(), time.Minute, "")
		require.ErrorIs(t, err, loading)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		assert.Equal(t, []bool{false, true, true}, copies)
		assert.Empty(t, node.Keys())
	})
}

func TestServerErrors(t *testing.T) {
	t.Parallel()
	ctx, node := t.Context(), redlocktest.NewNode("node0")
	c := client{node}

	node.SetError("acquire", "READONLY You can't write against a read only replica.")
	_, err := c.acquire(ctx, "a.1.", c.ballot(), time.Minute, "")
	require.ErrorContains(t, err, "READONLY")
	_, err = c.release(ctx, "a.1.", c.ballot())
	require.NoError(t, err)
	node.SetError("acquire", "")

	node.SetError("", "NOAUTH Authentication required.")
	_, err = c.release(ctx, "a.1.", c.ballot())
	require.ErrorContains(t, err, "NOAUTH")
	_, _, err = node.Get(ctx, "L")
	require.ErrorContains(t, err, "NOAUTH")
	err = node.Subscribe(ctx, "w", func() { t.Error("ready") }, func(string) {})
	require.ErrorContains(t, err, "NOAUTH")
	node.SetError("", "")

	node.SetFull(true)
	_, err = c.acquire(ctx, "a.1.", c.ballot(), time.Minute, "")
	require.ErrorContains(t, err, "OOM")
	assert.NotContains(t, node.Keys(), "L")
	node.SetFull(false)

	_, err = c.acquire(ctx, "a.1.", c.ballot(), time.Minute, "")
	require.NoError(t, err)
	_, err = c.eval(ctx, "nonsense", nil)
	require.ErrorContains(t, err, "no twin")
	_, err = c.eval(ctx, "acquire", []string{"L"}, "a.1.")
	require.ErrorContains(t, err, "too few")
	_, err = c.eval(ctx, "leave", []string{"L", "L:q"}, 1.5)
	require.ErrorContains(t, err, "argument 1 of leave")
}

func TestRestart(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, node *redlocktest.Node, c client) {
		guarded := func() int64 {
			got, err := c.eval(t.Context(), "acquire", []string{"G", "G:f", "G:q", "G:m"},
				"foreign", c.ballot(), 1000, 1000+retention, 60_000, "", 0)
			require.NoError(t, err)
			return got[0]
		}
		assert.EqualValues(t, granted, guarded(), "a new node is trusted")
		run := node.RunID()

		node.Restart(true)
		assert.NotEqual(t, run, node.RunID())
		assert.Equal(t, []string{"G", "G:f", "G:m"}, node.Keys())
		assert.EqualValues(t, 4, guarded(), "another run id")

		node.Hang()
		node.Restart(false)
		assert.Empty(t, node.Keys())
		assert.EqualValues(t, 4, guarded(), "no marker, and up for less than a hold")
		time.Sleep(time.Minute + time.Second) // it tells its uptime in seconds begun
		assert.EqualValues(t, granted, guarded())

		node.FlushAll()
		assert.EqualValues(t, granted, guarded(), "a flush goes unnoticed")
	})
}

func TestNotices(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, node *redlocktest.Node, c client) {
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		var waited sync.WaitGroup
		listen := func(want error) {
			waited.Go(func() {
				err := node.Subscribe(ctx, "b", func() { got = append(got, "ready") }, func(payload string) {
					got = append(got, fmt.Sprint(payload, " ", time.Now().UTC().Format("05.000")))
				})
				assert.ErrorIs(t, err, want)
			})
			synctest.Wait()
		}
		hand := func() int64 {
			time.Sleep(10 * time.Microsecond) // a ballot above the last
			p := c.ballot()
			_, err := c.acquire(t.Context(), "a.1.", p, time.Minute, "")
			require.NoError(t, err)
			for i, member := range []string{"gone#1", "b#2"} {
				_, err = c.acquire(t.Context(), "b.1.", p+int64(i), time.Minute, member)
				require.NoError(t, err)
			}
			reply, err := c.release(t.Context(), "a.1.", p)
			require.NoError(t, err)
			synctest.Wait()
			return reply[5]
		}

		assert.Zero(t, hand(), "nobody listens")
		listen(syscall.ECONNRESET)
		assert.EqualValues(t, 1, hand())
		assert.Equal(t, 1, node.Stats().Subscribers)
		delay := 5 * time.Millisecond
		node.SetFaults(func(call redlocktest.Call) redlocktest.Fault {
			if call.Name != "message" {
				return redlocktest.Fault{}
			}
			d := delay
			delay = 0
			return redlocktest.Fault{ReplyDelay: d}
		})
		hand()
		hand()
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, []string{"ready", "2 L 00.000", "2 L 00.005", "2 L 00.005"}, got, "a slow notice holds up the next")

		node.DropReplies(true)
		node.SetFaults(nil)
		p := c.ballot()
		_, err := c.acquire(within(t, time.Second), "a.1.", p, time.Minute, "b")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		node.DropReplies(false)

		node.Restart(true)
		waited.Wait()
		assert.Zero(t, node.Stats().Subscribers)
		listen(context.Canceled)
		cancel()
		waited.Wait()
		assert.Zero(t, node.Stats().Subscribers)
	})
}

func TestSubscriberThatGaveUpIsNotCounted(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, node *redlocktest.Node, _ client) {
		node.Hang()
		err := node.Subscribe(within(t, time.Second), "b", func() { t.Error("ready") }, func(string) {})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		node.Resume()
		assert.Equal(t, 1, node.Stats().Executed["subscribe"])
		assert.Zero(t, node.Stats().Subscribers)
	})
}

func TestRefusedPublishKeepsTheWaiter(t *testing.T) {
	t.Parallel()
	node := redlocktest.NewNode("node0")
	c, p := client{node}, time.Now().UnixMicro()
	node.RefuseCommand("PUBLISH", "NOPERM this user has no permissions to run the 'publish' command")
	_, err := c.acquire(t.Context(), "a.1.", p, time.Minute, "")
	require.NoError(t, err)
	_, err = c.acquire(t.Context(), "b.1.", p, time.Minute, "b")
	require.NoError(t, err)
	got, err := c.release(t.Context(), "a.1.", p)
	require.NoError(t, err)
	assert.Zero(t, got[5])
	assert.Equal(t, []string{"b"}, node.Queue("L:q"))
}

// Everything is called at once; the race detector and the exit of all calls are
// the test.
func TestAllAtOnce(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.NewNodes(2)
	require.Len(t, nodes.Pools(), 2)
	ctx := within(t, 10*time.Second)
	listening, stop := context.WithCancel(ctx)
	var clients, listeners sync.WaitGroup
	for i, node := range nodes {
		assert.Equal(t, fmt.Sprint("node", i), node.Addr())
		node.OnExec(func(redlocktest.Call) { node.Stats() })
		listeners.Go(func() {
			for listening.Err() == nil {
				_ = node.Subscribe(listening, "w", func() {}, func(string) {})
			}
		})
		for id := range 4 {
			clients.Go(func() { hammer(ctx, client{node}, fmt.Sprintf("c%d.1.", id)) })
		}
		clients.Go(func() { disturb(node) })
	}
	clients.Wait()
	stop()
	listeners.Wait()
	for _, node := range nodes {
		stats := node.Stats()
		assert.Zero(t, stats.InFlight)
		assert.Zero(t, stats.Pending)
		assert.Zero(t, stats.Subscribers)
		assert.Positive(t, stats.Commands)
	}
}

func hammer(ctx context.Context, c client, id string) {
	for range 200 {
		call, cancel := context.WithTimeout(ctx, 2*time.Millisecond)
		p := c.ballot()
		_, _ = c.acquire(call, id, p, time.Second, "w")
		_, _ = c.release(call, id, p)
		cancel()
	}
}

func disturb(node *redlocktest.Node) {
	for i := range 100 {
		node.SetDelay(time.Duration(i)*time.Microsecond, 0)
		node.Hang()
		node.Keys()
		node.Resume()
		if i%10 == 0 {
			node.Down()
			node.Up()
		}
		node.SetClockRate(1 + float64(i)/1000)
		if i%25 == 0 {
			node.Restart(i%2 == 0)
		}
	}
	node.SetDelay(0, 0)
}

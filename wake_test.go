package redlock

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/redlocktest"
)

// A call reaches the waiter it is for; what comes for one that waits no longer is
// passed on by the node, unless that one has the lock.
func TestNoticeFindsItsWaiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.NewNodes(3)
		r, err := New(nodes.Pools())
		require.NoError(t, err)
		m := r.NewMutex("jobs")
		one, two := m.newWaiter(), m.newWaiter()
		_, ticket1 := one.join(1, 0)
		_, ticket2 := two.join(2, 0)
		leaves := func() (sum int) {
			synctest.Wait()
			for _, n := range nodes {
				sum += n.Stats().Executed["leave"]
			}
			return sum
		}
		r.wakes.notice(r.nodes[1], "jobs", ticket2)
		require.Zero(t, one.calls())
		require.Equal(t, 1, two.calls())
		r.wakes.notice(r.nodes[1], "jobs", ticket2)
		require.Equal(t, 1, two.calls(), "one node counts once")
		r.wakes.notice(r.nodes[0], "jobs", ticket2)
		require.Equal(t, 2, two.calls())
		two.join(3, 0)
		require.Zero(t, two.calls(), "a new attempt sees for itself")
		require.True(t, two.hasTicket(ticket2), "the place is that of the first ballot")
		require.Zero(t, leaves())

		r.wakes.remove(one)
		r.wakes.notice(r.nodes[2], "jobs", ticket1)
		require.Equal(t, 1, leaves(), "the waiter has gone")
		r.wakes.notice(r.nodes[2], "other", ticket2)
		require.Equal(t, 2, leaves(), "another name")

		two.queued = true
		require.Equal(t, ticket2, r.wakes.won(two))
		r.wakes.remove(two)
		require.Empty(t, r.wakes.waiters, "idle names take no memory")
		r.wakes.notice(r.nodes[2], "jobs", ticket2)
		require.Equal(t, 2, leaves(), "it went away with the lock")
		r.wakes.freed("jobs", "another")
		require.NotEmpty(t, r.wakes.winners)
		r.wakes.freed("jobs", ticket2)
		require.Empty(t, r.wakes.winners)
		r.wakes.notice(r.nodes[2], "jobs", ticket2)
		require.Equal(t, 3, leaves())
		require.NoError(t, r.Close(t.Context()))
	})
}

// flaky is a subscriber that is confirmed and then lost as often as told.
type flaky struct {
	*redlocktest.Node

	mu      sync.Mutex
	refuse  error
	starts  []time.Time
	payload string
}

func (f *flaky) Subscribe(ctx context.Context, _ string, ready func(), message func(string)) error {
	f.mu.Lock()
	f.starts = append(f.starts, time.Now())
	err, payload := f.refuse, f.payload
	f.mu.Unlock()
	if err != nil {
		return err
	}
	ready()
	message(payload)
	<-ctx.Done()
	return ctx.Err()
}

// A refused subscription is tried again with growing pauses, not in a hot loop and
// not given up; notices that make no sense are ignored.
func TestSubscriptionIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		node := &flaky{Node: redlocktest.NewNode("node0"), refuse: context.DeadlineExceeded, payload: "no-name"}
		r, err := New([]pool.Pool{node})
		require.NoError(t, err)
		r.wakes.listen()
		r.wakes.listen()
		time.Sleep(time.Minute)
		node.mu.Lock()
		require.Greater(t, len(node.starts), 8)
		require.Less(t, len(node.starts), 40)
		last := node.starts[len(node.starts)-1]
		node.refuse = nil
		node.mu.Unlock()
		require.Less(t, time.Since(last), 8*time.Second)
		require.False(t, r.wakes.listening(r.nodes[0]))
		time.Sleep(8 * time.Second)
		require.True(t, r.wakes.listening(r.nodes[0]))
		require.NoError(t, r.Close(t.Context()))
		synctest.Wait()
		require.False(t, r.wakes.listening(r.nodes[0]))
	})
}

// slowToTell is a client that tells of a confirmation when the subscription is over.
type slowToTell struct {
	*redlocktest.Node
	told chan struct{}
}

func (s *slowToTell) Subscribe(_ context.Context, _ string, ready func(), _ func(string)) error {
	go func() {
		time.Sleep(time.Millisecond)
		ready()
		close(s.told)
	}()
	return context.DeadlineExceeded
}

// A confirmation that is heard of when the subscription is over makes no listener.
func TestConfirmedTooLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slowToTell{Node: redlocktest.NewNode("node0"), told: make(chan struct{})}
		r, err := New([]pool.Pool{s})
		require.NoError(t, err)
		r.wakes.listen()
		<-s.told
		require.False(t, r.wakes.listening(r.nodes[0]))
		require.False(t, r.wakes.on.Load())
		require.NoError(t, r.Close(t.Context()))
	})
}

// comesAndGoes is a subscriber that is confirmed and lost at once.
type comesAndGoes struct {
	*redlocktest.Node
	comes atomic.Int32
}

func (c *comesAndGoes) Subscribe(_ context.Context, _ string, ready func(), _ func(string)) error {
	c.comes.Add(1)
	ready()
	return context.DeadlineExceeded
}

// A subscription that comes and goes makes no more tries than were asked for, but one
// for each node, and is not dialled all the time.
func TestSubscriptionThatComesAndGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.NewNodes(3)
		first := &comesAndGoes{Node: nodes[0]}
		pools := []pool.Pool{first, &comesAndGoes{Node: nodes[1]}, &comesAndGoes{Node: nodes[2]}}
		for _, n := range nodes {
			n.Set("jobs", "another", 0)
		}
		r, err := New(pools, WithRetryDelay(20*time.Second))
		require.NoError(t, err)
		const tries = 3
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.ErrorIs(t, r.NewMutex("jobs", WithTries(tries)).LockContext(ctx), ErrTaken)
		require.NoError(t, ctx.Err())
		require.Less(t, first.comes.Load(), int32(40))
		require.LessOrEqual(t, nodes[0].Stats().Executed["acquire"], tries+len(nodes))
		require.NoError(t, r.Close(t.Context()))
	})
}

// Replies of two attempts may come in another order than they were given in. A place in
// a queue is not forgotten for that, or nobody would ever leave it.
func TestLateGrantDoesNotHideAPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, err := New(redlocktest.NewNodes(3).Pools())
		require.NoError(t, err)
		w := r.NewMutex("jobs").newWaiter()
		busy, granted := reply{code: codeBusy}, reply{code: codeGranted}
		const first = nodeSet(1)
		w.join(1, first)
		w.join(2, first)
		w.saw(r.nodes[0], 2, busy)
		w.saw(r.nodes[0], 1, granted)
		require.Equal(t, 1, w.places(), "the second attempt joined after the grant of the first")
		w.join(3, first)
		w.saw(r.nodes[0], 3, granted)
		require.Zero(t, w.places())
		w.finish()
	})
}

// A waiter that ends while replies are out does not know whether it stands in those
// queues. It leaves those that say so, and the others get no request for nothing.
func TestPlacesAreLeftWhenTheReplySaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.NewNodes(5)
		r, err := New(nodes.Pools())
		require.NoError(t, err)
		leaves := func() (at nodeSet) {
			synctest.Wait()
			for i, n := range nodes {
				if n.Stats().Executed["leave"] > 0 {
					at.add(i)
				}
			}
			return at
		}
		w := r.NewMutex("jobs").newWaiter()
		busy, silent := reply{code: codeBusy}, reply{err: r.nodes[0].fault(&silenceError{})}
		w.join(1, 1<<5-1)
		for _, n := range r.nodes {
			w.saw(n, 1, busy)
		}
		require.Equal(t, 5, w.places())
		w.join(2, 1<<4-1)
		w.saw(r.nodes[0], 2, reply{code: codeGranted})
		require.Zero(t, leaves())
		w.finish()
		require.Equal(t, nodeSet(1<<4), leaves(), "only the last owes no reply")
		w.saw(r.nodes[1], 2, reply{code: codeGranted})
		require.Equal(t, nodeSet(1<<4), leaves(), "the grant took it out")
		w.saw(r.nodes[2], 2, busy)
		require.Equal(t, nodeSet(1<<4|1<<2), leaves())
		w.saw(r.nodes[3], 2, silent)
		require.Equal(t, nodeSet(1<<4|1<<3|1<<2), leaves(), "it may stand there")
	})
}

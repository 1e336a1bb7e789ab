package redlock

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// blocked is a job that lasts until it is told to end.
type blocked struct{ running, end, refused chan struct{} }

func newBlocked() blocked {
	return blocked{make(chan struct{}, 1000), make(chan struct{}), make(chan struct{}, 1000)}
}

func (b blocked) run(*node) { b.running <- struct{}{}; <-b.end }

func (b blocked) refuse(*node, error) { b.refused <- struct{}{} }

// slow has n left a request without an answer that was sent a while ago.
func slow(n *node) { n.heard(context.DeadlineExceeded, 400*time.Millisecond) }

// What may be under way is halved by a request that was not answered, and grows with
// the answers; what waits meanwhile is served in order, and no goroutine stays.
func TestLanesWidenWithAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(0, nil, newBallots(1))
		require.Equal(t, leastLanes, n.limit())
		first, then := newBlocked(), newBlocked()
		for range leastLanes {
			n.submit(first)
		}
		for range leastLanes {
			n.submit(then)
		}
		synctest.Wait()
		require.Len(t, first.running, leastLanes)
		require.Empty(t, then.running)

		time.Sleep(time.Second)
		slow(n)
		slow(n)
		require.Equal(t, leastLanes/2, n.limit(), "those that were under way together count once")
		time.Sleep(time.Second)
		slow(n)
		require.Equal(t, leastLanes/4, n.limit())
		close(first.end)
		synctest.Wait()
		require.Len(t, then.running, leastLanes/4)

		for range answersForOne * leastLanes / 4 {
			n.heard(nil, time.Microsecond)
		}
		require.Equal(t, leastLanes/4+1, n.limit())
		one := newBlocked()
		n.submit(one)
		synctest.Wait()
		require.Len(t, then.running, leastLanes/4+1, "a lane more, for who has waited longest")
		close(then.end)
		synctest.Wait()
		require.Len(t, then.running, leastLanes)
		require.Len(t, one.running, 1)
		close(one.end)
		synctest.Wait()
		require.Zero(t, n.running)
		require.Empty(t, n.queue)
	})
}

// A suspect is asked less and less often, up to once a second, and at once again when
// it has answered. One that refuses connections costs nobody anything.
func TestSuspectIsAskedLessAndLess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(0, nil, newBallots(1))
		for range suspectFaults {
			slow(n)
		}
		for pause := firstProbe; pause < suspectFor; pause *= 2 {
			time.Sleep(pause - 1)
			early := newBlocked()
			n.submit(early)
			require.Len(t, early.refused, 1, "after %v", pause)
			time.Sleep(1)
			probe := newBlocked()
			close(probe.end)
			n.submit(probe)
			synctest.Wait()
			require.Len(t, probe.running, 1, "after %v", pause)
			slow(n)
		}
		n.heard(nil, time.Millisecond)
		j := newBlocked()
		close(j.end)
		n.submit(j)
		synctest.Wait()
		require.Len(t, j.running, 1)

		refuses := newNode(1, nil, newBallots(1))
		for range 10 {
			refuses.heard(&net.OpError{Op: "dial", Err: errors.New("connection refused")}, time.Microsecond)
		}
		require.True(t, refuses.suspect())
		require.Equal(t, leastLanes, refuses.limit())
		refuses.submit(j)
		synctest.Wait()
		require.Len(t, j.running, 2)
	})
}

package redlock

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/pool"
)

// blocked is a job that lasts until it is told to end.
type blocked struct{ running, end, refused chan struct{} }

func newBlocked() blocked {
	return blocked{make(chan struct{}, 1000), make(chan struct{}), make(chan struct{}, 1000)}
}

func (b blocked) run(*node) { b.running <- struct{}{}; <-b.end }

func (b blocked) refuse(*node, error) { b.refused <- struct{}{} }

func (b blocked) patience() time.Duration { return slowFor }

// slowFor is what the requests of these tests wait.
const slowFor = 400 * time.Millisecond

// slow has n left a request without an answer that was sent a while ago.
func slow(n *node) { n.heard(context.DeadlineExceeded, slowFor) }

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

// A suspect gets one probe at a time, and more only after a pause that doubles with
// each silence, up to a second. One that refuses connections costs nobody anything.
func TestSuspectIsAskedLittle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(0, nil, newBallots(1))
		for range suspectFaults {
			slow(n)
		}
		n.window.Store(0) // which is another matter
		for pause := firstProbe; pause <= suspectFor/2; pause *= 2 {
			time.Sleep(pause - 1)
			early := newBlocked()
			n.submit(early)
			n.submit(early)
			synctest.Wait()
			require.Len(t, early.running, 1, "before %v", pause)
			require.Len(t, early.refused, 1, "before %v", pause)
			time.Sleep(time.Nanosecond)
			late := newBlocked()
			for range maxProbes {
				n.submit(late)
			}
			synctest.Wait()
			require.Len(t, late.running, maxProbes-1, "after %v", pause)
			require.Len(t, late.refused, 1, "after %v", pause)
			close(early.end)
			close(late.end)
			synctest.Wait()
			slow(n)
			n.window.Store(0)
		}
		n.heard(nil, time.Millisecond)
		j := newBlocked()
		for range leastLanes {
			n.submit(j)
		}
		synctest.Wait()
		require.Len(t, j.running, leastLanes)
		close(j.end)

		refuses := newNode(1, nil, newBallots(1))
		for range 10 {
			refuses.heard(&net.OpError{Op: "dial", Err: errors.New("connection refused")}, time.Microsecond)
		}
		require.True(t, refuses.suspect(slowFor))
		require.Equal(t, leastLanes, refuses.limit())
		again := newBlocked()
		for range maxProbes {
			refuses.submit(again)
		}
		synctest.Wait()
		require.Len(t, again.running, maxProbes)
		close(again.end)
		synctest.Wait()
	})
}

// That a node did not answer those with less patience says nothing to one with more. A
// fault that no patience helps against counts for all.
func TestSuspectOfTheImpatientOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(0, nil, newBallots(1))
		for _, waited := range []time.Duration{slowFor / 20, slowFor - 1, slowFor / 10} {
			n.heard(context.DeadlineExceeded, waited)
		}
		require.True(t, n.suspect(slowFor-1))
		require.False(t, n.suspect(slowFor))
		patient := newBlocked()
		for range leastLanes / 8 { // the window is another matter
			n.submit(patient)
		}
		synctest.Wait()
		require.Empty(t, patient.refused)
		close(patient.end)
		synctest.Wait()

		n.heard(nil, time.Millisecond)
		for range suspectFaults {
			n.heard(context.DeadlineExceeded, slowFor/20)
		}
		require.False(t, n.suspect(slowFor), "what was before the answer does not count")
		n.heard(&net.OpError{Op: "dial", Err: errors.New("connection refused")}, time.Microsecond)
		require.True(t, n.suspect(slowFor))
	})
}

// The fault of a node that is not asked any more still says what is wrong with it.
func TestSuspectSaysWhatItFailedWith(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(2, nil, newBallots(3))
		wrong := errors.New("certificate signed by unknown authority")
		for range suspectFaults {
			n.heard(wrong, time.Millisecond)
		}
		require.True(t, n.suspect(slowFor))
		fault := n.notAsked()
		require.ErrorIs(t, fault, wrong)
		require.ErrorContains(t, fault, "does not answer")
		require.ErrorContains(t, fault, wrong.Error())
		n.heard(context.DeadlineExceeded, time.Second)
		fault = n.notAsked()
		require.NotErrorIs(t, fault, context.DeadlineExceeded, "nothing of the caller's has ended")
		require.ErrorContains(t, fault, "no answer within the node timeout")
		n.heard(&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, time.Second)
		require.ErrorContains(t, n.notAsked(), "no answer within the node timeout", "of a socket's deadline")
	})
}

// commanded is a pool whose lanes rest.
type commanded struct{ pool.Pool }

func (commanded) Command(context.Context, *pool.Script, []any, []int64) ([]int64, error) {
	return nil, nil
}

// A few lanes wait for the next request, for as long as they are of use.
func TestLanesRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(0, commanded{}, newBallots(1))
		ask := func(count int) {
			b := newBlocked()
			for range count {
				n.submit(b)
			}
			synctest.Wait()
			require.Len(t, b.running, min(count, leastLanes), "each has a lane, resting or new")
			close(b.end)
			synctest.Wait()
			require.Len(t, b.running, count)
			require.Zero(t, n.running)
			require.Zero(t, n.starting)
		}
		resting := func() int {
			n.lanes.mu.Lock()
			defer n.lanes.mu.Unlock()
			return n.rests.n
		}
		ask(1)
		require.Equal(t, 1, resting())
		ask(1)
		require.Equal(t, 1, resting(), "it was given the second")
		ask(3)
		require.Equal(t, 3, resting())
		ask(2 * leastLanes)
		require.Equal(t, mostResting, resting())
		for range 5 {
			time.Sleep(restFor - restFor/8)
			require.GreaterOrEqual(t, resting(), 3, "those that are needed stay")
			ask(3)
		}
		require.Equal(t, 3, resting(), "no more than are needed")
		time.Sleep(2*restFor + 1)
		require.Zero(t, resting(), "nothing was asked")

		ask(3)
		n.endRest()
		require.Zero(t, resting())
		ask(3)
		require.Zero(t, resting(), "none after Close")
	})
}

// Close leaves no lane behind, also one that it did not wait for.
func TestCloseEndsResting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, err := New([]pool.Pool{commanded{}, commanded{}, commanded{}})
		require.NoError(t, err)
		b, late := newBlocked(), newBlocked()
		for _, n := range r.nodes {
			n.submit(b)
			n.submit(late)
		}
		close(b.end)
		synctest.Wait()
		require.NoError(t, r.Close(t.Context()))
		close(late.end)
		synctest.Wait()
		for _, n := range r.nodes {
			require.Zero(t, n.rests.n)
		}
	})
}

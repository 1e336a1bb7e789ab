package redlock

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// blocked is a job that lasts until it is told to end.
type blocked struct{ running, end chan struct{} }

func (b blocked) run(*node) { b.running <- struct{}{}; <-b.end }

func (b blocked) refuse(*node, error) { panic("refused") }

// Others wait for a lane while a tour has one. When it is done with the node, one of
// them goes on there, and the goroutine it got ends with the last that waits.
func TestLaneOfATourServesWhoWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(0, nil, newBallots(1))
		n.trip.Store(1)
		require.True(t, n.enter())
		others := blocked{make(chan struct{}, 2*leastLanes), make(chan struct{})}
		for range leastLanes - 1 {
			n.submit(others)
		}
		waits := blocked{make(chan struct{}, 2), make(chan struct{})}
		n.submit(waits)
		n.submit(waits)
		synctest.Wait()
		require.Len(t, others.running, leastLanes-1)
		require.Empty(t, waits.running)
		require.False(t, n.enter(), "the node is busy")

		n.leaveLane()
		synctest.Wait()
		require.Len(t, waits.running, 1, "the lane goes to one of those in line")
		close(waits.end)
		synctest.Wait()
		require.Len(t, waits.running, 2, "and then to the next")
		close(others.end)
		synctest.Wait()
		require.Zero(t, n.running)
		require.Nil(t, n.queue)
	})
}

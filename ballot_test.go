package redlock

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBallotBounds(t *testing.T) {
	t.Parallel()
	require.Greater(t, retention, 3*skewBound, "else a fence may be forgotten while a request is on its way")
}

func TestScriptsKnowTheBounds(t *testing.T) {
	t.Parallel()
	require.Contains(t, libSource, fmt.Sprintf("local skew_bound, retention = %d, %d\n", skewBound.Microseconds(), retention.Milliseconds()))
}

func TestBallotsAreFreshAndGrow(t *testing.T) {
	t.Parallel()
	b := newBallots(3)
	const each, askers = 2000, 4
	got := make([][]int64, askers)
	var all sync.WaitGroup
	for i := range askers {
		all.Go(func() {
			for range each {
				got[i] = append(got[i], b.next(0))
			}
		})
	}
	all.Wait()
	seen := map[int64]bool{}
	for _, list := range got {
		for i, p := range list {
			require.False(t, seen[p], "a ballot was given twice")
			seen[p] = true
			if i > 0 {
				require.Greater(t, p, list[i-1])
			}
		}
	}
	floor := time.Now().Add(time.Second).UnixMicro()
	require.Equal(t, floor+1, b.next(floor), "above what is to be outbid")
	require.Greater(t, b.next(0), floor+1, "and not below what was given")
	floor = time.Now().Add(time.Hour).UnixMicro()
	require.Equal(t, floor+1, b.next(floor))
	require.Less(t, b.next(0), floor, "unless the clocks are known better since")
}

// read is a reply in which node i's clock is ahead of the client's, half way
// through a call of the given length.
func read(b *ballots, i int, ahead, fenceAhead, took time.Duration) (fits bool) {
	sent := time.Now()
	received := sent.Add(took)
	mid := b.client(sent.Add(took / 2))
	fence := int64(0)
	if fenceAhead != 0 {
		fence = mid + fenceAhead.Microseconds()
	}
	return b.learn(i, mid+ahead.Microseconds(), fence, sent, received)
}

func TestBallotMedianFollowsTheNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBallots(5)
		require.Zero(t, b.median, "the client's own clock until a node is heard")
		read(b, 0, time.Hour, 0, 0)
		require.Equal(t, time.Hour.Microseconds(), b.median, "one node alone is believed: the client's clock may be the wrong one")
		read(b, 1, time.Second, 0, 0)
		require.Equal(t, time.Second.Microseconds(), b.median, "the lower of two")
		read(b, 2, 2*time.Second, 0, 0)
		require.Equal(t, (2 * time.Second).Microseconds(), b.median)
		read(b, 3, -time.Hour, 0, 0)
		read(b, 4, 1500*time.Millisecond, 0, 0)
		require.Equal(t, (1500 * time.Millisecond).Microseconds(), b.median, "one ahead and one behind move nothing")
		read(b, 0, 1200*time.Millisecond, 0, 0)
		require.Equal(t, (1200 * time.Millisecond).Microseconds(), b.median, "the newest reading of a node counts")

		now := time.Now()
		require.Equal(t, b.client(now)+b.median, b.nodes(now))
		require.Equal(t, b.nodes(now)+1, b.next(0))
	})
}

func TestBallotMidOfTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBallots(1)
		read(b, 0, 0, 0, 200*time.Millisecond)
		require.Zero(t, b.median, "a symmetrical delay is no offset")
		// Taken as if read at the very end, the node's time is never overestimated.
		now := time.Now()
		require.Equal(t, b.client(now)-(100*time.Millisecond).Microseconds(), b.at(0, now))
	})
}

// One clock far ahead neither wins nor locks a name out.
func TestBallotBadClock(t *testing.T) {
	t.Parallel()
	half := skewBound / 2
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name         string
			clock, fence time.Duration
			fits         bool
		}{
			{"in line", 0, 0, true},
			{"at S/2", half, 0, true},
			{"above S/2", half + time.Millisecond, 0, false},
			{"far ahead", time.Hour, 0, false},
			{"far behind", -time.Hour, 0, true}, // its own grants are refused as stale by p - now > S
			{"fence at S/2", 0, half, true},
			{"fence above S/2", 0, half + time.Millisecond, false},
			{"old fence", 0, -time.Hour, true},
		} {
			b := newBallots(5)
			for i := range 4 {
				require.True(t, read(b, i, 0, 0, 0))
			}
			require.Equal(t, c.fits, read(b, 4, c.clock, c.fence, 0), c.name)
			require.Zero(t, b.median, c.name)
		}
	})
}

func TestBallotUsableFence(t *testing.T) {
	t.Parallel()
	half := (skewBound / 2).Microseconds()
	synctest.Test(t, func(t *testing.T) {
		b := newBallots(3)
		for i := range 3 {
			read(b, i, 7*time.Second, 0, 0)
		}
		now := b.nodes(time.Now())
		require.Equal(t, b.client(time.Now())+(7*time.Second).Microseconds(), now)
		require.True(t, b.usable(now+half))
		require.False(t, b.usable(now+half+1))
		require.True(t, b.usable(0))
	})
}

func TestBallotUnknownNode(t *testing.T) {
	t.Parallel()
	b := newBallots(2)
	read(b, 0, 0, 0, 0)
	require.NotZero(t, b.at(0, time.Now()))
	require.Zero(t, b.at(1, time.Now()), "no guess at the clock of a node that was never heard")
}

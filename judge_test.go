package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A round that was cut short has heard of a holder on one node, and nothing of the
// others: the lock is not free at once.
func TestTakenTTLWhereNodesWereNotHeard(t *testing.T) {
	t.Parallel()
	r, err := New(scripted(3, nil))
	require.NoError(t, err)
	m := r.NewMutex("jobs")
	busy := reply{code: codeBusy, ttl: 6000, ballot: 1, last: -1, received: time.Now()}
	stale := reply{code: codeStale, now: 2, received: time.Now()}
	require.Equal(t, 6*time.Second, m.judge([]reply{busy, {}, {}}, 2).taken().TTL)
	require.Zero(t, m.judge([]reply{busy, stale, stale}, 2).taken().TTL, "two are known to be free")
	require.Equal(t, 6*time.Second, m.judge([]reply{busy, busy, {}}, 2).taken().TTL)
}

func TestNewTakesNoMoreNodesThanASetHolds(t *testing.T) {
	t.Parallel()
	_, err := New(scripted(maxNodes, nil))
	require.NoError(t, err)
	_, err = New(scripted(maxNodes+1, nil))
	require.ErrorIs(t, err, ErrInvalidOption)
	require.ErrorContains(t, err, "65 pools, at most 64")
}

func TestTakenForEverSaysSo(t *testing.T) {
	t.Parallel()
	r, err := New(scripted(3, nil))
	require.NoError(t, err)
	forever := reply{code: codeBusy, ttl: -1, ballot: 1, last: -1, received: time.Now()}
	taken := r.NewMutex("jobs").judge([]reply{forever, forever, forever}, 2).taken()
	require.Negative(t, taken.TTL)
	require.ErrorContains(t, taken, "a key that never expires")
}

// Where several have some nodes each, nobody has the lock and nobody will call: all
// come again within round trips, while a holder is waited for.
func TestSplitVotesAreToldFromAHolder(t *testing.T) {
	t.Parallel()
	r, err := New(scripted(5, nil))
	require.NoError(t, err)
	m := r.NewMutex("jobs", WithRetryDelay(100*time.Millisecond))
	busy := func(ballot int64) reply {
		return reply{code: codeBusy, ttl: 6000, ballot: ballot, last: -1, received: time.Now()}
	}
	down := reply{err: r.nodes[4].fault(errNodeBusy)}

	split := m.judge([]reply{busy(1), busy(1), busy(2), busy(2), {code: codeGranted}}, 3)
	require.True(t, split.split)
	wait, _ := m.patience(1, 0, 1, split)
	require.Less(t, wait, 10*time.Millisecond)

	// It may have the node that did not answer, too.
	held := m.judge([]reply{busy(1), busy(1), busy(2), busy(2), down}, 3)
	require.False(t, held.split)
	wait, _ = m.patience(1, 0, 1, held)
	require.Equal(t, 100*time.Millisecond, wait)
}

// The holder that is named is the one with the most nodes, not an attempt that has one
// for a moment, whose ballot is always higher.
func TestTheHolderNamedHasTheMostNodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		seen []int64
		want int64
	}{
		{[]int64{5, 5, 9}, 5},
		{[]int64{9, 5, 5, 5, 9}, 5},
		{[]int64{5, 9}, 9},
		{[]int64{0, 0, 9}, 0}, // not of this library
		{[]int64{0, 9}, 9},
		{[]int64{7}, 7},
	} {
		replies := make([]reply, len(c.seen))
		for i, ballot := range c.seen {
			replies[i] = reply{code: codeBusy, ttl: 6000, ballot: ballot, received: time.Now()}
		}
		r, err := New(scripted(len(c.seen), nil))
		require.NoError(t, err)
		m := r.NewMutex("jobs")
		require.Equal(t, c.want, m.judge(replies, 10).taken().Token, "%v", c.seen)
		var taken *TakenError
		require.ErrorAs(t, m.takenBy(replies, codeBusy), &taken)
		require.Equal(t, c.want, taken.Token, "%v", c.seen)
	}
}

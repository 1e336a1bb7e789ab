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

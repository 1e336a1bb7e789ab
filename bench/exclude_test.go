package main

import (
	"os"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
)

func TestMain(m *testing.M) { os.Exit(testutil.Main(m)) }

// both sides over the same servers.
func both(t *testing.T) (*ours, *theirs) {
	t.Helper()
	addrs := addresses(testutil.StartRedisN(t, 5))
	us, err := newOurs(openRedigo, addrs)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, us.close()) })
	them, err := newTheirs(openRedigo, addrs)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, them.close()) })
	return us, them
}

// lateBy is how much later than its expiry a lock may be gone on a busy machine.
const lateBy = 5 * time.Second

// A fleet that moves from redsync to redlock one process at a time needs them to
// respect each other on the same names.

func TestRedsyncExcludesRedlock(t *testing.T) {
	us, them := both(t)
	held := them.NewMutex("jobs")
	m := us.NewMutex("jobs")
	require.NoError(t, held.Lock())

	err := m.TryLock()
	require.ErrorIs(t, err, redlock.ErrTaken)
	var taken *redlock.TakenError
	require.ErrorAs(t, err, &taken)
	require.GreaterOrEqual(t, len(taken.Nodes), 3)
	require.Positive(t, taken.TTL)

	// The refused attempt must not have touched redsync's keys.
	ok, err := held.Extend()
	require.NoError(t, err)
	require.True(t, ok)
	ok, err = held.Unlock()
	require.NoError(t, err)
	require.True(t, ok)

	require.NoError(t, m.TryLock())
	ok, err = m.Unlock()
	require.NoError(t, err)
	require.True(t, ok)
}

func TestRedlockExcludesRedsync(t *testing.T) {
	us, them := both(t)
	held := us.NewMutex("jobs")
	m := them.NewMutex("jobs")
	require.NoError(t, held.Lock())

	var taken *redsync.ErrTaken
	require.ErrorAs(t, m.TryLock(), &taken)

	ok, err := held.Extend()
	require.NoError(t, err)
	require.True(t, ok)
	ok, err = held.Unlock()
	require.NoError(t, err)
	require.True(t, ok)

	// Unlock returns at a quorum; the last nodes are free a moment later, and
	// redsync needs no more than the quorum either.
	require.NoError(t, m.TryLock())
	ok, err = m.Unlock()
	require.NoError(t, err)
	require.True(t, ok)
}

func TestRedsyncExpiresForRedlock(t *testing.T) {
	us, them := both(t)
	const expiry = time.Second
	held := them.NewMutex("jobs", redsync.WithExpiry(expiry))
	require.NoError(t, held.Lock())
	sent := time.Now()
	m := us.NewMutex("jobs")
	require.ErrorIs(t, m.TryLock(), redlock.ErrTaken)

	testutil.Eventually(t, expiry+lateBy, func() bool { return m.TryLock() == nil }, "redlock takes what redsync let expire")
	// The lock was sent before the clock was read, by no more than its round trip.
	require.Greater(t, time.Since(sent), expiry/2, "taken while redsync held it")
	ok, err := held.Unlock()
	require.Error(t, err, "redsync must not release a lock that is redlock's")
	require.False(t, ok)
	require.True(t, m.Valid())
	ok, err = m.Unlock()
	require.NoError(t, err)
	require.True(t, ok)
}

func TestRedlockExpiresForRedsync(t *testing.T) {
	us, them := both(t)
	const expiry = time.Second
	held := us.NewMutex("jobs", redlock.WithExpiry(expiry))
	require.NoError(t, held.Lock())
	m := them.NewMutex("jobs")
	var taken *redsync.ErrTaken
	require.ErrorAs(t, m.TryLock(), &taken)

	// redsync knows nothing of validity, so this is asked after its lock: ours
	// must have ended before redsync could have it.
	testutil.Eventually(t, expiry+lateBy, func() bool {
		if m.TryLock() != nil {
			return false
		}
		require.False(t, held.Valid(), "two holders")
		return true
	}, "redsync takes what redlock let expire")
	ok, err := held.Unlock()
	require.ErrorIs(t, err, redlock.ErrExpired)
	require.False(t, ok)
	ok, err = m.Unlock()
	require.NoError(t, err, "redlock's late unlock must not release redsync's lock")
	require.True(t, ok)
}

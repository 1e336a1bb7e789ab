package redlock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/redlocktest"
)

func sameValue() redlock.Option {
	return redlock.WithGenValueFunc(func() (string, error) { return "same", nil })
}

// Clients whose generator returns the same text exclude each other all the same,
// and neither can release or extend the other's lock.
func TestSameValueStillExcludes(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	a := factory(t, servers, patient(), sameValue()).NewMutex("jobs")
	b := factory(t, servers, patient(), sameValue()).NewMutex("jobs")
	for range 20 {
		require.NoError(t, a.Lock())
		requireHeld(t, servers, "jobs", 3)
		require.ErrorIs(t, b.TryLock(), redlock.ErrTaken)
		for _, s := range servers {
			require.Equal(t, a.Value(), lockedBy(t, s, "jobs"), "the loser took back what was not its own")
		}
		unlock(t, a)
		requireFree(t, servers, "jobs")
		a, b = b, a
	}
}

// The same at the same moment: even attempts that are told apart by nothing but
// their nonce, and may well have the same ballot, never win together.
func TestSameValueInTheSameMicrosecond(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.NewNodes(3)
	const clients, rounds = 4, 400
	mutexes := make([]*redlock.Mutex, clients)
	for i := range mutexes {
		mutexes[i] = factoryOf(t, nodes.Pools(), patient(), sameValue()).NewMutex("jobs")
	}
	var inside, overlaps, grants atomic.Int32
	for range rounds {
		start := make(chan struct{})
		var all sync.WaitGroup
		for _, m := range mutexes {
			all.Go(func() {
				<-start
				if m.TryLock() != nil {
					return
				}
				grants.Add(1)
				if inside.Add(1) > 1 {
					overlaps.Add(1)
				}
				inside.Add(-1)
				_, _ = m.Unlock()
			})
		}
		close(start)
		all.Wait()
	}
	require.Zero(t, overlaps.Load())
	require.Positive(t, grants.Load())
	t.Logf("%d grants in %d rounds", grants.Load(), rounds)
}

// Every attempt has a value of its own, and a mutex shows it only while it holds.
func TestValueIsUniquePerAttempt(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.NewNodes(3)
	m := factoryOf(t, nodes.Pools(), sameValue()).NewMutex("jobs")
	seen := map[string]bool{}
	for range 200 {
		require.NoError(t, m.Lock())
		v := m.Value()
		require.Contains(t, v, "same.")
		require.False(t, seen[v], v)
		seen[v] = true
		unlock(t, m)
		require.Empty(t, m.Value())
	}
}

func TestGeneratorFails(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.NewNodes(3)
	broken := errors.New("no more names")
	m := factoryOf(t, nodes.Pools()).NewMutex("jobs", redlock.WithGenValueFunc(func() (string, error) { return "", broken }))
	for _, lock := range []func() error{m.Lock, m.TryLock} {
		err := lock()
		require.ErrorIs(t, err, redlock.ErrFailed)
		require.ErrorIs(t, err, broken)
	}
	require.ErrorIs(t, m.Do(context.Background(), func(context.Context) error { return nil }), broken)
	for _, n := range nodes {
		require.Empty(t, n.Keys())
	}
}

// A lock that is handed to another process by its value is that process's to extend
// and to release, and only that lock.
func TestWithValueHandsOver(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	giver := factory(t, servers, patient()).NewMutex("jobs")
	require.NoError(t, giver.Lock())
	taker := factory(t, servers, patient()).NewMutex("jobs", redlock.WithValue(giver.Value()))
	require.Equal(t, giver.Value(), taker.Value())
	require.Equal(t, giver.Token(), taker.Token())
	require.False(t, taker.Valid(), "nothing is known of its time yet")
	ok, err := taker.Extend()
	require.NoError(t, err)
	require.True(t, ok)
	require.True(t, taker.Valid())
	unlock(t, taker)
	requireFree(t, servers, "jobs")

	require.NoError(t, giverAgain(t, servers).Lock())
	late := factory(t, servers, patient()).NewMutex("jobs", redlock.WithValue(giver.Value()))
	ok, err = late.Unlock()
	require.False(t, ok)
	require.ErrorIs(t, err, redlock.ErrTaken)
	require.Equal(t, 3, holders(t, servers, "jobs"))
}

func giverAgain(t *testing.T, servers []*testutil.Server) *redlock.Mutex {
	t.Helper()
	return factory(t, servers, patient()).NewMutex("jobs")
}

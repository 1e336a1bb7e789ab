package redlock

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestDrift(t *testing.T) {
	t.Parallel()
	require.Equal(t, 102*time.Millisecond, drift(10*time.Second, 0.01))
	require.Equal(t, 2*time.Millisecond, drift(10*time.Second, 0), "the resolution of expiry counts always")
}

// ledger makes a lease of the given ends, in ms after base.
func ledger(base time.Time, quorum int, ends ...int) *lease {
	l := newLease(len(ends), quorum)
	for i, ms := range ends {
		if ms > 0 {
			l.record(i, base.Add(time.Duration(ms)*time.Millisecond), base, true)
		}
	}
	return l
}

func TestLeaseValidityIsTheQuorumthLatest(t *testing.T) {
	t.Parallel()
	base := time.Now()
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n := 1 + random.IntN(7)
		quorum := n/2 + 1
		ends := make([]int, n)
		for i := range ends {
			ends[i] = random.IntN(6) * 10 // ties, and nodes that do not hold
		}
		l := ledger(base, quorum, ends...)
		sorted := slices.Clone(ends)
		slices.Sort(sorted)
		slices.Reverse(sorted)
		want := time.Time{}
		if end := sorted[quorum-1]; end > 0 {
			want = base.Add(time.Duration(end) * time.Millisecond)
		}
		require.Equal(t, want, l.validity(), "%v", ends)
		if !want.IsZero() {
			require.True(t, l.validAt(want.Add(-1)), "%v", ends)
			require.False(t, l.validAt(want), "%v: the end itself is past", ends)
			require.True(t, l.alive(want.Add(-1)), "%v", ends)
			require.False(t, l.alive(want), "%v", ends)
		}
	}
}

func TestLeaseExpiryIsTerminal(t *testing.T) {
	t.Parallel()
	base := time.Now()
	at := func(ms int) time.Time { return base.Add(time.Duration(ms) * time.Millisecond) }
	t.Run("seen by alive", func(t *testing.T) {
		l := ledger(base, 2, 100, 100, 0)
		require.True(t, l.alive(at(99)))
		require.False(t, l.alive(at(100)))
		for i := range 3 {
			l.record(i, at(1000), at(50), false) // received before the end, entered after
		}
		require.False(t, l.alive(at(50)), "even for a clock that was set back")
		require.Zero(t, l.validity())
	})
	t.Run("seen by the entry that comes too late", func(t *testing.T) {
		l := ledger(base, 2, 100, 100, 0)
		l.record(0, at(1000), at(100), false)
		l.record(1, at(1000), at(100), false)
		require.False(t, l.alive(at(60)))
	})
	t.Run("seen by a drop", func(t *testing.T) {
		l := ledger(base, 2, 100, 100, 0)
		l.drop(0, at(10))
		l.record(2, at(1000), at(11), false)
		require.False(t, l.alive(at(12)))
	})
	t.Run("ended by a release", func(t *testing.T) {
		l := ledger(base, 2, 100, 100, 100)
		l.end()
		require.False(t, l.alive(at(1)))
		require.False(t, l.validAt(at(1)))
		require.Zero(t, l.validity())
	})
	t.Run("asking about a moment to come ends nothing", func(t *testing.T) {
		l := ledger(base, 2, 100, 100, 0)
		require.False(t, l.validAt(at(500)))
		require.True(t, l.alive(at(50)))
		l.record(0, at(600), at(50), false)
		l.record(1, at(600), at(50), false)
		require.True(t, l.alive(at(500)))
	})
}

// Two extends that each reached one node only are as good as one that reached two,
// while the validity was unbroken.
func TestLeasePartialExtendsCompose(t *testing.T) {
	t.Parallel()
	base := time.Now()
	at := func(ms int) time.Time { return base.Add(time.Duration(ms) * time.Millisecond) }
	l := ledger(base, 3, 100, 100, 100, 0, 0)
	l.record(0, at(200), at(50), false)
	require.Equal(t, at(100), l.validity(), "one is no quorum")
	l.record(3, at(210), at(60), false)
	require.Equal(t, at(100), l.validity())
	l.record(4, at(220), at(70), false)
	require.Equal(t, at(200), l.validity())
	require.Equal(t, 3, l.count(at(150)))
	require.True(t, l.alive(at(199)))
	require.False(t, l.alive(at(200)))
}

func TestLeaseNeverShortens(t *testing.T) {
	t.Parallel()
	base := time.Now()
	at := func(ms int) time.Time { return base.Add(time.Duration(ms) * time.Millisecond) }
	l := ledger(base, 2, 500, 500, 0)
	l.record(0, at(100), at(10), false)
	l.record(1, at(100), at(10), false)
	require.Equal(t, at(500), l.validity())
}

// An extend that is proposed when the release has its ballot would bring the grant back.
func TestGrantProposesNothingOnceReleased(t *testing.T) {
	t.Parallel()
	b := newBallots(3)
	g := adopt("host.nonce.77", 3, 2)
	q, ok := g.propose(b, time.Second)
	require.True(t, ok)
	high, life := g.finish()
	require.Equal(t, q, high)
	require.Equal(t, time.Second, life)
	_, ok = g.propose(b, time.Minute)
	require.False(t, ok)
}

func TestLeaseAdopted(t *testing.T) {
	t.Parallel()
	base := time.Now()
	at := func(ms int) time.Time { return base.Add(time.Duration(ms) * time.Millisecond) }
	g := adopt("host.nonce.77", 3, 2)
	require.Equal(t, int64(77), g.token)
	require.Equal(t, "host.nonce.", g.id)
	l := g.lease
	require.True(t, l.alive(at(0)), "who adopts may extend and release")
	require.Zero(t, l.validity(), "and knows of no time")
	require.False(t, l.validAt(at(0)), "so nothing may rely on it")
	l.record(0, at(100), at(1), false)
	require.False(t, l.validAt(at(2)))
	l.record(1, at(100), at(3), false)
	require.Equal(t, at(100), l.validity())
	require.True(t, l.alive(at(99)))
	require.False(t, l.alive(at(100)), "from then on it is a lease like any other")
}

// The monotonic clock stands still while a machine is suspended, and the wall clock
// can be set back. Either alone would let a holder believe too long.
func TestReachedBelievesTheLaterClock(t *testing.T) {
	t.Parallel()
	now := time.Now()
	until := now.Add(time.Minute)
	require.False(t, reached(now, until))
	require.True(t, reached(until, until))

	// Suspended for two minutes: the wall clock alone has moved.
	suspended := now.Round(0).Add(2 * time.Minute)
	require.True(t, reached(suspended, until))
	// The same against a reading that has both, as the ledger keeps it.
	l := newLease(1, 1)
	l.record(0, until, now, true)
	require.False(t, l.alive(suspended))

	// Set back by an hour while two minutes passed.
	setBack := elapse(t, now, 2*time.Minute, -time.Hour)
	require.True(t, reached(setBack, until))
	l = newLease(1, 1)
	l.record(0, until, now, true)
	require.False(t, l.alive(setBack))
	// Set forward: better lost too early than too late.
	require.True(t, reached(elapse(t, now, time.Second, time.Hour), until))
	// Both clocks agree that there is time left.
	require.False(t, reached(elapse(t, now, time.Second, 0), until))
}

// elapse is the reading of the clocks a while after t, when the wall clock was moved
// by jump on the way. Package time makes no such reading by itself.
func elapse(t *testing.T, from time.Time, passed, jump time.Duration) time.Time {
	t.Helper()
	wall := from.Add(passed + jump)
	mono := (*int64)(unsafe.Add(unsafe.Pointer(&wall), unsafe.Sizeof(uint64(0)))) // time.Time{wall uint64, ext int64, …}
	*mono -= int64(jump)
	require.Equal(t, passed, wall.Sub(from), "the monotonic reading")
	require.Equal(t, passed+jump, wall.Round(0).Sub(from.Round(0)), "the wall clock's reading")
	return wall
}

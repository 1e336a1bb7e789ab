package redlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/redlocktest"
)

// Contenders with overlapping sets of names: nobody is inside a name with another,
// and everybody gets on. REDLOCK_SOAK makes it half a minute.
func TestSoakMultiMutexOverlappingSets(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 5)
	length, least := 3*time.Second, 0
	if os.Getenv("REDLOCK_SOAK") != "" {
		length, least = 30*time.Second, 1
	}
	names := []string{"a", "b", "c", "d", "e", "f"}
	var inside [6]atomic.Int32
	var last [6]atomic.Int64
	const contenders = 16
	grants := make([]int, contenders)
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var all sync.WaitGroup
	errs := make(chan error, contenders)
	for c := range contenders {
		r := factory(t, servers, redlock.WithRetryDelayFunc(func(int) time.Duration { return time.Millisecond + rand.N(10*time.Millisecond) }))
		all.Go(func() {
			for ctx.Err() == nil {
				set := rand.Perm(len(names))[:1+rand.IntN(3)]
				var chosen []string
				for _, i := range set {
					chosen = append(chosen, names[i])
				}
				m := r.NewMultiMutex(chosen)
				if err := m.LockContext(ctx); err != nil {
					if ctx.Err() == nil {
						errs <- err
						return
					}
					continue
				}
				for _, i := range set {
					if inside[i].Add(1) != 1 || last[i].Swap(m.Token()) >= m.Token() {
						errs <- fmt.Errorf("%s: two inside, or token %d after a later one", names[i], m.Token())
					}
				}
				grants[c]++
				for _, i := range set {
					inside[i].Add(-1)
				}
				if _, err := m.Unlock(); err != nil {
					errs <- err
				}
			}
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	t.Logf("grants by contender: %v", grants)
	require.GreaterOrEqual(t, slices.Min(grants), least, "progress for all")
	require.Positive(t, slices.Max(grants))
}

func TestMultiMutexAllOrNone(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.NewNodes(3)
	r := factoryOf(t, nodes.Pools())
	b := r.NewMutex("b")
	require.NoError(t, b.Lock())
	m := r.NewMultiMutex([]string{"c", "a", "b", "a"})
	var taken *redlock.TakenError
	require.ErrorAs(t, m.TryLock(), &taken)
	require.Equal(t, b.Token(), taken.Token)
	testutil.Eventually(t, settle, func() bool {
		for _, n := range nodes {
			if _, held := n.Value("a"); held {
				return false
			}
		}
		return true
	}, "what was got of the set is given back")
	_, err := b.Unlock()
	require.NoError(t, err)

	require.NoError(t, m.Lock())
	for _, name := range []string{"a", "b", "c"} {
		require.ErrorIs(t, r.NewMutex(name).TryLock(), redlock.ErrTaken)
		s, err := r.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, m.Token(), s.Token)
	}
	ok, err := m.Extend()
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, m.Check(t.Context()))
	for _, n := range nodes {
		n.Del("b")
	}
	require.ErrorIs(t, m.Check(t.Context()), redlock.ErrExpired, "one name lost is the lock lost")
	_, err = m.Unlock()
	require.ErrorIs(t, err, redlock.ErrExpired)
	for _, name := range []string{"a", "c"} {
		testutil.Eventually(t, settle, func() bool { return r.NewMutex(name).TryLock() == nil }, "%s is free", name)
	}
	require.ErrorIs(t, r.NewMultiMutex(nil).Lock(), redlock.ErrInvalidOption)
	require.ErrorIs(t, r.NewMultiMutex([]string{"a", ""}).Lock(), redlock.ErrInvalidOption)
}

// What an attempt for several names took in passing has a queue of its own: the holder
// of another name will not call for it.
func TestMultiMutexCallsForWhatItTookInPassing(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		for _, n := range nodes {
			n.SetDelay(2*time.Millisecond, 2*time.Millisecond)
		}
		waiting, trying, holding := factoryOf(t, nodes.Pools()), factoryOf(t, nodes.Pools()), factoryOf(t, nodes.Pools())
		first, warm := holding.NewMutex("warm"), waiting.NewMutex("warm")
		require.NoError(t, first.Lock())
		time.AfterFunc(500*time.Millisecond, func() { _, _ = first.Unlock() })
		require.NoError(t, warm.Lock()) // its client listens from here on
		unlock(t, warm)
		b := holding.NewMutex("b")
		require.NoError(t, b.Lock())
		time.Sleep(time.Second)
		tried := make(chan error, 1)
		go func() { tried <- trying.NewMultiMutex([]string{"a", "b"}).TryLock() }()
		time.Sleep(3 * time.Millisecond) // it has a by now, and is told that b is busy
		m, started := waiting.NewMutex("a"), time.Now()
		require.NoError(t, m.Lock())
		require.Less(t, time.Since(started), 100*time.Millisecond, "only its timer woke it")
		require.ErrorIs(t, <-tried, redlock.ErrTaken)
		unlock(t, m)
		unlock(t, b)
	})
}

// A name that looks like a set is not one.
func TestMultiMutexIsNoName(t *testing.T) {
	for _, name := range []string{"\x00a\x00b", "1:a1:b", "a,b"} {
		t.Run(name, func(t *testing.T) {
			virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
				r, a := factoryOf(t, nodes.Pools()), factoryOf(t, nodes.Pools()).NewMutex("a")
				require.NoError(t, a.Lock())
				ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
				defer cancel()
				all := make(chan error, 1)
				go func() { all <- r.NewMultiMutex([]string{"a", "b"}).LockContext(ctx) }()
				synctest.Wait()
				free, started := r.NewMutex(name), time.Now()
				require.NoError(t, free.LockContext(ctx))
				require.Less(t, time.Since(started), time.Second)
				unlock(t, free)
				cancel()
				require.Error(t, <-all)
				unlock(t, a)
			})
		})
	}
}

// One who waits for a set is called by nobody, and keeps no call from one who waits for
// the name that is written alike.
func TestMultiMutexTakesNoCalls(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		holding := factoryOf(t, nodes.Pools())
		alike, a := holding.NewMutex("a,b"), holding.NewMutex("a")
		require.NoError(t, alike.Lock())
		require.NoError(t, a.Lock())
		r := factoryOf(t, nodes.Pools(), redlock.WithRetryDelay(10*time.Second))
		for _, n := range nodes { // a subscription is confirmed after both have begun to wait
			n.SetFaults(func(c redlocktest.Call) (f redlocktest.Fault) {
				if c.Name == "subscribe" {
					f.Delay = time.Second
				}
				return f
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		all, one := make(chan error, 1), make(chan error, 1)
		go func() { all <- r.NewMultiMutex([]string{"a", "b"}).LockContext(ctx) }()
		synctest.Wait()
		m := r.NewMutex("a,b")
		go func() { one <- m.LockContext(ctx) }()
		time.Sleep(2 * time.Second)
		released := time.Now()
		unlock(t, alike)
		require.NoError(t, <-one)
		require.Less(t, time.Since(released), time.Second)
		cancel()
		require.Error(t, <-all)
		unlock(t, m)
		unlock(t, a)
	})
}

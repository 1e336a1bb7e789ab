package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/redlocktest"
)

// Cases from the field: holding.

// breathe is an expiry that a loaded machine renews in time, with the node timeout to
// match, and short enough to be waited for.
func breathe() []redlock.Option {
	return []redlock.Option{redlock.WithExpiry(4 * time.Second), redlock.WithNodeTimeout(2 * time.Second)}
}

func TestCase30_ContextEndsBeforeValidity(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	m := factory(t, servers).NewMutex("jobs", breathe()...)
	err := m.Do(t.Context(), func(ctx context.Context) error {
		for _, s := range servers {
			require.NoError(t, s.Kill())
		}
		until := m.Until()
		// A machine may take its time between two lines, so the clock is read before.
		testutil.Eventually(t, settle, func() bool {
			now := time.Now()
			if ctx.Err() != nil {
				return true
			}
			require.Greater(t, until.Sub(now), 199*time.Millisecond, "the context lives on in the last twentieth")
			return false
		}, "the context ends")
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), redlock.ErrLost)
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		return ctx.Err()
	})
	require.ErrorIs(t, err, redlock.ErrLost)
	require.ErrorIs(t, err, context.Canceled, "what fn returned")
}

// The margin is a twentieth of the expiry, to the moment.
func TestCase30_MarginBeforeTheEnd(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		m := factoryOf(t, nodes.Pools()).NewMutex("jobs")
		held, err := m.Hold(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, held.Err(), "renewed many times")
		for _, n := range nodes {
			n.Down()
		}
		<-held.Done()
		require.InDelta(t, 400*time.Millisecond, time.Until(m.Until()), float64(2*time.Millisecond))
		_, err = m.Unlock()
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
	})
}

// What fn returned, a lost lock and a failed release are each seen in the result, and
// none where there was none.
func TestCase30_EachFaultIsSeen(t *testing.T) {
	own := errors.New("fn's own")
	cut := func(nodes redlocktest.Nodes) {
		for _, n := range nodes {
			n.Down()
		}
	}
	rob := func(nodes redlocktest.Nodes) {
		for _, n := range nodes {
			n.Set("jobs", "somebody-else", time.Hour)
		}
	}
	for _, c := range []struct {
		name string
		fn   func(ctx context.Context, nodes redlocktest.Nodes) error
		want []error
	}{
		{"nothing", func(context.Context, redlocktest.Nodes) error { return nil }, nil},
		{"own", func(context.Context, redlocktest.Nodes) error { return own }, []error{own}},
		{"release failed", func(_ context.Context, nodes redlocktest.Nodes) error { cut(nodes); return nil }, []error{redlock.ErrNoQuorum}},
		{"own, release failed", func(_ context.Context, nodes redlocktest.Nodes) error { cut(nodes); return own }, []error{own, redlock.ErrNoQuorum}},
		{"lost", func(ctx context.Context, nodes redlocktest.Nodes) error {
			rob(nodes)
			<-ctx.Done()
			return nil
		}, []error{redlock.ErrLost, redlock.ErrExpired, redlock.ErrTaken}},
		{"own, lost, release failed", func(ctx context.Context, nodes redlocktest.Nodes) error {
			cut(nodes)
			<-ctx.Done()
			return fmt.Errorf("%w: %w", own, ctx.Err())
		}, []error{own, context.Canceled, redlock.ErrLost, redlock.ErrNoQuorum}},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
				err := factoryOf(t, nodes.Pools()).Do(t.Context(), "jobs", func(ctx context.Context) error { return c.fn(ctx, nodes) })
				if c.want == nil {
					require.NoError(t, err)
				}
				for _, e := range []error{own, redlock.ErrLost, redlock.ErrExpired, redlock.ErrTaken, redlock.ErrNoQuorum, context.Canceled} {
					wanted := false
					for _, w := range c.want {
						wanted = wanted || w == e //nolint:errorlint // which of the sentinels
					}
					require.Equal(t, wanted, errors.Is(err, e), "%v in %v", e, err)
				}
			})
		})
	}
}

// A user who goes on after his context has ended is inside until fn returns.
func TestCase30_ReleaseWaitsForFn(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		var seen recorder
		r := factoryOf(t, nodes.Pools(), redlock.WithObserver(&seen))
		ctx, cancel := context.WithCancel(t.Context())
		err := r.Do(ctx, "jobs", func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			time.Sleep(30 * time.Second)
			require.Equal(t, 3, heldBy(nodes, "jobs"), "renewed for as long as fn runs")
			require.ErrorIs(t, factoryOf(t, nodes.Pools()).NewMutex("jobs").TryLock(), redlock.ErrTaken)
			require.Zero(t, seen.countNodes(func(e redlock.NodeEvent) bool { return e.Verb == "release" }))
			return nil
		})
		require.NoError(t, err, "fn's end of its own accord is no fault")
		synctest.Wait()
		require.Zero(t, heldBy(nodes, "jobs"))
	})
}

func TestCase30_PanicReleases(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		r := factoryOf(t, nodes.Pools())
		var held context.Context
		require.PanicsWithValue(t, "oh", func() {
			_ = r.Do(t.Context(), "jobs", func(ctx context.Context) error { held = ctx; panic("oh") })
		})
		require.Error(t, held.Err())
		synctest.Wait()
		require.Zero(t, heldBy(nodes, "jobs"))
		time.Sleep(time.Minute)
		require.Zero(t, heldBy(nodes, "jobs"), "nothing renews any more")
	})
}

func TestCase31_OneNodeDownTwoRestart(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 5)
	m := factory(t, servers).NewMutex("jobs", breathe()...)
	held, err := m.Hold(t.Context())
	require.NoError(t, err)
	requireHeld(t, servers, "jobs", 5)
	require.NoError(t, servers[0].Kill())
	for _, s := range servers[1:3] {
		require.NoError(t, s.RestartEmpty())
		// First it is topped up, which is no vote; then it counts again.
		testutil.Eventually(t, settle, func() bool {
			return lockedBy(t, s, "jobs") == m.Value() && m.Check(t.Context()) == nil && ledgerNodes(m) >= 4
		}, "the node that came back is topped up")
		require.NoError(t, held.Err())
	}
	require.NoError(t, servers[0].Restart())
	requireHeld(t, servers, "jobs", 5)
	require.NoError(t, held.Err())
	require.ErrorIs(t, factory(t, servers, patient()).NewMutex("jobs").TryLock(), redlock.ErrTaken)
	unlock(t, m)
	require.ErrorIs(t, context.Cause(held), context.Canceled)
	requireFree(t, servers, "jobs")
}

// ledgerNodes is how many nodes a mutex counts on, as its TakenError tells: a TryLock
// on the very mutex that holds.
func ledgerNodes(m *redlock.Mutex) int {
	var taken *redlock.TakenError
	if !errors.As(m.TryLock(), &taken) {
		return 0
	}
	return len(taken.Nodes)
}

// All nodes lose everything, one after the other, while locks are held and waited for:
// none is lost, none is granted to a second, and each node has all of them again.
func TestRollingRestartUnderHeldLocks(t *testing.T) {
	virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
		const expiry = 1500 * time.Millisecond
		rollingRestart(t, func() *redlock.Redlock {
			return factoryOf(t, nodes.Pools(), redlock.WithExpiry(expiry))
		}, expiry, len(nodes), func(i int) { nodes[i].Restart(false) },
			func(i int, name string) string { v, _ := nodes[i].Value(name); return v })
	})
}

// The same on servers, at the default expiry.
func TestSoakRollingRestartOfServers(t *testing.T) {
	if os.Getenv("REDLOCK_SOAK") == "" {
		t.Skip("takes five times the expiry of 8 s")
	}
	t.Parallel()
	servers := testutil.StartRedisN(t, 5)
	rollingRestart(t, func() *redlock.Redlock { return factory(t, servers) }, 8*time.Second, len(servers),
		func(i int) { require.NoError(t, servers[i].RestartEmpty()) },
		func(i int, name string) string { return lockedBy(t, servers[i], name) })
}

func rollingRestart(t *testing.T, client func() *redlock.Redlock, expiry time.Duration, nodes int,
	restart func(node int), value func(node int, name string) string,
) {
	const locks, waiters = 20, 4
	holder := client()
	mutexes, contexts := make([]*redlock.Mutex, locks), make([]context.Context, locks)
	name := func(i int) string { return fmt.Sprintf("jobs %d", i) }
	for i := range mutexes {
		mutexes[i] = holder.NewMutex(name(i))
		held, err := mutexes[i].Hold(t.Context())
		require.NoError(t, err)
		contexts[i] = held
	}
	// A waiter of each name in each of four clients: those of one client take turns.
	var granted [locks]atomic.Int32
	var last [locks]atomic.Int64
	results := make(chan error, locks*waiters)
	for range waiters {
		r := client()
		for i := range locks {
			go func() {
				m := r.NewMutex(name(i))
				if err := m.Lock(); err != nil {
					results <- err
					return
				}
				granted[i].Add(1)
				if before := last[i].Swap(m.Token()); before >= m.Token() {
					results <- fmt.Errorf("%s: token %d after %d", name(i), m.Token(), before)
					return
				}
				_, err := m.Unlock()
				results <- err
			}()
		}
	}
	testutil.Eventually(t, settle, func() bool {
		s, err := holder.Inspect(t.Context(), name(locks-1))
		return err == nil && s.Waiters == waiters
	}, "the waiters are queued")
	// Renewal tops up the nodes that a contended grant missed, so that none of the
	// quorum is the only one to know.
	for i, m := range mutexes {
		for n := range nodes {
			testutil.Eventually(t, settle, func() bool { return value(n, name(i)) == m.Value() }, "node %d has %s", n, name(i))
		}
	}
	for n := range nodes {
		restart(n)
		spacing := time.NewTimer(expiry)
		for i, m := range mutexes {
			testutil.Eventually(t, settle, func() bool {
				require.NoError(t, contexts[i].Err(), "%s: %v", name(i), context.Cause(contexts[i]))
				return value(n, name(i)) == m.Value()
			}, "node %d is topped up with %s", n, name(i))
		}
		<-spacing.C
	}
	for i, m := range mutexes {
		require.NoError(t, contexts[i].Err(), "%s: %v", name(i), context.Cause(contexts[i]))
		require.True(t, m.Valid())
		require.Zero(t, granted[i].Load(), "%s was granted twice", name(i))
		last[i].Store(m.Token())
		for n := range nodes {
			require.Equal(t, m.Value(), value(n, name(i)))
		}
	}
	for _, m := range mutexes {
		unlock(t, m)
	}
	for range locks * waiters {
		require.NoError(t, <-results) // a waiter left behind is the test's timeout
	}
}

func TestMaxHoldEndsTheHold(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		var seen recorder
		m := factoryOf(t, nodes.Pools(), redlock.WithObserver(&seen)).NewMutex("jobs", redlock.WithMaxHold(30*time.Second))
		started := time.Now()
		held, err := m.Hold(t.Context())
		require.NoError(t, err)
		<-held.Done()
		require.Equal(t, 30*time.Second, time.Since(started))
		require.ErrorIs(t, context.Cause(held), redlock.ErrLost)
		require.ErrorContains(t, context.Cause(held), "WithMaxHold(30s)")
		require.Equal(t, 3, heldBy(nodes, "jobs"), "its user may still be inside")
		require.Len(t, seen.background, 1)
		time.Sleep(9 * time.Second)
		require.Zero(t, heldBy(nodes, "jobs"), "it is renewed no longer")
		_, err = m.Unlock()
		require.ErrorIs(t, err, redlock.ErrExpired)
		// The limit is of each hold, not of the mutex.
		held, err = m.Hold(t.Context())
		require.NoError(t, err)
		time.Sleep(20 * time.Second)
		require.NoError(t, held.Err())
		unlock(t, m)
	})
}

func TestTokenFromContextOfNestedHolds(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		r := factoryOf(t, nodes.Pools())
		_, ok := redlock.TokenFromContext(t.Context())
		require.False(t, ok)
		type key struct{}
		outer := r.NewMutex("outer")
		require.NoError(t, outer.Do(context.WithValue(t.Context(), key{}, "kept"), func(a context.Context) error {
			inner := r.NewMutex("inner")
			require.NoError(t, inner.Do(a, func(b context.Context) error {
				token, ok := redlock.TokenFromContext(context.WithValue(b, key{}, "over it"))
				require.True(t, ok)
				require.Equal(t, inner.Token(), token)
				require.Equal(t, "kept", b.Value(key{}))
				return nil
			}))
			token, ok := redlock.TokenFromContext(a)
			require.True(t, ok)
			require.Equal(t, outer.Token(), token)
			require.NotEqual(t, token, inner.Token())
			return nil
		}))
		// The end of the outer lock ends what runs under the inner one.
		require.Error(t, outer.Do(t.Context(), func(a context.Context) error {
			return r.Do(a, "inner", func(b context.Context) error {
				for _, n := range nodes {
					n.Set("outer", "somebody-else", time.Hour)
				}
				<-b.Done()
				require.ErrorIs(t, context.Cause(b), redlock.ErrLost)
				require.Equal(t, 3, heldBy(nodes, "inner"))
				return nil
			})
		}))
	})
}

// The lock outlives the context it was asked for with: its user may still be at work.
func TestHoldOutlivesItsContext(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		m := factoryOf(t, nodes.Pools()).NewMutex("jobs")
		why := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(t.Context())
		held, err := m.Hold(ctx)
		require.NoError(t, err)
		cancel(why)
		<-held.Done()
		require.ErrorIs(t, context.Cause(held), why)
		time.Sleep(time.Minute)
		require.True(t, m.Valid())
		require.Equal(t, 3, heldBy(nodes, "jobs"))
		unlock(t, m)
		synctest.Wait()
		require.Zero(t, heldBy(nodes, "jobs"))
	})
}

func TestCloseWhileHolding(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		r := factoryOf(t, nodes.Pools())
		m := r.NewMutex("jobs")
		held, err := m.Hold(t.Context())
		require.NoError(t, err)
		done := make(chan error, 1)
		inside := make(chan struct{})
		go func() {
			done <- r.Do(t.Context(), "other", func(ctx context.Context) error {
				close(inside)
				<-ctx.Done()
				return nil
			})
		}()
		<-inside
		require.NoError(t, r.Close(t.Context()))
		require.ErrorIs(t, held.Err(), context.Canceled)
		require.ErrorIs(t, context.Cause(held), redlock.ErrClosed)
		require.ErrorIs(t, <-done, redlock.ErrClosed)
		_, err = r.NewMutex("third").Hold(t.Context())
		require.ErrorIs(t, err, redlock.ErrClosed)
		require.Equal(t, 3, heldBy(nodes, "jobs"), "held until Unlock or its expiry")
		unlock(t, m)
		require.NoError(t, r.Close(t.Context()))
		require.Zero(t, heldBy(nodes, "jobs"))
	})
}

// What asks the context after a pause is told the truth, even when nothing else has had
// a chance to run: here the scheduler stands still.
func TestHeldContextReadsTheClocks(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		still := make(chan struct{})
		seen := &recorder{onStart: func(verb, _ string) {
			if verb == "renew" {
				<-still
			}
		}}
		m := factoryOf(t, nodes.Pools(), redlock.WithObserver(seen)).NewMutex("jobs")
		held, err := m.Hold(t.Context())
		require.NoError(t, err)
		until := m.Until()
		time.Sleep(time.Until(until) - 401*time.Millisecond)
		require.NoError(t, held.Err())
		time.Sleep(2 * time.Millisecond)
		require.ErrorIs(t, held.Err(), context.Canceled, "the margin has begun")
		require.ErrorIs(t, context.Cause(held), redlock.ErrLost)
		<-held.Done()
		close(still)
		_, err = m.Unlock()
		require.NoError(t, err, "in time")
	})
}

// A renewal that fails is repeated within the validity, more often than it would come.
func TestRenewalIsRepeatedWithinTheValidity(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		var seen recorder
		m := factoryOf(t, nodes.Pools(), redlock.WithObserver(&seen)).NewMutex("jobs")
		held, err := m.Hold(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		for _, n := range nodes {
			n.Down()
		}
		time.Sleep(7400 * time.Millisecond) // 8 s less drift and margin is 7.518 s
		require.NoError(t, held.Err())
		for _, n := range nodes[:2] {
			n.Up()
		}
		time.Sleep(time.Minute)
		require.NoError(t, held.Err())
		failed := 0
		for _, e := range seen.verb("renew") {
			if e.Err != nil {
				failed++
				require.ErrorIs(t, e.Err, redlock.ErrNoQuorum)
			}
		}
		require.InDelta(t, 12, failed, 2, "every 400 ms for 4.7 s")
		unlock(t, m)
	})
}

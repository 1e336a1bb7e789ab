package redlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/redlocktest"
)

// The holder is told within a renewal period, and cannot come back; the next token is
// higher.
func TestBreakEndsAHold(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 5)
	const expiry = 4 * time.Second
	m := factory(t, servers, redlock.WithExpiry(expiry), redlock.WithNodeTimeout(2*time.Second)).NewMutex("jobs")
	held, err := m.Hold(t.Context())
	require.NoError(t, err)
	requireHeld(t, servers, "jobs", 5)
	token := m.Token()
	operator := factory(t, servers, patient())
	require.NoError(t, operator.Break(t.Context(), "jobs"))
	started := time.Now()
	requireFree(t, servers, "jobs")
	select {
	case <-held.Done():
	case <-time.After(settle):
	}
	require.Less(t, time.Since(started), expiry/3+soon, "a renewal period, and what a loaded machine takes")
	require.ErrorIs(t, context.Cause(held), redlock.ErrLost)
	next := operator.NewMutex("jobs")
	require.NoError(t, next.Lock())
	require.Greater(t, next.Token(), token)
	ok, err := m.Extend()
	require.False(t, ok)
	require.ErrorIs(t, err, redlock.ErrExtendFailed)
	ok, err = m.Unlock()
	require.False(t, ok)
	require.ErrorIs(t, err, redlock.ErrExpired)
	for _, s := range servers {
		require.Equal(t, next.Value(), lockedBy(t, s, "jobs"))
	}
	unlock(t, next)
}

// The period is exact in virtual time.
func TestBreakIsNoticedAtTheNextRenewal(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		m := factoryOf(t, nodes.Pools(), redlock.WithExpiry(9*time.Second)).NewMutex("jobs")
		held, err := m.Hold(t.Context())
		require.NoError(t, err)
		time.Sleep(4 * time.Second) // one renewal, at 3 s
		require.NoError(t, factoryOf(t, nodes.Pools()).Break(t.Context(), "jobs"))
		started := time.Now()
		<-held.Done()
		require.InDelta(t, 2*time.Second, time.Since(started), float64(50*time.Millisecond))
		require.Zero(t, heldBy(nodes, "jobs"))
		time.Sleep(time.Minute)
		require.Zero(t, heldBy(nodes, "jobs"))
		_, err = m.Unlock()
		require.ErrorIs(t, err, redlock.ErrExpired)
	})
}

// A holder that does not renew by itself is refused at its next verb, whichever it is,
// though its validity has not ended; nothing of it comes back.
func TestBreakRefusesEveryVerbOfTheHolder(t *testing.T) {
	for name, verb := range map[string]func(m *redlock.Mutex) (bool, error){
		"unlock": func(m *redlock.Mutex) (bool, error) { return m.Unlock() },
		"extend": func(m *redlock.Mutex) (bool, error) { return m.Extend() },
		"extend for": func(m *redlock.Mutex) (bool, error) {
			return m.ExtendFor(context.Background(), time.Hour)
		},
		"check": func(m *redlock.Mutex) (bool, error) {
			err := m.Check(context.Background())
			return err == nil, err
		},
	} {
		for _, retaken := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
					m := factoryOf(t, nodes.Pools()).NewMutex("jobs")
					require.NoError(t, m.Lock())
					token := m.Token()
					synctest.Wait() // for the third node's reply
					operator := factoryOf(t, nodes.Pools())
					require.NoError(t, operator.Break(t.Context(), "jobs"))
					synctest.Wait()
					next := operator.NewMutex("jobs")
					want := 0
					if retaken {
						require.NoError(t, next.Lock())
						require.Greater(t, next.Token(), token)
						synctest.Wait()
						want = 3
					}
					require.True(t, m.Valid(), "it does not know")
					ok, err := verb(m)
					require.False(t, ok)
					if retaken {
						require.ErrorIs(t, err, redlock.ErrTaken)
					} else {
						require.ErrorIs(t, err, redlock.ErrExpired)
					}
					require.False(t, m.Valid())
					time.Sleep(time.Second)
					require.Equal(t, want, heldBy(nodes, "jobs"))
					_, err = m.Extend()
					require.Error(t, err)
					require.Equal(t, want, heldBy(nodes, "jobs"))
				})
			})
		}
	}
}

// A node that could not be reached keeps the key for its life. It is one vote, and the
// holder has no other: the lock is lost, and free for the next.
func TestBreakWithAnUnreachableNode(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		m := factoryOf(t, nodes.Pools()).NewMutex("jobs")
		held, err := m.Hold(t.Context())
		require.NoError(t, err)
		value := m.Value()
		synctest.Wait() // for the third node's reply
		nodes[2].Down()
		operator := factoryOf(t, nodes.Pools())
		require.NoError(t, operator.Break(t.Context(), "jobs"))
		synctest.Wait()
		nodes[2].Up()
		next := operator.NewMutex("jobs")
		require.NoError(t, next.Lock())
		<-held.Done()
		require.ErrorIs(t, context.Cause(held), redlock.ErrLost)
		for _, n := range nodes[:2] {
			got, _ := n.Value("jobs")
			require.Equal(t, next.Value(), got)
		}
		got, _ := nodes[2].Value("jobs")
		require.Equal(t, value, got, "nobody told that node")
		_, err = m.Unlock()
		require.Error(t, err)
		time.Sleep(time.Millisecond) // a moment later, so that ballots are higher
		require.Equal(t, 2, heldBy(nodes, "jobs"), "the holder's unlock did")
		ok, err := next.Extend()
		require.NoError(t, err)
		require.True(t, ok)
		synctest.Wait()
		require.Equal(t, 3, heldBy(nodes, "jobs"))
		unlock(t, next)
	})
}

// A node that had lost the key before the break, or had never seen it, is not a place to
// begin again from.
func TestBreakLeavesATombstoneWhereTheKeyWasMissing(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		m := factoryOf(t, nodes.Pools()).NewMutex("jobs")
		require.NoError(t, m.Lock())
		synctest.Wait() // for the third node's reply
		nodes[0].Del("jobs")
		nodes[1].Del("jobs")
		require.NoError(t, factoryOf(t, nodes.Pools()).Break(t.Context(), "jobs"), "a partial holder is broken, too")
		synctest.Wait()
		require.Zero(t, heldBy(nodes, "jobs"))
		_, err := m.Extend()
		require.ErrorIs(t, err, redlock.ErrExpired)
		require.Zero(t, heldBy(nodes, "jobs"))
	})
}

// The acquire that the holder won with arrives at a slow node only after the break.
func TestBreakRefusesTheLateAcquire(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		nodes[2].SetDelay(300*time.Millisecond, 0)
		m := factoryOf(t, nodes.Pools()).NewMutex("jobs")
		require.NoError(t, m.Lock())
		nodes[2].SetDelay(0, 0)
		require.NoError(t, factoryOf(t, nodes.Pools()).Break(t.Context(), "jobs"))
		time.Sleep(time.Second)
		require.Zero(t, heldBy(nodes, "jobs"))
	})
}

func TestBreakCallsTheNextWaiter(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		m := factoryOf(t, nodes.Pools(), redlock.WithExpiry(time.Hour)).NewMutex("jobs")
		require.NoError(t, m.Lock())
		waiter := factoryOf(t, nodes.Pools()).NewMutex("jobs")
		got := make(chan error, 1)
		go func() { got <- waiter.Lock() }()
		time.Sleep(10*time.Second + 7*time.Millisecond)
		started := time.Now()
		require.NoError(t, factoryOf(t, nodes.Pools()).Break(t.Context(), "jobs"))
		require.NoError(t, <-got)
		require.Less(t, time.Since(started), 20*time.Millisecond)
		require.Greater(t, waiter.Token(), m.Token())
		unlock(t, waiter)
	})
}

// Locks of other libraries can be broken: a key that never expires is why one would.
func TestBreakForeignKeyWithoutExpiry(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		r := factoryOf(t, nodes.Pools())
		for _, n := range nodes {
			n.Set("jobs", "somebody-else", 0)
		}
		var taken *redlock.TakenError
		require.ErrorAs(t, r.NewMutex("jobs").TryLock(), &taken)
		require.Negative(t, taken.TTL)
		require.NoError(t, r.Break(t.Context(), "jobs"))
		m := r.NewMutex("jobs")
		require.NoError(t, m.Lock())
		unlock(t, m)
	})
}

func TestBreakErrors(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		r := factoryOf(t, nodes.Pools())
		require.ErrorIs(t, r.Break(t.Context(), "jobs"), redlock.ErrNotHeld)
		require.ErrorIs(t, r.Break(t.Context(), ""), redlock.ErrInvalidOption)
		other := r.NewMutex("other")
		require.NoError(t, other.Lock())
		m := r.NewMutex("jobs")
		require.NoError(t, m.Lock())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, r.Break(ctx, "jobs"), context.Canceled)
		synctest.Wait()
		nodes[0].Down()
		nodes[1].Down()
		err := r.Break(t.Context(), "jobs")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.Len(t, nodeErrors(err), 2)
		nodes[0].Up()
		require.NoError(t, r.Break(t.Context(), "jobs"))
		nodes[1].Up()
		ok, err := other.Extend()
		require.NoError(t, err)
		require.True(t, ok, "other names stay")
		unlock(t, other)
	})
}

// Somebody else's grant that came between the look and the break is not touched.
func TestBreakTakesNoOtherHolder(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		m := factoryOf(t, nodes.Pools()).NewMutex("jobs")
		require.NoError(t, m.Lock())
		synctest.Wait() // for the third node's reply
		next := factoryOf(t, nodes.Pools()).NewMutex("jobs")
		for _, n := range nodes {
			n.SetFaults(func(c redlocktest.Call) redlocktest.Fault {
				if c.Name == "break" {
					return redlocktest.Fault{Delay: 200 * time.Millisecond}
				}
				return redlocktest.Fault{}
			})
		}
		got := make(chan error, 1)
		go func() { got <- factoryOf(t, nodes.Pools()).Break(t.Context(), "jobs") }()
		time.Sleep(100 * time.Millisecond)
		unlock(t, m)
		time.Sleep(time.Millisecond) // for the third node
		require.NoError(t, next.Lock())
		require.ErrorIs(t, <-got, redlock.ErrTaken)
		synctest.Wait()
		require.Equal(t, 3, heldBy(nodes, "jobs"))
		unlock(t, next)
	})
}

// The value of another library's lock may be a number. Broken, it buries nobody but
// itself.
func TestBreakOfANumberBuriesNoGrant(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"1764551420000000000", "1764551420000000", "7", "some text"} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			servers := testutil.StartRedisN(t, 3)
			r := factory(t, servers, patient())
			for _, s := range servers {
				s.MustDo(t, "SET", "jobs", value, "PX", 60_000)
			}
			require.NoError(t, r.Break(t.Context(), "jobs"))
			requireFree(t, servers, "jobs") // the last node's break may come late
			adopted := r.NewMutex("jobs", redlock.WithValue(value))
			_, err := adopted.Extend()
			require.ErrorIs(t, err, redlock.ErrExtendFailed)
			m := r.NewMutex("jobs")
			require.NoError(t, m.Lock())
			requireHeld(t, servers, "jobs", 3)
			servers[2].MustDo(t, "DEL", "jobs")
			ok, err := m.Extend()
			require.NoError(t, err)
			require.True(t, ok)
			requireHeld(t, servers, "jobs", 3)
			unlock(t, m)
		})
	}
}

// A key of somebody else's may live for longer than a number of nanoseconds can say.
func TestBreakOfALifeBeyondCounting(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	r := factory(t, servers, patient())
	for _, s := range servers[:2] {
		s.MustDo(t, "SET", "jobs", "another", "PX", int64(1)<<53)
	}
	s, err := r.Inspect(t.Context(), "jobs")
	require.NoError(t, err)
	require.Greater(t, s.TTL, 365*24*time.Hour)
	var taken *redlock.TakenError
	another := factory(t, servers, patient())
	require.ErrorAs(t, another.NewMutex("jobs").TryLock(), &taken)
	require.Greater(t, taken.TTL, 365*24*time.Hour)
	// Its acquire may be on its way to the third node, where it would be a holder unseen.
	require.NoError(t, another.Close(t.Context()))
	require.NoError(t, r.Break(t.Context(), "jobs"))
	requireFree(t, servers, "jobs")
	testutil.Eventually(t, settle, func() bool {
		for _, s := range servers {
			if lockedBy(t, s, "jobs:b{jobs}") == "" {
				return false
			}
		}
		return true
	}, "the tombstone is on every node")
}

// Whoever has the lock on a quorum after a break is seen by the Unlock of the broken
// grant, also on a node that never granted it.
func TestUnlockSeesAnotherHolder(t *testing.T) {
	t.Run("after a break", func(t *testing.T) {
		virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
			nodes[2].Down()
			broken := factoryOf(t, nodes.Pools()).NewMutex("jobs")
			require.NoError(t, broken.Lock()) // on 0 and 1
			synctest.Wait()
			nodes[2].Up()
			nodes[1].Down()
			r := factoryOf(t, nodes.Pools())
			require.NoError(t, r.Break(t.Context(), "jobs"))
			synctest.Wait()
			holder := r.NewMutex("jobs")
			require.NoError(t, holder.Lock()) // on 0 and 2
			synctest.Wait()
			nodes[1].Up()
			time.Sleep(1100 * time.Millisecond) // node 1 is no suspect any more
			ok, err := broken.Unlock()
			require.False(t, ok)
			require.ErrorIs(t, err, redlock.ErrTaken)
			require.True(t, holder.Valid())
			unlock(t, holder)
		})
	})
	t.Run("after nodes forgot", func(t *testing.T) {
		virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
			nodes[3].Down()
			nodes[4].Down()
			lost := factoryOf(t, nodes.Pools()).NewMutex("jobs")
			require.NoError(t, lost.Lock())
			synctest.Wait()
			nodes[3].Up()
			nodes[4].Up()
			nodes[0].FlushAll()
			nodes[1].FlushAll()
			holder := factoryOf(t, nodes.Pools()).NewMutex("jobs")
			require.NoError(t, holder.Lock()) // on 0, 1, 3 and 4
			synctest.Wait()
			time.Sleep(1100 * time.Millisecond)
			ok, err := lost.Unlock()
			require.False(t, ok)
			require.ErrorIs(t, err, redlock.ErrTaken)
			unlock(t, holder)
		})
	})
}

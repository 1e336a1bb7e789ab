package redlock_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/redlocktest"
)

// The rules of redis.io "Distributed Locks with Redis", each in our words above the
// test that holds the library to it. Those about time run in virtual time, where
// equal means equal.

// virtual runs f with nodes in memory and a clock that moves only when all wait.
func virtual(t *testing.T, nodes int, f func(t *testing.T, nodes redlocktest.Nodes)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(t, redlocktest.NewNodes(nodes)) })
}

func heldBy(nodes redlocktest.Nodes, name string) (held int) {
	for _, n := range nodes {
		if _, found := n.Value(name); found {
			held++
		}
	}
	return held
}

// Safety: at any moment at most one client holds a lock.
func TestSpec_MutualExclusion(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 5)
	const clients, rounds = 6, 40
	var inside, overlaps atomic.Int32
	var all sync.WaitGroup
	errs := make(chan error, clients*rounds)
	for range clients {
		m := factory(t, servers, patient()).NewMutex("jobs")
		all.Go(func() {
			for range rounds {
				if err := m.Lock(); err != nil {
					errs <- err
					return
				}
				if inside.Add(1) != 1 {
					overlaps.Add(1)
				}
				inside.Add(-1)
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
	require.Zero(t, overlaps.Load())
}

// Liveness A: a lock can be had in the end, even when its holder crashed or was cut
// off and never released it.
func TestSpec_DeadlockFree(t *testing.T) {
	for _, end := range []string{"crashed", "cut off"} {
		t.Run(end, func(t *testing.T) {
			virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
				dead := factoryOf(t, nodes.Pools()).NewMutex("jobs", redlock.WithExpiry(10*time.Second))
				require.NoError(t, dead.Lock())
				if end == "cut off" {
					// Its release is lost, and what it sends later, too.
					for _, n := range nodes {
						n.DropRequests(true)
					}
					_, err := dead.Unlock()
					require.ErrorIs(t, err, redlock.ErrNoQuorum)
					for _, n := range nodes {
						n.DropRequests(false)
						n.SetFaults(func(c redlocktest.Call) redlocktest.Fault { return redlocktest.Fault{DropRequest: c.Name == "release"} })
					}
				}
				started := time.Now()
				m := factoryOf(t, nodes.Pools()).NewMutex("jobs")
				require.NoError(t, m.Lock(), "with default options, however long the other had it")
				require.Less(t, time.Since(started), 11*time.Second)
				for _, n := range nodes {
					n.SetFaults(nil)
				}
				unlock(t, m)
			})
		})
	}
}

// Liveness B: while a majority of the nodes is up, locks are acquired and released.
func TestSpec_FaultTolerance(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 7} {
		for down := range n + 1 {
			t.Run(fmt.Sprintf("%d of %d down", down, n), func(t *testing.T) {
				virtual(t, n, func(t *testing.T, nodes redlocktest.Nodes) {
					for _, node := range nodes[:down] {
						node.Down()
					}
					m := factoryOf(t, nodes.Pools()).NewMutex("jobs")
					err := m.Lock()
					if n-down < n/2+1 {
						require.ErrorIs(t, err, redlock.ErrNoQuorum)
						return
					}
					require.NoError(t, err)
					ok, err := m.Extend()
					require.NoError(t, err)
					require.True(t, ok)
					unlock(t, m)
				})
			})
		}
	}
}

// A lock is a key that is set only where there is none, together with its expiry.
func TestSpec_SetIfMissingWithExpiry(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	m := factory(t, servers, patient()).NewMutex("jobs", redlock.WithExpiry(20*time.Second))
	require.NoError(t, m.Lock())
	requireHeld(t, servers, "jobs", 3)
	for _, s := range servers {
		ttl, err := redis.Int64(s.Do("PTTL", "jobs"))
		require.NoError(t, err)
		require.LessOrEqual(t, ttl, int64(20000))
		require.Greater(t, ttl, int64(10000))
	}
	unlock(t, m)
	requireFree(t, servers, "jobs")

	// Any client that keeps to the rule is respected, whatever its value looks like.
	for _, s := range servers {
		s.MustDo(t, "SET", "jobs", "of another library", "NX", "PX", 60000)
	}
	require.ErrorIs(t, m.TryLock(), redlock.ErrTaken)
	for _, s := range servers {
		require.Equal(t, "of another library", lockedBy(t, s, "jobs"))
	}
	for _, s := range servers {
		s.MustDo(t, "DEL", "jobs")
	}
	require.NoError(t, m.Lock())
	// And they respect ours.
	requireHeld(t, servers, "jobs", 3)
	for _, s := range servers {
		_, err := redis.String(s.Do("SET", "jobs", "of another library", "NX", "PX", 60000))
		require.ErrorIs(t, err, redis.ErrNil)
	}
	unlock(t, m)
}

// A key without an expiry is somebody's, too, and is never waited out.
func TestSpec_ForeignKeyWithoutExpiry(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	for _, s := range servers {
		s.MustDo(t, "SET", "jobs", "for ever")
	}
	err := factory(t, servers, patient()).NewMutex("jobs").TryLock()
	var taken *redlock.TakenError
	require.ErrorAs(t, err, &taken)
	require.Negative(t, taken.TTL)
	for _, s := range servers {
		require.Equal(t, "for ever", lockedBy(t, s, "jobs"))
		require.EqualValues(t, -1, s.MustDo(t, "PTTL", "jobs"))
	}
}

// The nodes are independent masters that know nothing of each other. Each gets the
// same key and the same value.
func TestSpec_SameKeyAndValueOnEveryNode(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 5)
	m := factory(t, servers, patient()).NewMutex("jobs")
	require.NoError(t, m.Lock())
	requireHeld(t, servers, "jobs", 5)
	for _, s := range servers {
		require.Equal(t, m.Value(), lockedBy(t, s, "jobs"))
	}
	unlock(t, m)
}

// The value is one that no other client and no other attempt uses.
func TestSpec_ValueIsUnique(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		seen := map[string]bool{}
		for range 20 {
			r := factoryOf(t, nodes.Pools())
			for range 20 {
				m := r.NewMutex("jobs")
				require.NoError(t, m.Lock())
				require.False(t, seen[m.Value()])
				require.Greater(t, len(m.Value()), 16)
				seen[m.Value()] = true
				unlock(t, m)
			}
		}
	})
}

// A release deletes the key only where it holds the releaser's value: a client that
// was held up for longer than its lock lived must not remove the next one's.
func TestSpec_ReleaseOnlyOwn(t *testing.T) {
	virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
		r := factoryOf(t, nodes.Pools())
		late := r.NewMutex("jobs", redlock.WithExpiry(time.Second))
		require.NoError(t, late.Lock())
		time.Sleep(2 * time.Second) // of virtual time: held up
		next := factoryOf(t, nodes.Pools()).NewMutex("jobs")
		require.NoError(t, next.TryLock())
		synctest.Wait()
		ok, err := late.Unlock()
		require.False(t, ok)
		require.ErrorIs(t, err, redlock.ErrExpired)
		synctest.Wait()
		require.Equal(t, 5, heldBy(nodes, "jobs"))
		require.True(t, next.Valid())
		unlock(t, next)
	})
}

// The time for one node is small against the life of the lock, so that a dead node
// costs no validity; and the nodes are asked all at once, not one after the other.
func TestSpec_NodesAreAskedAtOnceWithASmallTimeout(t *testing.T) {
	virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
		for _, n := range nodes {
			n.SetDelay(10*time.Millisecond, 10*time.Millisecond)
		}
		m := factoryOf(t, nodes.Pools()).NewMutex("jobs", redlock.WithExpiry(10*time.Second))
		took := func(f func()) time.Duration {
			started := time.Now()
			f()
			return time.Since(started)
		}
		require.Equal(t, 20*time.Millisecond, took(func() { require.NoError(t, m.Lock()) }))
		require.Equal(t, 20*time.Millisecond, took(func() { unlock(t, m) }))
		nodes[0].Hang()
		nodes[1].DropRequests(true)
		require.Equal(t, 20*time.Millisecond, took(func() { require.NoError(t, m.Lock()) }), "dead nodes are not waited for")
		require.Equal(t, 20*time.Millisecond, took(func() { unlock(t, m) }))
		nodes[2].Hang()
		require.LessOrEqual(t, took(func() { require.ErrorIs(t, m.TryLock(), redlock.ErrNoQuorum) }), 500*time.Millisecond,
			"and where they are needed, a twentieth of the life at most")
		nodes[0].Resume()
		nodes[2].Resume()
	})
}

// The lock is acquired only with a majority, and only when the whole took less than
// the validity: else it is none, and all nodes are told.
func TestSpec_MajorityWithinTheValidity(t *testing.T) {
	t.Run("majority", func(t *testing.T) {
		virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
			m := factoryOf(t, nodes.Pools()).NewMutex("jobs")
			for _, n := range nodes[:3] {
				n.Set("jobs", "somebody-else", time.Minute)
			}
			require.ErrorIs(t, m.TryLock(), redlock.ErrTaken)
			time.Sleep(time.Millisecond)
			require.Equal(t, 3, heldBy(nodes, "jobs"), "two of five are given back at once")
			nodes[0].Del("jobs")
			require.NoError(t, m.TryLock(), "three of five are a majority")
			unlock(t, m)
		})
	})
	for _, late := range []time.Duration{0, 180 * time.Millisecond, 195 * time.Millisecond, 199 * time.Millisecond} {
		t.Run(fmt.Sprintf("elapsed %v", late), func(t *testing.T) {
			virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
				const expiry = 200 * time.Millisecond
				left := expiry - late - (2*time.Millisecond + 2*time.Millisecond)
				r := factoryOf(t, nodes.Pools(), redlock.WithExpiry(expiry), redlock.WithNodeTimeout(expiry-1))
				for _, n := range nodes[2:] { // the majority needs one of these
					n.SetDelay(0, late)
				}
				m := r.NewMutex("jobs")
				err := m.TryLock()
				if left > 0 {
					require.NoError(t, err)
					require.Equal(t, left, time.Until(m.Until()))
					unlock(t, m)
				} else {
					require.ErrorIs(t, err, redlock.ErrNoQuorum)
					require.False(t, m.Valid())
					// Told at once, not left to expire.
					time.Sleep(time.Millisecond)
					for i, n := range nodes {
						require.Positive(t, n.Stats().Executed["release"], "node %d was not told", i)
					}
				}
			})
		})
	}
}

// Once acquired, it is valid for the initial validity less the time that passed while
// acquiring, less an allowance for clock drift.
func TestSpec_Validity(t *testing.T) {
	virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
		const expiry = 10 * time.Second
		for _, c := range []struct {
			factor         float64
			drift          time.Duration
			request, reply time.Duration
		}{
			{0.01, 102 * time.Millisecond, 0, 0},
			{0.01, 102 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond},
			{0.05, 502 * time.Millisecond, 0, 300 * time.Millisecond},
			{0, 2 * time.Millisecond, 400 * time.Millisecond, 0},
		} {
			for _, n := range nodes {
				n.SetDelay(c.request, c.reply)
			}
			m := factoryOf(t, nodes.Pools()).NewMutex("jobs", redlock.WithExpiry(expiry), redlock.WithDriftFactor(c.factor))
			started := time.Now()
			require.NoError(t, m.Lock())
			elapsed := time.Since(started)
			require.Equal(t, c.request+c.reply, elapsed)
			require.Equal(t, expiry-elapsed-c.drift, time.Until(m.Until()))
			require.True(t, m.Valid())
			time.Sleep(time.Until(m.Until()) - time.Nanosecond)
			require.True(t, m.Valid())
			time.Sleep(time.Nanosecond)
			require.False(t, m.Valid())
			// On no node of the majority may the key have gone before.
			require.GreaterOrEqual(t, heldBy(nodes, "jobs"), 3)
			_, err := m.Unlock()
			require.ErrorIs(t, err, redlock.ErrExpired)
			time.Sleep(time.Second)
		}
	})
}

// While the holder's validity lasts, a majority of keys exists on the servers.
func TestSpec_KeysOutliveTheValidity(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	proxies, pools := proxied(t, servers)
	proxies[0].Delay(20*time.Millisecond, 0) // keys are set at different times
	proxies[1].Delay(0, 40*time.Millisecond)
	m := factoryOf(t, pools, patient()).NewMutex("jobs")
	require.NoError(t, m.Lock())
	requireHeld(t, servers, "jobs", 3)
	outlive := 0
	for _, s := range servers {
		asked := time.Now()
		ttl, err := redis.Int64(s.Do("PTTL", "jobs"))
		require.NoError(t, err)
		// asked is before the reading, so that the true end can only be later.
		if end := asked.Add(time.Duration(ttl) * time.Millisecond); !end.Before(m.Until()) {
			outlive++
		}
	}
	require.GreaterOrEqual(t, outlive, 2)
	unlock(t, m)
}

// An attempt that fails unlocks every node at once, also those which it believes it
// could not lock: a reply may be lost on its way.
func TestSpec_FailureUnlocksAllNodes(t *testing.T) {
	virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
		for _, n := range nodes[:3] {
			n.SetFaults(func(c redlocktest.Call) redlocktest.Fault { return redlocktest.Fault{DropReply: c.Name == "acquire"} })
		}
		m := factoryOf(t, nodes.Pools()).NewMutex("jobs", redlock.WithExpiry(time.Hour), redlock.WithNodeTimeout(time.Second))
		err := m.TryLock()
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.Len(t, nodeErrors(err), 3)
		time.Sleep(100 * time.Millisecond)
		require.Zero(t, heldBy(nodes, "jobs"), "the lock would stay for an hour")
	})
}

// A client that could not acquire the lock tries again after a random delay, so that
// contenders who split the vote come apart.
func TestSpec_RetryAfterRandomDelay(t *testing.T) {
	t.Run("bounded by the delay function, and by the tries", func(t *testing.T) {
		virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
			for _, n := range nodes {
				n.Set("jobs", "somebody-else", time.Hour)
			}
			var asked []int
			delay := func(tries int) time.Duration {
				asked = append(asked, tries)
				return time.Duration(tries) * 10 * time.Millisecond
			}
			m := factoryOf(t, nodes.Pools()).NewMutex("jobs", redlock.WithTries(4), redlock.WithRetryDelayFunc(delay))
			started := time.Now()
			require.ErrorIs(t, m.Lock(), redlock.ErrTaken)
			// A little for the attempts themselves.
			require.LessOrEqual(t, time.Since(started), (10+20+30+4)*time.Millisecond)
			require.Contains(t, asked, 1)
			require.Contains(t, asked, 3)
			require.NotContains(t, asked, 4, "no pause after the last try")
		})
	})
	t.Run("a split vote comes apart", func(t *testing.T) {
		virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
			// Each of five contenders is nearest to another node: all start with one vote.
			var all sync.WaitGroup
			started := time.Now()
			for i := range nodes {
				pools := nodes.Pools()
				m := factoryOf(t, pools).NewMutex("jobs")
				for j, n := range nodes {
					if i == j {
						n.SetDelay(time.Duration(i+1)*time.Microsecond, time.Millisecond)
					}
				}
				all.Go(func() {
					for range 5 {
						if err := m.Lock(); err != nil {
							t.Errorf("contender %d: %v", i, err)
							return
						}
						if _, err := m.Unlock(); err != nil {
							t.Errorf("contender %d: %v", i, err)
						}
					}
				})
			}
			all.Wait()
			// No lock was left to its expiry of 8 s.
			require.Less(t, time.Since(started), 8*time.Second)
		})
	})
}

// A release tells all nodes, whether or not they are known to hold the lock.
func TestSpec_ReleaseOnEveryNode(t *testing.T) {
	virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
		nodes[0].Set("jobs", "somebody-else", time.Minute)
		nodes[1].SetFaults(func(c redlocktest.Call) redlocktest.Fault { return redlocktest.Fault{DropReply: c.Name == "acquire"} })
		m := factoryOf(t, nodes.Pools()).NewMutex("jobs")
		require.NoError(t, m.Lock())
		time.Sleep(time.Second)
		unlock(t, m)
		time.Sleep(time.Second)
		for i, n := range nodes {
			require.Positive(t, n.Stats().Executed["release"], "node %d was not told", i)
		}
		require.Equal(t, 1, heldBy(nodes, "jobs"), "the other's key on the first node stays")
	})
}

// A lock is extended only by its owner, only within its validity, and only when a
// majority of the nodes agrees in time.
func TestSpec_Extension(t *testing.T) {
	t.Run("owner", func(t *testing.T) {
		virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
			m := factoryOf(t, nodes.Pools()).NewMutex("jobs")
			require.NoError(t, m.Lock())
			time.Sleep(time.Second)
			synctest.Wait()
			ttl, _ := nodes[0].TTL("jobs")
			thief := factoryOf(t, nodes.Pools()).NewMutex("jobs", redlock.WithValue("guess.nonce.1"))
			ok, err := thief.Extend()
			require.False(t, ok)
			require.ErrorIs(t, err, redlock.ErrTaken)
			same, _ := nodes[0].TTL("jobs")
			require.Equal(t, ttl, same)
			ok, err = m.Extend()
			require.NoError(t, err)
			require.True(t, ok)
			synctest.Wait() // the first node may be the last to answer
			longer, _ := nodes[0].TTL("jobs")
			require.Greater(t, longer, ttl)
			unlock(t, m)
		})
	})
	t.Run("validity", func(t *testing.T) {
		virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
			m := factoryOf(t, nodes.Pools()).NewMutex("jobs", redlock.WithExpiry(10*time.Second))
			require.NoError(t, m.Lock())
			time.Sleep(time.Until(m.Until()))
			require.Equal(t, 5, heldBy(nodes, "jobs"), "the keys are there yet, but nothing may rely on them")
			ok, err := m.Extend()
			require.False(t, ok)
			require.ErrorIs(t, err, redlock.ErrExpired)
		})
	})
	t.Run("majority", func(t *testing.T) {
		virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
			m := factoryOf(t, nodes.Pools()).NewMutex("jobs")
			require.NoError(t, m.Lock())
			time.Sleep(time.Second)
			until := m.Until()
			for _, n := range nodes[:3] {
				n.Down()
			}
			ok, err := m.Extend()
			require.False(t, ok)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.Equal(t, until, m.Until(), "a minority prolongs nothing")
			nodes[0].Up()
			ok, err = m.Extend()
			require.NoError(t, err)
			require.True(t, ok)
			require.True(t, m.Until().After(until))
			nodes[1].Up()
			nodes[2].Up()
			unlock(t, m)
		})
	})
	t.Run("in time", func(t *testing.T) {
		virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
			m := factoryOf(t, nodes.Pools()).NewMutex("jobs", redlock.WithExpiry(time.Second), redlock.WithNodeTimeout(900*time.Millisecond))
			require.NoError(t, m.Lock())
			time.Sleep(600 * time.Millisecond)
			for _, n := range nodes {
				n.SetDelay(0, 500*time.Millisecond) // extended, but heard too late
			}
			ok, err := m.Extend()
			require.False(t, ok)
			require.ErrorIs(t, err, redlock.ErrExtendFailed)
			require.False(t, m.Valid())
		})
	})
	t.Run("limit", func(t *testing.T) {
		// Renewal without an end would keep others out for ever.
		virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
			m := factoryOf(t, nodes.Pools()).NewMutex("jobs", redlock.WithExpiry(time.Second), redlock.WithMaxHold(10*time.Second))
			started := time.Now()
			held, err := m.Hold(t.Context())
			require.NoError(t, err)
			<-held.Done()
			require.Equal(t, 10*time.Second, time.Since(started))
			require.ErrorIs(t, context.Cause(held), redlock.ErrLost)
			time.Sleep(2 * time.Second)
			require.Zero(t, heldBy(nodes, "jobs"))
			_, _ = m.Unlock()
		})
	})
}

// A node that comes back without its keys does not by itself end or double a lock
// that a majority of the others holds.
func TestSpec_CrashOfAMinority(t *testing.T) {
	virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
		m := factoryOf(t, nodes.Pools()).NewMutex("jobs")
		require.NoError(t, m.Lock())
		time.Sleep(time.Second)
		nodes[0].Restart(false)
		nodes[1].Restart(false)
		require.ErrorIs(t, factoryOf(t, nodes.Pools()).NewMutex("jobs").TryLock(), redlock.ErrTaken)
		time.Sleep(time.Second)
		require.True(t, m.Valid())
		ok, err := m.Extend()
		require.NoError(t, err)
		require.True(t, ok)
		unlock(t, m)
	})
}

package redlock_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/redlocktest"
)

// Cases from the field: nodes that forget.

// shortestGuard is the shortest longest hold that the guard takes.
const shortestGuard = 10001 * time.Millisecond

// A lock is held on a bare majority, and one of its nodes comes back without it:
// empty, or from a snapshot that is older than the grant. That node and the one that
// never had the lock are a majority. The guard keeps them from being one; without it
// they are, which is what the guard is for.
func TestCase18_NodeForgetsWhileHeldOnABareMajority(t *testing.T) {
	t.Parallel()
	for _, guarded := range []bool{true, false} {
		for _, snapshot := range []bool{false, true} {
			t.Run(fmt.Sprintf("guard %v, old snapshot %v", guarded, snapshot), func(t *testing.T) {
				t.Parallel()
				forgetAndTryAgain(t, guarded, snapshot)
			})
		}
	}
}

func forgetAndTryAgain(t *testing.T, guarded, snapshot bool) {
	servers := testutil.StartRedisN(t, 3)
	proxies, nodes := proxied(t, servers)
	opts := []redlock.Option{redlock.WithExpiry(4 * time.Second), redlock.WithNodeTimeout(time.Second)}
	if guarded {
		opts = append(opts, redlock.WithRestartGuard(shortestGuard))
	}
	first := factoryOf(t, nodes, opts...).NewMutex("jobs")
	second := factory(t, servers, opts...).NewMutex("jobs")
	if guarded {
		// New servers may have forgotten something, too, as far as anyone knows. These are
		// given what they have once they have been up for a longest hold.
		require.ErrorIs(t, first.TryLock(), redlock.ErrNoQuorum)
		for _, s := range servers {
			info, err := redis.String(s.Do("INFO", "server"))
			require.NoError(t, err)
			_, run, _ := strings.Cut(info, "run_id:")
			run, _, _ = strings.Cut(run, "\r\n")
			s.MustDo(t, "SET", "jobs:m{jobs}", run+" 0", "PX", 60000)
		}
	}
	testutil.Eventually(t, settle, func() bool { return second.TryLock() == nil }, "the nodes take part")
	unlock(t, second)
	requireFree(t, servers, "jobs")
	if snapshot {
		servers[0].MustDo(t, "SAVE")
	}
	require.NoError(t, proxies[2].Refuse(true))
	require.NoError(t, first.Lock())
	requireHeld(t, servers, "jobs", 2)
	if snapshot {
		require.NoError(t, servers[0].Restart())
		keys, err := servers[0].Keys()
		require.NoError(t, err)
		require.NotEmpty(t, keys, "it has its old keys")
	} else {
		require.NoError(t, servers[0].RestartEmpty())
	}
	require.Empty(t, lockedBy(t, servers[0], "jobs"))

	if !guarded {
		// A connection from before the restart fails a try of a client.
		testutil.Eventually(t, settle, func() bool { return second.TryLock() == nil }, "two nodes of three know nothing of the first")
		require.True(t, first.Valid(), "a second holder beside the first")
		require.Greater(t, second.Token(), first.Token(), "of which the resource can tell")
		return
	}
	refused := 0
	for first.Valid() {
		err := second.TryLock()
		if err == nil {
			require.False(t, first.Valid(), "a second holder beside the first")
			unlock(t, second)
			break
		}
		if strings.Contains(err.Error(), "restarted: takes no part for another") {
			refused++
		}
	}
	require.Greater(t, refused, 10, "the node that forgot was asked, and refused")
	testutil.Eventually(t, settle, func() bool { return second.TryLock() == nil }, "the other two are free")
	require.Empty(t, lockedBy(t, servers[0], "jobs"), "the guard outlives the expiry")
	unlock(t, second)
}

// An extend reaches a node in quarantine, and counts there no more than the grant did.
func TestGuardExtendsDoNotCountInQuarantine(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		guard := redlock.WithRestartGuard(20 * time.Second)
		m := factoryOf(t, nodes.Pools(), guard).NewMutex("jobs")
		require.NoError(t, m.Lock())
		time.Sleep(time.Second)
		nodes[0].Restart(true) // with its keys: what it granted stands
		nodes[1].Down()
		before := m.Until()
		_, err := m.Extend()
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.Equal(t, before, m.Until(), "one node's word for more is not enough")
		require.True(t, m.Valid(), "but for what was granted it is")
		nodes[1].Up()
		ok, err := m.Extend()
		require.NoError(t, err)
		require.True(t, ok)
		require.True(t, m.Until().After(before))
		require.ErrorIs(t, m.Check(t.Context()), nil)
		unlock(t, m)
	})
}

// A held lock on a bare majority is lost with one of its nodes: in time, and told.
func TestGuardHoldOnABareMajorityIsToldOfItsLoss(t *testing.T) {
	for _, opts := range [][]redlock.Option{nil, {redlock.WithRestartGuard(20 * time.Second)}} {
		t.Run(fmt.Sprintf("guard %v", opts != nil), func(t *testing.T) {
			virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
				m := factoryOf(t, nodes.Pools(), opts...).NewMutex("jobs")
				nodes[2].Down()
				held, err := m.Hold(t.Context())
				require.NoError(t, err)
				until := m.Until()
				nodes[0].Restart(false)
				<-held.Done()
				require.True(t, time.Now().Before(until))
				_, err = m.Unlock()
				require.ErrorIs(t, err, redlock.ErrExpired)
			})
		})
	}
}

// The quarantine is counted from the first sight of a restarted node, and is over after
// the longest hold.
func TestGuardQuarantineEnds(t *testing.T) {
	for _, kept := range []bool{true, false} {
		t.Run(fmt.Sprintf("keys kept %v", kept), func(t *testing.T) {
			virtual(t, 1, func(t *testing.T, nodes redlocktest.Nodes) {
				r := factoryOf(t, nodes.Pools(), redlock.WithRestartGuard(20*time.Second))
				m := r.NewMutex("jobs")
				require.NoError(t, m.Lock())
				unlock(t, m)
				// It starts late in a second and is seen early in one: more seconds have begun
				// than have passed.
				time.Sleep(800 * time.Millisecond)
				nodes[0].Restart(kept)
				const seen = 5*time.Second + 300*time.Millisecond
				time.Sleep(seen)
				require.ErrorIs(t, m.TryLock(), redlock.ErrNoQuorum)
				// Without its keys all that is known is when it started.
				left := 20*time.Second - seen
				if kept {
					left = 20 * time.Second
				}
				time.Sleep(left - time.Millisecond)
				require.ErrorIs(t, m.TryLock(), redlock.ErrNoQuorum)
				time.Sleep(time.Second + time.Millisecond) // uptime is in whole seconds
				require.NoError(t, m.TryLock())
				unlock(t, m)
			})
		})
	}
}

// Neither an expiry nor an extend may be above what the fleet has agreed on.
func TestGuardBoundsEveryHold(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		r := factoryOf(t, nodes.Pools(), redlock.WithRestartGuard(20*time.Second))
		require.ErrorIs(t, r.NewMutex("jobs", redlock.WithExpiry(21*time.Second)).Lock(), redlock.ErrInvalidOption)
		require.ErrorIs(t, r.NewMutex("jobs", redlock.WithRestartGuard(10*time.Second)).Lock(), redlock.ErrInvalidOption)
		m := r.NewMutex("jobs")
		require.NoError(t, m.Lock())
		_, err := m.ExtendFor(t.Context(), 21*time.Second)
		require.ErrorIs(t, err, redlock.ErrInvalidOption)
		ok, err := m.ExtendFor(t.Context(), 20*time.Second)
		require.NoError(t, err)
		require.True(t, ok)
		unlock(t, m)
	})
}

// Where INFO is not permitted the guard cannot work, and says so; it does not guess.
func TestGuardNeedsInfo(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		for _, n := range nodes {
			n.RefuseCommand("INFO", "NOPERM this user has no permissions to run the 'info' command")
		}
		err := factoryOf(t, nodes.Pools(), redlock.WithRestartGuard(20*time.Second)).NewMutex("jobs").Lock()
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "info")
		var fault *redlock.NodeError
		require.ErrorAs(t, err, &fault)
		require.True(t, fault.Permanent())
	})
}

func TestGuardOfSeveralNames(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		guard := redlock.WithRestartGuard(20 * time.Second)
		nodes[2].Down()
		m := factoryOf(t, nodes.Pools(), guard).NewMultiMutex([]string{"a", "b"})
		require.NoError(t, m.Lock())
		synctest.Wait() // the node that is down has been asked
		nodes[0].Restart(false)
		nodes[2].Up()
		for _, next := range []*redlock.Mutex{
			factoryOf(t, nodes.Pools(), guard).NewMutex("a"),
			factoryOf(t, nodes.Pools(), guard).NewMutex("b"),
			factoryOf(t, nodes.Pools(), guard).NewMultiMutex([]string{"b", "c"}),
		} {
			require.ErrorIs(t, next.TryLock(), redlock.ErrFailed)
			time.Sleep(10 * time.Millisecond) // what it got is given back
		}
		require.NoError(t, factoryOf(t, nodes.Pools()).NewMutex("b").TryLock(), "without the guard there is a second holder")
		require.True(t, m.Valid())
	})
}

package redlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/redlocktest"
)

func TestInspectShowsTheHolder(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	r := factory(t, servers, patient())
	s, err := r.Inspect(t.Context(), "jobs")
	require.NoError(t, err)
	require.False(t, s.Held)
	require.Zero(t, s.Token)
	m := r.NewMutex("jobs")
	require.NoError(t, m.Lock())
	requireHeld(t, servers, "jobs", 3)
	s, err = r.Inspect(t.Context(), "jobs")
	require.NoError(t, err)
	require.True(t, s.Held)
	require.Equal(t, m.Value(), s.Value)
	require.Equal(t, m.Token(), s.Token)
	require.Greater(t, s.TTL, 4*time.Second)
	require.LessOrEqual(t, s.TTL, 8*time.Second)
	require.Len(t, s.Nodes, 3)
	for i, n := range s.Nodes {
		require.Equal(t, i, n.Node)
		require.Equal(t, servers[i].Addr(), n.Addr)
		require.Equal(t, m.Value(), n.Value)
		require.Equal(t, m.Token(), n.Token)
		require.Equal(t, m.Token(), n.Fence)
		require.NoError(t, n.Err)
	}
	unlock(t, m)
}

func TestInspectCountsWaiters(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		r := factoryOf(t, nodes.Pools())
		m := r.NewMutex("jobs")
		_, err := m.Hold(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		const clients = 4
		done := make(chan error, clients)
		for range clients {
			go func() { done <- factoryOf(t, nodes.Pools()).NewMutex("jobs").LockContext(ctx) }()
		}
		time.Sleep(5 * time.Second)
		s, err := r.Inspect(t.Context(), "jobs")
		require.NoError(t, err)
		require.Equal(t, clients, s.Waiters)
		for _, n := range s.Nodes {
			require.Equal(t, clients, n.Waiters)
		}
		cancel()
		for range clients {
			require.ErrorIs(t, <-done, context.Canceled)
		}
		time.Sleep(time.Millisecond)
		s, err = r.Inspect(t.Context(), "jobs")
		require.NoError(t, err)
		require.Zero(t, s.Waiters)
		unlock(t, m)
	})
}

// The worst of views: a vote that is split, a holder of another library, a key that
// never expires, and a node that does not answer.
func TestInspectOddStates(t *testing.T) {
	virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
		r := factoryOf(t, nodes.Pools())
		look := func() *redlock.Status {
			s, err := r.Inspect(t.Context(), "jobs")
			require.NoError(t, err)
			return s
		}
		nodes[0].Set("jobs", "foreign", 0)
		nodes[1].Set("jobs", "foreign", time.Minute)
		nodes[2].Set("jobs", "other.nonce.1234", time.Minute)
		s := look()
		require.False(t, s.Held, "nobody has a quorum")
		require.Equal(t, "foreign", s.Nodes[0].Value)
		require.Negative(t, s.Nodes[0].TTL)
		require.Zero(t, s.Nodes[0].Token)
		require.EqualValues(t, 1234, s.Nodes[2].Token)
		require.Empty(t, s.Nodes[3].Value)

		nodes[2].Set("jobs", "foreign", 30*time.Second)
		s = look()
		require.True(t, s.Held)
		require.Equal(t, "foreign", s.Value)
		require.Zero(t, s.Token)
		require.Equal(t, 30*time.Second, s.TTL, "then a quorum is free of it")
		for _, n := range nodes[:3] {
			n.Set("jobs", "foreign", 0)
		}
		require.Negative(t, look().TTL, "it never loses its quorum")

		nodes[3].Down()
		nodes[4].Hang()
		s = look()
		require.True(t, s.Held)
		for _, i := range []int{3, 4} {
			var fault *redlock.NodeError
			require.ErrorAs(t, s.Nodes[i].Err, &fault)
			require.Equal(t, i, fault.Node)
		}
		nodes[2].Down()
		s, err := r.Inspect(t.Context(), "jobs")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.Len(t, nodeErrors(err), 3)
		require.Equal(t, "foreign", s.Nodes[0].Value, "what was learned is told all the same")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		s, err = r.Inspect(ctx, "jobs")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, "foreign", s.Nodes[1].Value)
		nodes[4].Resume()
	})
}

// Pools that read no text: holders are told apart by their ballots.
func TestInspectWithoutText(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		var bare []pool.Pool
		for _, n := range nodes {
			bare = append(bare, struct{ pool.Pool }{n})
		}
		r := factoryOf(t, bare)
		m := r.NewMutex("jobs")
		require.NoError(t, m.Lock())
		synctest.Wait()
		s, err := r.Inspect(t.Context(), "jobs")
		require.NoError(t, err)
		require.True(t, s.Held)
		require.Empty(t, s.Value)
		require.Equal(t, m.Token(), s.Token)
		require.ErrorIs(t, r.Break(t.Context(), "jobs"), redlock.ErrInvalidOption, "break must know whom it breaks")
		unlock(t, m)
	})
}

// Inspect changes nothing, not even the life of a key.
func TestInspectChangesNothing(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		r := factoryOf(t, nodes.Pools())
		m := r.NewMutex("jobs")
		require.NoError(t, m.Lock())
		time.Sleep(time.Second)
		before := nodes[0].Keys()
		ttl, _ := nodes[0].TTL("jobs")
		for range 3 {
			_, err := r.Inspect(t.Context(), "jobs")
			require.NoError(t, err)
		}
		require.Equal(t, before, nodes[0].Keys())
		after, _ := nodes[0].TTL("jobs")
		require.Equal(t, ttl, after)
		_, err := r.Inspect(t.Context(), "never")
		require.NoError(t, err)
		require.Equal(t, before, nodes[0].Keys())
		unlock(t, m)
	})
}

func TestCheckAsksTheNodes(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		m := factoryOf(t, nodes.Pools()).NewMutex("jobs")
		require.ErrorIs(t, m.Check(t.Context()), redlock.ErrNotHeld)
		require.NoError(t, m.Lock())
		time.Sleep(time.Second)
		until := m.Until()
		ttl, _ := nodes[0].TTL("jobs")
		require.NoError(t, m.Check(t.Context()))
		synctest.Wait()
		after, _ := nodes[0].TTL("jobs")
		require.Equal(t, ttl, after, "it lengthens nothing")
		require.Equal(t, until, m.Until())
		nodes[0].Del("jobs")
		require.NoError(t, m.Check(t.Context()))
		synctest.Wait()
		require.Equal(t, 2, heldBy(nodes, "jobs"), "it brings nothing back")
		nodes[1].Down()
		nodes[2].Down()
		require.ErrorIs(t, m.Check(t.Context()), redlock.ErrNoQuorum)
		require.True(t, m.Valid(), "silence is no proof of a loss")
		nodes[1].Up()
		nodes[2].Up()
		require.NoError(t, m.Check(t.Context()))
		nodes[1].Set("jobs", "somebody-else", time.Minute)
		require.ErrorIs(t, m.Check(t.Context()), redlock.ErrTaken)
		require.False(t, m.Valid(), "two nodes have said that it is gone")
		require.ErrorIs(t, m.Check(t.Context()), redlock.ErrExpired)
		_, _ = m.Unlock()
	})
}

// A node that would have ended the lock before its time is no witness for it.
func TestNodeThatShortenedALockLosesItsVote(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	m := factory(t, servers, patient(), redlock.WithExpiry(20*time.Second)).NewMutex("jobs")
	require.NoError(t, m.Lock())
	requireHeld(t, servers, "jobs", 3)
	testutil.Eventually(t, settle, func() bool { return ledgerNodes(m) == 3 }, "the last reply is in, too")
	servers[0].MustDo(t, "PEXPIRE", "jobs", 2000)
	ok, err := m.Extend()
	require.NoError(t, err)
	require.True(t, ok)
	testutil.Eventually(t, settle, func() bool { return ledgerNodes(m) == 2 }, "the vote is lost")

	// Its word counts again: what it keeps now it has just been told.
	testutil.Eventually(t, settle, func() bool { ok, err := m.Extend(); return ok && err == nil && ledgerNodes(m) == 3 }, "it votes again")

	// Two of them are no quorum, and none of their former votes stands.
	servers[0].MustDo(t, "PEXPIRE", "jobs", 2000)
	servers[1].MustDo(t, "PEXPIRE", "jobs", 2000)
	_, err = m.Extend()
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.Len(t, nodeErrors(err), 2)
	require.ErrorContains(t, err, "before its time")
	require.False(t, m.Valid())
	_, err = m.Unlock()
	require.ErrorIs(t, err, redlock.ErrExpired)
	requireFree(t, servers, "jobs")
}

// An operator who took the expiry away has not shortened anything.
func TestKeyWithoutExpiryIsNoContradiction(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		m := factoryOf(t, nodes.Pools()).NewMutex("jobs")
		require.NoError(t, m.Lock())
		time.Sleep(time.Second)
		for _, n := range nodes {
			n.Set("jobs", m.Value(), 0)
		}
		ok, err := m.Extend()
		require.NoError(t, err)
		require.True(t, ok)
		synctest.Wait()
		for _, n := range nodes {
			ttl, _ := n.TTL("jobs")
			require.Equal(t, 8*time.Second, ttl, "an extend gives it an end again")
		}
		unlock(t, m)
	})
}

// Check, Extend and Unlock of a mutex that is misconfigured or was never locked say so
// and ask no node.
func TestVerbsWithoutAGrantAskNobody(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		r := factoryOf(t, nodes.Pools())
		for _, c := range []struct {
			m    *redlock.Mutex
			want error
		}{{r.NewMutex("jobs"), redlock.ErrNotHeld}, {r.NewMutex(""), redlock.ErrInvalidOption}} {
			_, extend := c.m.Extend()
			_, unlock := c.m.Unlock()
			for _, err := range []error{extend, unlock, c.m.Check(t.Context())} {
				require.True(t, errors.Is(err, c.want), "%v", err)
			}
		}
		for _, n := range nodes {
			require.Empty(t, n.Stats().Executed)
		}
	})
}

// A grant that ended with the very replies is over for good, and the error says so.
func TestWhatIsOverByTheRepliesIsExpired(t *testing.T) {
	for title, lose := range map[string]func(n *redlocktest.Node, value string){
		"forgotten": func(n *redlocktest.Node, _ string) { n.FlushAll() },
		"shortened": func(n *redlocktest.Node, value string) { n.Set("jobs", value, 100*time.Millisecond) },
	} {
		for verb, do := range map[string]func(context.Context, *redlock.Mutex) error{
			"extend": func(ctx context.Context, m *redlock.Mutex) error { _, err := m.ExtendContext(ctx); return err },
			"check":  func(ctx context.Context, m *redlock.Mutex) error { return m.Check(ctx) },
		} {
			t.Run(title+", "+verb, func(t *testing.T) {
				virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
					m := factoryOf(t, nodes.Pools()).NewMutex("jobs")
					require.NoError(t, m.Lock())
					synctest.Wait()
					for _, n := range nodes {
						lose(n, m.Value())
					}
					require.ErrorIs(t, do(t.Context(), m), redlock.ErrExpired)
					require.False(t, m.Valid())
					_, _ = m.Unlock()
				})
			})
		}
	}
}

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/redlocktest"
)

// envValue hands a lock to a child.
const envValue = "REDLOCK_TEST_VALUE"

func init() { childModes["take over"] = takeOverChild }

// takeOverChild is the process that a held lock is handed to.
func takeOverChild() error {
	nodes, done := childPools()
	defer done()
	r, err := redlock.New(nodes, patient())
	if err != nil {
		return err
	}
	m := r.NewMutex("jobs", redlock.WithValue(os.Getenv(envValue)))
	if err := m.Check(context.Background()); err != nil {
		return err
	}
	if ok, err := m.ExtendFor(context.Background(), time.Hour); !ok || err != nil {
		return fmt.Errorf("extend: %v, %w", ok, err)
	}
	if !m.Valid() || time.Until(m.Until()) < time.Minute {
		return fmt.Errorf("valid %v until %v", m.Valid(), m.Until())
	}
	if ok, err := m.Unlock(); !ok || err != nil {
		return fmt.Errorf("unlock: %v, %w", ok, err)
	}
	if _, err := m.Unlock(); !errors.Is(err, redlock.ErrNotHeld) {
		return fmt.Errorf("unlock again: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), settle)
	defer cancel()
	return r.Close(ctx)
}

func TestHandOverToAnotherProcess(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	giver := factory(t, servers, patient()).NewMutex("jobs")
	require.NoError(t, giver.Lock())
	requireHeld(t, servers, "jobs", 3)
	cmd, said := child(t, "take over", envAddrs+"="+addrsOf(servers), envValue+"="+giver.Value())
	require.NoError(t, cmd.Wait(), "the child said: %s", said)
	require.Zero(t, holders(t, servers, "jobs"))
	_, err := giver.Unlock()
	require.ErrorIs(t, err, redlock.ErrExpired)
}

// A value that nobody holds any more gives no right to anything.
func TestHandOverOfAnOldValue(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		giver := factoryOf(t, nodes.Pools()).NewMutex("jobs")
		require.NoError(t, giver.Lock())
		value := giver.Value()
		unlock(t, giver)
		time.Sleep(time.Millisecond)
		taker := func() *redlock.Mutex {
			return factoryOf(t, nodes.Pools()).NewMutex("jobs", redlock.WithValue(value))
		}
		require.ErrorIs(t, taker().Check(t.Context()), redlock.ErrExpired)
		_, err := taker().Extend()
		require.ErrorIs(t, err, redlock.ErrExpired)
		_, err = taker().Unlock()
		require.ErrorIs(t, err, redlock.ErrExpired)
		next := factoryOf(t, nodes.Pools()).NewMutex("jobs")
		require.NoError(t, next.Lock())
		synctest.Wait()
		require.ErrorIs(t, taker().Check(t.Context()), redlock.ErrTaken)
		_, err = taker().Extend()
		require.ErrorIs(t, err, redlock.ErrTaken)
		_, err = taker().Unlock()
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.NoError(t, next.Check(t.Context()))
		unlock(t, next)
	})
}

// Several names are handed over as one.
func TestHandOverOfSeveralNames(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		giver := factoryOf(t, nodes.Pools()).NewMultiMutex([]string{"a", "b", "c"})
		require.NoError(t, giver.Lock())
		synctest.Wait()
		taker := factoryOf(t, nodes.Pools()).NewMultiMutex([]string{"c", "b", "a"}, redlock.WithValue(giver.Value()))
		require.Equal(t, giver.Token(), taker.Token())
		ok, err := taker.Extend()
		require.NoError(t, err)
		require.True(t, ok)
		require.True(t, taker.Valid())
		unlock(t, taker)
		time.Sleep(time.Millisecond)
		for _, name := range []string{"a", "b", "c"} {
			require.Zero(t, heldBy(nodes, name))
		}
	})
}

// What go-zero's lock does: the same value enters again, its life starts anew, and an
// attempt that fails takes nothing away.
func TestReentryRefreshes(t *testing.T) {
	for _, value := range []string{"worker-7", "worker.7", "worker-7.nonce.1234"} {
		t.Run(value, func(t *testing.T) {
			virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
				mine := func() *redlock.Mutex {
					return factoryOf(t, nodes.Pools()).NewMutex("jobs", redlock.WithValue(value), redlock.WithReentry())
				}
				first := mine()
				require.NoError(t, first.Lock())
				time.Sleep(3 * time.Second)
				second := mine()
				require.NoError(t, second.TryLock())
				require.Greater(t, second.Token(), first.Token())
				synctest.Wait()
				for _, n := range nodes {
					ttl, found := n.TTL("jobs")
					require.True(t, found)
					require.Greater(t, ttl, 7*time.Second, "it lives for an expiry from now")
				}
				other := factoryOf(t, nodes.Pools()).NewMutex("jobs")
				require.ErrorIs(t, other.TryLock(), redlock.ErrTaken)

				// Two nodes do not answer in time: the attempt fails, and deletes nothing.
				nodes[0].DropReplies(true)
				nodes[1].DropReplies(true)
				require.ErrorIs(t, mine().TryLock(), redlock.ErrNoQuorum)
				nodes[0].DropReplies(false)
				nodes[1].DropReplies(false)
				time.Sleep(2 * time.Second)
				require.Equal(t, 3, heldBy(nodes, "jobs"))
				require.True(t, second.Valid())
				require.NoError(t, second.Check(t.Context()))
				unlock(t, second)
				time.Sleep(time.Millisecond)
				require.Zero(t, heldBy(nodes, "jobs"))
				require.NoError(t, other.TryLock())
				require.ErrorIs(t, mine().TryLock(), redlock.ErrTaken, "only what holds the value")
				unlock(t, other)
			})
		})
	}
}

func TestReentryNeedsAValue(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		require.ErrorIs(t, factoryOf(t, nodes.Pools()).NewMutex("jobs", redlock.WithReentry()).Lock(), redlock.ErrInvalidOption)
		// Without reentry even the holder of the value is somebody else.
		holder := factoryOf(t, nodes.Pools()).NewMutex("jobs")
		require.NoError(t, holder.Lock())
		synctest.Wait()
		require.ErrorIs(t, factoryOf(t, nodes.Pools()).NewMutex("jobs", redlock.WithValue(holder.Value())).TryLock(), redlock.ErrTaken)
		unlock(t, holder)
	})
}

func TestExtendForLengthensAndNeverShortens(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		m := factoryOf(t, nodes.Pools()).NewMutex("jobs")
		require.NoError(t, m.Lock())
		synctest.Wait()
		ok, err := m.ExtendFor(t.Context(), time.Minute)
		require.NoError(t, err)
		require.True(t, ok)
		require.InDelta(t, time.Minute-602*time.Millisecond, time.Until(m.Until()), float64(time.Millisecond), "less the drift of a minute")
		until := m.Until()
		synctest.Wait()
		for _, d := range []time.Duration{time.Second, 8 * time.Second, 5 * time.Millisecond} {
			ok, err = m.ExtendFor(t.Context(), d)
			require.NoError(t, err)
			require.True(t, ok)
			synctest.Wait()
			require.Equal(t, until, m.Until())
			for _, n := range nodes {
				ttl, _ := n.TTL("jobs")
				require.Greater(t, ttl, 59*time.Second)
				ttl, _ = n.TTL("jobs:f{jobs}")
				require.Greater(t, ttl, 79*time.Second, "nor the fence's life")
			}
		}
		// In whole milliseconds, for nodes know no others.
		_, err = m.ExtendFor(t.Context(), 2*time.Minute+900*time.Microsecond)
		require.NoError(t, err)
		require.LessOrEqual(t, time.Until(m.Until()), 2*time.Minute-1202*time.Millisecond)
		for _, d := range []time.Duration{0, -time.Second, time.Microsecond, 2 * time.Millisecond} {
			_, err = m.ExtendFor(t.Context(), d)
			require.ErrorIs(t, err, redlock.ErrInvalidOption)
			require.ErrorIs(t, err, redlock.ErrExtendFailed)
		}
		require.True(t, m.Valid())
		unlock(t, m)
	})
}

// An extend under a hold: renewal goes on, and takes nothing back.
func TestExtendForUnderAHold(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		m := factoryOf(t, nodes.Pools()).NewMutex("jobs")
		held, err := m.Hold(t.Context())
		require.NoError(t, err)
		_, err = m.ExtendFor(t.Context(), time.Minute)
		require.NoError(t, err)
		until := m.Until()
		time.Sleep(20 * time.Second)
		require.Equal(t, until, m.Until())
		for _, n := range nodes {
			n.Down()
		}
		time.Sleep(35 * time.Second)
		require.NoError(t, held.Err(), "what was granted is used up")
		<-held.Done()
		require.InDelta(t, 400*time.Millisecond, time.Until(until), float64(2*time.Millisecond))
		_, _ = m.Unlock()
	})
}

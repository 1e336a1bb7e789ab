package redlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/redlocktest"
)

// inLine has a Lock of first under way, and gives the results of it and of one that
// came behind it in the same process.
func inLine(t *testing.T, r *redlock.Redlock, first, second *redlock.Mutex) (one, two error) {
	t.Helper()
	ones, twos := make(chan error, 1), make(chan error, 1)
	go func() { ones <- first.Lock() }()
	time.Sleep(time.Millisecond)
	go func() { twos <- second.Lock() }()
	one, two = <-ones, <-twos
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, _ = second.Unlock()
	require.NoError(t, r.Close(ctx))
	return one, two
}

// What one finds for reasons of its own is no answer for those behind it.
func TestTurnPassesOwnFailures(t *testing.T) {
	t.Parallel()
	broken := errors.New("no entropy")
	for title, own := range map[string]redlock.Option{
		"its value cannot be made": redlock.WithGenValueFunc(func() (string, error) {
			time.Sleep(50 * time.Millisecond)
			return "", broken
		}),
		"it has less patience": redlock.WithNodeTimeout(10 * time.Millisecond),
		"its expiry is short":  redlock.WithExpiry(40 * time.Millisecond),
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := redlocktest.NewNodes(3)
				for _, n := range nodes {
					n.SetDelay(0, 100*time.Millisecond)
				}
				r, err := redlock.New(nodes.Pools())
				require.NoError(t, err)
				one, two := inLine(t, r, r.NewMutex("jobs", own), r.NewMutex("jobs"))
				require.ErrorIs(t, one, redlock.ErrFailed)
				require.NoError(t, two)
			})
		})
	}
}

// What one finds that all with its demands would find ends their waiting, too.
func TestTurnSharesWhatAllWouldFind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.NewNodes(3)
		nodes[0].Down()
		nodes[1].Down()
		r, err := redlock.New(nodes.Pools())
		require.NoError(t, err)
		const crowd = 50
		started := time.Now()
		errs := make(chan error, crowd)
		for range crowd {
			// Options of its own, of the same values.
			m := r.NewMutex("jobs", redlock.WithExpiry(8*time.Second))
			go func() { errs <- m.Lock() }()
		}
		for range crowd {
			require.ErrorIs(t, <-errs, redlock.ErrNoQuorum)
		}
		require.Less(t, time.Since(started), 5*time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, r.Close(ctx))
	})
}

// A function of the user's that panics takes no turn and no mutex with it.
func TestTurnSurvivesAPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, err := redlock.New(redlocktest.NewNodes(3).Pools())
		require.NoError(t, err)
		bad := true
		m := r.NewMutex("jobs", redlock.WithGenValueFunc(func() (string, error) {
			if bad {
				panic("no entropy")
			}
			return "ours", nil
		}))
		require.PanicsWithValue(t, "no entropy", func() { _ = m.Lock() })
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		other := r.NewMutex("jobs")
		require.NoError(t, other.LockContext(ctx))
		unlock(t, other)
		bad = false
		require.NoError(t, m.LockContext(ctx))
		unlock(t, m)
		require.NoError(t, r.Close(ctx))
	})
}

// An attempt that took too long to be worth anything is no split vote: TryLock makes it
// once.
func TestTryLockTooSlowIsOneAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.NewNodes(3)
		for _, n := range nodes {
			n.SetDelay(0, 200*time.Millisecond)
		}
		r, err := redlock.New(nodes.Pools(), redlock.WithExpiry(time.Second), redlock.WithDriftFactor(0.9),
			redlock.WithRetryDelay(time.Hour))
		require.NoError(t, err)
		started := time.Now()
		require.ErrorIs(t, r.NewMutex("jobs").TryLock(), redlock.ErrNoQuorum)
		require.Less(t, time.Since(started), 2*time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, r.Close(ctx))
	})
}

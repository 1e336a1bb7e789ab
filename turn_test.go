package redlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/redlocktest"
)

func turnstile(t *testing.T) (*Redlock, *Mutex) {
	t.Helper()
	r, err := New(redlocktest.NewNodes(3).Pools())
	require.NoError(t, err)
	return r, r.NewMutex("jobs")
}

// Turns come in the order of arrival, and one that was given back by somebody who
// gave up goes to the next.
func TestTurnsAreFIFO(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, m := turnstile(t)
		first, err := r.turns.enter(t.Context(), m)
		require.NoError(t, err)
		const waiters = 20
		order := make(chan int, waiters)
		gaveUp := make(chan error, waiters)
		impatient, lose := context.WithCancel(t.Context())
		for i := range waiters {
			go func() {
				ctx := t.Context()
				if i%3 == 0 {
					ctx = impatient
				}
				mine, err := r.turns.enter(ctx, m)
				if err != nil {
					gaveUp <- err
					return
				}
				order <- i
				time.Sleep(time.Second) // virtual: all others wait meanwhile
				mine.leave()
			}()
			synctest.Wait()
		}
		lose()
		synctest.Wait()
		require.Len(t, gaveUp, 7)
		require.ErrorIs(t, <-gaveUp, context.Canceled)
		require.Empty(t, order, "nobody enters beside the one that has the turn")
		first.leave()
		for i := range waiters {
			if i%3 != 0 {
				require.Equal(t, i, <-order)
			}
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Empty(t, r.turns.names, "idle names take no memory")
	})
}

// A turn that comes just when its waiter gives up is not lost: whatever it
// chooses, the next one enters.
func TestTurnMeetsTheEndOfItsWaiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, m := turnstile(t)
		entered, gaveUp := 0, 0
		for round := range 300 {
			first, err := r.turns.enter(t.Context(), m)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			second, third := make(chan error, 1), make(chan error, 1)
			go func() {
				mine, err := r.turns.enter(ctx, m)
				if err == nil {
					mine.leave()
				}
				second <- err
			}()
			synctest.Wait()
			go func() {
				mine, err := r.turns.enter(t.Context(), m)
				if err == nil {
					mine.leave()
				}
				third <- err
			}()
			synctest.Wait()
			// The waiter finds both when it runs next.
			if round%2 == 0 {
				cancel()
			}
			first.leave()
			cancel()
			if err := <-second; err == nil {
				entered++
			} else {
				require.ErrorIs(t, err, context.Canceled)
				gaveUp++
			}
			require.NoError(t, <-third)
			synctest.Wait()
			require.Empty(t, r.turns.names)
		}
		t.Logf("entered %d, gave up %d", entered, gaveUp)
		require.Positive(t, entered)
		require.Positive(t, gaveUp)
	})
}

// One who gives up in line never asked a node; the error carries what the one
// whose turn it is was told.
func TestTurnKeepsWhatIsKnownOfTheHolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.NewNodes(3)
		holder, err := New(nodes.Pools())
		require.NoError(t, err)
		held := holder.NewMutex("jobs")
		require.NoError(t, held.Lock())
		synctest.Wait() // until it has every node
		r, err := New(nodes.Pools())
		require.NoError(t, err)
		patientCtx, enough := context.WithCancel(t.Context())
		go func() { _ = r.NewMutex("jobs").LockContext(patientCtx) }()
		time.Sleep(10 * time.Millisecond)

		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err = r.NewMutex("jobs").LockContext(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrFailed)
		require.ErrorIs(t, err, ErrTaken)
		var taken *TakenError
		require.True(t, errors.As(err, &taken))
		require.GreaterOrEqual(t, len(taken.Nodes), 2)
		require.Equal(t, held.Token(), taken.Token)
		require.Positive(t, taken.TTL)

		// Close ends the wait in line as well.
		ended := make(chan error, 1)
		go func() { ended <- r.NewMutex("jobs").Lock() }()
		synctest.Wait()
		require.NoError(t, r.Close(t.Context()))
		require.ErrorIs(t, <-ended, ErrClosed)
		enough()
		require.NoError(t, holder.Close(t.Context()))
		synctest.Wait()
	})
}

func TestLinesAreToldApart(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, lineOf([]string{"a\x00b", "c"}), lineOf([]string{"a", "b\x00c"}))
	require.NotEqual(t, lineOf([]string{"a1:b"}), lineOf([]string{"a", "b"}))
	require.NotEqual(t, line{name: lineOf([]string{"a", "b"}).name}, lineOf([]string{"a", "b"}), "a name may look like a set")
}

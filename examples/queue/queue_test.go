package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/examples/queue"
	"github.com/quorumlock/redlock/redlocktest"
)

func worker(t *testing.T, nodes redlocktest.Nodes) *redlock.Redlock {
	t.Helper()
	locks, err := redlock.New(nodes.Pools())
	require.NoError(t, err)
	return locks
}

// A queue that delivers each of twenty jobs to three of four workers, and again to
// those who were told that another is at it.
func TestEachJobOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.NewNodes(3)
		for _, n := range nodes {
			n.SetDelay(time.Millisecond, time.Millisecond)
		}
		store := queue.NewStore()
		var mu sync.Mutex
		worked := map[string]int{}
		work := func(_ context.Context, id string) (string, error) {
			mu.Lock()
			worked[id]++
			mu.Unlock()
			time.Sleep(time.Second)
			return "result of " + id, nil
		}
		fleet := make([]*redlock.Redlock, 4)
		for i := range fleet {
			fleet[i] = worker(t, nodes)
		}
		var group sync.WaitGroup
		elsewhere := 0
		for job := range 20 {
			id := fmt.Sprint(job)
			for copies := range 3 {
				group.Go(func() {
					for {
						err := queue.Handle(t.Context(), fleet[(job+copies)%len(fleet)], store, id, work)
						if err == nil {
							return
						}
						if !errors.Is(err, queue.ErrElsewhere) {
							t.Error(err)
							return
						}
						mu.Lock()
						elsewhere++
						mu.Unlock()
						time.Sleep(300 * time.Millisecond) // until it is delivered again
					}
				})
			}
		}
		group.Wait()
		require.Len(t, worked, 20)
		for id, times := range worked {
			require.Equal(t, 1, times, "job %s", id)
			require.Equal(t, "result of "+id, store.Result(id))
		}
		require.Positive(t, elsewhere)
		for _, locks := range fleet {
			require.NoError(t, locks.Close(t.Context()))
		}
	})
}

// A worker that does not look at its context, as a suspended process, is overtaken:
// the result of its successor stays.
func TestLateWorkerIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.NewNodes(3)
		store := queue.NewStore()
		late, next := worker(t, nodes), worker(t, nodes)
		wake := make(chan struct{})
		ended := make(chan error)
		go func() {
			ended <- queue.Handle(t.Context(), late, store, "7", func(context.Context, string) (string, error) {
				<-wake
				return "late", nil
			})
		}()
		synctest.Wait()
		require.ErrorIs(t, queue.Handle(t.Context(), next, store, "7", nil), queue.ErrElsewhere)
		for _, n := range nodes { // its renewals do not arrive
			n.DropRequests(true)
		}
		time.Sleep(10 * time.Second)
		for _, n := range nodes {
			n.DropRequests(false)
		}
		require.NoError(t, queue.Handle(t.Context(), next, store, "7", func(context.Context, string) (string, error) { return "in time", nil }))
		close(wake)
		err := <-ended
		require.ErrorIs(t, err, queue.ErrStale)
		require.ErrorIs(t, err, redlock.ErrLost)
		require.Equal(t, "in time", store.Result("7"))
		require.NoError(t, late.Close(t.Context()))
		require.NoError(t, next.Close(t.Context()))
	})
}

func TestJobThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.NewNodes(3)
		locks, store := worker(t, nodes), queue.NewStore()
		broken := errors.New("no such picture")
		require.ErrorIs(t, queue.Handle(t.Context(), locks, store, "7", func(context.Context, string) (string, error) { return "", broken }), broken)
		require.False(t, store.Done("7"))
		require.NoError(t, queue.Handle(t.Context(), locks, store, "7", func(context.Context, string) (string, error) { return "done", nil }))
		require.NoError(t, locks.Close(t.Context()))
	})
}

// A lock that the work wanted and did not get is a failure of the work: the job is
// not elsewhere.
func TestWorkThatFindsALockTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.NewNodes(3)
		locks, store := worker(t, nodes), queue.NewStore()
		printer := locks.NewMutex("printer")
		require.NoError(t, printer.Lock())
		err := queue.Handle(t.Context(), locks, store, "7", func(ctx context.Context, _ string) (string, error) {
			return "", locks.NewMutex("printer").TryLockContext(ctx)
		})
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.NotErrorIs(t, err, queue.ErrElsewhere)
		_, err = printer.Unlock()
		require.NoError(t, err)
		require.NoError(t, locks.Close(t.Context()))
	})
}

func TestEmptyResultIsAResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks, store := worker(t, redlocktest.NewNodes(3)), queue.NewStore()
		worked := 0
		for range 2 {
			require.NoError(t, queue.Handle(t.Context(), locks, store, "7", func(context.Context, string) (string, error) { worked++; return "", nil }))
		}
		require.Equal(t, 1, worked)
		require.NoError(t, locks.Close(t.Context()))
	})
}

func TestWorkThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks, store := worker(t, redlocktest.NewNodes(3)), queue.NewStore()
		require.Panics(t, func() {
			_ = queue.Handle(t.Context(), locks, store, "7", func(context.Context, string) (string, error) { panic("no paper") })
		})
		require.NoError(t, queue.Handle(t.Context(), locks, store, "7", func(context.Context, string) (string, error) { return "done", nil }))
		require.Equal(t, "done", store.Result("7"))
		require.NoError(t, locks.Close(t.Context()))
	})
}

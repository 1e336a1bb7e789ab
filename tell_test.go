package redlock_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/redlocktest"
)

// asleep is the way to a node of a client that is suspended at some moment: it hears
// and says no more, and its subscription stays.
type asleep struct {
	*redlocktest.Node
	now *atomic.Bool
}

func (a asleep) Eval(ctx context.Context, s *pool.Script, keys []string, args ...any) ([]int64, error) {
	if a.now.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return a.Node.Eval(ctx, s, keys, args...)
}

func (a asleep) Subscribe(ctx context.Context, channel string, ready func(), message func(payload string)) error {
	return a.Node.Subscribe(ctx, channel, ready, func(payload string) {
		if !a.now.Load() {
			message(payload)
		}
	})
}

// A waiter that joined behind two others, with a timer of a second, is told when the
// one before it is called: when that is suspended, it costs a quarter of a second.
// Two nodes tell it, so that it does not matter which one is down.
func TestWhoBecomesFirstIsTold(t *testing.T) {
	for down := -1; down < 5; down++ {
		t.Run(fmt.Sprint("down ", down), func(t *testing.T) {
			virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
				evenly(nodes, 100*time.Microsecond)
				holder, first, third := factoryOf(t, nodes.Pools()), factoryOf(t, nodes.Pools()), factoryOf(t, nodes.Pools())
				var suspended atomic.Bool
				pools := make([]pool.Pool, len(nodes))
				for i, n := range nodes {
					pools[i] = asleep{n, &suspended}
				}
				second := factoryOf(t, pools)

				m := holder.NewMutex("jobs", redlock.WithExpiry(time.Minute))
				require.NoError(t, m.Lock())
				var got [3]<-chan result
				ctx, giveUp := context.WithCancel(t.Context())
				defer giveUp()
				waiting := []*redlock.Mutex{first.NewMutex("jobs"), second.NewMutex("jobs"), third.NewMutex("jobs")}
				for i, w := range waiting {
					got[i] = lockLater(ctx, w)
					time.Sleep(50 * time.Millisecond)
					require.Len(t, queued(nodes, "jobs"), 5*(i+1))
				}
				unlock(t, m)
				require.NoError(t, (<-got[0]).err)
				suspended.Store(true)
				if down >= 0 {
					nodes[down].Down()
				}
				released := time.Now()
				_, err := waiting[0].Unlock()
				require.NoError(t, err)
				r := <-got[2]
				require.NoError(t, r.err)
				require.InDelta(t, 250*time.Millisecond, r.at.Sub(released), float64(5*time.Millisecond))
				unlock(t, waiting[2])
				giveUp()
				require.ErrorIs(t, (<-got[1]).err, context.Canceled)
			})
		})
	}
}

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/redlocktest"
)

// The resource behind a lock, in two forms. The fenced one keeps the highest token it
// has seen and refuses lower ones; the plain one takes everything, and notes each write
// with a token below one it has seen.
var (
	fencedWrite = redis.NewScript(1, `
local seen = tonumber(redis.call('HGET', KEYS[1], 'token') or '0')
if tonumber(ARGV[1]) < seen then
  redis.call('HINCRBY', KEYS[1], 'refused', 1)
  return 0
end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'text', ARGV[2])
return 1`)
	plainWrite = redis.NewScript(1, `
if tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'token') or '0') then
  redis.call('HINCRBY', KEYS[1], 'stale', 1)
end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'text', ARGV[2])
return 1`)
)

// write goes to both, and tells whether the fenced one took it.
func write(store redis.Conn, name string, token int64, text string) (bool, error) {
	if _, err := plainWrite.Do(store, name+":plain", token, text); err != nil {
		return false, err
	}
	return redis.Bool(fencedWrite.Do(store, name+":fenced", token, text))
}

// A fencedRow is a resource in memory.
type fencedRow struct {
	mu             sync.Mutex
	fence          bool
	highest        int64
	stale, refused int
}

func (r *fencedRow) write(token int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case token >= r.highest:
		r.highest = token
	case r.fence:
		r.refused++
	default:
		r.stale++
	}
}

// Holders that stand still between their last look at the lock and the write, for
// longer than it lives: the one thing no lock can help against, but the resource can.
func TestFencedStoreUnderPausedHolders(t *testing.T) {
	for _, fence := range []bool{true, false} {
		t.Run(fmt.Sprintf("fence %v", fence), func(t *testing.T) {
			virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
				row := &fencedRow{fence: fence}
				var all sync.WaitGroup
				for w := range 4 {
					r := factoryOf(t, nodes.Pools())
					all.Go(func() {
						m := r.NewMutex("row")
						for round := range 50 {
							require.NoError(t, m.Lock())
							token := m.Token()
							if m.Valid() { // the last look
								if (w+round)%3 == 0 {
									time.Sleep(time.Duration(10+w) * time.Second)
								}
								row.write(token)
							}
							_, _ = m.Unlock()
						}
					})
				}
				all.Wait()
				t.Logf("stale writes accepted: %d, refused: %d", row.stale, row.refused)
				if fence {
					require.Zero(t, row.stale)
					require.Positive(t, row.refused, "there were some to refuse")
				} else {
					require.Positive(t, row.stale)
				}
			})
		})
	}
}

// Twenty-four locks pass from a holder that lost its nodes to one that has them; both
// write, the loser last.
func TestFencedStoreOnRedis(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	resource := testutil.StartRedis(t)
	store, err := resource.Conn()
	require.NoError(t, err)
	defer store.Close() //nolint:errcheck // a connection of the test
	old := factory(t, servers, redlock.WithExpiry(time.Second), redlock.WithNodeTimeout(900*time.Millisecond))
	next := factory(t, servers, patient())
	const locks = 24
	tokens := map[string]int64{}
	for i := range locks {
		m := old.NewMutex(fmt.Sprintf("row %d", i))
		require.NoError(t, m.Lock())
		tokens[m.Name()] = m.Token()
	}
	for name, token := range tokens {
		m := next.NewMutex(name)
		require.NoError(t, m.Lock()) // waits for the expiry
		ok, err := write(store, name, m.Token(), "new")
		require.NoError(t, err)
		require.True(t, ok)
		ok, err = write(store, name, token, "old")
		require.NoError(t, err)
		require.False(t, ok)
		unlock(t, m)
	}
	for name := range tokens {
		requireText(t, store, name+":fenced", "new")
		requireText(t, store, name+":plain", "old") // without the check the stale write stands
	}
}

func requireText(t testing.TB, store redis.Conn, key, want string) {
	t.Helper()
	got, err := redis.String(store.Do("HGET", key, "text"))
	require.NoError(t, err)
	require.Equal(t, want, got, key)
}

// A holder under Do takes the token from its context all the way to the store.
func TestTokenReachesTheStore(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		r := factoryOf(t, nodes.Pools())
		row := &fencedRow{fence: true}
		save := func(ctx context.Context) error {
			token, ok := redlock.TokenFromContext(ctx)
			if !ok {
				return errors.New("no lock is held")
			}
			row.write(token)
			return nil
		}
		require.Error(t, save(t.Context()))
		for range 3 {
			before := row.highest
			require.NoError(t, r.Do(t.Context(), "row", save))
			require.Greater(t, row.highest, before)
		}
		require.Zero(t, row.refused)
	})
}

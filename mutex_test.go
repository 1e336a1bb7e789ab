package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
	redigopool "github.com/quorumlock/redlock/pool/redigo"
)

// pools makes a redigo pool for each server.
func pools(t testing.TB, servers []*testutil.Server) []pool.Pool {
	t.Helper()
	out := make([]pool.Pool, len(servers))
	for i, s := range servers {
		p := &redis.Pool{
			MaxIdle: 64,
			DialContext: func(ctx context.Context) (redis.Conn, error) {
				return redis.DialContext(ctx, "tcp", s.Addr())
			},
		}
		t.Cleanup(func() { p.Close() })
		out[i] = redigopool.NewNamedPool(p, s.Addr())
	}
	return out
}

// factory makes a Redlock over servers and closes it before them.
func factory(t testing.TB, servers []*testutil.Server, opts ...redlock.Option) *redlock.Redlock {
	t.Helper()
	r, err := redlock.New(pools(t, servers), opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		_ = r.Close(ctx)
	})
	return r
}

func TestLockUnlock(t *testing.T) {
	servers := testutil.StartRedisN(t, 5)
	r := factory(t, servers)
	m := r.NewMutex("jobs")
	var last int64
	for range 100 {
		require.NoError(t, m.Lock())
		require.Greater(t, m.Token(), last)
		last = m.Token()
		require.True(t, m.Valid())
		ok, err := m.Extend()
		require.NoError(t, err)
		require.True(t, ok)
		ok, err = m.Unlock()
		require.NoError(t, err)
		require.True(t, ok)
	}
	other := factory(t, servers).NewMutex("jobs")
	require.NoError(t, m.Lock())
	err := other.TryLock()
	require.ErrorIs(t, err, redlock.ErrTaken)
	t.Log(err)
	_, err = m.Unlock()
	require.NoError(t, err)
	require.NoError(t, r.Do(context.Background(), "jobs", func(ctx context.Context) error {
		tok, ok := redlock.TokenFromContext(ctx)
		require.True(t, ok)
		require.Greater(t, tok, last)
		return nil
	}))
	_, err = m.Unlock()
	require.ErrorIs(t, err, redlock.ErrNotHeld)
	t.Log(err)
}

package redlock_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
)

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

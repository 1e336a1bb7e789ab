package redlock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
)

// Names that nobody uses any more leave nothing on any node, however their locks
// ended. It takes the retention, 20 s, to see that; the other tests run meanwhile.
func TestCase10_IdleNamesLeaveNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the retention of 20 s")
	}
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	proxies, pools := proxied(t, servers)
	r := factoryOf(t, pools, redlock.WithExpiry(time.Second), redlock.WithNodeTimeout(900*time.Millisecond))
	for i := range 50 {
		m := r.NewMutex(fmt.Sprintf("released %d", i))
		require.NoError(t, m.Lock())
		unlock(t, m)
		require.NoError(t, r.NewMutex(fmt.Sprintf("left to expire %d", i)).Lock())
		_ = r.NewMutex(fmt.Sprintf("left to expire %d", i)).TryLock() // mostly refused
	}
	for _, p := range proxies {
		p.DropReplies(true)
	}
	require.Error(t, r.NewMutex("failed").TryLock())
	for _, p := range proxies {
		p.DropReplies(false)
		p.Reset()
	}
	for _, s := range servers {
		keys, err := s.Keys()
		require.NoError(t, err)
		require.NotEmpty(t, keys)
	}
	testutil.Eventually(t, 40*time.Second, func() bool {
		for _, s := range servers {
			if keys, err := s.Keys(); err != nil || len(keys) > 0 {
				return false
			}
		}
		return true
	}, "no key is left")
}

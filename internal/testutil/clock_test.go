package testutil_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/testutil"
)

// serverAhead is how far the server's clock is ahead of this machine's.
func serverAhead(t *testing.T, s *testutil.Server) time.Duration {
	t.Helper()
	parts, err := redis.Int64s(s.Do("TIME"))
	require.NoError(t, err)
	return time.Until(time.Unix(parts[0], parts[1]*1000))
}

func TestServerClockJumps(t *testing.T) {
	testutil.CheckLeaks(t)
	s, clock := testutil.StartRedisWithClock(t)
	require.InDelta(t, 0, serverAhead(t, s).Seconds(), 1)
	s.MustDo(t, "SET", "k", "v", "PX", 10000)
	clock.MustSet(t, 8*time.Second, 1)
	ttl, err := redis.Int64(s.Do("PTTL", "k"))
	require.NoError(t, err)
	require.LessOrEqual(t, ttl, int64(2000), "keys live by the wall clock")
	for _, offset := range []time.Duration{time.Hour, -30 * time.Second} {
		clock.MustSet(t, offset, 1)
		require.InDelta(t, offset.Seconds(), serverAhead(t, s).Seconds(), 1)
		require.NoError(t, s.Restart())
		require.InDelta(t, offset.Seconds(), serverAhead(t, s).Seconds(), 1, "after a restart")
	}
}

func TestServerClockDrifts(t *testing.T) {
	s, clock := testutil.StartRedisWithClock(t)
	clock.MustSet(t, 0, 20)
	s.MustDo(t, "SET", "k", "v", "PX", 10000)
	begin := time.Now()
	testutil.Eventually(t, 5*time.Second, func() bool {
		keys, err := s.Keys()
		return err == nil && len(keys) == 0
	}, "ten of the server's seconds are half of one")
	require.GreaterOrEqual(t, time.Since(begin), 400*time.Millisecond)
}

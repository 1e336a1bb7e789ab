package goredis_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/pool/goredis"
	"github.com/quorumlock/redlock/pool/pooltest"
)

func TestMain(m *testing.M) { os.Exit(testutil.Main(m)) }

func TestCases(t *testing.T) { pooltest.Cases(t, open) }

func TestConformance(t *testing.T) { pooltest.Run(t, open) }

func TestCommand(t *testing.T) { pooltest.Command(t, open) }

func open(t testing.TB, addr string, o pooltest.Options) pool.Pool {
	return node(t, redis.NewClient(&redis.Options{
		Addr: addr, Username: o.Username, Password: o.Password, TLSConfig: o.TLS,
		PoolSize:              o.Limit,
		ContextTimeoutEnabled: true,
		DialerRetries:         1,
	}))
}

func node(t testing.TB, c redis.UniversalClient) pool.Pool {
	t.Cleanup(func() { c.Close() }) //nolint:errcheck // a test's
	return goredis.NewPool(c)
}

func TestOverCluster(t *testing.T) {
	cluster := node(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: pooltest.StartCluster(t), ContextTimeoutEnabled: true}))
	_, listens := cluster.(pool.Subscriber)
	require.False(t, listens, "PUBLISH in a script reaches the subscribers of one server only")
	t.Run("alone", func(t *testing.T) { pooltest.Grants(t, cluster) })
	t.Run("one of three", func(t *testing.T) { pooltest.OneOfThree(t, open, cluster) })
}

func TestOverSentinel(t *testing.T) {
	s := pooltest.StartSentinel(t)
	p := node(t, redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: s.Master, SentinelAddrs: []string{s.Addr}, ContextTimeoutEnabled: true,
	}))
	t.Run("alone", func(t *testing.T) { pooltest.Grants(t, p) })
	t.Run("one of three", func(t *testing.T) { pooltest.OneOfThree(t, open, p) })
	t.Run("after a fail-over", func(t *testing.T) {
		s.FailOver(t)
		pooltest.Returns(t, p)
	})
}

// Clients over Sentinel are told apart by their index: go-redis calls all of them the
// same.
func TestOverSentinelHasNoAddress(t *testing.T) {
	pools := make([]pool.Pool, 3)
	for i := range pools {
		pools[i] = node(t, redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}, ContextTimeoutEnabled: true,
		}))
		require.Empty(t, pools[i].(pool.Addresser).Addr())
	}
	r, err := redlock.New(pools)
	require.NoError(t, err)
	status, err := r.Inspect(t.Context(), "jobs")
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.NotContains(t, err.Error(), "FailoverClient")
	for i, n := range status.Nodes {
		require.Equal(t, i, n.Node)
		require.Empty(t, n.Addr)
		require.ErrorContains(t, n.Err, fmt.Sprintf("node %d: ", i))
	}
	require.NoError(t, r.Close(t.Context()))

	single := node(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}))
	require.Equal(t, "127.0.0.1:1", single.(pool.Addresser).Addr())
}

func TestRingIsRefused(t *testing.T) {
	s := testutil.StartRedis(t)
	r, err := redlock.New([]pool.Pool{node(t, redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": s.Addr()}}))})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	require.ErrorContains(t, r.NewMutex("jobs").LockContext(ctx), "Ring")
	require.NoError(t, r.Close(ctx))
}

func TestCompilesOnlyItsClient(t *testing.T) { pooltest.OnlyClient(t, "github.com/redis/go-redis") }

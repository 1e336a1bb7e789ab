package valkey_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/pool/pooltest"
	valkeypool "github.com/quorumlock/redlock/pool/valkey"
)

func TestMain(m *testing.M) { os.Exit(testutil.Main(m)) }

func TestCases(t *testing.T) { pooltest.Cases(t, open) }

func TestConformance(t *testing.T) { pooltest.Run(t, open) }

func TestCommand(t *testing.T) { pooltest.Command(t, open) }

func options(addrs ...string) valkey.ClientOption {
	o := valkey.ClientOption{InitAddress: addrs, DisableCache: true, ConnWriteTimeout: 2 * time.Second}
	o.Dialer.Timeout = time.Second
	return o
}

func open(t testing.TB, addr string, o pooltest.Options) pool.Pool {
	c := options(addr)
	c.ForceSingleClient = true
	c.Username, c.Password, c.TLSConfig = o.Username, o.Password, o.TLS
	p := valkeypool.NewLazyPool(c)
	t.Cleanup(p.Close)
	return p
}

// eager is a pool of a client that is there already.
func eager(t testing.TB, o valkey.ClientOption) pool.Pool {
	t.Helper()
	c, err := valkey.NewClient(o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return valkeypool.NewPool(c)
}

func TestOfAClient(t *testing.T) {
	s := testutil.StartRedis(t)
	p := eager(t, options(s.Addr()))
	require.Equal(t, s.Addr(), p.(pool.Addresser).Addr())
	_, listens := p.(pool.Subscriber)
	require.True(t, listens)
	pooltest.Grants(t, p)
}

// With the cache on, clients speak RESP3 and track keys.
func TestOtherProtocols(t *testing.T) {
	s := testutil.StartRedis(t)
	cached, old := options(s.Addr()), options(s.Addr())
	cached.DisableCache = false
	old.AlwaysRESP2 = true
	pooltest.Grants(t, eager(t, cached))
	pooltest.Grants(t, eager(t, old))
}

func TestStartsWithoutANode(t *testing.T) {
	servers := testutil.StartRedisN(t, 3)
	require.NoError(t, servers[0].Stop())
	var pools []pool.Pool
	for _, s := range servers {
		pools = append(pools, open(t, s.Addr(), pooltest.Options{}))
	}
	r, err := redlock.New(pools)
	require.NoError(t, err)
	t.Cleanup(func() { r.Close(context.Background()) }) //nolint:errcheck // the node is back
	m := r.NewMutex("jobs")
	require.NoError(t, m.Lock())
	require.NoError(t, servers[0].Restart())
	pooltest.Returns(t, pools[0])
	_, err = m.Unlock()
	require.NoError(t, err)
}

func TestClosedPool(t *testing.T) {
	p := valkeypool.NewLazyPool(options(testutil.StartRedis(t).Addr()))
	p.Close()
	p.Close()
	_, err := p.Eval(context.Background(), pool.NewScript("one", "return {1}"), nil)
	require.ErrorIs(t, err, valkey.ErrClosing)
}

func TestOverCluster(t *testing.T) {
	cluster := eager(t, options(pooltest.StartCluster(t)...))
	_, listens := cluster.(pool.Subscriber)
	require.False(t, listens, "PUBLISH in a script reaches the subscribers of one server only")
	t.Run("alone", func(t *testing.T) { pooltest.Grants(t, cluster) })
	t.Run("one of three", func(t *testing.T) { pooltest.OneOfThree(t, open, cluster) })
}

func TestLazyOverCluster(t *testing.T) {
	p := valkeypool.NewLazyPool(options(pooltest.StartCluster(t)...))
	t.Cleanup(p.Close)
	require.ErrorContains(t, p.Subscribe(t.Context(), "wake", nil, nil), "Cluster")
	pooltest.Grants(t, p)
}

func TestOverSentinel(t *testing.T) {
	s := pooltest.StartSentinel(t)
	o := options(s.Addr)
	o.Sentinel.MasterSet = s.Master
	o.Sentinel.Dialer.Timeout = time.Second
	p := eager(t, o)
	t.Run("alone", func(t *testing.T) { pooltest.Grants(t, p) })
	t.Run("one of three", func(t *testing.T) { pooltest.OneOfThree(t, open, p) })
	t.Run("after a fail-over", func(t *testing.T) {
		s.FailOver(t)
		pooltest.Returns(t, p)
	})
}

func TestCompilesOnlyItsClient(t *testing.T) {
	pooltest.OnlyClient(t, "github.com/valkey-io/valkey-go")
}

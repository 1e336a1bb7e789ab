package pooltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
)

const (
	// slowNode is how long a node is given where nobody must wait for it.
	slowNode = 6 * time.Second
	// childEnv holds the addresses for a test that is started again as a process of
	// its own.
	childEnv = "POOLTEST_CHILD"
)

// Cases plays what went wrong in the field with slow and dead nodes, and with what
// is left behind, for locks over three servers. It must come first in its test:
// the test's binary is started again for it.
func Cases(t *testing.T, open Factory) {
	if addrs := os.Getenv(childEnv); addrs != "" {
		lockAndEnd(t, open, strings.Split(addrs, ","))
	}
	t.Run("Grants", func(t *testing.T) {
		b := newBench(t, open)
		Grants(t, b.pools...)
	})
	t.Run("OneBadNodeDelaysNothing", func(t *testing.T) { oneBadNode(t, open) })
	t.Run("NodeTimeoutFitsTheExpiry", func(t *testing.T) { nodeTimeout(t, open) })
	t.Run("HungNodeBindsLittle", func(t *testing.T) { hungNodeBindsLittle(t, open) })
	t.Run("NoQuorumNamesTheNodes", func(t *testing.T) { noQuorum(t, open) })
	t.Run("MinorityFaultIsSeen", func(t *testing.T) { minorityFault(t, open) })
	t.Run("CtxEndsInMidAcquire", func(t *testing.T) { midAcquire(t, open) })
	t.Run("UnlockWithEndedCtx", func(t *testing.T) { unlockWithEndedCtx(t, open) })
	t.Run("LateAcquire", func(t *testing.T) { lateAcquire(t, open) })
	t.Run("ProcessEndsAfterUnlock", func(t *testing.T) { processEnds(t, open) })
}

// bench is three servers, a proxy in front of each, and a pool for each proxy.
type bench struct {
	servers []*testutil.Server
	proxies []*testutil.Proxy
	pools   []pool.Pool
}

func newBench(t testing.TB, open Factory) *bench {
	t.Helper()
	b := &bench{servers: testutil.StartRedisN(t, 3)}
	for _, s := range b.servers {
		p := testutil.StartProxy(t, s.Addr())
		b.proxies = append(b.proxies, p)
		b.pools = append(b.pools, open(t, p.Addr(), Options{}))
	}
	return b
}

func factoryOf(t testing.TB, pools []pool.Pool, opts ...redlock.Option) *redlock.Redlock {
	t.Helper()
	r, err := redlock.New(pools, opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), short)
		defer cancel()
		_ = r.Close(ctx) // a dead node keeps it
	})
	return r
}

// redlock makes one over the three, with connections and scripts in place.
func (b *bench) redlock(t testing.TB, opts ...redlock.Option) *redlock.Redlock {
	t.Helper()
	for _, p := range b.pools {
		works(t, p)
	}
	r := factoryOf(t, b.pools, opts...)
	m := r.NewMutex("warm")
	require.NoError(t, m.Lock())
	unlock(t, m)
	b.requireFree(t, "warm")
	return r
}

func (b *bench) holders(t testing.TB, name string) int {
	t.Helper()
	n := 0
	for _, s := range b.servers {
		if s.MustDo(t, "EXISTS", name).(int64) == 1 {
			n++
		}
	}
	return n
}

func (b *bench) requireFree(t testing.TB, name string) {
	t.Helper()
	testutil.Eventually(t, settle, func() bool { return b.holders(t, name) == 0 }, "%q is free on every node", name)
}

func unlock(t testing.TB, m *redlock.Mutex) {
	t.Helper()
	ok, err := m.Unlock()
	require.NoError(t, err)
	require.True(t, ok)
}

// Grants goes through the life of a lock over the given nodes, of whatever kind they
// are: grant, refusal, extend, hand-over to a waiter, release, break.
func Grants(t testing.TB, pools ...pool.Pool) {
	t.Helper()
	r := factoryOf(t, pools, redlock.WithNodeTimeout(4*time.Second))
	ctx := ctxFor(t, settle)
	last := map[string]int64{}
	// Several names, for a Cluster to spread.
	for i := range 20 {
		name := fmt.Sprintf("lock:%d", i%10)
		m, next := r.NewMutex(name), r.NewMutex(name)
		require.NoError(t, m.LockContext(ctx))
		require.Greater(t, m.Token(), last[name])
		require.ErrorIs(t, next.TryLockContext(ctx), redlock.ErrTaken)
		ok, err := m.ExtendContext(ctx)
		require.NoError(t, err)
		require.True(t, ok)
		require.NoError(t, m.Check(ctx))
		status, err := r.Inspect(ctx, name)
		require.NoError(t, err)
		require.True(t, status.Held)
		require.Equal(t, m.Value(), status.Value)

		waited := make(chan error)
		go func() { waited <- next.LockContext(ctx) }()
		unlock(t, m)
		require.NoError(t, <-waited)
		require.Greater(t, next.Token(), m.Token())
		require.NoError(t, r.Break(ctx, name))
		last[name] = next.Token()
		_, err = next.ExtendContext(ctx)
		require.ErrorIs(t, err, redlock.ErrExtendFailed)
	}
}

// badNode is one way in which a node does not serve, and its mending.
type badNode struct {
	name      string
	make, end func(t testing.TB, s *testutil.Server, p *testutil.Proxy)
}

var badNodes = []badNode{
	{
		"stopped",
		func(t testing.TB, s *testutil.Server, _ *testutil.Proxy) { require.NoError(t, s.Pause()) },
		func(t testing.TB, s *testutil.Server, _ *testutil.Proxy) { require.NoError(t, s.Resume()) },
	},
	{
		"refused",
		func(t testing.TB, _ *testutil.Server, p *testutil.Proxy) { require.NoError(t, p.Refuse(true)) },
		func(t testing.TB, _ *testutil.Server, p *testutil.Proxy) { require.NoError(t, p.Refuse(false)) },
	},
	{
		"silent",
		func(_ testing.TB, _ *testutil.Server, p *testutil.Proxy) { p.HalfOpen(true) },
		func(_ testing.TB, _ *testutil.Server, p *testutil.Proxy) { p.HalfOpen(false); p.Reset() },
	},
}

func oneBadNode(t *testing.T, open Factory) {
	for _, bad := range badNodes {
		t.Run(bad.name, func(t *testing.T) {
			b := newBench(t, open)
			r := b.redlock(t, redlock.WithNodeTimeout(slowNode))
			bad.make(t, b.servers[0], b.proxies[0])
			m := r.NewMutex("jobs")
			for range 2 {
				within(t, soon, "Lock", func() { require.NoError(t, m.Lock()) })
				within(t, soon, "Extend", func() {
					ok, err := m.Extend()
					require.NoError(t, err)
					require.True(t, ok)
				})
				within(t, soon, "TryLock of a taken lock", func() {
					require.ErrorIs(t, r.NewMutex("jobs").TryLock(), redlock.ErrTaken)
				})
				within(t, soon, "Unlock", func() { unlock(t, m) })
			}
			bad.end(t, b.servers[0], b.proxies[0])
			b.requireFree(t, "jobs")
		})
	}
}

func nodeTimeout(t *testing.T, open Factory) {
	t.Run("4 s", func(t *testing.T) {
		b := newBench(t, open)
		r := b.redlock(t)
		require.NoError(t, b.servers[0].Pause())
		m := r.NewMutex("jobs", redlock.WithExpiry(4*time.Second))
		within(t, soon, "Lock", func() { require.NoError(t, m.Lock()) })
		within(t, soon, "Unlock", func() { unlock(t, m) })
		require.NoError(t, b.servers[0].Resume())
	})
	t.Run("10 h", func(t *testing.T) {
		b := newBench(t, open)
		r := b.redlock(t)
		for _, s := range b.servers[:2] {
			require.NoError(t, s.Pause())
		}
		m := r.NewMutex("jobs", redlock.WithExpiry(10*time.Hour))
		within(t, 5*time.Second, "TryLock without a quorum", func() {
			require.ErrorIs(t, m.TryLock(), redlock.ErrNoQuorum)
		})
		for _, s := range b.servers[:2] {
			require.NoError(t, s.Resume())
		}
		b.requireFree(t, "jobs")
	})
	t.Run("500 ms", func(t *testing.T) {
		b := newBench(t, open)
		r := b.redlock(t)
		for _, p := range b.proxies {
			p.Delay(0, 40*time.Millisecond) // more than a twentieth of the expiry
		}
		m := r.NewMutex("jobs", redlock.WithExpiry(500*time.Millisecond))
		require.NoError(t, m.Lock(), "nodes that answer after 40 ms are alive")
		_, _ = m.Unlock()
	})
}

func hungNodeBindsLittle(t *testing.T, open Factory) {
	servers := testutil.StartRedisN(t, 3)
	var pools []pool.Pool
	for _, s := range servers {
		pools = append(pools, open(t, s.Addr(), Options{}))
	}
	r := factoryOf(t, pools)
	const locks, workers = 400, 20
	round := func() {
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				for i := range locks / workers {
					m := r.NewMutex(fmt.Sprintf("lock %d/%d", w, i))
					if err := m.Lock(); err != nil {
						t.Errorf("lock: %v", err)
						continue
					}
					if _, err := m.Unlock(); err != nil {
						t.Errorf("unlock: %v", err)
					}
				}
			})
		}
		all.Wait()
	}
	round() // as many connections as the load takes
	running, conns := goroutines(), clients(t, servers[0])
	require.NoError(t, servers[0].Pause())
	m := r.NewMutex("warm")
	for range 5 { // the first few find out that it hangs
		require.NoError(t, m.Lock())
		unlock(t, m)
	}
	peak := 0
	stop, sampled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sampled)
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		for {
			peak = max(peak, runtime.NumGoroutine())
			select {
			case <-ticker.C:
			case <-stop:
				return
			}
		}
	}()
	round()
	close(stop)
	<-sampled
	t.Logf("goroutines: %d, at most %d with a hung node", running, peak)
	require.Less(t, peak, running+locks, "far below one for each lock and node")
	require.NoError(t, servers[0].Resume())
	testutil.Eventually(t, settle, func() bool { return goroutines() <= running+4 }, "goroutines fall back to %d", running)
	testutil.Eventually(t, settle, func() bool { return clients(t, servers[0]) <= conns+16 }, "connections fall back to %d", conns)
}

// nodeErrors are all node faults inside err, in the order of their nodes.
func nodeErrors(err error) []*redlock.NodeError {
	var list *multierror.Error
	if !errors.As(err, &list) {
		return nil
	}
	var out []*redlock.NodeError
	for _, e := range list.Errors {
		var n *redlock.NodeError
		if errors.As(e, &n) {
			out = append(out, n)
		}
	}
	return out
}

func noQuorum(t *testing.T, open Factory) {
	for _, bad := range badNodes {
		t.Run(bad.name, func(t *testing.T) {
			b := newBench(t, open)
			r := b.redlock(t)
			for i := range 2 {
				bad.make(t, b.servers[i], b.proxies[i])
			}
			var err error
			within(t, 8*time.Second, "Lock", func() { err = r.NewMutex("jobs").Lock() })
			require.ErrorIs(t, err, redlock.ErrFailed)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.NotErrorIs(t, err, redlock.ErrTaken)
			faults := nodeErrors(err)
			require.Len(t, faults, 2, "%v", err)
			for i, f := range faults {
				require.Equal(t, i, f.Node)
				require.Equal(t, b.proxies[i].Addr(), f.Addr)
				require.Contains(t, err.Error(), f.Addr)
				require.NotEmpty(t, f.Err.Error())
				require.Contains(t, err.Error(), f.Err.Error())
			}
			for i := range 2 {
				bad.end(t, b.servers[i], b.proxies[i])
			}
			b.requireFree(t, "jobs")
		})
	}
}

// recorder is an observer that keeps what it was told.
type recorder struct {
	mu    sync.Mutex
	nodes []redlock.NodeEvent
	verbs []redlock.VerbEvent
}

func (r *recorder) NodeDone(_ context.Context, e redlock.NodeEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes = append(r.nodes, e)
}

func (r *recorder) VerbStart(ctx context.Context, _, _ string) context.Context { return ctx }

func (r *recorder) VerbDone(_ context.Context, e redlock.VerbEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verbs = append(r.verbs, e)
}

func (r *recorder) count(is func(redlock.NodeEvent) bool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, e := range r.nodes {
		if is(e) {
			n++
		}
	}
	return n
}

func minorityFault(t *testing.T, open Factory) {
	b := newBench(t, open)
	b.redlock(t)
	b.servers[2].MustDo(t, "REPLICAOF", "127.0.0.1", "1")
	for _, p := range b.proxies[:2] {
		p.Delay(30*time.Millisecond, 0) // the fault comes first
	}
	var seen recorder
	r := factoryOf(t, b.pools, redlock.WithNodeTimeout(4*time.Second), redlock.WithObserver(&seen))
	m := r.NewMutex("jobs")
	require.NoError(t, m.Lock())
	unlock(t, m)
	require.Equal(t, 1, seen.count(func(e redlock.NodeEvent) bool {
		var n *redlock.NodeError
		return e.Verb == "acquire" && e.Node == 2 && errors.As(e.Err, &n) && n.Permanent()
	}), "the observer is told")
	seen.mu.Lock()
	defer seen.mu.Unlock()
	require.Equal(t, "lock", seen.verbs[0].Verb)
	require.True(t, seen.verbs[0].Degraded)
}

func midAcquire(t *testing.T, open Factory) {
	b := newBench(t, open)
	b.redlock(t)
	var seen recorder
	r := factoryOf(t, b.pools, redlock.WithNodeTimeout(4*time.Second), redlock.WithObserver(&seen))
	for i, delay := range [][2]time.Duration{{300 * time.Millisecond, 0}, {0, 300 * time.Millisecond}} {
		name := fmt.Sprintf("jobs %d", i)
		for _, p := range b.proxies {
			p.Delay(delay[0], delay[1])
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		within(t, soon, "Lock", func() {
			require.ErrorIs(t, r.NewMutex(name).LockContext(ctx), context.DeadlineExceeded)
		})
		cancel()
		of := func(verb string) int {
			return seen.count(func(e redlock.NodeEvent) bool { return e.Name == name && e.Verb == verb })
		}
		testutil.Eventually(t, settle, func() bool { return of("acquire") >= 3 && of("release") >= 3 }, "all that was sent is answered")
		require.Zero(t, b.holders(t, name))
	}
}

func unlockWithEndedCtx(t *testing.T, open Factory) {
	b := newBench(t, open)
	m := b.redlock(t, redlock.WithNodeTimeout(slowNode)).NewMutex("jobs")
	require.NoError(t, m.Lock())
	testutil.Eventually(t, settle, func() bool { return b.holders(t, "jobs") == 3 }, "held everywhere")
	for _, p := range b.proxies {
		// Shorter than a client waits for the reply to a PING of its own: the release
		// may be behind one, and there would be no new connection.
		p.Delay(0, 400*time.Millisecond)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	within(t, soon, "Unlock", func() {
		ok, err := m.UnlockContext(ctx)
		require.False(t, ok)
		require.ErrorIs(t, err, context.Canceled)
	})
	// The lock itself would live for 8 s.
	testutil.Eventually(t, 5*time.Second, func() bool { return b.holders(t, "jobs") == 0 }, "the keys are gone")
}

// lateAcquire holds one node's acquire back until the lock is released. With a
// client that has one connection for all, the release waits behind it.
func lateAcquire(t *testing.T, open Factory) {
	b := newBench(t, open)
	r := b.redlock(t, redlock.WithNodeTimeout(time.Second))
	hold := b.proxies[0].Hold(func(request []byte) bool { return bytes.Contains(request, []byte("\r\njobs\r\n")) })
	m := r.NewMutex("jobs")
	require.NoError(t, m.Lock())
	unlock(t, m)
	testutil.Eventually(t, settle, func() bool { return hold.Held() >= 1 }, "the acquire is held")
	before := scriptCalls(t, b.servers[0])
	hold.Release()
	testutil.Eventually(t, settle, func() bool { return scriptCalls(t, b.servers[0]) > before }, "the late acquire has arrived")
	require.NoError(t, r.Close(ctxFor(t, settle)))
	require.Zero(t, b.holders(t, "jobs"))
}

// lockAndEnd is the other process: it ends right after Unlock, or after Close.
func lockAndEnd(t testing.TB, open Factory, addrs []string) {
	toTheEnd := addrs[0] == "close"
	var pools []pool.Pool
	for _, a := range addrs[1:] {
		pools = append(pools, open(t, a, Options{}))
	}
	err := func() error {
		r, err := redlock.New(pools, redlock.WithNodeTimeout(slowNode))
		if err != nil {
			return err
		}
		m := r.NewMutex(addrs[0]) // what one process left does not count for the next
		if err := m.Lock(); err != nil {
			return err
		}
		if ok, err := m.Unlock(); !ok || err != nil {
			return fmt.Errorf("unlock: %v, %w", ok, err)
		}
		if toTheEnd {
			return r.Close(ctxFor(t, settle))
		}
		return nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func processEnds(t *testing.T, open Factory) {
	b := newBench(t, open)
	b.redlock(t)
	b.proxies[2].Delay(100*time.Millisecond, 100*time.Millisecond)
	test, _, _ := strings.Cut(t.Name(), "/")
	for _, mode := range []string{"unlock", "close"} {
		addrs := []string{mode}
		for _, p := range b.proxies {
			addrs = append(addrs, p.Addr())
		}
		child := exec.CommandContext(ctxFor(t, settle), os.Args[0], "-test.run=^"+test+"$")
		child.Env = append(os.Environ(), childEnv+"="+strings.Join(addrs, ","))
		said, err := child.CombinedOutput()
		require.NoError(t, err, "the process said: %s", said)
		left := b.holders(t, mode)
		if mode == "close" {
			require.Zero(t, left)
		} else {
			require.LessOrEqual(t, left, 1, "a quorum is free when Unlock returns")
		}
	}
}

// OneOfThree goes through the life of a lock over a node of another kind beside two
// servers, while all serve, and while one of the servers does not.
func OneOfThree(t testing.TB, open Factory, node pool.Pool) {
	t.Helper()
	servers := testutil.StartRedisN(t, 2)
	pools := []pool.Pool{node, open(t, servers[0].Addr(), Options{}), open(t, servers[1].Addr(), Options{})}
	Grants(t, pools...)
	require.NoError(t, servers[1].Pause())
	m := factoryOf(t, pools, redlock.WithNodeTimeout(slowNode)).NewMutex("lock:degraded")
	for range 2 {
		within(t, soon, "Lock", func() { require.NoError(t, m.Lock()) })
		within(t, soon, "Extend", func() {
			ok, err := m.Extend()
			require.NoError(t, err)
			require.True(t, ok)
		})
		within(t, soon, "Unlock", func() { unlock(t, m) })
	}
	require.NoError(t, servers[1].Resume())
}

// Returns waits until the node of a set-up that was disturbed serves locks again.
func Returns(t testing.TB, node pool.Pool) {
	t.Helper()
	r := factoryOf(t, []pool.Pool{node}, redlock.WithNodeTimeout(2*time.Second))
	testutil.Eventually(t, settle, func() bool {
		m := r.NewMutex("lock:back")
		if m.TryLock() != nil {
			return false
		}
		_, err := m.Unlock()
		return err == nil
	}, "locks are granted again")
	Grants(t, node)
}

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
	redigopool "github.com/quorumlock/redlock/pool/redigo"
)

// Cases from the field: slow and dead nodes.

// badNode is one way in which a node does not serve, and its mending.
type badNode struct {
	name      string
	make, end func(t testing.TB, s *testutil.Server, p *testutil.Proxy)
}

func badNodes() []badNode {
	return []badNode{
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
			"accepts and never answers",
			func(_ testing.TB, _ *testutil.Server, p *testutil.Proxy) { p.HalfOpen(true) },
			func(_ testing.TB, _ *testutil.Server, p *testutil.Proxy) { p.HalfOpen(false); p.Reset() },
		},
		{
			"loses replies",
			func(_ testing.TB, _ *testutil.Server, p *testutil.Proxy) { p.DropReplies(true) },
			func(_ testing.TB, _ *testutil.Server, p *testutil.Proxy) { p.DropReplies(false); p.Reset() },
		},
	}
}

func TestCase01_OneBadNodeDelaysNothing(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{3, 5} {
		for _, bad := range badNodes() {
			t.Run(fmt.Sprintf("%d nodes, one %s", nodes, bad.name), func(t *testing.T) {
				t.Parallel()
				servers := testutil.StartRedisN(t, nodes)
				proxies, pools := proxied(t, servers)
				r := factoryOf(t, pools, redlock.WithNodeTimeout(slowNode))
				warm := r.NewMutex("warm") // connections and scripts are there
				require.NoError(t, warm.Lock())
				unlock(t, warm)
				requireFree(t, servers, "warm")

				bad.make(t, servers[0], proxies[0])
				m := r.NewMutex("jobs")
				within(t, soon, "Lock", func() { require.NoError(t, m.Lock()) })
				within(t, soon, "Extend", func() {
					ok, err := m.Extend()
					require.NoError(t, err)
					require.True(t, ok)
				})
				within(t, soon, "Unlock", func() { unlock(t, m) })
				within(t, soon, "TryLock", func() { require.NoError(t, m.TryLock()) })
				// It may be decided while a node has yet to refuse it, or to be given back.
				within(t, soon, "TryLock of a taken lock", func() {
					require.ErrorIs(t, r.NewMutex("jobs").TryLock(), redlock.ErrTaken)
				})
				within(t, soon, "Unlock", func() { unlock(t, m) })

				bad.end(t, servers[0], proxies[0])
				requireFree(t, servers, "jobs")
			})
		}
	}
}

func TestCase02_NodeTimeoutFitsTheExpiry(t *testing.T) {
	t.Parallel()
	t.Run("4 s", func(t *testing.T) {
		t.Parallel()
		servers := testutil.StartRedisN(t, 3)
		require.NoError(t, servers[0].Pause())
		m := factory(t, servers).NewMutex("jobs", redlock.WithExpiry(4*time.Second))
		within(t, soon, "Lock", func() { require.NoError(t, m.Lock()) })
		within(t, soon, "Unlock", func() { unlock(t, m) })
		require.NoError(t, servers[0].Resume())
	})
	t.Run("10 h", func(t *testing.T) {
		t.Parallel()
		servers := testutil.StartRedisN(t, 3)
		require.NoError(t, servers[0].Pause())
		require.NoError(t, servers[1].Pause())
		m := factory(t, servers).NewMutex("jobs", redlock.WithExpiry(10*time.Hour))
		within(t, 5*time.Second, "TryLock without a quorum", func() {
			require.ErrorIs(t, m.TryLock(), redlock.ErrNoQuorum)
		})
		require.NoError(t, servers[0].Resume())
		require.NoError(t, servers[1].Resume())
		requireFree(t, servers, "jobs")
	})
	t.Run("500 ms", func(t *testing.T) {
		t.Parallel()
		servers := testutil.StartRedisN(t, 3)
		proxies, pools := proxied(t, servers)
		r := factoryOf(t, pools)
		warm := r.NewMutex("warm")
		require.NoError(t, warm.Lock())
		unlock(t, warm)
		for _, p := range proxies {
			p.Delay(0, 40*time.Millisecond) // more than a twentieth of the expiry
		}
		m := r.NewMutex("jobs", redlock.WithExpiry(500*time.Millisecond))
		require.NoError(t, m.Lock(), "nodes that answer after 40 ms are alive")
		_, _ = m.Unlock()
	})
}

// Not parallel: it counts goroutines.
func TestCase03_HungNodeBindsLittle(t *testing.T) {
	servers := testutil.StartRedisN(t, 3)
	nodes := pools(t, servers)
	hung := newRedigo(servers[0].Addr())
	t.Cleanup(func() { hung.Close() }) //nolint:errcheck // idle connections
	nodes[0] = redigopool.NewNamedPool(hung, servers[0].Addr())
	var seen recorder
	r := factoryOf(t, nodes, redlock.WithObserver(&seen))
	warm := r.NewMutex("warm")
	require.NoError(t, warm.Lock())
	unlock(t, warm)
	idle := runtime.NumGoroutine()

	require.NoError(t, servers[0].Pause())
	// The first few find out that it hangs.
	testutil.Eventually(t, settle, func() bool {
		if err := warm.Lock(); err == nil {
			_, _ = warm.Unlock()
		}
		return seen.countNodes(func(e redlock.NodeEvent) bool { return e.Node == 0 && e.Err != nil }) > 3
	}, "the hung node was noticed")

	const locks, workers = 1000, 20
	before := hung.ActiveCount()
	peakConns, peakRunning := 0, 0
	sampled := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(sampled)
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		for {
			peakConns = max(peakConns, hung.ActiveCount())
			peakRunning = max(peakRunning, runtime.NumGoroutine())
			select {
			case <-ticker.C:
			case <-stop:
				return
			}
		}
	}()
	var all sync.WaitGroup
	errs := make(chan error, 2*locks)
	for w := range workers {
		all.Go(func() {
			for i := range locks / workers {
				m := r.NewMutex(fmt.Sprintf("lock %d/%d", w, i))
				if err := m.Lock(); err != nil {
					errs <- err
					continue
				}
				if _, err := m.Unlock(); err != nil {
					errs <- err
				}
			}
		})
	}
	all.Wait()
	close(stop)
	<-sampled
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	t.Logf("%d connections, %d before; %d goroutines, %d idle", peakConns, before, peakRunning, idle)
	// Far below one for each of the thousand.
	require.LessOrEqual(t, peakConns, before+100)
	require.Less(t, peakRunning, idle+before+400)

	require.NoError(t, servers[0].Resume())
	closeWithin(r, settle)
	for w := range workers {
		require.Zero(t, holders(t, servers, fmt.Sprintf("lock %d/0", w)))
	}
	testutil.Eventually(t, settle, func() bool { return runtime.NumGoroutine() <= idle && hung.ActiveCount() <= hung.MaxIdle }, "everything falls back")
}

func TestCase04_NoQuorumNamesTheNodes(t *testing.T) {
	t.Parallel()
	for _, bad := range badNodes() {
		t.Run("two of three "+bad.name, func(t *testing.T) {
			t.Parallel()
			servers := testutil.StartRedisN(t, 3)
			proxies, pools := proxied(t, servers)
			for i := range 2 {
				bad.make(t, servers[i], proxies[i])
			}
			r := factoryOf(t, pools)
			for verb, lock := range map[string]func(*redlock.Mutex) error{
				"Lock": (*redlock.Mutex).Lock, "TryLock": (*redlock.Mutex).TryLock,
			} {
				var err error
				within(t, 8*time.Second, verb, func() { err = lock(r.NewMutex("jobs-" + verb)) })
				require.ErrorIs(t, err, redlock.ErrFailed)
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
				require.NotErrorIs(t, err, redlock.ErrTaken)
				faults := nodeErrors(err)
				require.Len(t, faults, 2, "%v", err)
				for i, f := range faults {
					require.Equal(t, i, f.Node)
					require.Equal(t, proxies[i].Addr(), f.Addr)
					require.Contains(t, err.Error(), proxies[i].Addr())
					require.NotEmpty(t, f.Err.Error())
					require.Contains(t, err.Error(), f.Err.Error())
				}
			}
			for i := range 2 {
				bad.end(t, servers[i], proxies[i])
			}
			requireFree(t, servers, "jobs-Lock")
			requireFree(t, servers, "jobs-TryLock")
		})
	}
}

func TestCase05_MinorityFaultsAreSeenAndDoNotHurt(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	servers[2].MustDo(t, "REPLICAOF", "127.0.0.1", "1")
	proxies, pools := proxied(t, servers)
	for _, p := range proxies[:2] {
		p.Delay(30*time.Millisecond, 0) // the fault comes first
	}
	var seen recorder
	r := factoryOf(t, pools, patient(), redlock.WithObserver(&seen))
	m := r.NewMutex("jobs")
	require.NoError(t, m.Lock())
	ok, err := m.Extend()
	require.NoError(t, err)
	require.True(t, ok)
	unlock(t, m)

	refused := seen.countNodes(func(e redlock.NodeEvent) bool {
		var n *redlock.NodeError
		return e.Verb == "acquire" && e.Node == 2 && e.Outcome == "error" && errors.As(e.Err, &n) && n.Permanent() && n.Addr == proxies[2].Addr()
	})
	require.Equal(t, 1, refused, "the observer is told of the node's own words")
	for _, verb := range []string{"lock", "extend"} {
		events := seen.verb(verb)
		require.Len(t, events, 1)
		require.NoError(t, events[0].Err)
		require.True(t, events[0].Degraded, "%s was won without a node", verb)
	}
}

// Nothing left behind.

// A round that is lost at the second reply still has a third on its way: it grants
// what nobody waits for.
func TestLateGrantOfALostAttemptIsUndone(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	proxies, pools := proxied(t, servers)
	steal(t, servers[0], "jobs")
	steal(t, servers[1], "jobs")
	proxies[2].Delay(150*time.Millisecond, 0)
	var seen recorder
	r := factoryOf(t, pools, patient(), redlock.WithObserver(&seen))
	require.ErrorIs(t, r.NewMutex("jobs").TryLock(), redlock.ErrTaken)
	testutil.Eventually(t, settle, func() bool {
		return seen.countNodes(func(e redlock.NodeEvent) bool { return e.Node == 2 && e.Verb == "acquire" }) == 1
	}, "the late reply has come")
	proxies[2].Delay(0, 0)
	// Well below the expiry of 8 s, which would free it in any case.
	testutil.Eventually(t, 4*time.Second, func() bool { return lockedBy(t, servers[2], "jobs") == "" }, "the third node is free")
}

func TestCase06_CtxEndsInMidAcquire(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		request, reply time.Duration
	}{
		{"request slow", 300 * time.Millisecond, 0},
		{"reply slow", 0, 300 * time.Millisecond},
	} {
		for _, verb := range []string{"Lock", "TryLock", "Hold", "Do"} {
			t.Run(c.name+", "+verb, func(t *testing.T) {
				t.Parallel()
				servers := testutil.StartRedisN(t, 3)
				proxies, pools := proxied(t, servers)
				var seen recorder
				r := factoryOf(t, pools, patient(), redlock.WithObserver(&seen))
				warm := r.NewMutex("warm")
				require.NoError(t, warm.Lock())
				unlock(t, warm)
				for _, p := range proxies {
					p.Delay(c.request, c.reply)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				m := r.NewMutex("jobs")
				within(t, soon, verb, func() {
					err := acquireBy(verb, ctx, m)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.ErrorIs(t, err, redlock.ErrFailed)
				})
				require.False(t, m.Valid())
				of := func(verb string) int {
					return seen.countNodes(func(e redlock.NodeEvent) bool { return e.Name == "jobs" && e.Verb == verb })
				}
				testutil.Eventually(t, settle, func() bool { return of("acquire") >= 3 && of("release") >= 3 }, "all that was sent is answered")
				require.Zero(t, holders(t, servers, "jobs"))
			})
		}
	}
}

// acquireBy calls one of the verbs that acquire.
func acquireBy(verb string, ctx context.Context, m *redlock.Mutex) error { // verb first reads better here
	switch verb {
	case "Lock":
		return m.LockContext(ctx)
	case "TryLock":
		return m.TryLockContext(ctx)
	case "Hold":
		_, err := m.Hold(ctx)
		return err
	default:
		return m.Do(ctx, func(context.Context) error { return errors.New("must not run") })
	}
}

func TestCase07_UnlockWithEndedCtxStillReleases(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	proxies, pools := proxied(t, servers)
	r := factoryOf(t, pools, redlock.WithNodeTimeout(slowNode))
	m := r.NewMutex("jobs")
	require.NoError(t, m.Lock())
	requireHeld(t, servers, "jobs", 3)
	for _, p := range proxies {
		p.Delay(0, 2*time.Second)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	within(t, soon, "Unlock", func() {
		ok, err := m.UnlockContext(ctx)
		require.False(t, ok)
		require.ErrorIs(t, err, context.Canceled)
	})
	require.False(t, m.Valid())
	// The lock itself would live for 8 s.
	testutil.Eventually(t, 5*time.Second, func() bool { return holders(t, servers, "jobs") == 0 }, "the keys are gone")
}

func TestCase08_LateAcquireCreatesNothing(t *testing.T) {
	t.Parallel()
	// The release overtakes the acquire on one node, whatever becomes of the lock.
	for _, end := range []string{"unlocked", "unlocked after an extend", "overtaken by another holder", "given up"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			servers := testutil.StartRedisN(t, 3)
			proxies, pools := proxied(t, servers)
			var seen recorder
			r := factoryOf(t, pools, redlock.WithNodeTimeout(time.Second), redlock.WithObserver(&seen))
			warm := r.NewMutex("warm")
			require.NoError(t, warm.Lock())
			unlock(t, warm)
			requireFree(t, servers, "warm")
			holds := []*testutil.Hold{proxies[0].Hold(isScript(t, "acquire"))}
			m := r.NewMutex("jobs")
			other := factory(t, servers, patient()).NewMutex("jobs")
			if end == "given up" {
				holds = append(holds, proxies[1].Hold(isScript(t, "acquire")), proxies[2].Hold(isScript(t, "acquire")))
				require.ErrorIs(t, m.TryLock(), redlock.ErrNoQuorum)
			} else {
				require.NoError(t, m.Lock())
				if end == "unlocked after an extend" {
					_, err := m.Extend()
					require.NoError(t, err)
				}
				unlock(t, m)
			}
			for i, h := range holds {
				testutil.Eventually(t, settle, func() bool { return h.Held() >= 1 }, "the acquire is held")
				testutil.Eventually(t, settle, func() bool {
					return seen.countNodes(func(e redlock.NodeEvent) bool {
						return e.Name == "jobs" && e.Node == i && e.Verb == "release" && e.Err == nil
					}) > 0
				}, "the release has overtaken")
			}
			want := ""
			if end == "overtaken by another holder" {
				require.NoError(t, other.Lock())
				requireHeld(t, servers, "jobs", 3)
				want = other.Value()
			}
			for i, h := range holds {
				arrived := scriptCalls(t, servers[i]) + h.Held() // two of an attempt that was outbid
				h.Release()
				testutil.Eventually(t, settle, func() bool { return scriptCalls(t, servers[i]) >= arrived }, "the late acquire has arrived")
			}
			for _, s := range servers {
				require.Equal(t, want, lockedBy(t, s, "jobs"))
			}
			if want != "" {
				unlock(t, other)
			}
		})
	}
}

// The same for an extend, which comes after the release.
func TestCase08_LateExtendCreatesNothing(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	proxies, pools := proxied(t, servers)
	var seen recorder
	r := factoryOf(t, pools, redlock.WithNodeTimeout(time.Second), redlock.WithObserver(&seen))
	m := r.NewMutex("jobs")
	require.NoError(t, m.Lock())
	requireHeld(t, servers, "jobs", 3)
	// The first of its kind may only be asked whether it is known.
	calls := scriptCalls(t, servers[0])
	_, err := m.Extend()
	require.NoError(t, err)
	testutil.Eventually(t, settle, func() bool {
		return scriptCalls(t, servers[0]) > calls && seen.countNodes(func(e redlock.NodeEvent) bool { return e.Node == 0 && e.Verb == "touch" }) == 1
	}, "the first extend is answered")
	hold := proxies[0].Hold(isScript(t, "touch"))
	_, err = m.Extend()
	require.NoError(t, err)
	testutil.Eventually(t, settle, func() bool { return hold.Held() == 1 }, "the extend is held")
	unlock(t, m)
	testutil.Eventually(t, settle, func() bool {
		return seen.countNodes(func(e redlock.NodeEvent) bool { return e.Verb == "release" && e.Err == nil }) == len(servers)
	}, "the release has overtaken, and has come to the others, too")
	before := scriptCalls(t, servers[0])
	hold.Release()
	testutil.Eventually(t, settle, func() bool { return scriptCalls(t, servers[0]) > before }, "the late extend has arrived")
	require.Zero(t, holders(t, servers, "jobs"))
}

// unlockChild ends right after Unlock, without a Close.
func unlockChild() error { return lockUnlockChild(false) }

// closeChild ends after Close.
func closeChild() error { return lockUnlockChild(true) }

func lockUnlockChild(toTheEnd bool) error {
	nodes, _ := childPools()
	r, err := redlock.New(nodes, redlock.WithNodeTimeout(slowNode))
	if err != nil {
		return err
	}
	m := r.NewMutex("jobs")
	if err := m.Lock(); err != nil {
		return err
	}
	if ok, err := m.Unlock(); !ok || err != nil {
		return fmt.Errorf("unlock: %v, %w", ok, err)
	}
	if !toTheEnd {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), settle)
	defer cancel()
	return r.Close(ctx)
}

func TestCase09_ProcessEndsRightAfterUnlock(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"unlock", "close"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			servers := testutil.StartRedisN(t, 5)
			slow := testutil.StartProxy(t, servers[4].Addr())
			slow.Delay(100*time.Millisecond, 100*time.Millisecond)
			addrs := addrsOf(servers[:4]) + "," + slow.Addr()
			for range 5 {
				cmd, said := child(t, mode, envAddrs+"="+addrs)
				require.NoError(t, cmd.Wait(), "the process said: %s", said)
				left := holders(t, servers, "jobs")
				if mode == "close" {
					require.Zero(t, left)
				} else {
					require.LessOrEqual(t, left, 2, "a quorum is free when Unlock returns")
				}
				for _, s := range servers {
					s.MustDo(t, "FLUSHALL")
				}
			}
		})
	}
}

func TestCase10_EveryKeyHasAnEnd(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	r := factory(t, servers, redlock.WithNodeTimeout(2900*time.Millisecond), redlock.WithExpiry(3*time.Second))
	released, kept := r.NewMutex("released"), r.NewMutex("kept")
	require.NoError(t, released.Lock())
	_, err := released.Extend()
	require.NoError(t, err)
	unlock(t, released)
	require.NoError(t, kept.Lock())
	require.ErrorIs(t, r.NewMutex("kept").TryLock(), redlock.ErrTaken)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, r.NewMutex("kept").LockContext(ctx), context.DeadlineExceeded)
	requireFree(t, servers, "released")
	for _, s := range servers {
		keys, err := s.Keys()
		require.NoError(t, err)
		require.NotEmpty(t, keys)
		for _, k := range keys {
			ttl, err := redis.Int64(s.Do("PTTL", k))
			require.NoError(t, err)
			require.Positive(t, ttl, "%q never ends", k)
			require.LessOrEqual(t, ttl, int64(20000+3000), "%q stays for too long", k)
		}
	}
	unlock(t, kept)
}

func TestCase11_OutOfMemory(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3, "--maxmemory-policy", "noeviction")
	r := factory(t, servers, patient())
	m := r.NewMutex("jobs")
	require.NoError(t, m.Lock())
	requireHeld(t, servers, "jobs", 3)
	for _, s := range servers {
		s.MustDo(t, "CONFIG", "SET", "maxmemory", "1")
	}
	ok, err := m.Extend()
	require.NoError(t, err)
	require.True(t, ok)

	// Busy stays busy, whatever else a full node refuses.
	require.ErrorIs(t, r.NewMutex("jobs").TryLock(), redlock.ErrTaken)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, r.NewMutex("jobs").LockContext(ctx), redlock.ErrTaken)

	unlock(t, m)
	requireFree(t, servers, "jobs")
	within(t, soon, "Lock on full nodes", func() { err = r.NewMutex("jobs").Lock() })
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	var node *redlock.NodeError
	require.ErrorAs(t, err, &node)
	require.True(t, node.Permanent())
	require.Contains(t, err.Error(), "OOM")
	for _, s := range servers {
		s.MustDo(t, "CONFIG", "SET", "maxmemory", "0")
	}
	require.NoError(t, m.Lock())
	unlock(t, m)
}

// Errors and configuration.

func TestCase25_CtxErrorsOfEveryVerb(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	proxies, pools := proxied(t, servers)
	holder := factory(t, servers, patient(), redlock.WithExpiry(time.Minute)).NewMutex("taken") // outlives the slowest machine
	require.NoError(t, holder.Lock())
	requireHeld(t, servers, "taken", 3)
	r := factoryOf(t, pools, redlock.WithNodeTimeout(slowNode))

	ends := map[error]func() (context.Context, context.CancelFunc){
		context.DeadlineExceeded: func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 500*time.Millisecond)
		},
		context.Canceled: func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(500*time.Millisecond, cancel)
			return ctx, cancel
		},
	}
	for want, end := range ends {
		for _, verb := range []string{"Lock", "Hold", "Do"} {
			ctx, cancel := end()
			err := acquireBy(verb, ctx, r.NewMutex("taken"))
			cancel()
			require.ErrorIs(t, err, want, verb)
			require.ErrorIs(t, err, redlock.ErrFailed, verb)
			var taken *redlock.TakenError
			require.ErrorAs(t, err, &taken, verb)
			require.NotEmpty(t, taken.Nodes, "%s: %v", verb, err)
			require.Positive(t, taken.TTL, verb)
			require.Equal(t, holder.Token(), taken.Token, verb)
		}
	}
	held := map[string]*redlock.Mutex{}
	for _, verb := range []string{"Extend", "ExtendFor", "Unlock"} {
		for want := range ends {
			m := r.NewMutex(verb + " " + want.Error())
			require.NoError(t, m.Lock())
			held[m.Name()] = m
		}
	}
	for _, p := range proxies {
		p.Delay(0, 2*time.Second)
	}
	for want, end := range ends {
		for _, verb := range []string{"Extend", "ExtendFor", "Unlock"} {
			m := held[verb+" "+want.Error()]
			ctx, cancel := end()
			within(t, soon, verb, func() {
				var ok bool
				var err error
				switch verb {
				case "Extend":
					ok, err = m.ExtendContext(ctx)
					require.ErrorIs(t, err, redlock.ErrExtendFailed)
				case "ExtendFor":
					ok, err = m.ExtendFor(ctx, time.Second)
					require.ErrorIs(t, err, redlock.ErrExtendFailed)
				case "Unlock":
					ok, err = m.UnlockContext(ctx)
				}
				require.False(t, ok)
				require.ErrorIs(t, err, want, verb)
			})
			cancel()
		}
	}
	for _, p := range proxies {
		p.Delay(0, 0)
	}
}

// A try limit must not turn a hopeless case into 32 attempts; TestPermanentFaults
// has the other refusals.
func TestCase26_HopelessFaultsFailAtOnce(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	for _, s := range servers[:2] {
		s.MustDo(t, "REPLICAOF", "127.0.0.1", "1")
	}
	for _, opts := range [][]redlock.Option{nil, {redlock.WithTries(32), redlock.WithRetryDelay(300 * time.Millisecond)}} {
		var seen recorder
		r := factory(t, servers, append(opts, redlock.WithObserver(&seen))...)
		var err error
		within(t, 2*soon, "Lock", func() { err = r.NewMutex("jobs").Lock() })
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.Contains(t, err.Error(), "READONLY")
		require.Len(t, seen.verb("lock"), 1)
		require.Equal(t, 1, seen.verb("lock")[0].Attempts)
	}
}

// forgetful is a client library without a cache of scripts: it sends the source.
type forgetful struct {
	pool *redis.Pool
}

func (f forgetful) Eval(ctx context.Context, s *pool.Script, keys []string, args ...any) ([]int64, error) {
	c, err := f.pool.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close() //nolint:errcheck // returns the connection
	words := []any{s.Source(), len(keys)}
	for _, k := range keys {
		words = append(words, k)
	}
	return redis.Int64s(c.Do("EVAL", append(words, args...)...))
}

func TestCase27_ScriptFlushIsUnnoticed(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	cycle := func(m *redlock.Mutex, between func()) {
		between()
		require.NoError(t, m.Lock())
		between()
		ok, err := m.Extend()
		require.NoError(t, err)
		require.True(t, ok)
		between()
		unlock(t, m)
	}
	t.Run("before each verb", func(t *testing.T) {
		m := factory(t, servers, patient()).NewMutex("jobs")
		for range 5 {
			cycle(m, func() {
				for _, s := range servers {
					s.MustDo(t, "SCRIPT", "FLUSH")
				}
			})
		}
	})
	t.Run("all the time", func(t *testing.T) {
		m := factory(t, servers, patient()).NewMutex("jobs")
		stop := make(chan struct{})
		var flushing sync.WaitGroup
		for _, s := range servers {
			flushing.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						_, _ = s.Do("SCRIPT", "FLUSH")
					}
				}
			})
		}
		defer flushing.Wait()
		defer close(stop)
		for range 50 {
			cycle(m, func() {})
		}
	})
	t.Run("client without a cache", func(t *testing.T) {
		var nodes []pool.Pool
		for _, s := range servers {
			p := newRedigo(s.Addr())
			t.Cleanup(func() { p.Close() }) //nolint:errcheck // idle connections
			nodes = append(nodes, forgetful{p})
		}
		cycle(factoryOf(t, nodes, patient()).NewMutex("jobs"), func() {})
	})
}

func TestCase28_BadConfigurationIsNamed(t *testing.T) {
	t.Parallel()
	for _, none := range [][]pool.Pool{nil, {}} {
		_, err := redlock.New(none)
		require.ErrorIs(t, err, redlock.ErrInvalidOption)
		require.ErrorContains(t, err, "pools")
	}
	s := testutil.StartRedis(t)
	_, err := redlock.New([]pool.Pool{poolAt(t, s.Addr()), nil})
	require.ErrorIs(t, err, redlock.ErrInvalidOption)
	require.ErrorContains(t, err, "pool 1")
	_, err = redlock.New(pools(t, []*testutil.Server{s}), redlock.WithExpiry(0))
	require.ErrorIs(t, err, redlock.ErrInvalidOption)
	require.ErrorContains(t, err, "WithExpiry(0s)")
	// TestBadOptions has every option.
}

func TestCase29_ErrorsNameTheNodeAndNoPassword(t *testing.T) {
	t.Parallel()
	const right, wrong = "s3cret-right", "s3cret-wrong"
	servers := testutil.StartRedisN(t, 3, "--requirepass", right)
	check := func(t *testing.T, err error) {
		t.Helper()
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.NotEmpty(t, nodeErrors(err))
		for _, n := range nodeErrors(err) {
			require.NotEmpty(t, n.Addr)
			require.Contains(t, err.Error(), n.Addr)
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			require.NotContains(t, fmt.Sprintf("%v %+v", e, e), "s3cret")
		}
		for _, n := range nodeErrors(err) {
			require.NotContains(t, fmt.Sprintf("%v %+v %s", n, n.Err, n.Addr), "s3cret")
		}
	}
	t.Run("wrong password", func(t *testing.T) {
		var nodes []pool.Pool
		for _, s := range servers {
			nodes = append(nodes, poolAt(t, s.Addr(), redis.DialPassword(wrong)))
		}
		check(t, factoryOf(t, nodes).NewMutex("jobs").Lock())
	})
	t.Run("unreachable", func(t *testing.T) {
		var nodes []pool.Pool
		for _, s := range servers {
			p := testutil.StartProxy(t, s.Addr())
			require.NoError(t, p.Refuse(true))
			nodes = append(nodes, poolAt(t, p.Addr(), redis.DialPassword(right)))
		}
		err := factoryOf(t, nodes).NewMutex("jobs").TryLock()
		check(t, err)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	})
	t.Run("lost while held", func(t *testing.T) {
		var nodes []pool.Pool
		var proxies []*testutil.Proxy
		for _, s := range servers {
			p := testutil.StartProxy(t, s.Addr())
			proxies = append(proxies, p)
			nodes = append(nodes, poolAt(t, p.Addr(), redis.DialPassword(right)))
		}
		m := factoryOf(t, nodes, patient()).NewMutex("jobs")
		require.NoError(t, m.Lock())
		for _, p := range proxies {
			require.NoError(t, p.Refuse(true))
		}
		_, err := m.Extend()
		check(t, err)
		_, err = m.Unlock()
		check(t, err)
		for _, p := range proxies {
			require.NoError(t, p.Refuse(false))
		}
	})
}

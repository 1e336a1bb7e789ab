package redlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
)

// Waiting on real servers.

func init() {
	childModes["wait"] = waitChild
	childModes["hold"] = holdChild
}

const envExpiry = "REDLOCK_TEST_EXPIRY"

// waitChild waits for a lock that it is not to get.
func waitChild() error {
	nodes, done := childPools()
	defer done()
	r, err := redlock.New(nodes)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return r.NewMutex("jobs").LockContext(ctx)
}

// holdChild takes the lock and sits on it.
func holdChild() error {
	nodes, done := childPools()
	defer done()
	expiry, err := time.ParseDuration(os.Getenv(envExpiry))
	if err != nil {
		return err
	}
	r, err := redlock.New(nodes)
	if err != nil {
		return err
	}
	if err := r.NewMutex("jobs", redlock.WithExpiry(expiry)).Lock(); err != nil {
		return err
	}
	select {}
}

// endChild kills a child that has nothing more to say.
func endChild(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // says that it was killed
}

// places are the members of a queue on one server, first to last.
func places(t testing.TB, s *testutil.Server, name string) []string {
	t.Helper()
	members, err := redis.Strings(s.Do("ZRANGE", name+":q{"+name+"}", 0, -1))
	require.NoError(t, err)
	return members
}

// requirePlaces waits until so many stand in the queue of every server.
func requirePlaces(t testing.TB, servers []*testutil.Server, name string, want int) {
	t.Helper()
	testutil.Eventually(t, settle, func() bool {
		return !slices.ContainsFunc(servers, func(s *testutil.Server) bool { return len(places(t, s, name)) != want })
	}, "%d places in each queue of %q", want, name)
}

// requireQueued waits until somebody stands in the queues of a quorum. Where the
// holder lacks a node, a waiter is never told to queue.
func requireQueued(t testing.TB, servers []*testutil.Server, name string) {
	t.Helper()
	testutil.Eventually(t, settle, func() bool {
		n := 0
		for _, s := range servers {
			if len(places(t, s, name)) > 0 {
				n++
			}
		}
		return n > len(servers)/2
	}, "somebody waits for %q", name)
}

// lockLater starts to lock and says when it was done.
func lockLater(ctx context.Context, m *redlock.Mutex) <-chan result {
	got := make(chan result, 1)
	go func() {
		err := m.LockContext(ctx)
		got <- result{time.Now(), err}
	}()
	return got
}

type result struct {
	at  time.Time
	err error
}

func median(d []time.Duration) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[len(d)/2]
}

func TestCase20_HolderDies(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 5)
	holder, said := child(t, "hold", envAddrs+"="+addrsOf(servers), envExpiry+"=3s")
	testutil.Eventually(t, settle, func() bool { return holders(t, servers, "jobs") == 5 }, "the child holds the lock; it said: %s", said)
	m := factory(t, servers, patient()).NewMutex("jobs") // default options, as far as waiting goes
	got := lockLater(t.Context(), m)
	requirePlaces(t, servers, "jobs", 1)
	endChild(t, holder)
	left := time.Duration(0)
	for _, s := range servers {
		ms, err := redis.Int(s.Do("PTTL", "jobs"))
		require.NoError(t, err)
		left = max(left, time.Duration(ms)*time.Millisecond)
	}
	gone := time.Now().Add(left)
	r := <-got
	require.NoError(t, r.err)
	require.Less(t, r.at.Sub(gone), 500*time.Millisecond)
	unlock(t, m)
	requirePlaces(t, servers, "jobs", 0)
}

// The waiter of a dead holder sees the expiry coming.
func TestWait_GrantedAtTheExpiry(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 5)
	// Not a multiple of the 250 ms after which the first in a queue looks anyway.
	const expiry = 1100 * time.Millisecond
	dead := factory(t, servers, redlock.WithExpiry(expiry))
	alive := factory(t, servers, redlock.WithNodeTimeout(4*time.Second))
	late := make([]time.Duration, 20)
	var all sync.WaitGroup
	for i := range late {
		name := fmt.Sprint("jobs", i)
		started := time.Now()
		require.NoError(t, dead.NewMutex(name).Lock())
		all.Go(func() {
			m := alive.NewMutex(name)
			if err := m.LockContext(t.Context()); err != nil {
				t.Error(err)
				return
			}
			late[i] = time.Since(started.Add(expiry))
			_, _ = m.Unlock()
		})
		// The next one begins in the middle of this one's life.
		if i%4 == 3 {
			all.Wait()
		}
	}
	all.Wait()
	t.Logf("granted after the expiry: median %v, worst %v", median(late), slices.Max(late))
	require.Less(t, median(late), 60*time.Millisecond)
}

// stamps is an observer that notes when each acquire was answered.
type stamps struct {
	mu sync.Mutex
	at []time.Time
}

func (s *stamps) NodeDone(_ context.Context, e redlock.NodeEvent) {
	if e.Verb != "acquire" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = append(s.at, time.Now())
}

// An expiry wakes a crowd one after the other.
func TestWait_NoStampedeAtAnExpiry(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 5)
	const crowd = 50
	require.NoError(t, factory(t, servers, patient(), redlock.WithExpiry(time.Minute)).NewMutex("jobs").Lock())
	requireHeld(t, servers, "jobs", len(servers))
	ctx, cancel := context.WithCancel(t.Context())
	var seen stamps
	granted := make(chan time.Time, crowd)
	var all sync.WaitGroup
	for range crowd {
		m := factory(t, servers, patient(), redlock.WithObserver(&seen)).NewMutex("jobs")
		all.Go(func() {
			if m.LockContext(ctx) == nil {
				granted <- time.Now() // and sits on it
			}
		})
	}
	requirePlaces(t, servers, "jobs", crowd)
	// However long it took them to queue, all look once more, after a second or so, and
	// learn when it ends.
	for _, s := range servers {
		s.MustDo(t, "PEXPIRE", "jobs", 5000)
	}
	at := <-granted
	before := 0
	for _, s := range servers {
		before += scriptCalls(t, s)
	}
	cancel()
	all.Wait()
	inWindow := 0
	seen.mu.Lock()
	for _, when := range seen.at {
		if when.After(at.Add(-15*time.Millisecond)) && when.Before(at.Add(15*time.Millisecond)) {
			inWindow++
		}
	}
	total := len(seen.at)
	seen.mu.Unlock()
	t.Logf("%d acquires answered within 15 ms of the grant, %d in all; %d scripts run in all", inWindow, total, before)
	// All at once would be 250; and each then tries again.
	require.Less(t, inWindow, crowd*5/2)
	requirePlaces(t, servers, "jobs", 0)
}

// 32 waiters in 4 clients: a hand-over takes a few round trips, not a pause.
func TestCase21_HandOverIsPrompt(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 5)
	var gaps []time.Duration
	var last time.Time
	work := func(*redlock.Mutex) {
		if !last.IsZero() {
			gaps = append(gaps, time.Since(last)) // guarded by the lock itself
		}
		time.Sleep(time.Millisecond)
		last = time.Now()
	}
	grants := crowdFor(t, servers, 4, 8, 2*time.Second, work)
	scripts := 0
	for _, s := range servers {
		scripts += scriptCalls(t, s)
	}
	sum := 0
	for _, n := range grants {
		sum += n
	}
	t.Logf("%d grants, hand-over median %v, %d scripts a grant", sum, median(gaps), scripts/sum)
	// A pause would be 50 ms at least; half a millisecond is normal.
	require.Less(t, median(gaps), 20*time.Millisecond)
}

// crowdFor has workers of some clients lock, work and unlock again and again, and
// counts the grants of each.
func crowdFor(t testing.TB, servers []*testutil.Server, clients, workers int, length time.Duration, work func(*redlock.Mutex)) []int {
	t.Helper()
	grants := make([]int, clients*workers)
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var all sync.WaitGroup
	for c := range clients {
		r := factory(t, servers, patient())
		for w := range workers {
			all.Go(func() {
				m := r.NewMutex("jobs")
				for ctx.Err() == nil {
					if err := m.LockContext(ctx); err != nil {
						if ctx.Err() == nil {
							t.Error(err)
						}
						return
					}
					grants[c*workers+w]++
					work(m)
					if _, err := m.Unlock(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	return grants
}

func TestWait_Fairness(t *testing.T) {
	servers := testutil.StartRedisN(t, 5)
	grants := crowdFor(t, servers, 4, 4, 5*time.Second, func(*redlock.Mutex) { time.Sleep(time.Millisecond) })
	factor := float64(slices.Max(grants)) / float64(max(1, slices.Min(grants)))
	t.Logf("grants by worker %v: factor %.2f", grants, factor)
	require.Less(t, factor, 2.0)
}

// A waiter that gives up just as it is called does not take the call with it.
func TestCase22_GivesUpWhenWoken(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 5)
	holder, quits, next := factory(t, servers, patient()), factory(t, servers, patient()), factory(t, servers, patient())
	for _, r := range []*redlock.Redlock{holder, quits, next} {
		warmReal(t, r)
	}
	const rounds = 40
	delays := make([]time.Duration, 0, rounds)
	gaveUp := 0
	for range rounds {
		m := holder.NewMutex("jobs")
		requireFree(t, servers, "jobs") // or the last round's holder still has a node
		require.NoError(t, m.Lock())
		requireHeld(t, servers, "jobs", 5)
		ctx, cancel := context.WithCancel(t.Context())
		quitter, mine := quits.NewMutex("jobs"), next.NewMutex("jobs")
		first := lockLater(ctx, quitter)
		requirePlaces(t, servers, "jobs", 1)
		second := lockLater(t.Context(), mine)
		requirePlaces(t, servers, "jobs", 2)
		released := time.Now()
		end := time.AfterFunc(rand.N(2*time.Millisecond), cancel)
		unlock(t, m)
		if r := <-first; r.err == nil {
			unlock(t, quitter)
		} else {
			require.ErrorIs(t, r.err, context.Canceled)
			gaveUp++
		}
		r := <-second
		require.NoError(t, r.err)
		delays = append(delays, r.at.Sub(released))
		unlock(t, mine)
		end.Stop()
		cancel()
		requirePlaces(t, servers, "jobs", 0)
	}
	slow := 0
	for _, d := range delays {
		if d > 150*time.Millisecond {
			slow++
		}
	}
	t.Logf("gave up %d times of %d; the next had it after %v (median), %v (worst)", gaveUp, rounds, median(delays), slices.Max(delays))
	// Its timer would come 250 ms after it joined.
	require.Less(t, slow, rounds/10)
}

// warmReal has a client subscribed on each node.
func warmReal(t testing.TB, r *redlock.Redlock) {
	t.Helper()
	name := fmt.Sprint("warm", rand.Uint64())
	first := r.NewMutex(name)
	require.NoError(t, first.Lock())
	second := r.NewMutex(name)
	got := lockLater(t.Context(), second)
	time.AfterFunc(50*time.Millisecond, func() { _, _ = first.Unlock() })
	require.NoError(t, (<-got).err)
	unlock(t, second)
}

func TestCase23_WaiterIsKilled(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 5)
	holder, next := factory(t, servers, patient()), factory(t, servers, patient())
	warmReal(t, next)
	const rounds = 3
	delays := make([]time.Duration, 0, rounds)
	for range rounds {
		m := holder.NewMutex("jobs")
		requireFree(t, servers, "jobs") // or the last round's holder still has a node
		require.NoError(t, m.Lock())
		requireHeld(t, servers, "jobs", 5)
		victim, said := child(t, "wait", envAddrs+"="+addrsOf(servers))
		requirePlaces(t, servers, "jobs", 1)
		mine := next.NewMutex("jobs")
		got := lockLater(t.Context(), mine)
		requirePlaces(t, servers, "jobs", 2)
		channel, _, _ := strings.Cut(places(t, servers[0], "jobs")[0], "#")
		endChild(t, victim)
		require.Empty(t, said.String())
		for _, s := range servers {
			// The kernel closes its connections; the server sees that in its own time.
			testutil.Eventually(t, settle, func() bool {
				n, err := redis.Values(s.Do("PUBSUB", "NUMSUB", channel))
				require.NoError(t, err)
				return n[1].(int64) == 0
			}, "the dead process is not subscribed")
		}
		released := time.Now()
		unlock(t, m)
		r := <-got
		require.NoError(t, r.err)
		delays = append(delays, r.at.Sub(released))
		unlock(t, mine)
		requirePlaces(t, servers, "jobs", 0)
	}
	t.Logf("handed over past the dead one after %v", delays)
	require.Less(t, slices.Min(delays), 50*time.Millisecond, "not by the timer")
	require.Less(t, slices.Max(delays), 2*time.Second)
}

// pubsubs counts the connections of a server that only listen.
func pubsubs(t testing.TB, s *testutil.Server) int {
	t.Helper()
	list, err := redis.String(s.Do("CLIENT", "LIST", "TYPE", "pubsub"))
	require.NoError(t, err)
	return strings.Count(list, "id=")
}

func TestCase24_NoticesAreNotPermitted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, rights string }{
		{"no PUBLISH", "-publish"},
		{"no SUBSCRIBE", "-subscribe"},
		{"no channels", "resetchannels"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			servers := testutil.StartRedisN(t, 3)
			limited := func() []pool.Pool {
				out := make([]pool.Pool, len(servers))
				for i, s := range servers {
					out[i] = poolAt(t, s.Addr(), redis.DialUsername("locker"), redis.DialPassword("pw"))
				}
				return out
			}
			for _, s := range servers {
				s.SetUser(t, "locker", "~*", "&*", "+@all", c.rights)
			}
			var seen waitLog
			m := factoryOf(t, limited(), patient()).NewMutex("jobs")
			mine := factoryOf(t, limited(), patient(), redlock.WithObserver(&seen)).NewMutex("jobs")
			for range 3 {
				require.NoError(t, m.Lock())
				got := lockLater(t.Context(), mine)
				testutil.Eventually(t, settle, func() bool { return len(seen.wokenBy()) > 0 }, "a first pause")
				released := time.Now()
				unlock(t, m)
				r := <-got
				require.NoError(t, r.err)
				require.Less(t, r.at.Sub(released), 2*time.Second)
				unlock(t, mine)
			}
			t.Log(seen.wokenBy())
		})
	}
}

func TestCase24_SubscriptionDrops(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 5)
	holder := factory(t, servers, patient())
	var seen waitLog
	next := factory(t, servers, patient(), redlock.WithObserver(&seen))
	warmReal(t, next)
	m := holder.NewMutex("jobs")
	require.NoError(t, m.Lock())
	requireHeld(t, servers, "jobs", 5)
	mine := next.NewMutex("jobs")
	got := lockLater(t.Context(), mine)
	requirePlaces(t, servers, "jobs", 1)
	for _, s := range servers {
		require.EqualValues(t, 1, s.MustDo(t, "CLIENT", "KILL", "TYPE", "pubsub"))
	}
	// Released while nobody listens: the waiter asks as soon as it listens again,
	// or by its timer.
	released := time.Now()
	unlock(t, m)
	r := <-got
	require.NoError(t, r.err)
	require.Less(t, r.at.Sub(released), time.Second)
	t.Logf("after the loss: granted in %v; %v", r.at.Sub(released), seen.wokenBy())

	// It comes back, and calls arrive again.
	for _, s := range servers {
		testutil.Eventually(t, settle, func() bool { return pubsubs(t, s) == 1 }, "subscribed again")
	}
	var delays []time.Duration
	for range 5 {
		then := lockLater(t.Context(), m)
		requireQueued(t, servers, "jobs")
		unlock(t, mine)
		r := <-then
		require.NoError(t, r.err)
		back := lockLater(t.Context(), mine)
		requireQueued(t, servers, "jobs")
		released = time.Now()
		unlock(t, m)
		r = <-back
		require.NoError(t, r.err)
		delays = append(delays, r.at.Sub(released))
	}
	unlock(t, mine)
	t.Logf("called again after %v", delays)
	require.Less(t, median(delays), 100*time.Millisecond)
}

// comeAndGo has waiters with short lives for some time and looks at what is left.
func comeAndGo(t *testing.T, length time.Duration) {
	testutil.CheckLeaks(t)
	servers := testutil.StartRedisN(t, 5)
	const clients, workers = 4, 4
	end := time.Now().Add(length)
	all := make([]*redlock.Redlock, clients)
	var busy sync.WaitGroup
	var tried, granted atomic.Int64
	for i := range all {
		all[i] = factory(t, servers)
		for range workers {
			busy.Go(func() {
				for time.Now().Before(end) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond+rand.N(50*time.Millisecond))
					m := all[i].NewMutex("jobs")
					tried.Add(1)
					if m.LockContext(ctx) == nil {
						granted.Add(1)
						time.Sleep(rand.N(3 * time.Millisecond))
						_, _ = m.Unlock()
					}
					cancel()
				}
			})
		}
	}
	busy.Wait()
	t.Logf("%d of %d granted", granted.Load(), tried.Load())
	require.Positive(t, granted.Load())
	requireFree(t, servers, "jobs")
	requirePlaces(t, servers, "jobs", 0)
	for _, s := range servers {
		require.LessOrEqual(t, pubsubs(t, s), clients)
		channels, err := redis.Strings(s.Do("PUBSUB", "CHANNELS", "*"))
		require.NoError(t, err)
		require.LessOrEqual(t, len(channels), clients)
	}
	for _, r := range all {
		ctx, cancel := context.WithTimeout(t.Context(), settle)
		require.NoError(t, r.Close(ctx))
		cancel()
	}
	for _, s := range servers {
		testutil.Eventually(t, settle, func() bool { return pubsubs(t, s) == 0 }, "no subscription after Close")
	}
}

// Not parallel: it counts goroutines.
func TestWait_ComeAndGo(t *testing.T) { comeAndGo(t, 3*time.Second) }

func TestSoakWait_ComeAndGo(t *testing.T) {
	if !soaking() {
		t.Log("30 s with REDLOCK_SOAK=1; TestWait_ComeAndGo is the short run")
		return
	}
	comeAndGo(t, 30*time.Second)
}

// standOff has 4 contenders start together in each round while one node is down.
func standOff(t *testing.T, rounds int) {
	servers := testutil.StartRedisN(t, 5)
	require.NoError(t, servers[4].Stop())
	var seen recorder
	clients := make([]*redlock.Redlock, 4)
	for i := range clients {
		clients[i] = factory(t, servers, patient(), redlock.WithObserver(&seen))
	}
	attempts := map[int]int{}
	for round := range rounds {
		name := fmt.Sprint("jobs", round)
		seen.mu.Lock()
		seen.verbs = nil
		seen.mu.Unlock()
		start := make(chan struct{})
		var all sync.WaitGroup
		for _, r := range clients {
			all.Go(func() {
				m := r.NewMutex(name)
				<-start
				if err := m.Lock(); err != nil {
					t.Error(err)
					return
				}
				_, _ = m.Unlock()
			})
		}
		close(start)
		all.Wait()
		winner := seen.verb("lock")[0]
		require.NoError(t, winner.Err)
		attempts[winner.Attempts]++
		require.LessOrEqual(t, winner.Attempts, 3, "round %d", round)
	}
	t.Logf("attempts of the first to win: %v", attempts)
}

func TestWait_ContendersDoNotStandOff(t *testing.T) {
	t.Parallel()
	standOff(t, 40)
}

func TestSoakWait_ContendersDoNotStandOff(t *testing.T) {
	if !soaking() {
		t.Log("500 rounds with REDLOCK_SOAK=1; TestWait_ContendersDoNotStandOff is the short run")
		return
	}
	standOff(t, 500)
}

// Close ends a wait on real servers, too.
func TestWait_CloseEndsIt(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	for _, s := range servers {
		steal(t, s, "jobs")
	}
	r := factory(t, servers, patient())
	first, second := lockLater(t.Context(), r.NewMutex("jobs")), lockLater(t.Context(), r.NewMutex("jobs"))
	requirePlaces(t, servers, "jobs", 1)
	ctx, cancel := context.WithTimeout(t.Context(), settle)
	defer cancel()
	within(t, soon, "Close", func() { require.NoError(t, r.Close(ctx)) })
	within(t, soon, "the waiters", func() {
		require.ErrorIs(t, (<-first).err, redlock.ErrClosed)
		require.ErrorIs(t, (<-second).err, redlock.ErrClosed)
	})
	requirePlaces(t, servers, "jobs", 0)
}

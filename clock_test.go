package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
)

// Clocks that are wrong: of clients, of nodes, and requests that come late.

const (
	envAhead    = "REDLOCK_TEST_AHEAD"
	clockRounds = 25
	clockName   = "jobs"
)

func init() { childModes["clock"] = clockChild }

// clockChild contends as a client whose clock is off, and says what each grant cost.
func clockChild() error {
	ahead, err := time.ParseDuration(os.Getenv(envAhead))
	if err != nil {
		return err
	}
	nodes, done := childPools()
	defer done()
	var seen recorder
	r, err := redlock.New(nodes, patient(), redlock.WithObserver(&seen))
	if err != nil {
		return err
	}
	r.SetClientClock(ahead)
	witness, err := redis.Dial("tcp", os.Getenv(envWitness), redis.DialReadTimeout(contendWitnessHalt))
	if err != nil {
		return err
	}
	defer witness.Close() //nolint:errcheck // the process ends
	ctx, cancel := context.WithTimeout(context.Background(), contendChildLimit)
	defer cancel()
	m := r.NewMutex(clockName)
	who := "client " + os.Getenv(envAhead)
	for round := range clockRounds {
		if err := m.LockContext(ctx); err != nil {
			return fmt.Errorf("%s, round %d: %w", who, round, err)
		}
		_, entered := witnessEnter.Do(witness, "seen", who, m.Token())
		_, left := witnessLeave.Do(witness, "seen", who)
		_, unlocked := m.UnlockContext(ctx)
		if err := errors.Join(entered, left, unlocked); err != nil {
			return fmt.Errorf("%s, round %d: %w", who, round, err)
		}
	}
	attempts := 0
	for _, e := range seen.verb("lock") {
		attempts += e.Attempts
	}
	asked := seen.countNodes(func(e redlock.NodeEvent) bool { return e.Verb == "acquire" })
	fmt.Printf("%s: %.2f attempts and %.1f requests for each of %d grants\n", who,
		float64(attempts)/clockRounds, float64(asked)/clockRounds, clockRounds)
	return r.Close(ctx)
}

// Clients an hour off in both directions contend with a good one, and one node's clock
// is 30 s off. Each client is a process; a client's clock cannot be set from outside
// (Go reads it without a system call or the C library), so it is told to believe in
// another. The node's is: see testutil.Clock.
func TestClocksOfAllOff(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{30 * time.Second, -30 * time.Second} {
		t.Run(fmt.Sprint("a node ", off), func(t *testing.T) {
			t.Parallel()
			bad, clock := testutil.StartRedisWithClock(t)
			clock.MustSet(t, off, 1)
			servers := append(testutil.StartRedisN(t, 2), bad)
			witness := testutil.StartRedis(t)
			clients := map[string]*exec.Cmd{}
			said := map[string]fmt.Stringer{}
			for _, ahead := range clientClocks {
				who := ahead.String()
				clients[who], said[who] = child(t, "clock", envAhead+"="+who,
					envAddrs+"="+addrsOf(servers), envWitness+"="+witness.Addr())
			}
			for who, cmd := range clients {
				require.NoError(t, cmd.Wait(), "the client %s off said: %s", who, said[who])
				t.Log(said[who])
			}
			seen, err := redis.StringMap(witness.Do("HGETALL", "seen"))
			require.NoError(t, err)
			require.Equal(t, strconv.Itoa(len(clients)*clockRounds), seen["grants"])
			require.Empty(t, seen["overlaps"], "two holders at a time")
			require.Empty(t, seen["disorder"], "a later grant with a token that is not higher")
			requireFree(t, servers, clockName)
		})
	}
}

// The same for one client at a time, seen from outside only: all nodes' clocks are off
// from where the client stands. It costs the first acquire one more proposal.
func TestClientClockCostsOneProposal(t *testing.T) {
	t.Parallel()
	for _, ahead := range clientClocks {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var seen recorder
				nodes, r := memory(t, 3, redlock.WithObserver(&seen))
				defer r.Close(t.Context()) //nolint:errcheck // nothing is owed
				for _, n := range nodes {
					n.SetClockOffset(-ahead)
				}
				var last int64
				for round := range 10 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					m := r.NewMutex("jobs")
					require.NoError(t, m.LockContext(ctx), "round %d", round)
					require.Greater(t, m.Token(), last)
					last = m.Token()
					ok, err := m.ExtendContext(ctx)
					require.NoError(t, err)
					require.True(t, ok)
					synctest.Wait()
					unlock(t, m)
					synctest.Wait()
					cancel()
				}
				for _, e := range seen.verb("lock") {
					require.Equal(t, 1, e.Attempts)
				}
				extra := 0
				if ahead != 0 {
					extra = len(nodes)
				}
				require.Equal(t, 10*len(nodes)+extra, seen.countNodes(func(e redlock.NodeEvent) bool { return e.Verb == "acquire" }))
				drained(t, r)
			})
		})
	}
}

// A node's clock jumps while the lock is held: the key dies there at once, or hardly
// ever. Neither ends the lock, nor lets anybody else in, nor keeps it after.
func TestNodeClockJumpsWhileHeld(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			t.Parallel()
			bad, clock := testutil.StartRedisWithClock(t)
			servers := append(testutil.StartRedisN(t, 2), bad)
			r := factory(t, servers, patient(), redlock.WithExpiry(time.Minute))
			m := r.NewMutex("jobs")
			require.NoError(t, m.Lock())
			requireHeld(t, servers, "jobs", 3)
			clock.MustSet(t, jump, 1)
			require.ErrorIs(t, factory(t, servers, patient()).NewMutex("jobs").TryLock(), redlock.ErrTaken)
			ok, err := m.Extend()
			require.NoError(t, err)
			require.True(t, ok)
			require.ErrorIs(t, factory(t, servers, patient()).NewMutex("jobs").TryLock(), redlock.ErrTaken)
			token := m.Token()
			unlock(t, m)
			requireFree(t, servers, "jobs")
			next := r.NewMutex("jobs")
			require.NoError(t, next.Lock())
			require.Greater(t, next.Token(), token)
			unlock(t, next)
		})
	}
}

// A renewal is held up on its way to one node. Meanwhile the lock is extended for much
// longer: when the renewal arrives at last, it must not shorten anything.
func TestDelayedRenewalAfterExtendFor(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	proxies, nodes := proxied(t, servers)
	const expiry, long = 6 * time.Second, 10 * time.Minute
	r := factoryOf(t, nodes, redlock.WithExpiry(expiry), patient())
	m := r.NewMutex("jobs")
	is, touches := isScript(t, "touch"), 0
	hold := proxies[0].Hold(func(request []byte) bool {
		if !is(request) {
			return false
		}
		touches++
		return touches == 1
	})
	held, err := m.Hold(t.Context())
	require.NoError(t, err)
	token := m.Token()
	testutil.Eventually(t, settle, func() bool { return hold.Held() == 1 }, "the renewal is held up")
	ok, err := m.ExtendFor(t.Context(), long)
	require.NoError(t, err)
	require.True(t, ok)
	until := m.Until()
	lives := func(i int, key string) time.Duration {
		ms, err := redis.Int64(servers[i].Do("PTTL", key))
		require.NoError(t, err)
		return time.Duration(ms) * time.Millisecond
	}
	testutil.Eventually(t, settle, func() bool { return lives(0, "jobs") > long-time.Minute }, "the long extend has overtaken")
	before := scriptCalls(t, servers[0])
	hold.Release()
	testutil.Eventually(t, settle, func() bool { return scriptCalls(t, servers[0]) > before }, "the renewal has arrived")
	for i := range servers {
		require.Greater(t, lives(i, "jobs"), long-time.Minute, "node %d", i)
		require.Greater(t, lives(i, "jobs:f{jobs}"), lives(i, "jobs"), "the fence of node %d outlives the lock", i)
	}
	require.False(t, m.Until().Before(until))
	require.Equal(t, token, m.Token())
	require.NoError(t, held.Err())
	unlock(t, m)
	requireFree(t, servers, "jobs")
}

// An extend is held up on its way to one node until the lock is another's. It must not
// touch that, nor come in between, nor hurt the fence.
func TestLateExtendAfterUnlockAndOtherHands(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	proxies, nodes := proxied(t, servers)
	r := factoryOf(t, nodes, patient())
	m := r.NewMutex("jobs")
	require.NoError(t, m.Lock())
	requireHeld(t, servers, "jobs", 3)
	hold := proxies[0].Hold(isScript(t, "touch"))
	ok, err := m.ExtendFor(t.Context(), time.Hour)
	require.NoError(t, err)
	require.True(t, ok)
	testutil.Eventually(t, settle, func() bool { return hold.Held() == 1 }, "the extend is held up")
	unlock(t, m)
	requireFree(t, servers, "jobs")
	other := factory(t, servers, patient()).NewMutex("jobs")
	require.NoError(t, other.Lock())
	requireHeld(t, servers, "jobs", 3)
	fence := lockedBy(t, servers[0], "jobs:f{jobs}")
	before := scriptCalls(t, servers[0])
	hold.Release()
	testutil.Eventually(t, settle, func() bool { return scriptCalls(t, servers[0]) > before }, "the extend has arrived")
	require.Equal(t, other.Value(), lockedBy(t, servers[0], "jobs"))
	require.Equal(t, fence, lockedBy(t, servers[0], "jobs:f{jobs}"))
	ttl, err := redis.Int64(servers[0].Do("PTTL", "jobs"))
	require.NoError(t, err)
	require.LessOrEqual(t, ttl, int64(8000))
	unlock(t, other)
	requireFree(t, servers, "jobs")
}

// clientClocks are how far clients are ahead.
var clientClocks = []time.Duration{-time.Hour, 0, time.Hour}

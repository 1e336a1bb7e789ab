package redlocktest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/pool/redigo"
	"github.com/quorumlock/redlock/redlocktest"
)

// The differential test sends the same random calls to a real server and to a
// twin, and compares replies, keys and notices. The server goes first; the
// twin's clock then stands at the very microsecond that the server replied, so
// ballots may lie right on a bound. Times to live may differ by the milliseconds
// a call took, and calls in which a key may or may not have expired are not
// judged: their lock name is given up for a fresh one.

const (
	seeds       = 4
	stepsPlain  = 1000
	seedVar     = "REDLOCKTEST_SEED" // runs one seed instead of fresh ones
	expirySlack = 3                  // ms around a deadline in which nothing is judged
	stall       = 10                 // ms: a call that took longer may have outlived what it wrote
)

func TestTwinsBehaveLikeTheLua(t *testing.T) {
	server := testutil.StartRedis(t)
	seen := make(outcomes)
	list := testSeeds()
	for _, seed := range list {
		w := newWorld(t, server, seed, seen)
		w.listen()
		w.run(stepsPlain)
		w.checkNotices()
	}
	t.Logf("outcomes: %v", seen)
	assert.Greater(t, seen["judged"], len(list)*stepsPlain/2)
	for script, codes := range map[string][]int{
		"acquire": {1, 2, 3, 4}, "release": {1, 2, 3}, "touch": {1, 2, 3, 4, 5},
		"leave": {1, 2, 3}, "inspect": {0, 1}, "break": {1, 2, 3},
	} {
		for _, code := range codes {
			assert.NotZero(t, seen[script+" "+strconv.Itoa(code)], "%s never replied %d", script, code)
		}
	}
}

func TestTwinsBehaveLikeTheLuaOutOfMemory(t *testing.T) {
	server := testutil.StartRedis(t)
	w := newWorld(t, server, testSeeds()[0], make(outcomes))
	w.listen()
	for range 8 {
		w.run(20)
		w.command("CONFIG", "SET", "maxmemory", "1")
		w.twin.SetFull(true)
		w.full = true
		w.run(25)
		w.command("CONFIG", "SET", "maxmemory", "0")
		w.twin.SetFull(false)
		w.full = false
	}
	w.checkNotices()
	assert.NotZero(t, w.seen["OOM"])
}

func TestTwinsBehaveLikeTheLuaUnderAnAccessList(t *testing.T) {
	const denied = "ERR The user executing the script can't run this command or subcommand"
	server := testutil.StartRedis(t)
	w := newWorld(t, server, testSeeds()[0], make(outcomes))
	w.listen()
	for range 4 {
		w.command("ACL", "SETUSER", "default", "-publish")
		w.twin.RefuseCommand("PUBLISH", denied)
		w.run(60)
		w.command("ACL", "SETUSER", "default", "+publish")
		w.twin.RefuseCommand("PUBLISH", "")
		w.run(20)
	}
	w.noInfo, w.guarded = true, true
	w.command("ACL", "SETUSER", "default", "-info")
	w.twin.RefuseCommand("INFO", denied)
	w.run(150)
	w.checkNotices()
	assert.NotZero(t, w.seen["ERR"])
}

func TestTwinsBehaveLikeTheLuaAcrossRestarts(t *testing.T) {
	server := testutil.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	w := newWorld(t, server, testSeeds()[0], make(outcomes))
	w.guarded = true
	for _, keepKeys := range []bool{true, false} {
		w.listen()
		w.run(80)
		w.checkNotices()
		restart := server.RestartEmpty
		if keepKeys {
			restart = server.Restart
		}
		require.NoError(t, restart())
		w.twin.Restart(keepKeys)
		w.connect()
	}
	w.listen()
	w.run(80)
	w.checkNotices()
}

func testSeeds() []uint64 {
	if text := os.Getenv(seedVar); text != "" {
		if seed, err := strconv.ParseUint(text, 10, 64); err == nil {
			return []uint64{seed}
		}
	}
	list := make([]uint64, seeds)
	for i := range list {
		list[i] = rand.Uint64()
	}
	return list
}

type outcomes map[string]int

// A stamp is the real server's clock and uptime at one moment.
type stamp struct{ us, uptime int64 }

func (s stamp) ms() int64 { return s.us / 1000 }

type world struct {
	t       *testing.T
	seed    uint64
	rng     *rand.Rand
	server  *testutil.Server
	scripts map[string]*pool.Script
	seen    outcomes

	real pool.Pool
	conn redis.Conn
	twin *redlocktest.Node
	ears []*ear
	runs []string // run ids, the present one last

	last    stamp
	names   []string
	made    int
	gone    map[string]bool // names given up
	history []string

	full, guarded, noInfo, passed bool
}

func newWorld(t *testing.T, server *testutil.Server, seed uint64, seen outcomes) *world {
	w := &world{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), server: server,
		scripts: loadScripts(t), seen: seen,
		twin: redlocktest.NewNode("twin"), gone: make(map[string]bool),
	}
	t.Cleanup(func() {
		if !w.passed {
			t.Logf("seed %d (%s), last steps:\n%s", seed, seedVar, strings.Join(w.history, "\n"))
		}
	})
	for range 3 {
		w.names = append(w.names, w.freshName())
	}
	w.connect()
	return w
}

func (w *world) connect() {
	p := &redis.Pool{
		MaxIdle: 2,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", w.server.Addr())
		},
	}
	w.t.Cleanup(func() { _ = p.Close() })
	w.real = redigo.NewPool(p)
	w.conn = p.Get()
	w.t.Cleanup(func() { _ = w.conn.Close() })
	info, err := redis.String(w.conn.Do("INFO", "server"))
	require.NoError(w.t, err)
	run := regexp.MustCompile(`run_id:(\w+)`).FindStringSubmatch(info)[1]
	w.runs = append(w.runs, run)
	w.twin.SetRunID(run)
	w.last, _ = w.dump("none")
}

func (w *world) command(name string, args ...any) {
	w.t.Helper()
	w.note("%s %v", name, args)
	_, err := w.conn.Do(name, args...)
	require.NoError(w.t, err)
}

func (w *world) note(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
	w.history = w.history[max(0, len(w.history)-8):]
}

func (w *world) freshName() string {
	w.made++
	return fmt.Sprintf("lock:%x:%d", w.seed, w.made)
}

func companions(name string) []string {
	return []string{name, name + ":f", name + ":q", name + ":m", name + ":t"}
}

// call runs one script on both sides and judges it.
func (w *world) call(name string, c scriptCall) {
	if w.gone[name] {
		return
	}
	t, script := w.t, w.scripts[c.script]
	ctx := t.Context()
	got, realErr := w.real.Eval(ctx, script, c.keys, c.args...)
	after, keys := w.dump(name)
	before := w.last
	w.last = after
	w.note("%s %q %v -> %v %v", c.script, c.keys, c.args, got, realErr)
	if w.unclear(name, before, after) || c.hold > 0 && w.guardUnclear(name, c.hold, before, after) {
		w.giveUp(name)
		return
	}

	at, clear := w.momentOf(c, name, got, before, after, keys)
	if realErr != nil && !clear {
		w.giveUp(name)
		return
	}
	w.twin.Freeze(at)
	w.twin.SetUptime(time.Duration(after.uptime) * time.Second)
	want, twinErr := w.twin.Eval(ctx, script, c.keys, c.args...)
	slack := 2 + after.ms() - before.ms()
	if twinErr != nil || realErr != nil {
		require.Error(t, twinErr, "the server: %v", realErr)
		require.Error(t, realErr, "the twin: %v", twinErr)
		require.Equal(t, plainError(realErr), twinErr.Error())
		code, _, _ := strings.Cut(twinErr.Error(), " ")
		w.seen[code]++
	} else {
		require.Len(t, got, len(want), "real %v, twin %v", got, want)
		for i := range want {
			if i == 3 { // the time to live in all replies that have one
				require.InDelta(t, want[i], got[i], float64(slack), "real %v, twin %v", got, want)
				continue
			}
			require.Equal(t, want[i], got[i], "position %d of real %v, twin %v", i+1, got, want)
		}
		w.seen[c.script+" "+strconv.FormatInt(got[0], 10)]++
	}
	w.seen["judged"]++
	w.compareKeys(name, after, keys, slack)
}

// momentOf finds the server's clock during the call, which is in the reply when
// something hangs on it. An error hides it: then clear tells whether it matters.
func (w *world) momentOf(c scriptCall, name string, got []int64, before, after stamp, keys map[string]realKey) (us int64, clear bool) {
	if len(got) > 1 && got[1] > 0 {
		return got[1], true
	}
	if c.script == "break" {
		if c, err := strconv.ParseInt(keys[name+":f"].value, 10, 64); err == nil && c >= before.us && c <= after.us {
			return c, true
		}
	}
	for _, edge := range c.edges {
		if edge >= before.us && edge <= after.us {
			return after.us, false
		}
	}
	marker, _ := w.twin.Value(name + ":m")
	return after.us, marker == keys[name+":m"].value
}

var errorDecoration = regexp.MustCompile(`( script: [0-9a-f]+, on @user_script:\d+\.)$`)

// plainError is a script error without the place it names.
func plainError(err error) string {
	text := errorDecoration.ReplaceAllString(err.Error(), "")
	return regexp.MustCompile(`^ERR user_script:\d+: `).ReplaceAllString(text, "ERR user_script: ")
}

func (w *world) compareKeys(name string, at stamp, keys map[string]realKey, slack int64) {
	t := w.t
	w.twin.Freeze(at.us)
	for _, key := range companions(name) {
		k, onServer := keys[key]
		ttl, onTwin := w.twin.TTL(key)
		require.Equal(t, onServer, onTwin, "%s exists on the server: %v (%+v), on the twin: %v (%s)", key, onServer, k, onTwin, ttl)
		if !onServer {
			continue
		}
		value, isString := w.twin.Value(key)
		if !isString {
			value = ""
			for _, member := range w.twin.Queue(key) {
				value += fmt.Sprintf("%s %.0f ", member, w.twin.Score(key, member))
			}
		}
		require.Equal(t, k.value, value, "value of %s", key)
		if k.pttl < 0 || ttl < 0 {
			require.Equal(t, k.pttl < 0, ttl < 0, "%s never expires: server %d ms, twin %s", key, k.pttl, ttl)
			continue
		}
		require.InDelta(t, k.pttl, ttl.Milliseconds(), float64(slack), "time to live of %s", key)
		// Or the differences would add up.
		w.twin.SetDeadline(key, at.ms()+k.pttl)
	}
}

// unclear tells whether a key of the name may have expired during the call.
func (w *world) unclear(name string, before, after stamp) bool {
	if after.ms()-before.ms() > stall {
		return true
	}
	for _, key := range companions(name) {
		end, found := w.twin.Deadline(key)
		if found && end >= before.ms()-expirySlack && end <= after.ms()+expirySlack {
			return true
		}
	}
	return false
}

// guardUnclear tells whether the guard may have seen another uptime, or have found the
// marker's life just above or just below the hold.
func (w *world) guardUnclear(name string, hold int64, before, after stamp) bool {
	end, found := w.twin.Deadline(name + ":m")
	renew := end - hold
	return before.uptime != after.uptime || found && renew >= before.ms()-expirySlack && renew <= after.ms()+expirySlack
}

// settle lets time pass until no key of the name is about to expire.
func (w *world) settle(name string) {
	for range 10_000 {
		soon := w.last
		soon.us += 1000
		if !w.unclear(name, w.last, soon) {
			return
		}
		w.last, _ = w.dump(name)
	}
	w.t.Fatalf("the server's clock stands still at %v", w.last)
}

func (w *world) giveUp(name string) {
	w.seen["given up"]++
	w.note("gave up %s", name)
	w.gone[name] = true
	w.replace(name)
}

// replace puts a fresh name last.
func (w *world) replace(name string) {
	others := slices.DeleteFunc(w.names, func(n string) bool { return n == name })
	w.names = append(others, w.freshName())
}

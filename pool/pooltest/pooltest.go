// Package pooltest holds adapters to the contract of package pool, on real servers.
//
// An adapter's tests call Run and Cases with a function that makes its pool:
//
//	func TestConformance(t *testing.T) { pooltest.Run(t, open) }
//	func TestCommand(t *testing.T)     { pooltest.Command(t, open) } // if it has pool.Commander
//	func TestCases(t *testing.T)       { pooltest.Cases(t, open) }
//
//	func open(t testing.TB, addr string, o pooltest.Options) pool.Pool { … }
//
// The servers are started from $REDIS_SERVER, or redis-server in PATH.
package pooltest

import (
	"context"
	"crypto/tls"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
)

// Options says how a pool is to reach its server.
type Options struct {
	// Username and Password are those of an ACL user; both are "" for none, and
	// Username alone for the default user.
	Username, Password string
	// TLS is nil for a plain connection.
	TLS *tls.Config
	// Limit is how many connections the pool may have for its calls, where that can be
	// set; 0 leaves the client's habit.
	Limit int
}

// Factory makes a pool for the server at addr and has it closed at the end of the
// test. It must not fail where the server cannot be reached or refuses: then the
// pool's calls say so.
type Factory func(t testing.TB, addr string, o Options) pool.Pool

const (
	// soon is what a prompt call may take on a loaded machine.
	soon = 1500 * time.Millisecond
	// short is the deadline of calls that have no chance.
	short = 300 * time.Millisecond
	// settle is for what has to come in the end.
	settle = 20 * time.Second
)

// Run checks everything that package pool asks of a pool and its optional
// capabilities; all of them must be there, but for pool.Commander, of which see Command.
func Run(t *testing.T, open Factory) {
	t.Run("Integers", func(t *testing.T) { integers(t, open) })
	t.Run("UnexpectedReplies", func(t *testing.T) { unexpectedReplies(t, open) })
	t.Run("KeysAndArgs", func(t *testing.T) { keysAndArgs(t, open) })
	t.Run("ScriptFlush", func(t *testing.T) { scriptFlush(t, open) })
	t.Run("Concurrent", func(t *testing.T) { concurrent(t, open) })

	t.Run("ServersWords", func(t *testing.T) { serversWords(t, open) })
	t.Run("EndedContext", func(t *testing.T) { endedContext(t, open) })
	t.Run("StoppedNode", func(t *testing.T) { stoppedNode(t, open) })
	t.Run("SilentNode", func(t *testing.T) { silentNode(t, open) })
	t.Run("RefusingNode", func(t *testing.T) { refusingNode(t, open) })
	t.Run("SentOnce", func(t *testing.T) { sentOnce(t, open) })

	t.Run("Get", func(t *testing.T) { get(t, open) })
	t.Run("Addr", func(t *testing.T) { addr(t, open) })
	t.Run("Subscribe", func(t *testing.T) { subscribe(t, open) })
	t.Run("SubscriptionLost", func(t *testing.T) { subscriptionLost(t, open) })
	t.Run("SubscribeRefused", func(t *testing.T) { subscribeRefused(t, open) })

	t.Run("TLS", func(t *testing.T) { overTLS(t, open) })
	t.Run("LeastPrivilege", func(t *testing.T) { leastPrivilege(t, open) })
}

// Command checks the pool.Commander of an adapter that has one. It must be there.
func Command(t *testing.T, open Factory) {
	open = commanding(open)
	t.Run("Integers", func(t *testing.T) { integers(t, open) })
	t.Run("UnexpectedReplies", func(t *testing.T) { unexpectedReplies(t, open) })
	t.Run("ScriptFlush", func(t *testing.T) { scriptFlush(t, open) })
	t.Run("Concurrent", func(t *testing.T) { concurrent(t, open) })
	t.Run("EndedContext", func(t *testing.T) { endedContext(t, open) })
	t.Run("StoppedNode", func(t *testing.T) { stoppedNode(t, open) })
}

// within bounds a call that has to be prompt.
func within(t testing.TB, limit time.Duration, what string, f func()) {
	t.Helper()
	started := time.Now()
	f()
	require.Less(t, time.Since(started), limit, "%s took too long", what)
}

func ctxFor(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// works waits until the pool's node answers.
func works(t testing.TB, p pool.Pool) {
	t.Helper()
	var err error
	ok := testutil.Poll(settle, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		_, err = p.Eval(ctx, one, nil)
		return err == nil
	})
	require.True(t, ok, "the node serves, yet: %v", err)
}

// one is the least script.
var one = pool.NewScript("one", `return {1}`)

// count adds up how often it was executed.
var count = pool.NewScript("count", `return {redis.call('INCR', KEYS[1])}`)

func counted(t testing.TB, s *testutil.Server, key string) int {
	t.Helper()
	n, err := redis.Int(s.Do("GET", key))
	if errors.Is(err, redis.ErrNil) {
		return 0
	}
	require.NoError(t, err)
	return n
}

// info reads a number from the server's INFO, such as connected_clients.
func info(t testing.TB, s *testutil.Server, section, field string) int {
	t.Helper()
	text, err := redis.String(s.Do("INFO", section))
	require.NoError(t, err)
	for line := range strings.SplitSeq(text, "\r\n") {
		if rest, ok := strings.CutPrefix(line, field); ok {
			digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
			n, err := strconv.Atoi(digits)
			require.NoError(t, err, line)
			return n
		}
	}
	return 0
}

func clients(t testing.TB, s *testutil.Server) int {
	t.Helper()
	return info(t, s, "clients", "connected_clients:")
}

// scriptCalls is how many scripts the server has run or refused so far.
func scriptCalls(t testing.TB, s *testutil.Server) int {
	t.Helper()
	return info(t, s, "commandstats", "cmdstat_eval:calls=") + info(t, s, "commandstats", "cmdstat_evalsha:calls=")
}

// newerThan6 reports whether the server knows channel rights and errors of scripts
// that start with the code of the command that failed (Redis 7.0).
func newerThan6(t testing.TB, s *testutil.Server) bool {
	t.Helper()
	return info(t, s, "server", "redis_version:") >= 7
}

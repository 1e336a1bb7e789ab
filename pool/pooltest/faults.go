package pooltest

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
)

// serversWords compares with what the server tells a bare connection.
func serversWords(t *testing.T, open Factory) {
	set := pool.NewScript("set", `redis.call('SET', KEYS[1], 'x') return {1}`)
	queue := pool.NewScript("queue", `return {redis.call('ZCARD', KEYS[1])}`)
	for _, c := range []struct {
		name    string
		prepare []any
		script  *pool.Script
		code    string
	}{
		{"WRONGTYPE", []any{"SET", "k", "a string"}, queue, "WRONGTYPE"},
		{"READONLY", []any{"REPLICAOF", "127.0.0.1", "1"}, set, "READONLY"},
		{"OOM", []any{"CONFIG", "SET", "maxmemory", "1"}, set, "OOM"},
		{"unknown command", nil, pool.NewScript("unknown", `return redis.call('NO-SUCH')`), "ERR"},
		{"the script's own", nil, pool.NewScript("own", `return redis.error_reply('ODD thing')`), "ODD"},
		{"the script's own, common", nil, pool.NewScript("own", `return redis.error_reply('ERR common thing')`), "ERR"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := testutil.StartRedis(t)
			p := open(t, s.Addr(), Options{})
			works(t, p)
			if c.prepare != nil {
				s.MustDo(t, c.prepare...)
			}
			_, err := s.Do("EVAL", c.script.Source(), 1, "k")
			var words redis.Error
			require.ErrorAs(t, err, &words)
			if newerThan6(t, s) {
				require.True(t, strings.HasPrefix(string(words), c.code+" "), "%s", words)
			}
			for range 2 { // by source, by hash
				before := scriptCalls(t, s)
				_, err = p.Eval(ctxFor(t, settle), c.script, []string{"k"})
				require.EqualError(t, err, string(words))
				require.LessOrEqual(t, scriptCalls(t, s), before+2, "an answer is final")
			}
		})
	}
	t.Run("NOAUTH", func(t *testing.T) {
		s := testutil.StartRedis(t, "--requirepass", "right")
		_, err := open(t, s.Addr(), Options{}).Eval(ctxFor(t, settle), one, nil)
		requireCode(t, err, "NOAUTH")
	})
	t.Run("WRONGPASS", func(t *testing.T) {
		s := testutil.StartRedis(t, "--requirepass", "right")
		_, err := open(t, s.Addr(), Options{Password: "wr0ng"}).Eval(ctxFor(t, settle), one, nil)
		requireCode(t, err, "WRONGPASS")
		require.NotContains(t, err.Error(), "wr0ng")
		s.MustDo(t, "PING")
	})
	t.Run("NOPERM", func(t *testing.T) {
		s := testutil.StartRedis(t)
		s.MustDo(t, "ACL", "SETUSER", "barred", "on", ">pw", "~*", "+@all", "-@scripting")
		_, err := open(t, s.Addr(), Options{Username: "barred", Password: "pw"}).Eval(ctxFor(t, settle), one, nil)
		requireCode(t, err, "NOPERM")
	})
}

// requireCode demands the code at the start of the error, or of one inside it.
func requireCode(t testing.TB, err error, code string) {
	t.Helper()
	require.Error(t, err)
	for e := err; e != nil; e = errors.Unwrap(e) {
		if strings.HasPrefix(e.Error(), code+" ") {
			return
		}
	}
	require.Failf(t, "the code is lost", "%v does not start with %s", err, code)
}

func endedContext(t *testing.T, open Factory) {
	s := testutil.StartRedis(t)
	p := open(t, s.Addr(), Options{})
	works(t, p)
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	expired, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	for _, ctx := range []context.Context{cancelled, expired} {
		within(t, soon, "a call without time", func() {
			_, err := p.Eval(ctx, count, []string{"n"})
			require.ErrorIs(t, err, ctx.Err())
		})
	}
	require.Zero(t, counted(t, s, "n"), "nothing was sent")

	// No deadline at all is fine, too.
	_, err := p.Eval(context.Background(), count, []string{"n"})
	require.NoError(t, err)
}

// stoppedNode: a process that stands still takes requests and never answers.
func stoppedNode(t *testing.T, open Factory) {
	s := testutil.StartRedis(t)
	p := open(t, s.Addr(), Options{})
	const callers = 20
	all := func(limit time.Duration) []error {
		errs := make([]error, callers)
		done := make(chan int)
		for i := range callers {
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), limit)
				defer cancel()
				_, errs[i] = p.Eval(ctx, count, []string{"n"})
				done <- i
			}()
		}
		for range callers {
			<-done
		}
		return errs
	}
	for _, err := range all(settle) {
		require.NoError(t, err)
	}
	running, conns := goroutines(), clients(t, s)

	require.NoError(t, s.Pause())
	for range 2 {
		within(t, short+soon, "a call to a stopped node", func() {
			for _, err := range all(short) {
				require.Error(t, err)
			}
		})
	}
	require.NoError(t, s.Resume())
	works(t, p)
	for _, err := range all(settle) {
		require.NoError(t, err)
	}
	testutil.Eventually(t, settle, func() bool { return goroutines() <= running+2 && clients(t, s) <= max(conns, callers+1) },
		"goroutines and connections fall back: %d and %d before", running, conns)
	require.LessOrEqual(t, counted(t, s, "n"), 4*callers, "each call at most once")
}

// goroutines counts all but those that a client keeps with a connection: rueidis and
// valkey-go begin to when calls first meet on it, at a moment of their own.
func goroutines() (n int) {
	buf := make([]byte, 1<<20)
	for stack := range bytes.SplitSeq(buf[:runtime.Stack(buf, true)], []byte("\n\n")) {
		if !bytes.Contains(stack, []byte("(*pipe).startBackground in")) && !bytes.Contains(stack, []byte("(*pipe)._background in")) {
			n++
		}
	}
	return n
}

// silentNode: connections are accepted, and nothing ever comes back.
func silentNode(t *testing.T, open Factory) {
	for _, warm := range []bool{true, false} {
		s := testutil.StartRedis(t)
		proxy := testutil.StartProxy(t, s.Addr())
		p := open(t, proxy.Addr(), Options{})
		if warm {
			works(t, p)
		}
		proxy.HalfOpen(true)
		for range 3 {
			ctx, cancel := context.WithTimeout(context.Background(), short)
			within(t, short+soon, "a call to a silent node", func() {
				_, err := p.Eval(ctx, count, []string{"n"})
				require.Error(t, err)
			})
			cancel()
		}
		proxy.HalfOpen(false)
		proxy.Reset()
		works(t, p)
		require.Zero(t, counted(t, s, "n"))
	}
}

func refusingNode(t *testing.T, open Factory) {
	proxy := testutil.StartProxy(t, testutil.StartRedis(t).Addr())
	for _, warm := range []bool{true, false} {
		p := open(t, proxy.Addr(), Options{})
		if warm {
			works(t, p)
		}
		require.NoError(t, proxy.Refuse(true))
		for range 3 {
			within(t, soon, "a call to a node that refuses", func() {
				_, err := p.Eval(ctxFor(t, soon), one, nil)
				require.Error(t, err)
			})
		}
		require.NoError(t, proxy.Refuse(false))
		works(t, p)
	}
}

// sentOnce counts on the server what the client never hears of.
func sentOnce(t *testing.T, open Factory) {
	s := testutil.StartRedis(t)
	proxy := testutil.StartProxy(t, s.Addr())
	p := open(t, proxy.Addr(), Options{})
	_, err := p.Eval(ctxFor(t, settle), count, []string{"n"}) // the hash is known
	require.NoError(t, err)
	require.Equal(t, 1, counted(t, s, "n"))

	t.Run("reply lost", func(t *testing.T) {
		proxy.DropReplies(true)
		_, err := p.Eval(ctxFor(t, short), count, []string{"n"})
		require.Error(t, err)
		proxy.DropReplies(false)
		proxy.Reset()
		works(t, p)
		// None where the client was still connecting.
		require.LessOrEqual(t, counted(t, s, "n"), 2)
	})
	t.Run("connection lost before the reply", func(t *testing.T) {
		before := counted(t, s, "n")
		for i := range 5 {
			// Long enough to be seen, short enough for a client that has yet to connect.
			proxy.Delay(0, 400*time.Millisecond)
			result := make(chan error, 1)
			send := func() {
				_, err := p.Eval(ctxFor(t, settle), count, []string{"n"})
				result <- err
			}
			go send()
			testutil.Eventually(t, settle, func() bool {
				select {
				case <-result: //nolint:errcheck // counted tells
					go send() // on a connection whose end had not been noticed
				default:
				}
				return counted(t, s, "n") > before+i
			}, "it was executed")
			proxy.Reset()
			proxy.Delay(0, 0) // a second try would succeed
			require.Error(t, <-result, "what became of it is not known")
			works(t, p)
			require.Equal(t, before+i+1, counted(t, s, "n"))
		}
	})
}

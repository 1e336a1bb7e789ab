package pooltest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
)

func get(t *testing.T, open Factory) {
	s := testutil.StartRedis(t)
	p, ok := open(t, s.Addr(), Options{}).(pool.TextReader)
	require.True(t, ok, "Inspect and Break need a pool.TextReader")
	ctx := ctxFor(t, settle)
	value, found, err := p.Get(ctx, "k")
	require.NoError(t, err)
	require.False(t, found)
	require.Empty(t, value)
	for _, want := range []string{"", "text", "a\x00b\r\n\xff é", strings.Repeat("long", 5000)} {
		s.MustDo(t, "SET", "k", want)
		value, found, err = p.Get(ctx, "k")
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, want, value)
	}
	s.MustDo(t, "DEL", "k")
	s.MustDo(t, "ZADD", "k", 1, "m")
	_, found, err = p.Get(ctx, "k")
	requireCode(t, err, "WRONGTYPE")
	require.False(t, found)
	require.NoError(t, s.Pause())
	within(t, short+soon, "a Get from a stopped node", func() {
		_, found, err = p.Get(ctxFor(t, short), "k")
		require.Error(t, err)
		require.False(t, found)
	})
	require.NoError(t, s.Resume())
}

func addr(t *testing.T, open Factory) {
	s := testutil.StartRedis(t, "--requirepass", "s3cret")
	p := open(t, s.Addr(), Options{Password: "s3cret"})
	works(t, p)
	a, ok := p.(pool.Addresser)
	require.True(t, ok, "errors need a pool.Addresser")
	require.Contains(t, a.Addr(), s.Addr())
	require.NotContains(t, a.Addr(), "s3cret")
	// Nor do errors tell it.
	require.NoError(t, s.Kill())
	_, err := p.Eval(ctxFor(t, soon), one, nil)
	require.Error(t, err)
	require.NotContains(t, fmt.Sprintf("%v %+v", err, err), "s3cret")
}

// A listener is one Subscribe on its way.
type listener struct {
	ready chan struct{}
	heard chan string
	ended chan error
	stop  context.CancelFunc
}

func listen(t testing.TB, p pool.Pool, channel string) *listener {
	t.Helper()
	s, ok := p.(pool.Subscriber)
	require.True(t, ok, "prompt hand-over needs a pool.Subscriber")
	ctx, cancel := context.WithCancel(context.Background())
	l := &listener{ready: make(chan struct{}, 8), heard: make(chan string, 1024), ended: make(chan error, 1), stop: cancel}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		l.ended <- s.Subscribe(ctx, channel, func() { l.ready <- struct{}{} }, func(m string) { l.heard <- m })
	}()
	t.Cleanup(func() { cancel(); <-finished })
	return l
}

// await takes what has to come from a channel.
func await[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(settle):
		require.FailNow(t, "never came: "+what)
		panic("unreachable")
	}
}

func (l *listener) end(t testing.TB) error {
	t.Helper()
	err := await(t, l.ended, "the end of Subscribe")
	require.Error(t, err, "Subscribe always says why it returns")
	return err
}

func subscribers(t testing.TB, s *testutil.Server, channel string) int64 {
	t.Helper()
	reply, err := redis.Values(s.Do("PUBSUB", "NUMSUB", channel))
	require.NoError(t, err)
	n, err := redis.Int64(reply[1], nil)
	require.NoError(t, err)
	return n
}

func subscribe(t *testing.T, open Factory) {
	s := testutil.StartRedis(t)
	p := open(t, s.Addr(), Options{Limit: 1})
	works(t, p)
	l := listen(t, p, "wake:a")
	await(t, l.ready, "confirmation")
	require.EqualValues(t, 1, subscribers(t, s, "wake:a"))
	other := listen(t, p, "wake:b")
	await(t, other.ready, "confirmation of the second channel")

	// The pool's only connection is still there for calls.
	_, err := p.Eval(ctxFor(t, soon), one, nil)
	require.NoError(t, err)

	want := []string{"", "two words", "a\x00b\r\n\xff é"}
	for i := range 200 {
		want = append(want, fmt.Sprintf("message %d", i))
	}
	publish := pool.NewScript("publish", `return {redis.call('PUBLISH', ARGV[1], ARGV[2])}`)
	for _, m := range want {
		got, err := p.Eval(ctxFor(t, settle), publish, nil, "wake:a", m)
		require.NoError(t, err)
		require.Equal(t, []int64{1}, got)
	}
	for _, m := range want {
		require.Equal(t, m, await(t, l.heard, "a message"))
	}
	require.Empty(t, other.heard)

	l.stop()
	within(t, soon, "the end with ctx", func() { require.ErrorIs(t, l.end(t), context.Canceled) })
	testutil.Eventually(t, settle, func() bool { return subscribers(t, s, "wake:a") == 0 }, "the server knows")
	_, err = p.Eval(ctxFor(t, settle), publish, nil, "wake:b", "still there")
	require.NoError(t, err)
	require.Equal(t, "still there", await(t, other.heard, "a message of the second channel"))
	other.stop()
	other.end(t) //nolint:errcheck // any will do
	require.Empty(t, l.ready, "confirmed once")
	testutil.Eventually(t, settle, func() bool { return clients(t, s) <= 1+2 }, "subscriptions leave no connections")
}

func subscriptionLost(t *testing.T, open Factory) {
	s := testutil.StartRedis(t)
	proxy := testutil.StartProxy(t, s.Addr())
	p := open(t, proxy.Addr(), Options{})
	for name, lose := range map[string]func(){
		"connection reset":  proxy.Reset,
		"killed on request": func() { s.MustDo(t, "CLIENT", "KILL", "TYPE", "pubsub") },
		"server gone": func() {
			require.NoError(t, s.Kill())
			require.NoError(t, s.Restart())
		},
	} {
		l := listen(t, p, "wake")
		await(t, l.ready, "confirmation")
		lose()
		l.end(t) //nolint:errcheck // any will do
		// Not subscribed again behind the caller's back: it would not try at once.
		require.Empty(t, l.ready, name)
		works(t, p)
	}
}

func subscribeRefused(t *testing.T, open Factory) {
	t.Run("NOPERM", func(t *testing.T) {
		s := testutil.StartRedis(t)
		s.MustDo(t, "ACL", "SETUSER", "deaf", "on", ">pw", "~*", "+@all", "-subscribe")
		l := listen(t, open(t, s.Addr(), Options{Username: "deaf", Password: "pw"}), "wake")
		requireCode(t, l.end(t), "NOPERM")
		require.Empty(t, l.ready)
	})
	t.Run("no server", func(t *testing.T) {
		proxy := testutil.StartProxy(t, testutil.StartRedis(t).Addr())
		p := open(t, proxy.Addr(), Options{})
		works(t, p)
		require.NoError(t, proxy.Refuse(true))
		l := listen(t, p, "wake")
		l.end(t) //nolint:errcheck // any will do
		require.Empty(t, l.ready)
	})
	t.Run("silent", func(t *testing.T) {
		proxy := testutil.StartProxy(t, testutil.StartRedis(t).Addr())
		p := open(t, proxy.Addr(), Options{})
		works(t, p)
		proxy.HalfOpen(true)
		l := listen(t, p, "wake")
		l.stop()
		l.end(t) //nolint:errcheck // any will do
		require.Empty(t, l.ready)
	})
}

package testutil_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/testutil"
)

const (
	soon    = 5 * time.Second        // bound of what must come
	silence = 150 * time.Millisecond // how long to listen for what must not
)

func proxied(t *testing.T) (*testutil.Server, *testutil.Proxy) {
	t.Helper()
	testutil.CheckLeaks(t)
	s := testutil.StartRedis(t)
	return s, testutil.StartProxy(t, s.Addr())
}

func dial(t *testing.T, addr string, patience time.Duration) redis.Conn {
	t.Helper()
	c, err := redis.Dial("tcp", addr, redis.DialReadTimeout(patience), redis.DialConnectTimeout(soon))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func requireTimeout(t *testing.T, err error) {
	t.Helper()
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout(), "%v", err)
}

// arrives waits until the server has the key, asked past the proxy.
func arrives(t *testing.T, s *testutil.Server, key, value string) {
	t.Helper()
	testutil.Eventually(t, soon, func() bool {
		v, err := redis.String(s.Do("GET", key))
		return err == nil && v == value
	}, "%s = %s", key, value)
}

func ask(c redis.Conn, args ...any) (any, error) { return c.Do(args[0].(string), args[1:]...) }

func requireWorks(t *testing.T, p *testutil.Proxy) {
	t.Helper()
	_, err := ask(dial(t, p.Addr(), soon), "PING")
	require.NoError(t, err)
}

func TestProxyWithoutFault(t *testing.T) {
	s, p := proxied(t)
	c := dial(t, p.Addr(), soon)
	big := strings.Repeat("0123456789", 200_000)
	for _, value := range []string{"", "\r\n*1\r\n", big} {
		_, err := ask(c, "SET", "k", value)
		require.NoError(t, err)
		got, err := redis.String(ask(c, "GET", "k"))
		require.NoError(t, err)
		require.Equal(t, value, got)
	}
	for range 1000 {
		require.NoError(t, c.Send("INCR", "n"))
	}
	require.NoError(t, c.Flush())
	for i := range 1000 {
		n, err := redis.Int(c.Receive())
		require.NoError(t, err)
		require.Equal(t, i+1, n)
	}
	sub := redis.PubSubConn{Conn: dial(t, p.Addr(), soon)}
	require.NoError(t, sub.Subscribe("ch"))
	require.IsType(t, redis.Subscription{}, sub.Receive())
	s.MustDo(t, "PUBLISH", "ch", "hello")
	require.Equal(t, redis.Message{Channel: "ch", Data: []byte("hello")}, sub.Receive())
	require.Equal(t, 2, p.Conns())
	require.NoError(t, c.Close())
	testutil.Eventually(t, soon, func() bool { return p.Conns() == 1 }, "a closed connection is not counted")
}

func TestProxyInlineCommand(t *testing.T) {
	_, p := proxied(t)
	c, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // a connection of the test
	_, err = c.Write([]byte("PING\r\n"))
	require.NoError(t, err)
	reply := make([]byte, 7)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(soon)))
	_, err = c.Read(reply)
	require.NoError(t, err)
	require.Equal(t, "+PONG\r\n", string(reply))
}

func TestProxyDelayIsPipelined(t *testing.T) {
	_, p := proxied(t)
	const n, each = 30, 40 * time.Millisecond
	p.Delay(each, 0)
	c := dial(t, p.Addr(), soon)
	begin := time.Now()
	for range n {
		require.NoError(t, c.Send("INCR", "n"))
		require.NoError(t, c.Flush()) // a packet each
	}
	for i := range n {
		got, err := redis.Int(c.Receive())
		require.NoError(t, err)
		require.Equal(t, i+1, got)
	}
	took := time.Since(begin)
	require.GreaterOrEqual(t, took, each)
	require.Less(t, took, n*each/2, "the delays overlap")

	p.Delay(each, 2*each)
	begin = time.Now()
	_, err := ask(c, "PING")
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(begin), 3*each)

	p.Delay(0, 0)
	for range 20 { // 20 round trips that would take 2.4 s
		_, err := ask(c, "PING")
		require.NoError(t, err)
	}
	require.Less(t, time.Since(begin), 20*3*each)
}

func TestProxyDelayedRequestOutlivesClient(t *testing.T) {
	s, p := proxied(t)
	p.Delay(300*time.Millisecond, 0)
	c := dial(t, p.Addr(), 50*time.Millisecond)
	_, err := ask(c, "SET", "k", "late")
	requireTimeout(t, err)
	_ = c.Close() // repeats the error
	testutil.Eventually(t, soon, func() bool { return p.Conns() == 0 }, "the client has gone")
	requireKeys(t, s)
	arrives(t, s, "k", "late")
}

func TestProxyJitterKeepsOrder(t *testing.T) {
	_, p := proxied(t)
	p.Jitter(20 * time.Millisecond)
	c := dial(t, p.Addr(), soon)
	var shortest, longest time.Duration
	for i := range 20 {
		begin := time.Now()
		for range 5 {
			require.NoError(t, c.Send("INCR", fmt.Sprint(i)))
			require.NoError(t, c.Flush())
		}
		for j := range 5 {
			got, err := redis.Int(c.Receive())
			require.NoError(t, err)
			require.Equal(t, j+1, got)
		}
		took := time.Since(begin)
		if i == 0 {
			shortest = took
		}
		shortest, longest = min(shortest, took), max(longest, took)
	}
	require.Greater(t, longest, shortest+2*time.Millisecond)
}

func TestProxyDropRequests(t *testing.T) {
	s, p := proxied(t)
	c := dial(t, p.Addr(), silence)
	_, err := ask(c, "SET", "before", "v")
	require.NoError(t, err)
	p.DropRequests(true)
	_, err = ask(c, "SET", "lost", "v")
	requireTimeout(t, err)
	requireKeys(t, s, "before")
	p.DropRequests(false)
	requireWorks(t, p)
}

func TestProxyStreamEndsAtHole(t *testing.T) {
	s, p := proxied(t)
	c, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // a connection of the test
	p.DropReplies(true)
	_, err = c.Write([]byte("SET k v\r\n"))
	require.NoError(t, err)
	arrives(t, s, "k", "v")
	testutil.Eventually(t, soon, func() bool {
		list, err := redis.String(s.Do("CLIENT", "LIST"))
		return err == nil && strings.Contains(list, "cmd=set")
	}, "the server has answered")
	p.DropReplies(false)
	_, err = c.Write([]byte("SET k2 v\r\n"))
	require.NoError(t, err)
	arrives(t, s, "k2", "v")
	require.NoError(t, c.SetReadDeadline(time.Now().Add(silence)))
	_, err = c.Read(make([]byte, 1))
	requireTimeout(t, err)
	require.NoError(t, s.Kill())
	require.NoError(t, c.SetReadDeadline(time.Now().Add(silence)))
	_, err = c.Read(make([]byte, 1))
	requireTimeout(t, err)
}

func TestProxyDropReplies(t *testing.T) {
	s, p := proxied(t)
	p.DropReplies(true)
	c := dial(t, p.Addr(), silence)
	_, err := ask(c, "SET", "k", "v")
	requireTimeout(t, err)
	requireKeys(t, s, "k")
	p.DropReplies(false)
	requireWorks(t, p)
}

func TestProxyHalfOpen(t *testing.T) {
	s, p := proxied(t)
	old := dial(t, p.Addr(), silence)
	_, err := ask(old, "PING")
	require.NoError(t, err)
	p.HalfOpen(true)
	fresh := dial(t, p.Addr(), silence)
	for _, c := range []redis.Conn{old, fresh} {
		_, err := ask(c, "SET", "k", "v")
		requireTimeout(t, err)
	}
	requireKeys(t, s)
	p.HalfOpen(false)
	requireWorks(t, p)
}

func TestProxyRefuse(t *testing.T) {
	_, p := proxied(t)
	c := dial(t, p.Addr(), soon)
	_, err := ask(c, "PING")
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, p.Refuse(true))
		require.NoError(t, p.Refuse(true))
		_, err = net.Dial("tcp", p.Addr())
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.NoError(t, p.Refuse(false))
		require.NoError(t, p.Refuse(false))
		requireWorks(t, p)
	}
	_, err = ask(c, "PING")
	require.Error(t, err, "it was reset")
}

func TestProxyReset(t *testing.T) {
	_, p := proxied(t)
	sub := redis.PubSubConn{Conn: dial(t, p.Addr(), soon)}
	require.NoError(t, sub.Subscribe("ch"))
	require.IsType(t, redis.Subscription{}, sub.Receive())
	p.Reset()
	err, isError := sub.Receive().(error)
	require.True(t, isError)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	requireWorks(t, p)
}

func TestProxyServerDown(t *testing.T) {
	s, p := proxied(t)
	c := dial(t, p.Addr(), soon)
	_, err := ask(c, "PING")
	require.NoError(t, err)
	require.NoError(t, s.Kill())
	_, err = ask(c, "PING")
	require.Error(t, err)
	var timeout net.Error
	require.False(t, errors.As(err, &timeout) && timeout.Timeout(), "the client hears of it")
	fresh, err := redis.Dial("tcp", p.Addr()) // the reset may come this early
	if err == nil {
		_, err = ask(fresh, "PING")
		_ = fresh.Close()
	}
	require.Error(t, err)
	require.NoError(t, s.Restart())
	requireWorks(t, p)
}

func TestProxyHoldLetsOthersOvertake(t *testing.T) {
	s, p := proxied(t)
	hold := p.Hold(func(request []byte) bool { return bytes.Contains(request, []byte("first")) })
	c := dial(t, p.Addr(), silence)
	_, err := ask(c, "SET", "k", "first")
	requireTimeout(t, err)
	require.Equal(t, 1, hold.Held())
	_ = c.Close() // repeats the error

	_, err = ask(dial(t, p.Addr(), soon), "SET", "k", "second")
	require.NoError(t, err)
	arrives(t, s, "k", "second")
	hold.Release()
	hold.Release()
	arrives(t, s, "k", "first")

	_, err = ask(dial(t, p.Addr(), soon), "SET", "k", "first")
	require.NoError(t, err, "released holds hold nothing")
	require.Equal(t, 1, hold.Held())
}

func TestProxyHoldKeepsOrderWithinConnection(t *testing.T) {
	s, p := proxied(t)
	hold := p.Hold(func(request []byte) bool { return bytes.Contains(request, []byte("first")) })
	c := dial(t, p.Addr(), soon)
	require.NoError(t, c.Send("SET", "k", "first"))
	require.NoError(t, c.Send("APPEND", "k", "+"))
	require.NoError(t, c.Flush())
	testutil.Eventually(t, soon, func() bool { return hold.Held() == 1 }, "held")
	requireKeys(t, s)
	hold.Release()
	arrives(t, s, "k", "first+")
}

func TestProxyCloseEndsAll(t *testing.T) {
	s, p := proxied(t)
	check := testutil.NewLeakCheck()
	p2, err := testutil.NewProxy(s.Addr())
	require.NoError(t, err)
	p2.Hold(func(request []byte) bool { return bytes.Contains(request, []byte("held")) })
	for _, set := range []func(){
		func() {}, func() { p2.Delay(time.Hour, time.Hour) }, func() { p2.HalfOpen(true) },
	} {
		c := dial(t, p2.Addr(), silence)
		require.NoError(t, c.Send("SET", "k", "held"))
		require.NoError(t, c.Flush())
		set()
		require.NoError(t, c.Send("PING"))
		require.NoError(t, c.Flush())
	}
	require.NoError(t, s.Pause(), "a hung server must not hang Close")
	p2.Close()
	p2.Close()
	require.NoError(t, check.Err(0), "Close has waited for them")
	require.Error(t, p2.Refuse(false))
	require.NoError(t, s.Resume())
	requireWorks(t, p)
}

func TestProxyControlsUnderTraffic(t *testing.T) {
	_, p := proxied(t)
	done := make(chan struct{})
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				c, err := redis.Dial("tcp", p.Addr(), redis.DialReadTimeout(10*time.Millisecond))
				if err != nil {
					continue
				}
				for range 20 {
					if _, err = ask(c, "SET", fmt.Sprint(i), "v"); err != nil {
						break
					}
				}
				_ = c.Close()
			}
		})
	}
	for i := range 100 {
		on := i%2 == 0
		p.Delay(time.Duration(i%3)*time.Millisecond, 0)
		p.Jitter(time.Duration(i%5) * time.Millisecond)
		hold := p.Hold(func(request []byte) bool { return len(request)%2 == 0 })
		p.DropRequests(i%7 == 0)
		p.DropReplies(i%11 == 0)
		p.HalfOpen(i%13 == 0)
		if i%10 == 0 {
			p.Reset()
			require.NoError(t, p.Refuse(on))
			require.NoError(t, p.Refuse(false))
		}
		_ = p.Conns()
		hold.Release()
	}
	close(done)
	clients.Wait()
	p.Delay(0, 0)
	p.Jitter(0)
	p.DropRequests(false)
	p.DropReplies(false)
	p.HalfOpen(false)
	requireWorks(t, p)
	testutil.Eventually(t, soon, func() bool { return p.Conns() <= 1 }, "all others have gone")
}

func BenchmarkRoundTrip(b *testing.B) {
	s := testutil.StartRedis(b)
	p := testutil.StartProxy(b, s.Addr())
	for name, addr := range map[string]string{"direct": s.Addr(), "proxy": p.Addr()} {
		b.Run(name, func(b *testing.B) {
			c, err := redis.Dial("tcp", addr)
			require.NoError(b, err)
			defer c.Close() //nolint:errcheck // a connection of the test
			for b.Loop() {
				if _, err := c.Do("PING"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

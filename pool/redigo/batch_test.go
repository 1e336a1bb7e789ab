package redigo_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/pool/internal/batch"
	"github.com/quorumlock/redlock/pool/redigo"
)

// echo replies what it was given, so that a reply to somebody else is seen.
var echo = pool.NewScript("echo", `return {tonumber(ARGV[1]), tonumber(ARGV[2])}`)

func node(t testing.TB, addr string) (pool.Pool, *redis.Pool) {
	t.Helper()
	p := &redis.Pool{MaxIdle: 64, DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", addr)
	}}
	t.Cleanup(func() { p.Close() }) //nolint:errcheck // idle connections of a test
	return redigo.NewNamedPool(p, addr), p
}

// crowd makes many calls at once and hands each result to judge, which may not fail
// the test.
func crowd(t *testing.T, n pool.Pool, callers, rounds int, timeout time.Duration, judge func(caller int, got []int64, err error) error) {
	t.Helper()
	var all sync.WaitGroup
	wrong := make(chan error, callers)
	for c := range callers {
		all.Go(func() {
			for r := range rounds {
				ctx, cancel := context.WithTimeout(context.Background(), timeout)
				got, err := n.Eval(ctx, echo, []string{"k"}, c, r)
				cancel()
				if err == nil && (len(got) != 2 || got[0] != int64(c) || got[1] != int64(r)) {
					wrong <- fmt.Errorf("call %d/%d got the reply %v", c, r, got)
					return
				}
				if err := judge(c, got, err); err != nil {
					wrong <- fmt.Errorf("call %d/%d: %w", c, r, err)
					return
				}
			}
		})
	}
	all.Wait()
	close(wrong)
	for err := range wrong {
		require.NoError(t, err)
	}
}

func mustSucceed(_ int, _ []int64, err error) error { return err }

func TestBatchRepliesAreNotMixedUp(t *testing.T) {
	testutil.CheckLeaks(t)
	s := testutil.StartRedis(t)
	n, p := node(t, s.Addr())
	crowd(t, n, 300, 20, 20*time.Second, mustSucceed)
	require.Equal(t, p.IdleCount(), p.ActiveCount(), "a connection is still in use")
	require.NoError(t, p.Close())
}

// The node forgets its scripts all the time: a batch then has members that it knows
// and members that it does not.
func TestBatchMembersOfUnknownScripts(t *testing.T) {
	s := testutil.StartRedis(t)
	n, _ := node(t, s.Addr())
	stop := make(chan struct{})
	var flusher sync.WaitGroup
	flushed := 0
	flusher.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := s.Do("SCRIPT", "FLUSH"); err == nil {
					flushed++
				}
			}
		}
	})
	crowd(t, n, 100, 20, 20*time.Second, mustSucceed)
	close(stop)
	flusher.Wait()
	require.Greater(t, flushed, 3)
}

// An error of the server's is its caller's alone.
func TestBatchErrorsHitTheirOwnCaller(t *testing.T) {
	s := testutil.StartRedis(t)
	proxy := testutil.StartProxy(t, s.Addr())
	proxy.Delay(2*time.Millisecond, 0) // or everybody leads and none is in a batch
	n, _ := node(t, proxy.Addr())
	_, err := n.Eval(t.Context(), echo, nil, 1, 1) // the node knows it
	require.NoError(t, err)
	odd := pool.NewScript("odd", `if ARGV[1] == '1' then return redis.error_reply('ODD ' .. ARGV[2]) end return {tonumber(ARGV[2])}`)
	_, err = n.Eval(t.Context(), odd, nil, 0, 0)
	require.NoError(t, err)
	crowdOf := func(c int) error {
		got, err := n.Eval(t.Context(), odd, nil, c%2, c)
		switch {
		case c%2 == 0 && (err != nil || len(got) != 1 || got[0] != int64(c)):
			return fmt.Errorf("call %d got %v, %w", c, got, err)
		case c%2 == 1 && (err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("ODD %d", c))):
			return fmt.Errorf("call %d got %v, error %v", c, got, err) //nolint:errorlint // it may be nil
		}
		return nil
	}
	var all sync.WaitGroup
	wrong := make(chan error, 200)
	for c := range 200 {
		all.Go(func() {
			if err := crowdOf(c); err != nil {
				wrong <- err
			}
		})
	}
	all.Wait()
	close(wrong)
	for err := range wrong {
		require.NoError(t, err)
	}
}

// A node that hangs holds no call beyond its time by much, and serves again at once
// when it goes on.
func TestBatchOfAHungNode(t *testing.T) {
	testutil.CheckLeaks(t)
	s := testutil.StartRedis(t)
	n, p := node(t, s.Addr())
	_, err := n.Eval(t.Context(), echo, nil, 1, 1)
	require.NoError(t, err)
	require.NoError(t, s.Pause())
	const timeout, callers = 300 * time.Millisecond, 200
	var worst atomic.Int64
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			started := time.Now()
			_, err := n.Eval(ctx, echo, nil, c, c)
			if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a hung node is to be told from a broken connection: %v", err)
			}
			for {
				took, old := int64(time.Since(started)), worst.Load()
				if took <= old || worst.CompareAndSwap(old, took) {
					return
				}
			}
		})
	}
	all.Wait()
	t.Logf("the longest of %d calls with %v took %v", callers, timeout, time.Duration(worst.Load()))
	require.Less(t, time.Duration(worst.Load()), timeout+2*time.Second)
	require.NoError(t, s.Resume())
	crowd(t, n, 100, 5, 20*time.Second, mustSucceed)
	require.Equal(t, p.IdleCount(), p.ActiveCount())
	require.NoError(t, p.Close())
}

// Connections break in the middle of batches: every call ends, with its own reply or
// with an error, and the next ones succeed.
func TestBatchOfADyingConnection(t *testing.T) {
	testutil.CheckLeaks(t)
	s := testutil.StartRedis(t)
	proxy := testutil.StartProxy(t, s.Addr())
	proxy.Jitter(3 * time.Millisecond)
	n, p := node(t, proxy.Addr())
	stop := make(chan struct{})
	var breaker sync.WaitGroup
	breaker.Go(func() {
		ticker := time.NewTicker(15 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				proxy.Reset()
			case <-stop:
				return
			}
		}
	})
	var good, bad atomic.Int64
	crowd(t, n, 150, 15, 20*time.Second, func(_ int, _ []int64, err error) error {
		if err != nil {
			bad.Add(1)
		} else {
			good.Add(1)
		}
		return nil
	})
	close(stop)
	breaker.Wait()
	t.Logf("%d calls answered, %d broken", good.Load(), bad.Load())
	require.Positive(t, good.Load())
	require.Positive(t, bad.Load())
	proxy.Jitter(0)
	// What broke while idle is noticed at its next use only.
	testutil.Eventually(t, 20*time.Second, func() bool {
		_, err := n.Eval(t.Context(), echo, nil, 1, 1)
		return err == nil && p.ActiveCount() == p.IdleCount()
	}, "whole connections again")
	require.NoError(t, p.Close())
}

// A member whose time is up before its batch goes out is not sent; the others are.
func TestBatchLeavesOutWhoseTimeIsUp(t *testing.T) {
	s := testutil.StartRedis(t)
	proxy := testutil.StartProxy(t, s.Addr())
	n, _ := node(t, proxy.Addr())
	incr := pool.NewScript("incr", `return {redis.call('INCR', KEYS[1])}`)
	_, err := n.Eval(t.Context(), incr, []string{"warm"})
	require.NoError(t, err)
	// More than may be under way at a time wait for replies that are held up.
	hold := proxy.Hold(func(request []byte) bool { return strings.Contains(string(request), "leads") })
	var all sync.WaitGroup
	const leaders, late, patient = 100, 20, 20
	for range leaders {
		all.Go(func() {
			if _, err := n.Eval(context.Background(), incr, []string{"leads"}); err != nil {
				t.Error(err)
			}
		})
	}
	testutil.Eventually(t, 10*time.Second, func() bool { return hold.Held() >= batch.Few }, "the leaders are under way")
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	for range late {
		all.Go(func() {
			if _, err := n.Eval(ctx, incr, []string{"late"}); err == nil {
				t.Error("a call whose time was up went out")
			}
		})
	}
	for range patient {
		all.Go(func() {
			if _, err := n.Eval(context.Background(), incr, []string{"patient"}); err != nil {
				t.Error(err)
			}
		})
	}
	hold.Release()
	all.Wait()
	got, err := redis.Int(s.Do("GET", "patient"))
	require.NoError(t, err)
	require.Equal(t, patient, got)
	require.Nil(t, s.MustDo(t, "GET", "late"))
}

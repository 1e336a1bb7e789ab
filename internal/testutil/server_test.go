package testutil_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/testutil"
)

func requireKeys(t *testing.T, s *testutil.Server, want ...string) {
	t.Helper()
	keys, err := s.Keys()
	require.NoError(t, err)
	require.Equal(t, append([]string{}, want...), keys)
}

func TestServerAnswersUntilStopped(t *testing.T) {
	testutil.CheckLeaks(t)
	s := testutil.StartRedis(t)
	s.MustDo(t, "SET", "k", "v")
	requireKeys(t, s, "k")
	require.NotZero(t, s.Pid())
	require.NoError(t, s.Stop())
	require.NoError(t, s.Stop(), "a second time")
	require.Zero(t, s.Pid())
	_, err := s.Do("PING")
	require.Error(t, err)
	require.Error(t, s.Pause(), "it is down")
}

func TestServerForgetsWhenKilled(t *testing.T) {
	s := testutil.StartRedis(t)
	addr := s.Addr()
	s.MustDo(t, "SET", "k", "v")
	require.NoError(t, s.Kill())
	require.NoError(t, s.Restart())
	require.Equal(t, addr, s.Addr())
	requireKeys(t, s)
}

func TestServerKeepsKeysWithAOF(t *testing.T) {
	s := testutil.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	s.MustDo(t, "SET", "k", "v")
	require.NoError(t, s.Kill())
	require.NoError(t, s.Restart())
	requireKeys(t, s, "k")
	require.NoError(t, s.Restart(), "of a running server")
	requireKeys(t, s, "k")
	require.NoError(t, s.RestartEmpty())
	requireKeys(t, s)
}

func TestServerComesBackFromSnapshot(t *testing.T) {
	s := testutil.StartRedis(t)
	s.MustDo(t, "SET", "old", "v")
	s.MustDo(t, "SAVE")
	s.MustDo(t, "SET", "new", "v")
	require.NoError(t, s.Kill())
	require.NoError(t, s.Restart())
	requireKeys(t, s, "old")
}

func TestServerPausedExecutesLater(t *testing.T) {
	s := testutil.StartRedis(t)
	s.MustDo(t, "SET", "short", "v", "PX", 50)
	require.NoError(t, s.Pause())
	c, err := redis.Dial("tcp", s.Addr(), redis.DialReadTimeout(100*time.Millisecond))
	require.NoError(t, err, "the kernel accepts for it")
	_, err = c.Do("SET", "late", "v")
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())
	_ = c.Close() // repeats the error
	require.NoError(t, s.Resume())
	testutil.Eventually(t, 5*time.Second, func() bool {
		keys, err := s.Keys()
		return err == nil && len(keys) == 1 && keys[0] == "late"
	}, "the abandoned SET is carried out and the short key is gone")
}

func TestServerPausedStops(t *testing.T) {
	s := testutil.StartRedis(t)
	require.NoError(t, s.Pause())
	begin := time.Now()
	require.NoError(t, s.Stop())
	require.Less(t, time.Since(begin), 3*time.Second, "no SIGKILL was needed")
}

func TestServerArguments(t *testing.T) {
	s := testutil.StartRedis(t, "--requirepass", "secret", "--maxmemory", "1", "--maxmemory-policy", "noeviction")
	_, err := s.Do("SET", "k", "v")
	require.ErrorContains(t, err, "OOM")
	c, err := redis.Dial("tcp", s.Addr())
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // a connection of the test
	_, err = c.Do("PING")
	require.ErrorContains(t, err, "NOAUTH")
}

func TestStartSaysWhyNot(t *testing.T) {
	testutil.CheckLeaks(t)
	begin := time.Now()
	_, err := testutil.Start("--no-such-option", "1")
	require.ErrorContains(t, err, "no-such-option", "the server's own words")
	require.Less(t, time.Since(begin), 10*time.Second, "it does not wait for the dead")

	_, err = testutil.StartN(2, "--no-such-option", "1")
	require.Error(t, err)

	t.Setenv("PATH", t.TempDir())
	t.Setenv("REDIS_SERVER", "")
	_, err = testutil.Start()
	require.ErrorContains(t, err, "apt-get install redis-server")
	t.Setenv("REDIS_SERVER", "/nowhere/redis-server")
	_, err = testutil.Start()
	require.ErrorContains(t, err, "$REDIS_SERVER")
}

func TestServerClosed(t *testing.T) {
	s, err := testutil.Start()
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.NoDirExists(t, s.Dir())
	require.Error(t, s.Restart())
	require.NoDirExists(t, s.Dir())
}

func TestServersInParallel(t *testing.T) {
	servers := testutil.StartRedisN(t, 7)
	addrs := map[string]bool{}
	for i, s := range servers {
		s.MustDo(t, "SET", fmt.Sprint(i), "v")
		requireKeys(t, s, fmt.Sprint(i))
		addrs[s.Addr()] = true
	}
	require.Len(t, addrs, 7)
}

// A thread that ends must not take the server with it, only the process may.
func TestServerOutlivesThread(t *testing.T) {
	for range 3 {
		started := make(chan *testutil.Server)
		go func() {
			runtime.LockOSThread() // ends the thread with the goroutine
			s, err := testutil.Start()
			if err != nil {
				t.Error(err)
			}
			started <- s
		}()
		s := <-started
		require.NotNil(t, s)
		for range 50 {
			s.MustDo(t, "PING")
		}
		require.NoError(t, s.Close())
	}
}

func TestServerEndsWithProcess(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childMode+"=1")
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	require.NoError(t, err)
	defer stdin.Close() //nolint:errcheck // a pipe
	stdout, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())

	var addr, dir string
	_, err = fmt.Fscan(bufio.NewReader(stdout), &addr, &dir)
	killed := child.Process.Kill()
	require.Error(t, child.Wait(), "it was killed")
	require.NoError(t, err)
	require.NoError(t, killed)
	defer os.RemoveAll(dir) //nolint:errcheck // it is the system's to clean

	testutil.Eventually(t, 5*time.Second, func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	}, "the server ends with the process that started it")
}

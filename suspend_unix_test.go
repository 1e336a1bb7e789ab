//go:build unix

package redlock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
)

const (
	envStore        = "REDLOCK_TEST_STORE"
	suspendedLocks  = 8
	suspendedExpiry = 1500 * time.Millisecond
)

func init() { childModes["be suspended"] = suspendedChild }

// suspendedChild holds locks, renewed, until it notices that it stood still for longer
// than they live. It then looks at their contexts before anything else has had a chance
// to run, and writes to the store all the same, as code does that is past its last look.
func suspendedChild() error {
	nodes, done := childPools()
	defer done()
	r, err := redlock.New(nodes, redlock.WithExpiry(suspendedExpiry), redlock.WithNodeTimeout(time.Second))
	if err != nil {
		return err
	}
	store, err := redis.Dial("tcp", os.Getenv(envStore))
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // the process ends
	mutexes, contexts := make([]*redlock.Mutex, suspendedLocks), make([]context.Context, suspendedLocks)
	for i := range mutexes {
		mutexes[i] = r.NewMutex(fmt.Sprintf("row %d", i))
		if contexts[i], err = mutexes[i].Hold(context.Background()); err != nil {
			return err
		}
		if ok, err := write(store, mutexes[i].Name(), mutexes[i].Token(), "old"); !ok || err != nil {
			return fmt.Errorf("the write in time: %v, %w", ok, err)
		}
	}
	for i, held := range contexts {
		if held.Err() != nil || !mutexes[i].Valid() {
			return fmt.Errorf("lost too early: %w", context.Cause(held))
		}
	}
	// One thread, and it is busy: after the gap no timer has run when this loop goes on.
	runtime.GOMAXPROCS(1)
	started := time.Now()
	last := started
	fmt.Println("holding")
	for turn := 1; ; turn++ {
		now := time.Now()
		if now.Sub(last) > 2*suspendedExpiry {
			break
		}
		if last = now; now.Sub(started) > time.Minute {
			return errors.New("nobody stopped this process")
		}
		if turn%100_000 == 0 {
			runtime.Gosched() // lets the renewals run
		}
	}
	valid := make([]bool, suspendedLocks)
	errs := make([]error, suspendedLocks)
	for i, held := range contexts {
		valid[i], errs[i] = mutexes[i].Valid(), held.Err()
	}
	for i, held := range contexts {
		taken, err := write(store, mutexes[i].Name(), mutexes[i].Token(), "old")
		if err != nil {
			return err
		}
		_, unlocked := mutexes[i].Unlock()
		fmt.Println("woke", valid[i], errs[i] != nil, errors.Is(context.Cause(held), redlock.ErrLost), taken, errors.Is(unlocked, redlock.ErrExpired))
	}
	return nil
}

// The holder process is stopped for longer than its locks live. When it goes on, its
// contexts have ended at the first look, and the store refuses its tokens.
func TestCase19_SuspendedHolder(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	resource := testutil.StartRedis(t)
	self, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), childMode+"=be suspended", envAddrs+"="+addrsOf(servers), envStore+"="+resource.Addr())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	said := bufio.NewScanner(out)
	require.True(t, said.Scan(), "the child ended early")
	require.Equal(t, "holding", said.Text())
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	stopped := time.Now()

	store, err := resource.Conn()
	require.NoError(t, err)
	defer store.Close() //nolint:errcheck // a connection of the test
	r := factory(t, servers, patient())
	for i := range suspendedLocks {
		m := r.NewMutex(fmt.Sprintf("row %d", i))
		require.NoError(t, m.Lock())
		ok, err := write(store, m.Name(), m.Token(), "new")
		require.NoError(t, err)
		require.True(t, ok)
		defer m.Unlock() //nolint:errcheck // held while the other wakes
	}
	// Long enough for the child to tell the gap from a busy machine.
	testutil.Eventually(t, settle, func() bool { return time.Since(stopped) > 3*suspendedExpiry }, "it has stood still for long")
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	woke := 0
	for said.Scan() {
		words := strings.Fields(said.Text())
		require.Equal(t, []string{"woke", "false", "true", "true", "false", "true"}, words,
			"valid, context ended, cause is ErrLost, write taken, unlock says expired")
		woke++
	}
	require.NoError(t, cmd.Wait())
	require.Equal(t, suspendedLocks, woke)
	stale := 0
	for i := range suspendedLocks {
		name := fmt.Sprintf("row %d", i)
		requireText(t, store, name+":fenced", "new")
		n, err := redis.Int(store.Do("HGET", name+":plain", "stale"))
		require.NoError(t, err)
		stale += n
	}
	require.Equal(t, suspendedLocks, stale, "without the check of the token they were accepted")
	t.Logf("stale writes accepted: 0 with the token check, %d without", stale)
}

package redlock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
	redigopool "github.com/quorumlock/redlock/pool/redigo"
)

const (
	envAddrs   = "REDLOCK_TEST_ADDRS"
	envWitness = "REDLOCK_TEST_WITNESS"

	contendProcesses   = 4
	contendersInEach   = 2
	contendRounds      = 200
	contendName        = "jobs"
	contendChildLimit  = 80 * time.Second
	contendWitnessHalt = 10 * time.Second
)

// The witness is a server that takes no part in the lock. It sees every entry and
// exit one at a time, so that it can tell an overlap, and a token out of order,
// whatever the clocks of the processes say.
var (
	witnessEnter = redis.NewScript(1, `
redis.call('HINCRBY', KEYS[1], 'grants', 1)
if redis.call('HGET', KEYS[1], 'inside') then redis.call('HINCRBY', KEYS[1], 'overlaps', 1) end
if tonumber(redis.call('HGET', KEYS[1], 'token') or '0') >= tonumber(ARGV[2]) then redis.call('HINCRBY', KEYS[1], 'disorder', 1) end
redis.call('HSET', KEYS[1], 'inside', ARGV[1], 'token', ARGV[2])
return 1`)
	witnessLeave = redis.NewScript(1, `
if redis.call('HGET', KEYS[1], 'inside') ~= ARGV[1] then redis.call('HINCRBY', KEYS[1], 'overlaps', 1) end
redis.call('HDEL', KEYS[1], 'inside')
return 1`)
)

// childPools are the pools of a child, over the nodes that its parent named.
func childPools() ([]pool.Pool, func()) {
	var out []pool.Pool
	var made []*redis.Pool
	for addr := range strings.SplitSeq(os.Getenv(envAddrs), ",") {
		p := newRedigo(addr)
		made = append(made, p)
		out = append(out, redigopool.NewNamedPool(p, addr))
	}
	return out, func() {
		for _, p := range made {
			_ = p.Close() // the process ends
		}
	}
}

// contendChild is one process of TestProcessesExcludeEachOther.
func contendChild() error {
	nodes, done := childPools()
	defer done()
	r, err := redlock.New(nodes, redlock.WithNodeTimeout(5*time.Second))
	if err != nil {
		return err
	}
	errs := make([]error, contendersInEach)
	var all sync.WaitGroup
	for i := range contendersInEach {
		all.Go(func() { errs[i] = contend(r, fmt.Sprintf("%d/%d", os.Getpid(), i)) })
	}
	all.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(append(errs, r.Close(ctx))...)
}

func contend(r *redlock.Redlock, who string) error {
	witness, err := redis.Dial("tcp", os.Getenv(envWitness), redis.DialReadTimeout(contendWitnessHalt))
	if err != nil {
		return err
	}
	defer witness.Close() //nolint:errcheck // the process ends
	ctx, cancel := context.WithTimeout(context.Background(), contendChildLimit)
	defer cancel()
	m := r.NewMutex(contendName)
	for round := range contendRounds {
		if err := m.LockContext(ctx); err != nil {
			return fmt.Errorf("%s, round %d: %w", who, round, err)
		}
		if _, err := witnessEnter.Do(witness, "seen", who, m.Token()); err != nil {
			return err
		}
		if _, err := witnessLeave.Do(witness, "seen", who); err != nil {
			return err
		}
		if ok, err := m.UnlockContext(ctx); !ok || err != nil {
			return fmt.Errorf("%s, round %d: unlock %v: %w", who, round, ok, err)
		}
	}
	return nil
}

// child starts this test binary again to play a part.
func child(t testing.TB, mode string, env ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(append(os.Environ(), childMode+"="+mode), env...)
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Start())
	return cmd, &said
}

func addrsOf(servers []*testutil.Server) string {
	addrs := make([]string, len(servers))
	for i, s := range servers {
		addrs[i] = s.Addr()
	}
	return strings.Join(addrs, ",")
}

// Exclusion and token order between processes, which share nothing but the nodes.
func TestProcessesExcludeEachOther(t *testing.T) {
	servers := testutil.StartRedisN(t, 5)
	witness := testutil.StartRedis(t)
	cmds := make([]*exec.Cmd, contendProcesses)
	said := make([]*bytes.Buffer, contendProcesses)
	for i := range cmds {
		cmds[i], said[i] = child(t, "contend", envAddrs+"="+addrsOf(servers), envWitness+"="+witness.Addr())
	}
	for i, cmd := range cmds {
		require.NoError(t, cmd.Wait(), "process %d said: %s", i, said[i])
	}
	seen, err := redis.StringMap(witness.Do("HGETALL", "seen"))
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(contendProcesses*contendersInEach*contendRounds), seen["grants"])
	require.Empty(t, seen["overlaps"], "two holders at a time")
	require.Empty(t, seen["disorder"], "a later grant with a token that is not higher")
	require.Empty(t, seen["inside"])
	requireFree(t, servers, contendName)
}

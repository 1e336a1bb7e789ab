//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/testutil"
)

// Exit codes of the job below that no shell and no redlock uses.
const (
	exitTwoJobs = 90
	exitWitness = 91
)

// witnessJob is the job that must never run twice at once. Its witness is a lock of
// the kernel on a file, which knows nothing of nodes. It writes its token to the
// file while it has that lock, so that their order shows in it.
func witnessJob() int {
	file, err := os.OpenFile(os.Args[1], os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitWitness
	}
	switch err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		fmt.Fprintf(os.Stderr, "token %s: another job is running\n", os.Getenv("REDLOCK_TOKEN"))
		return exitTwoJobs
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return exitWitness
	}
	if _, err := fmt.Fprintln(file, os.Getenv("REDLOCK_TOKEN")); err != nil {
		return exitWitness
	}
	time.Sleep(5*time.Millisecond + rand.N(20*time.Millisecond)) // the job itself
	return 0
}

// TestParallelRuns has 20 processes run a job under one lock while nodes fail.
func TestParallelRuns(t *testing.T) { parallelRuns(t, 6, 4*time.Second) }

// TestSoakParallelRuns is the long version.
func TestSoakParallelRuns(t *testing.T) {
	if os.Getenv("REDLOCK_SOAK") == "" {
		t.Skip("set REDLOCK_SOAK=1")
	}
	parallelRuns(t, 20, time.Minute)
}

func parallelRuns(t *testing.T, processes int, length time.Duration) {
	// With an append-only file a crash of the process loses no key.
	servers := testutil.StartRedisN(t, 5, "--appendonly", "yes", "--appendfsync", "no")
	urls := make([]string, len(servers))
	for i, s := range servers {
		urls[i] = "redis://" + s.Addr()
	}
	witness := filepath.Join(t.TempDir(), "witness")
	var codes codeCount
	ctx, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	var all sync.WaitGroup
	for range processes {
		all.Go(func() {
			for ctx.Err() == nil {
				codes.run(t, strings.Join(urls, ","), witness)
			}
		})
	}
	faults := breakNodes(ctx, t, servers)
	all.Wait()

	jobs := tokensInOrder(t, witness)
	t.Logf("%d jobs, %d faults, exit codes %v", jobs, faults, codes.seen)
	assert.Zero(t, codes.seen[exitTwoJobs], "two jobs at once")
	assert.Zero(t, codes.seen[exitWitness])
	assert.Positive(t, codes.seen[0])
	assert.GreaterOrEqual(t, jobs, codes.seen[0])
	assert.Positive(t, faults)
}

// codeCount counts exit codes.
type codeCount struct {
	mu   sync.Mutex
	seen map[int]int // guarded by mu
}

func (c *codeCount) run(t *testing.T, urls, witness string) {
	// Not bound to ctx: a redlock that is killed leaves its lock for a whole --ttl.
	cmd := exec.Command("redlock", "run", "--name", "job", "--ttl", "3s", "--wait", "10s", "--grace", "1s", "--", "witness-job", witness)
	cmd.Env = append(os.Environ(), nodesVariable+"="+urls)
	out, err := cmd.CombinedOutput()
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Error(err)
	}
	switch code {
	case 0, exitBusy, exitLost, exitUnavailable:
	default:
		t.Errorf("exit code %d: %s", code, out)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[int]int{}
	}
	c.seen[code]++
}

// breakNodes has one or two nodes fail at a time, in any way that keeps their keys,
// until ctx ends, and mends them all.
func breakNodes(ctx context.Context, t *testing.T, servers []*testutil.Server) (faults int) {
	pause := func(d time.Duration) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	kinds := []struct{ fail, mend func(*testutil.Server) error }{
		{(*testutil.Server).Pause, (*testutil.Server).Resume},
		{(*testutil.Server).Kill, (*testutil.Server).Restart},
		{(*testutil.Server).Stop, (*testutil.Server).Restart},
	}
	for ctx.Err() == nil {
		chosen := rand.Perm(len(servers))[:1+rand.IntN(2)]
		kind := kinds[rand.IntN(len(kinds))]
		for _, i := range chosen {
			require.NoError(t, kind.fail(servers[i]))
			faults++
		}
		pause(200*time.Millisecond + rand.N(800*time.Millisecond))
		for _, i := range chosen {
			require.NoError(t, kind.mend(servers[i]))
		}
		pause(rand.N(400 * time.Millisecond))
	}
	return faults
}

// tokensInOrder counts the lines of the witness and checks that each is above the last.
func tokensInOrder(t *testing.T, path string) (lines int) {
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close() //nolint:errcheck // read only
	last := int64(0)
	for scanner := bufio.NewScanner(file); scanner.Scan(); lines++ {
		token, err := strconv.ParseInt(scanner.Text(), 10, 64)
		require.NoError(t, err)
		assert.Greater(t, token, last, "token out of order")
		last = token
	}
	return lines
}

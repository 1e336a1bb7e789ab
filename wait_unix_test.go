//go:build unix

package redlock_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/testutil"
)

// A process that is suspended while it is the first in the queue costs the others
// its call, once: the next in line looks itself.
func TestWait_HeadOfQueueIsSuspended(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 5)
	holder, next := factory(t, servers, patient()), factory(t, servers, patient())
	warmReal(t, next)
	m := holder.NewMutex("jobs")
	require.NoError(t, m.Lock())
	requireHeld(t, servers, "jobs", 5)
	head, _ := child(t, "wait", envAddrs+"="+addrsOf(servers))
	requirePlaces(t, servers, "jobs", 1)
	mine := next.NewMutex("jobs")
	got := lockLater(t.Context(), mine)
	requirePlaces(t, servers, "jobs", 2)
	require.NoError(t, head.Process.Signal(syscall.SIGSTOP))
	// The signal alone only asks; Wait4 tells when it has stopped.
	var status syscall.WaitStatus
	_, err := syscall.Wait4(head.Process.Pid, &status, syscall.WUNTRACED, nil)
	require.NoError(t, err)
	require.True(t, status.Stopped())

	released := time.Now()
	unlock(t, m)
	r := <-got
	require.NoError(t, r.err)
	first := r.at.Sub(released)
	require.Less(t, first, 750*time.Millisecond, "250 ms, and what a busy machine may add")

	// From then on it is in nobody's way.
	again := holder.NewMutex("jobs")
	then := lockLater(t.Context(), again)
	requireQueued(t, servers, "jobs")
	released = time.Now()
	unlock(t, mine)
	r = <-then
	require.NoError(t, r.err)
	t.Logf("delayed by %v, then by %v", first, r.at.Sub(released))
	unlock(t, again)
	require.NoError(t, head.Process.Signal(syscall.SIGCONT))
	_ = head.Wait() // it gets the lock when it goes on, and ends
}

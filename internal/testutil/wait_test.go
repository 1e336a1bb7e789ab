package testutil_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/testutil"
)

func TestPoll(t *testing.T) {
	asked := 0
	require.True(t, testutil.Poll(0, func() bool { asked++; return true }))
	require.Equal(t, 1, asked)
	require.True(t, testutil.Poll(soon, func() bool { asked++; return asked == 5 }))
	begin := time.Now()
	require.False(t, testutil.Poll(30*time.Millisecond, func() bool { return false }))
	require.GreaterOrEqual(t, time.Since(begin), 30*time.Millisecond)
}

// A recorder is a testing.TB that only takes down what fails.
type recorder struct {
	testing.TB
	cleanups []func()
	failed   bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Cleanup(f func())      { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Error(...any)          { r.failed = true }
func (r *recorder) Fatalf(string, ...any) { r.failed = true }

func TestEventuallyFails(t *testing.T) {
	r := &recorder{TB: t}
	testutil.Eventually(r, time.Millisecond, func() bool { return false }, "never")
	require.True(t, r.failed)
}

func leakUntil(end <-chan struct{}) { <-end }

func TestLeakCheck(t *testing.T) {
	check := testutil.NewLeakCheck()
	require.NoError(t, check.Err(0))
	end := make(chan struct{})
	go leakUntil(end)
	require.ErrorContains(t, check.Err(20*time.Millisecond), "leakUntil")
	require.NoError(t, testutil.NewLeakCheck().Err(0), "it was there before")
	close(end)
	require.NoError(t, check.Err(soon))
}

func TestCheckLeaksWaitsForEnd(t *testing.T) {
	r := &recorder{TB: t}
	testutil.CheckLeaks(r)
	end := make(chan struct{})
	go leakUntil(end)
	timer := time.AfterFunc(20*time.Millisecond, func() { close(end) })
	defer timer.Stop()
	r.cleanups[0]()
	require.False(t, r.failed)
}

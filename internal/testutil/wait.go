package testutil

import (
	"testing"
	"time"
)

// pollEvery is short, so that a condition is seen about when it comes true, and
// long enough to leave two cores to what is being waited for.
const pollEvery = 2 * time.Millisecond

// Poll asks cond, at once and then every 2 ms, until it says true or the time
// given by within has passed. It reports whether cond said true. The last
// question is asked after the time has passed, so a busy machine that skips
// ticks costs no false alarm.
func Poll(within time.Duration, cond func() bool) bool {
	if cond() {
		return true
	}
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	for {
		select {
		case <-ticker.C:
			if cond() {
				return true
			}
		case <-deadline.C:
			return cond()
		}
	}
}

// Eventually fails the test when cond has not come true within the time given.
// Unlike testify's, it asks at once and on the test's own goroutine, so cond may
// call t.FailNow.
func Eventually(t testing.TB, within time.Duration, cond func() bool, format string, args ...any) {
	t.Helper()
	if !Poll(within, cond) {
		t.Fatalf("not within %v: "+format, append([]any{within}, args...)...)
	}
}

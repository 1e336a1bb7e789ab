package testutil

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

const leakBound = 5 * time.Second

// Goroutines that the standard library starts once and keeps for good.
var keptGoroutines = []string{
	"os/signal.loop(",
	"os/signal.signal_recv(",
	"runtime/pprof.profileWriter(",
	"testing.(*M).Run(",
	"testing.(*T).Run(",
	"testing.(*F).Fuzz(",
}

// What WaitGroup.Go runs after the function it was given. A goroutine that is there has
// been waited for, or is about to be, and has nothing left to do.
var lastSteps = []string{
	"sync.(*WaitGroup).Done(",
	"sync.(*WaitGroup).Add(",
	"sync.(*WaitGroup).Go.func1.1(",
	"runtime.goexit1(",
	"runtime.goexit(",
}

// A LeakCheck remembers the goroutines there were when it was made.
type LeakCheck struct{ before map[string]bool }

// NewLeakCheck takes note of the goroutines there are.
func NewLeakCheck() *LeakCheck {
	before := map[string]bool{}
	for id := range goroutines() {
		before[id] = true
	}
	return &LeakCheck{before: before}
}

// Err waits, at most as long as within says, until all goroutines that started
// since the check was made have ended, and else returns an error with their stacks.
func (c *LeakCheck) Err(within time.Duration) error {
	var left []string
	if Poll(within, func() bool { left = c.left(); return len(left) == 0 }) {
		return nil
	}
	return fmt.Errorf("testutil: %d goroutines are left after %v:\n\n%s", len(left), within, strings.Join(left, "\n\n"))
}

func (c *LeakCheck) left() []string {
	var left []string
next:
	for id, stack := range goroutines() {
		if c.before[id] {
			continue
		}
		for _, kept := range keptGoroutines {
			if strings.Contains(stack, kept) {
				continue next
			}
		}
		for _, last := range lastSteps {
			if _, frames, _ := strings.Cut(stack, "\n"); strings.HasPrefix(frames, last) {
				continue next
			}
		}
		left = append(left, stack)
	}
	return left
}

// CheckLeaks fails the test when goroutines that started during it are left 5 s
// after it and after the clean-ups registered later. Call it first, and not in
// a test that runs beside others (t.Parallel): it would blame theirs.
func CheckLeaks(t testing.TB) {
	t.Helper()
	check := NewLeakCheck()
	t.Cleanup(func() {
		if err := check.Err(leakBound); err != nil {
			t.Error(err)
		}
	})
}

// Main runs the tests of a package and fails it when goroutines are left at the
// end. Use it as
//
//	func TestMain(m *testing.M) { os.Exit(testutil.Main(m)) }
func Main(m *testing.M) int {
	check := NewLeakCheck()
	code := m.Run()
	if code != 0 {
		return code
	}
	if err := check.Err(leakBound); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// goroutines maps the id of each goroutine but the calling one to its stack.
func goroutines() map[string]string {
	buf := make([]byte, 64<<10)
	n := runtime.Stack(buf, true)
	for n == len(buf) {
		buf = make([]byte, 2*len(buf))
		n = runtime.Stack(buf, true)
	}
	all := map[string]string{}
	// The first is the caller's own.
	for _, stack := range bytes.Split(buf[:n], []byte("\n\n"))[1:] {
		fields := bytes.Fields(stack)
		if len(fields) > 1 && string(fields[0]) == "goroutine" {
			all[string(fields[1])] = string(bytes.TrimSpace(stack))
		}
	}
	return all
}

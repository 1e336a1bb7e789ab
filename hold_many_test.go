package redlock_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
)

// Thousands of locks held and renewed by one process: none is lost, and a held lock
// costs little memory and no goroutine. REDLOCK_SOAK makes it 10,000 locks for a
// minute at the default expiry; under the race detector, which makes of 3,750 renewals a
// second more than two processors can do, 2,000. Not parallel: it measures the heap.
func TestSoakManyHeldLocks(t *testing.T) {
	locks, length, expiry := 500, 3*time.Second, 6*time.Second
	soak := os.Getenv("REDLOCK_SOAK") != ""
	if soak {
		locks, length, expiry = 10_000, time.Minute, 8*time.Second
		if raceEnabled {
			locks = 2_000
		}
	}
	servers := testutil.StartRedisN(t, 5)
	// How long one request may take on this machine, beside five servers, is not the point.
	r := factory(t, servers, redlock.WithExpiry(expiry), redlock.WithNodeTimeout(2*time.Second))
	names := make([]string, locks)
	for i := range names {
		names[i] = fmt.Sprintf("jobs:%05d", i)
	}
	mutexes := make([]*redlock.Mutex, locks)
	contexts := make([]context.Context, locks)
	// Connections, scripts and the goroutines of a crowd are not the locks'.
	warm := r.NewMutex("warm")
	_, err := warm.Hold(t.Context())
	require.NoError(t, err)
	alone := runtime.NumGoroutine()
	var crowd sync.WaitGroup
	for w := range 64 {
		crowd.Go(func() {
			for i := range 20 {
				m := r.NewMutex(fmt.Sprintf("crowd %d %d", w, i))
				if m.Lock() == nil {
					_, _ = m.Unlock()
				}
			}
		})
	}
	crowd.Wait()
	// What is still on its way would count as there before.
	testutil.Eventually(t, settle, func() bool { return runtime.NumGoroutine() <= alone }, "the crowd is gone")

	heap, goroutines := heapInUse(), runtime.NumGoroutine()
	started := time.Now()
	var all sync.WaitGroup
	errs := make(chan error, locks)
	for w := range 64 {
		all.Go(func() {
			for i := w; i < locks; i += 64 {
				mutexes[i] = r.NewMutex(names[i])
				held, err := mutexes[i].Hold(t.Context())
				if err != nil {
					errs <- err
					return
				}
				contexts[i] = held
			}
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	t.Logf("%d locks taken in %v", locks, time.Since(started).Round(time.Millisecond))

	commands, from := commandsRun(t, servers), time.Now()
	quiet, peak := 1<<30, 0
	for end := time.NewTimer(length); ; {
		n := runtime.NumGoroutine()
		quiet, peak = min(quiet, n), max(peak, n)
		select {
		case <-time.After(5 * time.Millisecond):
			continue
		case <-end.C:
		}
		break
	}
	rate := float64(commandsRun(t, servers)-commands) / time.Since(from).Seconds()
	for i, held := range contexts {
		require.NoError(t, held.Err(), "%s: %v", names[i], context.Cause(held))
		require.True(t, mutexes[i].Valid())
	}
	perLock := float64(int64(heapInUse())-int64(heap)) / float64(locks)
	if path := os.Getenv("REDLOCK_HEAP_PROFILE"); path != "" {
		writeHeap(t, path)
	}
	runtime.KeepAlive(mutexes)
	runtime.KeepAlive(contexts)
	t.Logf("%.0f bytes of heap for each held lock; goroutines: %d before, %d to %d while %d locks are held; %.0f commands a second on 5 nodes",
		perLock, goroutines, quiet, peak, locks, rate)
	// Requests on their way have goroutines, locks have none: between renewals there are
	// as many as with a single lock.
	require.Less(t, quiet, goroutines+50)
	require.Less(t, peak, goroutines+5*1024)
	if soak && !raceEnabled {
		require.Less(t, perLock, 2048.0) // of a few locks, what all share is the larger part
	}
	all = sync.WaitGroup{}
	for w := range 64 {
		all.Go(func() {
			for i := w; i < locks; i += 64 {
				_, _ = mutexes[i].Unlock()
			}
		})
	}
	all.Wait()
	unlock(t, warm)
	for _, s := range servers {
		testutil.Eventually(t, settle, func() bool {
			keys, err := s.Keys()
			if err != nil {
				return false
			}
			for _, k := range keys {
				if !strings.Contains(k, "{") {
					return false
				}
			}
			return true
		}, "all are released")
	}
}

// writeHeap tells where the memory is, for go tool pprof.
func writeHeap(t testing.TB, path string) {
	t.Helper()
	out, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, pprof.WriteHeapProfile(out))
	require.NoError(t, out.Close())
}

// heapInUse is what is reachable.
func heapInUse() uint64 {
	var s runtime.MemStats
	for range 3 { // finalizers and pools are given up in steps
		runtime.GC()
	}
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// commandsRun is how many commands the servers have run, those inside scripts counted.
func commandsRun(t testing.TB, servers []*testutil.Server) (total int) {
	t.Helper()
	for _, s := range servers {
		info, err := redis.String(s.Do("INFO", "stats"))
		require.NoError(t, err)
		for line := range strings.SplitSeq(info, "\r\n") {
			var n int
			if _, err := fmt.Sscanf(line, "total_commands_processed:%d", &n); err == nil {
				total += n
			}
		}
	}
	return total
}

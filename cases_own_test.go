package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
)

// Cases from the field: who owns what.

// brief is a lock that ends by itself while a test looks on. The node timeout stays
// as long as it may be, for loaded machines.
func brief(d time.Duration) []redlock.Option {
	return []redlock.Option{redlock.WithExpiry(d), redlock.WithNodeTimeout(d - time.Millisecond)}
}

func requireExpired(t testing.TB, m *redlock.Mutex) {
	t.Helper()
	testutil.Eventually(t, settle, func() bool { return !m.Valid() }, "the validity is over")
}

func TestCase12_ExtendAfterOtherHands(t *testing.T) {
	t.Parallel()
	for _, free := range []bool{true, false} {
		t.Run(fmt.Sprintf("free again: %v", free), func(t *testing.T) {
			t.Parallel()
			servers := testutil.StartRedisN(t, 3)
			first := factory(t, servers).NewMutex("jobs", brief(500*time.Millisecond)...)
			require.NoError(t, first.Lock())
			value := first.Value()
			requireExpired(t, first)
			requireFree(t, servers, "jobs")
			second := factory(t, servers, patient()).NewMutex("jobs")
			require.NoError(t, second.Lock())
			requireHeld(t, servers, "jobs", 3)
			want := second.Value()
			if free {
				unlock(t, second)
				requireFree(t, servers, "jobs")
				want = ""
			}
			ok, err := first.Extend()
			require.False(t, ok)
			require.ErrorIs(t, err, redlock.ErrExpired)
			// The ledger of the first knew better. A copy of its value has no ledger, so
			// that the nodes have to.
			copied := factory(t, servers, patient()).NewMutex("jobs", redlock.WithValue(value))
			ok, err = copied.Extend()
			require.False(t, ok)
			require.ErrorIs(t, err, redlock.ErrExtendFailed)
			for _, s := range servers {
				require.Equal(t, want, lockedBy(t, s, "jobs"))
			}
		})
	}
}

func TestCase12_ExtendAfterUnlock(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	m := factory(t, servers, patient()).NewMutex("jobs")
	require.NoError(t, m.Lock())
	requireHeld(t, servers, "jobs", 3)
	copied := factory(t, servers, patient()).NewMutex("jobs", redlock.WithValue(m.Value()))
	unlock(t, m)
	requireFree(t, servers, "jobs")
	ok, err := m.Extend()
	require.False(t, ok)
	require.ErrorIs(t, err, redlock.ErrNotHeld)
	for range 3 {
		ok, err = copied.Extend()
		require.False(t, ok)
		require.ErrorIs(t, err, redlock.ErrExtendFailed)
		require.Zero(t, holders(t, servers, "jobs"))
	}
}

// An extend and a release of the same grant at the same time: whichever a node sees
// first, the lock is gone in the end.
func TestCase12_ExtendRacesUnlock(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	const workers, rounds = 5, 100
	r := factory(t, servers, patient())
	var all sync.WaitGroup
	errs := make(chan error, workers)
	for w := range workers {
		all.Go(func() {
			m := r.NewMutex(fmt.Sprintf("jobs %d", w))
			for round := range rounds {
				if err := m.Lock(); err != nil {
					errs <- fmt.Errorf("round %d: %w", round, err)
					return
				}
				var extended sync.WaitGroup
				extended.Go(func() {
					if _, err := m.Extend(); err != nil && !errors.Is(err, redlock.ErrNotHeld) &&
						!errors.Is(err, redlock.ErrExpired) && !errors.Is(err, redlock.ErrExtendFailed) {
						errs <- err
					}
				})
				if ok, err := m.Unlock(); !ok || err != nil {
					errs <- fmt.Errorf("round %d: unlock: %v, %w", round, ok, err)
				}
				extended.Wait()
			}
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), settle)
	defer cancel()
	require.NoError(t, r.Close(ctx), "all that was sent is answered")
	for w := range workers {
		require.Zero(t, holders(t, servers, fmt.Sprintf("jobs %d", w)))
	}
}

// The same with a renewal of a held lock: the release comes just as it begins.
func TestCase12_RenewalRacesUnlock(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	const workers, rounds = 50, 10
	renewing := make([]chan struct{}, workers)
	names := map[string]int{}
	for w := range workers {
		renewing[w] = make(chan struct{}, 1)
		names[fmt.Sprintf("jobs %d", w)] = w
	}
	seen := &recorder{}
	seen.onStart = func(verb, name string) {
		if verb == "renew" {
			select {
			case renewing[names[name]] <- struct{}{}:
			default:
			}
		}
	}
	r := factory(t, servers, redlock.WithExpiry(1200*time.Millisecond), redlock.WithNodeTimeout(time.Second), redlock.WithObserver(seen))
	var raced atomic.Int32
	var all sync.WaitGroup
	errs := make(chan error, workers*rounds)
	for name, w := range names {
		all.Go(func() {
			m := r.NewMutex(name)
			for range rounds {
				held, err := m.Hold(t.Context())
				if err != nil {
					errs <- err
					return
				}
				select {
				case <-renewing[w]:
					raced.Add(1)
				case <-held.Done(): // lost on a loaded machine: nothing to see
				}
				_, _ = m.Unlock()
				select {
				case <-renewing[w]:
				default:
				}
			}
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.Greater(t, raced.Load(), int32(workers*rounds/2))
	ctx, cancel := context.WithTimeout(t.Context(), settle)
	defer cancel()
	require.NoError(t, r.Close(ctx), "all that was sent is answered")
	// A lock that came back would live for its expiry yet.
	for name := range names {
		require.Zero(t, holders(t, servers, name))
	}
}

func TestCase13_SharedMutex(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	shared := factory(t, servers).NewMutex("jobs", brief(600*time.Millisecond)...)
	require.NoError(t, shared.Lock())
	requireHeld(t, servers, "jobs", 3)
	second := make(chan error, 1)
	go func() { second <- shared.Lock() }()
	require.ErrorIs(t, shared.TryLock(), redlock.ErrTaken, "TryLock does not wait")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	err := shared.LockContext(ctx)
	cancel()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, redlock.ErrTaken)

	// The first overruns. Its goroutine is still inside, so the second has to wait,
	// while another process may lock.
	requireExpired(t, shared)
	requireFree(t, servers, "jobs")
	other := factory(t, servers, patient()).NewMutex("jobs")
	require.NoError(t, other.Lock())
	requireHeld(t, servers, "jobs", 3)
	require.Empty(t, second, "the second was let in beside the first")
	ok, err := shared.Unlock()
	require.False(t, ok)
	require.ErrorIs(t, err, redlock.ErrExpired)
	for _, s := range servers {
		require.Equal(t, other.Value(), lockedBy(t, s, "jobs"), "the late Unlock freed somebody else's lock")
	}
	require.Empty(t, second)
	require.True(t, other.Valid())
	unlock(t, other)
	require.NoError(t, <-second)
	_, _ = shared.Unlock()
}

// One Mutex under many goroutines is a lock between them, too.
func TestCase13_SharedMutexExcludes(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	shared := factory(t, servers, patient()).NewMutex("jobs")
	inside, last := 0, int64(0) // guarded by nothing but the lock: the race detector looks on
	var all sync.WaitGroup
	errs := make(chan error, 8*25)
	for range 8 {
		all.Go(func() {
			for range 25 {
				if err := shared.Lock(); err != nil {
					errs <- err
					return
				}
				inside++
				if token := shared.Token(); inside != 1 || token <= last {
					errs <- fmt.Errorf("%d inside, token %d after %d", inside, token, last)
				}
				last = shared.Token()
				inside--
				if ok, err := shared.Unlock(); !ok || err != nil {
					errs <- err
				}
			}
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}

func TestCase14_UnlockRepeatedAfterOthersLocked(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	proxies, pools := proxied(t, servers)
	var seen recorder
	r := factoryOf(t, pools, redlock.WithNodeTimeout(500*time.Millisecond), redlock.WithObserver(&seen))
	m := r.NewMutex("jobs")
	require.NoError(t, m.Lock())
	unlock(t, m) // the nodes know the script: else all they could do is to ask for it
	requireFree(t, servers, "jobs")
	require.NoError(t, m.Lock())
	requireHeld(t, servers, "jobs", 3)
	for _, p := range proxies {
		p.DropReplies(true)
	}
	_, err := m.Unlock()
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	requireFree(t, servers, "jobs") // it was carried out all the same
	other := factory(t, servers, patient()).NewMutex("jobs")
	require.NoError(t, other.Lock())
	requireHeld(t, servers, "jobs", 3)

	_, err = m.Unlock()
	require.ErrorIs(t, err, redlock.ErrNotHeld, "the grant is over, whatever was returned")
	for _, p := range proxies {
		p.DropReplies(false)
		p.Reset()
	}
	testutil.Eventually(t, settle, func() bool {
		return seen.countNodes(func(e redlock.NodeEvent) bool { return e.Verb == "release" && e.Err == nil }) >= 6
	}, "the releases were repeated and heard")
	for _, s := range servers {
		require.Equal(t, other.Value(), lockedBy(t, s, "jobs"))
	}
	ok, err := other.Extend()
	require.NoError(t, err)
	require.True(t, ok)
	unlock(t, other)
}

// stubborn is a client library that takes every first reply for lost and sends the
// request again.
type stubborn struct{ pool.Pool }

func (p stubborn) Eval(ctx context.Context, s *pool.Script, keys []string, args ...any) ([]int64, error) {
	if _, err := p.Pool.Eval(ctx, s, keys, args...); err != nil {
		return nil, err
	}
	return p.Pool.Eval(ctx, s, keys, args...)
}

func TestCase15_RepeatedRequestIsNotTakenByItself(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	nodes := pools(t, servers)
	for i := range nodes {
		nodes[i] = stubborn{nodes[i]}
	}
	r := factoryOf(t, nodes, patient())
	for range 20 {
		m := r.NewMutex("jobs")
		require.NoError(t, m.TryLock())
		requireHeld(t, servers, "jobs", 3)
		ok, err := m.Extend()
		require.NoError(t, err)
		require.True(t, ok)
		_, err = m.Unlock() // the node cannot tell a repeated release from a lost lock
		require.NotErrorIs(t, err, redlock.ErrTaken)
		requireFree(t, servers, "jobs")
	}
}

func TestCase16_ThreeWaysNotToHold(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	r := factory(t, servers, patient())
	requireOnly := func(err, want error) {
		t.Helper()
		for _, e := range []error{redlock.ErrNotHeld, redlock.ErrExpired, redlock.ErrTaken, redlock.ErrNoQuorum} {
			require.Equal(t, e == want, errors.Is(err, e), "%v", err) //nolint:errorlint // which of the sentinels
		}
	}
	ok, err := r.NewMutex("never").Unlock()
	require.False(t, ok)
	requireOnly(err, redlock.ErrNotHeld)

	m := factory(t, servers).NewMutex("expired", brief(300*time.Millisecond)...)
	require.NoError(t, m.Lock())
	requireExpired(t, m)
	ok, err = m.Unlock()
	require.False(t, ok)
	requireOnly(err, redlock.ErrExpired)

	m = r.NewMutex("vanished") // an operator deleted it, or nodes forgot it
	require.NoError(t, m.Lock())
	requireHeld(t, servers, "vanished", 3)
	for _, s := range servers {
		s.MustDo(t, "DEL", "vanished")
	}
	ok, err = m.Unlock()
	require.False(t, ok)
	requireOnly(err, redlock.ErrExpired)

	m = r.NewMutex("stolen")
	require.NoError(t, m.Lock())
	requireHeld(t, servers, "stolen", 3)
	for _, s := range servers {
		steal(t, s, "stolen")
	}
	ok, err = m.Unlock()
	require.False(t, ok)
	requireOnly(err, redlock.ErrTaken)
	for _, s := range servers {
		require.Equal(t, "somebody-else", lockedBy(t, s, "stolen"))
	}
}

func TestCase17_ReadWhileRenewing(t *testing.T) {
	t.Parallel()
	servers := testutil.StartRedisN(t, 3)
	m := factory(t, servers, patient()).NewMutex("jobs")
	_, err := m.Hold(t.Context())
	require.NoError(t, err)
	token, value := m.Token(), m.Value()
	stop := make(chan struct{})
	var all sync.WaitGroup
	errs := make(chan error, 8)
	for range 4 {
		all.Go(func() {
			var last time.Time
			for {
				select {
				case <-stop:
					return
				default:
				}
				until := m.Until()
				if m.Token() != token || m.Value() != value || !m.Valid() || until.Before(last) {
					errs <- fmt.Errorf("token %d, value %q, valid %v, until %v after %v", m.Token(), m.Value(), m.Valid(), until, last)
					return
				}
				last = until
			}
		})
	}
	before := m.Until()
	for range 100 {
		ok, err := m.Extend()
		require.NoError(t, err)
		require.True(t, ok)
	}
	require.True(t, m.Until().After(before))
	close(stop)
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	unlock(t, m)
	require.Zero(t, m.Until())
	require.Zero(t, m.Token())
	require.Empty(t, m.Value())
	require.False(t, m.Valid())
}

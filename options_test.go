package redlock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func noDelay(int) time.Duration { return 0 }

// Every value an option refuses: the error names the option and the value, from New
// and from every verb of a mutex alike, and no node is asked.
func TestBadOptions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		opts  []Option
		names string
	}{
		{[]Option{WithExpiry(0)}, "WithExpiry(0s)"},
		{[]Option{WithExpiry(math.MaxInt64)}, "WithExpiry(2562047h47m16.854s)"},
		{[]Option{WithRestartGuard(longestLife + 1)}, "WithRestartGuard(876000h0m0.000000001s)"},
		{[]Option{WithExpiry(-time.Second)}, "WithExpiry(-1s)"},
		{[]Option{WithExpiry(999 * time.Microsecond)}, "WithExpiry(999µs)"},
		{[]Option{WithExpiry(2 * time.Millisecond)}, "WithExpiry(2ms)"}, // the drift eats it
		{[]Option{WithExpiry(time.Second), WithDriftFactor(0.999)}, "WithExpiry(1s)"},
		{[]Option{WithTries(0)}, "WithTries(0)"},
		{[]Option{WithTries(-3)}, "WithTries(-3)"},
		{[]Option{WithRetryDelay(-time.Millisecond)}, "WithRetryDelay(-1ms)"},
		{[]Option{WithRetryDelayFunc(nil)}, "WithRetryDelayFunc(<nil>)"},
		{[]Option{WithDriftFactor(-0.1)}, "WithDriftFactor(-0.1)"},
		{[]Option{WithDriftFactor(1)}, "WithDriftFactor(1)"},
		{[]Option{WithDriftFactor(math.NaN())}, "WithDriftFactor(NaN)"},
		{[]Option{WithDriftFactor(math.Inf(1))}, "WithDriftFactor(+Inf)"},
		{[]Option{WithTimeoutFactor(0)}, "WithTimeoutFactor(0)"},
		{[]Option{WithTimeoutFactor(-1)}, "WithTimeoutFactor(-1)"},
		{[]Option{WithTimeoutFactor(1)}, "WithTimeoutFactor(1)"},
		{[]Option{WithTimeoutFactor(math.NaN())}, "WithTimeoutFactor(NaN)"},
		{[]Option{WithNodeTimeout(0)}, "WithNodeTimeout(0s)"},
		{[]Option{WithNodeTimeout(-time.Second)}, "WithNodeTimeout(-1s)"},
		{[]Option{WithNodeTimeout(8 * time.Second)}, "WithNodeTimeout(8s)"}, // the default expiry
		{[]Option{WithExpiry(time.Second), WithNodeTimeout(time.Second)}, "WithNodeTimeout(1s)"},
		{[]Option{WithGenValueFunc(nil)}, "WithGenValueFunc(<nil>)"},
		{[]Option{WithValue("")}, `WithValue("")`},
		{[]Option{WithReentry()}, "WithReentry()"},
		{[]Option{WithMaxHold(0)}, "WithMaxHold(0s)"},
		{[]Option{WithMaxHold(-time.Hour)}, "WithMaxHold(-1h0m0s)"},
		{[]Option{WithRestartGuard(0)}, "WithRestartGuard(0s)"},
		{[]Option{WithRestartGuard(10 * time.Second)}, "WithRestartGuard(10s)"},
		{[]Option{WithRestartGuard(time.Minute), WithExpiry(time.Minute + time.Millisecond)}, "WithExpiry(1m0.001s)"},
		{[]Option{nil}, "nil"},
		// The first of several is the one that is told.
		{[]Option{WithTries(0), WithExpiry(0)}, "WithTries(0)"},
	} {
		t.Run(c.names, func(t *testing.T) {
			t.Parallel()
			asked := scripted(1, func(context.Context, int) ([]int64, error) {
				t.Error("a node was asked")
				return nil, errors.New("not to be called")
			})
			check := func(err error) {
				t.Helper()
				require.ErrorIs(t, err, ErrInvalidOption)
				require.ErrorContains(t, err, c.names)
				var invalid *OptionError
				require.ErrorAs(t, err, &invalid)
				require.Contains(t, fmt.Sprintf("%s(%v)", invalid.Option, invalid.Value), c.names)
				require.NotErrorIs(t, err, ErrTaken)
				require.NotErrorIs(t, err, ErrNoQuorum)
			}
			_, err := New(asked, c.opts...)
			check(err)
			r, err := New(asked)
			require.NoError(t, err)
			checkBadMutex(t, r.NewMutex("jobs", c.opts...), check)
			check(r.Do(t.Context(), "jobs", func(context.Context) error { t.Error("ran"); return nil }, c.opts...))
		})
	}
}

func checkBadMutex(t *testing.T, m *Mutex, check func(error)) {
	t.Helper()
	for verb, lock := range map[string]func() error{
		"Lock":           m.Lock,
		"LockContext":    func() error { return m.LockContext(t.Context()) },
		"TryLock":        m.TryLock,
		"TryLockContext": func() error { return m.TryLockContext(t.Context()) },
		"Hold":           func() error { _, err := m.Hold(t.Context()); return err },
		"Do":             func() error { return m.Do(t.Context(), func(context.Context) error { t.Error("ran"); return nil }) },
	} {
		err := lock()
		check(err)
		require.ErrorIs(t, err, ErrFailed, verb)
	}
	for verb, extend := range map[string]func() (bool, error){
		"Extend":        m.Extend,
		"ExtendContext": func() (bool, error) { return m.ExtendContext(t.Context()) },
		"ExtendFor":     func() (bool, error) { return m.ExtendFor(t.Context(), time.Second) },
	} {
		ok, err := extend()
		require.False(t, ok)
		check(err)
		require.ErrorIs(t, err, ErrExtendFailed, verb)
	}
	for _, release := range []func() (bool, error){m.Unlock, func() (bool, error) { return m.UnlockContext(t.Context()) }} {
		ok, err := release()
		require.False(t, ok)
		check(err)
	}
	require.Zero(t, m.Token())
	require.Zero(t, m.Until())
	require.Empty(t, m.Value())
	require.False(t, m.Valid())
}

func TestEmptyNameIsInvalid(t *testing.T) {
	t.Parallel()
	r, err := New(scripted(1, func(context.Context, int) ([]int64, error) {
		t.Error("a node was asked")
		return nil, errors.New("not to be called")
	}))
	require.NoError(t, err)
	checkBadMutex(t, r.NewMutex(""), func(err error) {
		t.Helper()
		require.ErrorIs(t, err, ErrInvalidOption)
		require.ErrorContains(t, err, "name")
	})
}

func TestGoodOptions(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]Option{
		nil,
		{WithExpiry(4 * time.Millisecond)},
		{WithExpiry(24 * time.Hour)},
		{WithTries(1)},
		{WithRetryDelay(0)},
		{WithRetryDelayFunc(noDelay)},
		{WithDriftFactor(0)},
		{WithTimeoutFactor(0.99)},
		{WithNodeTimeout(time.Nanosecond)},
		{WithRestartGuard(10001 * time.Millisecond)},
		{WithValue("x"), WithReentry()},
		{WithReentry(), WithValue("x")}, // in either order
		{WithMaxHold(1)},
		{WithObserver(nil), WithLogger(nil)},
		{WithNodeTimeout(9 * time.Second), WithExpiry(10 * time.Second)}, // in either order, too
	} {
		c := defaultConfig().with(opts)
		require.NoError(t, c.err)
	}
}

// A bad ExtendFor harms nothing: the grant is as good as before.
func TestBadExtendFor(t *testing.T) {
	t.Parallel()
	r, err := New(scripted(1, func(context.Context, int) ([]int64, error) { return nil, errors.New("not to be called") }))
	require.NoError(t, err)
	for d, names := range map[time.Duration]string{
		0:                      "ExtendFor(0s)",
		-time.Second:           "ExtendFor(-1s)",
		500 * time.Microsecond: "ExtendFor(500µs)",
		2 * time.Millisecond:   "ExtendFor(2ms)",
	} {
		ok, err := r.NewMutex("jobs").ExtendFor(t.Context(), d)
		require.False(t, ok)
		require.ErrorIs(t, err, ErrInvalidOption)
		require.ErrorIs(t, err, ErrExtendFailed)
		require.ErrorContains(t, err, names)
	}
	_, err = r.NewMutex("jobs", WithRestartGuard(time.Minute)).ExtendFor(t.Context(), time.Minute+1)
	require.ErrorIs(t, err, ErrInvalidOption)
	require.ErrorContains(t, err, "ExtendFor(1m0.000000001s)")
	require.ErrorContains(t, err, "WithRestartGuard(1m0s)")
}

// Case 2: neither half an hour for a long expiry nor 25 ms for a short one.
func TestNodeTimeout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		opts []Option
		want time.Duration
	}{
		{nil, 400 * time.Millisecond},
		{[]Option{WithExpiry(4 * time.Second)}, 250 * time.Millisecond},
		{[]Option{WithExpiry(500 * time.Millisecond)}, 125 * time.Millisecond},
		{[]Option{WithExpiry(10 * time.Millisecond)}, 2500 * time.Microsecond},
		{[]Option{WithExpiry(20 * time.Second)}, time.Second},
		{[]Option{WithExpiry(10 * time.Hour)}, 2 * time.Second},
		{[]Option{WithTimeoutFactor(0.2)}, 1600 * time.Millisecond},
		{[]Option{WithTimeoutFactor(0.001)}, 250 * time.Millisecond},
		{[]Option{WithNodeTimeout(7 * time.Millisecond)}, 7 * time.Millisecond},
		{[]Option{WithNodeTimeout(5 * time.Second)}, 5 * time.Second},
		{[]Option{WithExpiry(1000*time.Millisecond + 999*time.Microsecond)}, 250 * time.Millisecond}, // whole milliseconds
	} {
		cfg := defaultConfig().with(c.opts)
		require.NoError(t, cfg.err)
		require.Equal(t, c.want, cfg.timeout(), "expiry %v", cfg.expiry)
	}
}

// A node expires in whole milliseconds, so nothing finer may be counted on.
func TestExpiryIsTruncated(t *testing.T) {
	t.Parallel()
	cfg := defaultConfig().with([]Option{WithExpiry(1500*time.Millisecond + 999*time.Microsecond)})
	require.Equal(t, 1500*time.Millisecond, cfg.expiry)
}

func TestOptionsOfAMutexWin(t *testing.T) {
	t.Parallel()
	r, err := New(scripted(1, nil), WithExpiry(time.Second), WithTries(7))
	require.NoError(t, err)
	m := r.NewMutex("jobs", WithExpiry(3*time.Second))
	require.Equal(t, 3*time.Second, m.config.expiry)
	require.Equal(t, 7, m.config.tries)
	require.Equal(t, time.Second, r.config.expiry, "another mutex is not affected")
}

func TestDefaultDelay(t *testing.T) {
	t.Parallel()
	different := map[time.Duration]bool{}
	for i := range 200 {
		d := randomDelay(i)
		require.GreaterOrEqual(t, d, minRetryDelay)
		require.Less(t, d, maxRetryDelay)
		different[d] = true
	}
	require.Greater(t, len(different), 100, "contenders that failed together must not come back together")
}

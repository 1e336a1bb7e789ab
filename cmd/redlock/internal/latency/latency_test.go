package latency

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/redlocktest"
)

func TestMain(m *testing.M) { os.Exit(testutil.Main(m)) }

func TestHistogram(t *testing.T) {
	var b strings.Builder
	require.NoError(t, Histogram(&b, "lock", []time.Duration{1e6, 1e6, 2e6, 1.1e6, 99e5}))
	assert.Equal(t, `lock: 5 samples, p50 1.1 ms, p99 9.9 ms, max 9.9 ms
  up to     1 ms       2  ########################################
  up to   1.3 ms       1  ####################
  up to   1.6 ms       0  
  up to     2 ms       1  ####################
  up to   2.5 ms       0  
  up to   3.2 ms       0  
  up to     4 ms       0  
  up to     5 ms       0  
  up to   6.3 ms       0  
  up to     8 ms       0  
  up to    10 ms       1  ####################

`, b.String())
	b.Reset()
	require.NoError(t, Histogram(&b, "lock", nil))
	assert.Equal(t, "lock: no samples\n\n", b.String())
	b.Reset()
	require.NoError(t, Histogram(&b, "lock", []time.Duration{0, 3 * time.Second}))
	assert.Contains(t, b.String(), "3.2 s")
}

func TestQuantile(t *testing.T) {
	assert.Zero(t, Quantile(nil, 0.5))
	samples := make([]time.Duration, 100)
	for i := range samples {
		samples[99-i] = time.Duration(i + 1)
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		assert.Equal(t, want, Quantile(samples, q), q)
	}
}

func open(nodes redlocktest.Nodes) func() (*redlock.Redlock, func(), error) {
	return func() (*redlock.Redlock, func(), error) {
		r, err := redlock.New(nodes.Pools())
		return r, func() {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			_ = r.Close(ctx) // waits for nodes that are down
		}, err
	}
}

func TestMeasureIsBounded(t *testing.T) {
	c := Config{Count: 20, Time: time.Minute, Waiters: 2, Name: "bench", Open: open(redlocktest.NewNodes(3))}
	r, err := Measure(t.Context(), c)
	require.NoError(t, err)
	assert.Len(t, r.Lock, 20)
	assert.Len(t, r.Unlock, 20)
	assert.Len(t, r.HandOver, 20)
	assert.Zero(t, r.Failed, r.FirstError)

	c.Count, c.Time = 1e9, 200*time.Millisecond
	started := time.Now()
	r, err = Measure(t.Context(), c)
	require.NoError(t, err)
	assert.Less(t, time.Since(started), 30*time.Second)
	assert.NotEmpty(t, r.Lock)
}

func TestMeasureGivesUp(t *testing.T) {
	nodes := redlocktest.NewNodes(3)
	nodes[0].Down()
	nodes[1].Down()
	c := Config{Count: 20, Time: time.Minute, Waiters: 2, Name: "bench", Open: open(nodes)}
	_, err := Measure(t.Context(), c)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	c.Open = func() (*redlock.Redlock, func(), error) { return nil, nil, errors.New("no") }
	_, err = Measure(t.Context(), c)
	require.EqualError(t, err, "no")
}

// Nodes stop at the start of the hand-overs, or among them: the second client is the
// first that contends.
func TestMeasureGivesUpHalfWay(t *testing.T) {
	for _, after := range []time.Duration{0, 100 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			nodes, opened := redlocktest.NewNodes(3), 0
			client := open(nodes)
			hang := func() {
				nodes[0].Hang()
				nodes[1].Hang()
			}
			c := Config{Count: 200, Time: time.Hour, Waiters: 2, Name: "bench", Open: func() (*redlock.Redlock, func(), error) {
				if opened++; opened == 2 && after == 0 {
					hang()
				} else if opened == 2 {
					time.AfterFunc(after, hang)
				}
				return client()
			}}
			r, err := Measure(t.Context(), c)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			assert.Equal(t, r.FirstError, err)
			assert.Equal(t, maxFailures, r.Failed)
			assert.Len(t, r.Lock, c.Count)
			assert.Less(t, len(r.HandOver), c.Count)
			assert.Equal(t, after > 0, len(r.HandOver) > 0)
		})
	}
}

func TestResultLacksAPart(t *testing.T) {
	failed, some := errors.New("no"), []time.Duration{1}
	assert.Equal(t, failed, (&Result{Lock: some, FirstError: failed}).lacking())
	assert.Equal(t, failed, (&Result{HandOver: some, FirstError: failed}).lacking())
	assert.NoError(t, (&Result{Lock: some, HandOver: some, FirstError: failed}).lacking())
	assert.NoError(t, (&Result{}).lacking())
}

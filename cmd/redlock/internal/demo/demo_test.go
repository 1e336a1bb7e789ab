package demo

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/cmd/redlock/internal/paint"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/redlocktest"
)

func TestMain(m *testing.M) { os.Exit(testutil.Main(m)) }

func TestWitness(t *testing.T) {
	var w witness
	for token := int64(1); token <= 3; token++ {
		w.leave(w.enter(0, token))
	}
	assert.Zero(t, w.overlaps.Load())
	assert.Zero(t, w.disorder.Load())
	assert.Zero(t, w.lostUpdates())

	first := w.enter(1, 4)
	second := w.enter(2, 5)
	assert.Equal(t, "client 2, worker 1, token 5", w.holder())
	w.leave(first)
	w.leave(second)
	assert.EqualValues(t, 1, w.overlaps.Load())
	assert.EqualValues(t, 1, w.lostUpdates(), "both wrote what the first had read")
	assert.Empty(t, w.holder())

	w.leave(w.enter(3, 5))
	assert.EqualValues(t, 1, w.disorder.Load(), "a token that was seen before")
	assert.Equal(t, []string{
		"client 2, worker 1 (token 5) entered while client 1, worker 2 (token 4) is inside",
		"client 2, worker 2 entered with token 5 after token 5",
	}, w.violations())
}

// Two halves of the workers that lock on nodes of their own exclude only each
// other: the checks must say so.
func TestBrokenLockIsSeen(t *testing.T) {
	r := &run{}
	r.board.reset()
	for range clientCount / 2 {
		locks, err := redlock.New(redlocktest.NewNodes(nodeCount).Pools(), redlock.WithExpiry(time.Second))
		require.NoError(t, err)
		r.clients = append(r.clients, &client{locks: locks}, &client{locks: locks})
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var workers sync.WaitGroup
	for i := range clientCount * workersPerClient {
		workers.Go(func() { r.work(ctx, i) })
	}
	testutil.Eventually(t, 20*time.Second, func() bool { return r.witness.overlaps.Load() > 0 }, "no overlap was seen")
	cancel()
	workers.Wait()
	r.close()
	assert.False(t, r.report(time.Second).Safe())
}

func TestSafe(t *testing.T) {
	good := Report{Grants: 1, TokensIncreasing: true}
	assert.True(t, good.Safe())
	for _, spoil := range []func(*Report){
		func(r *Report) { r.Grants = 0 },
		func(r *Report) { r.Overlaps = 1 },
		func(r *Report) { r.TokensIncreasing = false },
		func(r *Report) { r.LostUpdates = 1 },
	} {
		bad := good
		spoil(&bad)
		assert.False(t, bad.Safe(), "%+v", bad)
	}
}

// No client ever misses more than two nodes, counting the cut links of its own.
func TestMinorityOfFaults(t *testing.T) {
	for round := range nodeCount {
		r := &run{cluster: memory(redlocktest.NewNodes(nodeCount))}
		r.board.reset()
		for range clientCount {
			c, err := r.newClient(time.Second)
			require.NoError(t, err)
			r.clients = append(r.clients, c)
		}
		at, faults := 0.0, 0
		for _, s := range r.round(t.Context(), round, time.Millisecond) {
			require.GreaterOrEqual(t, s.at, at, s.text)
			require.NoError(t, s.do(), s.text)
			at = s.at
			if s.fault {
				faults++
			}
			for _, c := range r.clients {
				missing := 0
				for n, state := range r.board.nodes {
					if _, err := c.links[n].state(); err != nil || state != healthy {
						missing++
					}
				}
				require.LessOrEqual(t, missing, 2, s.text)
			}
		}
		assert.Equal(t, 6, faults)
		assert.Equal(t, slices.Repeat([]string{healthy}, nodeCount), r.board.nodes, "all is well at the end of a round")
		assert.False(t, r.board.split)
		r.close()
	}
}

func TestLink(t *testing.T) {
	node := redlocktest.NewNode("here")
	l := newLink(node)
	assert.Equal(t, "here", l.Addr())
	subscribed, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- l.Subscribe(t.Context(), "channel", func() { close(subscribed) }, func(string) {})
	}()
	<-subscribed
	l.cut(true)
	require.Error(t, <-ended, "the subscription outlives the link")
	_, err := l.Eval(t.Context(), nil, nil)
	require.ErrorIs(t, err, syscall.EHOSTUNREACH)
	require.ErrorIs(t, l.Subscribe(t.Context(), "channel", nil, nil), syscall.EHOSTUNREACH)
	l.cut(false)
	l.cut(false)
	_, err = l.state()
	require.NoError(t, err)
}

func TestHistogram(t *testing.T) {
	var h histogram
	assert.Zero(t, h.quantile(0.99))
	for i := range 1000 {
		h.add(time.Duration(i+1) * time.Millisecond)
	}
	assert.InEpsilon(t, 500*time.Millisecond, h.quantile(0.5), 0.1)
	assert.InEpsilon(t, 990*time.Millisecond, h.quantile(0.99), 0.1)
	assert.Equal(t, time.Second, h.quantile(1))
	h.add(time.Hour)
	assert.Equal(t, time.Hour, h.max())
	for range 1000 {
		h.add(rand.N(firstStep))
	}
	assert.LessOrEqual(t, h.quantile(0.1), firstStep)
}

func TestScreenRepaints(t *testing.T) {
	var out bytes.Buffer
	s := &Screen{Block: paint.Block{Out: &out, Width: func() int { return 40 }}}
	now := Snapshot{Duration: time.Second, Nodes: slices.Repeat([]string{healthy}, nodeCount)}
	s.Progress(now)
	assert.NotContains(t, out.String(), "\x1b[4A")
	s.Event(time.Second, strings.Repeat("x", 100))
	s.Progress(now)
	assert.Contains(t, out.String(), "\x1b[4A", "the second picture starts where the first did")
	for _, line := range strings.Split(out.String(), "\n") {
		line = line[strings.LastIndexByte(line, 'K')+1:]
		assert.LessOrEqual(t, len([]rune(line)), 40)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	view := &viewFunc{progress: func(s Snapshot) {
		if s.Report.Grants > 0 {
			cancel()
		}
	}}
	report, err := Run(ctx, Config{Duration: time.Hour, View: view})
	require.NoError(t, err)
	assert.True(t, report.Safe(), "%+v", report)
	assert.Less(t, report.Seconds, 60.0)
}

func TestRunWithoutServers(t *testing.T) {
	t.Setenv("REDIS_SERVER", "/nowhere/redis-server")
	_, err := Run(t.Context(), Config{Duration: MinDuration, Servers: true, View: &viewFunc{}})
	require.ErrorContains(t, err, "REDIS_SERVER")
	assert.False(t, errors.Is(err, context.Canceled))
}

type viewFunc struct{ progress func(Snapshot) }

func (v *viewFunc) Event(time.Duration, string) {}
func (v *viewFunc) Progress(s Snapshot)         { v.progress(s) }
func (v *viewFunc) Done()                       {}

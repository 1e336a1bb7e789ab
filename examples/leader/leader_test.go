package leader_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/examples/leader"
	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/redlocktest"
)

// A cable between one process and one node.
type cable struct {
	*redlocktest.Node
	mu  sync.Mutex
	cut bool
}

func (c *cable) Eval(ctx context.Context, s *pool.Script, keys []string, args ...any) ([]int64, error) {
	c.mu.Lock()
	cut := c.cut
	c.mu.Unlock()
	if cut {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return c.Node.Eval(ctx, s, keys, args...)
}

type process struct {
	locks  *redlock.Redlock
	cables []*cable
}

func start(t *testing.T, nodes redlocktest.Nodes) *process {
	t.Helper()
	p := &process{}
	var pools []pool.Pool
	for _, n := range nodes {
		c := &cable{Node: n}
		p.cables = append(p.cables, c)
		pools = append(pools, c)
	}
	var err error
	p.locks, err = redlock.New(pools)
	require.NoError(t, err)
	return p
}

func (p *process) cutOff(cut bool) {
	for _, c := range p.cables {
		c.mu.Lock()
		c.cut = cut
		c.mu.Unlock()
	}
}

// A history of who led when.
type history struct {
	t *testing.T

	mu      sync.Mutex
	leading int // guarded by mu; the process, -1 for none
	terms   []int64
	leaders []int
}

// lead leads until it is told to stop.
func (h *history) lead(process int) func(context.Context, int64) error {
	return func(ctx context.Context, term int64) error {
		h.mu.Lock()
		if h.leading >= 0 {
			h.t.Errorf("%d and %d lead at once", h.leading, process)
		}
		h.leading = process
		h.terms, h.leaders = append(h.terms, term), append(h.leaders, process)
		h.mu.Unlock()
		<-ctx.Done()
		h.mu.Lock()
		h.leading = -1
		h.mu.Unlock()
		return context.Cause(ctx)
	}
}

func (h *history) leader() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leading
}

func TestCampaign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.NewNodes(3)
		for _, n := range nodes {
			n.SetDelay(time.Millisecond, time.Millisecond)
		}
		h := &history{t: t, leading: -1}
		ctx, stop := context.WithCancel(t.Context())
		fleet := []*process{start(t, nodes), start(t, nodes), start(t, nodes)}
		ended := make(chan error, len(fleet))
		for i, p := range fleet {
			go func() { ended <- leader.Campaign(ctx, p.locks, "scheduler", h.lead(i)) }()
		}
		time.Sleep(time.Minute)
		first := h.leader()
		require.GreaterOrEqual(t, first, 0)
		require.Len(t, h.leaders, 1, "it leads for as long as nothing happens")

		fleet[first].cutOff(true)
		time.Sleep(10 * time.Second)
		second := h.leader()
		require.NotEqual(t, first, second)
		require.GreaterOrEqual(t, second, 0)
		fleet[first].cutOff(false)

		for _, n := range nodes { // for all of them
			n.DropRequests(true)
		}
		time.Sleep(10 * time.Second)
		require.Equal(t, -1, h.leader(), "the leader has stepped down")
		for _, n := range nodes {
			n.DropRequests(false)
		}
		time.Sleep(10 * time.Second)
		require.GreaterOrEqual(t, h.leader(), 0)

		stop()
		for range fleet {
			require.ErrorIs(t, <-ended, context.Canceled)
		}
		require.Len(t, h.leaders, 3)
		require.True(t, slices.IsSorted(h.terms), "%v", h.terms)
		require.Len(t, slices.Compact(slices.Clone(h.terms)), 3)
		for _, p := range fleet {
			require.NoError(t, p.locks.Close(t.Context()))
		}
	})
}

// An operator ends the term: the leader steps down, and somebody is elected anew.
func TestTermBrokenByAnOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, redlocktest.NewNodes(3))
		h := &history{t: t, leading: -1}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- leader.Campaign(ctx, p.locks, "scheduler", h.lead(0)) }()
		time.Sleep(time.Second)
		require.NoError(t, p.locks.Break(t.Context(), "leader:scheduler"))
		time.Sleep(10 * time.Second)
		require.Zero(t, h.leader())
		require.Len(t, h.terms, 2)
		require.Less(t, h.terms[0], h.terms[1])
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.NoError(t, p.locks.Close(t.Context()))
	})
}

func TestLeaderThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, redlocktest.NewNodes(3))
		broken := errors.New("no database")
		require.ErrorIs(t, leader.Campaign(t.Context(), p.locks, "scheduler", func(context.Context, int64) error { return broken }), broken)
		require.NoError(t, p.locks.Close(t.Context()))
	})
}

// An error of lead's own ends the campaign even when the lock cannot be released, or was
// lost before: it must not be called again.
func TestLeaderThatFailsWithoutAQuorum(t *testing.T) {
	fatal := errors.New("fatal")
	for title, c := range map[string]struct {
		lead func(ctx context.Context, stop func()) error
		also error
	}{
		"at once":                {func(context.Context, func()) error { return fatal }, redlock.ErrNoQuorum},
		"after the lock is lost": {func(ctx context.Context, _ func()) error { <-ctx.Done(); return fatal }, redlock.ErrLost},
		"after ctx has ended":    {func(_ context.Context, stop func()) error { stop(); return fatal }, redlock.ErrNoQuorum},
		"by a timeout of its own": {func(ctx context.Context, _ func()) error {
			ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			<-ctx.Done()
			return errors.Join(fatal, ctx.Err())
		}, redlock.ErrNoQuorum},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := redlocktest.NewNodes(3)
				p := start(t, nodes)
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				terms := 0
				err := leader.Campaign(ctx, p.locks, "scheduler", func(ctx context.Context, _ int64) error {
					terms++
					nodes[0].Down()
					nodes[1].Down()
					return c.lead(ctx, stop)
				})
				require.ErrorIs(t, err, fatal)
				require.ErrorIs(t, err, c.also)
				require.Equal(t, 1, terms)
				nodes[0].Up()
				nodes[1].Up()
				require.NoError(t, p.locks.Close(t.Context()))
			})
		})
	}
}

// A leader that resigns in a bad moment for the lock stands again.
func TestLeaderThatResigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, redlocktest.NewNodes(3))
		ctx, stop := context.WithCancel(t.Context())
		terms := 0
		err := leader.Campaign(ctx, p.locks, "scheduler", func(ctx context.Context, _ int64) error {
			if terms++; terms == 3 {
				stop()
				return ctx.Err()
			}
			return p.locks.Break(ctx, "leader:scheduler") // the release finds nothing
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 3, terms)
		require.NoError(t, p.locks.Close(t.Context()))
	})
}

package redlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/redlocktest"
)

// All errors a user may ask for. What a cell of the table does not list, it must
// not match: an error that matches everything tells nothing.
var sentinels = map[string]error{
	"ErrFailed":        redlock.ErrFailed,
	"ErrExtendFailed":  redlock.ErrExtendFailed,
	"ErrTaken":         redlock.ErrTaken,
	"ErrNoQuorum":      redlock.ErrNoQuorum,
	"ErrExpired":       redlock.ErrExpired,
	"ErrNotHeld":       redlock.ErrNotHeld,
	"ErrLost":          redlock.ErrLost,
	"ErrInvalidOption": redlock.ErrInvalidOption,
	"ErrClosed":        redlock.ErrClosed,
	"Canceled":         context.Canceled,
	"DeadlineExceeded": context.DeadlineExceeded,
}

// scene is a lock service in memory with one mutex to try the verb on.
type scene struct {
	t     *testing.T
	nodes redlocktest.Nodes
	r     *redlock.Redlock
	m     *redlock.Mutex
	ctx   context.Context // the verb's
}

func (s *scene) lock() { require.NoError(s.t, s.m.Lock()) }

func (s *scene) rival() {
	require.NoError(s.t, factoryOf(s.t, s.nodes.Pools()).NewMutex("jobs").Lock())
	everywhere(s)
}

// everywhere waits for the last of the nodes to hold the lock: a verdict rests on
// the nodes that answer first.
func everywhere(s *scene) {
	require.Eventually(s.t, func() bool {
		for _, n := range s.nodes {
			if _, held := n.Value("jobs"); !held {
				return false
			}
		}
		return true
	}, settle, time.Millisecond)
}

func (s *scene) down(n int) {
	for _, node := range s.nodes[:n] {
		node.Down()
	}
}

func (s *scene) expire() {
	// Nodes keep the key for longer than the lock is valid.
	require.Eventually(s.t, func() bool { return !s.m.Valid() && heldBy(s.nodes, "jobs") == 0 }, settle, time.Millisecond)
}

func (s *scene) steal() {
	everywhere(s)
	for _, n := range s.nodes {
		n.Set("jobs", "somebody-else", time.Minute)
	}
}

var verbsOfAcquire = map[string]func(*scene) error{
	"LockContext":    func(s *scene) error { return s.m.LockContext(s.ctx) },
	"TryLockContext": func(s *scene) error { return s.m.TryLockContext(s.ctx) },
	"Hold":           func(s *scene) error { _, err := s.m.Hold(s.ctx); return err },
	"Do":             func(s *scene) error { return s.m.Do(s.ctx, func(context.Context) error { return errors.New("ran") }) },
	"Redlock.Do": func(s *scene) error {
		return s.r.Do(s.ctx, "jobs", func(context.Context) error { return errors.New("ran") })
	},
}

var verbsOfExtend = map[string]func(*scene) error{
	"ExtendContext": func(s *scene) error { return refusedOK(s, s.m.ExtendContext) },
	"ExtendFor": func(s *scene) error {
		return refusedOK(s, func(ctx context.Context) (bool, error) { return s.m.ExtendFor(ctx, time.Second) })
	},
}

var verbsOfUnlock = map[string]func(*scene) error{
	"UnlockContext": func(s *scene) error { return refusedOK(s, s.m.UnlockContext) },
}

// refusedOK holds a verb to its pair of results: true exactly without an error.
func refusedOK(s *scene, verb func(context.Context) (bool, error)) error {
	ok, err := verb(s.ctx)
	require.Equal(s.t, err == nil, ok)
	return err
}

func TestErrorsOfEveryVerb(t *testing.T) {
	t.Parallel()
	none := []redlock.Option{}
	short := []redlock.Option{redlock.WithExpiry(400 * time.Millisecond), redlock.WithNodeTimeout(300 * time.Millisecond)}
	ended := func(s *scene) {
		ctx, cancel := context.WithCancel(s.ctx)
		cancel()
		s.ctx = ctx
	}
	late := func(s *scene) {
		ctx, cancel := context.WithDeadline(s.ctx, time.Now().Add(-time.Second))
		s.t.Cleanup(cancel)
		s.ctx = ctx
	}
	soonLate := func(s *scene) {
		ctx, cancel := context.WithTimeout(s.ctx, 400*time.Millisecond)
		s.t.Cleanup(cancel)
		s.ctx = ctx
	}
	for _, c := range []struct {
		outcome string
		verbs   map[string]func(*scene) error
		opts    []redlock.Option
		setUp   func(*scene)
		matches []string
		// Whether errors.As finds the details.
		taken, node bool
	}{
		// Acquires.
		{"busy", verbsOfAcquire, []redlock.Option{redlock.WithTries(1)}, (*scene).rival, []string{"ErrFailed", "ErrTaken"}, true, false},
		{
			"busy until the deadline",
			map[string]func(*scene) error{"LockContext": verbsOfAcquire["LockContext"], "Hold": verbsOfAcquire["Hold"]},
			none,
			func(s *scene) { s.rival(); soonLate(s) },
			[]string{"ErrFailed", "ErrTaken", "DeadlineExceeded"},
			true, false,
		},
		{"no quorum", verbsOfAcquire, none, func(s *scene) { s.down(2) }, []string{"ErrFailed", "ErrNoQuorum"}, false, true},
		{"cancelled", verbsOfAcquire, none, ended, []string{"ErrFailed", "Canceled"}, false, false},
		{"too late", verbsOfAcquire, none, late, []string{"ErrFailed", "DeadlineExceeded"}, false, false},
		{"closed", verbsOfAcquire, none, func(s *scene) { require.NoError(s.t, s.r.Close(s.ctx)) }, []string{"ErrFailed", "ErrClosed"}, false, false},

		// Extends.
		{"never locked", verbsOfExtend, none, func(*scene) {}, []string{"ErrExtendFailed", "ErrNotHeld"}, false, false},
		{"unlocked", verbsOfExtend, none, func(s *scene) { s.lock(); unlock(s.t, s.m) }, []string{"ErrExtendFailed", "ErrNotHeld"}, false, false},
		{"expired", verbsOfExtend, short, func(s *scene) { s.lock(); s.expire() }, []string{"ErrExtendFailed", "ErrExpired"}, false, false},
		{"expired and taken", verbsOfExtend, short, func(s *scene) { s.lock(); s.expire(); s.rival() }, []string{"ErrExtendFailed", "ErrExpired"}, false, false},
		{"stolen", verbsOfExtend, none, func(s *scene) { s.lock(); s.steal() }, []string{"ErrExtendFailed", "ErrTaken"}, true, false},
		{"no quorum", verbsOfExtend, none, func(s *scene) { s.lock(); everywhere(s); s.down(2) }, []string{"ErrExtendFailed", "ErrNoQuorum"}, false, true},
		{"cancelled", verbsOfExtend, none, func(s *scene) { s.lock(); ended(s) }, []string{"ErrExtendFailed", "Canceled"}, false, false},
		{"too late", verbsOfExtend, none, func(s *scene) { s.lock(); late(s) }, []string{"ErrExtendFailed", "DeadlineExceeded"}, false, false},

		// Releases.
		{"never locked", verbsOfUnlock, none, func(*scene) {}, []string{"ErrNotHeld"}, false, false},
		{"unlocked", verbsOfUnlock, none, func(s *scene) { s.lock(); unlock(s.t, s.m) }, []string{"ErrNotHeld"}, false, false},
		{"expired", verbsOfUnlock, short, func(s *scene) { s.lock(); s.expire() }, []string{"ErrExpired"}, false, false},
		{"expired and taken", verbsOfUnlock, short, func(s *scene) { s.lock(); s.expire(); s.rival() }, []string{"ErrExpired", "ErrTaken"}, true, false},
		{"stolen", verbsOfUnlock, none, func(s *scene) { s.lock(); s.steal() }, []string{"ErrTaken"}, true, false},
		{"no quorum", verbsOfUnlock, none, func(s *scene) { s.lock(); everywhere(s); s.down(2) }, []string{"ErrNoQuorum"}, false, true},
	} {
		for verb, call := range c.verbs {
			t.Run(verb+" "+c.outcome, func(t *testing.T) {
				t.Parallel()
				s := &scene{t: t, nodes: redlocktest.NewNodes(3), ctx: t.Context()}
				s.r = factoryOf(t, s.nodes.Pools(), c.opts...)
				s.m = s.r.NewMutex("jobs")
				c.setUp(s)
				err := call(s)
				require.Error(t, err)
				requireMatches(t, err, c.matches)
				var taken *redlock.TakenError
				require.Equal(t, c.taken, errors.As(err, &taken), "TakenError: %v", err)
				if c.taken {
					require.Equal(t, "jobs", taken.Name)
					require.NotEmpty(t, taken.Nodes)
				}
				var node *redlock.NodeError
				require.Equal(t, c.node, errors.As(err, &node), "NodeError: %v", err)
				if c.node {
					require.NotEmpty(t, node.Addr)
					require.Contains(t, err.Error(), node.Addr)
					var list *multierror.Error
					require.ErrorAs(t, err, &list)
					require.GreaterOrEqual(t, len(list.Errors), 2)
				}
				require.Contains(t, err.Error(), `"jobs"`, "an error names the lock")
			})
		}
	}
}

func requireMatches(t *testing.T, err error, want []string) {
	t.Helper()
	matches := map[string]bool{}
	for _, name := range want {
		matches[name] = true
	}
	for name, sentinel := range sentinels {
		require.Equal(t, matches[name], errors.Is(err, sentinel), "%s, %v", name, err)
	}
}

// With no quorum because each node reports the end of its time, the error is no
// quorum, and says why: nothing of the caller's has ended.
func TestErrorsOfHungNodes(t *testing.T) {
	t.Parallel()
	s := &scene{t: t, nodes: redlocktest.NewNodes(3), ctx: t.Context()}
	s.r = factoryOf(t, s.nodes.Pools(), redlock.WithNodeTimeout(50*time.Millisecond))
	s.m = s.r.NewMutex("jobs")
	for _, n := range s.nodes[:2] {
		n.Hang()
	}
	err := s.m.TryLock()
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.NotErrorIs(t, err, context.DeadlineExceeded, "the caller set no deadline")
	faults := nodeErrors(err)
	require.Len(t, faults, 2)
	for i, f := range faults {
		require.Equal(t, i, f.Node)
		require.Equal(t, s.nodes[i].Addr(), f.Addr)
		require.NotEmpty(t, f.Err.Error())
		require.False(t, f.Permanent())
	}
	for _, n := range s.nodes {
		n.Resume()
	}
}

// After an extend that failed for want of nodes the grant is as good as before, and
// a second try may succeed; after an end that is final it may not.
func TestErrorsThatAreFinal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testErrorsThatAreFinal)
}

func testErrorsThatAreFinal(t *testing.T) {
	s := &scene{t: t, nodes: redlocktest.NewNodes(3), ctx: t.Context()}
	s.r = factoryOf(t, s.nodes.Pools())
	s.m = s.r.NewMutex("jobs")
	s.lock()
	synctest.Wait() // the ledger has the last node's reply, too
	until := s.m.Until()
	s.down(2)
	_, err := s.m.Extend()
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.True(t, s.m.Valid())
	require.Equal(t, until, s.m.Until())
	for _, n := range s.nodes {
		n.Up()
	}
	ok, err := s.m.Extend()
	require.NoError(t, err)
	require.True(t, ok)
	synctest.Wait()
	require.False(t, s.m.Until().Before(until))
	s.steal()
	_, err = s.m.Extend()
	require.ErrorIs(t, err, redlock.ErrTaken)
	require.False(t, s.m.Valid(), "someone else's lock on a quorum ends ours at once")
	for _, n := range s.nodes {
		n.Del("jobs")
	}
	_, err = s.m.Extend()
	require.ErrorIs(t, err, redlock.ErrExpired, "what has ended is not brought back")
	for _, n := range s.nodes {
		_, held := n.Value("jobs")
		require.False(t, held)
	}
}

func TestCloseIsBounded(t *testing.T) {
	t.Parallel()
	s := &scene{t: t, nodes: redlocktest.NewNodes(3), ctx: t.Context()}
	s.r = factoryOf(t, s.nodes.Pools())
	s.m = s.r.NewMutex("jobs")
	s.lock()
	for _, n := range s.nodes {
		n.Hang()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.m.UnlockContext(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	within(t, soon, "Close", func() { require.ErrorIs(t, s.r.Close(ctx), context.DeadlineExceeded) })
	for _, n := range s.nodes {
		n.Resume()
	}
}

// A lock that is held at Close stays held, and can still be released.
func TestUnlockAfterClose(t *testing.T) {
	t.Parallel()
	s := &scene{t: t, nodes: redlocktest.NewNodes(3), ctx: t.Context()}
	s.r = factoryOf(t, s.nodes.Pools())
	s.m = s.r.NewMutex("jobs")
	s.lock()
	everywhere(s)
	require.NoError(t, s.r.Close(t.Context()))
	require.True(t, s.m.Valid())
	unlock(t, s.m)
	require.ErrorIs(t, s.m.Lock(), redlock.ErrClosed)
}

// A deadline that ends an attempt before its nodes have answered says which ones.
func TestDeadlineNamesTheNodes(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		nodes[1].Hang()
		nodes[2].Hang()
		r, err := redlock.New(nodes.Pools())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err = r.NewMutex("jobs").LockContext(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, redlock.ErrNoQuorum, "they were not given the time")
		require.Len(t, nodeErrors(err), 2)
		nodes[1].Resume()
		nodes[2].Resume()
		require.NoError(t, r.Close(t.Context()))
	})
}

func TestTakenErrorCountsNodes(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, &redlock.TakenError{Name: "jobs", Nodes: []int{1}, TTL: time.Second}, "taken on 1 node for up to 1s")
	require.ErrorContains(t, &redlock.TakenError{Name: "jobs", Nodes: []int{0, 1}, TTL: -1}, "taken on 2 nodes by a key")
}

package redlock_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/redlocktest"
)

// What the janitor owes a node, in virtual time: every wait below is exact and costs
// nothing, and a goroutine that stays ends the bubble with an error.

// The protocol's S: a request older than that is refused by its ballot alone.
const skew = 5 * time.Second

func memory(t *testing.T, count int, opts ...redlock.Option) (redlocktest.Nodes, *redlock.Redlock) {
	t.Helper()
	nodes := redlocktest.NewNodes(count)
	r, err := redlock.New(nodes.Pools(), opts...)
	require.NoError(t, err)
	return nodes, r
}

// drained closes a client that owes nothing any more.
func drained(t *testing.T, r *redlock.Redlock) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.NoError(t, r.Close(ctx))
}

// faults are those that no caller was left to hear of.
func (r *recorder) faults() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.background)
}

func heldOn(n *redlocktest.Node, name string) bool {
	_, held := n.Value(name)
	return held
}

func TestJanitorReleasesANodeThatReturns(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]struct{ make, end func(*redlocktest.Node) }{
		// One that hangs carries the release out by itself: here it never got it.
		"lost requests": {
			func(n *redlocktest.Node) { n.DropRequests(true) },
			func(n *redlocktest.Node) { n.DropRequests(false) },
		},
		"refused": {(*redlocktest.Node).Down, (*redlocktest.Node).Up},
		"hung, then killed": {(*redlocktest.Node).Hang, func(n *redlocktest.Node) {
			n.Restart(true)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				nodes, r := memory(t, 3, redlock.WithExpiry(time.Minute), redlock.WithNodeTimeout(250*time.Millisecond))
				m := r.NewMutex("jobs")
				require.NoError(t, m.Lock())
				synctest.Wait()
				require.True(t, heldOn(nodes[2], "jobs"))
				bad.make(nodes[2])
				unlock(t, m)
				time.Sleep(skew - time.Second) // in the bubble: the time the node is away
				bad.end(nodes[2])
				require.True(t, heldOn(nodes[2], "jobs"), "the release was not lost: nothing is shown")
				// The longest pause between two looks, and a look that was under way.
				time.Sleep(time.Second + 250*time.Millisecond)
				synctest.Wait()
				require.False(t, heldOn(nodes[2], "jobs"))
				drained(t, r)
			})
		})
	}
}

// A node that stays away is given up when it would refuse the requests by itself and
// the key has expired, with one word to those who watch.
func TestJanitorGivesUpInTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen recorder
		const expiry = 2 * time.Second
		nodes, r := memory(t, 3, redlock.WithExpiry(expiry), redlock.WithObserver(&seen))
		m := r.NewMutex("jobs")
		require.NoError(t, m.Lock())
		synctest.Wait()
		nodes[2].Down()
		unlock(t, m)
		time.Sleep(skew + expiry - 100*time.Millisecond)
		synctest.Wait()
		require.Empty(t, seen.faults(), "not yet")
		time.Sleep(1500 * time.Millisecond) // the longest pause, and room
		synctest.Wait()
		told := seen.faults()
		require.Len(t, told, 1)
		var fault *redlock.NodeError
		require.ErrorAs(t, told[0], &fault)
		require.Equal(t, 2, fault.Node)
		asked := seen.countNodes(func(e redlock.NodeEvent) bool { return e.Node == 2 })
		require.Greater(t, asked, 5, "every look is an event")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, asked, seen.countNodes(func(e redlock.NodeEvent) bool { return e.Node == 2 }), "it goes on asking")
		drained(t, r)
	})
}

// A thousand debts to one node are one goroutine and one request at a time, and
// gone soon after the node is back.
func TestJanitorAsksOneByOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, r := memory(t, 3, redlock.WithExpiry(time.Minute))
		held := make([]*redlock.Mutex, 200)
		for i := range held {
			held[i] = r.NewMutex(string(rune('a'+i%26)) + time.Duration(i).String())
			require.NoError(t, held[i].Lock())
		}
		synctest.Wait()
		nodes[2].DropRequests(true)
		for _, m := range held {
			unlock(t, m)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.LessOrEqual(t, nodes[2].Stats().InFlight, 1)
		nodes[2].DropRequests(false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		for _, m := range held {
			require.False(t, heldOn(nodes[2], m.Name()))
		}
		drained(t, r)
	})
}

func TestCloseDrains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, r := memory(t, 3, redlock.WithExpiry(time.Minute))
		m := r.NewMutex("jobs")
		require.NoError(t, m.Lock())
		synctest.Wait()
		nodes[2].DropRequests(true)
		unlock(t, m)
		time.AfterFunc(3*time.Second, func() { nodes[2].DropRequests(false) })
		started := time.Now()
		require.NoError(t, r.Close(t.Context()), "it waits for what is owed")
		require.False(t, heldOn(nodes[2], "jobs"))
		require.GreaterOrEqual(t, time.Since(started), 3*time.Second)
		require.Less(t, time.Since(started), 5*time.Second)
		require.NoError(t, r.Close(t.Context()), "a second time")
	})
}

func TestCloseGivesUpAtTheEndOfItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, r := memory(t, 3, redlock.WithExpiry(time.Minute))
		m, later := r.NewMutex("jobs"), r.NewMutex("later")
		require.NoError(t, m.Lock())
		require.NoError(t, later.Lock())
		synctest.Wait()
		nodes[2].DropRequests(true)
		unlock(t, m)
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		defer cancel()
		started := time.Now()
		err := r.Close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "left behind")
		require.LessOrEqual(t, time.Since(started), 800*time.Millisecond)
		time.Sleep(2 * time.Second) // a request that was out may take the node timeout yet
		synctest.Wait()
		require.Zero(t, nodes[2].Stats().InFlight)
		asked := nodes[2].Stats()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, asked, nodes[2].Stats(), "it goes on after it gave up")

		// What is still held can be released on the nodes that answer.
		require.ErrorIs(t, r.NewMutex("new").TryLock(), redlock.ErrClosed)
		require.True(t, later.Valid())
		unlock(t, later)
		require.False(t, heldOn(nodes[0], "later"))
		require.False(t, heldOn(nodes[1], "later"))
		time.Sleep(10 * time.Second) // the last request to the silent node ends
		require.NoError(t, r.Close(t.Context()), "a second time there is nothing left")
	})
}

// Waiters and holders do not outlive Close, and learn why.
func TestCloseEndsWaitersAndHolders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, r := memory(t, 3)
		m := r.NewMutex("jobs")
		held, err := m.Hold(t.Context())
		require.NoError(t, err)
		waits := make(chan error, 3)
		same := m
		for _, w := range []*redlock.Mutex{r.NewMutex("jobs"), r.NewMutex("jobs"), same} {
			go func() { waits <- w.Lock() }()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, waits)
		go func() { _ = r.Close(context.Background()) }()
		for range cap(waits) {
			require.ErrorIs(t, <-waits, redlock.ErrClosed)
		}
		<-held.Done()
		require.ErrorIs(t, context.Cause(held), redlock.ErrClosed)
		unlock(t, m)
		synctest.Wait()
		require.NoError(t, r.Close(t.Context()))
	})
}

// A reply that its caller no longer waits for may be a grant of a proposal that was
// outbid meanwhile, or of the one that lost: either way the node ends up free.
func TestAttemptUndoesEveryProposal(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]func(call int) redlocktest.Fault{
		"the first proposal arrives last": func(call int) redlocktest.Fault {
			if call == 1 {
				return redlocktest.Fault{Delay: 200 * time.Millisecond}
			}
			return redlocktest.Fault{}
		},
		"the replies of all are lost": func(int) redlocktest.Fault { return redlocktest.Fault{DropReply: true} },
		"all arrive twice": func(int) redlocktest.Fault {
			return redlocktest.Fault{Duplicates: []time.Duration{time.Second, 3 * time.Second}}
		},
	} {
		for _, wins := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					nodes, r := memory(t, 3, redlock.WithExpiry(time.Minute))
					ahead := time.Now().Add(time.Second).UnixMicro()
					for _, n := range nodes { // somebody proposed higher ballots before
						n.Set("jobs:f{jobs}", strconv.FormatInt(ahead, 10), time.Minute)
					}
					if !wins {
						nodes[0].Set("jobs", "somebody-else", time.Hour)
						nodes[1].Set("jobs", "somebody-else", time.Hour)
					}
					var calls atomic.Int32 // two proposals may be on their way at once
					nodes[2].SetFaults(func(c redlocktest.Call) redlocktest.Fault {
						if c.Name != "acquire" {
							return redlocktest.Fault{}
						}
						return slow(int(calls.Add(1)))
					})
					m := r.NewMutex("jobs")
					if err := m.TryLock(); wins {
						require.NoError(t, err)
						unlock(t, m)
					} else {
						require.True(t, errors.Is(err, redlock.ErrTaken) || errors.Is(err, redlock.ErrNoQuorum), "%v", err)
					}
					time.Sleep(skew)
					synctest.Wait()
					require.False(t, heldOn(nodes[2], "jobs"))
					if wins {
						require.GreaterOrEqual(t, calls.Load(), int32(2), "it was not outbid: nothing is shown")
					}
					drained(t, r)
				})
			})
		}
	}
}

// A release that is owed is owed for as long as the grant may live.
func TestJanitorDeliversAfterALongExtend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.NewNodes(3)
		r, err := redlock.New(nodes.Pools())
		require.NoError(t, err)
		m := r.NewMutex("jobs")
		require.NoError(t, m.Lock())
		const longest = 100 * 365 * 24 * time.Hour
		for _, d := range []time.Duration{math.MaxInt64, longest + time.Millisecond} {
			_, err = m.ExtendFor(t.Context(), d)
			require.ErrorIs(t, err, redlock.ErrInvalidOption)
		}
		_, err = m.ExtendFor(t.Context(), longest)
		require.NoError(t, err)
		nodes[2].Down()
		unlock(t, m)
		time.Sleep(3 * time.Second)
		nodes[2].Up()
		require.NoError(t, r.Close(t.Context()))
		_, held := nodes[2].Value("jobs")
		require.False(t, held)
	})
}

// A node to which an extend may bring the lock is owed the release, though it had refused
// the lock itself: also when that refusal is heard of after the extend was sent.
func TestJanitorOwesWhatAnExtendBrought(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, r := memory(t, 3, redlock.WithNodeTimeout(time.Second))
		m := r.NewMutex("jobs")
		require.NoError(t, m.Lock()) // tells the clocks
		unlock(t, m)
		nodes[2].SetFaults(func(c redlocktest.Call) redlocktest.Fault {
			return map[string]redlocktest.Fault{
				"acquire": {Delay: 300 * time.Millisecond},
				"touch":   {Delay: 100 * time.Millisecond},
				"release": {DropRequest: true},
			}[c.Name]
		})
		require.NoError(t, m.Lock())
		_, err := m.Extend()
		require.NoError(t, err)
		time.Sleep(400 * time.Millisecond)
		_, held := nodes[2].Value("jobs")
		require.True(t, held, "the extend came first, and the lock itself was refused")
		unlock(t, m)
		time.Sleep(1100 * time.Millisecond)
		nodes[2].SetFaults(nil)
		require.NoError(t, r.Close(t.Context()))
		_, held = nodes[2].Value("jobs")
		require.False(t, held)
	})
}

// Close waits for an attempt that is under way, not only for its requests: between the
// last reply and what takes the attempt back there is none.
func TestCloseWaitsForAttempts(t *testing.T) {
	for range 200 {
		nodes := redlocktest.NewNodes(3)
		nodes[0].Set("jobs", "foreign", time.Hour)
		nodes[1].Set("jobs", "foreign", time.Hour)
		r, err := redlock.New(nodes.Pools())
		require.NoError(t, err)
		executed := make(chan struct{})
		var once sync.Once
		nodes[2].OnExec(func(redlocktest.Call) { once.Do(func() { close(executed) }) })
		tried := make(chan error, 1)
		go func() { tried <- r.NewMutex("jobs").TryLock() }()
		<-executed
		require.NoError(t, r.Close(t.Context()))
		_, left := nodes[2].Value("jobs")
		require.False(t, left, "what the attempt left was not taken back")
		require.Error(t, <-tried)
	}
}

func TestNoAttemptBeginsAfterClose(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		r, err := redlock.New(nodes.Pools())
		require.NoError(t, err)
		open := make(chan struct{})
		m := r.NewMutex("jobs", redlock.WithGenValueFunc(func() (string, error) { <-open; return "host", nil }))
		locked, closed := make(chan error, 1), make(chan error, 1)
		go func() { locked <- m.Lock() }()
		synctest.Wait()
		go func() { closed <- r.Close(t.Context()) }()
		synctest.Wait()
		require.Empty(t, closed, "an attempt is under way")
		close(open)
		require.ErrorIs(t, <-locked, redlock.ErrClosed)
		require.NoError(t, <-closed)
		require.Zero(t, heldBy(nodes, "jobs"))
	})
}

package redlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/redlocktest"
)

// Waiting in virtual time: nodes in memory, where a delay costs nothing and the
// moment of each event can be chosen.

func soaking() bool { return os.Getenv("REDLOCK_SOAK") != "" }

// jittered makes the way to and from each node take between least and most, drawn
// anew for each request and notice.
func jittered(nodes redlocktest.Nodes, seed uint64, least, most time.Duration) {
	for i, n := range nodes {
		var mu sync.Mutex
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		n.SetFaults(func(redlocktest.Call) redlocktest.Fault {
			mu.Lock()
			defer mu.Unlock()
			draw := func() time.Duration { return least + time.Duration(random.Int64N(int64(most-least))) }
			return redlocktest.Fault{Delay: draw(), ReplyDelay: draw()}
		})
	}
}

func queued(nodes redlocktest.Nodes, name string) (members []string) {
	for _, n := range nodes {
		members = append(members, n.Queue(name+":q{"+name+"}")...)
	}
	return members
}

// waitLog keeps what each lock and each pause came to.
type waitLog struct {
	recorder
	waits []redlock.WaitEvent
}

func (l *waitLog) WaitDone(_ context.Context, e redlock.WaitEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits = append(l.waits, e)
}

func (l *waitLog) wokenBy() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	by := map[string]int{}
	for _, e := range l.waits {
		by[e.WokenBy]++
	}
	return by
}

// evenly makes each way take the same time.
func evenly(nodes redlocktest.Nodes, way time.Duration) {
	for _, n := range nodes {
		n.SetDelay(way, way)
	}
}

// Nor do clients that have never locked before, such as a job that starts on many
// machines at the same minute: they know the way to the nodes from the first replies.
func TestWaitSim_NewClientsDoNotStandOff(t *testing.T) {
	virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
		jittered(nodes, rand.Uint64(), 500*time.Microsecond, 5*time.Millisecond)
		nodes[4].Down()
		const rounds = 200
		attempts := map[int]int{}
		for round := range rounds {
			var seen waitLog
			var all sync.WaitGroup
			for range 4 {
				r := factoryOf(t, nodes.Pools(), redlock.WithObserver(&seen))
				all.Go(func() {
					m := r.NewMutex(fmt.Sprint("jobs", round))
					if err := m.Lock(); err != nil {
						t.Error(err)
						return
					}
					_, _ = m.Unlock()
					if err := r.Close(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			winner := seen.verb("lock")[0]
			require.NoError(t, winner.Err)
			attempts[winner.Attempts]++
			require.LessOrEqual(t, winner.Attempts, 3, "round %d", round)
		}
		t.Logf("attempts of the first to win: %v", attempts)
		require.Greater(t, attempts[1]+attempts[2], rounds*9/10)
	})
}

// Contenders that start together do not split the votes for ever, with all nodes
// and with one of five down: somebody wins within three attempts in each round.
func TestWaitSim_ContendersDoNotStandOff(t *testing.T) {
	for _, down := range []bool{false, true} {
		t.Run(fmt.Sprintf("down %v", down), func(t *testing.T) {
			virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
				jittered(nodes, rand.Uint64(), 50*time.Microsecond, 250*time.Microsecond)
				if down {
					nodes[4].Down()
				}
				var seen waitLog
				clients := make([]*redlock.Redlock, 4)
				for i := range clients {
					clients[i] = factoryOf(t, nodes.Pools(), redlock.WithObserver(&seen))
				}
				attempts := map[int]int{}
				rounds := 500
				if !down && !soaking() {
					rounds = 100
				}
				for round := range rounds {
					name := fmt.Sprint("jobs", round)
					seen.verbs = nil
					var all sync.WaitGroup
					for _, r := range clients {
						all.Go(func() {
							m := r.NewMutex(name)
							if err := m.Lock(); err != nil {
								t.Error(err)
								return
							}
							_, _ = m.Unlock()
						})
					}
					all.Wait()
					winner := seen.verb("lock")[0]
					attempts[winner.Attempts]++
					require.LessOrEqual(t, winner.Attempts, 3, "round %d", round)
				}
				t.Logf("attempts of the first to win: %v", attempts)
				nodes[4].Up()
				time.Sleep(30 * time.Second) // debts to the node that was down
			})
		})
	}
}

// With WithTries an acquire makes so many attempts, never pauses longer before one
// than its delay function says, and calls that function as often as it pauses.
func TestWaitSim_TriesAreCounted(t *testing.T) {
	virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
		evenly(nodes, 100*time.Microsecond)
		foreign(nodes, "jobs", time.Hour)
		const tries = 6
		var asked []int
		limit := map[int]time.Duration{}
		var seen waitLog
		r := factoryOf(t, nodes.Pools(), redlock.WithObserver(&seen))
		m := r.NewMutex("jobs", redlock.WithTries(tries), redlock.WithRetryDelayFunc(func(i int) time.Duration {
			asked = append(asked, i)
			limit[i] = time.Duration(i) * 10 * time.Millisecond
			return limit[i]
		}))
		warm(t, r)
		seen.waits, asked = nil, nil
		started := time.Now()
		err := m.Lock()
		require.ErrorIs(t, err, redlock.ErrTaken)
		took := time.Since(started)
		time.Sleep(time.Millisecond) // the last replies
		locks := seen.verb("lock")
		require.Equal(t, tries, locks[len(locks)-1].Attempts)
		perNode := seen.countNodes(func(e redlock.NodeEvent) bool { return e.Name == "jobs" && e.Verb == "acquire" }) / len(nodes)
		notices := seen.wokenBy()["notice"]
		require.Equal(t, tries+notices, perNode, "attempts that a notice began do not count")
		require.Len(t, seen.waits, tries-1+notices)
		pause := 1
		for _, w := range seen.waits {
			require.LessOrEqual(t, w.Duration, limit[pause])
			if w.WokenBy != "notice" {
				pause++
			}
		}
		require.Equal(t, 1, asked[0], "as in the for loop of other clients, counted from the second try")
		require.Equal(t, tries-1, asked[len(asked)-1])
		require.Less(t, took, (10+20+30+40+50)*time.Millisecond+time.Duration(tries+notices)*2*time.Millisecond)
		require.Eventually(t, func() bool { return len(queued(nodes, "jobs")) == 0 }, time.Second, time.Millisecond)
	})
}

// foreign puts the lock of another library in place on every node.
func foreign(nodes redlocktest.Nodes, name string, ttl time.Duration) {
	for _, n := range nodes {
		n.Set(name, "of-another-library", ttl)
	}
}

// warm has a client subscribed on each node.
func warm(t testing.TB, r *redlock.Redlock) {
	t.Helper()
	first := r.NewMutex("warm")
	require.NoError(t, first.Lock())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, r.NewMutex("warm").LockContext(ctx), context.DeadlineExceeded)
	unlock(t, first)
}

// TryLock does not wait: it subscribes nowhere and stands in no queue.
func TestWaitSim_TryLockJoinsNothing(t *testing.T) {
	virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
		evenly(nodes, 100*time.Microsecond)
		foreign(nodes, "jobs", time.Hour)
		r := factoryOf(t, nodes.Pools())
		require.ErrorIs(t, r.NewMutex("jobs").TryLock(), redlock.ErrTaken)
		for _, n := range nodes {
			require.Zero(t, n.Stats().Subscribers)
		}
		warm(t, r)
		var joined atomic.Int64
		for _, n := range nodes {
			n.OnExec(func(redlocktest.Call) { joined.Add(int64(len(n.Queue("jobs:q{jobs}")))) })
		}
		require.ErrorIs(t, r.NewMutex("jobs").TryLock(), redlock.ErrTaken)
		time.Sleep(time.Second)
		require.Zero(t, joined.Load())
	})
}

// A call that meets a waiter's end at any moment reaches the next waiter, which
// does not sleep until its timer.
func TestCase22_GivesUpWhenWokenInVirtualTime(t *testing.T) {
	virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
		jittered(nodes, rand.Uint64(), 50*time.Microsecond, 250*time.Microsecond)
		holder, quits, next := factoryOf(t, nodes.Pools()), factoryOf(t, nodes.Pools()), factoryOf(t, nodes.Pools())
		for _, r := range []*redlock.Redlock{holder, quits, next} {
			warm(t, r)
		}
		gaveUp, worst := 0, time.Duration(0)
		for at := -1500 * time.Microsecond; at < 3*time.Millisecond; at += 10 * time.Microsecond {
			m := holder.NewMutex("jobs")
			require.NoError(t, m.Lock())
			// Lock returns at the quorum: the last nodes are the holder's before
			// anyone else asks them.
			time.Sleep(time.Millisecond)
			require.Equal(t, 5, heldBy(nodes, "jobs"))
			ctx, cancel := context.WithCancel(t.Context())
			first, second := make(chan error, 1), make(chan error, 1)
			go func() {
				mine := quits.NewMutex("jobs")
				err := mine.LockContext(ctx)
				if err == nil {
					_, _ = mine.Unlock()
				}
				first <- err
			}()
			time.Sleep(5 * time.Millisecond)
			mine := next.NewMutex("jobs")
			go func() { second <- mine.Lock() }()
			time.Sleep(5 * time.Millisecond)
			require.Len(t, queued(nodes, "jobs"), 10)
			time.AfterFunc(2*time.Millisecond+at, cancel)
			time.Sleep(2 * time.Millisecond)
			released := time.Now()
			unlock(t, m)
			if err := <-first; err != nil {
				require.ErrorIs(t, err, context.Canceled)
				gaveUp++
			}
			require.NoError(t, <-second)
			worst = max(worst, time.Since(released))
			require.Less(t, time.Since(released), 20*time.Millisecond, "given up %v after the release", at)
			unlock(t, mine)
			cancel()
			time.Sleep(5 * time.Millisecond)
			require.Empty(t, queued(nodes, "jobs"), "given up %v after the release", at)
		}
		require.Greater(t, gaveUp, 100)
		require.Less(t, gaveUp, 450, "in some rounds the call must come first")
		t.Logf("gave up %d times, the next had the lock %v after the release at the latest", gaveUp, worst)
	})
}

// Waiters that come and go leave no place in a queue and one subscription a node.
func TestWaitSim_ComeAndGo(t *testing.T) {
	virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
		jittered(nodes, rand.Uint64(), 50*time.Microsecond, 2*time.Millisecond)
		const clients, workers = 4, 4
		length := 3 * time.Second
		if soaking() {
			length = 30 * time.Second
		}
		end := time.Now().Add(length)
		all := make([]*redlock.Redlock, clients)
		var busy sync.WaitGroup
		var seen waitLog
		for i := range all {
			all[i] = factoryOf(t, nodes.Pools(), redlock.WithObserver(&seen))
			for range workers {
				busy.Go(func() {
					for time.Now().Before(end) {
						ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond+rand.N(50*time.Millisecond))
						m := all[i].NewMutex("jobs")
						if m.LockContext(ctx) == nil {
							time.Sleep(rand.N(5 * time.Millisecond))
							_, _ = m.Unlock()
						}
						cancel()
					}
				})
			}
		}
		busy.Wait()
		time.Sleep(100 * time.Millisecond)
		require.Empty(t, queued(nodes, "jobs"))
		require.Zero(t, heldBy(nodes, "jobs"))
		for _, n := range nodes {
			require.Equal(t, clients, n.Stats().Subscribers)
			require.Zero(t, n.Stats().InFlight)
		}
		granted := 0
		for _, e := range seen.verb("lock") {
			if e.Err == nil {
				granted++
			}
		}
		t.Logf("%d locks, %d granted; pauses ended by %v", len(seen.verb("lock")), granted, seen.wokenBy())
		require.Greater(t, granted, 100)
		for _, r := range all {
			require.NoError(t, r.Close(t.Context()))
		}
		for _, n := range nodes {
			require.Zero(t, n.Stats().Subscribers)
		}
	})
}

// Close ends a wait at once, and leaves nothing in the queues.
func TestWaitSim_CloseWhileWaiting(t *testing.T) {
	virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
		evenly(nodes, 100*time.Microsecond)
		foreign(nodes, "jobs", time.Hour)
		r := factoryOf(t, nodes.Pools())
		warm(t, r)
		ended := make(chan error, 3)
		for _, opts := range [][]redlock.Option{nil, nil, {redlock.WithTries(1000), redlock.WithRetryDelay(time.Hour)}} {
			go func() { ended <- r.NewMutex("jobs", opts...).Lock() }()
		}
		time.Sleep(100 * time.Millisecond)
		require.Len(t, queued(nodes, "jobs"), 10, "two go to the nodes, one waits in line")
		started := time.Now()
		require.NoError(t, r.Close(t.Context()))
		for range 3 {
			err := <-ended
			require.ErrorIs(t, err, redlock.ErrClosed)
			require.ErrorIs(t, err, redlock.ErrFailed)
		}
		require.Less(t, time.Since(started), time.Millisecond)
		time.Sleep(time.Millisecond)
		require.Empty(t, queued(nodes, "jobs"))
		require.ErrorIs(t, r.NewMutex("jobs").Lock(), redlock.ErrClosed)
	})
}

// deaf hides that a pool can subscribe.
type deaf struct{ pool.Pool }

// Without notices waiters poll with the delay function, and see an expiry coming.
func TestWaitSim_PoolsWithoutSubscriberPoll(t *testing.T) {
	virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
		evenly(nodes, 100*time.Microsecond)
		foreign(nodes, "jobs", time.Second)
		gone := time.Now().Add(time.Second)
		pools := nodes.Pools()
		for i, p := range pools {
			pools[i] = deaf{p}
		}
		var seen waitLog
		m := factoryOf(t, pools, redlock.WithObserver(&seen), redlock.WithRetryDelay(300*time.Millisecond)).NewMutex("jobs")
		require.NoError(t, m.Lock())
		require.Less(t, time.Since(gone), 10*time.Millisecond)
		require.Equal(t, map[string]int{"poll": 4}, seen.wokenBy(), "at 300, 600 and 900 ms and at the expiry")
		require.Empty(t, queued(nodes, "jobs"))
		unlock(t, m)
	})
}

// A node that must not PUBLISH keeps the queue; the waiter comes by its timer.
func TestWaitSim_PublishRefused(t *testing.T) {
	virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
		evenly(nodes, 100*time.Microsecond)
		for _, n := range nodes {
			n.RefuseCommand("PUBLISH", "NOPERM this user has no permissions to run the 'publish' command")
		}
		holder := factoryOf(t, nodes.Pools()).NewMutex("jobs")
		require.NoError(t, holder.Lock())
		m := factoryOf(t, nodes.Pools()).NewMutex("jobs")
		got := make(chan error, 1)
		go func() { got <- m.Lock() }()
		time.Sleep(100 * time.Millisecond)
		unlock(t, holder)
		require.Len(t, queued(nodes, "jobs"), 5, "its place is kept")
		released := time.Now()
		require.NoError(t, <-got)
		require.LessOrEqual(t, time.Since(released), 250*time.Millisecond)
		unlock(t, m)
	})
}

// A waiter that gives up while a node of whose queue it is part does not answer leaves that
// queue, too, once the node is back.
func TestWaitSim_LeavesTheQueueOfANodeThatReturns(t *testing.T) {
	virtual(t, 3, func(t *testing.T, nodes redlocktest.Nodes) {
		evenly(nodes, 100*time.Microsecond)
		foreign(nodes, "jobs", time.Hour)
		r := factoryOf(t, nodes.Pools())
		warm(t, r)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.NewMutex("jobs").LockContext(ctx) }()
		time.Sleep(100 * time.Millisecond)
		require.Len(t, queued(nodes, "jobs"), 3)
		nodes[0].DropRequests(true)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		time.Sleep(3 * time.Second)
		require.Len(t, queued(nodes, "jobs"), 1)
		nodes[0].DropRequests(false)
		time.Sleep(3 * time.Second)
		require.Empty(t, queued(nodes, "jobs"))
	})
}

// Nodes next door all have the release by the time a request comes that the first call
// caused. Of far ones a quorum must have called, or a round trip have passed.
func TestWaitSim_HowManyCallsBeginAnAttempt(t *testing.T) {
	for _, c := range []struct {
		name      string
		way, late time.Duration // late: the calls of all nodes but one
		granted   time.Duration
	}{
		{"near", 100 * time.Microsecond, time.Millisecond, 4 * 100 * time.Microsecond},
		{"far", 5 * time.Millisecond, 30 * time.Millisecond, (2 + 2 + 2) * 5 * time.Millisecond},
		{"far, and a quorum calls", 5 * time.Millisecond, 0, (2 + 2) * 5 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtual(t, 5, func(t *testing.T, nodes redlocktest.Nodes) {
				for i, n := range nodes {
					n.SetFaults(func(call redlocktest.Call) redlocktest.Fault {
						f := redlocktest.Fault{Delay: c.way, ReplyDelay: c.way}
						if call.Name == "message" && i > 0 {
							f.ReplyDelay += c.late
						}
						return f
					})
				}
				holder, waiter := factoryOf(t, nodes.Pools()), factoryOf(t, nodes.Pools())
				m := holder.NewMutex("jobs")
				require.NoError(t, m.Lock())
				got := make(chan time.Time, 1)
				go func() {
					next := waiter.NewMutex("jobs")
					assert.NoError(t, next.Lock())
					got <- time.Now()
					_, err := next.Unlock()
					assert.NoError(t, err)
				}()
				time.Sleep(100 * time.Millisecond) // it stands in all queues
				require.Len(t, queued(nodes, "jobs"), 5)
				released := time.Now()
				unlock(t, m)
				require.InDelta(t, c.granted, (<-got).Sub(released), float64(50*time.Microsecond))
				synctest.Wait()
			})
		})
	}
}

package redlock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/redlocktest"
)

// Who looks on: the logger and the observer.

// logged is where a logger writes to.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logged) lines(containing string) (n int) {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, containing) {
			n++
		}
	}
	return n
}

func (l *logged) option() redlock.Option {
	return redlock.WithLogger(slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug})))
}

func TestLogSaysNothingOfWhatIsWell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logged
		_, r := memory(t, 3, log.option())
		m := r.NewMutex("jobs")
		require.NoError(t, m.Lock())
		synctest.Wait() // an extend that overtakes the lock on a node finds nothing there
		_, err := m.Extend()
		require.NoError(t, err)
		require.ErrorIs(t, r.NewMutex("jobs").TryLock(), redlock.ErrTaken)
		unlock(t, m)
		require.NoError(t, r.Do(t.Context(), "jobs", func(context.Context) error {
			time.Sleep(20 * time.Second) // some renewals
			return nil
		}))
		drained(t, r)
		require.Empty(t, log.String())
	})
}

func TestLogDegradedQuorum(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logged
		nodes, r := memory(t, 3, log.option())
		nodes[0].SetDelay(time.Millisecond, 0)
		nodes[1].SetDelay(time.Millisecond, 0)
		nodes[2].Down() // the fault comes before the quorum
		m := r.NewMutex("jobs")
		require.NoError(t, m.Lock())
		require.Equal(t, 1, log.lines("degraded quorum"))
		require.Contains(t, log.String(), "level=WARN")
		require.Contains(t, log.String(), "verb=lock")
		require.Contains(t, log.String(), "name=jobs")
		require.Contains(t, log.String(), "nodes=2")
		_, err := m.Extend()
		require.NoError(t, err)
		require.Equal(t, 1, log.lines("verb=extend"))
		nodes[2].Up()
		unlock(t, m)
		require.Zero(t, log.lines("verb=unlock"), "all nodes were there again")
		drained(t, r)
	})
}

func TestLogLostLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logged
		var seen recorder
		nodes, r := memory(t, 3, log.option(), redlock.WithObserver(&seen))
		m := r.NewMutex("jobs")
		held, err := m.Hold(t.Context())
		require.NoError(t, err)
		for _, n := range nodes {
			n.DropRequests(true)
		}
		<-held.Done()
		require.ErrorIs(t, context.Cause(held), redlock.ErrLost)
		synctest.Wait()
		require.Equal(t, 1, log.lines("lock lost"))
		require.Equal(t, 1, log.lines("level=ERROR"))
		require.Contains(t, log.String(), "name=jobs")
		told := seen.faults()
		require.Len(t, told, 1)
		require.ErrorIs(t, told[0], redlock.ErrLost)
		_, _ = m.Unlock()
		for _, n := range nodes {
			n.DropRequests(false)
		}
		require.NoError(t, r.Close(t.Context()))
	})
}

func TestLogFailedCleanUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logged
		nodes, r := memory(t, 3, log.option(), redlock.WithExpiry(2*time.Second))
		m := r.NewMutex("jobs")
		require.NoError(t, m.Lock())
		synctest.Wait()
		nodes[2].Down()
		unlock(t, m)
		require.Zero(t, log.lines("clean-up failed"), "it has not failed yet")
		require.NoError(t, r.Close(t.Context()))
		require.Equal(t, 1, log.lines("clean-up failed"))
		require.Contains(t, log.String(), "node2", "it says where")
		require.Contains(t, log.String(), "refused", "and why")
	})
}

// Neither a log nor an error of an observer may help anybody to a lock or a node: the
// value is what a release is authorized by.
func TestLogHoldsNoSecrets(t *testing.T) {
	t.Parallel()
	const right, wrong = "open-sesame-right", "open-sesame-wrong"
	servers := testutil.StartRedisN(t, 3, "--requirepass", right)
	proxies := make([]*testutil.Proxy, len(servers))
	nodes := make([]pool.Pool, len(servers))
	for i, s := range servers {
		proxies[i] = testutil.StartProxy(t, s.Addr())
		password := right
		if i == 2 {
			password = wrong
		}
		nodes[i] = poolAt(t, proxies[i].Addr(), redis.DialPassword(password))
	}
	for _, p := range proxies[:2] {
		p.Delay(20*time.Millisecond, 0) // the refusal comes before the quorum
	}
	var log logged
	var seen recorder
	secret := func() (string, error) { return "secret-value", nil }
	r := factoryOf(t, nodes, log.option(), redlock.WithObserver(&seen), redlock.WithGenValueFunc(secret),
		redlock.WithExpiry(1500*time.Millisecond), redlock.WithNodeTimeout(1400*time.Millisecond))
	m := r.NewMutex("jobs")
	held, err := m.Hold(t.Context())
	require.NoError(t, err)
	value := m.Value()
	require.Contains(t, value, "secret-value")
	for i, p := range proxies {
		require.NoError(t, p.Refuse(true), "node %d", i)
	}
	<-held.Done()
	_, _ = m.Unlock()
	require.Error(t, r.NewMutex("jobs").TryLock())
	// S and the expiry later the clean-up is given up.
	testutil.Eventually(t, settle, func() bool { return log.lines("clean-up failed") > 0 }, "all there is to log is logged")
	text := log.String()
	for _, what := range []string{"degraded quorum", "lock lost"} {
		require.Contains(t, text, what)
	}
	all := []string{text}
	seen.mu.Lock()
	for _, e := range seen.nodes {
		if e.Err != nil {
			all = append(all, e.Err.Error())
		}
	}
	for _, e := range append(seen.background, verbErrors(seen.verbs)...) {
		all = append(all, e.Error())
	}
	seen.mu.Unlock()
	for _, text := range all {
		for _, hidden := range []string{right, wrong, "secret-value", value} {
			require.NotContains(t, text, hidden)
		}
	}
}

func verbErrors(events []redlock.VerbEvent) (errs []error) {
	for _, e := range events {
		if e.Err != nil {
			errs = append(errs, e.Err)
		}
	}
	return errs
}

// Observers with some of the optional interfaces only.

type nodesOnly struct{ calls func(redlock.NodeEvent) }

func (o nodesOnly) NodeDone(_ context.Context, e redlock.NodeEvent) { o.calls(e) }

type withWait struct {
	nodesOnly
	waits func(redlock.WaitEvent)
}

func (o withWait) WaitDone(_ context.Context, e redlock.WaitEvent) { o.waits(e) }

type withBackground struct {
	nodesOnly
	faults func(name string, err error)
}

func (o withBackground) BackgroundError(_ context.Context, name string, err error) {
	o.faults(name, err)
}

func TestObserverOfNodesAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		outcomes := map[string]int{}
		nodes, r := memory(t, 3, redlock.WithObserver(nodesOnly{func(e redlock.NodeEvent) {
			mu.Lock()
			defer mu.Unlock()
			if e.Name != "jobs" || e.Addr == "" || (e.Err != nil) != (e.Outcome == "error") {
				t.Errorf("%+v", e)
			}
			outcomes[e.Verb+" "+e.Outcome]++
		}}))
		for _, n := range nodes {
			n.SetDelay(time.Millisecond, time.Millisecond)
		}
		m := r.NewMutex("jobs")
		require.NoError(t, m.Lock())
		require.ErrorIs(t, r.NewMutex("jobs").TryLock(), redlock.ErrTaken)
		_, err := m.Extend()
		require.NoError(t, err)
		require.NoError(t, m.Check(t.Context()))
		synctest.Wait()
		unlock(t, m)
		synctest.Wait()
		mu.Lock()
		require.Equal(t, map[string]int{"acquire granted": 3, "acquire busy": 3, "touch held": 6, "release released": 3}, outcomes)
		mu.Unlock()
		drained(t, r)
	})
}

// A pause is told of with what ended it.
func TestObserverOfWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		woken := map[string]int{}
		o := withWait{nodesOnly{func(redlock.NodeEvent) {}}, func(e redlock.WaitEvent) {
			mu.Lock()
			defer mu.Unlock()
			if e.Name != "jobs" || e.Duration < 0 {
				t.Errorf("%+v", e)
			}
			woken[e.WokenBy]++
		}}
		nodes, r := memory(t, 3, redlock.WithObserver(o))
		for _, n := range nodes {
			n.SetDelay(time.Millisecond, time.Millisecond)
		}
		m := r.NewMutex("jobs")
		require.NoError(t, m.Lock())
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		require.Error(t, r.NewMutex("jobs").LockContext(ctx))
		cancel()
		mu.Lock()
		require.Positive(t, len(woken))
		clear(woken)
		mu.Unlock()
		second := r.NewMutex("jobs")
		got := make(chan error)
		go func() { got <- second.Lock() }()
		time.Sleep(900 * time.Millisecond) // timers
		unlock(t, m)
		require.NoError(t, <-got)
		mu.Lock()
		require.Positive(t, woken["timer"], "%v", woken)
		require.Positive(t, woken["notice"], "%v", woken)
		mu.Unlock()
		unlock(t, second)
		require.NoError(t, r.Close(t.Context()))
	})
}

func TestObserverOfBackgroundFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []error
		o := withBackground{nodesOnly{func(redlock.NodeEvent) {}}, func(name string, err error) {
			mu.Lock()
			defer mu.Unlock()
			if name != "jobs" {
				t.Errorf("a fault of %q", name)
			}
			told = append(told, err)
		}}
		nodes, r := memory(t, 3, redlock.WithObserver(o), redlock.WithExpiry(time.Second))
		m := r.NewMutex("jobs")
		require.NoError(t, m.Lock())
		synctest.Wait()
		nodes[1].Down()
		unlock(t, m)
		require.NoError(t, r.Close(t.Context()))
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, told, 1)
		var fault *redlock.NodeError
		require.ErrorAs(t, told[0], &fault)
		require.Equal(t, "node1", fault.Addr)
	})
}

// nesting checks that events come inside the context that VerbStart made.
type nesting struct {
	t  *testing.T
	mu sync.Mutex
	// by verb: of the requests and of the end
	requests, ends map[string][]string
	open           int
}

type verbKey struct{}

type callerKey struct{}

func (o *nesting) VerbStart(ctx context.Context, verb, name string) context.Context {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open++
	return context.WithValue(ctx, verbKey{}, verb+" "+name)
}

func (o *nesting) VerbDone(ctx context.Context, e redlock.VerbEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open--
	if ctx.Value(verbKey{}) != e.Verb+" "+e.Name || ctx.Value(callerKey{}) != "caller" {
		o.t.Errorf("VerbDone of %s sees %v, %v", e.Verb, ctx.Value(verbKey{}), ctx.Value(callerKey{}))
	}
	o.ends[e.Verb] = append(o.ends[e.Verb], e.Name)
}

func (o *nesting) NodeDone(ctx context.Context, e redlock.NodeEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	within, _ := ctx.Value(verbKey{}).(string)
	if ctx.Value(callerKey{}) != "caller" {
		o.t.Errorf("%s does not see the caller's values", e.Verb)
	}
	o.requests[within] = append(o.requests[within], e.Verb+" "+e.Outcome)
}

func TestObserverContextsNest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &nesting{t: t, requests: map[string][]string{}, ends: map[string][]string{}}
		nodes, r := memory(t, 3, redlock.WithObserver(o))
		for _, n := range nodes {
			n.SetDelay(time.Millisecond, time.Millisecond)
		}
		ctx := context.WithValue(t.Context(), callerKey{}, "caller")
		m := r.NewMutex("jobs")
		_, err := m.Hold(ctx)
		require.NoError(t, err)
		require.ErrorIs(t, r.NewMutex("jobs").TryLockContext(ctx), redlock.ErrTaken)
		time.Sleep(3 * time.Second) // one renewal, at a third of the expiry
		_, err = m.ExtendContext(ctx)
		require.NoError(t, err)
		synctest.Wait()
		_, err = m.UnlockContext(ctx)
		require.NoError(t, err)
		synctest.Wait()
		// A partial win is undone within the verb that made it.
		nodes[0].Set("part", "somebody-else", time.Minute)
		nodes[1].Set("part", "somebody-else", time.Minute)
		require.ErrorIs(t, r.NewMutex("part").TryLockContext(ctx), redlock.ErrTaken)
		time.Sleep(time.Second)
		synctest.Wait()

		o.mu.Lock()
		require.Zero(t, o.open, "VerbDone for each VerbStart")
		require.Equal(t, map[string][]string{"lock": {"jobs", "jobs", "part"}, "renew": {"jobs"}, "extend": {"jobs"}, "unlock": {"jobs"}}, o.ends)
		three := func(s string) []string { return []string{s, s, s} }
		require.Equal(t, append(three("acquire granted"), three("acquire busy")...), o.requests["lock jobs"])
		require.Equal(t, three("touch held"), o.requests["renew jobs"])
		require.Equal(t, three("touch held"), o.requests["extend jobs"])
		require.Equal(t, three("release released"), o.requests["unlock jobs"])
		require.ElementsMatch(t, []string{"acquire busy", "acquire busy", "acquire granted", "release released"}, o.requests["lock part"])
		require.Empty(t, o.requests[""], "requests outside of any verb")
		o.mu.Unlock()
		drained(t, r)
	})
}

// The janitor's looks are events like any other.
func TestObserverSeesTheJanitor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen recorder
		nodes, r := memory(t, 3, redlock.WithObserver(&seen), redlock.WithExpiry(time.Minute))
		m := r.NewMutex("jobs")
		require.NoError(t, m.Lock())
		synctest.Wait()
		refusals := 0
		nodes[2].SetFaults(func(c redlocktest.Call) redlocktest.Fault {
			if c.Name == "release" && refusals < 3 {
				refusals++
				return redlocktest.Fault{Err: errors.New("LOADING Redis is loading the dataset in memory")}
			}
			return redlocktest.Fault{}
		})
		unlock(t, m)
		require.NoError(t, r.Close(t.Context()))
		of := func(outcome string) int {
			return seen.countNodes(func(e redlock.NodeEvent) bool { return e.Node == 2 && e.Verb == "release" && e.Outcome == outcome })
		}
		require.Equal(t, 3, of("error"))
		require.Equal(t, 1, of("released"))
		require.Empty(t, seen.faults(), "it came right in the end")
	})
}

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
	redigopool "github.com/quorumlock/redlock/pool/redigo"
)

// soakSize is how much a soak does. The clients share nothing but the nodes, so
// that the order of turns within a process does not do the excluding.
type soakSize struct {
	alone                  bool // a run of its own, not one of many tests
	life                   time.Duration
	clients, workers       int // workers of all clients together
	names                  int
	leastPause, spanPauses time.Duration // between two faults
}

func sizeOfSoak() soakSize {
	if os.Getenv("REDLOCK_SOAK") != "" {
		return soakSize{true, 30 * time.Second, 4, 1000, 100, 100 * time.Millisecond, 700 * time.Millisecond}
	}
	return soakSize{false, 4 * time.Second, 4, 100, 20, 50 * time.Millisecond, 250 * time.Millisecond}
}

const (
	soakExpiry = 4 * time.Second
	// overrun is what a call may take beyond the moment at which this machine notices
	// its deadline: see timed. Beside other tests, under the race detector, or where the
	// machine itself is later than that, it says little of the library: such runs only
	// look for calls that wait for a node.
	overrun = 50 * time.Millisecond
)

// raced reports whether the race detector is on.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// A soakWitness looks at one name and knows nothing of the library but what it
// told its users: who holds, until when, with which token.
type soakWitness struct {
	mu     sync.Mutex
	inside int // 0: nobody
	until  time.Time
	token  int64
	faults []string
}

// enter is called by who was told that it has the lock, and reports whether its
// validity still stood. Whoever was held up beyond it does not count as inside.
func (w *soakWitness) enter(who int, m *redlock.Mutex) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	until, token, now := m.Until(), m.Token(), time.Now()
	if !m.Valid() {
		return false
	}
	if w.inside != 0 && now.Before(w.until) {
		w.faults = append(w.faults, fmt.Sprintf("%d entered while %d was inside for another %v", who, w.inside, w.until.Sub(now)))
	}
	if token <= w.token {
		w.faults = append(w.faults, fmt.Sprintf("token %d after %d", token, w.token))
	}
	w.inside, w.until, w.token = who, until, token
	return true
}

func (w *soakWitness) leave(who int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inside == who {
		w.inside = 0
	}
}

// chaos makes one node at a time hang, die or return, never a majority: what is
// not known to be well counts as faulty.
type chaos struct {
	servers []*testutil.Server
	state   []nodeState
	faults  map[string]int
}

type nodeState int

const (
	well nodeState = iota
	hung
	dead
)

func (c *chaos) in(s nodeState) (nodes []int) {
	for i, is := range c.state {
		if is == s {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// run goes on until stop, and leaves all nodes well.
func (c *chaos) run(rng *rand.Rand, size soakSize, stop <-chan struct{}) error {
	for {
		pause := time.NewTimer(size.leastPause + time.Duration(rng.Int64N(int64(size.spanPauses))))
		select {
		case <-pause.C:
			if err := c.step(rng); err != nil {
				return err
			}
		case <-stop:
			pause.Stop()
			for i := range c.state {
				if err := c.mend(i); err != nil {
					return err
				}
			}
			return nil
		}
	}
}

func (c *chaos) step(rng *rand.Rand) error {
	good := c.in(well)
	bad := len(c.servers) - len(good)
	if bad < (len(c.servers)-1)/2 && (bad == 0 || rng.IntN(2) == 0) {
		i := good[rng.IntN(len(good))]
		if rng.IntN(2) == 0 {
			c.faults["hung"]++
			c.state[i] = hung
			return c.servers[i].Pause()
		}
		c.faults["killed"]++
		c.state[i] = dead
		return c.servers[i].Kill()
	}
	if h := c.in(hung); len(h) > 0 && rng.IntN(4) == 0 {
		// A hung machine that is switched off: what waited there is lost.
		c.faults["killed while hung"]++
		c.state[h[0]] = dead
		return c.servers[h[0]].Kill()
	}
	faulty := append(c.in(hung), c.in(dead)...)
	return c.mend(faulty[rng.IntN(len(faulty))])
}

// mend returns when the node is well again: one that hung has yet to carry out what
// it was sent meanwhile, and is still as good as hung until then.
func (c *chaos) mend(i int) error {
	s := c.servers[i]
	switch c.state[i] {
	case well:
		return nil
	case dead:
		if err := s.Restart(); err != nil {
			return err
		}
	case hung:
		if err := s.Resume(); err != nil {
			return err
		}
		// A server takes from each connection in turn, 16 KB at a time, which is less
		// than a few rounds for what one of them can hold.
		answers := 0
		caughtUp := testutil.Poll(settle, func() bool {
			if _, err := s.Do("PING"); err == nil {
				answers++
			}
			return answers == 4
		})
		if !caughtUp {
			return fmt.Errorf("node %d does not catch up", i)
		}
	}
	c.state[i] = well
	return nil
}

// tolls counts what calls came to.
type tolls struct {
	mu    sync.Mutex
	calls map[string]int
	worst map[string]time.Duration // beyond the deadline, by verb
	noise time.Duration            // how late this machine noticed a deadline
	odd   []error
}

// timed makes one call. A second goroutine waits for the same deadline and for
// nothing else: the call is measured against that one, for no library can be told
// before it.
func (c *tolls) timed(verb string, limit time.Duration, call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	deadline, _ := ctx.Deadline()
	noise := make(chan time.Duration, 1)
	stop := context.AfterFunc(ctx, func() { noise <- time.Since(deadline) })
	err := call(ctx)
	late := time.Since(deadline)
	var machine time.Duration
	if !stop() {
		machine = <-noise
		late -= machine
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.worst[verb] = max(c.worst[verb], late)
	c.noise = max(c.noise, machine)
	c.calls[verb+": "+inAWord(err)]++
	if inAWord(err) == "odd" {
		c.odd = append(c.odd, err)
	}
	return err
}

// inAWord names the errors that faults and rivals may cause.
func inAWord(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, context.DeadlineExceeded):
		return "out of time"
	case errors.Is(err, redlock.ErrNoQuorum):
		return "no quorum"
	case errors.Is(err, redlock.ErrExpired):
		return "expired"
	case errors.Is(err, redlock.ErrTaken):
		return "taken"
	}
	return "odd"
}

// soaker is one goroutine that locks.
type soaker struct {
	who       int
	rng       *rand.Rand
	r         *redlock.Redlock
	witnesses []*soakWitness
	tolls     *tolls
	grants    *atomic.Int64
}

func (s *soaker) run(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		name := s.rng.IntN(len(s.witnesses))
		s.cycle(s.r.NewMutex(fmt.Sprintf("soak %d", name)), s.witnesses[name])
	}
}

func (s *soaker) cycle(m *redlock.Mutex, w *soakWitness) {
	limit := time.Duration(50+s.rng.IntN(1950)) * time.Millisecond
	verb, lock := "lock", m.LockContext
	if s.rng.IntN(10) == 0 {
		verb, lock = "try", m.TryLockContext
	}
	if s.tolls.timed(verb, limit, lock) != nil {
		return
	}
	s.grants.Add(1)
	if w.enter(s.who, m) {
		if s.rng.IntN(5) == 0 {
			_ = s.tolls.timed("extend", limit, func(ctx context.Context) error {
				_, err := m.ExtendContext(ctx)
				return err
			})
		}
		w.leave(s.who)
	}
	_ = s.tolls.timed("unlock", limit, func(ctx context.Context) error {
		_, err := m.UnlockContext(ctx)
		return err
	})
}

// Nodes hang, die and return all the time, and yet: no overlap, tokens in order, no
// call beyond its deadline, nothing left behind. With REDLOCK_SOAK it is 1,000
// goroutines for 30 s. Not parallel: it counts goroutines, and wants the machine.
func TestSoakFaultyNodes(t *testing.T) {
	testutil.CheckLeaks(t)
	size, seed := sizeOfSoak(), rand.Uint64()
	t.Logf("seed %d", seed)
	servers := testutil.StartRedisN(t, 5, "--appendonly", "yes", "--appendfsync", "always")
	var redigos []*redis.Pool
	clients := make([]*redlock.Redlock, size.clients)
	for i := range clients {
		nodes := make([]pool.Pool, len(servers))
		for j, s := range servers {
			p := newRedigo(s.Addr())
			redigos = append(redigos, p)
			nodes[j] = redigopool.NewNamedPool(p, s.Addr())
		}
		clients[i] = factoryOf(t, nodes, redlock.WithExpiry(soakExpiry), redlock.WithNodeTimeout(time.Second))
	}
	witnesses := make([]*soakWitness, size.names)
	for i := range witnesses {
		witnesses[i] = &soakWitness{}
	}
	count := &tolls{calls: map[string]int{}, worst: map[string]time.Duration{}}
	var grants atomic.Int64
	var workers, others sync.WaitGroup
	stop := make(chan struct{})
	trouble := &chaos{servers: servers, state: make([]nodeState, len(servers)), faults: map[string]int{}}
	var mended error
	others.Go(func() { mended = trouble.run(rand.New(rand.NewPCG(seed, 0)), size, stop) })
	for i := range size.workers {
		s := &soaker{
			who: i + 1, rng: rand.New(rand.NewPCG(seed, uint64(i+1))), r: clients[i%len(clients)],
			witnesses: witnesses, tolls: count, grants: &grants,
		}
		workers.Go(func() { s.run(stop) })
	}
	end := time.NewTimer(size.life)
	defer end.Stop()
	<-end.C
	close(stop)
	workers.Wait()
	others.Wait()
	require.NoError(t, mended)

	t.Logf("%d grants; faults %v; calls %v; beyond the deadline at worst %v, this machine itself %v",
		grants.Load(), trouble.faults, count.calls, count.worst, count.noise)
	require.Empty(t, count.odd, "errors that no fault explains")
	for i, w := range witnesses {
		require.Empty(t, w.faults, "name %d", i)
	}
	allowed := soon + count.noise
	if size.alone && !raced() && count.noise <= overrun {
		allowed = overrun
	}
	for verb, worst := range count.worst {
		assert.LessOrEqual(t, worst, allowed, "a call of %s outlived its deadline", verb)
	}
	require.Positive(t, grants.Load(), "nobody got a lock")
	requireNothingLeft(t, servers, clients, redigos)
}

// requireNothingLeft closes the clients and demands that no node keeps anything but
// fences that are about to go, nor a connection. The leak check has the goroutines.
func requireNothingLeft(t *testing.T, servers []*testutil.Server, clients []*redlock.Redlock, redigos []*redis.Pool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), settle)
	defer cancel()
	for _, r := range clients {
		require.NoError(t, r.Close(ctx), "all that was owed is delivered")
	}
	for i, s := range servers {
		for key, ttl := range livesOf(t, s) {
			require.Contains(t, key, ":f{", "node %d keeps a key", i)
			require.Positive(t, ttl, "the fence %q of node %d never ends", key, i)
			require.LessOrEqual(t, ttl, soakExpiry+20*time.Second, "the fence %q of node %d", key, i)
		}
	}
	for _, p := range redigos {
		require.Equal(t, p.IdleCount(), p.ActiveCount(), "a connection is still in use")
		require.NoError(t, p.Close())
	}
	for i, s := range servers {
		testutil.Eventually(t, settle, func() bool {
			list, err := redis.String(s.Do("CLIENT", "LIST"))
			return err == nil && strings.Count(list, "\n") == 1
		}, "node %d has no connection but the one that asks", i)
	}
}

// livesOf lists the keys of a server and how long they will live; negative: for
// ever.
func livesOf(t *testing.T, s *testutil.Server) map[string]time.Duration {
	t.Helper()
	keys, err := s.Keys()
	require.NoError(t, err)
	lives := map[string]time.Duration{}
	for _, k := range keys {
		ms, err := redis.Int64(s.Do("PTTL", k))
		require.NoError(t, err)
		if ms != -2 { // it has gone meanwhile
			lives[k] = time.Duration(ms) * time.Millisecond
		}
	}
	return lives
}

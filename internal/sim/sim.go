// Package sim runs the library over in-memory nodes in virtual time, under faults that
// follow from a seed, and checks what was promised: that no two holders are valid at
// once, that tokens grow in the order of the grants, and that nothing is left behind.
package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/redlocktest"
)

// Result is what one run saw.
type Result struct {
	Grants, Refusals, Losses, Faults int
	// Trace is a sum over every execution at every node, in the order of each node.
	Trace uint64
	// Log has a line for each execution, by node; empty without Options.Log.
	Log [][]string
	// Violations are promises broken; none are expected.
	Violations []string
}

const (
	expiry  = 600 * time.Millisecond
	turns   = 8 // of each worker
	healing = 3 * time.Second
)

// world is one run.
type world struct {
	seed  uint64
	nodes redlocktest.Nodes
	names []string

	mu        sync.Mutex
	result    Result                      // guarded by mu
	traces    []uint64                    // guarded by mu; by node
	taken     map[int64]bool              // guarded by mu; instants of the network
	holders   map[string][]*redlock.Mutex // guarded by mu
	highest   map[string]int64            // guarded by mu; token
	abandoned bool                        // guarded by mu; some lock was left to its expiry
}

// Options say how to run.
type Options struct {
	Log bool // fill in Result.Log
}

// Run makes one run. It must be called inside a synctest bubble.
func Run(seed uint64, o Options) Result {
	rng := rand.New(rand.NewPCG(seed, 0))
	w := &world{
		seed: seed, nodes: redlocktest.NewNodes(3 + 2*rng.IntN(2)), names: []string{"a", "b"}[:1+rng.IntN(2)],
		holders: map[string][]*redlock.Mutex{}, highest: map[string]int64{},
		taken: map[int64]bool{},
	}
	w.traces = make([]uint64, len(w.nodes))
	if o.Log {
		w.result.Log = make([][]string, len(w.nodes))
	}
	for i, n := range w.nodes {
		n.SetFaults(w.network(i))
		n.OnExec(w.executed(i))
	}
	var clients []*redlock.Redlock
	var workers sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	for c := range 2 + rng.IntN(maxClients-1) {
		r, err := redlock.New(w.lines(c), redlock.WithExpiry(expiry))
		if err != nil {
			w.violate("client: %v", err)
			break
		}
		clients = append(clients, r)
		for k := range 1 + rng.IntN(maxWorkers) {
			source := uint64(c*maxWorkers + k)
			workers.Go(func() { w.work(r, source, rand.New(rand.NewPCG(seed, source+1))) })
		}
	}
	var faults sync.WaitGroup
	faults.Go(func() { w.disturb(ctx, rand.New(rand.NewPCG(seed, 1<<32))) })
	workers.Wait()
	cancel()
	faults.Wait()
	for _, r := range clients {
		closing, done := context.WithTimeout(context.Background(), 30*time.Second)
		if err := r.Close(closing); err != nil {
			w.violate("close: %v", err)
		}
		done()
	}
	time.Sleep(healing)
	w.checkClean()
	for _, trace := range w.traces {
		w.result.Trace = mix(w.result.Trace, trace)
	}
	return w.result
}

// executed enters an execution at node i into the trace.
func (w *world) executed(i int) func(redlocktest.Call) {
	return func(c redlocktest.Call) {
		w.mu.Lock()
		defer w.mu.Unlock()
		h := w.traces[i]
		for _, x := range []uint64{uint64(c.Sequence), uint64(c.Time.UnixNano()), kinds[c.Name], source(c)} {
			h = mix(h, x)
		}
		for _, x := range c.Reply {
			h = mix(h, uint64(x))
		}
		w.traces[i] = h
		if w.result.Log != nil {
			w.result.Log[i] = append(w.result.Log[i], fmt.Sprintf("%s %s of %d: %v",
				c.Time.Format("05.000000"), c.Name, source(c), c.Reply))
		}
	}
}

// work is one worker: it takes locks in every way and checks each grant.
func (w *world) work(r *redlock.Redlock, source uint64, rng *rand.Rand) {
	opts := []redlock.Option{
		redlock.WithObserver(waking{source}),
		redlock.WithGenValueFunc(func() (string, error) { return valueOf(source), nil }),
		redlock.WithRetryDelayFunc(func(tries int) time.Duration {
			random := mix(mix(w.seed, source), uint64(tries))
			return aligned(20*time.Millisecond+time.Duration(random%30_000_000), retries+source)
		}),
	}
	n := &turn{rng: rng, source: source}
	for range turns {
		n.sleep(100 * time.Millisecond)
		m := r.NewMutex(w.names[rng.IntN(len(w.names))], opts...)
		patience := aligned(time.Duration(1+rng.Int64N(3_000_000_000)), contexts+source)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		if rng.IntN(4) == 0 {
			w.hold(ctx, m, n)
		} else {
			w.lock(ctx, m, n)
		}
		cancel()
	}
}

// turn is what a worker decides by.
type turn struct {
	rng    *rand.Rand
	source uint64
}

// pause is random, below limit, and ends in the worker's own slot.
func (n *turn) pause(limit time.Duration) time.Duration {
	return aligned(time.Duration(n.rng.Int64N(int64(limit))), sleeps+n.source)
}

func (n *turn) sleep(limit time.Duration) { time.Sleep(n.pause(limit)) }

// hold is a turn with renewal.
func (w *world) hold(ctx context.Context, m *redlock.Mutex, n *turn) {
	held, err := m.Hold(ctx)
	if err != nil {
		w.count(&w.result.Refusals)
		return
	}
	w.granted(m)
	select {
	case <-held.Done():
		if errors.Is(context.Cause(held), redlock.ErrLost) {
			w.count(&w.result.Losses)
		}
	case <-time.After(n.pause(3 * expiry)):
		if held.Err() == nil && !m.Valid() {
			w.violate("%s: a held context is alive beyond its lock", m.Name())
		}
	}
	w.left(m)
	_, _ = m.Unlock() // whatever it says: the checks are on the nodes
}

// lock is a turn without.
func (w *world) lock(ctx context.Context, m *redlock.Mutex, n *turn) {
	var err error
	if n.rng.IntN(3) == 0 {
		err = m.TryLockContext(ctx)
	} else {
		err = m.LockContext(ctx)
	}
	if err != nil {
		w.count(&w.result.Refusals)
		return
	}
	w.granted(m)
	n.sleep(expiry * 6 / 5)
	if n.rng.IntN(3) == 0 {
		_, _ = m.ExtendContext(ctx)
		n.sleep(expiry / 2)
	}
	w.left(m)
	switch n.rng.IntN(10) {
	case 0: // a client that is gone
		w.mu.Lock()
		w.abandoned = true
		w.mu.Unlock()
	case 1:
		dead, cancel := context.WithCancel(context.Background())
		cancel()
		_, _ = m.UnlockContext(dead)
	default:
		_, _ = m.Unlock()
	}
}

// granted checks a new grant against those that are out.
func (w *world) granted(m *redlock.Mutex) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.Grants++
	if !m.Valid() {
		return // it has run out already, and nobody is told otherwise
	}
	for _, other := range w.holders[m.Name()] {
		if other.Valid() {
			w.violateLocked("%s: tokens %d and %d are valid at once", m.Name(), other.Token(), m.Token())
		}
	}
	if m.Token() <= w.highest[m.Name()] {
		w.violateLocked("%s: token %d after %d", m.Name(), m.Token(), w.highest[m.Name()])
	}
	w.highest[m.Name()] = max(m.Token(), w.highest[m.Name()])
	w.holders[m.Name()] = append(w.holders[m.Name()], m)
}

// left takes a holder out before its release can let the next one in.
func (w *world) left(m *redlock.Mutex) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.holders[m.Name()]
	for i := range list {
		if list[i] == m {
			w.holders[m.Name()] = append(list[:i:i], list[i+1:]...)
			return
		}
	}
}

// disturb keeps a minority of the nodes faulty, one fault after the other.
func (w *world) disturb(ctx context.Context, rng *rand.Rand) {
	minority := len(w.nodes) / 2
	pause := func(d time.Duration) { time.Sleep(aligned(d, disturbance)) }
	pause(0)
	for ctx.Err() == nil {
		w.count(&w.result.Faults)
		n := w.nodes[rng.IntN(minority)] // always the same few: what they forget is a minority
		length := time.Duration(rng.Int64N(1_000_000_000))
		switch rng.IntN(6) {
		case 0:
			n.Hang()
			pause(length)
			n.Resume()
		case 1:
			n.Down()
			pause(length)
			n.Up()
		case 2:
			n.Restart(true)
		case 3: // it forgets, and stays away until nothing it forgot can be live
			n.Down()
			n.Restart(false)
			n.Down()
			pause(2*expiry + length)
			n.Up()
		case 4:
			n.DropReplies(true)
			pause(length)
			n.DropReplies(false)
		case 5:
			n.SetClockOffset(time.Duration(rng.Int64N(8_000_000)) - 4*time.Millisecond)
		}
		pause(time.Duration(rng.Int64N(300_000_000)))
	}
}

// checkClean looks for what must not be there once all is over.
func (w *world) checkClean() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		for _, name := range w.names {
			if value, found := n.Value(name); found && !w.abandoned {
				w.violateLocked("%s: %s still holds %s", n.Addr(), name, value)
			}
		}
		if s := n.Stats().Subscribers; s > 0 {
			w.violateLocked("%s: %d subscribers after Close", n.Addr(), s)
		}
	}
}

func (w *world) count(field *int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*field++
}

func (w *world) violate(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violateLocked(format, args...)
}

func (w *world) violateLocked(format string, args ...any) {
	w.result.Violations = append(w.result.Violations, fmt.Sprintf(format, args...))
}

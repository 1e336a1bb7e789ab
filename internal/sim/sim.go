// Package sim runs the library over in-memory nodes in virtual time, under faults that
// follow from a seed, and checks what was promised: that no two holders are valid at
// once, that tokens grow in the order of the grants, and that nothing is left behind.
package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/redlocktest"
)

// Result is what one run saw.
type Result struct {
	Grants, Refusals, Losses, Faults int
	// Trace is a sum over every execution at every node, in order.
	Trace uint64
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
	holders   map[string][]*redlock.Mutex // guarded by mu
	highest   map[string]int64            // guarded by mu; token
	abandoned bool                        // guarded by mu; some lock was left to its expiry
}

// Run makes one run. It must be called inside a synctest bubble.
func Run(seed uint64) Result {
	rng := rand.New(rand.NewPCG(seed, 0))
	w := &world{
		seed: seed, nodes: redlocktest.NewNodes(3 + 2*rng.IntN(2)), names: []string{"a", "b"}[:1+rng.IntN(2)],
		holders: map[string][]*redlock.Mutex{}, highest: map[string]int64{},
	}
	trace := fnv.New64a()
	for i, n := range w.nodes {
		n.SetFaults(w.network(i))
		n.OnExec(func(c redlocktest.Call) {
			w.mu.Lock()
			defer w.mu.Unlock()
			fmt.Fprintln(trace, i, c.Sequence, c.Time.UnixNano(), c.Name, c.Reply)
		})
	}
	var clients []*redlock.Redlock
	var workers sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	for c := range 2 + rng.IntN(3) {
		r, err := redlock.New(w.nodes.Pools(), redlock.WithExpiry(expiry), redlock.WithRetryDelayFunc(w.delay(c)))
		if err != nil {
			w.violate("client: %v", err)
			break
		}
		clients = append(clients, r)
		for k := range 1 + rng.IntN(2) {
			workers.Go(func() { w.work(r, rand.New(rand.NewPCG(seed, uint64(100*c+k+1)))) })
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
	w.result.Trace = trace.Sum64()
	return w.result
}

// network is the fate of a request to node i: it follows from the seed and the moment,
// not from a generator that goroutines would share.
func (w *world) network(i int) func(redlocktest.Call) redlocktest.Fault {
	return func(c redlocktest.Call) redlocktest.Fault {
		name := ""
		if c.Name != "subscribe" && c.Name != "message" { // a channel's name is random
			name = c.Keys[0]
		}
		h := fnv.New64a()
		fmt.Fprintln(h, w.seed, i, time.Now().UnixNano(), c.Name, name)
		rng := rand.New(rand.NewPCG(h.Sum64(), w.seed))
		f := redlocktest.Fault{
			Delay:      time.Duration(50_000 + rng.Int64N(400_000)), // in ns, so that few coincide
			ReplyDelay: time.Duration(50_000 + rng.Int64N(400_000)),
		}
		switch rng.IntN(60) {
		case 0:
			f.DropRequest = true
		case 1:
			f.DropReply = true
		case 2:
			f.Duplicates = []time.Duration{time.Duration(rng.Int64N(900_000_000)), time.Duration(rng.Int64N(90_000_000))}
		case 3:
			f.Delay += time.Duration(rng.Int64N(700_000_000))
		}
		return f
	}
}

// delay is a retry delay that two runs of a seed share.
func (w *world) delay(c int) redlock.DelayFunc {
	return func(tries int) time.Duration {
		return 20*time.Millisecond + time.Duration((uint64(c*7919+tries*104729)+w.seed)%30_000_017)
	}
}

// work is one worker: it takes locks in every way and checks each grant.
func (w *world) work(r *redlock.Redlock, rng *rand.Rand) {
	for range turns {
		time.Sleep(time.Duration(rng.Int64N(100_000_000)))
		m := r.NewMutex(w.names[rng.IntN(len(w.names))])
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+rng.Int64N(3_000_000_000)))
		if rng.IntN(4) == 0 {
			w.hold(ctx, m, rng)
		} else {
			w.lock(ctx, m, rng)
		}
		cancel()
	}
}

// hold is a turn with renewal.
func (w *world) hold(ctx context.Context, m *redlock.Mutex, rng *rand.Rand) {
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
	case <-time.After(time.Duration(rng.Int64N(int64(3 * expiry)))):
		if held.Err() == nil && !m.Valid() {
			w.violate("%s: a held context is alive beyond its lock", m.Name())
		}
	}
	w.left(m)
	_, _ = m.Unlock() // whatever it says: the checks are on the nodes
}

// lock is a turn without.
func (w *world) lock(ctx context.Context, m *redlock.Mutex, rng *rand.Rand) {
	var err error
	if rng.IntN(3) == 0 {
		err = m.TryLockContext(ctx)
	} else {
		err = m.LockContext(ctx)
	}
	if err != nil {
		w.count(&w.result.Refusals)
		return
	}
	w.granted(m)
	time.Sleep(time.Duration(rng.Int64N(int64(expiry) * 6 / 5)))
	if rng.IntN(3) == 0 {
		_, _ = m.ExtendContext(ctx)
		time.Sleep(time.Duration(rng.Int64N(int64(expiry) / 2)))
	}
	w.left(m)
	switch rng.IntN(10) {
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
	for ctx.Err() == nil {
		w.count(&w.result.Faults)
		n := w.nodes[rng.IntN(minority)] // always the same few: what they forget is a minority
		length := time.Duration(rng.Int64N(1_000_000_000))
		switch rng.IntN(6) {
		case 0:
			n.Hang()
			time.Sleep(length)
			n.Resume()
		case 1:
			n.Down()
			time.Sleep(length)
			n.Up()
		case 2:
			n.Restart(true)
		case 3: // it forgets, and stays away until nothing it forgot can be live
			n.Down()
			n.Restart(false)
			n.Down()
			time.Sleep(2*expiry + length)
			n.Up()
		case 4:
			n.DropReplies(true)
			time.Sleep(length)
			n.DropReplies(false)
		case 5:
			n.SetClockOffset(time.Duration(rng.Int64N(8_000_000)) - 4*time.Millisecond)
		}
		time.Sleep(time.Duration(rng.Int64N(300_000_000)))
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

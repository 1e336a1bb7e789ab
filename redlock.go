package redlock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock/pool"
)

// closeGrace is how long Close waits, after its ctx, for what it gave up.
const closeGrace = 100 * time.Millisecond

// Redlock makes mutexes over a fixed set of independent nodes. It is safe for
// concurrent use; a process needs one for each set of nodes.
type Redlock struct {
	nodes  []*node
	quorum int
	clock  *ballots
	*settings

	renewals renewals
	tasks    tasks           // every goroutine that was started and not handed out
	life     context.Context // ends when Close is called
	end      context.CancelFunc
	closing  <-chan struct{} // life.Done()
	patience context.Context // ends when Close gives up waiting
	giveUp   context.CancelFunc

	wakes *wakes
	turns turns
	trip  atomic.Int64 // smoothed time to a decision, ns
}

// New makes a factory over the given nodes, one pool each. The quorum is a
// majority: 2 of 3, 3 of 5; one pool is a plain single-node lock; more than 64 are
// refused. The options are the defaults of its mutexes. Close it when done.
func New(pools []pool.Pool, opts ...Option) (*Redlock, error) {
	if len(pools) == 0 {
		return nil, &OptionError{"New", "pools", "needs at least one pool"}
	}
	if len(pools) > maxNodes {
		return nil, &OptionError{"New", "pools", fmt.Sprintf("%d pools, at most %d", len(pools), maxNodes)}
	}
	r := &Redlock{
		quorum:   len(pools)/2 + 1,
		clock:    newBallots(len(pools)),
		settings: newSettings(defaultConfig().with(opts)),
	}
	r.life, r.end = context.WithCancel(context.Background())
	r.closing = r.life.Done()
	r.patience, r.giveUp = context.WithCancel(context.Background())
	r.wakes = newWakes(r, len(pools))
	r.turns.names = map[line]*turnQueue{}
	r.renewals = renewals{r: r, wake: make(chan struct{}, 1)}
	if r.config.err != nil {
		return nil, r.config.err
	}
	for i, p := range pools {
		if p == nil {
			return nil, &OptionError{"New", "pools", fmt.Sprintf("pool %d is nil", i)}
		}
		r.nodes = append(r.nodes, newNode(i, p, r.clock))
	}
	return r, nil
}

// Close refuses new locks from now on, ends the contexts of those held, and waits until
// what is on its way is done: clean-ups of failed attempts, the last replies of
// releases. For a node that does not answer, that takes until it holds nothing by
// itself: 5 s and the longest life that a lock was given. When ctx ends first, Close
// gives up what is left and returns ctx's error, 100 ms later at the latest.
// Locks that are held stay held until Unlock, which still works, or their expiry.
// The pools are the caller's to close, after.
func (r *Redlock) Close(ctx context.Context) error {
	r.end()
	defer r.endRest()
	select {
	case <-r.tasks.idle():
		return nil
	case <-ctx.Done():
	}
	left := r.tasks.count()
	r.giveUp()
	// What keeps to its context ends now. An adapter that does not is not waited for.
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-r.tasks.idle():
	case <-timer.C:
	}
	return fmt.Errorf("redlock: close: %d requests left behind: %w", left, ctx.Err())
}

// endRest ends the lanes that wait for another request.
func (r *Redlock) endRest() {
	for _, n := range r.nodes {
		n.endRest()
	}
}

func (r *Redlock) closed() bool { return r.life.Err() != nil }

// took enters the time that a round took to be decided; roundTrip is its smoothed
// value, by which waiters space their tries.
func (r *Redlock) took(d time.Duration) {
	old := r.trip.Load()
	if old == 0 {
		old = int64(d)
	}
	r.trip.Store(old + (int64(d)-old)/8) // a lost update does not matter
}

// roundTrip is, as long as no round was decided, the way to the farthest node heard:
// that of clients that start together includes a dial, and they must not come again
// before the others are through with theirs.
func (r *Redlock) roundTrip() time.Duration {
	if trip := r.trip.Load(); trip > 0 {
		return time.Duration(trip)
	}
	return r.farthest()
}

// farthest is the round trip to the farthest node, as far as known.
func (r *Redlock) farthest() time.Duration {
	var trip int64
	for _, n := range r.nodes {
		trip = max(trip, n.trip.Load())
	}
	return time.Duration(trip)
}

// tasks counts goroutines. Unlike a sync.WaitGroup it may be waited for while
// more are added.
type tasks struct {
	n atomic.Int64

	mu      sync.Mutex
	waiters []chan struct{} // guarded by mu
}

func (t *tasks) add(n int) { t.n.Add(int64(n)) }

func (t *tasks) count() int64 { return t.n.Load() }

func (t *tasks) done() {
	if t.n.Add(-1) > 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n.Load() == 0 { // and not more by now, for which idle waits
		t.flushLocked()
	}
}

// idle is closed once nothing runs.
func (t *tasks) idle() <-chan struct{} {
	ch := make(chan struct{})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiters = append(t.waiters, ch)
	// A task that ended before the line above found no waiter to tell.
	if t.n.Load() == 0 {
		t.flushLocked()
	}
	return ch
}

func (t *tasks) flushLocked() {
	for _, ch := range t.waiters {
		close(ch)
	}
	t.waiters = nil
}

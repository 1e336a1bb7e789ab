package redlock

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"
)

// Timers of a waiter. A notice is a hint that may be lost, so one is always
// armed.
const (
	// maxFaults is how many attempts without a quorum of nodes an acquire makes
	// when its tries are not limited.
	maxFaults = 3
	// stagger parts the waiters' timers by their rank, so that an expiry wakes them
	// one after the other.
	stagger = 5 * time.Millisecond
	// longestWait is the longest pause of a waiter, and of the first two in a
	// queue, or of one that has become the first: should the one that was called be
	// suspended, the next looks itself.
	longestWait      = time.Second
	longestFirstWait = 250 * time.Millisecond
	firstRanks       = 2
	// quickSplits is how many split votes in a row are tried again within a few round
	// trips.
	quickSplits = 3
	// nearby is the round trip below which a node is next door.
	nearby = time.Millisecond
	// leastMoment is the least time that calls of other nodes are waited for.
	leastMoment = 200 * time.Microsecond
)

// waiter is one acquire that contends for a name on the nodes.
type waiter struct {
	m    *Mutex
	wake chan struct{} // a node has called
	near chan struct{} // it has become the first of a node's queue

	mu     sync.Mutex
	member string  // guarded by mu; the place in the nodes' queues, "" before the first ballot
	ticket string  // guarded by mu
	asked  int64   // guarded by mu; the latest ballot
	joined nodeSet // guarded by mu; nodes in whose queue it may stand
	out    []int   // guarded by mu; by node: acquires that were to queue, without a reply
	called nodeSet // guarded by mu; nodes that have called since the last attempt
	met    nodeSet // guarded by mu; nodes that have begun to listen while it waited
	queued bool    // guarded by mu; it has stood in a queue, so that nodes may call
	over   bool    // guarded by mu; it waits no longer
}

// newWaiter must be followed by finish.
func (m *Mutex) newWaiter() *waiter {
	w := &waiter{m: m, wake: make(chan struct{}, 1), near: make(chan struct{}, 1), out: make([]int, len(m.r.nodes))}
	if len(m.names) == 1 { // who waits for several joins no queue, and nobody calls
		m.r.wakes.add(w)
	}
	return w
}

// join is the place to queue with while the lock is busy: that of the first
// ballot, kept through every attempt. Each of the nodes owes a reply to saw.
func (w *waiter) join(p int64, nodes nodeSet) (member, ticket string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.member == "" {
		w.ticket = strconv.FormatInt(p, 10)
		w.member = w.m.r.wakes.channel + "#" + w.ticket
	}
	w.asked, w.called = p, 0
	for i := range w.out {
		if nodes.has(i) {
			w.out[i]++
		}
	}
	return w.member, w.ticket
}

// saw notes what a reply to an acquire that was to queue means for the place in the
// node's queue. A reply that comes when nobody waits any more is answered by leaving.
func (w *waiter) saw(n *node, ballot int64, a reply) {
	w.mu.Lock()
	w.out[n.index]--
	switch {
	case a.err != nil:
		if !a.unsent {
			w.joined.add(n.index) // it may have been executed: one more leave at the end
		}
	case a.code == codeBusy && a.last >= 0:
		w.joined.add(n.index)
		w.queued = true
	case a.code == codeGranted && ballot == w.asked:
		// A grant takes it out of the queue, but a later acquire may have put it back
		// there, and been answered first.
		w.joined.drop(n.index)
	}
	late := w.over && w.out[n.index] == 0 && w.joined.has(n.index)
	w.mu.Unlock()
	if late {
		w.m.r.leaveQueue(n, w)
	}
}

// call notes that node i has called, and wakes the waiter.
func (w *waiter) call(i int) {
	w.mu.Lock()
	w.called.add(i)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// meet is a call by node i because it has begun to listen, once: a subscription that
// comes and goes must not make more tries than there are.
func (w *waiter) meet(i int) {
	w.mu.Lock()
	before := w.met.has(i)
	w.met.add(i)
	w.mu.Unlock()
	if !before {
		w.call(i)
	}
}

// nearer notes that it is the first of a node's queue.
func (w *waiter) nearer() {
	select {
	case w.near <- struct{}{}:
	default:
	}
}

func (w *waiter) hasTicket(ticket string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ticket == ticket
}

// calls is how many nodes have called since the last attempt.
func (w *waiter) calls() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.called.count()
}

// places is in how many nodes' queues it stands.
func (w *waiter) places() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.joined.count()
}

// finish leaves every queue. Where a node has called already, that passes the
// call on to the next: no wake-up is lost with a waiter that went away. A node with a
// reply out is left once that says where it stands there: a grant takes it out.
func (w *waiter) finish() {
	w.m.r.wakes.remove(w)
	w.mu.Lock()
	w.over = true
	joined := w.joined
	for i, out := range w.out {
		if out > 0 {
			joined.drop(i)
		}
	}
	w.mu.Unlock()
	for i, n := range w.m.r.nodes {
		if joined.has(i) {
			w.m.r.leaveQueue(n, w)
		}
	}
}

// leaveQueue runs the leave script in the background. Where that fails for good, the
// call that comes for the member some day is passed on.
func (r *Redlock) leaveQueue(n *node, w *waiter) {
	r.passOn(n, w.m.name, w.member)
}

// contend makes attempts until one wins, or the rules of LockContext end it. An
// acquire without limited tries waits for its turn behind the others of this
// process: one waiter per name asks the nodes.
func (m *Mutex) contend(ctx context.Context, tries int) (g *grant, attempts int, err error) {
	switch tries {
	case 0:
		turn, err := m.r.turns.enter(ctx, m)
		if err != nil {
			return nil, 0, err
		}
		defer turn.leave() // also when a function of the user's panics
		g, attempts, no := m.compete(ctx, 0)
		if g == nil && ctx.Err() == nil && errors.Is(no.err, ErrNoQuorum) {
			// Those in line with the same demands would only find the same, one after the other.
			turn.fail(no, m.demands())
		}
		return g, attempts, m.refused(ctx, no)
	case 1:
		g, attempts, no := m.once(ctx)
		return g, attempts, m.refused(ctx, no)
	}
	g, attempts, no := m.compete(ctx, tries)
	return g, attempts, m.refused(ctx, no)
}

// compete is contend without the local line. It returns a grant or a refusal.
func (m *Mutex) compete(ctx context.Context, tries int) (g *grant, attempts int, no *refusal) {
	// Who comes first may find the lock free: a place in the queues is only of use
	// once this client listens.
	var w *waiter
	if m.r.wakes.on.Load() {
		w = m.newWaiter()
		defer w.finish()
	}
	unreachable, splits := 0, 0
	var taken *TakenError
	for attempts = 1; ; {
		asking := w
		if len(m.names) > 1 {
			asking = nil // waits for several names in no queue
		}
		g, no = m.attempt(ctx, asking)
		if g != nil {
			if w != nil {
				g.ticket = m.r.wakes.won(w)
			}
			return g, attempts, nil
		}
		if errors.Is(no.err, ErrNoQuorum) {
			unreachable++
		} else {
			if !no.split {
				unreachable = 0
			}
			if tries == 0 {
				m.r.turns.note(m.line, no.err)
			}
		}
		// An attempt cut short by ctx knows less of the holder than those before.
		if t := no.taken(); t != nil {
			taken = t
		} else if ctx.Err() != nil && taken != nil {
			no.err = taken
		}
		if splits++; !no.split {
			splits = 0
		}
		if ctx.Err() != nil || no.hopeless || attempts == tries || tries == 0 && unreachable == maxFaults {
			return nil, attempts, no
		}
		if w == nil {
			w = m.newWaiter()
			defer w.finish()
		}
		switch m.pause(ctx, w, attempts, tries, splits, no) {
		case wokenByEnd:
			return nil, attempts, no
		case wokenByNotice:
			// Somebody said that the lock is free: this try does not count.
		default:
			attempts++
		}
	}
}

// maxSplits is how often an acquire of one try starts over where it met no holder.
const maxSplits = 4

// once is an acquire of one try, which joins no queue. When several came at once and
// each won a few nodes, nobody holds the lock: the try is repeated, or all of them
// would go away without it.
func (m *Mutex) once(ctx context.Context) (g *grant, attempts int, no *refusal) {
	for attempts = 1; ; attempts++ {
		g, no = m.attempt(ctx, nil)
		if g != nil {
			return g, attempts, nil
		}
		if !no.split || attempts > maxSplits {
			return nil, attempts, no
		}
		d, _ := m.patience(attempts, 0, attempts, no)
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, attempts, no
		case <-m.r.closing:
			timer.Stop()
			return nil, attempts, no
		}
	}
}

// What ended a pause.
const (
	wokenByNotice = "notice"
	wokenByTimer  = "timer"
	wokenByPoll   = "poll"
	wokenByEnd    = "end"
)

// pause waits before the next attempt and says what ended it.
func (m *Mutex) pause(ctx context.Context, w *waiter, attempts, tries, splits int, no *refusal) (wokenBy string) {
	m.r.wakes.listen()
	started := time.Now()
	d, wokenBy := m.patience(attempts, tries, splits, no)
	// Only nodes where it is queued call, or any that has begun to listen.
	expected := w.places()
	if expected == 0 {
		expected = m.r.quorum
	}
	end := started.Add(d)
	timer := time.NewTimer(d)
	defer timer.Stop()
	near := func() {
		if time.Now().Add(longestFirstWait).Before(end) {
			end = time.Now().Add(longestFirstWait)
			timer.Reset(longestFirstWait)
		}
	}
	select { // before any call, or one of two that are there is taken by chance
	case <-w.near:
		near()
	default:
	}
	for waiting := true; waiting; {
		waiting = false
		select {
		case <-timer.C:
		case <-w.wake:
			calls := w.calls()
			if calls == 0 {
				waiting = true // a call from before the last attempt
				break
			}
			wokenBy = wokenByNotice
			if calls < m.enoughCalls(expected) {
				// The other nodes are about to call, or have called someone else.
				waiting = true
				if moment := max(m.r.roundTrip(), leastMoment); time.Now().Add(moment).Before(end) {
					end = time.Now().Add(moment)
					timer.Reset(moment)
				}
			}
		case <-w.near:
			waiting = true
			near()
		case <-ctx.Done():
			wokenBy = wokenByEnd
		case <-m.r.closing:
			wokenBy = wokenByEnd
		}
	}
	if m.eyes.wait != nil {
		m.eyes.wait.WaitDone(ctx, WaitEvent{Name: m.name, WokenBy: wokenBy, Duration: time.Since(started)})
	}
	return wokenBy
}

// enoughCalls is how many calls begin an attempt at once, of a waiter that stands in
// expected queues. A release is sent to all nodes at the same moment: where none is
// farther than the others by much, those that have yet to call have it before they get
// the request that the first call causes. Otherwise a quorum must have said that it is
// free, or the attempt would come too early for the rest.
func (m *Mutex) enoughCalls(expected int) int {
	if m.r.farthest() < nearby {
		return 1
	}
	return min(m.r.quorum, expected)
}

// patience is how long to wait for a call, and how a pause is named that it ends.
func (m *Mutex) patience(attempts, tries, splits int, no *refusal) (d time.Duration, wokenBy string) {
	trip := max(m.r.roundTrip(), leastMoment)
	switch {
	case errors.Is(no.err, ErrNoQuorum):
		return m.config.delay(attempts), wokenByPoll
	case no.split:
		// Nobody may be there to call. The contenders that saw each other come again
		// in the order of their ballots, each after the undoing of the one before.
		d, wokenBy = trip+time.Duration(no.behind)*2*trip+spread(no.ballot, trip), wokenByTimer
		if splits > quickSplits {
			// Whoever left it so does not come back for it: it ends with its keys.
			d = min(d<<min(splits-quickSplits, 20), longestFirstWait)
			if no.free >= 0 {
				d = min(d, no.free+time.Millisecond)
			}
		}
	case no.rank < 0:
		// No node will call.
		d, wokenBy = m.config.delay(attempts), wokenByPoll
		if no.free >= 0 {
			d = min(d, no.free+time.Millisecond)
		}
	default:
		late := time.Duration(no.rank) * stagger
		longest := longestWait + late
		if no.rank < firstRanks {
			longest = longestFirstWait
		}
		d, wokenBy = longest, wokenByTimer
		if no.free >= 0 {
			d = min(d, no.free+time.Millisecond+late)
		}
	}
	if tries > 0 {
		d = min(d, m.config.delay(attempts))
	}
	return d, wokenBy
}

// spread is a part of d that looks random and follows from a number, so that a
// simulation can be run again.
func spread(n int64, d time.Duration) time.Duration {
	x := uint64(n) * 0x9e3779b97f4a7c15 // the mixing steps of SplitMix64
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return time.Duration((x ^ x>>31) % uint64(max(d, 1)))
}

// refused is the error of a failed acquire, nil without a refusal.
func (m *Mutex) refused(ctx context.Context, no *refusal) error {
	switch {
	case no == nil:
		return nil
	case ctx.Err() != nil:
		why := no.err
		if errors.Is(why, ErrNoQuorum) {
			why = nil // the nodes were not given the time to answer
		}
		return fail("lock", m.name, ErrFailed, ctx.Err(), why, faults(no.faults))
	case m.r.closed():
		return fail("lock", m.name, ErrFailed, ErrClosed)
	}
	return fail("lock", m.name, ErrFailed, no.err, faults(no.faults))
}

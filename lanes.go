package redlock

import (
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// How many requests may be on their way to one node, and how many may wait for one of
// those to end. A near node is busy with leastLanes; a far one needs more for the same
// rate, by its round trip. A node that has left several in a row without any answer
// gets a few probes only, so that a thousand callers do not pile up on it; the first
// answer lifts that.
const (
	leastLanes    = 64
	lanesPerMS    = 16
	mostLanes     = 1024
	maxQueued     = 4096
	maxProbes     = 16
	suspectFaults = 3
	suspectFor    = time.Second // after the last of them
	// What a node was sent costs it time, even if nobody waits for the answer any more.
	// So one that was silent gets a single probe at a time, and more only after a pause
	// that doubles from firstProbe up to suspectFor.
	firstProbe = 25 * time.Millisecond
	// answersForOne is how many answers, for each request in the window, widen it by one.
	answersForOne = 4
)

// job is something to ask a node. Either run or refuse is called, once.
type job interface {
	run(n *node)
	refuse(n *node, err error)
	patience() time.Duration // for how long it would wait for the answer
}

// lanes bound the goroutines and connections that one node can bind. A goroutine
// ends when nothing waits; it takes the next job itself.
type lanes struct {
	silent    atomic.Int32          // requests in a row without any answer
	waited    atomic.Int64          // the longest that one of those waited, ns
	lastFault atomic.Int64          // when the last of those ended, Unix ns
	failure   atomic.Pointer[error] // what it ended with
	trip      atomic.Int64          // shortest round trip of late, ns
	window    atomic.Int64          // how many may run while a node is slow to answer; 0: as usual
	answers   atomic.Int64          // since the window was last changed
	probeAt   atomic.Int64          // when a suspect may be asked again, Unix ns

	worker func() // work; made once, so that go allocates nothing

	mu       sync.Mutex
	running  int       // guarded by mu
	starting int       // guarded by mu; those of them that have yet to take their first job
	rests    rests     // guarded by mu, but for the channel in it
	queue    []job     // guarded by mu; but those before first
	first    int       // guarded by mu
	halved   time.Time // guarded by mu; the window, last
}

// submit runs j on a goroutine, now or after others, or refuses it at once: above
// the cap a node counts as failed.
func (n *node) submit(j job) {
	limit, queued, suspect := n.lanes.limit(), maxQueued, n.suspect(j.patience())
	if suspect {
		limit, queued = min(limit, maxProbes), 0
		if time.Now().UnixNano() < n.probeAt.Load() {
			limit = 1
		}
	}
	n.lanes.mu.Lock()
	switch {
	case n.running < limit:
		n.running++
		if n.wakeLocked() {
			n.lanes.mu.Unlock()
			n.rests.give <- j // for a lane that is there, or about to be
			return
		}
		n.starting++
		n.queue = append(n.queue, j)
		n.lanes.mu.Unlock()
		go n.worker()
	case len(n.queue)-n.first < queued:
		n.queue = append(n.queue, j)
		n.lanes.mu.Unlock()
	default:
		n.lanes.mu.Unlock()
		if suspect {
			j.refuse(n, n.notAsked())
		} else {
			j.refuse(n, n.fault(errNodeBusy))
		}
	}
}

// notAsked is the fault of a suspect.
func (n *node) notAsked() *NodeError { return n.fault(&suspectError{*n.failure.Load()}) }

// work runs what waits, rests when nothing does, and ends when others rest already.
func (n *node) work() {
	for first := true; ; first = false {
		j, more, rest := n.next(first)
		if rest {
			j = <-n.rests.give
		}
		if j == nil {
			return
		}
		if more {
			go n.worker()
		}
		j.run(n)
	}
}

// next is what waits for a lane that has become free; nil when nothing does, and the
// lane is given up, to rest or to end. more asks for another goroutine: the window has
// grown.
func (n *node) next(first bool) (j job, more, rest bool) {
	n.lanes.mu.Lock()
	defer n.lanes.mu.Unlock()
	if first {
		n.starting--
	}
	limit := n.lanes.limit()
	if n.first == len(n.queue) || n.running > limit { // of more than the limit, others go on
		n.running--
		return nil, false, n.running < limit && n.restLocked()
	}
	j = n.queue[n.first]
	n.queue[n.first] = nil
	if n.first++; 2*n.first >= len(n.queue) {
		n.queue, n.first = slices.Delete(n.queue, 0, n.first), 0
	}
	if len(n.queue)-n.first > n.starting && n.running < limit {
		n.running++
		n.starting++
		more = true
	}
	return j, more, false
}

// suspect reports whether the node is not expected to answer within patience. That it did
// not answer others says nothing to a request that would wait for longer than they did.
func (l *lanes) suspect(patience time.Duration) bool {
	return l.silent.Load() >= suspectFaults && time.Since(time.Unix(0, l.lastFault.Load())) < suspectFor &&
		int64(patience) <= l.waited.Load()
}

// limit is how many requests may run. What counts is the way to the node, not how
// long it took of late, or a node that is overrun would be given more.
func (l *lanes) limit() int {
	usual := min(leastLanes+l.trip.Load()*lanesPerMS/int64(time.Millisecond), mostLanes)
	if window := l.window.Load(); window > 0 {
		return int(min(window, usual))
	}
	return int(usual)
}

// narrow halves what may be under way to a node that did not answer in time: a node
// that is overrun would otherwise spend its time on requests that were given up, for
// ever. Of requests that were under way together the first alone counts.
func (l *lanes) narrow(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sent.Before(l.halved) {
		return
	}
	l.halved = time.Now()
	l.window.Store(max(1, int64(min(l.running, l.limit()))/2))
}

// widen lets one more be under way for every answersForOne answers to each.
func (l *lanes) widen() {
	window := l.window.Load()
	if window == 0 {
		return
	}
	if l.answers.Add(1) < answersForOne*window {
		return
	}
	l.answers.Store(0)
	if window++; window >= mostLanes {
		window = 0
	}
	l.window.Store(window) // a lost update does not matter
}

// heard notes whether the node has answered, and how fast.
func (n *node) heard(err error, took time.Duration) {
	if err == nil || spoke(err) {
		// Creeps up, so that a way that became longer is noticed.
		if old := n.trip.Load(); old == 0 || int64(took) < old {
			n.trip.Store(int64(took))
		} else {
			n.trip.Store(old + old/1024 + 1)
		}
		if n.silent.Load() != 0 {
			n.silent.Store(0)
		}
		n.widen()
		return
	}
	now, why := time.Now(), n.fault(err).Err
	n.failure.Store(&why)
	n.lastFault.Store(now.UnixNano())
	n.wait(why, took)
	faults := n.silent.Add(1)
	if !neverSent(err) {
		n.narrow(now.Add(-took))
		if faults >= suspectFaults {
			n.probeAt.Store(now.Add(min(firstProbe<<min(faults-suspectFaults, 16), suspectFor)).UnixNano())
		}
	}
}

// wait notes how long a request waited that was not answered. There is no use in waiting
// for longer where it failed for another reason. A lost update does not matter.
func (l *lanes) wait(why error, took time.Duration) {
	var silence *silenceError
	if !errors.As(why, &silence) {
		took = math.MaxInt64
	}
	if l.silent.Load() == 0 || int64(took) > l.waited.Load() {
		l.waited.Store(int64(took))
	}
}

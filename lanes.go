package redlock

import (
	"sync"
	"sync/atomic"
	"time"
)

// How many requests may be on their way to one node, and how many may wait for one
// of those to end. A near node is busy with leastLanes; a far one needs more for the
// same rate, by its round trip. A node that has left several in a row without any answer gets a
// few probes only, so that a thousand callers do not pile up on it; the first
// answer lifts that.
const (
	leastLanes    = 64
	lanesPerMS    = 16
	mostLanes     = 1024
	maxQueued     = 4096
	maxProbes     = 16
	suspectFaults = 3
	suspectFor    = time.Second // after the last of them
)

// job is something to ask a node. Exactly one of its methods is called, once.
type job interface {
	run(n *node)
	refuse(n *node, err error)
}

// lanes bound the goroutines and connections that one node can bind. A goroutine
// ends when nothing waits; it takes the next job itself.
type lanes struct {
	silent    atomic.Int32 // requests in a row without any answer
	lastFault atomic.Int64 // when the last of those ended, Unix ns
	trip      atomic.Int64 // shortest round trip of late, ns

	mu      sync.Mutex
	running int   // guarded by mu
	queue   []job // guarded by mu
}

// submit runs j on a goroutine, now or after others, or refuses it at once: above
// the cap a node counts as failed.
func (n *node) submit(j job) {
	limit, queued, reason := n.lanes.limit(), maxQueued, errNodeBusy
	if n.suspect() {
		limit, queued, reason = maxProbes, 0, errNodeSuspect
	}
	n.lanes.mu.Lock()
	switch {
	case n.running < limit:
		n.running++
		n.lanes.mu.Unlock()
		go n.work(j)
	case len(n.queue) < queued:
		n.queue = append(n.queue, j)
		n.lanes.mu.Unlock()
	default:
		n.lanes.mu.Unlock()
		j.refuse(n, n.fault(reason))
	}
}

// enter takes a lane for a tour, if the node is near, idle and sure to answer as far
// as anybody can tell. leaveLane or work must follow.
func (n *node) enter() bool {
	if trip := n.trip.Load(); trip == 0 || time.Duration(trip) > tourReach || n.silent.Load() > 0 {
		return false
	}
	n.lanes.mu.Lock()
	defer n.lanes.mu.Unlock()
	if n.running >= tourLanes {
		return false
	}
	n.running++
	return true
}

// leaveLane gives up a lane, or what waits for one a goroutine.
func (n *node) leaveLane() {
	if j := n.next(); j != nil {
		go n.work(j)
	}
}

// work runs j, and then whatever waits.
func (n *node) work(j job) {
	for j != nil {
		j.run(n)
		j = n.next()
	}
}

// next is what waits for a lane that has become free; nil when nothing does, and the
// lane is given up.
func (n *node) next() job {
	n.lanes.mu.Lock()
	defer n.lanes.mu.Unlock()
	if len(n.queue) == 0 {
		n.queue = nil
		n.running--
		return nil
	}
	j := n.queue[0]
	n.queue[0] = nil
	n.queue = n.queue[1:]
	return j
}

// suspect reports whether the node is not expected to answer.
func (l *lanes) suspect() bool {
	return l.silent.Load() >= suspectFaults && time.Since(time.Unix(0, l.lastFault.Load())) < suspectFor
}

// limit is how many requests may run. What counts is the way to the node, not how
// long it took of late, or a node that is overrun would be given more.
func (l *lanes) limit() int {
	return int(min(leastLanes+l.trip.Load()*lanesPerMS/int64(time.Millisecond), mostLanes))
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
		return
	}
	n.lastFault.Store(time.Now().UnixNano())
	n.silent.Add(1)
}

package redlock

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/redlock/pool"
)

// tour is one goroutine that serves the near nodes of a round: it sends to all of
// them and then takes the replies in. A goroutine for each node costs the processor
// twice as much, for each has to be woken by its own reply.
//
// A reply that does not come holds up those behind it. Hence a tour visits only nodes
// that answered their last requests, and fast; and when one of them keeps it waiting
// all the same, split gives the others goroutines of their own.
type tour struct {
	rd      *round
	visited nodeSet

	mu    sync.Mutex
	stops []stop // nearest node first
	few   [fewNodes]stop
}

// stop is one node of a tour.
type stop struct {
	n *node
	c *call

	taken   bool         // guarded by tour.mu; whoever sets it sees to the node
	pending pool.Pending // guarded by tour.mu; nil: not sent yet
	sent    time.Time
	reply   [8]int64
}

const (
	// tourReach is how far away a node may be: beyond that, the way is what counts.
	tourReach = time.Millisecond
	// tourLanes is how many requests may be under way to a node that a tour visits. To a
	// busier one, requests share what it costs to send them.
	tourLanes = 4
	// tourPatience is how long a tour is left alone, beyond four times the way.
	tourPatience = 500 * time.Microsecond
)

// plan decides which nodes to visit.
func (t *tour) plan(rd *round) {
	t.rd = rd
	q, ok := rd.question.(shortQuestion)
	if !ok {
		return
	}
	for i, n := range rd.nodes {
		if n.starter == nil || !n.enter() {
			continue
		}
		c := q.short(n)
		if c == nil || len(c.names) > 1 {
			n.leaveLane()
			continue
		}
		if t.stops == nil {
			t.stops = t.few[:0] // more nodes make it grow
		}
		t.stops = append(t.stops, stop{n: n, c: c})
		t.visited.add(i)
	}
	slices.SortStableFunc(t.stops, func(a, b stop) int { return int(a.n.trip.Load() - b.n.trip.Load()) })
}

// patience is when to split the tour.
func (t *tour) patience() time.Duration {
	if len(t.stops) == 0 {
		return math.MaxInt64
	}
	return tourPatience + 4*time.Duration(t.stops[len(t.stops)-1].n.trip.Load())
}

// run is the goroutine of the tour.
func (t *tour) run() {
	for i := range t.stops {
		if s := &t.stops[i]; t.take(s) {
			sent := time.Now()
			pending := s.n.starter.Start(&t.rd.limit, s.c.script.Script, s.c.first, s.reply[:0])
			t.mu.Lock()
			s.taken, s.sent, s.pending = false, sent, pending
			t.mu.Unlock()
		}
	}
	for i := range t.stops {
		if s := &t.stops[i]; t.take(s) {
			t.serve(s)
		}
	}
}

// split serves whatever the tour has not come to by now.
func (t *tour) split() {
	for i := range t.stops {
		s := &t.stops[i]
		switch {
		case !t.take(s):
		case s.pending == nil:
			go s.n.work(t.rd)
		default:
			go t.serve(s)
		}
	}
}

func (t *tour) take(s *stop) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.taken {
		return false
	}
	s.taken = true
	return true
}

// serve takes in the reply of a node that was asked.
func (t *tour) serve(s *stop) {
	ints, err := s.pending.Wait()
	t.rd.arrived(s.n, s.n.read(&t.rd.limit, s.c, s.sent, ints, err))
	t.rd.tasks.done()
	s.n.leaveLane()
}

package demo

import (
	"slices"
	"sync"
	"time"
)

// timeline is what happened when, for the page. A nil timeline records nothing.
type timeline struct {
	started time.Time

	mu      sync.Mutex
	spans   []span   // guarded by mu; of workers
	changes []change // guarded by mu; of nodes and the network
	events  []event  // guarded by mu
	dropped int      // guarded by mu; spans past maxSpans
}

// maxSpans bounds the memory of a long run; it is some minutes of one.
const maxSpans = 400_000

// span is a time that a worker waited for the lock, or held it.
type span struct {
	worker   int
	held     bool
	token    int64 // of one that held it
	from, to time.Duration
}

// change is a new state of a node; of the network for node networkLane.
type change struct {
	at    time.Duration
	node  int
	state string
}

const (
	networkLane = nodeCount
	splitState  = "split"
)

func newTimeline() *timeline { return &timeline{started: time.Now()} }

func (t *timeline) add(worker int, held bool, token int64, from, to time.Time) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.spans) >= maxSpans {
		t.dropped++
		return
	}
	t.spans = append(t.spans, span{worker, held, token, from.Sub(t.started), to.Sub(t.started)})
}

func (t *timeline) change(node int, state string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changes = append(t.changes, change{time.Since(t.started), node, state})
}

func (t *timeline) event(at time.Duration, text string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, event{at, text})
}

// fault is a time that a node, or the network, was not as it should be.
type fault struct {
	node     int
	state    string
	from, to time.Duration
}

// faults pairs the changes up; one that was never mended lasts until the end.
func (t *timeline) faults(end time.Duration) []fault {
	var out []fault
	open := map[int]fault{}
	for _, c := range t.changes {
		if f, is := open[c.node]; is {
			f.to = c.at
			out = append(out, f)
			delete(open, c.node)
		}
		if c.state != "" {
			open[c.node] = fault{c.node, c.state, c.at, end}
		}
	}
	for _, f := range open {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b fault) int { return int(a.from - b.from) })
	return out
}

// holds are the times that somebody held the lock, in the order they began.
func (t *timeline) holds() []span {
	var out []span
	for _, s := range t.spans {
		if s.held {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b span) int { return int(a.from - b.from) })
	return out
}

// overlaps are the times that two held it together.
func overlaps(holds []span) (out []span) {
	var last span
	for i, s := range holds {
		if i > 0 && s.from < last.to {
			out = append(out, span{worker: s.worker, held: true, token: s.token, from: s.from, to: min(s.to, last.to)})
		}
		if s.to > last.to {
			last = s
		}
	}
	return out
}

// longestGap is the longest time between two holders.
func longestGap(holds []span) (from, to time.Duration) {
	for i := 1; i < len(holds); i++ {
		if a, b := holds[i-1].to, holds[i].from; b-a > to-from {
			from, to = a, b
		}
	}
	return from, to
}

package demo

import (
	"slices"
	"sync"
	"time"
)

// board is the state of the faults, for the view.
type board struct {
	events chan event

	mu     sync.Mutex
	nodes  []string // guarded by mu
	split  bool     // guarded by mu
	faults int      // guarded by mu
}

type event struct {
	at   time.Duration
	text string
}

const healthy = "up"

func (b *board) reset() {
	b.events = make(chan event, 64)
	b.nodes = slices.Repeat([]string{healthy}, nodeCount)
}

func (b *board) set(node int, state string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if state == "" {
		state = healthy
	}
	b.nodes[node] = state
}

func (b *board) setSplit(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.split = on
}

// announce tells the view. One that is slow misses an event rather than delay the
// faults.
func (b *board) announce(at time.Duration, text string, fault bool) {
	b.mu.Lock()
	if fault {
		b.faults++
	}
	b.mu.Unlock()
	select {
	case b.events <- event{at, text}:
	default:
	}
}

func (b *board) read() (nodes []string, split bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.nodes), b.split
}

func (b *board) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.faults
}

package redlock

import (
	"sync"
	"time"
)

// reached reports whether now is at or past until by either clock. The monotonic
// clock stands still while a machine is suspended, the wall clock can be set
// back: whichever says later is believed.
func reached(now, until time.Time) bool {
	return !now.Before(until) || !now.Round(0).Before(until.Round(0))
}

// drift is what clocks may differ over d, plus 2 ms for the resolution of expiry
// on the node (redis.io "Distributed Locks with Redis").
func drift(d time.Duration, factor float64) time.Duration {
	return time.Duration(float64(d)*factor) + 2*time.Millisecond
}

// lease is the ledger of one grant: until when each node is known to keep it.
// The grant is valid while a quorum of entries lies ahead. The first instant
// without is terminal: an entry that comes later must not bring the grant back,
// for someone else may have had the lock in between.
type lease struct {
	mu     sync.Mutex
	until  []time.Time // guarded by mu; by node, zero: it does not hold it
	quorum int
	begun  bool // guarded by mu; it was seen with a quorum
	ended  bool // guarded by mu
	// adopted grants are owned without having been acquired here; their ledger
	// begins with the first quorum of entries.
	adopted bool // guarded by mu

	few [fewNodes]time.Time // until, of few nodes
}

func newLease(nodes, quorum int) *lease {
	l := &lease{quorum: quorum}
	if nodes <= fewNodes {
		l.until = l.few[:nodes]
	} else {
		l.until = make([]time.Time, nodes)
	}
	return l
}

// record notes that node i keeps the grant at least until then. begin lets the
// entries of an acquire in until there has been a quorum of them.
func (l *lease) record(i int, until, now time.Time, begin bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if (!begin || l.begun) && !l.aliveLocked(now) {
		return
	}
	// Nodes never shorten a life, so neither does the ledger.
	if l.until[i].Before(until) {
		l.until[i] = until
	}
}

// entry is until when the ledger counts on node i; zero when it does not.
func (l *lease) entry(i int) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until[i]
}

// drop notes that node i does not keep the grant.
func (l *lease) drop(i int, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until[i] = time.Time{}
	l.aliveLocked(now)
}

// end makes the lease terminal.
func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

// alive reports whether the grant is valid at now, once and for all if not.
func (l *lease) alive(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.aliveLocked(now)
}

func (l *lease) aliveLocked(now time.Time) bool {
	if l.ended {
		return false
	}
	if l.countLocked(now) >= l.quorum {
		l.adopted, l.begun = false, true
		return true
	}
	if l.adopted {
		return true
	}
	l.ended = true
	return false
}

// validAt reports whether the grant is still valid at t if nothing more comes in.
// Unlike alive it may ask about a moment to come.
func (l *lease) validAt(t time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.ended && l.countLocked(t) >= l.quorum
}

// holds reports whether the ledger counts on node i at now.
func (l *lease) holds(i int, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.adopted || !l.until[i].IsZero() && !reached(now, l.until[i])
}

// count is the number of nodes the ledger counts on at now.
func (l *lease) count(now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.countLocked(now)
}

func (l *lease) countLocked(now time.Time) int {
	n := 0
	for _, until := range l.until {
		if !until.IsZero() && !reached(now, until) {
			n++
		}
	}
	return n
}

// validity is the end of the grant: the quorum-th latest entry, zero when there
// is no quorum of entries or the lease has ended.
func (l *lease) validity() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return time.Time{}
	}
	// A handful of nodes: counting beats sorting a copy.
	for _, candidate := range l.until {
		if candidate.IsZero() {
			continue
		}
		later, same := 0, 0
		for _, until := range l.until {
			switch {
			case until.After(candidate):
				later++
			case until.Equal(candidate):
				same++
			}
		}
		if later < l.quorum && later+same >= l.quorum {
			return candidate
		}
	}
	return time.Time{}
}

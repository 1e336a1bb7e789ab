package redlock

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// skewBound (S) is how far a ballot may lie from a node's clock, and retention
// (R) how long a node remembers the highest ballot of an idle name. R must exceed
// 3S: a request may be accepted S after its ballot, release raises the fence by
// up to 2S, and whatever is accepted later is then above it by the clock alone.
const (
	skewBound = 5 * time.Second
	retention = 20 * time.Second
)

// ballots proposes ballots: microseconds by the nodes' clocks, not the client's.
type ballots struct {
	start   time.Time // the client's clock is start + monotonic time since
	startUS int64
	last    atomic.Int64

	mu      sync.Mutex
	offsets []offset // guarded by mu; a node's clock less the client's
	median  int64    // guarded by mu; lower median of the known offsets, 0 if none
}

type offset struct {
	known bool
	mid   int64 // taking the reply to have been made half way through the call
	low   int64 // taking it to have been made as late as possible
}

func newBallots(nodes int) *ballots {
	now := time.Now()
	return &ballots{start: now, startUS: now.UnixMicro(), offsets: make([]offset, nodes)}
}

// client is the client's clock at t.
func (b *ballots) client(t time.Time) int64 { return b.startUS + t.Sub(b.start).Microseconds() }

// nodes is the median of the nodes' clocks at t.
func (b *ballots) nodes(t time.Time) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.client(t) + b.median
}

// next is a fresh ballot above floor, and above the last one unless that was made
// before the nodes' clocks were known, or by clocks that were set back since.
func (b *ballots) next(floor int64) int64 {
	fresh := max(b.nodes(time.Now()), floor) + 1
	for {
		last, p := b.last.Load(), fresh
		if last >= p && last-p <= (skewBound/2).Microseconds() {
			p = last + 1
		}
		if b.last.CompareAndSwap(last, p) {
			return p
		}
	}
}

// learn takes in that node i's clock read now between sent and received, and
// reports whether that clock and the fence it showed may count: see fitsLocked.
func (b *ballots) learn(i int, now, fence int64, sent, received time.Time) (fits bool) {
	s, r := b.client(sent), b.client(received)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.offsets[i] = offset{known: true, mid: now - (s+r)/2, low: now - r}
	var buf [16]int64
	known := buf[:0]
	for _, o := range b.offsets {
		if o.known {
			known = append(known, o.mid)
		}
	}
	slices.Sort(known)
	b.median = known[(len(known)-1)/2]
	return b.fitsLocked(max(now, fence), r)
}

// fitsLocked reports whether a clock or fence, seen at a time of the client's, lies no
// more than S/2 above that of most nodes. What lies further could win alone, or lock a
// name out: what the rest accepts must never be out of its own bound. A majority of
// all nodes has to be known to be below, or whoever is behind would speak first and
// condemn the others.
func (b *ballots) fitsLocked(us, client int64) bool {
	below := 0
	for _, o := range b.offsets {
		if o.known && us > client+o.mid+(skewBound/2).Microseconds() {
			below++
		}
	}
	return below <= len(b.offsets)/2
}

// usable reports whether a fence may be outbid.
func (b *ballots) usable(fence int64) bool {
	now := b.client(time.Now())
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fitsLocked(fence, now)
}

// at is node i's clock at t, or some moment before; 0 when the node has not
// been heard.
func (b *ballots) at(i int, t time.Time) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.offsets[i].known {
		return 0
	}
	return b.client(t) + b.offsets[i].low
}

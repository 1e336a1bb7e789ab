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

// ballots proposes ballots: microseconds by the nodes' clocks, not the client's,
// and never the same one twice.
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

// next is a fresh ballot above floor.
func (b *ballots) next(floor int64) int64 {
	p := max(b.nodes(time.Now()), floor) + 1
	for {
		last := b.last.Load()
		p = max(p, last+1)
		if b.last.CompareAndSwap(last, p) {
			return p
		}
	}
}

// learn takes in that node i's clock read now between sent and received, and
// reports whether that clock, or the fence it showed, lies so far above the other
// nodes that the node must not count: S/2, so that what the rest accepts is never
// out of its own bound.
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
	limit := r + b.median + (skewBound / 2).Microseconds()
	return now <= limit && fence <= limit
}

// usable reports whether a fence may be outbid: see learn.
func (b *ballots) usable(fence int64) bool {
	return fence <= b.nodes(time.Now())+(skewBound/2).Microseconds()
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

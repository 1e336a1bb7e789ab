package redlock

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// refusal is an attempt that did not win: what the nodes said, and what it means.
type refusal struct {
	err      error // ErrNoQuorum or a *TakenError
	faults   []error
	hopeless bool // faults that need mending rule out a quorum
	// free is when a quorum of nodes will be free if no holder renews, negative when
	// that cannot be told.
	free   time.Duration
	rank   int64 // best place in a queue, -1 when in none
	split  bool  // no holder is seen on a quorum: nobody may be there to call
	held   bool  // one holder was seen on a quorum: it is there
	behind int   // holders seen whose ballots are lower than the attempt's
	ballot int64 // the attempt's
}

// taken is what the refusal says of a holder, nil if nothing.
func (no *refusal) taken() *TakenError {
	t, _ := no.err.(*TakenError) //nolint:errorlint // it is never wrapped here
	return t
}

// judge says why the replies to ballot p make no grant.
func (m *Mutex) judge(replies []reply, p int64) *refusal {
	no := &refusal{faults: failed(replies), rank: -1, free: -1, ballot: p}
	taken := &TakenError{Name: m.name}
	free := make([]int64, 0, len(replies)) // ms until each node is free
	mend, longest, unheard := 0, int64(0), false
	holders := holders{}
	for i := range replies {
		a := &replies[i]
		switch {
		case a.err != nil:
			free = append(free, math.MaxInt64)
			if permanent(a.err) {
				mend++
			}
		case a.code == codeQuarantined:
			free = append(free, a.ttl)
			no.faults = append(no.faults, m.r.nodes[i].fault(&quarantineError{time.Duration(a.ttl) * time.Millisecond}))
		case a.code == codeStale && a.now < p-skewBound.Microseconds():
			free = append(free, math.MaxInt64)
			no.faults = append(no.faults, m.r.nodes[i].fault(fmt.Errorf("%w: behind", errNodeClock)))
		case a.code == codeBusy:
			taken.Nodes = append(taken.Nodes, i)
			holders[a.ballot]++
			if a.last >= 0 && (no.rank < 0 || a.last < no.rank) {
				no.rank = a.last
			}
			if a.ttl < 0 {
				free = append(free, math.MaxInt64)
				taken.TTL = -1
			} else {
				free = append(free, a.ttl)
				longest = max(longest, a.ttl)
			}
		default:
			free = append(free, 0)
			unheard = unheard || a.code == 0
		}
	}
	taken.Token = holders.first()
	slices.Sort(free)
	if f := free[m.r.quorum-1]; f < math.MaxInt64/int64(time.Millisecond) {
		no.free = time.Duration(f) * time.Millisecond
		taken.TTL = no.free
		if unheard && f == 0 { // the holder may well have the others, too
			taken.TTL = time.Duration(longest) * time.Millisecond
		}
	}
	spare := len(replies) - m.r.quorum
	no.hopeless = mend > spare
	if len(no.faults) > spare {
		no.err = ErrNoQuorum
		return no
	}
	no.err = taken
	no.split = true
	for ballot, n := range holders {
		if ballot < p {
			no.behind++
		}
		// Nodes at fault are counted for the holder: it may be there.
		if n+len(no.faults) >= m.r.quorum {
			no.split = false
		}
		no.held = no.held || n >= m.r.quorum
	}
	return no
}

// holders is how many nodes hold a ballot.
type holders map[int64]int

// first is the ballot on the most nodes, of several the highest: another on a node or
// two is of an attempt that is about to be undone, and may be the caller's own.
func (h holders) first() (ballot int64) {
	for b, n := range h {
		if most := h[ballot]; n > most || n == most && b > ballot {
			ballot = b
		}
	}
	return ballot
}

// outbid finds the fence to go above, where nodes that called the ballot stale
// could still make a quorum with those that did not refuse.
func (m *Mutex) outbid(replies []reply) (floor int64, ok bool) {
	refused, stale := 0, false
	for i := range replies {
		a := &replies[i]
		switch {
		case a.err != nil || a.code == codeBusy || a.code == codeQuarantined:
			refused++
		case a.code == codeStale:
			stale = true
			if m.r.clock.usable(a.fence) {
				floor = max(floor, a.fence)
			}
		}
	}
	return floor, stale && refused <= len(replies)-m.r.quorum
}

// lostTo says why the replies to a release or touch are no quorum. over: the grant has
// ended by them, although too few said so for themselves.
func (m *Mutex) lostTo(ctx context.Context, replies []reply, over bool, missing, other int) []error {
	faulty := failed(replies)
	why := []error{ErrNoQuorum}
	gone := 0
	for i := range replies {
		if a := &replies[i]; a.err == nil && (a.code == missing || a.code == other) {
			gone++
		}
	}
	switch taken := m.takenBy(replies, other); {
	case over && gone+m.r.quorum <= len(replies):
		why = []error{ErrExpired, ErrNoQuorum}
	case ctx.Err() != nil && len(faulty) > 0:
		why = []error{ctx.Err()}
	case gone+m.r.quorum <= len(replies): // enough others might have said yes
	case taken != nil:
		why = []error{taken}
	default:
		why = []error{ErrExpired}
	}
	return append(why, faults(faulty))
}

// takenBy is a *TakenError of the nodes that replied with code, nil if none did.
func (m *Mutex) takenBy(replies []reply, code int) error {
	t := &TakenError{Name: m.name}
	holders := holders{}
	for i := range replies {
		a := &replies[i]
		if a.err != nil || a.code != code {
			continue
		}
		t.Nodes = append(t.Nodes, i)
		holders[a.ballot]++
		if ttl := time.Duration(a.ttl) * time.Millisecond; ttl < 0 || t.TTL < 0 {
			t.TTL = -1
		} else {
			t.TTL = max(t.TTL, ttl)
		}
	}
	if t.Nodes == nil {
		return nil
	}
	t.Token = holders.first()
	return t
}

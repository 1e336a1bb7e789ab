package redlock

import "time"

// To start a goroutine for each request is cheap, but it starts with a small stack, and
// copies it as it grows down to the wire: an eighth of what a client spends on a lock.
// So a few lanes of each node rest when nothing waits, and are given the next request.
const (
	mostResting = 8
	// A lane that was not needed for this long goes, within twice the time.
	restFor = time.Second
)

// rests are the lanes of a node that wait for a job. They are guarded by the mutex of
// the lanes.
type rests struct {
	give   chan job // takes a job to one of them; nil sends it away
	n      int      // how many there are
	unused int      // how many there were at least, since the last look
	look   *time.Timer
	looks  bool // look is set
	over   bool // none may rest any more
}

// restLocked reports whether a lane that has nothing to do may wait for the next job.
func (l *lanes) restLocked() bool {
	r := &l.rests
	if r.over || r.n == mostResting {
		return false
	}
	r.n++
	switch {
	case r.look == nil:
		r.look = time.AfterFunc(restFor, l.sendAway)
	case !r.looks:
		r.look.Reset(restFor)
	}
	r.looks = true
	return true
}

// wakeLocked reports whether a lane rests; it is to be given a job without the lock.
func (l *lanes) wakeLocked() bool {
	r := &l.rests
	if r.n == 0 {
		return false
	}
	r.n--
	r.unused = min(r.unused, r.n)
	return true
}

// sendAway ends the lanes that nobody needed since it last looked.
func (l *lanes) sendAway() {
	l.mu.Lock()
	r := &l.rests
	idle := r.unused
	r.n -= idle
	r.unused = r.n
	if r.looks = r.n > 0; r.looks {
		r.look.Reset(restFor)
	}
	l.mu.Unlock()
	for range idle {
		r.give <- nil // each is there, or about to be
	}
}

// endRest ends the lanes that rest, and lets no other.
func (l *lanes) endRest() {
	l.mu.Lock()
	r := &l.rests
	idle := r.n
	r.n, r.unused, r.over = 0, 0, true
	if r.look != nil {
		r.look.Stop()
	}
	l.mu.Unlock()
	for range idle {
		r.give <- nil
	}
}

package redlock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// turns lets one waiter per name ask the nodes, in the order of arrival. The
// others of this process wait here and cost the nodes nothing.
type turns struct {
	mu    sync.Mutex
	names map[line]*turnQueue // guarded by mu; an entry while somebody has the turn
	spare *turnQueue          // guarded by mu; of a name that is free again
}

// line is what turns are for: a name, or the set of several.
type line struct {
	name string
	set  bool
}

// lineOf is the line of several names. Each has its length in front, for a name may
// hold any byte.
func lineOf(names []string) line {
	var all strings.Builder
	for _, name := range names {
		fmt.Fprintf(&all, "%d:%s", len(name), name)
	}
	return line{name: all.String(), set: true}
}

type turnQueue struct {
	waiting []*standing
	taken   error // what the last to fail said of the holder
}

// standing is one in line.
type standing struct {
	demands demands
	come    chan struct{} // closed when the turn has come, or will not
	no      *refusal      // set before come is closed: the turn will not come, for this reason
}

// turn is the right to ask the nodes for a name.
type turn struct {
	t    *turns
	line line
}

// enter waits for the turn.
func (t *turns) enter(ctx context.Context, m *Mutex) (turn, error) {
	mine := turn{t: t, line: m.line}
	t.mu.Lock()
	q, busy := t.names[m.line]
	if !busy {
		if q = t.spare; q == nil {
			q = &turnQueue{}
		}
		t.spare, t.names[m.line] = nil, q
		t.mu.Unlock()
		return mine, nil
	}
	s := &standing{demands: m.demands(), come: make(chan struct{})}
	q.waiting = append(q.waiting, s)
	t.mu.Unlock()
	var err error
	select {
	case <-s.come:
		return mine, m.refused(ctx, s.no)
	case <-ctx.Done():
		err = ctx.Err()
	case <-m.r.closing:
		err = ErrClosed
	}
	t.mu.Lock()
	if i := slices.Index(q.waiting, s); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		t.mu.Unlock()
	} else {
		// The turn came at the same moment: whoever is next must not miss it.
		t.mu.Unlock()
		if s.no == nil {
			mine.leave()
		}
	}
	return turn{}, fail("lock", m.name, ErrFailed, err, t.seen(m.line))
}

// note keeps what the one whose turn it is was told of the holder, for those who
// give up without having asked.
func (t *turns) note(l line, taken error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.names[l].taken = taken
}

func (t *turns) seen(l line) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.names[l]; q != nil && q.taken != nil {
		return q.taken
	}
	return nil
}

// leave gives the turn to the next in line.
func (t turn) leave() {
	t.t.mu.Lock()
	defer t.t.mu.Unlock()
	q := t.t.names[t.line]
	if len(q.waiting) == 0 {
		delete(t.t.names, t.line)
		*q = turnQueue{}
		t.t.spare = q
		return
	}
	close(q.waiting[0].come)
	q.waiting = q.waiting[1:]
}

// fail sends those away who would only be refused for the same reason, because they
// demand the same of the nodes.
func (t turn) fail(no *refusal, d demands) {
	t.t.mu.Lock()
	defer t.t.mu.Unlock()
	q := t.t.names[t.line]
	q.waiting = slices.DeleteFunc(q.waiting, func(s *standing) bool {
		if s.demands != d {
			return false
		}
		s.no = no
		close(s.come)
		return true
	})
}

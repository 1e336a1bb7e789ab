package redlockotel

import (
	"container/list"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// maxHolds bounds how many grants are remembered. Some are never unlocked but left
// to expire, which nobody tells an observer.
const maxHolds = 65536

// A hold is one grant, from its lock to its unlock.
type hold struct {
	name    string
	token   int64
	span    trace.Span
	parent  trace.SpanContext // of the call of lock
	started time.Time

	over  bool          // guarded by holds.mu; its span has ended, the unlock is still to come
	place *list.Element // guarded by holds.mu
}

// holds are the grants that were not unlocked yet.
type holds struct {
	mu     sync.Mutex
	limit  int
	byName map[string][]*hold // guarded by mu; the latest last
	order  *list.List         // guarded by mu; of *hold, the oldest first
}

func newHolds() *holds {
	return &holds{limit: maxHolds, byName: map[string][]*hold{}, order: list.New()}
}

// add returns the hold that had to make room, if its span has not ended.
func (s *holds) add(h *hold) (forgotten *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.order.Len() >= s.limit {
		oldest := s.order.Front().Value.(*hold)
		s.removeLocked(oldest)
		if !oldest.over {
			forgotten = oldest
		}
	}
	h.place = s.order.PushBack(h)
	s.byName[h.name] = append(s.byName[h.name], h)
	return forgotten
}

func (s *holds) removeLocked(h *hold) {
	s.order.Remove(h.place)
	rest := s.byName[h.name]
	for i, other := range rest {
		if other == h {
			rest = append(rest[:i:i], rest[i+1:]...)
			break
		}
	}
	if len(rest) == 0 {
		delete(s.byName, h.name)
	} else {
		s.byName[h.name] = rest
	}
}

// of is the hold with the token, nil if there is none.
func (s *holds) of(name string, token int64) *hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.byName[name] {
		if h.token == token {
			return h
		}
	}
	return nil
}

// near is the hold that a call within the span of caller is about: the latest of
// the name that was locked within the same span, or, for a call within none, the
// latest. It is a guess only where the process has several unfinished grants of one
// name, all but one of which have run out.
func (s *holds) near(name string, caller trace.SpanContext) *hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.byName[name]
	for i := len(all) - 1; i >= 0; i-- {
		if !caller.IsValid() || all[i].parent.Equal(caller) {
			return all[i]
		}
	}
	return nil
}

// finish reports whether h ends now: a lost hold has ended before its unlock comes.
func (s *holds) finish(h *hold, unlocked bool) (ends bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ends = !h.over
	h.over = true
	if unlocked && h.place != nil {
		s.removeLocked(h)
		h.place = nil
	}
	return ends
}

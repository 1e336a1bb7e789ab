package batch

import (
	"context"
	"sync"
	"time"
)

// shared is the context of a batch of several. It ends when the last of them has no
// time left: one that is cancelled must not end it for the others. It makes a channel
// and a timer only for a client that asks for Done; one that hands the deadline to its
// socket never does.
type shared struct {
	context.Context // of the member with the most time, for its values
	deadline        time.Time
	limited         bool // there is a deadline

	mu    sync.Mutex
	err   error         // guarded by mu
	done  chan struct{} // guarded by mu; nil until asked for
	timer *time.Timer   // guarded by mu; ends it at the deadline
}

func newShared(members []*Call) *shared {
	s := &shared{Context: members[0].Ctx}
	s.deadline, s.limited = s.Context.Deadline()
	for _, c := range members[1:] {
		deadline, limited := c.Ctx.Deadline()
		if s.limited && (!limited || deadline.After(s.deadline)) {
			s.Context, s.deadline, s.limited = c.Ctx, deadline, limited
		}
	}
	return s
}

func (s *shared) Deadline() (time.Time, bool) { return s.deadline, s.limited }

func (s *shared) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && s.limited && !time.Now().Before(s.deadline) {
		s.endLocked(context.DeadlineExceeded)
	}
	return s.err
}

func (s *shared) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == nil {
		s.done = make(chan struct{})
		switch {
		case s.err != nil:
			close(s.done)
		case s.limited:
			s.timer = time.AfterFunc(time.Until(s.deadline), func() { s.end(context.DeadlineExceeded) })
		}
	}
	return s.done
}

// end ends the context, once, and frees its timer.
func (s *shared) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(err)
}

func (s *shared) endLocked(err error) {
	if s.err != nil {
		return
	}
	s.err = err
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.done != nil {
		close(s.done)
	}
}

package redlock

import (
	"context"
	"slices"
	"sync"
)

// turns lets one waiter per name ask the nodes, in the order of arrival. The
// others of this process wait here and cost the nodes nothing.
type turns struct {
	mu    sync.Mutex
	names map[string]*turnQueue // guarded by mu; an entry while somebody has the turn
}

type turnQueue struct {
	waiting []chan struct{} // closed when the turn comes
	taken   error           // what the last to fail said of the holder
}

// turn is the right to ask the nodes for a name.
type turn struct {
	t    *turns
	name string
}

// enter waits for the turn.
func (t *turns) enter(ctx context.Context, m *Mutex) (turn, error) {
	mine := turn{t: t, name: m.name}
	t.mu.Lock()
	q, busy := t.names[m.name]
	if !busy {
		t.names[m.name] = &turnQueue{}
		t.mu.Unlock()
		return mine, nil
	}
	come := make(chan struct{})
	q.waiting = append(q.waiting, come)
	t.mu.Unlock()
	var err error
	select {
	case <-come:
		return mine, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-m.r.closing:
		err = ErrClosed
	}
	t.mu.Lock()
	if i := slices.Index(q.waiting, come); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		t.mu.Unlock()
	} else {
		// The turn came at the same moment: whoever is next must not miss it.
		t.mu.Unlock()
		mine.leave()
	}
	return turn{}, fail("lock", m.name, ErrFailed, err, t.seen(m.name))
}

// note keeps what the one whose turn it is was told of the holder, for those who
// give up without having asked.
func (t *turns) note(name string, taken error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.names[name].taken = taken
}

func (t *turns) seen(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.names[name]; q != nil && q.taken != nil {
		return q.taken
	}
	return &TakenError{Name: name}
}

// leave gives the turn to the next in line.
func (t turn) leave() {
	t.t.mu.Lock()
	defer t.t.mu.Unlock()
	q := t.t.names[t.name]
	if len(q.waiting) == 0 {
		delete(t.t.names, t.name)
		return
	}
	close(q.waiting[0])
	q.waiting = q.waiting[1:]
}

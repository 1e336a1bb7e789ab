package demo

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// witness stands in the critical section and sees who comes and goes. It is told
// nothing by the library but the token, and trusts none of it.
type witness struct {
	inside    atomic.Int64
	lastToken atomic.Int64
	current   atomic.Pointer[visit]

	overlaps, disorder atomic.Int64

	// ledger is a counter that is read on entry and written on leaving: two that
	// are inside together lose one of their updates.
	ledger, entries atomic.Int64

	mu   sync.Mutex
	seen []string // the first violations, in words
}

// maxSeen keeps a broken run from being a long story.
const maxSeen = 5

type visit struct {
	worker int
	token  int64
	ledger int64
}

func (w *witness) enter(worker int, token int64) *visit {
	v := &visit{worker: worker, token: token}
	others := w.inside.Add(1) - 1
	before := w.current.Swap(v)
	last := w.lastToken.Swap(token)
	w.entries.Add(1)
	v.ledger = w.ledger.Load()
	if others > 0 {
		w.overlaps.Add(1)
		text := "somebody else is inside"
		if before != nil {
			text = fmt.Sprintf("%s (token %d) is inside", workerName(before.worker), before.token)
		}
		w.note("%s (token %d) entered while %s", workerName(worker), token, text)
	}
	if token <= last {
		w.disorder.Add(1)
		w.note("%s entered with token %d after token %d", workerName(worker), token, last)
	}
	return v
}

func (w *witness) leave(v *visit) {
	w.ledger.Store(v.ledger + 1)
	w.current.CompareAndSwap(v, nil)
	w.inside.Add(-1)
}

// lostUpdates is right when nobody is inside.
func (w *witness) lostUpdates() int64 { return w.entries.Load() - w.ledger.Load() }

func (w *witness) holder() string {
	v := w.current.Load()
	if v == nil {
		return ""
	}
	return fmt.Sprintf("%s, token %d", workerName(v.worker), v.token)
}

func (w *witness) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.seen) < maxSeen {
		w.seen = append(w.seen, fmt.Sprintf(format, args...))
	}
}

func (w *witness) violations() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.seen...)
}

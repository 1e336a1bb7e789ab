package doctor

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/pool"
)

// queueBound is for one step of the queue.
const queueBound = 3 * time.Second

// queue has two more clients wait for a lock that the first one holds: one gives up, and
// is called when it no longer waits; then it waits again, is handed the lock, and hands
// it on to the other. Only a release by one who has waited runs all of a release.
func (t *Trial) queue(ctx context.Context, n Node, locks *redlock.Redlock, name string) {
	if _, ok := n.Pool.(pool.Subscriber); !ok {
		return
	}
	holder := locks.NewMutex(name)
	if _, err := holder.Hold(ctx); err != nil {
		t.HandOver = text(err)
		return
	}
	bounded, cancel := context.WithTimeout(ctx, 3*queueBound)
	defer cancel()
	var waiters []*waiter
	ended := make(chan *waiter, 2)
	for range cap(ended) {
		w, err := newWaiter(n, name)
		if err != nil {
			t.Wait = text(err)
			return
		}
		defer closeSoon(w.locks)
		if len(waiters) == 0 {
			member := t.giveUp(ctx, w)
			if member == "" {
				break
			}
			t.callLate(ctx, w.node, name, member)
		}
		w.lockSoon(bounded, ended)
		waiters = append(waiters, w)
		if t.place(bounded, w.node) == "" {
			break
		}
	}
	_, err := holder.UnlockContext(ctx)
	t.HandOver = text(err)
	for range waiters {
		w := <-ended // where nobody can be called, either may be the first
		if w.err != nil {
			if t.Wait == "" {
				t.Wait = text(w.err)
			}
		} else if _, err := w.UnlockContext(ctx); err != nil && t.HandOver == "" {
			t.HandOver = text(err)
		}
	}
}

// waiter is a client that waits for a lock.
type waiter struct {
	*redlock.Mutex
	locks *redlock.Redlock
	node  *tap
	err   error // of the last lockSoon
}

func newWaiter(n Node, name string) (*waiter, error) {
	w := &waiter{node: newTap(n.Pool)}
	var err error
	if w.locks, err = redlock.New([]pool.Pool{w.node}, trialOptions()...); err != nil {
		return nil, err
	}
	w.Mutex = w.locks.NewMutex(name)
	return w, nil
}

func (w *waiter) lockSoon(ctx context.Context, ended chan<- *waiter) {
	go func() {
		w.err = w.LockContext(ctx)
		ended <- w
	}()
}

// place returns the waiter's member, "" where it got no place.
func (t *Trial) place(ctx context.Context, node *tap) (member string) {
	ctx, cancel := context.WithTimeout(ctx, queueBound)
	defer cancel()
	a, found := node.await(ctx, queuing)
	switch {
	case !found:
		t.Queue = "a waiter asked for no place in the queue in time"
	case a.err != nil:
		t.Wait = text(a.err)
	case a.reply[rankInBusy] < 0:
		t.Queue = "ZADD: a waiter got no place in the queue"
	default:
		return a.member
	}
	return ""
}

// giveUp waits and goes away again. It returns the place that there was.
func (t *Trial) giveUp(ctx context.Context, w *waiter) (member string) {
	bounded, cancel := context.WithCancel(ctx)
	ended := make(chan *waiter, 1)
	w.lockSoon(bounded, ended)
	member = t.place(bounded, w.node)
	cancel()
	if w = <-ended; w.err == nil {
		t.Wait = "a lock that is held was granted to a second client"
		return ""
	}
	if member != "" {
		if code := t.left(ctx, w.node, member); code != hasLeft && t.Leave == "" {
			t.Leave = "a waiter that gave up was not found in the queue"
		}
	}
	return member
}

// callLate calls a waiter that is there no more: the call has to be passed on.
func (t *Trial) callLate(ctx context.Context, node *tap, name, member string) {
	const nobody = "1" // a ticket is a time, and this one is long ago
	channel, _, _ := strings.Cut(member, "#")
	node.call(nobody + " " + name)
	t.left(ctx, node, channel+"#"+nobody)
}

// left notes how a member's leaving went, and returns the script's code.
func (t *Trial) left(ctx context.Context, node *tap, member string) (code int64) {
	ctx, cancel := context.WithTimeout(ctx, queueBound)
	defer cancel()
	a, found := node.await(ctx, leaving(member))
	switch {
	case !found:
		a.err = errors.New("a waiter that waits no longer got no answer to that")
	case a.err == nil && len(a.reply) > 0:
		return a.reply[0]
	}
	if t.Leave == "" {
		t.Leave = text(a.err)
	}
	return 0
}

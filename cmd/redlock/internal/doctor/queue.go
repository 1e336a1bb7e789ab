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

// queue has a second client wait for a lock that the first one holds: one waiter gives
// up, one is called when it no longer waits, one is handed the lock.
func (t *Trial) queue(ctx context.Context, n Node, locks *redlock.Redlock, name string) {
	if _, ok := n.Pool.(pool.Subscriber); !ok {
		return
	}
	holder := locks.NewMutex(name)
	if _, err := holder.Hold(ctx); err != nil {
		t.HandOver = text(err)
		return
	}
	node := newTap(n.Pool)
	second, err := redlock.New([]pool.Pool{node}, trialOptions()...)
	if err != nil {
		t.Wait = text(err)
		return
	}
	defer closeSoon(second)
	next := second.NewMutex(name)
	member := t.giveUp(ctx, node, next)
	var won chan error
	if member != "" {
		t.callLate(ctx, node, name, member)
		bounded, cancel := context.WithTimeout(ctx, 2*queueBound)
		defer cancel()
		won = lockSoon(bounded, next)
		t.place(bounded, node)
	}
	_, err = holder.UnlockContext(ctx)
	t.HandOver = text(err)
	if won == nil {
		return
	}
	if err := <-won; err != nil {
		t.Wait = text(err)
	} else if _, err := next.UnlockContext(ctx); err != nil && t.HandOver == "" {
		t.HandOver = text(err)
	}
}

func lockSoon(ctx context.Context, m *redlock.Mutex) chan error {
	ended := make(chan error, 1)
	go func() { ended <- m.LockContext(ctx) }()
	return ended
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
func (t *Trial) giveUp(ctx context.Context, node *tap, m *redlock.Mutex) (member string) {
	bounded, cancel := context.WithCancel(ctx)
	ended := lockSoon(bounded, m)
	member = t.place(bounded, node)
	cancel()
	if err := <-ended; err == nil {
		t.Wait = "a lock that is held was granted to a second client"
		return ""
	}
	if member != "" {
		if code := t.left(ctx, node, member); code != hasLeft && t.Leave == "" {
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

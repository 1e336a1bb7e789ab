package redlock

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock/pool"
)

// How long to wait before subscribing again, doubling between these.
const (
	firstResubscribe = 50 * time.Millisecond
	lastResubscribe  = 5 * time.Second
)

// maxWinners bounds what is kept of grants.
const maxWinners = 10_000

// wakes is the other end of hand-over: one channel per client, subscribed on each
// node from the first time that somebody has to wait until Close. A notice names
// the lock that became free.
type wakes struct {
	r       *Redlock
	channel string
	ready   []atomic.Bool // by node: the subscription is confirmed
	once    sync.Once
	on      atomic.Bool // some node was heard to listen

	mu      sync.Mutex
	waiters map[string][]*waiter // guarded by mu; by lock name, in order of arrival
	winners map[string]string    // guarded by mu; ticket with which a held name was won
}

func newWakes(r *Redlock, nodes int) *wakes {
	return &wakes{r: r, channel: "redlock:wake:" + randomText(12), ready: make([]atomic.Bool, nodes), waiters: map[string][]*waiter{}, winners: map[string]string{}}
}

func (h *wakes) listening(n *node) bool { return h.ready[n.index].Load() }

func (h *wakes) add(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiters[w.m.name] = append(h.waiters[w.m.name], w)
}

func (h *wakes) remove(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := w.m.name
	list := h.waiters[name]
	for i := range list {
		if list[i] == w {
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if len(list) == 0 {
		delete(h.waiters, name)
	} else {
		h.waiters[name] = list
	}
}

// listen starts the subscriptions, once.
func (h *wakes) listen() {
	h.once.Do(func() {
		for _, n := range h.r.nodes {
			if s, ok := n.pool.(pool.Subscriber); ok {
				h.r.tasks.add(1)
				go h.subscribe(n, s)
			}
		}
	})
}

// subscribe keeps the subscription to one node until Close.
func (h *wakes) subscribe(n *node, s pool.Subscriber) {
	defer h.r.tasks.done()
	ctx := h.r.life
	pause := firstResubscribe
	for {
		started := time.Now()
		confirmed, err := h.subscribeOnce(ctx, n, s)
		if permanent(err) {
			pause = lastResubscribe
		} else if confirmed && time.Since(started) > pause {
			pause = firstResubscribe // not for one that comes and goes
		}
		timer := time.NewTimer(pause/2 + spread(time.Now().UnixNano()+int64(n.index), pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, lastResubscribe)
	}
}

// subscribeOnce is one subscription until it is lost. A client may tell of the
// confirmation on a goroutine of its own, even when Subscribe has returned.
func (h *wakes) subscribeOnce(ctx context.Context, n *node, s pool.Subscriber) (confirmed bool, err error) {
	over := false // guarded by mu
	err = s.Subscribe(ctx, h.channel, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if over {
			return
		}
		h.ready[n.index].Store(true)
		h.on.Store(true)
		// A call may have been missed, and queues can be joined now.
		for _, list := range h.waiters {
			list[0].meet(n.index)
		}
	}, func(payload string) {
		ticket, name, ok := strings.Cut(payload, " ")
		if first, is := strings.CutPrefix(ticket, "+"); ok && is {
			h.nearer(name, first)
		} else if ok {
			h.notice(n, name, ticket)
		}
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	over = true
	return h.ready[n.index].Swap(false), err
}

// notice hands a call to the waiter it is for. When that waits no longer, the node
// calls the next one instead; but nobody needs to be called when it went away
// because it has the lock now.
func (h *wakes) notice(n *node, name, ticket string) {
	h.mu.Lock()
	won := h.winners[name] == ticket
	for _, w := range h.waiters[name] {
		if w.hasTicket(ticket) {
			h.mu.Unlock()
			w.call(n.index)
			return
		}
	}
	h.mu.Unlock()
	if !won {
		h.r.passOn(n, name, h.channel+"#"+ticket)
	}
}

// nearer tells the waiter that it is the first of a node's queue.
func (h *wakes) nearer(name, ticket string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.waiters[name] {
		if w.hasTicket(ticket) {
			w.nearer()
		}
	}
}

// won notes that w has the lock, until freed, and returns its ticket; "" when no
// node can call it.
func (h *wakes) won(w *waiter) (ticket string) {
	w.mu.Lock()
	queued, ticket := w.queued, w.ticket
	w.mu.Unlock()
	if !queued {
		return ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.winners) >= maxWinners {
		clear(h.winners) // those that were never unlocked; it only saves a call
	}
	h.winners[w.m.name] = ticket
	return ticket
}

// freed is told that the lock won with the ticket is about to be released.
func (h *wakes) freed(name, ticket string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.winners[name] == ticket {
		delete(h.winners, name)
	}
}

// passOn runs the leave script for a member, in the background. A node that does not
// answer now is asked by the janitor, for as long as it would be with a release.
func (r *Redlock) passOn(n *node, name, member string) {
	leave := newCall(leaveScript, name, &r.eyes, []keyWords{keysOf(name).words()}, 2, member)
	r.background(context.Background(), n, r.config.timeout(), errand{
		ask: func(ctx context.Context, n *node) reply { return n.leave(ctx, &leave) },
		then: func(n *node, a reply) {
			if a.err != nil && !permanent(a.err) {
				r.owe(n, name+"\x00"+member, &debt{
					call: leave, timeout: r.config.timeout(), last: a.err, until: time.Now().Add(skewBound + r.config.expiry),
				})
			}
		},
	})
}

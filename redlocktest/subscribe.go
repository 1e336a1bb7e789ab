package redlocktest

import (
	"context"
	"slices"
	"time"
)

type notice struct {
	payload string
	sent    time.Time
}

// A subscription is one listening client. The node's lock covers it.
type subscription struct {
	channel string
	queue   []notice
	wake    chan struct{} // room for one
	lost    chan struct{} // closed when the connection is reset
	closed  bool          // the client has gone
}

// Subscribe implements pool.Subscriber. Faults apply to the request under the
// name "subscribe" and to each notice under the name "message".
func (n *Node) Subscribe(ctx context.Context, channel string, ready func(), message func(payload string)) error {
	sub := &subscription{channel: channel, wake: make(chan struct{}, 1), lost: make(chan struct{})}
	defer n.with(func() { n.unsubscribe(sub) })
	call := Call{Name: "subscribe", Keys: []string{channel}}
	out := n.roundTrip(ctx, call, func(*session) reply {
		if !sub.closed && !slices.Contains(n.subs[channel], sub) {
			n.subs[channel] = append(n.subs[channel], sub)
		}
		return reply{}
	})
	if out.err != nil {
		return out.err
	}
	ready()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-sub.lost:
			return n.errReset()
		case <-sub.wake:
		}
		for _, next := range n.take(sub) {
			if err := n.deliver(ctx, sub, next, message); err != nil {
				return err
			}
		}
	}
}

func (n *Node) take(sub *subscription) []notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	queue := sub.queue
	sub.queue = nil
	return queue
}

// deliver waits on the subscriber's own goroutine, so notices stay in order.
func (n *Node) deliver(ctx context.Context, sub *subscription, next notice, message func(string)) error {
	call := Call{Node: n.addr, Name: "message", Keys: []string{sub.channel}, Args: []string{next.payload}}
	fault := n.plan(call)
	if fault.DropReply {
		return nil
	}
	if wait := fault.ReplyDelay - time.Since(next.sent); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-sub.lost:
			return n.errReset()
		}
	}
	message(next.payload)
	return nil
}

func (n *Node) unsubscribe(sub *subscription) {
	sub.closed = true
	others := slices.DeleteFunc(n.subs[sub.channel], func(s *subscription) bool { return s == sub })
	n.subs[sub.channel] = others
	if len(others) == 0 {
		delete(n.subs, sub.channel)
	}
}

// publish hands the payload to each subscriber and counts them. The lock is held.
func (n *Node) publish(channel, payload string) int {
	for _, sub := range n.subs[channel] {
		sub.queue = append(sub.queue, notice{payload: payload, sent: time.Now()})
		select {
		case sub.wake <- struct{}{}:
		default:
		}
	}
	return len(n.subs[channel])
}

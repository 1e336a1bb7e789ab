// Package batch lets the calls to a node that come at the same time share what it
// costs to send them.
package batch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/lazyctx"
	"github.com/quorumlock/redlock/pool"
)

// How many batches may be under way at a time, and how many calls one may hold. Each
// costs a node two system calls, whatever it holds, so a near one that has much to do
// gets one at a time, with all that has come meanwhile. While few calls are under way,
// the next does not wait for their answers. On a far node no call may wait for a batch
// to come back, so more are allowed, by the round trip.
const (
	Few          = 2 // batches, while
	fewCalls     = 4 // no more calls than these are under way
	batchesPerMS = 4
	mostCalls    = 64
)

// Batches sends the calls that come while others are under way together, in one
// write. There is no goroutine: whoever comes first leads, alone; whoever ends
// leaves the calls that have come meanwhile to the first among them.
type Batches struct {
	send  func(ctx context.Context, members []*Call) (answered bool)
	calls sync.Pool

	mu      sync.Mutex
	leaders int           // guarded by mu; batches under way
	sent    int           // guarded by mu; the calls in them
	waiting []*Call       // guarded by mu
	trip    time.Duration // guarded by mu; shortest of late
}

// New makes batches that send sends. It is given at least one call, none of them past
// its time when it is sent, calls End of each exactly once, and reports whether the
// node has answered. Its ctx ends with the call that has the most time: one that has
// less must not end it for the others, and its caller does not wait for longer than it
// wants.
func New(send func(ctx context.Context, members []*Call) (answered bool)) *Batches {
	return &Batches{
		send:  send,
		calls: sync.Pool{New: func() any { return &Call{turn: make(chan []*Call, 1)} }},
	}
}

// Call is one call: the words after EVALSHA, and what becomes of it.
type Call struct {
	Ctx    context.Context
	Script *pool.Script
	Words  []any // other nodes' as well: not to be changed

	reply []int64
	err   error
	alone [1]*Call // a batch of its own
	leads bool
	// turn gets one value: nil when the call is done, or a batch to lead, with the call
	// as its first.
	turn chan []*Call
}

// Into is what the integers of the reply are appended to.
func (c *Call) Into() []int64 { return c.reply }

// End gives the call its result. Unless it leads, it is somebody else's from then on.
func (c *Call) End(reply []int64, err error) {
	c.reply, c.err = reply, err
	if !c.leads {
		c.turn <- nil
	}
}

// Do is pool.Commander's Command.
func (b *Batches) Do(ctx context.Context, s *pool.Script, words []any, into []int64) ([]int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", pool.ErrNotSent, err) // not after a wait in line
	}
	c := b.calls.Get().(*Call)
	c.Ctx, c.Script, c.Words, c.reply = ctx, s, words, into
	b.do(c)
	reply, err := c.reply, c.err
	*c = Call{turn: c.turn}
	b.calls.Put(c)
	return reply, err
}

// do returns when c is done.
func (b *Batches) do(c *Call) {
	b.mu.Lock()
	if b.leaders >= b.limit() {
		b.waiting = append(b.waiting, c)
		b.mu.Unlock()
		// The leaders' deadlines bound this: they came before.
		if members := <-c.turn; members != nil {
			b.lead(members)
		}
		return
	}
	b.leaders++
	b.sent++
	b.mu.Unlock()
	c.alone[0] = c
	b.lead(c.alone[:])
}

// limit is how many batches may be under way. The lock is held.
func (b *Batches) limit() int {
	limit := 1 + int(b.trip*batchesPerMS/time.Millisecond)
	if b.sent <= fewCalls {
		return max(limit, Few)
	}
	return limit
}

// lead runs a batch and appoints the next leader, unless enough others lead.
func (b *Batches) lead(members []*Call) {
	members[0].leads = true
	calls := len(members)
	started := time.Now()
	ok := b.run(members)
	took := time.Since(started)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent -= calls
	// Creeps up, so that a way that became longer is noticed.
	if ok && (b.trip == 0 || took < b.trip) {
		b.trip = took
	} else {
		b.trip += b.trip/1024 + 1
	}
	// With more leaders than the limit there is another, who takes along who waits.
	if len(b.waiting) == 0 || b.leaders > b.limit() {
		b.leaders--
		return
	}
	next := b.waiting
	if len(next) > mostCalls {
		next = next[:mostCalls:mostCalls]
	}
	b.waiting = b.waiting[len(next):]
	b.sent += len(next)
	next[0].turn <- next
}

// run sends a batch, but not those that have waited for longer than they had time:
// nobody counts on them any more.
func (b *Batches) run(members []*Call) (answered bool) {
	live := members[:0]
	for _, c := range members {
		if err := c.Ctx.Err(); err != nil {
			c.End(nil, fmt.Errorf("%w: %w", pool.ErrNotSent, err))
		} else {
			live = append(live, c)
		}
	}
	if len(live) == 0 {
		return false
	}
	if len(live) == 1 {
		return b.send(live[0].Ctx, live)
	}
	var shared lazyctx.Context
	longest, deadline := mostTime(live)
	shared.Begin(longest, nil, deadline)
	defer shared.End(context.Canceled)
	return b.send(&shared, live)
}

// mostTime is the member with the most time, and when that ends, zero for never: one
// that is cancelled must not end the batch for the others.
func mostTime(members []*Call) (longest context.Context, deadline time.Time) {
	longest = members[0].Ctx
	deadline, limited := longest.Deadline()
	for _, c := range members[1:] {
		if !limited {
			break
		}
		if d, ok := c.Ctx.Deadline(); !ok {
			longest, deadline, limited = c.Ctx, time.Time{}, false
		} else if d.After(deadline) {
			longest, deadline = c.Ctx, d
		}
	}
	return longest, deadline
}

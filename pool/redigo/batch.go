package redigo

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/pool"
)

// How many batches may be under way at a time, and how many calls one may hold. A
// near node is busy with few, and each costs it two system calls, whatever it
// holds. On a far one a call must not wait for the batch before it to come back, so
// more are allowed, by the round trip.
const (
	leastBatches = 4
	batchesPerMS = 16
	mostCalls    = 64
)

// batches sends the calls that come while others are under way together, in one
// write. There is no goroutine: whoever comes first leads, alone; whoever ends
// leaves the calls that have come meanwhile to the first among them.
type batches struct {
	pool *redis.Pool

	mu      sync.Mutex
	leaders int           // guarded by mu
	waiting []*command    // guarded by mu
	trip    time.Duration // guarded by mu; shortest of late
}

// command is one call: the words of EVALSHA, and what becomes of it.
type command struct {
	ctx    context.Context
	script *pool.Script
	words  []any

	reply []int64
	err   error
	// turn gets one value: nil when the command is done, or a batch to lead, with
	// the command as its first.
	turn chan []*command
}

var commands = sync.Pool{New: func() any {
	return &command{turn: make(chan []*command, 1)}
}}

func newCommand(ctx context.Context, s *pool.Script, words []any, into []int64) *command {
	c := commands.Get().(*command)
	c.ctx, c.script, c.words, c.reply = ctx, s, words, into
	return c
}

// free hands the command back, without what is its caller's.
func (c *command) free() {
	*c = command{turn: c.turn}
	commands.Put(c)
}

// do returns when c is done.
func (b *batches) do(c *command) {
	b.mu.Lock()
	if limit := leastBatches + int(b.trip*batchesPerMS/time.Millisecond); b.leaders >= limit {
		b.waiting = append(b.waiting, c)
		b.mu.Unlock()
		// The leaders' deadlines bound this: they came before.
		if batch := <-c.turn; batch != nil {
			b.lead(batch)
		}
		return
	}
	b.leaders++
	b.mu.Unlock()
	b.lead([]*command{c})
}

// lead runs a batch and appoints the next leader.
func (b *batches) lead(batch []*command) {
	started := time.Now()
	ok := b.run(batch)
	took := time.Since(started)
	b.mu.Lock()
	defer b.mu.Unlock()
	// Creeps up, so that a way that became longer is noticed.
	if ok && (b.trip == 0 || took < b.trip) {
		b.trip = took
	} else {
		b.trip += b.trip/1024 + 1
	}
	if len(b.waiting) == 0 {
		b.leaders--
		return
	}
	next := b.waiting
	if len(next) > mostCalls {
		next = next[:mostCalls:mostCalls]
	}
	b.waiting = b.waiting[len(next):]
	next[0].turn <- next
}

// run sends a batch and takes in the replies; batch[0] is the caller's own. It
// reports whether the node has answered.
func (b *batches) run(batch []*command) (ok bool) {
	c, err := b.pool.GetContext(patient(batch))
	if err != nil {
		for i, m := range batch {
			m.end(i, nil, err)
		}
		return false
	}
	defer c.Close() //nolint:errcheck // returns the connection; a broken one is dropped by the pool
	if len(batch) == 1 {
		m := batch[0]
		reply, err := do(m.ctx, c, "EVALSHA", m.words)
		if noScript(err) {
			reply, err = m.again(c)
		}
		m.end(0, reply, err)
		return err == nil
	}
	return pipeline(patient(batch), c, batch)
}

// patient is the context of the member with the most time. The connection is the
// batch's: one that has less must not end it for the others, and its caller does not
// wait for longer than it wants.
func patient(batch []*command) context.Context {
	ctx := batch[0].ctx
	most, ok := ctx.Deadline()
	for _, m := range batch[1:] {
		deadline, has := m.ctx.Deadline()
		if ok && (!has || deadline.After(most)) {
			ctx, most, ok = m.ctx, deadline, has
		}
	}
	return ctx
}

// pipeline sends the commands of a batch in one write, but not those that have
// waited for longer than they had time: nobody counts on them any more.
func pipeline(ctx context.Context, c redis.Conn, batch []*command) (ok bool) {
	var broken error
	const unsent, sent, unknown = 0, 1, 2
	state := make([]uint8, len(batch))
	for i, m := range batch {
		if err := m.ctx.Err(); err != nil {
			m.err = fmt.Errorf("redigo: %w: %w", pool.ErrNotSent, err)
		} else if broken == nil {
			broken = c.Send("EVALSHA", m.words...)
			state[i] = sent
		}
	}
	if broken == nil {
		broken = c.Flush()
	}
	for i, m := range batch {
		var reply any
		err := m.err
		if err == nil {
			err = broken
		}
		if err == nil && state[i] == sent {
			reply, err = receive(ctx, c)
			ok = ok || err == nil
		}
		if noScript(err) {
			state[i] = unknown
			continue
		}
		m.end(i, reply, err)
	}
	for i, m := range batch {
		if state[i] == unknown {
			reply, err := m.again(c)
			m.end(i, reply, err)
		}
	}
	return ok
}

// again sends the text of a script whose hash the node does not know.
func (c *command) again(conn redis.Conn) (any, error) {
	words := slices.Clone(c.words) // they are also other nodes'
	words[0] = c.script.Source()
	return do(c.ctx, conn, "EVAL", words)
}

// end gives the command its result, and tells its caller unless that leads.
func (c *command) end(place int, reply any, err error) {
	c.reply, c.err = integers(c.reply, reply, err)
	if place > 0 {
		c.turn <- nil
	}
}

// receive is do for a command that was sent.
func receive(ctx context.Context, c redis.Conn) (any, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return c.Receive()
	}
	// Sent is sent: even at the deadline the reply may be there to be taken.
	return redis.ReceiveWithTimeout(c, max(time.Until(deadline), time.Millisecond))
}

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
	batches *batches
	ctx     context.Context
	script  *pool.Script
	words   []any

	reply []int64
	err   error
	// Until Wait, exactly one of these holds: it has failed already, it leads a batch
	// that is on its way, or it stands in line.
	failed  bool
	leading batch
	alone   [1]*command // the members of a batch of its own
	// turn gets one value for a command in line: nil when it is done, or the members
	// of a batch to lead, with the command as the first.
	turn chan []*command
}

var commands = sync.Pool{New: func() any {
	return &command{turn: make(chan []*command, 1)}
}}

// start sends a command, or leaves it to whoever leads next. Wait must follow.
func (b *batches) start(ctx context.Context, s *pool.Script, words []any, into []int64) *command {
	c := commands.Get().(*command)
	c.batches, c.ctx, c.script, c.words, c.reply = b, ctx, s, words, into
	// The deadline alone does not tell that ctx was cancelled.
	if err := ctx.Err(); err != nil {
		c.err, c.failed = err, true
		return c
	}
	b.mu.Lock()
	if limit := leastBatches + int(b.trip*batchesPerMS/time.Millisecond); b.leaders >= limit {
		b.waiting = append(b.waiting, c)
		b.mu.Unlock()
		return c
	}
	b.leaders++
	b.mu.Unlock()
	c.alone[0] = c
	c.leading = b.send(c.alone[:])
	return c
}

// Wait implements pool.Pending.
func (c *command) Wait() ([]int64, error) {
	if !c.failed {
		if c.leading.members == nil {
			// The leaders' deadlines bound this: they came before.
			if members := <-c.turn; members != nil {
				c.leading = c.batches.send(members)
			}
		}
		if c.leading.members != nil {
			c.batches.finish(c.leading)
		}
	}
	reply, err := c.reply, c.err
	*c = command{turn: c.turn}
	commands.Put(c)
	return reply, err
}

// finish takes in the replies to a batch and appoints the next leader.
func (b *batches) finish(f batch) {
	ok := f.receive()
	took := time.Since(f.started)
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

// batch is the commands of one write. The first member leads it.
type batch struct {
	members []*command
	ctx     context.Context // of the member with the most time
	started time.Time
	conn    redis.Conn // nil when none could be had
	broken  error      // what became of the connection, or of the write
}

// send sends a batch, but not those members that have waited for longer than they
// had time: nobody counts on them any more.
func (b *batches) send(members []*command) batch {
	f := batch{members: members, ctx: patient(members), started: time.Now()}
	f.conn, f.broken = b.pool.GetContext(f.ctx)
	if f.broken != nil {
		f.conn = nil
		return f
	}
	for _, m := range members {
		if err := m.ctx.Err(); err != nil {
			m.err = fmt.Errorf("redigo: %w: %w", pool.ErrNotSent, err)
		} else if f.broken == nil {
			f.broken = f.conn.Send("EVALSHA", m.words...)
		}
	}
	if f.broken == nil {
		f.broken = f.conn.Flush()
	}
	return f
}

// patient is the context of the member with the most time. The connection is the
// batch's: one that has less must not end it for the others, and its caller does not
// wait for longer than it wants.
func patient(members []*command) context.Context {
	ctx := members[0].ctx
	if len(members) == 1 {
		return ctx
	}
	most, ok := ctx.Deadline()
	for _, m := range members[1:] {
		deadline, has := m.ctx.Deadline()
		if ok && (!has || deadline.After(most)) {
			ctx, most, ok = m.ctx, deadline, has
		}
	}
	return ctx
}

// receive gives every member its result and reports whether the node has answered.
func (f *batch) receive() (ok bool) {
	if f.conn != nil {
		defer f.conn.Close() //nolint:errcheck // returns the connection; a broken one is dropped by the pool
	}
	var unknown []int // members whose script the node does not know
	for i, m := range f.members {
		var reply any
		err := m.err
		if err == nil {
			err = f.broken
		}
		if err == nil {
			reply, err = receive(f.ctx, f.conn)
			ok = ok || err == nil
		}
		if noScript(err) {
			unknown = append(unknown, i)
			continue
		}
		m.end(i, reply, err)
	}
	for _, i := range unknown {
		m := f.members[i]
		reply, err := m.again(f.conn)
		m.end(i, reply, err)
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

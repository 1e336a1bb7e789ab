package redlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/quorumlock/redlock/pool"
)

// node is one of the N: it speaks the scripts and knows nothing of quorums.
type node struct {
	index int
	addr  string
	pool  pool.Pool
	clock *ballots

	commander pool.Commander // the pool, if it is one

	lanes
	janitor janitor
}

// Reply codes, by script; see the headers in scripts/.
const (
	codeGranted     = 1
	codeBusy        = 2
	codeStale       = 3
	codeQuarantined = 4

	codeReleased   = 1
	codeMissing    = 2
	codeOtherOwner = 3

	codeHeld        = 1
	codeRestored    = 2
	codeToppedUp    = 3
	codeGone        = 4
	codeOtherHolder = 5
)

func newNode(i int, p pool.Pool, clock *ballots) *node {
	n := &node{index: i, pool: p, clock: clock}
	n.commander, _ = p.(pool.Commander)
	n.worker = n.work
	// A node in memory has no way down to the wire, and tests in virtual time, which
	// cannot end before all goroutines have, need not call Close.
	n.rests = rests{give: make(chan job, leastLanes), over: n.commander == nil}
	if a, ok := p.(pool.Addresser); ok {
		n.addr = a.Addr()
	}
	return n
}

// reply is what one node said to one request, and when.
type reply struct {
	code   int
	now    int64 // node's clock, us; 0 where not asked
	fence  int64 // highest ballot seen
	ttl    int64 // ms
	ballot int64 // of the holder
	last   int64 // rank, woken, quarantine ms, or waiters: by script

	err      error // *NodeError; then nothing above holds
	unsent   bool  // the node was not asked at all
	partial  bool  // some names of several were granted
	counted  bool  // it came in before its round was decided
	sent     time.Time
	received time.Time
}

// answered reports whether the node itself spoke, if only to refuse.
func (r *reply) answered() bool { return r.err == nil || permanent(r.err) }

// refuses reports whether it is sure that the node did not grant an acquire: its script
// writes nothing before the last command that may be refused.
func (r *reply) refuses() bool {
	if r.partial {
		return false
	}
	return r.unsent || permanent(r.err) || r.err == nil && (r.code == codeBusy || r.code == codeStale || r.code == codeQuarantined)
}

// acquire proposes a ballot.
func (n *node) acquire(ctx context.Context, c *call) reply { return n.eval(ctx, c) }

// release takes back whatever was sent for an identity, up to a ballot.
func (n *node) release(ctx context.Context, c *call) reply { return n.eval(ctx, c) }

// touch extends a grant; its arguments are the node's own, for its clock is in
// them.
func (n *node) touch(ctx context.Context, c *call) reply { return n.eval(ctx, c) }

// leave takes a waiter out of the queue, or passes its wake-up on.
func (n *node) leave(ctx context.Context, c *call) reply { return n.eval(ctx, c) }

// eval runs a script for each name of the call.
func (n *node) eval(ctx context.Context, c *call) reply {
	if len(c.names) > 1 {
		return n.evalAll(ctx, c)
	}
	return n.evalOne(ctx, c, 0)
}

// integers are reply buffers for adapters that fill them.
var integers = sync.Pool{New: func() any { return new([8]int64) }}

// evalOne runs a script for one name.
func (n *node) evalOne(ctx context.Context, c *call, name int) reply {
	buffer := integers.Get().(*[8]int64)
	defer integers.Put(buffer)
	sent := time.Now()
	ints, err := c.send(ctx, n, name, buffer[:0])
	return n.read(ctx, c, sent, ints, err)
}

// read makes a reply of what came back: it checks it, learns from it and tells the
// observer.
func (n *node) read(ctx context.Context, c *call, sent time.Time, ints []int64, err error) reply {
	s := c.script
	r := reply{sent: sent, received: time.Now()}
	if r.unsent = neverSent(err); !errors.Is(err, pool.ErrNotSent) {
		n.heard(err, r.received.Sub(r.sent))
	}
	if err == nil {
		err = r.decode(s, ints)
	}
	if err == nil {
		err = n.heed(s, &r)
	}
	if err != nil {
		r.err = n.fault(err)
	}
	if c.eyes != nil && c.eyes.node != nil {
		c.eyes.node.NodeDone(ctx, NodeEvent{
			Verb: s.Name(), Name: c.name, Node: n.index, Addr: n.addr,
			Outcome: r.outcome(s), Err: r.err, Latency: r.received.Sub(r.sent),
		})
	}
	return r
}

// neverSent reports whether the node cannot have got the request: there was no
// connection to send it on.
func neverSent(err error) bool {
	if err == nil {
		return false // before op, which is allocated
	}
	var op *net.OpError
	return errors.Is(err, pool.ErrNotSent) || errors.As(err, &op) && op.Op == "dial"
}

// heed learns from the clock in a reply. A node whose clock is out of line with
// the others' has failed, whatever it said; a release counts all the same.
func (n *node) heed(s *script, r *reply) error {
	if r.now == 0 || n.clock.learn(n.index, r.now, r.fence, r.sent, r.received) || s == releaseScript {
		return nil
	}
	ahead := max(r.now, r.fence) - n.clock.nodes(r.received)
	return fmt.Errorf("%w: %v ahead", errNodeClock, time.Duration(ahead)*time.Microsecond)
}

func (r *reply) decode(s *script, ints []int64) error {
	if !s.form.fits(ints) {
		return fmt.Errorf("%w: %s replied %v", errReply, s.Name(), ints)
	}
	if code := ints[0]; code < 0 || code >= int64(len(s.outcomes)) || s.outcomes[code] == "" {
		return fmt.Errorf("%w: %s replied %v", errReply, s.Name(), ints)
	}
	r.code = int(ints[0])
	if len(ints) >= 2 {
		r.now = ints[1]
	}
	if len(ints) >= 3 {
		r.fence = ints[2]
	}
	if len(ints) == 6 {
		r.ballot, r.last = ints[4], ints[5]
		r.ttl = min(max(ints[3], -1), longestLife.Milliseconds()) // others' keys may live on
	}
	return nil
}

// outcome is the reply in a word, for observers.
func (r *reply) outcome(s *script) string {
	if r.err != nil {
		return "error"
	}
	return s.outcomes[r.code]
}

func (n *node) fault(err error) *NodeError {
	var already *NodeError
	if errors.As(err, &already) {
		return already
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, os.ErrDeadlineExceeded) {
		err = &silenceError{}
	}
	return &NodeError{Node: n.index, Addr: n.addr, Err: err}
}

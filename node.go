package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock/pool"
)

// How many requests may be on their way to one node. A node that has answered
// nothing for a while gets a few probes only, so that a thousand callers do not
// pile up on a hung node; anything it answers lifts that at once.
const (
	maxInFlight   = 4096
	maxProbes     = 32
	suspectFaults = 3
)

// node is one of the N: it speaks the scripts and knows nothing of quorums.
type node struct {
	index int
	addr  string
	pool  pool.Pool
	clock *ballots

	inFlight atomic.Int32
	silent   atomic.Int32 // requests in a row without any answer
	janitor  janitor
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

var codeNames = map[*pool.Script][]string{
	acquireScript: {"granted", "busy", "stale", "quarantined"},
	releaseScript: {"released", "missing", "other"},
	touchScript:   {"held", "restored", "topped up", "gone", "other"},
	leaveScript:   {"left", "passed on", "nothing"},
	inspectScript: {"free", "held"},
	breakScript:   {"broken", "missing", "other"},
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
	sent     time.Time
	received time.Time
}

// answered reports whether the node itself spoke, if only to refuse.
func (r *reply) answered() bool { return r.err == nil || permanent(r.err) }

// proposal is an acquire as every node gets it.
type proposal struct {
	keys []string // lock, fence, queue[, marker]
	args []any
}

// acquire proposes a ballot.
func (n *node) acquire(ctx context.Context, p *proposal) reply {
	return n.eval(ctx, acquireScript, p.keys, p.args)
}

// release takes back whatever was sent for an identity, up to a ballot.
func (n *node) release(ctx context.Context, p *proposal) reply {
	return n.eval(ctx, releaseScript, p.keys, p.args)
}

// touch extends a grant; args are the node's own, for its clock is in them.
func (n *node) touch(ctx context.Context, keys []string, args []any) reply {
	return n.eval(ctx, touchScript, keys, args)
}

// eval runs a script and checks the reply. A node whose clock is out of line has
// failed, whatever it said.
func (n *node) eval(ctx context.Context, s *pool.Script, keys []string, args []any) reply {
	var r reply
	if r.err = n.enter(); r.err != nil {
		return r
	}
	r.sent = time.Now()
	ints, err := n.pool.Eval(ctx, s, keys, args...)
	r.received = time.Now()
	n.leave(err)
	if err != nil {
		r.err = n.fault(err)
		return r
	}
	if err := r.decode(s, ints); err != nil {
		r.err = n.fault(err)
		return r
	}
	if r.now != 0 && !n.clock.learn(n.index, r.now, r.fence, r.sent, r.received) && s != releaseScript {
		r.err = n.fault(fmt.Errorf("%w: %v ahead", errNodeClock,
			time.Duration(max(r.now, r.fence)-n.clock.nodes(r.received))*time.Microsecond))
	}
	return r
}

var replyArity = map[*pool.Script]int{
	acquireScript: 6, releaseScript: 6, touchScript: 6, inspectScript: 6, breakScript: 3, leaveScript: 1,
}

func (r *reply) decode(s *pool.Script, ints []int64) error {
	if len(ints) != replyArity[s] {
		return fmt.Errorf("%w: %s replied %v", errReply, s.Name(), ints)
	}
	lowest := int64(1)
	if s == inspectScript {
		lowest = 0
	}
	if code := ints[0]; code < lowest || code-lowest >= int64(len(codeNames[s])) {
		return fmt.Errorf("%w: %s replied %v", errReply, s.Name(), ints)
	}
	r.code = int(ints[0])
	if len(ints) >= 3 {
		r.now, r.fence = ints[1], ints[2]
	}
	if len(ints) == 6 {
		r.ttl, r.ballot, r.last = ints[3], ints[4], ints[5]
	}
	return nil
}

// outcome is the reply in a word, for observers.
func (r *reply) outcome(s *pool.Script) string {
	if r.err != nil {
		return "error"
	}
	if s == inspectScript {
		return codeNames[s][r.code]
	}
	return codeNames[s][r.code-1]
}

func (n *node) enter() error {
	limit := int32(maxInFlight)
	reason := errNodeBusy
	if n.silent.Load() >= suspectFaults {
		limit, reason = maxProbes, errNodeSuspect
	}
	if n.inFlight.Add(1) > limit {
		n.inFlight.Add(-1)
		return n.fault(reason)
	}
	return nil
}

func (n *node) leave(err error) {
	n.inFlight.Add(-1)
	if err == nil || permanent(err) {
		if n.silent.Load() != 0 {
			n.silent.Store(0)
		}
		return
	}
	n.silent.Add(1)
}

func (n *node) fault(err error) *NodeError {
	var already *NodeError
	if errors.As(err, &already) {
		return already
	}
	return &NodeError{Node: n.index, Addr: n.addr, Err: err}
}

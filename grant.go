package redlock

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// grant is one won attempt, from the quorum's yes to the release.
type grant struct {
	id     string // the value without its ballot
	token  int64
	lease  *lease
	won    *attempt // nil for an adopted grant, which does not occupy its mutex's gate
	ticket string   // it was waited for with; "" if no node can call for it

	degraded atomic.Bool // the last verb that succeeded did so without all nodes

	mu   sync.Mutex
	high int64         // guarded by mu; the highest ballot sent for it
	over bool          // guarded by mu; released: nothing but the release may be sent
	life time.Duration // guarded by mu; the longest that was sent for it
}

// propose is a fresh ballot for an extend, above all that were sent, unless the
// grant was released: an extend sent after would bring it back.
func (g *grant) propose(b *ballots, life time.Duration) (q int64, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return 0, false
	}
	g.high, g.life = b.next(g.high), max(g.life, life)
	if g.won != nil {
		g.won.extended()
	}
	return g.high, true
}

// says is the value with another ballot, one that was sent for the grant.
func (g *grant) says(ballot int64) valueWords {
	if g.won != nil && ballot == g.won.high {
		return g.won.says
	}
	return newValueWords(g.id, ballot)
}

// finish bars further extends, and returns the ballot that the release must carry and
// the longest life that was sent.
func (g *grant) finish() (h int64, life time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	return g.high, g.life
}

// adopt makes a grant of a value that was acquired elsewhere. Its ledger is
// empty, and the ballots its former owner sent for it are not known: the
// release carries one of its own.
func adopt(value string, nodes, quorum int) *grant {
	id, token := splitValue(value)
	l := newLease(nodes, quorum)
	l.adopted = true
	return &grant{id: id, token: token, high: token, lease: l}
}

// value is what the nodes hold.
func (g *grant) value() string { return joinValue(g.id, g.token) }

// splitValue parts generated.nonce.ballot into generated.nonce. and the ballot. A
// value of another form is its own identity, with ballot 0: the scripts do the
// same.
func splitValue(value string) (id string, ballot int64) {
	dot := strings.LastIndexByte(value, '.')
	digits := value[dot+1:]
	if dot < 0 || len(digits) == 0 || len(digits) > 16 {
		return value, 0
	}
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return value, 0
		}
	}
	ballot, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return value, 0
	}
	return value[:dot+1], ballot
}

// joinValue is the inverse of splitValue.
func joinValue(id string, ballot int64) string {
	if !strings.HasSuffix(id, ".") {
		return id
	}
	var buffer [96]byte
	return string(strconv.AppendInt(append(buffer[:0], id...), ballot, 10))
}

// valueWords are a value and its ballot as arguments of scripts, made once.
type valueWords struct{ value, ballot any }

func newValueWords(id string, ballot int64) valueWords {
	value := joinValue(id, ballot)
	if value == id {
		return valueWords{value, strconv.FormatInt(ballot, 10)} // not in the value
	}
	return valueWords{value, value[len(id):]}
}

// remaining is how long the grant stays valid from now.
func (g *grant) remaining(now time.Time) time.Duration {
	if !g.lease.alive(now) {
		return 0
	}
	return g.lease.validity().Sub(now)
}

// degradedBy notes whether a verb was won without all nodes.
func (g *grant) degradedBy(replies []reply) {
	g.degraded.Store(len(failed(replies)) > 0)
}

// ask touches the grant at one node. A node that says it kept the grant for less than the
// ledger counted on when the request was sent has failed: its clock runs away, or somebody
// shortened the key. The entry is a lower bound, taken before the grant or extend it stands
// for was sent, so no node that keeps time can be below it.
func (g *grant) ask(ctx context.Context, n *node, c *call) reply {
	entry := g.lease.entry(n.index)
	a := n.touch(ctx, c)
	ttl := time.Duration(a.ttl) * time.Millisecond
	if a.err == nil && a.code == codeHeld && ttl >= 0 && !entry.IsZero() && ttl < entry.Sub(a.received) {
		a.err = n.fault(fmt.Errorf("%w: the lock would have ended there before its time", errNodeClock))
		g.lease.drop(n.index, a.received)
		c.eyes.fault(ctx, c.name, a.err)
	}
	return a
}

// touched enters a reply to a touch into the ledger and counts it.
func (g *grant) touched(n *node, a reply, life time.Duration) vote {
	switch {
	case a.err != nil:
		return no
	case a.code == codeHeld || a.code == codeRestored:
		if a.last > 0 {
			return no // quarantined: what it granted before stands, but no more
		}
		g.lease.record(n.index, a.sent.Add(life), a.received, false)
		return yes
	}
	// Topped up, gone or another's: the node forgot, so it counts no longer.
	g.lease.drop(n.index, a.received)
	return no
}

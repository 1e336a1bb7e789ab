package redlock

import (
	"context"
	"strconv"
	"time"
)

// release ends a grant on every node.
func (m *Mutex) release(ctx context.Context, g *grant) error {
	now := time.Now()
	expired := !g.lease.alive(now)
	high, life := g.finish()
	life = max(life, m.config.expiry)
	if g.ticket != "" {
		m.r.wakes.freed(m.name, g.ticket)
	}
	if g.won == nil {
		// Its former owner may have sent extends after this value was read.
		high = m.r.clock.next(high)
	}
	q := &releasing{m: m, g: g, life: life}
	for i := range m.r.nodes {
		if g.lease.holds(i, now) {
			q.expected.add(i)
		}
	}
	q.back = m.releaseCall(g.id, g.argument(high), true)
	rd := m.r.actOnPoolsAsync(ctx, m.config.timeout(), q)
	verdict, replies := rd.wait(ctx)
	g.lease.end()
	switch {
	case expired:
		return fail("unlock", m.name, ErrExpired, m.takenBy(replies, codeOtherOwner))
	case verdict == won:
		g.degradedBy(replies)
		return nil
	}
	return fail("unlock", m.name, m.lostTo(ctx, replies, codeMissing, codeOtherOwner)...)
}

// releasing is what the round of an Unlock asks.
type releasing struct {
	m        *Mutex
	g        *grant
	back     call
	life     time.Duration // the longest that was sent for the grant
	expected nodeSet       // nodes that hold it by the ledger
}

// ask is of question.
func (q *releasing) ask(ctx context.Context, n *node) reply {
	if q.g.won == nil {
		// Whoever handed it over may still renew it: that must not bring it back.
		bury := q.m.buryCall(q.g, q.life)
		if a := n.eval(ctx, &bury); a.err != nil || a.code == codeReleased {
			return a
		}
	}
	return n.release(ctx, &q.back)
}

// count is of question.
func (q *releasing) count(n *node, a reply) vote {
	if q.g.won == nil || q.g.won.mayHold(n.index) {
		q.m.released(n, a, q.g.id, &q.back, q.life)
	}
	// A node that never granted confirms by being as the ledger says.
	if a.err == nil && (a.code == codeReleased || !q.expected.has(n.index)) {
		return yes
	}
	return no
}

// buryCall breaks an adopted grant: its tombstone outlives every renewal of its giver.
func (m *Mutex) buryCall(g *grant, life time.Duration) call {
	return newCall(breakScript, m.name, &m.eyes, m.names, false, g.value(), g.id, strconv.FormatInt(g.token, 10),
		milliseconds(life+retention), retentionArg, skewArg)
}

// released leaves a release that failed to the janitor.
// life is the longest that was sent for the key.
func (m *Mutex) released(n *node, a reply, id any, back *call, life time.Duration) {
	if a.err == nil {
		return
	}
	m.r.owe(n, m.name+"\x00"+id.(string), &debt{
		call: *back, timeout: m.config.timeout(), last: a.err, until: time.Now().Add(skewBound + life),
	})
}

// releaseCall takes the identity and the highest ballot as arguments of the script.
func (m *Mutex) releaseCall(id, high any, handOver bool) call {
	calls := "0"
	if handOver {
		calls = "1"
	}
	return newCall(releaseScript, m.name, &m.eyes, m.names, false, id, high, skewArg, retentionArg, calls)
}

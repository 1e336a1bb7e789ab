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
	q.back = m.releaseCall(g.says(high), callNext)
	if g.ticket != "" {
		// There was a queue. Where there was none, the first two of one look by themselves
		// as soon as those who are told.
		q.tellers, q.telling = tellers(g.token, len(m.r.nodes)), m.releaseCall(g.says(high), callAndTell)
	}
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
	return fail("unlock", m.name, m.lostTo(ctx, replies, false, codeMissing, codeOtherOwner)...)
}

// releasing is what the round of an Unlock asks.
type releasing struct {
	m        *Mutex
	g        *grant
	back     call
	life     time.Duration // the longest that was sent for the grant
	expected nodeSet       // nodes that hold it by the ledger
	telling  call          // back, for the tellers
	tellers  nodeSet       // nodes that also tell whoever is the first of their queue then
}

// mostTellers is how many nodes tell. To be told saves time only when the one who is
// called is suspended, and each costs a message at the busiest moment; the second is
// there should the first be down.
const mostTellers = 2

// tellers are chosen by the token, so that they change with every grant.
func tellers(token int64, nodes int) (s nodeSet) {
	for i := range min(mostTellers, nodes) {
		s.add(int((token + int64(i)) % int64(nodes)))
	}
	return s
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
	if q.tellers.has(n.index) {
		return n.release(ctx, &q.telling)
	}
	return n.release(ctx, &q.back)
}

// count is of question.
func (q *releasing) count(n *node, a reply) vote {
	if q.g.won == nil || q.g.won.mayHold(n.index) {
		q.m.released(n, a, q.g.id, &q.back, q.life)
	}
	// A node that never granted confirms by being as the ledger says; not one on which
	// somebody else has the lock, who may have a quorum of them.
	if a.err == nil && (a.code == codeReleased || a.code == codeMissing && !q.expected.has(n.index)) {
		return yes
	}
	return no
}

// buryCall breaks an adopted grant: its tombstone outlives every renewal of its giver.
func (m *Mutex) buryCall(g *grant, life time.Duration) call {
	return newCall(breakScript, m.name, &m.eyes, m.names, 4, g.value(), strconv.FormatInt(g.token, 10),
		milliseconds(life+retention))
}

// released leaves a release that failed to the janitor.
// life is the longest that was sent for the key.
func (m *Mutex) released(n *node, a reply, id string, back *call, life time.Duration) {
	if a.err == nil {
		return
	}
	m.r.owe(n, m.name+"\x00"+id, &debt{
		call: *back, timeout: m.config.timeout(), last: a.err, until: time.Now().Add(skewBound + life),
	})
}

// Whom a release calls: the last argument of the script.
const (
	callNext    = "" // not sent
	callNobody  = "0"
	callAndTell = "2" // and the one behind hears that it is the first now
)

// releaseCall takes the value with the highest ballot that was sent for it.
func (m *Mutex) releaseCall(says valueWords, who string) call {
	args := []any{says.value, says.ballot, who}
	if who == callNext {
		args = args[:2]
	}
	return newCall(releaseScript, m.name, &m.eyes, m.names, 3, args...)
}

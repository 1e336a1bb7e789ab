package redlock

import (
	"context"
	"errors"
	"sync"
	"time"
)

// contendedFor is how long a contended attempt waits for a node beyond its round trip.
const contendedFor = 20 * time.Millisecond

// maxProposals bounds how often one attempt outbids newer ones.
const maxProposals = 4

// attempt is one try for the lock: a proposal to all nodes, and a higher one at once
// where newer attempts were seen, for that is not contention. It leaves nothing
// behind unless it wins.
type attempt struct {
	m    *Mutex
	id   string // the value without its ballot
	high int64  // the latest ballot
	says valueWords

	mu     sync.Mutex
	owed   nodeSet // guarded by mu; nodes that may hold what was sent
	absent nodeSet // guarded by mu; nodes that surely hold nothing of it
	sent   int     // guarded by mu; proposals, and extends of what was won with them
	lost   bool    // guarded by mu; from now on every grant is to be undone
	held   bool    // guarded by mu; somebody has the lock, and will call the next waiter
}

// attempt makes one. With a waiter, it joins the queues of the nodes where the lock is
// busy.
func (m *Mutex) attempt(ctx context.Context, w *waiter) (*grant, *refusal) {
	id, err := m.identity()
	if err != nil {
		return nil, &refusal{err: err, hopeless: true, rank: -1}
	}
	if m.r.closed() { // while the user's function made a value
		return nil, &refusal{err: ErrClosed, hopeless: true, rank: -1}
	}
	a := &attempt{m: m, id: id}
	var floor int64
	for proposals := 1; ; proposals++ {
		a.high = m.r.clock.next(floor)
		a.says = newValueWords(a.id, a.high)
		lease := newLease(len(m.r.nodes), m.r.quorum)
		verdict, replies := a.propose(ctx, w, lease)
		tooSlow := false
		if verdict == won {
			if lease.alive(time.Now()) {
				g := &grant{id: a.id, token: a.high, high: a.high, lease: lease, won: a}
				g.degradedBy(replies)
				return g, nil
			}
			tooSlow = true
		}
		if higher, ok := m.outbid(replies); ok && !tooSlow && proposals < maxProposals && ctx.Err() == nil {
			floor = higher
			a.owe(replies)
			continue
		}
		a.owe(replies)
		no := m.judge(replies, a.high)
		a.undo(ctx, no.held)
		if tooSlow {
			// The votes were not split: all were its own.
			no.err, no.split = errors.Join(ErrNoQuorum, errTooSlow), false
		}
		return nil, no
	}
}

// propose is one round of an attempt.
func (a *attempt) propose(ctx context.Context, w *waiter, lease *lease) (verdict, []reply) {
	m := a.m
	a.mu.Lock()
	a.sent++
	a.absent = 0
	a.mu.Unlock()
	p := &proposal{attempt: a, ballot: a.high, w: w, lease: lease, life: m.config.expiry - drift(m.config.expiry, m.config.driftFactor)}
	if m.config.guard == 0 {
		p.passing = a.acquireCall(2)
	} else {
		p.passing = a.acquireCall(4, m.guardArg)
	}
	if w != nil {
		for i, n := range m.r.nodes {
			if m.r.wakes.listening(n) {
				p.queues.add(i)
			}
		}
		member, ticket := w.join(a.high, p.queues)
		p.queuing = a.acquireCall(max(3, p.passing.keys), m.guardArg, member, ticket)
	}
	started := time.Now()
	rd := m.r.actOnPoolsAsync(ctx, m.config.timeout(), p)
	v, replies := rd.wait(ctx)
	if v == won {
		m.r.took(time.Since(started))
	}
	if v == lost && ctx.Err() == nil && m.judge(replies, a.high).split {
		// Whether there is a holder who will call depends on the replies still out.
		replies = rd.settle(ctx, max(m.r.roundTrip(), leastMoment))
	}
	return v, replies
}

// acquireCall makes a call of the arguments that are always sent, and more.
func (a *attempt) acquireCall(keys int, more ...any) call {
	m := a.m
	args := append([]any{a.says.value, a.says.ballot, m.expiryArg, m.fenceArg}, more...)
	return newCall(acquireScript, m.name, &m.eyes, m.names, keys, args...)
}

// proposal is what one round of an attempt asks.
type proposal struct {
	*attempt
	ballot  int64
	w       *waiter // nil: joins no queue
	lease   *lease
	life    time.Duration
	passing call    // joins no queue
	queuing call    // for a waiter: joins
	queues  nodeSet // nodes that get queuing
}

// ask is of question.
func (p *proposal) ask(ctx context.Context, n *node) reply {
	if p.queues.has(n.index) {
		return n.acquire(ctx, &p.queuing)
	}
	return n.acquire(ctx, &p.passing)
}

// count is of question.
func (p *proposal) count(n *node, got reply) vote {
	if p.queues.has(n.index) {
		p.w.saw(n, p.ballot, got)
	}
	if got.refuses() {
		p.refusedBy(n)
	}
	if got.err != nil || got.code != codeGranted {
		return no
	}
	p.lease.record(n.index, got.sent.Add(p.life), got.received, true)
	return yes
}

// leash is of leashedQuestion.
func (p *proposal) leash(got reply) time.Duration {
	if got.err != nil || got.code != codeBusy {
		return 0
	}
	// Of several that came at once each may have some nodes, and none may wait for
	// a node that does not answer while it keeps the others from theirs.
	return contendedFor + 4*p.m.r.farthest()
}

// late is of lateQuestion.
func (p *proposal) late(ctx context.Context, n *node, got reply) {
	if !got.refuses() && p.stray(n) {
		p.takeBack(ctx, n)
	}
}

// owe notes the nodes among replies that may have granted. One that has not
// answered yet comes to stray.
func (a *attempt) owe(replies []reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range replies {
		if got := &replies[i]; got.counted && !got.refuses() {
			a.owed.add(i)
		}
	}
}

// refusedBy takes in that a node did not grant. That says all only while nothing else was
// sent that may bring the key there: of two proposals the other may have been granted, or
// may still arrive, and an extend may have come first.
func (a *attempt) refusedBy(n *node) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sent == 1 {
		a.absent.add(n.index)
	}
}

// mayHold reports whether node i may hold anything of the attempt.
func (a *attempt) mayHold(i int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.absent.has(i)
}

// extended comes before an extend is sent, which may bring the key to every node.
func (a *attempt) extended() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent++
	a.absent = 0
}

// stray notes a late reply that may be a grant, and reports whether to undo it
// here: the attempt is lost already. While it goes on, or once it has won, the
// reply to the final ballot decides about the node.
func (a *attempt) stray(n *node) (undo bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.owed.add(n.index)
	return a.lost
}

// undo takes back what the attempt may have left at the owed nodes. Nobody waits
// for it, and where it fails, the janitor takes over. The release carries the latest
// ballot, so that whatever is still on its way is refused. It calls the next waiter
// unless a holder was seen who will: each waiter it called would only do the same.
func (a *attempt) undo(ctx context.Context, held bool) {
	a.mu.Lock()
	a.lost, a.held = true, held
	owed := a.owed
	a.mu.Unlock()
	for i, n := range a.m.r.nodes {
		if owed.has(i) {
			a.takeBack(ctx, n)
		}
	}
}

// takeBack releases at one node, in the background. A key that was perhaps held
// before the attempt (WithReentry) stays.
func (a *attempt) takeBack(ctx context.Context, n *node) {
	m := a.m
	if m.config.reentry {
		return
	}
	a.mu.Lock()
	held := a.held
	a.mu.Unlock()
	who := callNext
	// Of several names the holder that was seen may have another than those taken.
	if held && len(m.names) == 1 {
		who = callNobody
	}
	back := m.releaseCall(a.says, who)
	m.r.background(ctx, n, m.config.timeout(), errand{
		ask:  func(ctx context.Context, n *node) reply { return n.release(ctx, &back) },
		then: func(n *node, got reply) { m.released(n, got, a.id, &back, m.config.expiry) },
	})
}

// identity is the value of a new attempt, without its ballot.
func (m *Mutex) identity() (string, error) {
	if m.config.reentry {
		id, _ := splitValue(m.config.value)
		return id, nil
	}
	var buffer [64]byte
	id := buffer[:0]
	if m.config.genValue == nil {
		id = appendRandom(id, 16)
	} else {
		text, err := m.config.genValue()
		if err != nil {
			return "", err
		}
		id = append(id, text...)
	}
	id = appendRandom(append(id, '.'), 9)
	return string(append(id, '.')), nil
}

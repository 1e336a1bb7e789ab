package redlock

import (
	"context"
	"math"
	"slices"
	"strconv"
	"time"
)

// maxProposals bounds how often one attempt outbids newer ones.
const maxProposals = 4

// refusal is an attempt that did not win: what the nodes said, and what it means.
type refusal struct {
	err      error // ErrNoQuorum or a *TakenError
	faults   []error
	hopeless bool // faults that need mending rule out a quorum
	// free is when a quorum of nodes will be free if no holder renews, 0 when
	// that cannot be told.
	free   time.Duration
	rank   int64 // best place in a queue, -1 when in none
	split  bool  // no holder is seen on a quorum: nobody may be there to call
	behind int   // holders seen whose ballots are lower than the attempt's
}

// attempt proposes a ballot to all nodes, and a higher one at once where newer
// attempts were seen: that is not contention. It leaves nothing behind unless it
// wins.
func (m *Mutex) attempt(ctx context.Context, w *waiter) (*grant, *refusal) {
	id, err := m.identity()
	if err != nil {
		return nil, &refusal{err: err, hopeless: true, rank: -1}
	}
	r := m.r
	owed := make([]bool, len(r.nodes)) // nodes that may hold what was sent
	var floor int64
	for proposals := 1; ; proposals++ {
		p := r.clock.next(floor)
		lease := newLease(len(r.nodes), r.quorum)
		verdict, replies := m.propose(ctx, id, p, lease, w)
		if verdict == won {
			g := &grant{id: id, value: joinValue(id, p), token: p, high: p, lease: lease, gated: true}
			if lease.alive(time.Now()) {
				m.degraded(ctx, "lock", replies)
				return g, nil
			}
		}
		for i := range replies {
			if a := &replies[i]; a.err != nil || a.code == codeGranted {
				owed[i] = true
			}
		}
		if higher, ok := m.outbid(replies); ok && verdict != won && proposals < maxProposals && ctx.Err() == nil {
			floor = higher
			continue
		}
		m.undo(ctx, id, p, owed)
		no := m.judge(replies, p)
		if verdict == won {
			no.err = joinErrors(ErrNoQuorum, errTooSlow)
		}
		return nil, no
	}
}

// propose is one round of an attempt.
func (m *Mutex) propose(ctx context.Context, id string, p int64, lease *lease, w *waiter) (verdict, []reply) {
	c := m.config
	passing, queuing := m.acquireCalls(id, p, w)
	life := c.expiry - drift(c.expiry, c.driftFactor)
	started := time.Now()
	rd := m.r.actOnPoolsAsync(ctx, c.timeout(), request{
		ask: func(ctx context.Context, n *node) reply {
			if queuing != nil && m.r.wakes.listening(n) {
				return n.acquire(ctx, queuing)
			}
			return n.acquire(ctx, passing)
		},
		count: func(n *node, a *reply) vote {
			if w != nil {
				w.saw(n, a)
			}
			if a.err != nil || a.code != codeGranted {
				return no
			}
			lease.record(n.index, a.sent.Add(life), a.received, true)
			return yes
		},
	})
	v, replies := rd.wait(ctx)
	m.r.took(time.Since(started))
	return v, replies
}

// acquireCalls are an acquire that joins no queue and, for a waiter, one that does.
func (m *Mutex) acquireCalls(id string, p int64, w *waiter) (passing, queuing *call) {
	args := make([]any, 8)
	copy(args, m.acquireRest)
	args[0], args[1] = id, strconv.FormatInt(p, 10)
	passing = &call{name: m.name, eyes: &m.eyes, keys: m.acquireKeys, args: args}
	if w != nil {
		queued := slices.Clone(args)
		queued[6], queued[7] = w.join(p)
		queuing = &call{name: m.name, eyes: &m.eyes, keys: m.acquireKeys, args: queued}
	}
	return passing, queuing
}

// identity is the value of a new attempt, without its ballot.
func (m *Mutex) identity() (string, error) {
	if m.config.reentry {
		id, _ := splitValue(m.config.value)
		return id, nil
	}
	text, err := m.config.genValue()
	if err != nil {
		return "", err
	}
	return text + "." + randomText(9) + ".", nil
}

// outbid finds the fence to go above, where nodes that called the ballot stale
// could still make a quorum with those that did not refuse.
func (m *Mutex) outbid(replies []reply) (floor int64, ok bool) {
	refused, stale := 0, false
	for i := range replies {
		a := &replies[i]
		switch {
		case a.err != nil || a.code == codeBusy || a.code == codeQuarantined:
			refused++
		case a.code == codeStale:
			stale = true
			if m.r.clock.usable(a.fence) {
				floor = max(floor, a.fence)
			}
		}
	}
	return floor, stale && refused <= len(replies)-m.r.quorum
}

// undo takes back what an attempt may have left at the owed nodes. Nobody waits
// for it: each release has a goroutine, and where that fails, the janitor.
func (m *Mutex) undo(ctx context.Context, id string, high int64, owed []bool) {
	if m.config.reentry {
		return // the key may have been held before this attempt
	}
	r, back := m.r, m.releaseCall(id, high)
	ctx = context.WithoutCancel(ctx)
	for i, n := range r.nodes {
		if !owed[i] {
			continue
		}
		r.tasks.add(1)
		go func() {
			defer r.tasks.done()
			ctx, cancel := context.WithTimeout(ctx, m.config.timeout())
			defer cancel()
			a := n.release(ctx, back)
			m.released(n, &a, id, back)
		}()
	}
}

// released leaves a release that failed to the janitor.
func (m *Mutex) released(n *node, a *reply, id string, back *call) {
	if a.err == nil {
		return
	}
	c := m.config
	m.r.owe(n, id, &debt{
		call: *back, timeout: c.timeout(), last: a.err,
		until: time.Now().Add(skewBound + c.expiry),
	})
}

func (m *Mutex) releaseCall(id string, high int64) *call {
	return &call{
		name: m.name, eyes: &m.eyes, keys: m.releaseKeys,
		args: []any{id, strconv.FormatInt(high, 10), skewArg, retentionArg},
	}
}

// judge says why the replies to ballot p make no grant.
func (m *Mutex) judge(replies []reply, p int64) *refusal {
	no := &refusal{faults: failed(replies), rank: -1}
	taken := &TakenError{Name: m.name}
	free := make([]int64, 0, len(replies)) // ms until each node is free
	mend := 0
	holders := map[int64]int{}
	for i := range replies {
		a := &replies[i]
		switch {
		case a.err != nil:
			free = append(free, math.MaxInt64)
			if permanent(a.err) {
				mend++
			}
		case a.code == codeQuarantined:
			free = append(free, a.ttl)
			no.faults = append(no.faults, m.r.nodes[i].fault(&quarantineError{time.Duration(a.ttl) * time.Millisecond}))
		case a.code == codeBusy:
			taken.Nodes = append(taken.Nodes, i)
			taken.Token = max(taken.Token, a.ballot)
			holders[a.ballot]++
			if a.last >= 0 && (no.rank < 0 || a.last < no.rank) {
				no.rank = a.last
			}
			if a.ttl < 0 {
				free = append(free, math.MaxInt64)
				taken.TTL = -1
			} else {
				free = append(free, a.ttl)
			}
		default:
			free = append(free, 0)
		}
	}
	slices.Sort(free)
	if f := free[m.r.quorum-1]; f < math.MaxInt64/int64(time.Millisecond) {
		no.free = time.Duration(f) * time.Millisecond
		taken.TTL = no.free
	}
	spare := len(replies) - m.r.quorum
	no.hopeless = mend > spare
	if len(no.faults) > spare {
		no.err = ErrNoQuorum
		return no
	}
	no.err = taken
	no.split = true
	for ballot, n := range holders {
		if ballot < p {
			no.behind++
		}
		// Silent nodes are counted for the holder: it may be there.
		if n+len(no.faults) >= m.r.quorum {
			no.split = false
		}
	}
	return no
}

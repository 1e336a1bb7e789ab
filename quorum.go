package redlock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/lazyctx"
)

// vote is what a node's reply counts as.
type vote uint8

const (
	no vote = iota
	yes
)

// verdict is what the votes so far amount to.
type verdict uint8

const (
	pending verdict = iota
	won
	lost
)

// tally counts votes of n nodes. It is pure: same votes, same verdict, whatever
// their order.
type tally struct {
	n, quorum int
	yes, no   int
}

func (t *tally) add(v vote) {
	if v == yes {
		t.yes++
	} else {
		t.no++
	}
}

func (t *tally) verdict() verdict {
	switch {
	case t.yes >= t.quorum:
		return won
	case t.no > t.n-t.quorum:
		return lost
	}
	return pending
}

// question is what a round asks every node.
type question interface {
	// ask runs on a goroutine of the node's. ctx ends at the node timeout.
	ask(ctx context.Context, n *node) reply
	// count judges each reply, early or late, under no lock.
	count(n *node, r reply) vote
}

// A question may also be any of these.
type (
	// lateQuestion wants to hear of a reply that came after the decision, in addition.
	lateQuestion interface {
		late(ctx context.Context, n *node, r reply)
	}
	// leashedQuestion says how long the round may last once a reply is in, 0 for no
	// change.
	leashedQuestion interface {
		leash(r reply) time.Duration
	}
)

// request is a question made of functions.
type request struct {
	asked   func(ctx context.Context, n *node) reply
	counted func(n *node, r reply) vote
}

func (q request) ask(ctx context.Context, n *node) reply { return q.asked(ctx, n) }

func (q request) count(n *node, r reply) vote { return q.counted(n, r) }

// round is one question to every node at once. It is decided by the decisive
// reply, not the last; a reply that comes later is still counted by the goroutine
// that waited for it.
type round struct {
	limit   lazyctx.Context // of the requests
	timeout time.Duration   // of the requests
	decided chan struct{}   // closed at the decision
	nodes   []*node
	tasks   *tasks
	hoped   nodeSet // expected to answer when the round began
	question
	then func(rd *round, v verdict) // called once, at the decision, if not nil

	votes   sync.Mutex
	tally   tally       // guarded by votes
	outcome verdict     // guarded by votes; pending until decided
	replies []reply     // guarded by votes; those the decision rests on
	left    int         // guarded by votes; requests still out
	hopes   int         // guarded by votes; those of them that may soon be answered
	clock   *time.Timer // guarded by votes; rings at the deadline
	rung    bool        // guarded by votes; the deadline has passed
	short   *time.Timer // guarded by votes; ends a contended round early

	few [fewNodes]reply // replies, of few nodes
}

// fewNodes is up to how many nodes a round is one allocation.
const fewNodes = 5

// actOnPoolsAsync asks every node at once and returns before any has answered.
// The requests do not end with ctx: one that was sent has to be known or undone.
// They end at the node timeout, each on a goroutine that r.tasks counts.
func (r *Redlock) actOnPoolsAsync(ctx context.Context, timeout time.Duration, q question) *round {
	return r.actOnPoolsThen(ctx, timeout, q, nil)
}

// actOnPoolsThen is actOnPoolsAsync for a caller that is told of the decision.
func (r *Redlock) actOnPoolsThen(ctx context.Context, timeout time.Duration, q question, then func(*round, verdict)) *round {
	n := len(r.nodes)
	rd := &round{
		decided:  make(chan struct{}),
		timeout:  timeout,
		nodes:    r.nodes,
		tasks:    &r.tasks,
		question: q,
		then:     then,
		tally:    tally{n: n, quorum: r.quorum},
		left:     n,
	}
	if n <= fewNodes {
		rd.replies = rd.few[:n]
	} else {
		rd.replies = make([]reply, n)
	}
	patience := r.patience
	if patience.Err() != nil {
		patience = nil // an Unlock after Close
	}
	rd.limit.Begin(ctx, patience, time.Now().Add(timeout))
	r.tasks.add(n)
	for i, n := range r.nodes {
		if !n.suspect(timeout) {
			rd.hopes++
			rd.hoped.add(i)
		}
	}
	rd.votes.Lock()
	rd.clock = time.AfterFunc(timeout, rd.ring)
	rd.votes.Unlock()
	for _, n := range r.nodes {
		n.submit(rd)
	}
	return rd
}

// ring ends the round at the deadline, whatever the adapters do.
func (rd *round) ring() {
	rd.votes.Lock()
	rd.rung = rd.outcome == pending
	rd.votes.Unlock()
	rd.giveUp()
}

// run asks one node; see job.
func (rd *round) run(n *node) {
	defer rd.tasks.done()
	if err := rd.limit.Err(); err != nil {
		rd.arrived(n, reply{err: n.fault(err), unsent: true})
		return
	}
	rd.arrived(n, rd.ask(&rd.limit, n))
}

// patience is of job.
func (rd *round) patience() time.Duration { return rd.timeout }

// refuse counts a node that could not be asked; see job.
func (rd *round) refuse(n *node, err error) {
	defer rd.tasks.done()
	rd.arrived(n, reply{err: err, unsent: true})
}

func (rd *round) arrived(n *node, a reply) {
	v := rd.count(n, a)
	rd.votes.Lock()
	was := rd.outcome
	rd.left--
	last := rd.left == 0
	if last {
		rd.clock.Stop()
	}
	if was == pending {
		a.counted = true
		rd.replies[n.index] = a
		rd.tally.add(v)
		rd.outcome = rd.tally.verdict()
		if rd.hoped.has(n.index) {
			rd.hopes--
		}
		if rd.outcome == pending && rd.hopes == 0 && (a.err != nil || rd.hoped.has(n.index)) {
			// Only nodes are out that have not answered for a while. Once one of them
			// does, the others may have come back as well.
			rd.outcome = lost
		}
		rd.hurry(a)
	}
	if was == lost {
		rd.replies[n.index] = a // for settle
	}
	now := rd.outcome
	rd.votes.Unlock()
	if was == pending && now != pending {
		rd.announce(now)
	}
	if was != pending {
		if q, ok := rd.question.(lateQuestion); ok {
			q.late(&rd.limit, n, a)
		}
	}
	if last {
		rd.limit.End(context.Canceled)
	}
}

// hurry puts a round on its leash, or takes it off. The lock is held.
func (rd *round) hurry(a reply) {
	switch {
	case rd.outcome != pending:
		if rd.short != nil {
			rd.short.Stop()
		}
	case rd.short == nil:
		if q, ok := rd.question.(leashedQuestion); ok {
			if d := q.leash(a); d > 0 {
				rd.short = time.AfterFunc(d, rd.giveUp)
			}
		}
	}
}

func (rd *round) announce(v verdict) {
	close(rd.decided)
	if rd.then != nil {
		rd.then(rd, v)
	}
}

// giveUp ends a round that is still pending as lost.
func (rd *round) giveUp() {
	rd.votes.Lock()
	was := rd.outcome
	if was == pending {
		rd.outcome = lost
	}
	rd.votes.Unlock()
	if was == pending {
		rd.announce(lost)
	}
}

// wait returns the verdict and the replies it rests on. It does not wait longer
// than ctx, nor than the node timeout, whatever the adapters do: a node that has
// not answered by then gets the error of whichever ended first.
func (rd *round) wait(ctx context.Context) (verdict, []reply) {
	var silent error
	select {
	case <-rd.decided:
	case <-ctx.Done():
		silent = ctx.Err()
		rd.giveUp()
	}
	rd.votes.Lock()
	defer rd.votes.Unlock()
	if silent == nil && rd.rung {
		silent = &silenceError{}
	}
	if rd.outcome == won {
		for i := range rd.replies { // nothing else is written to them any more
			if a := &rd.replies[i]; !a.counted && !rd.hoped.has(i) {
				a.err = rd.nodes[i].notAsked()
			}
		}
		return won, rd.replies
	}
	return lost, rd.lostReplies(silent)
}

// all waits for every reply. A node that does not answer within the node timeout
// or ctx gets the error of that.
func (rd *round) all(ctx context.Context) []reply {
	var silent error
	select {
	case <-rd.limit.Done():
		silent = &silenceError{}
	case <-ctx.Done():
		silent = ctx.Err()
	}
	rd.giveUp()
	rd.votes.Lock()
	defer rd.votes.Unlock()
	return rd.lostReplies(silent)
}

// snapshot is the replies so far.
func (rd *round) snapshot() []reply {
	rd.votes.Lock()
	defer rd.votes.Unlock()
	return rd.lostReplies(nil)
}

// lostReplies are the replies to a lost round so far, with an error for nodes that
// have not answered: silent if there is one, and for those of which no answer was
// expected that. The lock is held.
func (rd *round) lostReplies(silent error) []reply {
	replies := slices.Clone(rd.replies)
	for i := range replies {
		a := &replies[i]
		if !a.received.IsZero() || a.err != nil {
			continue
		}
		switch {
		case silent != nil:
			a.err = &NodeError{Node: i, Addr: rd.nodes[i].addr, Err: silent}
		case !rd.hoped.has(i):
			a.err = rd.nodes[i].notAsked()
		}
	}
	return replies
}

// noes is the number of nodes that had not voted for a decided round.
func (rd *round) noes() int {
	rd.votes.Lock()
	defer rd.votes.Unlock()
	return rd.tally.no
}

// settle waits a moment for the replies that a lost round did not need, and
// returns all that have come.
func (rd *round) settle(ctx context.Context, moment time.Duration) []reply {
	timer := time.NewTimer(moment)
	defer timer.Stop()
	select {
	case <-rd.limit.Done(): // all are in, or the time for them is up
	case <-timer.C:
	case <-ctx.Done():
	}
	rd.votes.Lock()
	defer rd.votes.Unlock()
	return rd.lostReplies(nil)
}

// failed are the faults among replies.
func failed(replies []reply) []error {
	var errs []error
	for i := range replies {
		if err := replies[i].err; err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

package redlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/quorumlock/redlock/pool"
)

// Status is what the nodes know of a lock.
type Status struct {
	Name string
	// Held is set when one value is held on a quorum of nodes.
	Held bool
	// Value and Token are of that holder; Token is 0 when it is not of this library.
	// The value is generated.nonce.token, with what WithGenValueFunc made in front.
	Value string
	Token int64
	// TTL is how long until the holder loses its quorum if it does not renew;
	// negative when it never does.
	TTL time.Duration
	// Waiters is the length of the longest queue of a node.
	Waiters int
	Nodes   []NodeStatus
}

// NodeStatus is what one node knows of a lock.
type NodeStatus struct {
	Node    int
	Addr    string
	Err     error         // a *NodeError; then nothing below holds
	Value   string        // "" when the node holds none, or its pool reads no text
	Token   int64         // of the value
	TTL     time.Duration // of the value; negative: it never expires
	Fence   int64         // highest ballot seen
	Waiters int
}

// Inspect asks every node about a lock and changes nothing. An error matches
// ErrNoQuorum when too few answered, or is ctx's; the status holds what was
// learned all the same.
func (r *Redlock) Inspect(ctx context.Context, name string) (*Status, error) {
	if name == "" {
		return nil, fail("inspect", name, &OptionError{"Inspect", `""`, "the name must not be empty"})
	}
	k := keysOf(name)
	look := newCall(inspectScript, name, &r.eyes, []keyWords{k.words()}, 3)
	values := make([]string, len(r.nodes))
	rd := r.actOnPoolsAsync(ctx, r.config.timeout(), request{
		asked: func(ctx context.Context, n *node) reply {
			a := n.eval(ctx, &look)
			if t, ok := n.pool.(pool.TextReader); ok && a.err == nil && a.code == 1 {
				value, _, err := t.Get(ctx, k.lock)
				if err != nil {
					a.err = n.fault(err)
				}
				values[n.index] = value
			}
			return a
		},
		// Every node is wanted, so that no vote decides.
		counted: func(*node, reply) vote { return no },
	})
	replies := rd.all(ctx)
	s := &Status{Name: name, Nodes: make([]NodeStatus, len(r.nodes))}
	for i, n := range r.nodes {
		s.Nodes[i] = NodeStatus{Node: i, Addr: n.addr, Err: replies[i].err}
		if a := &replies[i]; a.err == nil {
			s.Nodes[i].Fence, s.Nodes[i].Waiters = a.fence, int(a.last)
			s.Nodes[i].Value, s.Nodes[i].Token = values[i], a.ballot
			s.Nodes[i].TTL = time.Duration(a.ttl) * time.Millisecond
			s.Waiters = max(s.Waiters, int(a.last))
		}
	}
	s.findHolder(r.quorum, replies)
	if faulty := failed(replies); ctx.Err() != nil {
		return s, fail("inspect", name, ctx.Err(), faults(faulty))
	} else if len(faulty) > len(r.nodes)-r.quorum {
		return s, fail("inspect", name, ErrNoQuorum, faults(faulty))
	}
	return s, nil
}

// findHolder fills in the value that a quorum holds. Where values cannot be read,
// ballots tell holders apart.
func (s *Status) findHolder(quorum int, replies []reply) {
	type holder struct {
		id    string // nodes may hold a grant under an earlier ballot of its attempt
		token int64  // where values cannot be read
	}
	held := map[holder][]int{}
	for i := range replies {
		if a := &replies[i]; a.err == nil && a.code == 1 {
			h := holder{token: a.ballot}
			if value := s.Nodes[i].Value; value != "" {
				id, _ := splitValue(value)
				h = holder{id: id}
			}
			held[h] = append(held[h], i)
		}
	}
	for _, nodes := range held {
		if len(nodes) < quorum {
			continue
		}
		var lives []time.Duration
		for _, i := range nodes {
			n := &s.Nodes[i]
			lives = append(lives, n.TTL)
			if !s.Held || n.Token > s.Token {
				s.Held, s.Value, s.Token = true, n.Value, n.Token
			}
		}
		s.TTL = quorumEnds(lives, quorum)
	}
}

// quorumEnds is when fewer than quorum of the lives are left: the quorum-th
// longest ends.
func quorumEnds(lives []time.Duration, quorum int) time.Duration {
	rank := func(d time.Duration) time.Duration {
		if d < 0 {
			return 1<<63 - 1
		}
		return d
	}
	for _, candidate := range lives {
		longer, same := 0, 0
		for _, d := range lives {
			switch {
			case rank(d) > rank(candidate):
				longer++
			case d == candidate:
				same++
			}
		}
		if longer < quorum && longer+same >= quorum {
			return candidate
		}
	}
	return 0
}

// Break takes a lock from whoever holds it, for the holder that does not come
// back. Its next extend is refused, and with Hold its context ends then; until
// then, one expiry at most, it does not know, and only its token keeps it out of
// the resource. The next grant has a higher token. Where an attempt is broken that has
// not won yet, it may still win, with a token below one granted in between.
//
// An error matches ErrNotHeld when no node holds the lock, ErrNoQuorum when too
// few nodes answered, ErrTaken when another holder came between, or is ctx's.
func (r *Redlock) Break(ctx context.Context, name string) error {
	s, err := r.Inspect(ctx, name)
	if err != nil {
		var f *failure
		errors.As(err, &f) // Inspect returns nothing else
		return fail("break", name, f.matches...)
	}
	value := s.Value
	var life time.Duration
	for _, n := range s.Nodes {
		if n.Value != "" && !s.Held {
			value = n.Value // a partial holder
		}
		life = max(life, n.TTL)
	}
	if value == "" {
		for _, n := range r.nodes {
			if _, ok := n.pool.(pool.TextReader); !ok {
				return fail("break", name, fmt.Errorf("%w: the pool of node %d cannot read text", ErrInvalidOption, n.index))
			}
		}
		return fail("break", name, ErrNotHeld)
	}
	names := []keyWords{keysOf(name).words()}
	rd := r.actOnPoolsAsync(ctx, r.config.timeout(), request{
		asked: func(ctx context.Context, n *node) reply {
			mine := value
			if seen := s.Nodes[n.index].Value; seen != "" {
				mine = seen
			}
			_, ballot := splitValue(mine)
			own := newCall(breakScript, name, &r.eyes, names, 4, mine, strconv.FormatInt(ballot, 10),
				milliseconds(max(life, r.config.expiry)+retention))
			return n.eval(ctx, &own)
		},
		counted: func(_ *node, a reply) vote {
			if a.err == nil && a.code != codeOtherOwner {
				return yes
			}
			return no
		},
	})
	verdict, replies := rd.wait(ctx)
	switch {
	case verdict == won:
		return nil
	case ctx.Err() != nil:
		return fail("break", name, ctx.Err())
	}
	faulty := failed(replies)
	if len(faulty) > len(r.nodes)-r.quorum {
		return fail("break", name, ErrNoQuorum, faults(faulty))
	}
	return fail("break", name, &TakenError{Name: name}, faults(faulty))
}

// Check asks the nodes whether the grant still stands, and changes nothing. It
// returns nil when a quorum confirms it. An error is that of Extend, without
// ErrExtendFailed; a node that answers that it does not hold the lock counts no
// longer towards its validity.
func (m *Mutex) Check(ctx context.Context) error {
	if err := m.usable(ctx); err != nil && !errors.Is(err, ErrClosed) {
		return fail("check", m.name, err)
	}
	g := m.current()
	switch {
	case g == nil:
		return fail("check", m.name, ErrNotHeld)
	case !g.lease.alive(time.Now()):
		return fail("check", m.name, ErrExpired)
	}
	// A touch that can neither lengthen anything nor bring anything back.
	look := m.touchCall(g, "0", time.Millisecond)
	rd := m.r.actOnPoolsAsync(ctx, m.config.timeout(), request{
		asked:   func(ctx context.Context, n *node) reply { return g.ask(ctx, n, &look) },
		counted: func(n *node, a reply) vote { return g.touched(n, a, 0) },
	})
	verdict, replies := rd.wait(ctx)
	if verdict != won {
		return fail("check", m.name, m.lostTo(ctx, replies, !g.lease.alive(time.Now()), codeGone, codeOtherHolder)...)
	}
	return nil
}

package redlock

import (
	"context"
	"strconv"
	"time"
)

func (m *Mutex) extend(ctx context.Context, g *grant, d time.Duration) error {
	rd, err := m.touch(ctx, g, d, nil)
	if err != nil {
		return fail("extend", m.name, ErrExtendFailed, err)
	}
	verdict, replies := rd.wait(ctx)
	if verdict == won {
		if !g.lease.alive(time.Now()) {
			return fail("extend", m.name, ErrExtendFailed, ErrExpired)
		}
		g.degraded.Store(rd.noes() > 0)
		return nil
	}
	why := m.lostTo(ctx, replies, !g.lease.alive(time.Now()), codeGone, codeOtherHolder)
	return fail("extend", m.name, append([]error{ErrExtendFailed}, why...)...)
}

// touch starts one round of an extend. Every reply, early or late, goes into the
// ledger.
func (m *Mutex) touch(ctx context.Context, g *grant, d time.Duration, then func(*round, verdict)) (*round, error) {
	if !g.lease.alive(time.Now()) {
		return nil, ErrExpired
	}
	q, ok := g.propose(m.r.clock, d)
	if !ok {
		return nil, ErrNotHeld
	}
	validity := g.lease.validity()
	shared := m.touchCall(g, strconv.FormatInt(q, 10), d)
	life := d - drift(d, m.config.driftFactor)
	return m.r.actOnPoolsThen(ctx, m.config.timeout(), request{
		asked: func(ctx context.Context, n *node) reply {
			if ends := m.r.clock.at(n.index, validity); g.won != nil && !validity.IsZero() && ends > 0 {
				own := shared.with(touchEnds, strconv.FormatInt(ends, 10))
				return g.ask(ctx, n, &own)
			}
			return g.ask(ctx, n, &shared)
		},
		counted: func(n *node, a reply) vote { return g.touched(n, a, life) },
	}, then), nil
}

// touchEnds is the place of V, the end of validity, among the arguments.
const touchEnds = 3

// touchCall is for a lock that is to live for d from now, at least. Without V it brings
// nothing back.
func (m *Mutex) touchCall(g *grant, q string, d time.Duration) call {
	says := newValueWords(g.id, g.token)
	keys, args := 4, []any{says.value, says.ballot, q, "0", milliseconds(d), milliseconds(d + retention), m.guardArg}
	if m.config.guard == 0 {
		keys, args = 3, args[:6]
	}
	return newCall(touchScript, m.name, &m.eyes, m.names, keys, args...)
}

package redlock

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// NewMultiMutex makes a mutex that holds all of the names or none, with one token
// and one validity for all. Sets that overlap cannot deadlock: names are asked for in
// their order, and an attempt that does not get all gives back what it got. The
// mutexes of the single names and of other sets are excluded as usual; a waiter for
// several names polls (WithRetryDelayFunc), and is not called by a release.
//
// An invalid option, an empty name or an empty set surfaces as ErrInvalidOption from
// every verb.
func (r *Redlock) NewMultiMutex(names []string, opts ...Option) *Mutex {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	m := r.newMutex(strings.Join(names, ","), names, opts)
	if len(names) > 1 {
		m.line = lineOf(names)
	}
	if len(names) == 0 {
		m.refuse("NewMultiMutex", names, "needs at least one name")
	}
	return m
}

// severity orders the codes of an acquire from what helps to what hinders. The codes
// of the other scripts are in that order already.
var severity = [...]int{codeGranted: 0, codeStale: 1, codeQuarantined: 2, codeBusy: 3}

// evalAll runs a script for each name in turn and sums the replies up to the worst. An
// acquire ends with the first name it does not get, so that contenders meet at the
// lowest name they share.
func (n *node) evalAll(ctx context.Context, c *call) reply {
	s := c.script
	sum := n.evalOne(ctx, c, 0)
	granted := sum.err == nil && s == acquireScript && sum.code == codeGranted
	for name := 1; name < len(c.names); name++ {
		if s == acquireScript && (sum.err != nil || sum.code != codeGranted) {
			break
		}
		if sum.err != nil && ctx.Err() != nil {
			break // the same silence must not count once for each name
		}
		r := n.evalOne(ctx, c, name)
		sum = worse(s, sum, r)
	}
	sum.partial = granted && (sum.err != nil || sum.code != codeGranted)
	if sum.err != nil {
		sum.err = n.fault(fmt.Errorf("one of %d names: %w", len(c.names), sum.err))
	}
	return sum
}

// worse sums up two replies of one node, a before b.
func worse(s *script, a, b reply) reply {
	if a.err != nil {
		return a
	}
	rank := func(code int) int {
		if s == acquireScript {
			return severity[code]
		}
		return code
	}
	sum := b
	if b.err == nil && rank(a.code) > rank(b.code) {
		sum = a
	}
	sum.sent, sum.received, sum.unsent = a.sent, b.received, false
	sum.now, sum.fence = max(a.now, b.now), max(a.fence, b.fence)
	if s == touchScript {
		sum.ttl, sum.last = min(a.ttl, b.ttl), max(a.last, b.last)
	}
	return sum
}

package model

// Reply codes; see the headers in scripts/.
const (
	granted     = 1
	busy        = 2
	stale       = 3
	quarantined = 4

	released   = 1
	missing    = 2
	otherOwner = 3

	heldHere    = 1
	restored    = 2
	toppedUp    = 3
	gone        = 4
	otherHolder = 5
)

// near is |b - now| <= S by the clock of node i; now is 0 by the slowest.
func (m *model) near(b int8, i int8) bool {
	off := b - m.offset[i]
	return -m.Skew <= off && off <= m.Skew
}

func (k *keys) known() bool { return k.fence != none }

// quarantine is guard.lua: whether the node is barred. A marker of an earlier run bars it
// for T from the moment at which that is first seen.
func (m *model) quarantine(n *node) bool {
	if n.foreign {
		n.foreign, n.barred = false, m.Hold
	}
	return m.Guard && n.barred > 0
}

// old makes alike what no node accepts any more.
func (m *model) old(b int8) int8 { return max(b, m.floor) }

// raise writes the fence. A life is never shortened.
func (k *keys) raise(b, life int8) {
	k.fence, k.life = b, max(k.life, life)
}

// acquire is acquire.lua: client i proposes its ballot number k at node at.
func (m *model) acquire(s *state, i, at int8, k uint8) int8 {
	n, p := &s.nodes[at], s.clients[i].p[k]
	barred := m.quarantine(n)
	switch {
	case n.holder < 0 && p > n.fence && m.near(p, at) && !barred:
		n.holder, n.prop, n.ttl = i, k, m.Expiry
	case n.holder >= 0 && n.holder != i:
		return busy
	case barred:
		return quarantined
	case n.holder < 0 || p < n.fence || !m.near(p, at):
		return stale
	default: // its own: a re-proposal, or a request that came twice
		n.prop, n.ttl = k, max(n.ttl, m.Expiry)
	}
	n.raise(p, m.Expiry+m.Retain)
	return granted
}

// release is release.lua.
func (m *model) release(s *state, i, at int8) int8 {
	n, c := &s.nodes[at], &s.clients[i]
	h := c.high
	if m.Variant == ReleaseOfToken {
		h = m.old(c.token())
	}
	if n.holder == i && m.old(c.p[n.prop]) == h {
		n.free()
		return released
	}
	code := int8(missing)
	switch n.holder {
	case -1:
	case i:
		n.free()
		code = released
	default:
		code = otherOwner
	}
	bound := m.offset[at] + 2*m.Skew
	if m.Variant == ReleaseBound {
		bound -= m.Skew
	}
	if m.below(n.fence, h) && h <= bound && m.Variant != ReleaseKeepsFence {
		n.raise(h, m.Retain)
	}
	return code
}

// below is c < h, where ballots that no node accepts any more are all alike: then
// the fence is written, which at most makes it last longer than it would.
func (m *model) below(c, h int8) bool { return c < h || c == m.floor && h == m.floor }

func (k *keys) free() { k.holder, k.prop, k.ttl = -1, 0, 0 }

// touch is touch.lua: extend number k of client i. The second result is whether the
// node is in quarantine.
func (m *model) touch(s *state, i, at int8, k uint8) (code int8, barred bool) {
	n, c := &s.nodes[at], &s.clients[i]
	px := c.d[k]
	switch {
	case n.holder >= 0 && n.holder != i:
		return otherHolder, false
	case n.holder == i:
		px = m.lengthen(n.ttl, px)
		n.ttl = px
		b := n.fence
		if !n.known() {
			b = m.old(c.token())
		}
		n.raise(b, px+m.Retain)
		code = heldHere
	case m.mayRestore(n, c, i, at, k):
		code = toppedUp
		if n.known() {
			code = restored
		}
		n.holder, n.prop, n.ttl = i, c.props-1, px
		b := c.q[k]
		if m.Variant == SetIfMissing || m.Variant == TopUpAnyBallot || m.Variant == TopUpEqual {
			b = max(b, n.fence) // a fence is never lowered; that alone would break these
		}
		n.raise(b, px+m.Retain)
	default:
		return gone, false
	}
	return code, m.quarantine(n)
}

// mayRestore is the condition under which touch.lua brings a missing key back.
func (m *model) mayRestore(n *node, c *client, i, at int8, k uint8) bool {
	q := c.q[k]
	above, fresh := q > n.fence, m.near(q, at) && c.v[k] > 0
	unbroken := n.tomb == 0 || n.stone < c.token() || m.Variant == NoTombstone
	if m.Variant == StoneByName {
		unbroken = n.tomb == 0 || n.stone != c.token()
	}
	switch m.Variant {
	case SetIfMissing:
		return unbroken
	case TopUpAnyBallot:
		above = true
	case TopUpEqual:
		above = q == n.fence
	}
	return above && fresh && unbroken
}

func (m *model) lengthen(ttl, px int8) int8 {
	if m.Variant == PlainExpire {
		return px
	}
	return max(ttl, px)
}

// breakLock is break.lua, for the value that was observed.
func (m *model) breakLock(s *state, at int8) int8 {
	n := &s.nodes[at]
	i, k := n.breaks, n.breakOf
	n.breaks, n.breakOf, n.age = -1, 0, 0
	if n.holder >= 0 && (n.holder != i || n.prop != k) {
		return otherOwner
	}
	code := int8(missing)
	if n.holder >= 0 {
		n.free()
		code = released
	}
	// No life here is longer than the expiry, so "as long as it may live on elsewhere"
	// is the expiry, and the client adds R.
	g, life := s.clients[i].p[k], m.Expiry+m.Retain
	switch {
	case m.Variant == StoneByName:
		n.stone, n.tomb = g, life
	case m.Variant == ShortStone:
		n.stone, n.tomb = g, 1
	case n.tomb > 0:
		n.stone, n.tomb = max(n.stone, g), max(n.tomb, life)
	default:
		n.stone, n.tomb = g, life
	}
	if g = m.old(g); m.below(n.fence, g) && g <= m.offset[at]+2*m.Skew {
		n.raise(g, m.Retain)
	}
	return code
}

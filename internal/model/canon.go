package model

import (
	"math/bits"
	"slices"
)

// settle brings a state into the one form that all states take which nobody can tell
// from it: what nothing will ever read again is cleared.
func (m *model) settle(s *state) {
	for i := range s.nodes {
		n := &s.nodes[i]
		n.keys.expire()
		n.disk.expire()
		if s.restarts == 0 {
			n.disk, n.young = noKeys, 0
		}
	}
	for i := range s.clients {
		m.lapse(&s.clients[i])
		if s.clients[i].phase != idle {
			m.forget(s, int8(i))
		}
	}
	for i := range s.nodes {
		s.unbury(&s.nodes[i].keys)
		s.unbury(&s.nodes[i].disk)
	}
	m.compress(s)
}

func (k *keys) expire() {
	if k.ttl == 0 {
		k.free()
	}
	if k.life == 0 {
		k.fence = none
	}
	if k.tomb == 0 {
		k.stone = 0
	}
}

// unbury takes a tombstone away that keeps nobody out, now or later: it matters to
// extends alone, and whoever has yet to propose proposes no ballot below now.
func (s *state) unbury(k *keys) {
	for i := range s.clients {
		c := &s.clients[i]
		later := c.phase == idle || c.phase == trying
		if k.tomb > 0 && (later && k.stone >= 0 || c.phase != idle && c.mayTouch() && c.token() <= k.stone) {
			return
		}
	}
	k.stone, k.tomb = 0, 0
}

// compress makes proposals and tombstones that are old alike but for their order, and
// those of which nobody will ask for the order quite alike.
func (m *model) compress(s *state) {
	var old [maxClients*maxSends + 2*nodes]*int8
	n := 0
	for i := range s.clients {
		for k := range s.clients[i].p {
			p := &s.clients[i].p[k]
			switch {
			case *p > m.floor:
			case m.Breaks > 0 && s.ordered(int8(i), uint8(k)):
				old[n] = p
				n++
			default:
				*p = m.floor
			}
		}
	}
	if m.Breaks == 0 {
		return
	}
	for i := range s.nodes {
		for _, k := range []*keys{&s.nodes[i].keys, &s.nodes[i].disk} {
			if k.tomb > 0 && k.stone <= m.floor {
				old[n] = &k.stone
				n++
			}
		}
	}
	all := old[:n]
	slices.SortFunc(all, func(a, b *int8) int { return int(*b) - int(*a) })
	next, last := m.floor+1, int8(0)
	for i, b := range all {
		if i == 0 || *b != last {
			next, last = next-1, *b
		}
		*b = next
	}
	if next < none+1 {
		panic("model: more old ballots than a fingerprint tells apart")
	}
}

// ordered reports whether proposal k of client i may yet be held against a tombstone.
func (s *state) ordered(i int8, k uint8) bool {
	c := &s.clients[i]
	if c.phase != idle && k == c.props-1 && c.mayTouch() {
		return true
	}
	for j := range s.nodes {
		n := &s.nodes[j]
		if n.breaks == i && n.breakOf == k {
			return true
		}
		if s.breaks > 0 && (n.holder == i && n.prop == k || n.disk.holder == i && n.disk.prop == k) {
			return true
		}
	}
	return false
}

func (c *client) mayTouch() bool { return c.phase == trying || c.phase == held || c.touches > 0 }

// lapse makes the first instant without a quorum in the ledger terminal.
func (m *model) lapse(c *client) {
	if c.phase == held && c.entries() < quorum {
		c.lapsed = true
		if m.Variant != NonTerminal && !m.LateYes {
			c.phase = ended
		}
	}
	if c.phase == ended || c.phase == over {
		for n := range c.cells {
			c.cells[n].until = 0
		}
	}
}

// forget clears what of client i is of no consequence any more.
func (m *model) forget(s *state, i int8) {
	c := &s.clients[i]
	holds := m.forgetBallots(s, i)
	if c.phase == idle || c.phase == trying || c.phase == held {
		return
	}
	if c.touches > 0 && !holds && !m.anyTouchRestores(c) {
		c.touches = 0
		c.q, c.v, c.d = [maxSends]int8{}, [maxSends]int8{}, [maxSends]int8{}
	}
	if c.phase == ended {
		return
	}
	c.lapsed = false
	// A token too old to be met again orders nothing.
	if c.granted && c.token() <= m.floor {
		c.granted = false
	}
	for n := range c.cells {
		if c.cells[n].bits&releasedHere == 0 {
			return
		}
	}
	c.high = 0
	for k := range c.props {
		if c.p[k] > m.floor || s.ordered(i, k) {
			return
		}
	}
	if !holds && c.touches == 0 {
		*c = client{phase: over, p: [maxSends]int8{m.floor, m.floor}}
	}
}

// forgetBallots makes alike what no node accepts any more, and reports whether a
// node holds the client's key.
func (m *model) forgetBallots(s *state, i int8) (holds bool) {
	c := &s.clients[i]
	for n := range s.nodes {
		holds = holds || s.nodes[n].holder == i || s.nodes[n].disk.holder == i
	}
	for k := range c.touches {
		if !m.touchRestores(c, k) {
			c.q[k], c.v[k] = m.floor, 0
		}
	}
	return holds
}

// touchRestores reports whether extend k may yet bring a missing key back.
func (m *model) touchRestores(c *client, k uint8) bool {
	return m.Variant == SetIfMissing || c.q[k] >= -m.Skew && c.v[k] > 0
}

func (m *model) anyTouchRestores(c *client) bool {
	for k := range c.touches {
		if m.touchRestores(c, k) {
			return true
		}
	}
	return false
}

// frame is one way to number clients and nodes that no rule can tell from another.
// Clients all obey the same rules and share the budgets; nodes are alike if their
// clocks are.
type frame struct {
	client [maxClients]uint8 // old place of each new one
	place  [maxClients + 1]uint64
	node   [nodes]uint8
}

func (m *model) symmetries() []frame {
	var all []frame
	permute(m.Clients, maxClients, func(cs []uint8) {
		permute(nodes, nodes, func(ns []uint8) {
			f := frame{}
			copy(f.client[:], cs)
			copy(f.node[:], ns)
			for new, old := range cs {
				f.place[old+1] = uint64(new) + 1
			}
			for new, old := range ns {
				if m.offset[new] != m.offset[old] {
					return
				}
			}
			all = append(all, f)
		})
	})
	return all
}

// permute calls f with every order of the first n of size numbers.
func permute(n, size int, f func([]uint8)) {
	order := make([]uint8, size)
	for i := range order {
		order[i] = uint8(i)
	}
	var rec func(k int)
	rec = func(k int) {
		if k >= n {
			f(order)
			return
		}
		for j := k; j < n; j++ {
			order[k], order[j] = order[j], order[k]
			rec(k + 1)
			order[k], order[j] = order[j], order[k]
		}
	}
	rec(0)
}

// fingerprint is the same for states that differ by a symmetry, and 64 bits wide: of
// a hundred million states two would share one with a chance of 1 in 3,700.
func (m *model) fingerprint(s *state) uint64 {
	var scalars [maxClients]uint64
	var cells [maxClients][nodes]uint64
	for i := range s.clients {
		scalars[i] = s.clients[i].pack()
		for n, c := range s.clients[i].cells {
			cells[i][n] = uint64(c.bits)<<4 | uint64(c.until)
		}
	}
	var bodies, disks [nodes]uint64
	for n := range s.nodes {
		bodies[n], disks[n] = s.nodes[n].pack(), s.nodes[n].disk.pack()
	}
	rest := uint64(s.repropos) | uint64(s.extends)<<4 | uint64(s.breaks)<<8 | uint64(s.restarts)<<12 | uint64(s.saves)<<16
	if s.disorder {
		rest |= 1 << 20
	}
	least := ^uint64(0)
	for i := range m.frames {
		f := &m.frames[i]
		// Of all frames those that sort will do, and there is mostly one.
		if !m.sorts(f, &scalars, &bodies) {
			continue
		}
		h := mix(rest, 0)
		for _, old := range f.client {
			h = mix(h, scalars[old])
			c := &cells[old]
			h = mix(h, c[f.node[0]]|c[f.node[1]]<<16|c[f.node[2]]<<32)
		}
		for _, old := range f.node {
			n := &s.nodes[old]
			h = mix(h, bodies[old]|f.place[n.holder+1]<<52|f.place[n.breaks+1]<<54)
			if m.Saves > 0 {
				h = mix(h, disks[old]|f.place[n.disk.holder+1]<<52)
			}
		}
		least = min(least, h)
	}
	return least
}

// sorts reports whether f puts clients and nodes into ascending order, by what names
// neither.
func (m *model) sorts(f *frame, scalars *[maxClients]uint64, bodies *[nodes]uint64) bool {
	for i := 1; i < m.Clients; i++ {
		if scalars[f.client[i-1]] > scalars[f.client[i]] {
			return false
		}
	}
	for n := 1; n < nodes; n++ {
		if m.offset[n-1] == m.offset[n] && bodies[f.node[n-1]] > bodies[f.node[n]] {
			return false
		}
	}
	return true
}

// mix is one round of a multiply-and-fold hash.
func mix(h, w uint64) uint64 {
	hi, lo := bits.Mul64(h^w^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	return (hi ^ lo) + bits.RotateLeft64(w, 29)*0xa0761d6478bd642f
}

func nibble(b int8) uint64 { return uint64(b+8) & 15 }

func (c *client) pack() uint64 {
	w := uint64(c.phase) | uint64(c.props)<<3 | uint64(c.touches)<<5
	if c.granted {
		w |= 1 << 7
	}
	if c.lapsed {
		w |= 1 << 8
	}
	shift := 12
	for _, b := range [...]int8{c.p[0], c.p[1], c.q[0], c.q[1], c.v[0], c.v[1], c.d[0], c.d[1], c.high} {
		w |= nibble(b) << shift
		shift += 4
	}
	return w
}

func (n *node) pack() uint64 {
	w := n.keys.pack() | uint64(n.breakOf)<<1
	if n.foreign {
		w |= 1 << 2
	}
	shift := 32
	for _, b := range [...]int8{n.age, n.barred, n.young} {
		w |= nibble(b) << shift
		shift += 4
	}
	return w
}

func (k *keys) pack() uint64 {
	w := uint64(k.prop)
	shift := 4
	for _, b := range [...]int8{k.ttl, k.fence, k.life & 7, k.life >> 3, k.stone, k.tomb & 7, k.tomb >> 3} {
		w |= nibble(b) << shift
		shift += 4
	}
	return w
}

package model

// ballots calls f with each ballot that a client may propose next.
func (m *model) ballots(c *client, f func(b int8)) {
	from := int8(0)
	if c.phase != idle {
		from = max(from, c.high+1)
	}
	for b := from; b <= m.top; b++ {
		f(b)
	}
}

// clientSteps are what client i may do of itself.
func (m *model) clientSteps(s *state, i int8) {
	c := &s.clients[i]
	switch c.phase {
	case idle:
		m.propose(s, i)
	case trying:
		if s.repropos > 0 && c.props < maxSends {
			m.propose(s, i)
		}
		m.leave(s, i, actGiveUp)
	case held:
		if s.extends > 0 && c.touches < maxSends && (c.valid() || m.Variant == NonTerminal) {
			m.extend(s, i)
		}
		m.leave(s, i, actRelease)
	case ended:
		m.leave(s, i, actRelease)
	}
}

// propose sends an acquire to every node, the attempt's first or a higher one.
func (m *model) propose(s *state, i int8) {
	m.ballots(&s.clients[i], func(b int8) {
		st := m.fork(s, action{kind: actPropose, client: i})
		c := &st.next.clients[i]
		if c.phase == trying {
			st.next.repropos--
		}
		k := c.props
		c.phase, c.props, c.p[k], c.high = trying, k+1, b, b
		for n := range c.cells {
			// A new ledger; and what was broken was not this ballot.
			c.cells[n].until = 0
			c.cells[n].bits &^= brokenHere | brokenInTime
		}
		st.send = k
		m.done(st)
	})
}

// extend sends a touch with a fresh ballot to every node.
func (m *model) extend(s *state, i int8) {
	for _, d := range m.Lives {
		m.ballots(&s.clients[i], func(b int8) {
			if m.Variant == TopUpEqual {
				// Here extends carry the grant's own ballot, so one choice is all.
				if b != max(0, s.clients[i].high+1) {
					return
				}
				b = m.old(s.clients[i].token())
			}
			st := m.fork(s, action{kind: actExtend, client: i})
			st.next.extends--
			c := &st.next.clients[i]
			k := c.touches
			c.touches, c.q[k], c.v[k], c.d[k] = k+1, b, c.validity(), d
			c.high = max(c.high, b)
			st.send = k
			m.done(st)
		})
	}
}

// leave ends the attempt or the grant: from now on only releases are sent. An attempt
// sends none to a node that is known to have refused; here that is a release that
// never arrives.
func (m *model) leave(s *state, i int8, kind uint8) {
	st := m.fork(s, action{kind: kind, client: i})
	st.next.clients[i].phase = over
	m.done(st)
}

// deliveries are the requests of client i that node at may run now.
func (m *model) deliveries(s *state, i, at int8) {
	c := &s.clients[i]
	for k := range c.props {
		m.acquireRuns(s, action{kind: actAcquireRuns, client: i, node: at, send: k})
	}
	for k := range c.touches {
		m.touchRuns(s, action{kind: actTouchRuns, client: i, node: at, send: k})
	}
	// A second copy of a release finds nothing that the first has left.
	if c.phase == over && c.props > 0 && c.cells[at].bits&releasedHere == 0 {
		st := m.fork(s, action{kind: actReleaseRuns, client: i, node: at})
		st.next.clients[i].cells[at].bits |= releasedHere
		st.code = m.release(&st.next, i, at)
		m.done(st)
	}
}

func (m *model) acquireRuns(s *state, a action) {
	st := m.fork(s, a)
	t := &st.next
	if st.code = m.acquire(t, a.client, a.node, a.send); st.code != granted {
		m.drop()
		return
	}
	c := &t.clients[a.client]
	// Only the reply to the last ballot counts, and only while somebody counts.
	if a.send != c.props-1 || c.phase != trying && c.phase != held {
		m.done(st)
		return
	}
	if m.Losses || c.phase == trying && c.entries() >= quorum-1 && s.repropos > 0 {
		st = m.lose(st)
		t, c = &st.next, &st.next.clients[a.client]
	}
	c.cells[a.node].until = max(c.cells[a.node].until, m.Expiry)
	if c.phase == trying && c.entries() >= quorum {
		m.win(t, a.client)
	}
	m.done(st)
}

// lose finishes a step as one whose reply is lost, and returns a copy for the case
// that it is heard.
func (m *model) lose(st *step) *step {
	m.steps = append(m.steps, *st)
	last := len(m.steps) - 1
	m.steps[last-1].lost = true
	m.settle(&m.steps[last-1].next)
	return &m.steps[last]
}

// drop takes back the newest fork: nothing came of it.
func (m *model) drop() { m.steps = m.steps[:len(m.steps)-1] }

// win is the moment of a grant: its token must be above every earlier one.
func (m *model) win(t *state, i int8) {
	c := &t.clients[i]
	for j := range t.clients {
		o := &t.clients[j]
		// A broken attempt that wins all the same, on the yes of a node that has
		// since thrown it out, comes out of order. Its token keeps it out.
		if j != int(i) && o.granted && o.token() >= c.token() && c.count(brokenHere) == 0 {
			t.disorder = true
		}
	}
	c.phase, c.granted = held, true
}

func (m *model) touchRuns(s *state, a action) {
	st := m.fork(s, a)
	t := &st.next
	var barred bool
	st.code, barred = m.touch(t, a.client, a.node, a.send)
	c := &t.clients[a.client]
	entry := c.cells[a.node].until
	if c.valid() || c.phase == held && m.Variant == NonTerminal {
		switch {
		case st.code > restored:
			entry = 0 // the node forgot, so it counts no longer
		case !barred || m.Variant == CountQuarantined || m.Variant == CountRestored && st.code == restored:
			entry = max(entry, c.d[a.send])
		}
	}
	change := entry - c.cells[a.node].until
	if st.code > toppedUp && (change == 0 || !m.Losses) {
		m.drop()
		return
	}
	if m.Losses && change != 0 {
		st = m.lose(st)
	}
	if m.Losses || change > 0 {
		st.next.clients[a.client].cells[a.node].until = entry
	}
	m.done(st)
}

// breakSent is an operator who looks at the nodes and sends a break: to each for the
// value seen there, and where there is none for that of a holder seen elsewhere.
func (m *model) breakSent(s *state) {
	for from := range int8(nodes) {
		seen := &s.nodes[from]
		if seen.holder < 0 {
			continue
		}
		st := m.fork(s, action{kind: actBreak, client: seen.holder, node: from})
		st.next.breaks--
		for i := range st.next.nodes {
			n := &st.next.nodes[i]
			n.breaks, n.breakOf, n.age = seen.holder, seen.prop, 0
			if n.holder >= 0 {
				n.breaks, n.breakOf = n.holder, n.prop
			}
		}
		m.done(st)
	}
}

func (m *model) breakRuns(s *state, at int8) {
	i := s.nodes[at].breaks
	if i < 0 {
		return
	}
	st := m.fork(s, action{kind: actBreakRuns, client: i, node: at})
	k := s.nodes[at].breakOf
	st.code = m.breakLock(&st.next, at)
	if c := &st.next.clients[i]; st.code != otherOwner && c.props == k+1 {
		c.cells[at].bits |= brokenHere
		if s.nodes[at].age < m.Expiry {
			c.cells[at].bits |= brokenInTime
		}
	}
	m.done(st)
}

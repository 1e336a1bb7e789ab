// Package model explores the locking protocol exhaustively: the rules of
// scripts/*.lua and of the client's ledger, in small discrete time, with every
// interleaving of requests, of late, lost and doubled ones, of lost replies, expiry,
// release, extend, re-proposal, break and restarts. See docs/verification.md.
//
// The model is wider than the library, never narrower: where a client would choose, or
// a network could, the model does both. That permits these reductions, each of which
// only adds behaviours, or leaves out what a kept one covers:
//
//   - A request that was sent may arrive at any node at any time, any number of times or
//     never, for as long as it could have an effect. So what is on its way is what was
//     sent, and there is no action for loss: a lost request is one that does not arrive.
//     A release that the janitor repeats is one that is late.
//   - A request that is refused changes nothing, and its sender may give up or propose
//     again at any time anyway: refusals are not steps.
//   - A reply is heard when its request runs. One that is lost, or late, leaves the
//     ledger with less: valid for a shorter time, and with fewer extends; whatever
//     its owner does then, the owner of the fuller ledger may do as well. A "gone" that
//     takes a node out of the ledger is likewise lost. The exception is the
//     reply that decides an attempt, for a client that misses it may propose again.
//     Config.Losses explores every loss all the same, as a check on this.
//   - An entry of the ledger lasts from when the request runs, the latest moment at which
//     it can have been sent: valid for longer, as before.
//   - A client makes one attempt. One that tries again is two clients who happen to
//     take turns.
//   - A ballot is any from the slowest clock to S above the fastest, higher than the
//     client's last. Lower ones are those of a request that was sent earlier and is late.
//
// All times and ballots are kept relative to now, so time has no end: states that
// differ by the date alone are one.
package model

const (
	nodes      = 3
	quorum     = 2
	maxClients = 3
	maxSends   = 2 // proposals of an attempt, and extends of a grant
)

// none is the fence of a node that has none: below every ballot.
const none = -8

// Config bounds an exploration. Times are in ticks.
type Config struct {
	Clients int
	Expiry  int8
	Skew    int8 // S
	Ahead   int8 // by how much the clock of the last node is ahead
	Retain  int8 // R; 0: 3S + 1, the least that is above 3S

	// The rest are budgets, over all clients.
	Reproposals int8
	Extends     int8
	Lives       []int8 // lives that an extend may ask for; none: the expiry
	Breaks      int8
	Restarts    int8
	Saves       int8 // a node that restarts is as it was when it last saved; 0: empty
	Guard       bool // the restart guard
	Losses      bool // explore lost replies even where that adds nothing
	// LateYes lets a late yes to an acquire into a ledger that lapsed unnoticed, as
	// long as nobody has looked. Then a grant may come back, and it is exclusion and
	// order that are checked.
	LateYes bool
	Narrow  bool // ballots are never above the slowest clock
	Hold    int8 // T; 0: the least that the guard allows
	// Opening are steps to begin with, the highest ballot of each; see begun.
	Opening []action

	Variant   Variant
	MaxStates int // give up beyond; 0: never
}

// Phases of a client.
const (
	idle   = iota
	trying // has proposed
	held   // was granted, and its ledger has not lapsed
	ended  // its ledger lapsed: nothing but release is left
	over   // has sent its releases
)

// Bits of a cell: what once happened to a client at a node.
const (
	releasedHere = 1 << iota // its release ran
	brokenHere               // a break ran for its grant
	brokenInTime             // less than an expiry after it was sent
	forgotHere               // the node restarted since the attempt began
)

// cell is one client at one node.
type cell struct {
	bits  uint8
	until int8 // the ledger's entry; 0: not counted on
}

type client struct {
	phase   uint8
	props   uint8 // proposals made; the last is the one that counts
	touches uint8
	granted bool // history: it won
	lapsed  bool // history: its ledger was once without a quorum
	p       [maxSends]int8
	q, v, d [maxSends]int8 // extends: ballot, validity's end, life asked for
	high    int8           // the highest ballot sent
	cells   [nodes]cell
}

func (c *client) token() int8 { return c.p[c.props-1] }

// entries is the number of nodes that the ledger counts on.
func (c *client) entries() int {
	n := 0
	for i := range c.cells {
		if c.cells[i].until > 0 {
			n++
		}
	}
	return n
}

// valid is what the holder believes.
func (c *client) valid() bool { return c.phase == held && c.entries() >= quorum }

// validity is the quorum-th latest entry: with two of three, the middle one.
func (c *client) validity() int8 {
	a, b, d := c.cells[0].until, c.cells[1].until, c.cells[2].until
	return max(min(a, b), min(max(a, b), d))
}

// keys are what one node keeps for the name, but for the restart marker.
type keys struct {
	holder int8  // -1: free
	prop   uint8 // which proposal of the holder is in its value
	ttl    int8
	fence  int8
	life   int8 // of the fence
	stone  int8 // the tombstone: the highest ballot broken
	tomb   int8 // life of the tombstone; 0: there is none
}

var noKeys = keys{holder: -1, fence: none}

type node struct {
	keys
	disk    keys // what it has after a restart
	barred  int8 // what is left of the quarantine
	foreign bool // the marker names an earlier run, and no script has seen that yet
	young   int8 // how long ago it restarted is less than T by this much
	breaks  int8 // whom a break on its way here names, -1: none is
	breakOf uint8
	age     int8 // of that break, the expiry at most
}

type state struct {
	clients  [maxClients]client
	nodes    [nodes]node
	repropos int8 // budgets left
	extends  int8
	breaks   int8
	restarts int8
	saves    int8
	disorder bool // history: a grant had a token no higher than an earlier one
}

// Kinds of action.
const (
	actTick = iota
	actPropose
	actGiveUp
	actExtend
	actRelease
	actBreak
	actSave
	actRestart
	actAcquireRuns
	actTouchRuns
	actReleaseRuns
	actBreakRuns
)

// action is one step, in as many words as a trace needs.
type action struct {
	kind   uint8
	client int8
	node   int8
	send   uint8 // which proposal or extend
	lost   bool  // the reply is
	code   int8  // the node's reply
}

type step struct {
	action
	next state
}

// model is a Config made ready.
type model struct {
	Config
	offset [nodes]int8 // of the clocks
	top    int8        // the highest ballot that can be sent now
	floor  int8        // no node accepts this or lower: only for breaks they are not all alike
	frames []frame     // symmetries, see canon.go
	steps  []step      // successors, reused
}

func newModel(c Config) *model {
	if c.Retain == 0 {
		c.Retain = 3*c.Skew + 1
	}
	if c.Variant == ShortRetention {
		c.Retain = 2 * c.Skew
	}
	if c.Lives == nil {
		c.Lives = []int8{c.Expiry}
	}
	if c.Hold == 0 {
		c.Hold = max(c.Expiry, 2*c.Skew+1)
	}
	m := &model{Config: c, top: c.Ahead + c.Skew, floor: -c.Skew - 1}
	m.offset[nodes-1] = c.Ahead
	if c.Narrow {
		m.top = 0
	}
	m.frames = m.symmetries()
	return m
}

func (m *model) initial() state {
	s := state{
		repropos: m.Reproposals, extends: m.Extends, breaks: m.Breaks,
		restarts: m.Restarts, saves: m.Saves,
	}
	for i := range s.nodes {
		s.nodes[i] = node{keys: noKeys, disk: noKeys, breaks: -1}
	}
	for i := m.Clients; i < maxClients; i++ {
		s.clients[i].phase = over
	}
	return s
}

// successors lists every step from s. The result is good until the next call.
func (m *model) successors(s *state) []step {
	m.steps = m.steps[:0]
	m.tick(s)
	for i := range int8(m.Clients) {
		m.clientSteps(s, i)
		for n := range int8(nodes) {
			m.deliveries(s, i, n)
		}
	}
	for n := range int8(nodes) {
		m.breakRuns(s, n)
		m.save(s, n)
		m.restart(s, n)
	}
	if s.breaks > 0 {
		m.breakSent(s)
	}
	return m.steps
}

// fork adds a successor that begins as a copy of s; done finishes it.
func (m *model) fork(s *state, a action) *step {
	m.steps = append(m.steps, step{action: a, next: *s})
	return &m.steps[len(m.steps)-1]
}

func (m *model) done(st *step) { m.settle(&st.next) }

// tick lets one unit of time pass.
func (m *model) tick(s *state) {
	st := m.fork(s, action{kind: actTick})
	t := &st.next
	for i := range t.clients {
		c := &t.clients[i]
		for _, b := range []*int8{&c.q[0], &c.q[1], &c.high} {
			*b = max(*b-1, m.floor)
		}
		c.p[0]-- // settle sees to those that have become old
		c.p[1]--
		for k := range c.v {
			c.v[k] = max(c.v[k]-1, 0)
		}
		for n := range c.cells {
			c.cells[n].until = max(c.cells[n].until-1, 0)
		}
	}
	for i := range t.nodes {
		n := &t.nodes[i]
		m.age(&n.keys)
		m.age(&n.disk)
		n.barred, n.young = max(n.barred-1, 0), max(n.young-1, 0)
		if n.breaks >= 0 {
			n.age = min(n.age+1, m.Expiry)
		}
	}
	m.done(st)
}

// age lets one unit of time pass for keys.
func (m *model) age(k *keys) {
	k.ttl, k.life, k.tomb, k.stone = max(k.ttl-1, 0), max(k.life-1, 0), max(k.tomb-1, 0), k.stone-1
	if k.fence != none {
		k.fence = max(k.fence-1, m.floor)
	}
}

// save is what a node does to have its keys after a restart.
func (m *model) save(s *state, i int8) {
	if s.saves == 0 || s.restarts == 0 || s.nodes[i].keys == s.nodes[i].disk {
		return
	}
	st := m.fork(s, action{kind: actSave, node: i})
	st.next.saves--
	st.next.nodes[i].disk = s.nodes[i].keys
	m.done(st)
}

// restart makes a node forget all that it has not saved. At most one at a time has done
// so within T: the guard is for fewer than a quorum.
func (m *model) restart(s *state, i int8) {
	if s.restarts == 0 {
		return
	}
	for n := range s.nodes {
		if n != int(i) && s.nodes[n].young > 0 {
			return
		}
	}
	// What was saved has a marker of the earlier run, unless that has expired.
	for _, foreign := range []bool{false, true} {
		if foreign && (!m.Guard || s.nodes[i].disk == noKeys) {
			return
		}
		st := m.fork(s, action{kind: actRestart, node: i})
		t := &st.next
		t.restarts--
		n := &t.nodes[i]
		// A break on its way there lives on.
		n.keys, n.foreign = n.disk, foreign
		if m.Guard {
			// Without a marker the node is barred for T less its uptime, so the moment
			// at which a script first looks makes no difference.
			n.barred, n.young = m.Hold, m.Hold
		}
		for c := range t.clients {
			if t.clients[c].phase != idle {
				t.clients[c].cells[i].bits |= forgotHere
			}
		}
		m.done(st)
	}
}

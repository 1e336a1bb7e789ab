package model

import "fmt"

// The invariants, checked in every state.
const (
	Exclusion = "exclusion: two holders are valid at once"
	Order     = "token order: a later grant has no higher token"
	Orphan    = "no orphan: a node holds the key of an attempt after its release"
	Revival   = "no revival: a released, broken or ended grant came back"
)

// violated names the invariant that does not hold, "" when all do.
func (m *model) violated(s *state) string {
	if s.disorder {
		return Order
	}
	valid := 0
	for i := range s.clients {
		c := &s.clients[i]
		if c.valid() {
			if c.lapsed && !m.LateYes {
				return Revival
			}
			// A broken holder is not told before its next extend.
			if c.count(brokenHere) == 0 {
				valid++
			}
		}
	}
	if valid > 1 {
		return Exclusion
	}
	for n := range s.nodes {
		i := s.nodes[n].holder
		if i < 0 {
			continue
		}
		c := &s.clients[i]
		bits := c.cells[n].bits
		if bits&forgotHere != 0 {
			continue // there the promise is one expiry at most
		}
		// A break succeeds when a quorum confirms it in time.
		if bits&brokenInTime != 0 && c.count(brokenInTime) >= quorum {
			return Revival
		}
		if c.phase == over && bits&releasedHere != 0 {
			if c.granted {
				return Revival
			}
			return Orphan
		}
	}
	return ""
}

// count is the number of nodes where something happened to the client.
func (c *client) count(what uint8) int {
	n := 0
	for i := range c.cells {
		if c.cells[i].bits&what != 0 {
			n++
		}
	}
	return n
}

// Result is what an exploration found.
type Result struct {
	States   int
	Depth    int      // of the deepest state
	Complete bool     // every reachable state within the budgets was seen
	Broken   string   // the invariant that was violated, "" if none
	Trace    []string // how, one line a step
}

// Explore searches breadth first, so that a trace is as short as can be. It ends at
// the first violation.
func Explore(c Config) Result {
	m := newModel(c)
	start := m.initial()
	m.settle(&start)
	first, opening := start, []uint64(nil)
	if len(c.Opening) > 0 {
		first, opening = m.open(start)
	}
	r := Result{Depth: len(opening)}
	seen := newSeen()
	seen.add(m.fingerprint(&first), 0)
	level, base := []state{first}, 0
	var next []state
	for len(level) > 0 {
		next = next[:0]
		for i := range level {
			steps := m.successors(&level[i])
			for j := range steps {
				s := &steps[j].next
				if !seen.add(m.fingerprint(s), base+i) {
					continue
				}
				if r.Broken = m.violated(s); r.Broken != "" {
					r.States, r.Depth = seen.len(), r.Depth+1
					r.Trace = m.replay(start, append(opening, seen.path()...))
					return r
				}
				next = append(next, *s)
			}
			if c.MaxStates > 0 && seen.len() >= c.MaxStates {
				r.States = seen.len()
				return r
			}
		}
		base += len(level)
		level, next = next, level
		if len(level) > 0 {
			r.Depth++
		}
	}
	r.States, r.Complete = seen.len(), true
	return r
}

// open takes the steps of the opening.
func (m *model) open(s state) (first state, path []uint64) {
	for _, a := range m.Opening {
		found := false
		next := s
		steps := m.successors(&s)
		for i := range steps {
			if st := &steps[i]; st.kind == a.kind && st.client == a.client && st.node == a.node && !st.lost {
				next, found = st.next, true
			}
		}
		if !found {
			panic(fmt.Sprintf("model: the opening has no step %+v", a))
		}
		s = next
		path = append(path, m.fingerprint(&s))
	}
	return s, path
}

// seen is the set of visited states: their fingerprints in order of discovery, each
// with the number of the state it was first reached from, and a hash table of the
// numbers. About twenty bytes a state.
type seen struct {
	prints []uint64
	from   []uint32
	table  []uint32 // number + 1; 0: empty
}

func newSeen() *seen { return &seen{table: make([]uint32, 1<<12)} }

func (s *seen) len() int { return len(s.prints) }

// add reports whether the state is new.
func (s *seen) add(print uint64, from int) bool {
	if 2*len(s.prints) >= len(s.table) {
		s.grow()
	}
	mask := uint64(len(s.table) - 1)
	slot := print & mask
	for ; s.table[slot] != 0; slot = (slot + 1) & mask {
		if s.prints[s.table[slot]-1] == print {
			return false
		}
	}
	s.prints = append(s.prints, print)
	s.from = append(s.from, uint32(from))
	s.table[slot] = uint32(len(s.prints))
	return true
}

func (s *seen) grow() {
	s.table = make([]uint32, 2*len(s.table))
	mask := uint64(len(s.table) - 1)
	for i, print := range s.prints {
		slot := print & mask
		for ; s.table[slot] != 0; slot = (slot + 1) & mask {
		}
		s.table[slot] = uint32(i + 1)
	}
}

// path is the fingerprints on the way to the newest state, without the first.
func (s *seen) path() []uint64 {
	var back []uint64
	for i := len(s.prints) - 1; i > 0; i = int(s.from[i]) {
		back = append(back, s.prints[i])
	}
	for i, j := 0, len(back)-1; i < j; i, j = i+1, j-1 {
		back[i], back[j] = back[j], back[i]
	}
	return back
}

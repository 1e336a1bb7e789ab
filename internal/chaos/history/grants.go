package history

import "slices"

// Grant is one lock that a client was given, as it was told of it.
type Grant struct {
	Name     string
	Token    int64
	Client   int
	Invoked  int64
	Returned int64
	Until    int64 // the latest end of validity that was told; 0: it had run out
	Left     int64 // Unlock was called, or the loss was told; 0: neither
	Unlocked int64 // Unlock returned with success; 0: it did not
}

// End is when the client ceases to be the holder: it unlocks, is told of the loss, or
// the validity it was told of is over, whichever is first. What a client does after that, say because it
// was suspended, is for the fence to stop.
func (g *Grant) End() int64 {
	if g.Left != 0 && g.Left < g.Until {
		return g.Left
	}
	return g.Until
}

// Write is one decision of the fenced store.
type Write struct {
	Name     string
	Token    int64
	At       int64
	Accepted bool
}

type ticket struct {
	client int
	call   int64
}

type identity struct {
	client int
	name   string
	token  int64
}

// digest is a history, sorted out.
type digest struct {
	grants   []*Grant
	writes   []Write
	counts   map[string]map[string]int // by verb and result
	refused  []string                  // writes that were refused while the lock was valid
	breaches []string
}

var acquiring = map[string]bool{"lock": true, "try": true, "hold": true, "do": true}

// digested expects the events in the order of time.
func digested(events []Event) *digest {
	d := &digest{counts: map[string]map[string]int{}}
	open := map[ticket]Event{}
	held := map[identity]*Grant{}
	for _, e := range events {
		g := held[identity{e.Client, e.Name, e.Token}]
		switch e.Kind {
		case Invoke:
			open[ticket{e.Client, e.Call}] = e
			if e.Verb == "unlock" && g != nil {
				g.leave(e.At)
			}
		case Return:
			call := open[ticket{e.Client, e.Call}]
			delete(open, ticket{e.Client, e.Call})
			d.count(e.Verb, e.Result)
			d.returned(call, e, g, held)
		case Told:
			if g != nil && e.Result == Lost {
				g.leave(e.At)
			} else if g != nil {
				g.Until = max(g.Until, e.Until)
			}
		case Store:
			d.writes = append(d.writes, Write{Name: e.Name, Token: e.Token, At: e.At, Accepted: e.Result == Accepted})
		case Breach:
			d.breaches = append(d.breaches, e.Result)
		case Fault:
			d.count("fault", e.Verb)
		}
	}
	for _, call := range open {
		d.count(call.Verb, "no return")
	}
	return d
}

func (d *digest) count(verb, result string) {
	if d.counts[verb] == nil {
		d.counts[verb] = map[string]int{}
	}
	d.counts[verb][result]++
}

func (d *digest) returned(call, e Event, g *Grant, held map[identity]*Grant) {
	switch {
	case acquiring[e.Verb] && e.Result == OK:
		g = &Grant{Name: e.Name, Token: e.Token, Client: e.Client, Invoked: call.At, Returned: e.At, Until: e.Until}
		d.grants = append(d.grants, g)
		held[identity{e.Client, e.Name, e.Token}] = g
	case g == nil:
	case e.Verb == "unlock" && e.Result == OK:
		g.Unlocked = e.At
	case e.Verb == "extend" && e.Result == OK:
		g.Until = max(g.Until, e.Until)
	case e.Verb == "write" && e.Result == Refused && call.Until > e.At && g.Left == 0:
		d.refused = append(d.refused, describe("the store refused a write of ", g))
	}
}

// leave is the end of a grant by its holder's own doing.
func (g *Grant) leave(at int64) {
	if g.Left == 0 {
		g.Left = at
	}
}

// byName parts grants, in the order in which they returned.
func byName(grants []*Grant) map[string][]*Grant {
	parts := map[string][]*Grant{}
	for _, g := range grants {
		parts[g.Name] = append(parts[g.Name], g)
	}
	for _, part := range parts {
		slices.SortFunc(part, func(a, b *Grant) int { return compare(a.Returned, b.Returned) })
	}
	return parts
}

func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

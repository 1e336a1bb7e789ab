package redlocktest

import (
	"maps"
	"time"
)

// Stats is a snapshot of a node. Counters start with the node and survive
// Restart.
type Stats struct {
	Executed    map[string]int // requests executed, by name
	Commands    int64          // Redis commands executed, those inside scripts counted one by one
	Keys        int            // live keys
	Subscribers int
	Pending     int // requests waiting in a hung node
	InFlight    int // requests whose clients wait
}

// Stats takes a snapshot.
func (n *Node) Stats() Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	stats := Stats{
		Executed: maps.Clone(n.executed),
		Commands: n.commands,
		Keys:     len(n.keys.names(n.ms())),
		Pending:  len(n.pending),
		InFlight: len(n.inflight),
	}
	for _, subs := range n.subs {
		stats.Subscribers += len(subs)
	}
	return stats
}

func (n *Node) ms() int64 { return n.clock.micro() / 1000 }

// Now is the time by the node's clock.
func (n *Node) Now() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.clock.time()
}

// RunID is what INFO calls run_id; it changes with Restart.
func (n *Node) RunID() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.runID
}

// Keys lists the live keys in alphabetical order, past all faults.
func (n *Node) Keys() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.keys.names(n.ms())
}

// Value reads a string key past all faults. found is false for a key that is
// missing or a queue.
func (n *Node) Value(key string) (value string, found bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	value, found, _ = n.keys.get(key, n.ms())
	return value, found
}

// TTL is the remaining life of a key by the node's clock, in whole milliseconds,
// or NoExpiry. found is false for a missing key.
func (n *Node) TTL(key string) (ttl time.Duration, found bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch ms := n.keys.pttl(key, n.ms()); ms {
	case -2:
		return 0, false
	case NoExpiry:
		return NoExpiry, true
	default:
		return time.Duration(ms) * time.Millisecond, true
	}
}

// Queue lists the members of a sorted set, lowest score first; none for any
// other key.
func (n *Node) Queue(key string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	e, err := n.keys.findSet(key, n.ms())
	if e == nil || err != nil {
		return nil
	}
	members := make([]string, len(e.set))
	for i, x := range e.set {
		members[i] = x.member
	}
	return members
}

// Set writes a string key past all faults, such as the lock of a foreign client.
// A ttl of 0 or less never expires; the resolution is a millisecond, rounded up.
func (n *Node) Set(key, value string, ttl time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	px := int64(max(ttl, 0)+time.Millisecond-1) / int64(time.Millisecond)
	n.keys.set(key, value, px, n.ms())
}

// Del deletes a key past all faults and tells whether it was there.
func (n *Node) Del(key string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.keys.del(key, n.ms())
}

// FlushAll deletes all keys, as an operator may; the process goes on.
func (n *Node) FlushAll() { n.with(func() { n.keys = newStore() }) }

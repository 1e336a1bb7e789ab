package redlocktest

// Freeze makes the node's clock stand at us, microseconds since 1970.
func (n *Node) Freeze(us int64) { n.with(func() { n.clock.frozen = func() int64 { return us } }) }

// SetRunID makes the node look like another process.
func (n *Node) SetRunID(id string) { n.with(func() { n.runID = id }) }

// Deadline is the end of a key that has one, in ms since 1970, also when it is
// over.
func (n *Node) Deadline(key string) (ms int64, found bool) {
	n.with(func() {
		if e := n.keys.entries[key]; e != nil && e.deadline != 0 {
			ms, found = e.deadline, true
		}
	})
	return ms, found
}

// SetDeadline moves the end of a key; ms since 1970.
func (n *Node) SetDeadline(key string, ms int64) {
	n.with(func() { n.keys.entries[key].deadline = ms })
}

// Score is the place of a member of a sorted set.
func (n *Node) Score(key, member string) (score float64) {
	n.with(func() { e := n.keys.entries[key]; score = e.set[e.rank(member)].score })
	return score
}

// AddToQueue plays a client that joins a sorted set.
func (n *Node) AddToQueue(key, member string, score float64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.keys.zadd(key, score, member, n.ms())
}

//go:build unix

package main

import "sync"

// budget keeps the faults to what the promises allow: as seen by any client, never more
// than a minority of the nodes is faulty, whether the node itself or the way to it. A
// restarted node counts as faulty until its quarantine is over.
type budget struct {
	minority int

	mu    sync.Mutex
	nodes []bool   // guarded by mu
	links [][]bool // guarded by mu; by client, then node
}

func newBudget(clients, nodes int) *budget {
	b := &budget{minority: (nodes - 1) / 2, nodes: make([]bool, nodes)}
	for range clients {
		b.links = append(b.links, make([]bool, nodes))
	}
	return b
}

// claimNode makes the node faulty for everybody, if that is allowed.
func (b *budget) claimNode(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.nodes[n] {
		return false
	}
	b.nodes[n] = true
	for c := range b.links {
		if b.faultyLocked(c) > b.minority {
			b.nodes[n] = false
			return false
		}
	}
	return true
}

func (b *budget) releaseNode(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nodes[n] = false
}

// claimLink makes the node faulty for one client.
func (b *budget) claimLink(client, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.nodes[n] || b.links[client][n] {
		return false
	}
	b.links[client][n] = true
	if b.faultyLocked(client) > b.minority {
		b.links[client][n] = false
		return false
	}
	return true
}

func (b *budget) releaseLink(client, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.links[client][n] = false
}

// claimLinks is claimLink for each of the clients and nodes: all or none.
func (b *budget) claimLinks(clients, nodes []int) (release func(), ok bool) {
	var claimed [][2]int
	release = func() {
		for _, l := range claimed {
			b.releaseLink(l[0], l[1])
		}
	}
	for _, c := range clients {
		for _, n := range nodes {
			if !b.claimLink(c, n) {
				release()
				return nil, false
			}
			claimed = append(claimed, [2]int{c, n})
		}
	}
	return release, true
}

// faultyLocked is how many nodes a client cannot count on.
func (b *budget) faultyLocked(client int) int {
	faulty := 0
	for n := range b.nodes {
		if b.nodes[n] || b.links[client][n] {
			faulty++
		}
	}
	return faulty
}

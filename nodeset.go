package redlock

import "math/bits"

// maxNodes is how many nodes a nodeSet has room for.
const maxNodes = 64

// nodeSet is a set of nodes by their index.
type nodeSet uint64

func (s nodeSet) has(i int) bool { return s&(1<<i) != 0 }

func (s *nodeSet) add(i int) { *s |= 1 << i }

func (s *nodeSet) drop(i int) { *s &^= 1 << i }

func (s nodeSet) count() int { return bits.OnesCount64(uint64(s)) }

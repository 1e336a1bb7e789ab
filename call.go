package redlock

import (
	"context"
	"slices"

	"github.com/quorumlock/redlock/pool"
)

// keySet is the keys of one script for one name, laid out once for each mutex.
type keySet struct {
	keys []string
	head []any // hash, number of keys, keys: the words before the arguments
}

func newKeySet(s *pool.Script, keys ...string) keySet {
	head := make([]any, 0, 2+len(keys))
	head = append(head, s.Hash(), len(keys))
	for _, k := range keys {
		head = append(head, k)
	}
	return keySet{keys: keys, head: head}
}

// call is one script with its keys and arguments, as every node gets it.
type call struct {
	name   string // of the lock
	eyes   *eyes  // may be nil
	script *pool.Script
	sets   []keySet // one for each name; more than one for a MultiMutex
	first  []any    // the words for the first set, arguments included
}

func newCall(s *pool.Script, name string, e *eyes, sets []keySet, args ...any) *call {
	head := sets[0].head
	words := make([]any, len(head)+len(args))
	copy(words, head)
	copy(words[len(head):], args)
	return &call{name: name, eyes: e, script: s, sets: sets, first: words}
}

// with is the same call with another argument i.
func (c *call) with(i int, arg any) *call {
	other := *c
	other.first = slices.Clone(c.first)
	other.args()[i] = arg
	return &other
}

func (c *call) args() []any { return c.first[len(c.sets[0].head):] }

// send sends the call for set i on p. The integers are appended to into.
func (c *call) send(ctx context.Context, p pool.Pool, i int, into []int64) ([]int64, error) {
	commander, ok := p.(pool.Commander)
	if !ok {
		return p.Eval(ctx, c.script, c.sets[i].keys, c.args()...)
	}
	words := c.first
	if i > 0 {
		words = slices.Concat(c.sets[i].head, c.args())
	}
	return commander.Command(ctx, c.script, words, into)
}

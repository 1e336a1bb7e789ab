package redlock

import (
	"context"
	"slices"
)

// call is one script with its keys and arguments, as every node gets it.
type call struct {
	name   string // of the lock
	eyes   *eyes  // may be nil
	script *script
	names  []keyWords // one for each name; more than one for a MultiMutex
	keys   int        // of one name
	first  []any      // for the first name: hash, number of keys, keys, arguments
}

// The most keys a script takes, and words before them.
const (
	mostKeys = 4
	keysAt   = 2
)

// newCall makes a call with the first keys that s takes, so many of them. What a script
// can do without is not sent: each word costs every node a little.
func newCall(s *script, name string, e *eyes, names []keyWords, keys int, args ...any) call {
	first := make([]any, keysAt, keysAt+keys+len(args))
	first[0], first[1] = s.hash, keys
	first = names[0].appendTo(first, s, keys)
	return call{name: name, eyes: e, script: s, names: names, keys: keys, first: append(first, args...)}
}

// with is the same call with another argument i.
func (c *call) with(i int, arg any) call {
	other := *c
	other.first = slices.Clone(c.first)
	other.first[keysAt+c.keys+i] = arg
	return other
}

// words are what name i is asked with.
func (c *call) words(i int) []any {
	if i == 0 {
		return c.first
	}
	all := make([]any, 0, len(c.first))
	all = c.names[i].appendTo(append(all, c.first[:keysAt]...), c.script, c.keys)
	return append(all, c.first[len(all):]...)
}

// send sends the call for name i to n. The integers are appended to into.
func (c *call) send(ctx context.Context, n *node, i int, into []int64) ([]int64, error) {
	words := c.words(i)
	if n.commander != nil {
		return n.commander.Command(ctx, c.script.Script, words, into)
	}
	keys := make([]string, c.keys)
	for k := range keys {
		keys[k] = words[keysAt+k].(string)
	}
	return n.pool.Eval(ctx, c.script.Script, keys, words[keysAt+c.keys:]...)
}

package history

import (
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// step is one operation of a model: a grant, its end, or a write to the store.
type step struct {
	kind     int
	grant    int   // which
	token    int64 // of a grant or write
	accepted bool
}

const (
	acquireStep = iota
	endStep
	writeStep
)

const never = math.MaxInt64 / 2

// lockModel is a lock that one grant has at a time. The state is the number of the holder, 0
// when the lock is free.
var lockModel = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, input, _ any) (bool, any) {
		s := input.(step)
		if s.kind == acquireStep {
			return state == 0, s.grant
		}
		return state == s.grant, 0
	},
	Hash: func(state any) uint64 { return uint64(state.(int)) }, // never negative
}

// fenceState is the highest token that was granted, and that was written with.
type fenceState struct{ granted, written int64 }

// fenceModel is a source of tokens that only grow, and a store that takes no token below
// the highest it has seen.
var fenceModel = porcupine.Model{
	Init: func() any { return fenceState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, f := input.(step), state.(fenceState)
		if s.kind == acquireStep {
			return s.token > f.granted, fenceState{s.token, f.written}
		}
		if !s.accepted {
			return s.token < f.written, f
		}
		return s.token >= f.written && s.token <= f.granted, fenceState{f.granted, s.token}
	},
	Hash: func(state any) uint64 { return uint64(state.(fenceState).granted) }, // only a hash
}

// lockSteps are the grants of one name and their ends. Without an unlock that is known
// to have succeeded, a lock may be freed at any time after its holder's claim is over.
func lockSteps(grants []*Grant) []porcupine.Operation {
	var ops []porcupine.Operation
	for i, g := range grants {
		begin, freed := max(g.End(), g.Invoked), int64(never)
		if g.Unlocked > begin {
			freed = g.Unlocked
		}
		ops = append(ops,
			porcupine.Operation{Input: step{kind: acquireStep, grant: i + 1}, Call: g.Invoked, Return: g.Returned},
			porcupine.Operation{Input: step{kind: endStep, grant: i + 1}, Call: begin, Return: freed})
	}
	return ops
}

// fenceSteps are the grants of one name and the writes; the store decides on those in an instant.
func fenceSteps(grants []*Grant, writes []Write) []porcupine.Operation {
	var ops []porcupine.Operation
	for _, g := range grants {
		ops = append(ops, porcupine.Operation{Input: step{kind: acquireStep, token: g.Token}, Call: g.Invoked, Return: g.Returned})
	}
	for _, w := range writes {
		ops = append(ops, porcupine.Operation{
			Input: step{kind: writeStep, token: w.Token, accepted: w.Accepted}, Call: w.At, Return: w.At,
		})
	}
	return ops
}

// legal checks the operations against a model; ok is false when time ran out.
func legal(model *porcupine.Model, ops []porcupine.Operation, within time.Duration) (legal, ok bool) {
	result := porcupine.CheckOperationsTimeout(*model, ops, within)
	return result == porcupine.Ok, result != porcupine.Unknown
}

package pooltest

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/pool"
)

// tell replies as acquire does.
var tell = pool.NewScript("tell", "return {1, 1700000000000000, 1700000000000000, 8000, 1700000000000000, -1}")

// Evalsha is a call that a client can make by itself.
type Evalsha struct {
	Ctx        context.Context
	Hash       string
	Keys, Args []string
	Words      []any // what follows EVALSHA: hash, number of keys, keys and arguments
}

// AllocatesLittle demands that p, which must be a pool.Commander, allocates for a call at
// most once more than its client does for the same call. alone prepares that call;
// what it returns makes it and returns how many values the reply has.
func AllocatesLittle(t *testing.T, p pool.Pool, alone func(Evalsha) func() (values int, err error)) {
	commander, ok := p.(pool.Commander)
	require.True(t, ok, "%T is a pool.Commander", p)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e := Evalsha{
		Ctx: ctx, Hash: tell.Hash(), Keys: []string{"jobs", "jobs:f{jobs}"},
		Args: []string{"value.nonce.", "1700000000000000", "8000", "5000000", "28000", "0", "", "0"},
	}
	e.Words = []any{e.Hash, len(e.Keys)}
	for _, words := range [][]string{e.Keys, e.Args} {
		for _, w := range words {
			e.Words = append(e.Words, w)
		}
	}
	into, call := make([]int64, 0, 8), alone(e)
	adapter := func() {
		reply, err := commander.Command(ctx, tell, e.Words, into)
		require.NoError(t, err)
		require.Equal(t, 6, len(reply)) // Len would allocate
	}
	client := func() {
		values, err := call()
		require.NoError(t, err)
		require.Equal(t, 6, values)
	}
	adapter() // the node knows the script from here on
	by, with := leastAllocs(client), leastAllocs(adapter)
	t.Logf("allocations of a call: %.0f by the client alone, %.0f through the adapter", by, with)
	require.LessOrEqual(t, with, by+1)
}

// leastAllocs is what call allocates when every sync.Pool on its way has something to
// give. Not an average: under the race detector a sync.Pool drops one of four things at
// random, and an average counts how many pools a call uses, in the client as well.
func leastAllocs(call func()) float64 {
	least := math.MaxFloat64
	for range 300 {
		least = min(least, testing.AllocsPerRun(1, call))
	}
	return least
}

package valkey_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"

	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
	valkeypool "github.com/quorumlock/redlock/pool/valkey"
)

// tell replies as acquire does.
var tell = pool.NewScript("tell", "return {1, 1700000000000000, 1700000000000000, 8000, 1700000000000000, -1}")

// calls are one call of the adapter, and the same by its client alone.
func calls(t testing.TB) (adapter, client func()) {
	s := testutil.StartRedis(t)
	c, err := valkey.NewClient(options(s.Addr()))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	p := valkeypool.NewPool(c).(pool.Commander)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	keys, args := []string{"jobs", "jobs:f{jobs}"}, []string{"value.nonce.", "1700000000000000", "8000", "5000000", "28000", "0", "", "0"}
	words := []any{tell.Hash(), len(keys)}
	for _, w := range append(keys, args...) {
		words = append(words, w)
	}
	into := make([]int64, 0, 8)
	adapter = func() {
		reply, err := p.Command(ctx, tell, words, into)
		require.NoError(t, err)
		require.Len(t, reply, 6)
	}
	client = func() {
		cmd := c.B().Evalsha().Sha1(tell.Hash()).Numkeys(2).Key(keys...).Arg(args...).Build()
		reply, err := c.Do(ctx, cmd).ToArray()
		require.NoError(t, err)
		require.Len(t, reply, 6)
	}
	adapter() // the node knows the script from here on
	return adapter, client
}

// An adapter only moves a call.
func TestAllocatesLittle(t *testing.T) {
	adapter, client := calls(t)
	alone, with := leastAllocs(client), leastAllocs(adapter)
	t.Logf("allocations of a call: %.0f with the client alone, %.0f through the adapter", alone, with)
	require.LessOrEqual(t, with, alone+1)
}

// leastAllocs is the least of several averages: the client does other things too, now and then.
func leastAllocs(call func()) float64 {
	least := math.MaxFloat64
	for range 5 {
		least = min(least, testing.AllocsPerRun(100, call))
	}
	return least
}

func BenchmarkCommand(b *testing.B) {
	adapter, client := calls(b)
	for name, call := range map[string]func(){"adapter": adapter, "client": client} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}

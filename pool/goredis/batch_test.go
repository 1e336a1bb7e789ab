package goredis_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/pool/pooltest"
)

var count = pool.NewScript("count", `return {redis.call('INCR', KEYS[1])}`)

// go-redis sends a pipeline again when its connection was lost, as it does with a single
// command.
func TestBatchesAreSentOnce(t *testing.T) {
	s := testutil.StartRedis(t)
	proxy := testutil.StartProxy(t, s.Addr())
	p := open(t, proxy.Addr(), pooltest.Options{})
	_, err := p.Eval(t.Context(), count, []string{"warm"})
	require.NoError(t, err)

	const callers = 60
	proxy.Delay(0, 50*time.Millisecond)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() { _, _ = p.Eval(t.Context(), count, []string{"n"}) }) // most are lost
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		all.Wait()
	}()
	executed, largest := 0, 0
	for over := false; !over; {
		more := testutil.Poll(20*time.Second, func() bool {
			select {
			case <-ended:
				over = true
			default:
			}
			n, err := s.Do("INCRBY", "n", 0)
			require.NoError(t, err)
			grown := int(n.(int64)) - executed
			executed, largest = executed+grown, max(largest, grown)
			return grown > 0 || over
		})
		require.True(t, more, "the next batch is sent")
		proxy.Reset() // its replies are lost with the connections
	}
	require.Greater(t, largest, 2, "calls were sent together")
	require.LessOrEqual(t, executed, callers, "each call at most once")
}

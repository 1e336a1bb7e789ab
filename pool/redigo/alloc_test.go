package redigo_test

import (
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool/pooltest"
)

// An adapter only moves a call.
func TestAllocatesLittle(t *testing.T) {
	n, p := node(t, testutil.StartRedis(t).Addr())
	pooltest.AllocatesLittle(t, n, func(e pooltest.Evalsha) func() (int, error) {
		return func() (int, error) {
			c, err := p.GetContext(e.Ctx)
			if err != nil {
				return 0, err
			}
			defer c.Close() //nolint:errcheck // returns the connection
			reply, err := redis.Values(c.Do("EVALSHA", e.Words...))
			return len(reply), err
		}
	})
}

package goredis_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool/goredis"
	"github.com/quorumlock/redlock/pool/pooltest"
)

// An adapter only moves a call.
func TestAllocatesLittle(t *testing.T) {
	c := redis.NewClient(&redis.Options{Addr: testutil.StartRedis(t).Addr(), ContextTimeoutEnabled: true})
	defer c.Close() //nolint:errcheck // a test's
	pooltest.AllocatesLittle(t, goredis.NewPool(c), func(e pooltest.Evalsha) func() (int, error) {
		words := append([]any{"evalsha"}, e.Words...)
		return func() (int, error) {
			reply, err := c.Do(e.Ctx, words...).Slice()
			return len(reply), err
		}
	})
}

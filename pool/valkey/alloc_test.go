package valkey_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"

	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool/pooltest"
	valkeypool "github.com/quorumlock/redlock/pool/valkey"
)

// An adapter only moves a call.
func TestAllocatesLittle(t *testing.T) {
	c, err := valkey.NewClient(options(testutil.StartRedis(t).Addr()))
	require.NoError(t, err)
	defer c.Close()
	pooltest.AllocatesLittle(t, valkeypool.NewPool(c), func(e pooltest.Evalsha) func() (int, error) {
		return func() (int, error) {
			cmd := c.B().Evalsha().Sha1(e.Hash).Numkeys(int64(len(e.Keys))).Key(e.Keys...).Arg(e.Args...).Build()
			reply, err := c.Do(e.Ctx, cmd).ToArray()
			return len(reply), err
		}
	})
}

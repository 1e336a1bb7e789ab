package redigo_test

import (
	"context"
	"os"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/pool/pooltest"
	redigopool "github.com/quorumlock/redlock/pool/redigo"
)

func TestMain(m *testing.M) { os.Exit(testutil.Main(m)) }

func TestConformance(t *testing.T) { pooltest.Run(t, open) }

func TestCommand(t *testing.T) { pooltest.Command(t, open) }

func TestCases(t *testing.T) { pooltest.Cases(t, open) }

func open(t testing.TB, addr string, o pooltest.Options) pool.Pool {
	var opts []redis.DialOption
	if o.Username != "" {
		opts = append(opts, redis.DialUsername(o.Username))
	}
	if o.Password != "" {
		opts = append(opts, redis.DialPassword(o.Password))
	}
	if o.TLS != nil {
		opts = append(opts, redis.DialUseTLS(true), redis.DialTLSConfig(o.TLS))
	}
	p := &redis.Pool{
		MaxIdle:   16,
		MaxActive: o.Limit,
		Wait:      o.Limit > 0,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", addr, opts...)
		},
	}
	t.Cleanup(func() { p.Close() }) //nolint:errcheck // idle connections of a test
	return redigopool.NewNamedPool(p, addr)
}

func TestCompilesOnlyItsClient(t *testing.T) { pooltest.OnlyClient(t, "github.com/gomodule/redigo") }

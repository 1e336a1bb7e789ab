package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"time"

	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redsyncredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	redsyncrueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
	"github.com/valkey-io/valkey-go"

	"github.com/quorumlock/redlock/pool"
	goredispool "github.com/quorumlock/redlock/pool/goredis"
	redigopool "github.com/quorumlock/redlock/pool/redigo"
	rueidispool "github.com/quorumlock/redlock/pool/rueidis"
	valkeypool "github.com/quorumlock/redlock/pool/valkey"
)

// A client is a Redis library that redlock has an adapter for. Each side has
// connections of its own, so that none runs on those another one made, with the same
// settings.
type client struct {
	name string
	open func(addrs []string) (*conns, error)
}

// conns are one side's connections, as each kind of side takes them.
type conns struct {
	nodes   []pool.Pool
	redsync []redsyncredis.Pool // nil: it has no adapter
	wire    []wire
	closers []func() error
}

func (c *conns) close() error {
	var errs []error
	for _, f := range c.closers {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

const (
	clientRedigo  = "redigo"
	clientGoRedis = "go-redis"
	clientRueidis = "rueidis"
	clientValkey  = "valkey-go"
)

// clients are those compared. redsync's adapter for valkey-go is left out: it is the
// same code as that for rueidis, as is valkey-go itself.
var clients = []client{
	{clientRedigo, openRedigo},
	{clientGoRedis, openGoRedis},
	{clientRueidis, openRueidis},
	{clientValkey, openValkey},
}

// dials counts the connections made: a side that needs more of them at a time than
// its pools keep makes them anew all the time.
var dials atomic.Int64

const dialTimeout = time.Second

func dial(ctx context.Context, addr string) (net.Conn, error) {
	dials.Add(1)
	d := net.Dialer{Timeout: dialTimeout}
	return d.DialContext(ctx, "tcp", addr)
}

func openRedigo(addrs []string) (*conns, error) {
	c := &conns{}
	for _, addr := range addrs {
		p := &redis.Pool{
			MaxIdle: 128,
			DialContext: func(ctx context.Context) (redis.Conn, error) {
				dials.Add(1)
				return redis.DialContext(ctx, "tcp", addr)
			},
		}
		c.nodes = append(c.nodes, redigopool.NewNamedPool(p, addr))
		c.redsync = append(c.redsync, redsyncredigo.NewPool(p))
		c.wire = append(c.wire, redigoWire{p})
		c.closers = append(c.closers, p.Close)
	}
	return c, nil
}

func newGoRedis(addr string) *goredis.Client {
	return goredis.NewClient(&goredis.Options{
		Addr:                  addr,
		ContextTimeoutEnabled: true,
		Dialer:                func(ctx context.Context, _, addr string) (net.Conn, error) { return dial(ctx, addr) },
	})
}

func openGoRedis(addrs []string) (*conns, error) {
	c := &conns{}
	for _, addr := range addrs {
		r := newGoRedis(addr)
		c.nodes = append(c.nodes, goredispool.NewPool(r))
		c.redsync = append(c.redsync, redsyncgoredis.NewPool(r))
		c.wire = append(c.wire, goRedisWire{r})
		c.closers = append(c.closers, r.Close)
	}
	return c, nil
}

func openRueidis(addrs []string) (*conns, error) {
	c := &conns{}
	for _, addr := range addrs {
		r, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress:       []string{addr},
			ForceSingleClient: true,
			DisableCache:      true,
			ConnWriteTimeout:  2 * time.Second,
			DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return dial(ctx, addr)
			},
		})
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		c.nodes = append(c.nodes, rueidispool.NewPool(r))
		c.redsync = append(c.redsync, redsyncrueidis.NewPool(rueidiscompat.NewAdapter(r)))
		c.wire = append(c.wire, rueidisWire{r})
		c.closers = append(c.closers, func() error { r.Close(); return nil })
	}
	return c, nil
}

func openValkey(addrs []string) (*conns, error) {
	c := &conns{}
	for _, addr := range addrs {
		v, err := valkey.NewClient(valkey.ClientOption{
			InitAddress:       []string{addr},
			ForceSingleClient: true,
			DisableCache:      true,
			ConnWriteTimeout:  2 * time.Second,
			DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return dial(ctx, addr)
			},
		})
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		c.nodes = append(c.nodes, valkeypool.NewPool(v))
		c.wire = append(c.wire, valkeyWire{v})
		c.closers = append(c.closers, func() error { v.Close(); return nil })
	}
	return c, nil
}

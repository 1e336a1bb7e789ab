package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/pool"
	redigopool "github.com/quorumlock/redlock/pool/redigo"
)

const closeBound = 15 * time.Second

// dials counts the connections made: a side that needs more of them at a time than
// its pools keep makes them anew all the time.
var dials atomic.Int64

// newPools makes a redigo pool for each address, alike for every side: each side
// has pools of its own, so that none runs on connections another one dialled.
func newPools(addrs []string) []*redis.Pool {
	pools := make([]*redis.Pool, len(addrs))
	for i, addr := range addrs {
		pools[i] = &redis.Pool{
			MaxIdle: 128,
			DialContext: func(ctx context.Context) (redis.Conn, error) {
				dials.Add(1)
				return redis.DialContext(ctx, "tcp", addr)
			},
		}
	}
	return pools
}

func closePools(pools []*redis.Pool) error {
	var errs []error
	for _, p := range pools {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// ours is a Redlock and its pools.
type ours struct {
	*redlock.Redlock
	pools []*redis.Pool
}

func newOurs(addrs []string) (*ours, error) {
	o := &ours{pools: newPools(addrs)}
	nodes := make([]pool.Pool, len(addrs))
	for i, p := range o.pools {
		nodes[i] = redigopool.NewNamedPool(p, addrs[i])
	}
	var err error
	o.Redlock, err = redlock.New(nodes)
	return o, err
}

func (o *ours) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	return errors.Join(o.Close(ctx), closePools(o.pools))
}

// theirs is a Redsync and its pools.
type theirs struct {
	*redsync.Redsync
	pools []*redis.Pool
}

func newTheirs(addrs []string) *theirs {
	t := &theirs{pools: newPools(addrs)}
	nodes := make([]redsyncredis.Pool, len(addrs))
	for i, p := range t.pools {
		nodes[i] = redsyncredigo.NewPool(p)
	}
	t.Redsync = redsync.New(nodes...)
	return t
}

func (t *theirs) close() error { return closePools(t.pools) }

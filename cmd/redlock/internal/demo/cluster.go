package demo

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/pool/redigo"
	"github.com/quorumlock/redlock/redlocktest"
)

// cluster is the five nodes and what can happen to one of them.
type cluster interface {
	pool(node int) pool.Pool // a new one for each client
	crash(node int) error    // it is gone, and its keys with it
	replace(node int) error  // after crash: an empty one in its place
	stop(node int) error     // it is gone, but its keys are on disk
	start(node int) error    // after stop: with its keys
	hang(node int) error
	resume(node int) error
	close() error
}

func newCluster(servers bool) (cluster, error) {
	if !servers {
		return memory(redlocktest.NewNodes(nodeCount)), nil
	}
	// The kernel keeps what a process wrote, so a crash of the process needs no fsync.
	started, err := testutil.StartN(nodeCount, "--appendonly", "yes", "--appendfsync", "no")
	if err != nil {
		return nil, err
	}
	return &processes{servers: started}, nil
}

// memory is a cluster of nodes in this process.
type memory redlocktest.Nodes

func (m memory) pool(i int) pool.Pool { return m[i] }
func (m memory) crash(i int) error    { m[i].Down(); return nil }
func (m memory) replace(i int) error  { m[i].Restart(false); return nil }
func (m memory) stop(i int) error     { m[i].Down(); return nil }
func (m memory) start(i int) error    { m[i].Restart(true); return nil }
func (m memory) hang(i int) error     { m[i].Hang(); return nil }
func (m memory) resume(i int) error   { m[i].Resume(); return nil }
func (m memory) close() error         { return nil }

// processes is a cluster of redis-server processes.
type processes struct {
	servers []*testutil.Server
	pools   []*redis.Pool
}

const dialTimeout = 500 * time.Millisecond

func (p *processes) pool(i int) pool.Pool {
	addr := p.servers[i].Addr()
	conns := &redis.Pool{
		MaxIdle: 2 * workersPerClient,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", addr, redis.DialConnectTimeout(dialTimeout))
		},
	}
	p.pools = append(p.pools, conns)
	return redigo.NewNamedPool(conns, addr)
}

func (p *processes) crash(i int) error   { return p.servers[i].Kill() }
func (p *processes) replace(i int) error { return p.servers[i].RestartEmpty() }
func (p *processes) stop(i int) error    { return p.servers[i].Stop() }
func (p *processes) start(i int) error   { return p.servers[i].Restart() }
func (p *processes) hang(i int) error    { return p.servers[i].Pause() }
func (p *processes) resume(i int) error  { return p.servers[i].Resume() }

func (p *processes) close() error {
	var errs []error
	for _, conns := range p.pools {
		errs = append(errs, conns.Close())
	}
	for _, s := range p.servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

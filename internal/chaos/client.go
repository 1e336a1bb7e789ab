//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/chaos/history"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
	redigopool "github.com/quorumlock/redlock/pool/redigo"
)

// clientEnv holds the orders of a process that is to be a client, as JSON.
const clientEnv = "REDLOCK_CHAOS_CLIENT"

// orders are what a client process is told.
type orders struct {
	ID      int           `json:"id"`
	Seed    uint64        `json:"seed"`
	Names   []string      `json:"names"`
	Nodes   []string      `json:"nodes"`            // addresses
	Source  string        `json:"source,omitempty"` // own address; "": any
	Store   string        `json:"store"`
	History string        `json:"history"` // file
	Workers int           `json:"workers"`
	Expiry  time.Duration `json:"expiry"`
	Guard   time.Duration `json:"guard"` // longest hold; 0: no guard
}

const (
	closeBound = 10 * time.Second
	leakBound  = 5 * time.Second
	idleConns  = 8
)

var outcomes = []struct {
	err  error
	word string
}{
	{redlock.ErrClosed, "closed"},
	{redlock.ErrLost, "lost"},
	{redlock.ErrNotHeld, "not held"},
	{redlock.ErrInvalidOption, "invalid"},
	{context.DeadlineExceeded, "gave up"},
	{context.Canceled, "cancelled"},
	{redlock.ErrExpired, "expired"},
	{redlock.ErrTaken, "taken"},
	{redlock.ErrNoQuorum, "no quorum"},
}

// client is one process that locks.
type client struct {
	orders
	clock *clock
	log   *history.Log
	r     *redlock.Redlock
	calls atomic.Int64
}

// runClient locks until in ends, and then leaves in good order. It returns the exit
// code of the process.
func runClient(text string, in io.Reader) int {
	err := (&client{}).run(text, in)
	if err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		return 1
	}
	return 0
}

func (c *client) run(text string, in io.Reader) (err error) {
	leaks := testutil.NewLeakCheck()
	if err := json.Unmarshal([]byte(text), &c.orders); err != nil {
		return err
	}
	if c.clock, err = newClock(); err != nil {
		return err
	}
	if c.log, err = history.Create(c.History); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.log.Close()) }()
	if err := c.live(in); err != nil {
		c.breach("%v", err)
	}
	if err := leaks.Err(leakBound); err != nil {
		c.breach("%v", err)
	}
	c.log.Add(history.Event{At: c.clock.now(), Client: c.ID, Kind: history.Bye})
	return nil
}

// live is the client's life, between making and closing what it locks with.
func (c *client) live(in io.Reader) (err error) {
	var pools []pool.Pool
	for _, addr := range c.Nodes {
		p := c.pool(addr)
		defer p.Close() //nolint:errcheck // after the last use
		pools = append(pools, redigopool.NewNamedPool(p, addr))
	}
	opts := []redlock.Option{redlock.WithExpiry(c.Expiry)}
	if c.Guard > 0 {
		opts = append(opts, redlock.WithRestartGuard(c.Guard))
	}
	if c.r, err = redlock.New(pools, opts...); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var workers sync.WaitGroup
	for i := range c.Workers {
		w := &worker{client: c, rng: rand.New(rand.NewPCG(c.Seed, uint64(i))), store: writer{addr: c.Store}, over: ctx.Done()} // an index
		workers.Go(func() { w.run(ctx) })
	}
	_, _ = io.Copy(io.Discard, in) // until whoever started this process has had enough
	cancel()
	workers.Wait()
	closing, done := context.WithTimeout(context.Background(), closeBound)
	defer done()
	return c.r.Close(closing)
}

func (c *client) pool(addr string) *redis.Pool {
	dialer := &net.Dialer{}
	if c.Source != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(c.Source)}
	}
	return &redis.Pool{MaxIdle: idleConns, DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", addr, redis.DialContextFunc(dialer.DialContext))
	}}
}

func (c *client) breach(format string, args ...any) {
	c.log.Add(history.Event{
		At: c.clock.now(), Client: c.ID, Kind: history.Breach,
		Result: fmt.Sprintf("client %d: ", c.ID) + fmt.Sprintf(format, args...),
	})
}

// call logs f as one call.
func (c *client) call(e history.Event, f func(*history.Event)) {
	e.Client, e.Call = c.ID, c.calls.Add(1)
	e.Kind, e.At = history.Invoke, c.clock.now()
	c.log.Add(e)
	f(&e)
	e.Kind, e.At = history.Return, c.clock.now()
	c.log.Add(e)
}

// settle enters what a call has come to.
func settle(e *history.Event, err error) {
	e.Result = outcome(err)
	if err != nil {
		e.Error = err.Error()
	}
}

// outcome is one word for a result of the library.
func outcome(err error) string {
	if err == nil {
		return history.OK
	}
	for _, known := range outcomes {
		if errors.Is(err, known.err) {
			return known.word
		}
	}
	return "other"
}

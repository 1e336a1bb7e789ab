// Package redigo lets redlock use a gomodule/redigo pool as a node.
package redigo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/pool/internal/batch"
)

type node struct {
	pool    *redis.Pool
	addr    string
	batches *batch.Batches
}

// NewPool makes a node of a redigo pool, which the caller keeps and closes.
//
// Set DialContext (or a connect timeout) so that connecting ends with the
// request, and MaxIdle to at least 8: redigo closes what it does not keep, and dials
// again. Calls beyond a few at a time share a connection. With MaxActive also
// set Wait.
func NewPool(p *redis.Pool) pool.Pool { return NewNamedPool(p, "") }

// NewNamedPool is NewPool for a node that errors and observers call addr. A
// redigo pool does not know whom it dials, so without it they say node 0, 1, ….
func NewNamedPool(p *redis.Pool, addr string) pool.Pool {
	n := &node{pool: p, addr: addr}
	n.batches = batch.New(n.send)
	return n
}

func (n *node) Addr() string { return n.addr }

// Eval implements pool.Pool.
func (n *node) Eval(ctx context.Context, s *pool.Script, keys []string, args ...any) ([]int64, error) {
	words := make([]any, 0, 2+len(keys)+len(args))
	words = append(words, s.Hash(), len(keys))
	for _, k := range keys {
		words = append(words, k)
	}
	return n.Command(ctx, s, append(words, args...), nil)
}

// Command implements pool.Commander.
func (n *node) Command(ctx context.Context, s *pool.Script, words []any, into []int64) ([]int64, error) {
	return n.batches.Do(ctx, s, words, into)
}

func noScript(err error) bool {
	if err == nil {
		return false // before e, which is allocated
	}
	var e redis.Error
	return errors.As(err, &e) && strings.HasPrefix(string(e), "NOSCRIPT")
}

// do hands the deadline to the socket. redigo's own DoContext starts a goroutine
// for each call; the deadline alone is enough here, because redlock never waits
// for a call whose caller has gone.
func do(ctx context.Context, c redis.Conn, cmd string, words []any) (any, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return c.Do(cmd, words...)
	}
	left := time.Until(deadline)
	if left <= 0 {
		return nil, context.DeadlineExceeded
	}
	return redis.DoWithTimeout(c, left, cmd, words...)
}

// integers appends the integers of a reply to out.
func integers(out []int64, reply any, err error) ([]int64, error) {
	if err != nil {
		return nil, err
	}
	values, ok := reply.([]any)
	if !ok {
		return nil, fmt.Errorf("redigo: script replied %T, not an array of integers", reply)
	}
	for i, v := range values {
		n, ok := v.(int64)
		if !ok {
			return nil, fmt.Errorf("redigo: script replied %T at position %d, not an integer", v, i)
		}
		out = append(out, n)
	}
	return out, nil
}

// Get implements pool.TextReader.
func (n *node) Get(ctx context.Context, key string) (string, bool, error) {
	c, err := n.pool.GetContext(ctx)
	if err != nil {
		return "", false, err
	}
	defer c.Close() //nolint:errcheck // returns the connection; a broken one is dropped by the pool
	text, err := redis.String(do(ctx, c, "GET", []any{key}))
	if errors.Is(err, redis.ErrNil) {
		return "", false, nil
	}
	return text, err == nil, err
}

// Subscribe implements pool.Subscriber on a connection dialled past the pool, so
// that it takes no place of a capped pool for good.
func (n *node) Subscribe(ctx context.Context, channel string, ready func(), message func(string)) error {
	c, err := n.dial(ctx)
	if err != nil {
		return err
	}
	// Closing is the only way to end a blocked read when ctx ends.
	stop := context.AfterFunc(ctx, func() { c.Close() }) //nolint:errcheck // nobody is left to tell
	defer func() {
		stop()
		c.Close() //nolint:errcheck // the read error below is the one that matters
	}()
	sub := redis.PubSubConn{Conn: c}
	if err := sub.Subscribe(channel); err != nil {
		return err
	}
	for {
		switch v := sub.ReceiveWithTimeout(0).(type) {
		case redis.Subscription:
			ready()
		case redis.Message:
			message(string(v.Data))
		case error:
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return v
		}
	}
}

func (n *node) dial(ctx context.Context) (redis.Conn, error) {
	switch {
	case n.pool.DialContext != nil:
		return n.pool.DialContext(ctx)
	case n.pool.Dial != nil:
		return n.pool.Dial()
	}
	return nil, errors.New("redigo: the pool has neither Dial nor DialContext")
}

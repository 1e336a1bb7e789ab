// Package goredis lets redlock use a go-redis client as a node.
package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/pool/internal/batch"
)

type node struct {
	client  redis.UniversalClient
	addr    string
	batches *batch.Batches // nil: every call is sent alone
}

// failover is what go-redis calls the address of every client over Sentinel. As a name
// it would make one node of several, so that their index must do.
const failover = "FailoverClient"

// NewPool makes a node of a go-redis client, which the caller keeps and closes: a
// server, a Sentinel set-up (NewFailoverClient) or a Cluster that fails as one. A Ring
// is none, for it spreads keys over servers that fail one by one: make a node of each;
// every call on it is refused.
//
// Set ContextTimeoutEnabled. Without it go-redis takes no notice of deadlines, and a
// call to a hung server binds a connection for its ReadTimeout, 5 s by default.
// MaxRetries does not matter: calls are made once. Set DialerRetries to 1: by default
// go-redis dials a node that refuses five times, with pauses, which takes longer than
// the node timeout, and no error says that it was refused.
func NewPool(c redis.UniversalClient) pool.Pool {
	switch c := c.(type) {
	case *redis.Client:
		addr := c.Options().Addr
		if addr == failover {
			addr = ""
		}
		n := &node{client: c, addr: addr}
		n.batches = batch.New(n.send)
		return &listener{n}
	case *redis.ClusterClient:
		// No listener: a script's PUBLISH counts the subscribers of its own server only.
		// No batches either: a pipeline of which one call may be repeated is repeated whole.
		return &node{client: c, addr: strings.Join(c.Options().Addrs, ",")}
	case *redis.Ring:
		return refused{}
	}
	return &node{client: c}
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
	if n.batches != nil {
		return n.batches.Do(ctx, s, words, into)
	}
	reply, err := n.do(ctx, evalsha(words))
	return n.end(ctx, s, words, into, reply, err)
}

// send sends a batch, several calls as a pipeline.
func (n *node) send(ctx context.Context, members []*batch.Call) (answered bool) {
	if len(members) == 1 {
		m := members[0]
		reply, err := n.do(ctx, evalsha(m.Words))
		m.End(n.end(ctx, m.Script, m.Words, m.Into(), reply, err))
		return err == nil
	}
	p := n.client.Pipeline()
	commands := make([]once, len(members))
	for i, m := range members {
		commands[i] = once{redis.NewCmd(ctx, evalsha(m.Words)...)}
		_ = p.Process(ctx, commands[i]) // only takes it in
	}
	_, _ = p.Exec(ctx) // each Result says its own
	for i, m := range members {
		reply, err := commands[i].Result()
		answered = answered || err == nil
		m.End(n.end(m.Ctx, m.Script, m.Words, m.Into(), reply, err))
	}
	return answered
}

// evalsha is the command of a call. A hook of the client may keep what it is given, so
// that it is made for each.
func evalsha(words []any) []any {
	full := make([]any, 1+len(words))
	full[0] = "evalsha"
	copy(full[1:], words)
	return full
}

// end is the result of a call, after another try where the node does not know the script.
func (n *node) end(ctx context.Context, s *pool.Script, words []any, into []int64, reply any, err error) ([]int64, error) {
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = n.do(ctx, append([]any{"eval", s.Source()}, words[1:]...))
	}
	return integers(into, reply, err)
}

// integers appends the integers of a reply to out.
func integers(out []int64, reply any, err error) ([]int64, error) {
	if err != nil {
		return nil, err
	}
	values, ok := reply.([]any)
	if !ok {
		return nil, fmt.Errorf("goredis: script replied %T, not an array of integers", reply)
	}
	for i, v := range values {
		number, ok := v.(int64)
		if !ok {
			return nil, fmt.Errorf("goredis: script replied %T at position %d, not an integer", v, i)
		}
		out = append(out, number)
	}
	return out, nil
}

// once is a command that the client does not repeat on its own, nor a pipeline with it.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

func (n *node) do(ctx context.Context, words []any) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cmd := once{redis.NewCmd(ctx, words...)}
	_ = n.client.Process(ctx, cmd) // Result says the same
	return cmd.Result()
}

// Get implements pool.TextReader.
func (n *node) Get(ctx context.Context, key string) (string, bool, error) {
	text, err := n.client.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return "", false, nil
	}
	return text, err == nil, err
}

type listener struct{ *node }

// Subscribe implements pool.Subscriber. go-redis counts subscriptions against no limit.
func (n *listener) Subscribe(ctx context.Context, channel string, ready func(), message func(string)) error {
	sub := n.client.Subscribe(ctx, channel)
	defer sub.Close() //nolint:errcheck // the error below is the one that matters
	// Closing is the only way to end a blocked read when ctx ends.
	defer context.AfterFunc(ctx, func() { sub.Close() })() //nolint:errcheck // nobody is left to tell
	for {
		switch v, err := sub.Receive(ctx); v := v.(type) {
		case *redis.Subscription:
			ready()
		case *redis.Message:
			message(v.Payload)
		case nil:
			// Another Receive would subscribe again.
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return err
		}
	}
}

// refused is what a Ring gets.
type refused struct{}

func (refused) Eval(context.Context, *pool.Script, []string, ...any) ([]int64, error) {
	// Of this kind of error redlock knows that there is nothing to clean up after it.
	return nil, &net.OpError{Op: "dial", Net: "ring", Err: errors.New("a Ring is not one node: make a pool of each of its servers")}
}

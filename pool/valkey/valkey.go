// Package valkey lets redlock use a valkey-go client as a node.
package valkey

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/valkey-io/valkey-go"

	"github.com/quorumlock/redlock/pool"
)

// A node asks for its client at each call, for it may have yet to be made.
type node struct {
	client func(context.Context) (valkey.Client, error)
	addr   string
}

// NewPool makes a node of a valkey-go client, which the caller keeps and closes: a
// server, a Sentinel set-up or a Cluster that fails as one. Scripts are not among the commands that
// valkey-go sends again on its own.
//
// Set ConnWriteTimeout and Dialer.Timeout to a second or two: a connection that went
// silent is noticed by them, 10 s and 5 s by default. Wake-up notices take one of
// the BlockingPoolSize connections, 1024 by default.
//
// valkey.NewClient fails where the node is down. A process that must start without
// one of its nodes uses NewLazyPool.
func NewPool(c valkey.Client) pool.Pool {
	var addrs []string
	for addr := range c.Nodes() {
		addrs = append(addrs, addr)
	}
	slices.Sort(addrs)
	n := node{func(context.Context) (valkey.Client, error) { return c, nil }, strings.Join(addrs, ",")}
	if c.Mode() == valkey.ClientModeCluster {
		return &n // no listener: see errCluster
	}
	return &listener{n}
}

func (n *node) Addr() string { return n.addr }

// Eval implements pool.Pool.
func (n *node) Eval(ctx context.Context, s *pool.Script, keys []string, args ...any) ([]int64, error) {
	c, err := n.client(ctx)
	if err != nil {
		return nil, withCode(err)
	}
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = fmt.Sprint(a)
	}
	reply := c.Do(ctx, c.B().Evalsha().Sha1(s.Hash()).Numkeys(int64(len(keys))).Key(keys...).Arg(words...).Build())
	if e, ok := valkey.IsValkeyErr(reply.Error()); ok && e.IsNoScript() {
		reply = c.Do(ctx, c.B().Eval().Script(s.Source()).Numkeys(int64(len(keys))).Key(keys...).Arg(words...).Build())
	}
	values, err := reply.ToArray()
	if err != nil {
		return nil, withCode(err)
	}
	out := make([]int64, len(values))
	for i := range values {
		if out[i], err = values[i].ToInt64(); err != nil {
			return nil, fmt.Errorf("valkey: script replied no integer at position %d: %w", i, err)
		}
	}
	return out, nil
}

// Get implements pool.TextReader.
func (n *node) Get(ctx context.Context, key string) (string, bool, error) {
	c, err := n.client(ctx)
	if err != nil {
		return "", false, withCode(err)
	}
	text, err := c.Do(ctx, c.B().Get().Key(key).Build()).ToString()
	if valkey.IsValkeyNil(err) {
		return "", false, nil
	}
	return text, err == nil, withCode(err)
}

type listener struct{ node }

// errCluster: a script's PUBLISH counts the subscribers of its own server only.
var errCluster = errors.New("valkey: no wake-up notices in a Cluster")

// Subscribe implements pool.Subscriber.
func (n *listener) Subscribe(ctx context.Context, channel string, ready func(), message func(string)) error {
	c, err := n.client(ctx)
	if err != nil {
		return withCode(err)
	}
	if c.Mode() == valkey.ClientModeCluster {
		return errCluster
	}
	own, _ := c.Dedicate()
	defer own.Close()
	confirmed := valkey.WithOnSubscriptionHook(ctx, func(s valkey.PubSubSubscription) {
		if s.Kind == "subscribe" {
			ready()
		}
	})
	err = own.Receive(confirmed, own.B().Subscribe().Channel(channel).Build(), func(m valkey.PubSubMessage) {
		message(m.Message)
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return errors.New("valkey: the subscription ended")
	}
	return withCode(err)
}

// withCode puts back the "ERR " that valkey-go takes off a server's words: redlock
// tells faults apart by how they start.
func withCode(err error) error {
	e, ok := valkey.IsValkeyErr(err)
	if !ok {
		return err
	}
	code, _, _ := strings.Cut(e.Error(), " ")
	// "AUTH called without …" is the one sentence that looks as if it had a code.
	if code == strings.ToUpper(code) && code != "AUTH" {
		return err
	}
	return fmt.Errorf("ERR %w", err)
}

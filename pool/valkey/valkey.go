// Package valkey lets redlock use a valkey-go client as a node.
package valkey

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/valkey-io/valkey-go"

	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/pool/internal/batch"
)

type node struct {
	client  clients
	addr    string
	batches *batch.Batches
}

// clients gives the client at each call, for it may have yet to be made.
type clients func(context.Context) (valkey.Client, error)

func newNode(c clients, addr string) node {
	return node{client: c, addr: addr, batches: batch.New(c.send)}
}

// NewPool makes a node of a valkey-go client, which the caller keeps and closes: a
// server, a Sentinel set-up or a Cluster that fails as one. Scripts are not among the
// commands that valkey-go sends again on its own.
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
	n := newNode(func(context.Context) (valkey.Client, error) { return c, nil }, strings.Join(addrs, ","))
	if c.Mode() == valkey.ClientModeCluster {
		return &n // no listener: see errCluster
	}
	return &listener{n}
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

// send sends a batch in one write.
func (get clients) send(ctx context.Context, members []*batch.Call) (answered bool) {
	c, err := get(ctx)
	if err != nil {
		for _, m := range members {
			m.End(nil, withCode(err))
		}
		return false
	}
	if len(members) == 1 {
		m := members[0]
		return end(ctx, c, m, c.Do(ctx, command(c, "EVALSHA", m.Script.Hash(), m.Words)))
	}
	commands := make([]valkey.Completed, len(members))
	for i, m := range members {
		commands[i] = command(c, "EVALSHA", m.Script.Hash(), m.Words)
	}
	for i, reply := range c.DoMulti(ctx, commands...) {
		if end(ctx, c, members[i], reply) {
			answered = true
		}
	}
	return answered
}

// end gives a call its reply, after the text of its script was sent to a node that does
// not know the hash. It reports whether the node has answered.
func end(ctx context.Context, c valkey.Client, m *batch.Call, reply valkey.ValkeyResult) bool {
	if e, ok := valkey.IsValkeyErr(reply.Error()); ok && e.IsNoScript() {
		reply = c.Do(ctx, command(c, "EVAL", m.Script.Source(), m.Words))
	}
	m.End(integers(m.Into(), reply))
	return reply.NonValkeyError() == nil
}

// integers appends the integers of a reply to out.
func integers(out []int64, reply valkey.ValkeyResult) ([]int64, error) {
	values, err := reply.ToArray()
	if err != nil {
		return nil, withCode(err)
	}
	for i := range values {
		v, err := values[i].ToInt64()
		if err != nil {
			return nil, fmt.Errorf("valkey: script replied no integer at position %d: %w", i, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// command puts words behind a script. Added one by one, they go to memory that the
// client uses again.
func command(c valkey.Client, verb, script string, words []any) valkey.Completed {
	keys := words[1].(int)
	b := c.B().Arbitrary(verb, script, strconv.Itoa(keys))
	for _, k := range words[2 : 2+keys] {
		b = b.Keys(k.(string))
	}
	for _, a := range words[2+keys:] {
		b = b.Args(text(a))
	}
	return b.Build()
}

// text is an argument as it is sent.
func text(a any) string {
	switch a := a.(type) {
	case string:
		return a
	case int:
		return strconv.Itoa(a)
	case int64:
		return strconv.FormatInt(a, 10)
	}
	return fmt.Sprint(a)
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

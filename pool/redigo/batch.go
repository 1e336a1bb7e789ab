package redigo

import (
	"context"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/pool/internal/batch"
)

// send sends a batch in one write, on one connection.
func (n *node) send(ctx context.Context, members []*batch.Call) (answered bool) {
	c, err := n.pool.GetContext(ctx)
	if err != nil {
		for _, m := range members {
			m.End(nil, err)
		}
		return false
	}
	defer c.Close() //nolint:errcheck // returns the connection; a broken one is dropped by the pool
	if len(members) == 1 {
		m := members[0]
		reply, err := do(ctx, c, "EVALSHA", m.Words)
		if noScript(err) {
			reply, err = again(c, m)
		}
		m.End(integers(m.Into(), reply, err))
		return err == nil
	}
	return pipeline(ctx, c, members)
}

// pipeline sends the commands of a batch of several.
func pipeline(ctx context.Context, c redis.Conn, members []*batch.Call) (answered bool) {
	var broken error
	for _, m := range members {
		if broken == nil {
			broken = c.Send("EVALSHA", m.Words...)
		}
	}
	if broken == nil {
		broken = c.Flush()
	}
	var unknown []*batch.Call // whose script the node does not know
	for _, m := range members {
		var reply any
		err := broken
		if err == nil {
			reply, err = receive(ctx, c)
			answered = answered || err == nil
			if err != nil && c.Err() != nil {
				broken = err // of the rest it would only be said that there is no connection
			}
		}
		if noScript(err) {
			unknown = append(unknown, m)
			continue
		}
		m.End(integers(m.Into(), reply, err))
	}
	for _, m := range unknown {
		reply, err := again(c, m)
		m.End(integers(m.Into(), reply, err))
	}
	return answered
}

// again sends the text of a script whose hash the node does not know.
func again(c redis.Conn, m *batch.Call) (any, error) {
	words := slices.Clone(m.Words)
	words[0] = m.Script.Source()
	return do(m.Ctx, c, "EVAL", words)
}

// receive is do for a command that was sent.
func receive(ctx context.Context, c redis.Conn) (any, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return c.Receive()
	}
	// Sent is sent: even at the deadline the reply may be there to be taken.
	return redis.ReceiveWithTimeout(c, max(time.Until(deadline), time.Millisecond))
}

package main

import (
	"context"

	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"
)

// wire is one node without any library but the client.
type wire interface {
	// evalsha is the code in the reply, -1 on any error.
	evalsha(c *command) int64
	load(script string) error
}

type redigoWire struct{ pool *redis.Pool }

func (w redigoWire) evalsha(c *command) int64 {
	conn := w.pool.Get()
	defer conn.Close() //nolint:errcheck // returns the connection
	reply, err := redis.Int64s(conn.Do("EVALSHA", c.words[1:]...))
	if err != nil || len(reply) == 0 {
		return -1
	}
	return reply[0]
}

func (w redigoWire) load(script string) error {
	conn := w.pool.Get()
	defer conn.Close() //nolint:errcheck // returns the connection
	_, err := conn.Do("SCRIPT", "LOAD", script)
	return err
}

type goRedisWire struct{ client *goredis.Client }

func (w goRedisWire) evalsha(c *command) int64 {
	reply, err := w.client.Do(context.Background(), c.words...).Int64Slice()
	if err != nil || len(reply) == 0 {
		return -1
	}
	return reply[0]
}

func (w goRedisWire) load(script string) error {
	return w.client.ScriptLoad(context.Background(), script).Err()
}

type rueidisWire struct{ client rueidis.Client }

func (w rueidisWire) evalsha(c *command) int64 {
	cmd := w.client.B().Evalsha().Sha1(c.hash).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
	reply, err := w.client.Do(context.Background(), cmd).AsIntSlice()
	if err != nil || len(reply) == 0 {
		return -1
	}
	return reply[0]
}

func (w rueidisWire) load(script string) error {
	return w.client.Do(context.Background(), w.client.B().ScriptLoad().Script(script).Build()).Error()
}

type valkeyWire struct{ client valkey.Client }

func (w valkeyWire) evalsha(c *command) int64 {
	cmd := w.client.B().Evalsha().Sha1(c.hash).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
	reply, err := w.client.Do(context.Background(), cmd).AsIntSlice()
	if err != nil || len(reply) == 0 {
		return -1
	}
	return reply[0]
}

func (w valkeyWire) load(script string) error {
	return w.client.Do(context.Background(), w.client.B().ScriptLoad().Script(script).Build()).Error()
}

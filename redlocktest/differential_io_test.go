package redlocktest_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/pool"
)

var dumpScript = redis.NewScript(-1, `
local function time() local t = redis.call('TIME') return t[1] * 1000000 + t[2] end
local out, from, up = {}, time(), -1
if ARGV[1] == '1' then
  up = tonumber(string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%d+)'))
end
for i, key in ipairs(KEYS) do
  local kind, value = redis.call('TYPE', key).ok, ''
  if kind == 'string' then
    value = redis.call('GET', key)
  elseif kind == 'zset' then
    for j, word in ipairs(redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')) do value = value .. word .. ' ' end
  end
  out[i] = {kind, value, redis.call('PTTL', key)}
end
return {from, time(), up, out}`)

type realKey struct {
	value string
	pttl  int64
}

// dump reads the server's clock and the keys of a lock at one moment: a dump
// during which the server was not running is taken again.
func (w *world) dump(name string) (stamp, map[string]realKey) {
	w.t.Helper()
	args := []any{5}
	for _, key := range companions(name) {
		args = append(args, key)
	}
	withInfo := 1
	if w.noInfo {
		withInfo = 0
	}
	args = append(args, withInfo)
	for range 100 {
		reply, err := redis.Values(dumpScript.Do(w.conn, args...))
		require.NoError(w.t, err)
		from, to := reply[0].(int64), reply[1].(int64)
		if to-from > 500 {
			continue
		}
		keys := make(map[string]realKey)
		for i, key := range companions(name) {
			row := reply[3].([]any)[i].([]any)
			if kind := string(row[0].([]byte)); kind != "none" {
				keys[key] = realKey{value: string(row[1].([]byte)), pttl: row[2].(int64)}
			}
		}
		return stamp{us: from, uptime: reply[2].(int64)}, keys
	}
	w.t.Fatal("the server never got half a millisecond to itself")
	return stamp{}, nil
}

// An ear listens on one channel of one side.
type ear struct {
	channel    string
	real, twin *record
}

type record struct {
	mu       sync.Mutex
	payloads []string
}

func (r *record) add(payload string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.payloads = append(r.payloads, payload)
}

// of leaves out what was not judged.
func (r *record) of(gone map[string]bool) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := []string{}
	for _, payload := range r.payloads {
		if _, name, _ := strings.Cut(payload, " "); !gone[name] {
			kept = append(kept, payload)
		}
	}
	return kept
}

// listen subscribes to two of the four channels that waiters use.
func (w *world) listen() {
	w.ears = nil
	for _, channel := range []string{"w0", "w1"} {
		e := &ear{channel: channel, real: &record{}, twin: &record{}}
		subscribe(w.t, w.real.(pool.Subscriber), channel, e.real)
		subscribe(w.t, w.twin, channel, e.twin)
		w.ears = append(w.ears, e)
	}
}

func subscribe(t *testing.T, s pool.Subscriber, channel string, r *record) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.Subscribe(ctx, channel, func() { close(ready) }, r.add) }()
	t.Cleanup(func() {
		cancel()
		assert.Error(t, <-ended)
	})
	select {
	case <-ready:
	case <-time.After(5 * time.Second):
		t.Fatalf("no subscription to %s", channel)
	}
}

func (w *world) checkNotices() {
	w.t.Helper()
	for _, e := range w.ears {
		assert.EventuallyWithT(w.t, func(c *assert.CollectT) {
			assert.Equal(c, e.real.of(w.gone), e.twin.of(w.gone), "notices on %s", e.channel)
		}, 3*time.Second, time.Millisecond)
	}
	w.passed = !w.t.Failed()
}

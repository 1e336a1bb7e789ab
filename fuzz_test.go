package redlock_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/pool"
	redigopool "github.com/quorumlock/redlock/pool/redigo"
	"github.com/quorumlock/redlock/redlocktest"
)

// babbler is a node that answers one script with what a fuzzer thinks of, and the
// others well.
type babbler struct {
	*redlocktest.Node
	script string
	ints   []int64
}

func (b *babbler) Eval(ctx context.Context, s *pool.Script, keys []string, args ...any) ([]int64, error) {
	if s.Name() != b.script {
		return b.Node.Eval(ctx, s, keys, args...)
	}
	if _, err := b.Node.Eval(ctx, s, keys, args...); err != nil {
		return nil, err
	}
	return b.ints, nil
}

var arities = map[string]int{"acquire": 6, "release": 6, "touch": 6, "leave": 1, "inspect": 6, "break": 3}

// wellFormed reports whether ints can be the reply of a script.
func wellFormed(script string, ints []int64) bool {
	codes := map[string][2]int64{
		"acquire": {1, 4}, "release": {1, 3}, "touch": {1, 5}, "leave": {1, 3}, "inspect": {0, 1}, "break": {1, 3},
	}[script]
	if len(ints) > 0 && ints[0] == 1 && len(ints) == map[string]int{"acquire": 2, "release": 1}[script] {
		return true
	}
	return len(ints) == arities[script] && ints[0] >= codes[0] && ints[0] <= codes[1]
}

// Whatever integers a node replies with, no verb panics; and what is no reply of the
// script is a fault of that node, and no vote.
func FuzzReplyIntegers(f *testing.F) {
	scripts := []string{"acquire", "release", "touch", "leave", "inspect", "break"}
	numbers := func(ints ...int64) (text []byte) {
		for _, n := range ints {
			text = binary.LittleEndian.AppendUint64(text, uint64(n))
		}
		return text
	}
	for i := range scripts {
		for code := range int64(7) {
			f.Add(uint8(i), numbers(code, math.MaxInt64, math.MinInt64, -1, math.MaxInt64, math.MaxInt64))
			f.Add(uint8(i), numbers(code, 0, 0, math.MaxInt64, 0, -1))
		}
		f.Add(uint8(i), numbers(1))
		f.Add(uint8(i), numbers(1, math.MaxInt64))
		f.Add(uint8(i), numbers(2, math.MaxInt64))
		f.Add(uint8(i), numbers())
		f.Add(uint8(i), numbers(1, 2, 3, 4, 5, 6, 7))
	}
	f.Fuzz(func(t *testing.T, which uint8, text []byte) {
		script := scripts[int(which)%len(scripts)]
		var ints []int64
		for ; len(text) >= 8 && len(ints) < 9; text = text[8:] {
			ints = append(ints, int64(binary.LittleEndian.Uint64(text)))
		}
		synctest.Test(t, func(t *testing.T) { everyVerb(t, script, ints) })
	})
}

// everyVerb makes two nodes of three reply with ints to one script.
func everyVerb(t *testing.T, script string, ints []int64) {
	nodes := redlocktest.NewNodes(3)
	pools := nodes.Pools()
	for i := 1; i < 3; i++ {
		pools[i] = &babbler{nodes[i], script, ints}
	}
	r, err := redlock.New(pools)
	require.NoError(t, err)
	m := r.NewMutex("fuzz", redlock.WithTries(2))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	errs := map[string]error{}
	errs["acquire"] = m.LockContext(ctx)
	_ = m.Check(ctx)
	_, errs["touch"] = m.ExtendContext(ctx)
	_, errs["inspect"] = r.Inspect(ctx, "fuzz")
	_, errs["release"] = m.UnlockContext(ctx)
	nodes[0].Set("fuzz", "foreign", time.Second)
	nodes[1].Set("fuzz", "foreign", time.Second)
	errs["break"] = r.Break(ctx, "fuzz")
	_ = m.Token() + int64(m.Until().Nanosecond()) + int64(len(m.Value()))
	closing, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	_ = r.Close(closing) // ends what a reply may have started
	if wellFormed(script, ints) || script == "leave" {
		return
	}
	require.Error(t, errs[script], "%s: %v", script, ints)
	var fault *redlock.NodeError
	require.True(t, errors.As(errs[script], &fault), "%v", errs[script])
	require.Contains(t, []string{"node1", "node2"}, fault.Addr)
}

// Whatever bytes a server replies with, it has granted nothing unless they are the
// integers of a grant.
func FuzzReplyBytes(f *testing.F) {
	values := []string{":1\r\n", "$1\r\n1\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "*1\r\n:1\r\n", "+OK\r\n", "-ERR no\r\n", "_\r\n", "#t\r\n", ",1\r\n", ":\r\n", ":x\r\n", ":99999999999999999999\r\n"}
	for _, v := range values {
		f.Add([]byte(v))
		for place := range 6 {
			reply := []byte("*6\r\n")
			for i := range 6 {
				if i == place {
					reply = append(reply, v...)
				} else {
					reply = append(reply, ":1\r\n"...)
				}
			}
			f.Add(reply)
		}
	}
	f.Add([]byte("*6\r\n:1\r\n:1\r\n"))
	for _, reply := range []string{"*2\r\n:1\r\n:1\r\n", "*2\r\n:2\r\n:1\r\n", "*1\r\n:1\r\n"} {
		f.Add([]byte(reply))
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		if hugeLength.Match(reply) {
			t.Skip("redigo allocates whatever length it is told")
		}
		pools := make([]pool.Pool, 3)
		for i := range pools {
			p := &redis.Pool{DialContext: func(context.Context) (redis.Conn, error) {
				ours, theirs := net.Pipe()
				go answer(theirs, reply)
				return redis.NewConn(ours, time.Second, time.Second), nil
			}}
			defer p.Close() //nolint:errcheck // a pipe
			pools[i] = redigopool.NewNamedPool(p, fmt.Sprintf("node%d", i))
		}
		r, err := redlock.New(pools, redlock.WithExpiry(time.Second))
		require.NoError(t, err)
		defer giveUp(r)
		err = r.NewMutex("fuzz").TryLock()
		if err == nil {
			require.True(t, isGrant(reply), "%q", reply)
			return
		}
		require.ErrorIs(t, err, redlock.ErrFailed)
		if !errors.Is(err, redlock.ErrTaken) {
			var fault *redlock.NodeError
			require.True(t, errors.As(err, &fault), "%v", err)
			require.Contains(t, fault.Addr, "node")
		}
	})
}

// giveUp closes r without waiting for releases that no node takes.
func giveUp(r *redlock.Redlock) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = r.Close(ended) // it says what it gives up
}

var hugeLength = regexp.MustCompile(`[*$%~>=!|]\+?\d{5}`)

// answer replies to what comes, and hangs up.
func answer(c net.Conn, reply []byte) {
	defer c.Close() //nolint:errcheck // a pipe
	request := bufio.NewReader(c)
	if _, err := request.ReadByte(); err != nil {
		return
	}
	if _, err := request.Discard(request.Buffered()); err == nil {
		_, _ = c.Write(reply) // the other end may have had enough
	}
}

// isGrant reports whether reply begins with an array of whole numbers, six or as many as
// there are in a grant, the first 1.
func isGrant(reply []byte) bool {
	lines := bytes.Split(reply, []byte("\r\n"))
	n := 6
	if whole(lines[0], '*', 2) {
		n = 2
	}
	if len(lines) < n+1 || !whole(lines[0], '*', n) || !whole(lines[1], ':', 1) {
		return false
	}
	for _, line := range lines[2 : n+1] {
		if len(line) < 2 || line[0] != ':' {
			return false
		}
	}
	return true
}

func whole(line []byte, kind byte, want int) bool {
	n := 0
	_, err := fmt.Sscanf(string(line[min(1, len(line)):]), "%d", &n)
	return len(line) > 1 && line[0] == kind && err == nil && n == want
}

// Whatever numbers options are given, a mutex says that one is invalid, or its lock is
// as good as the numbers say.
func FuzzOptions(f *testing.F) {
	const s = int64(time.Second)
	f.Add(8*s, 1, s, 0.01, 0.05, s, s, int64(0))
	f.Add(int64(0), 0, int64(-1), math.NaN(), math.Inf(1), int64(0), int64(0), int64(0))
	f.Add(int64(math.MaxInt64), math.MaxInt, int64(math.MaxInt64), 0.999, 0.999, int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Add(int64(math.MinInt64), math.MinInt, int64(math.MinInt64), -1.0, -1.0, int64(math.MinInt64), int64(math.MinInt64), int64(math.MinInt64))
	f.Add(3*int64(time.Millisecond), 1, int64(0), 0.0, math.SmallestNonzeroFloat64, int64(1), int64(1), 20*s)
	f.Fuzz(func(t *testing.T, expiry int64, tries int, delay int64, drift, timeout float64, node, longest, guard int64) {
		synctest.Test(t, func(t *testing.T) {
			r, err := redlock.New(redlocktest.NewNodes(3).Pools())
			require.NoError(t, err)
			opts := []redlock.Option{
				redlock.WithExpiry(time.Duration(expiry)), redlock.WithTries(tries), redlock.WithRetryDelay(time.Duration(delay)),
				redlock.WithDriftFactor(drift), redlock.WithTimeoutFactor(timeout), redlock.WithMaxHold(time.Duration(longest)),
			}
			if node != 0 {
				opts = append(opts, redlock.WithNodeTimeout(time.Duration(node)))
			}
			if guard != 0 {
				opts = append(opts, redlock.WithRestartGuard(time.Duration(guard)))
			}
			m := r.NewMutex("fuzz", opts...)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			before := time.Now()
			if err := m.LockContext(ctx); err != nil {
				require.True(t, errors.Is(err, redlock.ErrInvalidOption) || errors.Is(err, redlock.ErrFailed), "%v", err)
				return
			}
			require.True(t, m.Valid())
			require.True(t, m.Until().After(before), "%v", m.Until())
			require.LessOrEqual(t, m.Until().Sub(before), time.Duration(expiry))
			_, err = m.ExtendFor(ctx, time.Duration(delay))
			if err != nil {
				require.ErrorIs(t, err, redlock.ErrExtendFailed)
			}
			released, err := m.Unlock()
			require.NoError(t, err)
			require.True(t, released)
		})
	})
}

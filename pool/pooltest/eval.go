package pooltest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
)

func integers(t *testing.T, open Factory) {
	p := open(t, testutil.StartRedis(t).Addr(), Options{})
	ctx := ctxFor(t, settle)

	// Lua's numbers are doubles: these are exact in it.
	echo := pool.NewScript("echo", `
		local out = {}
		for i, v in ipairs(ARGV) do out[i] = tonumber(v) end
		return out`)
	want := []int64{0, 1, -1, 1 << 53, 1<<53 - 1, -(1 << 53), -(1<<53 - 1), 1 << 62, math.MinInt64, 1700000000000000}
	args := make([]any, len(want))
	for i, v := range want {
		args[i] = v
	}
	got, err := p.Eval(ctx, echo, nil, args...)
	require.NoError(t, err)
	require.Equal(t, want, got)

	got, err = p.Eval(ctx, echo, nil)
	require.NoError(t, err)
	require.Empty(t, got)

	// What is sent is exact whatever its type.
	same := pool.NewScript("same", `
		local out = {#KEYS}
		for i = 1, #ARGV, 2 do out[#out + 1] = ARGV[i] == ARGV[i + 1] and 1 or 0 end
		return out`)
	binary := "a\x00b\r\n\xff é"
	got, err = p.Eval(ctx, same, []string{binary, ""}, int64(math.MaxInt64), "9223372036854775807", int64(math.MinInt64), "-9223372036854775808",
		7, "7", -7, "-7", binary, binary, "", "")
	require.NoError(t, err)
	require.Equal(t, []int64{2, 1, 1, 1, 1, 1, 1}, got)
}

// A reply that is no array of integers is an error, and the next call is served.
func unexpectedReplies(t *testing.T, open Factory) {
	s := testutil.StartRedis(t)
	p := open(t, s.Addr(), Options{})
	ctx := ctxFor(t, settle)
	bodies := []string{
		`return 'text'`, `return ''`, `return 7`, `return false`, `return nil`, `return {ok = 'STATUS'}`,
		`return {1, 'text'}`, `return {1, '2'}`, `return {1, false}`, `return {1, {2}}`, `return {{1, 2}}`, `return {1, {ok = 'STATUS'}}`,
		`return {1, {err = 'ERR inside'}}`, `return {err = 'ERR outside'}`, `this is no Lua`,
	}
	if newerThan6(t, s) {
		for _, body := range []string{
			`return {double = 3.5}`, `return {map = {a = 1}}`, `return {set = {a = true}}`, `return true`,
			`return {1, {double = 3.5}}`, `return {1, {map = {a = 1}}}`, `return {1, true}`,
		} {
			bodies = append(bodies, "redis.setresp(3) "+body)
		}
	}
	for _, body := range bodies {
		// A client that speaks the older protocol is told true as 1.
		got, err := p.Eval(ctx, pool.NewScript("odd", body), nil)
		if err == nil && body == "redis.setresp(3) return {1, true}" {
			require.Equal(t, []int64{1, 1}, got)
			continue
		}
		require.Error(t, err, "%s gave %v", body, got)
		got, err = p.Eval(ctx, one, nil)
		require.NoError(t, err, "after %s", body)
		require.Equal(t, []int64{1}, got)
	}
}

// keysAndArgs relies on the race detector for what happens after a call that was
// given up.
func keysAndArgs(t *testing.T, open Factory) {
	s := testutil.StartRedis(t)
	p := open(t, s.Addr(), Options{})
	works(t, p)
	keys, args := make([]string, 2, 8), make([]any, 3, 8)
	fill := func() {
		keys[0], keys[1] = "one", "two"
		args[0], args[1], args[2] = "text", int64(5), 6
	}
	fill()
	_, err := p.Eval(ctxFor(t, settle), one, keys, args...)
	require.NoError(t, err)
	require.Equal(t, []string{"one", "two"}, keys)
	require.Equal(t, []any{"text", int64(5), 6}, args)
	require.Equal(t, make([]string, 6), keys[2:8], "room behind the keys is not the adapter's")
	require.Equal(t, make([]any, 5), args[3:8], "room behind the arguments is not the adapter's")

	require.NoError(t, s.Pause())
	for range 5 {
		fill()
		ctx, cancel := context.WithTimeout(context.Background(), short/3)
		_, err = p.Eval(ctx, one, keys, args...)
		cancel()
		require.Error(t, err)
		keys[0], keys[1] = "other", "names"
		args[0], args[1], args[2] = 1, "mine", int64(3)
	}
	require.NoError(t, s.Resume())
	works(t, p)
}

func scriptFlush(t *testing.T, open Factory) {
	s := testutil.StartRedis(t)
	p := open(t, s.Addr(), Options{})
	ctx := ctxFor(t, settle)
	for i := range 5 {
		got, err := p.Eval(ctx, count, []string{"n"})
		require.NoError(t, err)
		require.Equal(t, []int64{int64(i + 1)}, got)
		s.MustDo(t, "SCRIPT", "FLUSH")
	}
	before := scriptCalls(t, s)
	_, err := p.Eval(ctx, count, []string{"n"})
	require.NoError(t, err)
	require.Equal(t, before+2, scriptCalls(t, s), "by hash, then by source")
	_, err = p.Eval(ctx, count, []string{"n"})
	require.NoError(t, err)
	require.Equal(t, before+3, scriptCalls(t, s), "by hash alone once the node knows it")

	const callers, calls = 4, 50
	stop := make(chan struct{})
	var flushing, calling sync.WaitGroup
	flushing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = s.Do("SCRIPT", "FLUSH")
			}
		}
	})
	errs := make(chan error, callers*calls)
	for range callers {
		calling.Go(func() {
			for range calls {
				_, err := p.Eval(ctx, count, []string{"all the time"})
				errs <- err
			}
		})
	}
	calling.Wait()
	close(stop)
	flushing.Wait()
	for range callers * calls {
		require.NoError(t, <-errs)
	}
	require.Equal(t, callers*calls, counted(t, s, "all the time"))
}

// Results must never be mixed up, not with those of calls that failed or were
// given up either.
func concurrent(t *testing.T, open Factory) {
	s := testutil.StartRedis(t)
	p := open(t, s.Addr(), Options{})
	works(t, p)
	echo := pool.NewScript("echo", `
		if ARGV[3] == '1' then return redis.error_reply('ERR asked for by ' .. ARGV[1] .. '/' .. ARGV[2]) end
		return {tonumber(ARGV[1]), tonumber(ARGV[2])}`)
	const callers, calls = 32, 60
	errs := make(chan error, callers)
	for c := range int64(callers) {
		go func() {
			errs <- func() error {
				for i := range int64(calls) {
					ctx, cancel := context.WithTimeout(context.Background(), settle)
					fail := 0
					switch i % 10 {
					case 3:
						fail = 1
					case 7:
						cancel() // before or while it runs: all the same to the others
					}
					got, err := p.Eval(ctx, echo, []string{"k"}, c, i, fail)
					cancel()
					switch {
					case fail == 1 && (err == nil || err.Error() != fmt.Sprintf("ERR asked for by %d/%d", c, i)):
						return fmt.Errorf("call %d/%d got %v, %v", c, i, got, err) //nolint:errorlint // it may be nil
					case fail == 0 && i%10 != 7 && err != nil:
						return fmt.Errorf("call %d/%d: %w", c, i, err)
					case err == nil && !slices.Equal(got, []int64{c, i}):
						return fmt.Errorf("call %d/%d got %v", c, i, got)
					}
				}
				return nil
			}()
		}()
	}
	for range callers {
		require.NoError(t, <-errs)
	}
}

// commander is a pool whose Eval goes through Command.
type commander struct{ pool.Commander }

func commanding(open Factory) Factory {
	return func(t testing.TB, addr string, o Options) pool.Pool {
		c, ok := open(t, addr, o).(pool.Commander)
		require.True(t, ok, "the pool has no pool.Commander")
		return commander{c}
	}
}

func (c commander) Eval(ctx context.Context, s *pool.Script, keys []string, args ...any) ([]int64, error) {
	words := []any{s.Hash(), len(keys)}
	for _, k := range keys {
		words = append(words, k)
	}
	words = append(words, args...)
	sent := slices.Clone(words)
	into := make([]int64, 1, 8)
	into[0] = 42
	got, err := c.Command(ctx, s, sent, into)
	switch {
	case !slices.Equal(sent, words):
		return nil, errors.New("the words were changed")
	case err != nil:
		return nil, err
	case len(got) == 0 || got[0] != 42:
		return nil, errors.New("the reply does not follow what was there")
	}
	return got[1:], nil
}

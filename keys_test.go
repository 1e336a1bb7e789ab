package redlock

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
	redigopool "github.com/quorumlock/redlock/pool/redigo"
)

// Names that users have, and names that nobody should have but may.
var oddNames = []string{
	"jobs", "lock:x", "a b", "user:{42}:balance", "{42}", "{}", "{}x", "{", "}", "}{", "x{", "x}", "x{}", "{}{42}",
	"x}{42}", "{42", "42}", "{{42}}", "a{b}c{d}", "}}}", "{{{", "\x00", "\xff\xfe", "schlüssel", "日本語", "a\r\nb", "{\r\n}",
	strings.Repeat("long", 300), "x:f", "x:f{x}", "{x}:f",
}

func (k keys) all() []string { return []string{k.lock, k.fence, k.queue, k.tombstone, k.marker} }

func requireGoodKeys(t *testing.T, name string) {
	t.Helper()
	k := keysOf(name)
	require.Equal(t, name, k.lock, "the lock key is the name, as with every other client")
	seen := map[string]bool{}
	for _, key := range k.all() {
		require.True(t, strings.HasPrefix(key, name), "%q does not start with %q", key, name)
		require.Equal(t, slot(name), slot(key), "%q is in another slot than %q", key, name)
		require.False(t, seen[key], "%q has two parts", key)
		seen[key] = true
	}
	require.Equal(t, k, keysOf(name), "another client finds others")
}

func TestKeys(t *testing.T) {
	t.Parallel()
	for _, name := range oddNames {
		requireGoodKeys(t, name)
	}
	require.Equal(t, "jobs:f{jobs}", keysOf("jobs").fence)
	require.Equal(t, "{42}:x:f", keysOf("{42}:x").fence)
}

// The slots of a search are those of its keys.
func TestKeysNumbered(t *testing.T) {
	t.Parallel()
	for _, name := range oddNames {
		if hashTag(name) != name {
			continue // needs no search
		}
		for _, form := range [][2]string{{name + ":f", "}"}, {name + ":f{", "}"}} {
			n := newNumbered(form[0], form[1])
			for i := range 150 {
				key := form[0] + strconv.Itoa(i) + form[1]
				require.Equal(t, slot(key), n.slot(i), "%q", key)
			}
		}
	}
}

// The search does not take longer because the name is long.
func TestKeysOfLongNames(t *testing.T) {
	t.Parallel()
	for _, braces := range []string{"{", "}", "{}", "}{"} {
		started := time.Now()
		requireGoodKeys(t, strings.Repeat("x", 200_000)+braces+strings.Repeat("y", 200_000))
		require.Less(t, time.Since(started), 10*time.Second)
	}
}

func FuzzKeys(f *testing.F) {
	for _, name := range oddNames {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if name == "" {
			t.Skip("NewMutex refuses it")
		}
		requireGoodKeys(t, name)
	})
}

// Two names must never share a key, or a lock of one would be in the way of the other.
func TestKeysOfNamesDiffer(t *testing.T) {
	t.Parallel()
	owner := map[string]string{}
	for _, name := range []string{"jobs", "{jobs}", "jobs{a}", "{a}jobs", "x", "{x}", "x{x}", "jo", "bs"} {
		for _, key := range keysOf(name).all() {
			require.Empty(t, owner[key], "%q belongs to %q and to %q", key, owner[key], name)
			owner[key] = name
		}
	}
}

// The server is the judge of slots.
func TestKeysSlotOnServer(t *testing.T) {
	t.Parallel()
	s := testutil.StartRedis(t, "--cluster-enabled", "yes")
	c, err := s.Conn()
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // a test's connection
	for _, name := range oddNames {
		for _, key := range keysOf(name).all() {
			want, err := redis.Int(c.Do("CLUSTER", "KEYSLOT", key))
			require.NoError(t, err)
			require.Equal(t, want, int(slot(key)), "%q", key)
		}
		of, err := redis.Int(c.Do("CLUSTER", "KEYSLOT", name))
		require.NoError(t, err)
		require.Equal(t, of, int(slot(name)), "%q", name)
	}
}

// A user with the rights to one prefix, and to no channel, can do everything.
func TestKeysUnderPrefixACL(t *testing.T) {
	t.Parallel()
	for title, rights := range map[string][]string{
		"all commands but dangerous ones": {"+@all", "-@dangerous"},
		"the commands of the scripts": {
			"-@all", "+eval", "+evalsha", "+get", "+set", "+del", "+exists", "+pttl", "+pexpire", "+time",
			"+zadd", "+zrem", "+zrank", "+zrange", "+zcard", "+zpopmin", "+publish", "+subscribe",
		},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			servers := testutil.StartRedisN(t, 3)
			var nodes []pool.Pool
			for _, s := range servers {
				s.SetUser(t, "locker", append([]string{"~lock:*", "resetchannels"}, rights...)...)
				p := &redis.Pool{MaxIdle: 8, DialContext: func(ctx context.Context) (redis.Conn, error) {
					return redis.DialContext(ctx, "tcp", s.Addr(), redis.DialUsername("locker"), redis.DialPassword("pw"))
				}}
				t.Cleanup(func() { p.Close() }) //nolint:errcheck // idle connections
				nodes = append(nodes, redigopool.NewNamedPool(p, s.Addr()))
			}
			r, err := New(nodes, WithNodeTimeout(4*time.Second))
			require.NoError(t, err)
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				require.NoError(t, r.Close(ctx))
			})
			for _, name := range []string{"lock:x", "lock:{42}:x", "lock:}x{"} {
				m := r.NewMutex(name)
				require.NoError(t, m.Lock(), name)
				ok, err := m.Extend()
				require.NoError(t, err, name)
				require.True(t, ok)
				require.ErrorIs(t, r.NewMutex(name).TryLock(), ErrTaken)
				// A waiter, too: it gets the lock although it cannot be called.
				got := make(chan error, 1)
				waiter := r.NewMutex(name)
				go func() { got <- waiter.Lock() }()
				ok, err = m.Unlock()
				require.NoError(t, err, name)
				require.True(t, ok)
				select {
				case err := <-got:
					require.NoError(t, err, name)
				case <-time.After(20 * time.Second):
					t.Fatal("the waiter was left waiting")
				}
				ok, err = waiter.Unlock()
				require.NoError(t, err, name)
				require.True(t, ok)
			}
			refused, err := New(nodes)
			require.NoError(t, err)
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				_ = refused.Close(ctx) // it may still try to take back what was refused
			})
			err = refused.NewMutex("other:x").TryLock()
			require.ErrorIs(t, err, ErrNoQuorum, "the rights end with the prefix")
			var fault *NodeError
			require.ErrorAs(t, err, &fault)
			require.True(t, fault.Permanent(), "%v", err)
			for _, s := range servers {
				keys, err := s.Keys()
				require.NoError(t, err)
				for _, k := range keys {
					require.True(t, strings.HasPrefix(k, "lock:"), k)
				}
			}
		})
	}
}

func TestSplitValue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value, id string
		ballot    int64
	}{
		{"host.nonce.123", "host.nonce.", 123},
		{"a.b.c.9", "a.b.c.", 9},
		{".1", ".", 1},
		{"foreign", "foreign", 0},
		{"foreign.", "foreign.", 0},
		{"foreign.x1", "foreign.x1", 0},
		{"foreign.-1", "foreign.-1", 0},
		{"foreign.12345678901234567", "foreign.12345678901234567", 0}, // beyond what Lua counts exactly
		{"123", "123", 0},
		{"", "", 0},
	} {
		id, ballot := splitValue(c.value)
		require.Equal(t, c.id, id, "%q", c.value)
		require.Equal(t, c.ballot, ballot, "%q", c.value)
		if ballot > 0 {
			require.Equal(t, c.value, joinValue(id, ballot))
		}
	}
	for _, foreign := range []string{"foreign", "123"} {
		require.Equal(t, foreign, joinValue(foreign, 5), "a foreign value stays as it is")
	}
	require.Equal(t, fmt.Sprint("x.", 7), joinValue("x.", 7))
}

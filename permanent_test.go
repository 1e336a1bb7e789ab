package redlock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
)

// A refusal is one way in which a server turns a lock down, as it words it. The
// library decides by these words whether to try again, so each is provoked on a
// real server: a server that words one differently turns a test red.
type refusal struct {
	name string
	// args start the server, setUp makes it refuse.
	args  []string
	setUp func(t *testing.T, s *testutil.Server)
	dial  []redis.DialOption
	// text starts what the server says; any one of several.
	text      []string
	permanent bool
	// lenient says that Redis 6 does not refuse it inside a script.
	lenient bool
}

func user(rights ...string) func(*testing.T, *testutil.Server) {
	return func(t *testing.T, s *testutil.Server) { s.SetUser(t, "locker", rights...) }
}

var asLocker = []redis.DialOption{redis.DialUsername("locker"), redis.DialPassword("pw")}

func refusals() []refusal {
	return []refusal{
		{
			name: "no password given",
			args: []string{"--requirepass", "secret"},
			// Without a password a server does not even read a request of more than ten words.
			text:      []string{"NOAUTH Authentication required.", "ERR Protocol error: unauthenticated multibulk length"},
			permanent: true,
		},
		{
			name:      "wrong password",
			args:      []string{"--requirepass", "secret"},
			dial:      []redis.DialOption{redis.DialPassword("wrong")},
			text:      []string{"WRONGPASS invalid username-password pair or user is disabled.", "WRONGPASS invalid username-password pair"},
			permanent: true,
		},
		{
			name: "password given where none is set",
			dial: []redis.DialOption{redis.DialPassword("needless")},
			text: []string{
				"ERR AUTH <password> called without any password configured for the default user.",
				"ERR Client sent AUTH, but no password is set",
			},
			permanent: true,
		},
		{
			name:      "may not run scripts",
			setUp:     user("~*", "&*", "+@all", "-evalsha", "-eval"),
			dial:      asLocker,
			text:      []string{"NOPERM this user has no permissions to run the 'evalsha' command", "NOPERM User locker has no permissions to run the 'evalsha' command"},
			permanent: true,
		},
		{
			name:  "may not run a command inside a script",
			setUp: user("~*", "&*", "+@all", "-set"),
			dial:  asLocker,
			text: []string{
				"ERR The user executing the script can't run this command or subcommand",
				"The user executing the script can't run this command or subcommand",
				"NOPERM User locker has no permissions to run the 'set' command",
				"ERR Error running script",
				"ERR ACL failure in script",
			},
			permanent: true,
		},
		{
			name:      "may not use the lock key",
			setUp:     user("~other:*", "&*", "+@all"),
			dial:      asLocker,
			text:      []string{"NOPERM this user has no permissions to access one of the keys used as arguments", "NOPERM No permissions to access a key"},
			permanent: true,
		},
		{
			name:      "read-only replica",
			setUp:     func(t *testing.T, s *testutil.Server) { s.MustDo(t, "REPLICAOF", "127.0.0.1", "1") },
			text:      []string{"READONLY You can't write against a read only replica."},
			permanent: true,
		},
		{
			// The link comes back by itself.
			name: "replica without its master",
			setUp: func(t *testing.T, s *testutil.Server) {
				s.MustDo(t, "CONFIG", "SET", "replica-serve-stale-data", "no")
				s.MustDo(t, "REPLICAOF", "127.0.0.1", "1")
			},
			text: []string{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."},
		},
		{
			name:      "out of memory",
			setUp:     func(t *testing.T, s *testutil.Server) { s.MustDo(t, "CONFIG", "SET", "maxmemory", "1") },
			args:      []string{"--maxmemory-policy", "noeviction"},
			text:      []string{"OOM command not allowed when used memory > 'maxmemory'."},
			permanent: true,
		},
		{
			name:      "lock key of another type",
			setUp:     func(t *testing.T, s *testutil.Server) { s.MustDo(t, "LPUSH", "jobs", "a") },
			text:      []string{"WRONGTYPE Operation against a key holding the wrong kind of value"},
			permanent: true,
		},
		{
			name:      "fence key of another type",
			setUp:     func(t *testing.T, s *testutil.Server) { s.MustDo(t, "LPUSH", "jobs:f{jobs}", "a") },
			text:      []string{"WRONGTYPE Operation against a key holding the wrong kind of value"},
			permanent: true,
		},
		{
			name: "snapshots fail",
			args: []string{"--stop-writes-on-bgsave-error", "yes"},
			setUp: func(t *testing.T, s *testutil.Server) {
				s.MustDo(t, "CONFIG", "SET", "save", "3600 1") // Redis 6.0 passes over it on the command line
				// A directory where the file must go: works for root, too.
				require.NoError(t, os.MkdirAll(filepath.Join(s.Dir(), "dump.rdb", "x"), 0o700))
				s.MustDo(t, "BGSAVE")
				testutil.Eventually(t, settle, func() bool {
					info, err := redis.String(s.Do("INFO", "persistence"))
					return err == nil && strings.Contains(info, "rdb_last_bgsave_status:err")
				}, "the snapshot has failed")
			},
			text:      []string{"MISCONF Redis is configured to save RDB snapshots, but it", "MISCONF Valkey is configured to save RDB snapshots, but it", "MISCONF Errors writing to the"},
			permanent: true,
		},
		{
			// A replica that is late comes back by itself.
			name:    "too few replicas",
			lenient: true,
			setUp:   func(t *testing.T, s *testutil.Server) { s.MustDo(t, "CONFIG", "SET", "min-replicas-to-write", "1") },
			text:    []string{"NOREPLICAS Not enough good replicas to write."},
		},
	}
}

// A node that needs mending is told from one that may heal, on every way it has to
// refuse.
func TestPermanentFaults(t *testing.T) {
	t.Parallel()
	for _, c := range refusals() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := testutil.StartRedis(t, c.args...)
			if c.setUp != nil {
				c.setUp(t, s)
			}
			var seen recorder
			r := factoryOf(t, poolsOf(poolAt(t, s.Addr(), c.dial...)), patient(), redlock.WithObserver(&seen))
			err := r.NewMutex("jobs").Lock()
			if c.lenient && isRedis6(t, s) {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, redlock.ErrFailed)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.NotErrorIs(t, err, redlock.ErrTaken)
			var node *redlock.NodeError
			require.ErrorAs(t, err, &node)
			t.Logf("%q", node.Err)
			require.Equal(t, s.Addr(), node.Addr)
			require.True(t, startsWithAny(node.Err, c.text), "the server said %q", node.Err)
			require.Equal(t, c.permanent, node.Permanent(), "%q", node.Err)
			locks := seen.verb("lock")
			require.Len(t, locks, 1)
			if c.permanent {
				require.Equal(t, 1, locks[0].Attempts, "what needs mending is not tried again")
			} else {
				require.Greater(t, locks[0].Attempts, 1, "what may heal is tried again")
			}
		})
	}
}

func isRedis6(t testing.TB, s *testutil.Server) bool {
	t.Helper()
	info, err := redis.String(s.Do("INFO", "server"))
	require.NoError(t, err)
	return strings.Contains(info, "redis_version:6.")
}

// inScript is what Redis 6 puts before an error that arose inside a script.
var inScript = regexp.MustCompile(`^(ERR Error running script \(call to f_[0-9a-f]{40}\): )?(@user_script: ?\d+: )+-?`)

func startsWithAny(err error, texts []string) bool {
	for e := err; e != nil; e = errors.Unwrap(e) {
		for _, text := range texts {
			if strings.HasPrefix(inScript.ReplaceAllString(e.Error(), ""), text) || strings.HasPrefix(e.Error(), text) {
				return true
			}
		}
	}
	return false
}

// A server that may not publish to the wake channel still locks: the notice is a
// hint. This is the only refusal that no caller may see.
func TestChannelRefusalIsNotSeen(t *testing.T) {
	t.Parallel()
	s := testutil.StartRedis(t)
	rights := []string{"~*", "resetchannels", "+@all"}
	if !s.HasChannelRights(t) {
		rights = append(rights, "-publish") // the same refusal, of the command
	}
	s.SetUser(t, "locker", rights...)
	_, err := dialDo(t, s, asLocker, "EVAL", "return redis.call('PUBLISH', 'c', 'm')", 0)
	require.Error(t, err)
	t.Logf("%q", err)
	require.True(t, startsWithAny(err, []string{
		"ERR The user executing the script can't publish to the channel mentioned in the command",
		"NOPERM No permissions to access a channel",
		"NOPERM User locker has no permissions to access a channel",
		"ERR Error running script",
		"ERR ACL failure in script",
	}), "the server said %q", err)
	r := factoryOf(t, poolsOf(poolAt(t, s.Addr(), asLocker...)), patient())
	m := r.NewMutex("jobs")
	require.NoError(t, m.Lock())
	// Somebody waits, so that the release has a channel to publish to.
	s.MustDo(t, "ZADD", "jobs:q{jobs}", 1, "some-channel")
	unlock(t, m)
}

// dialDo sends one command as another user than the server's Do.
func dialDo(t testing.TB, s *testutil.Server, opts []redis.DialOption, cmd string, args ...any) (any, error) {
	t.Helper()
	c, err := redis.Dial("tcp", s.Addr(), opts...)
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // one command, already answered
	return c.Do(cmd, args...)
}

// Whatever command a user lacks the right to, a Lock that fails leaves nothing behind.
// But for DEL, without which nothing can be taken back.
func TestNothingIsLeftWhateverIsRefused(t *testing.T) {
	t.Parallel()
	for _, command := range []string{
		"get", "set", "exists", "pttl", "pexpire", "time", "zadd", "zrem", "zrank", "zrange", "zcard", "zpopmin", "publish", "subscribe",
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			servers := testutil.StartRedisN(t, 3)
			var nodes []pool.Pool
			for _, s := range servers {
				s.SetUser(t, "locker", "~*", "&*", "+@all", "-"+command)
				nodes = append(nodes, poolAt(t, s.Addr(), asLocker...))
			}
			r := factoryOf(t, nodes, patient(), redlock.WithExpiry(time.Minute))
			for round := range 3 {
				for _, s := range servers {
					s.MustDo(t, "SET", "jobs", "another", "PX", 300) // so that it waits, and queues
				}
				ctx, cancel := context.WithTimeout(t.Context(), settle)
				m := r.NewMutex("jobs")
				err := m.LockContext(ctx)
				cancel()
				t.Logf("round %d: %v", round, err)
				if err != nil {
					require.NotErrorIs(t, err, context.DeadlineExceeded, "it waited for itself")
				} else if _, err = m.Unlock(); err != nil { // may be refused, too
					for _, s := range servers {
						s.MustDo(t, "DEL", "jobs")
					}
				}
				requireFree(t, servers, "jobs")
			}
		})
	}
}

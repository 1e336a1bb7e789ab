package redigo_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/pool/pooltest"
)

func TestACLPageIsTheTestedOne(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations-acl.md"))
	require.NoError(t, err)
	// The page breaks the line.
	words := strings.Join(strings.Fields(strings.ReplaceAll(string(page), "\\\n", " ")), " ")
	require.Contains(t, words, "resetkeys resetchannels -@all "+strings.Join(pooltest.Rights, " "))
	require.Contains(t, words, pooltest.GuardRight)
}

// Each right is needed: without it the server notes a refusal of just that.
func TestACLIsTheLeast(t *testing.T) {
	s := testutil.StartRedis(t)
	version, err := redis.String(s.Do("INFO", "server"))
	require.NoError(t, err)
	if strings.Contains(version, "redis_version:6.") {
		t.Skip("Redis 6 has no rights on channels, and no log of what a script was refused")
	}
	refused := func() []string {
		entries, err := redis.Values(s.Do("ACL", "LOG"))
		require.NoError(t, err)
		var objects []string
		for _, e := range entries {
			fields, err := redis.Values(e, nil)
			require.NoError(t, err)
			for i := 0; i+1 < len(fields); i += 2 {
				if name, _ := redis.String(fields[i], nil); name == "object" {
					object, err := redis.String(fields[i+1], nil)
					require.NoError(t, err)
					objects = append(objects, object)
				}
			}
		}
		s.MustDo(t, "ACL", "LOG", "RESET")
		s.MustDo(t, "FLUSHALL")
		s.MustDo(t, "SCRIPT", "FLUSH")
		return objects
	}
	live := func(rights []string) error {
		pooltest.User(t, s, "locker", rights...)
		// A new pool: a server closes the connections of a user that lost a channel.
		return pooltest.WholeLife(s, open(t, s.Addr(), pooltest.Options{Username: "locker", Password: "pw"}))
	}
	require.NoError(t, live(pooltest.Rights))
	require.Empty(t, refused(), "the rights are enough")

	for i, right := range pooltest.Rights {
		rest := append(append([]string{}, pooltest.Rights[:i]...), pooltest.Rights[i+1:]...)
		err := live(rest)
		objects := refused()
		object := right[1:]
		switch right[0] {
		case '~':
			object = "lock:life"
		case '&':
			require.NotEmpty(t, objects)
			require.True(t, strings.HasPrefix(objects[0], "redlock:wake:"), "%v", objects)
			continue
		}
		require.Contains(t, objects, object, "nobody missed %s", right)
		var node *redlock.NodeError
		if err != nil {
			require.ErrorAs(t, err, &node, right)
			require.True(t, node.Permanent(), "%s: %v", right, err)
		}
	}
}

func TestRestartGuardNeedsOneMoreRight(t *testing.T) {
	s := testutil.StartRedis(t)
	try := func(rights ...string) error {
		pooltest.User(t, s, "locker", rights...)
		p := open(t, s.Addr(), pooltest.Options{Username: "locker", Password: "pw"})
		r, err := redlock.New([]pool.Pool{p}, redlock.WithRestartGuard(11*time.Second))
		require.NoError(t, err)
		defer r.Close(context.Background()) //nolint:errcheck // nothing is held
		return r.NewMutex("lock:guarded").TryLock()
	}
	err := try(pooltest.Rights...)
	var node *redlock.NodeError
	require.ErrorAs(t, err, &node)
	require.True(t, node.Permanent(), "%v", err)
	// With it, the server is merely too young to vote.
	err = try(append(append([]string{}, pooltest.Rights...), pooltest.GuardRight)...)
	require.ErrorContains(t, err, "restarted")
}

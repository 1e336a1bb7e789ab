package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool/pooltest"
)

// leastRights are those of the ACL page, for the trial locks.
func leastRights(without string) (rules []any) {
	for _, r := range append(pooltest.Rights, pooltest.GuardRight) {
		if r != without {
			rules = append(rules, strings.Replace(r, "~lock:", "~redlock-doctor:", 1))
		}
	}
	return rules
}

func examineAs(t *testing.T, s *testutil.Server, name string, guard bool, rules ...any) Finding {
	t.Helper()
	s.MustDo(t, append([]any{"ACL", "SETUSER", name, "reset", "on", ">pw"}, rules...)...)
	c := configFor(nodeAt(t, s.Addr(), name, "pw"))
	c.Guard = guard
	return find(t, Examine(t.Context(), c), s.Addr(), "rights")
}

// mendedBy are the rules of the line that a finding gives.
func mendedBy(t *testing.T, f Finding) (rules []any) {
	t.Helper()
	_, line, found := strings.Cut(f.Mend, "… ")
	require.True(t, found, f.Mend)
	for _, rule := range strings.Fields(line) {
		rules = append(rules, rule)
	}
	return rules
}

// Each right that the scripts need is missed, named, and given by the line that is
// said to mend it.
func TestEachRight(t *testing.T) {
	missed := map[string]struct {
		verdict Verdict
		step    string
	}{
		"+eval": {Bad, "eval"}, "+evalsha": {Bad, "lock"},
		"+get": {Bad, "lock"}, "+set": {Bad, "lock"}, "+time": {Bad, "lock"}, "+pttl": {Bad, "extend"},
		"+pexpire": {Bad, "extend"}, "+del": {Bad, "unlock"}, "+zpopmin": {Bad, "unlock"},
		"+zrank": {Bad, "wait"}, "+zrange": {Bad, "hand-over"},
		"+zadd": {Warn, "queue"}, "+zrem": {Warn, "leave"}, "+exists": {Warn, "leave"},
		"+zcard": {Warn, "inspect"}, "+publish": {Warn, "publish"}, "+subscribe": {Warn, "subscribe"},
		"+info": {Bad, "restart guard"},
	}
	s := testutil.StartRedis(t, durable...)
	f := examineAs(t, s, "least", true, leastRights("")...)
	assert.Equal(t, OK, f.Verdict, "the ACL page gives enough: %s", f.Text)
	for _, right := range append(pooltest.Rights, pooltest.GuardRight) {
		if !strings.HasPrefix(right, "+") {
			continue
		}
		command := right[1:]
		want, known := missed[right]
		require.True(t, known, right)
		s.MustDo(t, "SCRIPT", "FLUSH") // or +evalsha would do
		f := examineAs(t, s, "no-"+command, true, leastRights(right)...)
		assert.Equal(t, want.verdict, f.Verdict, "%s: %s", right, f.Text)
		if right == "+eval" {
			want.step = "lock" // nobody has brought the scripts
		}
		assert.True(t, strings.HasPrefix(f.Text, want.step+": "), "%s: %s", right, f.Text)
		assert.Regexp(t, `(?i)[ ']`+command+`[' :]`, f.Text, right)
		f = examineAs(t, s, "no-"+command, true, append(leastRights(right), mendedBy(t, f)...)...)
		assert.Equal(t, OK, f.Verdict, "%s, mended: %s", right, f.Text)
	}
	f = examineAs(t, s, "no-eval", true, leastRights("+eval")...)
	assert.Equal(t, Bad, f.Verdict, "the node knows the scripts, until it restarts: %s", f.Text)
	assert.True(t, strings.HasPrefix(f.Text, "eval: NOPERM"), f.Text)
}

// As somebody writes who wants to be rid of a few commands.
func TestAllRightsButOne(t *testing.T) {
	s := testutil.StartRedis(t, durable...)
	for command, want := range map[string]Verdict{
		"zrank": Bad, "zrange": Bad, "zpopmin": Bad, "del": Bad, "zadd": Warn, "zrem": Warn, "exists": Warn,
	} {
		f := examineAs(t, s, "user", false, "~*", "&*", "+@all", "-"+command)
		assert.Equal(t, want, f.Verdict, "%s: %s", command, f.Text)
	}
}

// As the help says.
const (
	maxLeft       = 24 * time.Second
	maxMarkerLeft = 35 * time.Second
)

// What a trial leaves on a node is soon gone, whatever the --ttl and the rights.
func TestLeavesLittleBehind(t *testing.T) {
	for _, without := range []string{"", "+del", "+zrem", "+zrank", "+zrange", "+zpopmin"} {
		s := testutil.StartRedis(t, durable...)
		s.MustDo(t, append([]any{"ACL", "SETUSER", "user", "reset", "on", ">pw"}, leastRights(without)...)...)
		c := configFor(nodeAt(t, s.Addr(), "user", "pw"))
		c.TTL, c.Guard = 10*maxLeft, true
		Examine(t.Context(), c)
		keys, err := s.Keys()
		require.NoError(t, err)
		assert.NotEmpty(t, keys, "fences at least")
		for _, key := range keys {
			most, limit := maxLeft, "a lock's"
			if strings.Contains(key, ":guard:m") {
				most, limit = maxMarkerLeft, "the guard's"
			}
			left, err := redis.Int64(s.Do("PTTL", key))
			require.NoError(t, err)
			assert.True(t, left == -2 || left > 0 && left <= most.Milliseconds(), "without %q, %s lives %d ms: above %s", without, key, left, limit)
		}
	}
}

package doctor

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool/redigo"
)

func TestMain(m *testing.M) { os.Exit(testutil.Main(m)) }

// nodeAt logs in as the default user, or with the name and password given.
func nodeAt(t *testing.T, addr string, login ...string) Node {
	t.Helper()
	n := Node{Addr: addr, Local: true}
	opts := []redis.DialOption{redis.DialConnectTimeout(time.Second), redis.DialReadTimeout(2 * time.Second)}
	if len(login) == 2 {
		n.User = login[0]
		opts = append(opts, redis.DialUsername(login[0]), redis.DialPassword(login[1]))
	}
	n.Dial = func(ctx context.Context) (redis.Conn, error) { return redis.DialContext(ctx, "tcp", addr, opts...) }
	p := &redis.Pool{DialContext: n.Dial, MaxIdle: 2}
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	n.Pool = redigo.NewNamedPool(p, addr)
	return n
}

func configFor(nodes ...Node) Config {
	return Config{Nodes: nodes, TTL: 30 * time.Second, Prefix: "redlock-doctor:"}
}

func examine(t *testing.T, c Config) (*Report, string) {
	t.Helper()
	r := Examine(t.Context(), c)
	var b strings.Builder
	require.NoError(t, r.Print(&b))
	return r, b.String()
}

// findings are those that are not ok, as "address check: verdict".
func findings(r *Report) map[string]Verdict {
	out := map[string]Verdict{}
	for _, f := range r.Findings {
		if f.Verdict == OK {
			continue
		}
		out[strings.TrimSpace(f.Node+" "+f.Check)] = f.Verdict
	}
	return out
}

func find(t *testing.T, r *Report, node, check string) Finding {
	t.Helper()
	for _, f := range r.Findings {
		if f.Node == node && f.Check == check {
			return f
		}
	}
	t.Fatalf("no finding %s of %q", check, node)
	return Finding{}
}

var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

func TestFiveGoodNodes(t *testing.T) {
	c := configFor()
	servers := testutil.StartRedisN(t, 5, durable...)
	for _, s := range servers {
		c.Nodes = append(c.Nodes, nodeAt(t, s.Addr()))
	}
	r, printed := examine(t, c)
	assert.Empty(t, findings(r), printed)
	assert.Equal(t, OK, r.Verdict)
	assert.Contains(t, printed, "\nall clear: ")
	for _, s := range servers {
		keys, err := s.Keys()
		require.NoError(t, err)
		for _, key := range keys { // fences and the like
			assert.True(t, strings.HasPrefix(key, c.Prefix), key)
			assert.Positive(t, s.MustDo(t, "PTTL", key), "%s never expires", key)
		}
	}
}

func TestBadSetUps(t *testing.T) {
	good := testutil.StartRedis(t, durable...)
	host, port, err := net.SplitHostPort(good.Addr())
	require.NoError(t, err)
	replica := testutil.StartRedis(t, append(durable, "--replicaof", host+" "+port)...)
	evicting := testutil.StartRedis(t, append(durable, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")...)
	volatile := testutil.StartRedis(t, "--appendonly", "yes", "--appendfsync", "everysec")
	testutil.Eventually(t, 20*time.Second, func() bool {
		info, err := redis.String(good.Do("INFO", "replication"))
		return err == nil && strings.Contains(info, "connected_slaves:1")
	}, "the replica never came")

	c := configFor(nodeAt(t, good.Addr()), nodeAt(t, replica.Addr()), nodeAt(t, evicting.Addr()), nodeAt(t, volatile.Addr()),
		nodeAt(t, "localhost:"+port), nodeAt(t, "127.0.0.1:1"))
	r, printed := examine(t, c)
	found := findings(r)
	delete(found, "quorum") // a server that is listed twice may or may not spoil it
	assert.Equal(t, map[string]Verdict{
		good.Addr() + " role":            Warn,
		"localhost:" + port + " role":    Warn,
		replica.Addr() + " role":         Bad,
		evicting.Addr() + " eviction":    Bad,
		volatile.Addr() + " persistence": Warn,
		volatile.Addr() + " uptime":      Warn,
		"127.0.0.1:1 reach":              Bad,
		"nodes":                          Warn,
		"independent":                    Bad,
	}, found, printed)
	assert.Equal(t, Bad, r.Verdict)
	for _, f := range r.Findings {
		assert.Equal(t, f.Verdict != OK, f.Means != "" && f.Mend != "", "%+v", f)
	}
	assert.Equal(t, "replicaof no one", find(t, r, replica.Addr(), "role").Mend)
	assert.Equal(t, "maxmemory-policy noeviction", find(t, r, evicting.Addr(), "eviction").Mend)
	assert.Contains(t, find(t, r, "", "independent").Text, good.Addr()+" and localhost:"+port+" are the same server")
	assert.Regexp(t, `\n[45] bad, 5 to think about, \d+ ok\n$`, printed)
}

func TestNoPersistence(t *testing.T) {
	s := testutil.StartRedis(t)
	c := configFor(nodeAt(t, s.Addr()))
	for ttl, want := range map[time.Duration]Verdict{time.Second: OK, 30 * time.Second: Warn, time.Hour: Bad} {
		c.TTL = ttl
		r, _ := examine(t, c)
		f := find(t, r, s.Addr(), "persistence")
		assert.Equal(t, want, f.Verdict, ttl)
		if want != OK {
			assert.Equal(t, "appendonly yes\nappendfsync always", f.Mend)
		}
	}
	c.Guard = true
	r, printed := examine(t, c)
	assert.Equal(t, map[string]Verdict{"nodes": Warn}, findings(r), printed)
}

// The lines that the findings give must mend them.
func TestRights(t *testing.T) {
	s := testutil.StartRedis(t, durable...)
	user := func(name string, rules ...any) Node {
		s.MustDo(t, append([]any{"ACL", "SETUSER", name, "reset", "on", ">pw"}, rules...)...)
		return nodeAt(t, s.Addr(), name, "pw")
	}
	rights := func(n Node) (Finding, *Report) {
		r := Examine(t.Context(), configFor(n))
		return find(t, r, s.Addr(), "rights"), r
	}

	f, _ := rights(user("mute", "~*", "+@all", "-publish", "resetchannels"))
	assert.Equal(t, Warn, f.Verdict)
	assert.Contains(t, f.Text, "subscribe: NOPERM")
	f, _ = rights(user("mended", append([]any{"~*", "+@all", "-publish", "-subscribe"}, mendedBy(t, f)...)...))
	assert.Equal(t, OK, f.Verdict, f.Text)

	f, _ = rights(user("silent", "~*", "&*", "+@all", "-publish"))
	assert.Equal(t, Warn, f.Verdict)
	assert.Contains(t, f.Text, "publish: NOPERM")

	f, r := rights(user("elsewhere", "~other:*", "&*", "+@all"))
	assert.Equal(t, Bad, f.Verdict)
	assert.Contains(t, f.Text, "lock: ")
	assert.Equal(t, Bad, find(t, r, "", "quorum").Verdict)
	f, r = rights(user("mended2", mendedBy(t, f)...))
	assert.Equal(t, OK, f.Verdict, f.Text)
	assert.Contains(t, r.Nodes[0].NoConfig, "NOPERM", "which is no finding")
	assert.Equal(t, Warn, find(t, r, s.Addr(), "persistence").Verdict, "the fsync is not known")

	f, r = rights(user("blind", "~*", "&*", "+@all", "-info", "-ping"))
	assert.Equal(t, OK, f.Verdict, f.Text)
	assert.Equal(t, Warn, find(t, r, s.Addr(), "version").Verdict)
	c := configFor(user("blind", "~*", "&*", "+@all", "-info"))
	c.Guard = true
	assert.Contains(t, find(t, Examine(t.Context(), c), s.Addr(), "rights").Text, "restart guard: ")
}

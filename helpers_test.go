package redlock_test

import (
	"context"
	"crypto/sha1" // EVALSHA names scripts so
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/hashicorp/go-multierror"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
	redigopool "github.com/quorumlock/redlock/pool/redigo"
)

// Where a verb must not wait for a bad node, that node is given slowNode to answer,
// and the verb has to be back within soon. The gap is what a loaded machine may
// lose without a false alarm.
const (
	slowNode = 6 * time.Second
	soon     = 1500 * time.Millisecond
	// settle is for what has to come in the end, on however slow a machine.
	settle = 20 * time.Second
)

// patient keeps a loaded machine from looking like a dead node, in tests where no
// node is slow.
func patient() redlock.Option { return redlock.WithNodeTimeout(4 * time.Second) }

// poolAt makes a redigo pool for one address.
func poolAt(t testing.TB, addr string, opts ...redis.DialOption) pool.Pool {
	t.Helper()
	p := newRedigo(addr, opts...)
	t.Cleanup(func() { p.Close() }) //nolint:errcheck // idle connections of a test
	return redigopool.NewNamedPool(p, addr)
}

func newRedigo(addr string, opts ...redis.DialOption) *redis.Pool {
	return &redis.Pool{
		MaxIdle: 64,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", addr, opts...)
		},
	}
}

// pools makes a redigo pool for each server.
func pools(t testing.TB, servers []*testutil.Server) []pool.Pool {
	t.Helper()
	out := make([]pool.Pool, len(servers))
	for i, s := range servers {
		out[i] = poolAt(t, s.Addr())
	}
	return out
}

// factory makes a Redlock over servers and closes it before them.
func factory(t testing.TB, servers []*testutil.Server, opts ...redlock.Option) *redlock.Redlock {
	t.Helper()
	return factoryOf(t, pools(t, servers), opts...)
}

func factoryOf(t testing.TB, pools []pool.Pool, opts ...redlock.Option) *redlock.Redlock {
	t.Helper()
	r, err := redlock.New(pools, opts...)
	require.NoError(t, err)
	// A node that a test leaves dead keeps its clean-ups waiting for it: they are
	// given up then, and the leak check sees that nothing of them stays.
	t.Cleanup(func() { closeWithin(r, 300*time.Millisecond) })
	return r
}

func closeWithin(r *redlock.Redlock, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	_ = r.Close(ctx)
}

// proxied puts a proxy in front of each server.
func proxied(t testing.TB, servers []*testutil.Server) ([]*testutil.Proxy, []pool.Pool) {
	t.Helper()
	proxies := make([]*testutil.Proxy, len(servers))
	out := make([]pool.Pool, len(servers))
	for i, s := range servers {
		proxies[i] = testutil.StartProxy(t, s.Addr())
		out[i] = poolAt(t, proxies[i].Addr())
	}
	return proxies, out
}

// lockedBy is the value a server holds for a name, "" for none.
func lockedBy(t testing.TB, s *testutil.Server, name string) string {
	t.Helper()
	v, err := redis.String(s.Do("GET", name))
	if errors.Is(err, redis.ErrNil) {
		return ""
	}
	require.NoError(t, err)
	return v
}

// holders counts the servers that hold a name for anyone.
func holders(t testing.TB, servers []*testutil.Server, name string) int {
	t.Helper()
	n := 0
	for _, s := range servers {
		if lockedBy(t, s, name) != "" {
			n++
		}
	}
	return n
}

// requireFree waits until no server holds the name.
func requireFree(t testing.TB, servers []*testutil.Server, name string) {
	t.Helper()
	testutil.Eventually(t, settle, func() bool { return holders(t, servers, name) == 0 }, "%q is free on every node", name)
}

// requireHeld waits until that many servers hold the name; the last replies may
// come after the verb has returned.
func requireHeld(t testing.TB, servers []*testutil.Server, name string, want int) {
	t.Helper()
	testutil.Eventually(t, settle, func() bool { return holders(t, servers, name) >= want }, "%q is held on %d nodes", name, want)
}

// steal puts somebody else's value in place on a server.
func steal(t testing.TB, s *testutil.Server, name string) {
	t.Helper()
	s.MustDo(t, "SET", name, "somebody-else", "PX", 60000)
}

// within runs f and fails the test if it took as long as limit.
func within(t testing.TB, limit time.Duration, what string, f func()) {
	t.Helper()
	started := time.Now()
	f()
	require.Less(t, time.Since(started), limit, "%s took too long", what)
}

// isScript recognizes a request that runs a script, by hash or by source, in the
// bytes on the wire.
func isScript(t testing.TB, name string) func(request []byte) bool {
	t.Helper()
	source := testutil.ScriptSource(t, "scripts", name)
	sum := sha1.Sum([]byte(source)) // see the import
	hash := hex.EncodeToString(sum[:])
	return func(request []byte) bool {
		text := string(request)
		return strings.Contains(text, hash) || strings.Contains(text, source)
	}
}

// scriptCalls is how many scripts a server has run or refused so far.
func scriptCalls(t testing.TB, s *testutil.Server) int {
	t.Helper()
	info, err := redis.String(s.Do("INFO", "commandstats"))
	require.NoError(t, err)
	calls := 0
	for line := range strings.SplitSeq(info, "\r\n") {
		rest, ok := strings.CutPrefix(line, "cmdstat_eval:calls=")
		if !ok {
			rest, ok = strings.CutPrefix(line, "cmdstat_evalsha:calls=")
		}
		if ok {
			n := 0
			for _, c := range []byte(rest) {
				if c < '0' || c > '9' {
					break
				}
				n = 10*n + int(c-'0')
			}
			calls += n
		}
	}
	return calls
}

// recorder is an observer that keeps what it was told.
type recorder struct {
	mu         sync.Mutex
	nodes      []redlock.NodeEvent
	verbs      []redlock.VerbEvent
	background []error

	// onStart, if not nil, is called at each start of a verb.
	onStart func(verb, name string)
}

func (r *recorder) NodeDone(_ context.Context, e redlock.NodeEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes = append(r.nodes, e)
}

func (r *recorder) VerbStart(ctx context.Context, verb, name string) context.Context {
	if r.onStart != nil {
		r.onStart(verb, name)
	}
	return ctx
}

func (r *recorder) VerbDone(_ context.Context, e redlock.VerbEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verbs = append(r.verbs, e)
}

func (r *recorder) BackgroundError(_ context.Context, _ string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.background = append(r.background, err)
}

func (r *recorder) countNodes(is func(redlock.NodeEvent) bool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, e := range r.nodes {
		if is(e) {
			n++
		}
	}
	return n
}

func (r *recorder) verb(name string) []redlock.VerbEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []redlock.VerbEvent
	for _, e := range r.verbs {
		if e.Verb == name {
			out = append(out, e)
		}
	}
	return out
}

// nodeErrors are all node faults inside err, in the order of their nodes.
func nodeErrors(err error) []*redlock.NodeError {
	var list *multierror.Error
	if !errors.As(err, &list) {
		return nil
	}
	var out []*redlock.NodeError
	for _, e := range list.Errors {
		var n *redlock.NodeError
		if errors.As(e, &n) {
			out = append(out, n)
		}
	}
	return out
}

// unlock releases and demands that the lock was held until now.
func unlock(t testing.TB, m *redlock.Mutex) {
	t.Helper()
	ok, err := m.Unlock()
	require.NoError(t, err)
	require.True(t, ok)
}

func poolsOf(p ...pool.Pool) []pool.Pool { return p }

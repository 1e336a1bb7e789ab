package redlocktest_test

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/redlocktest"
)

const (
	skew      = 5_000_000 // us
	retention = 20_000    // ms
)

var scriptNames = []string{"acquire", "release", "touch", "leave", "inspect", "break"}

// loadScripts reads the Lua text as nodes get it.
func loadScripts(tb testing.TB) map[string]*pool.Script {
	tb.Helper()
	scripts := make(map[string]*pool.Script)
	for _, name := range scriptNames {
		scripts[name] = pool.NewScript(name, testutil.ScriptSource(tb, filepath.Join("..", "scripts"), name))
	}
	return scripts
}

// A client sends the scripts a lock needs to one node; twins need no source.
type client struct{ node *redlocktest.Node }

func (c client) eval(ctx context.Context, name string, keys []string, args ...any) ([]int64, error) {
	return c.node.Eval(ctx, pool.NewScript(name, ""), keys, args...)
}

func (c client) ballot() int64 { return c.node.Now().UnixMicro() + 1 }

// acquire proposes p for lock L, queueing as member unless it is empty.
func (c client) acquire(ctx context.Context, id string, p int64, px time.Duration, member string) ([]int64, error) {
	return c.eval(ctx, "acquire", []string{"L", "L:f", "L:q"},
		valueOf(id, p), p, px.Milliseconds(), px.Milliseconds()+retention, 0, member, p)
}

func (c client) release(ctx context.Context, id string, h int64) ([]int64, error) {
	return c.eval(ctx, "release", []string{"L", "L:f", "L:q"}, valueOf(id, h), h)
}

// valueOf is the value of a ballot; an identity without a dot at its end is one itself.
func valueOf(id string, ballot int64) string {
	if strings.HasSuffix(id, ".") {
		return id + strconv.FormatInt(ballot, 10)
	}
	return id
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

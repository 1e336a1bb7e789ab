package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bubbles are functions that run what they are given in virtual time, where a sleep
// costs nothing and is over at a known moment.
var bubbles = []string{"synctest.Test", "virtual", "bubble"}

// sleepers are the functions in tests that sleep outside of a bubble, in so far as can
// be told from their text, and why that waits for nothing.
var sleepers = map[string]string{
	"cmd/redlock/parallel_test.go witnessJob":    "the job that the lock covers",
	"example_test.go ExampleMutex_ExtendContext": "the same",
	"wait_test.go TestCase21_HandOverIsPrompt":   "the same",
	"wait_test.go TestWait_Fairness":             "the same",
	"wait_test.go comeAndGo":                     "waiters come at random",
	"overload_test.go busyNode.Eval":             "what a request costs a node; called in a bubble",
	"wake_test.go slowToTell.Subscribe":          "called in a bubble",
	"turn_sim_test.go inLine":                    "called in a bubble",
	"turn_sim_test.go TestTurnPassesOwnFailures": "a slow function of the user's, called in a bubble",
}

// skips are the functions in tests that skip, and why that hides nothing in CI.
var skips = map[string]string{
	"cases_slow_test.go TestCase10_IdleNamesLeaveNothing":                 "with -short",
	"hold_test.go TestSoakRollingRestartOfServers":                        "soak; in virtual time it always runs",
	"cmd/redlock/parallel_test.go TestSoakParallelRuns":                   "soak; a short run always runs",
	"internal/model/model_test.go TestProtocolAsWrittenWithinLargeBounds": "make model; smaller bounds always run",
	"pool/redigo/acl_test.go TestACLIsTheLeast":                           "Redis 6",
	"internal/testutil/clock.go buildShim":                                "other systems than Linux",
	"fuzz_test.go FuzzReplyBytes":                                         "input that is not for us",
	"keys_test.go FuzzKeys":                                               "input that is not for us",
	"cmd/redlock/fuzz_test.go FuzzNodesVariable":                          "input that is not for us",
}

// callsOf are the functions of a source file in which one of the calls is made outside
// of a bubble.
func callsOf(t *testing.T, file string, source any, calls ...string) (found []string) {
	t.Helper()
	name := file
	if source == nil {
		name = filepath.Join(root, filepath.FromSlash(file))
	}
	f, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			called := calledName(call.Fun)
			if slices.Contains(calls, called) {
				found = append(found, file+" "+nameOf(fn))
			}
			return !slices.Contains(bubbles, called)
		})
	}
	return found
}

func calledName(f ast.Expr) string {
	switch f := f.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if of, ok := f.X.(*ast.Ident); ok {
			return of.Name + "." + f.Sel.Name
		}
	}
	return ""
}

// A test that sleeps in real time waits for something that a busy machine does later,
// and one that skips where it should run proves nothing. Those that do have a reason.
func TestEverySleepAndSkipHasAReason(t *testing.T) {
	slept, skipped := map[string]bool{}, map[string]bool{}
	for _, file := range files(t) {
		helper := strings.HasPrefix(file, "internal/testutil/") || strings.HasPrefix(file, "pool/pooltest/")
		if !strings.HasSuffix(file, ".go") || !strings.HasSuffix(file, "_test.go") && !helper {
			continue
		}
		for _, where := range callsOf(t, file, nil, "time.Sleep") {
			slept[where] = true
		}
		for _, where := range callsOf(t, file, nil, "t.Skip", "t.Skipf", "t.SkipNow", "b.Skip", "f.Skip") {
			skipped[where] = true
		}
	}
	require.ElementsMatch(t, keysOf(sleepers), keysOf(slept), "functions that may sleep in real time, and those that do")
	require.ElementsMatch(t, keysOf(skips), keysOf(skipped), "functions that may skip, and those that do")
}

func keysOf[V any](m map[string]V) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

func TestSleepsAreFound(t *testing.T) {
	require.Equal(t, []string{"a_test.go TestReal", "a_test.go helper.Wait"}, callsOf(t, "a_test.go", `package a
func TestVirtual(t *testing.T) { t.Run("x", func(t *testing.T) { virtual(t, 3, func() { go func() { time.Sleep(1) }() }) }) }
func TestBubble(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }
func TestReal(t *testing.T) { virtual(t, 3, nil); t.Run("x", func(t *testing.T) { time.Sleep(1) }) }
func (h *helper) Wait() { time.Sleep(1) }
`, "time.Sleep"))
}

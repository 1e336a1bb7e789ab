package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// startsSomething reports whether a node of the syntax tree starts a goroutine, now or
// later.
func startsSomething(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true
	case *ast.CallExpr:
		f, ok := n.Fun.(*ast.SelectorExpr)
		return ok && (f.Sel.Name == "AfterFunc" || f.Sel.Name == "Go" && len(n.Args) == 1)
	}
	return false
}

// starters counts, by function, what starts goroutines in a source file.
func starters(file string, source any) (map[string]int, error) {
	name := file
	if source == nil {
		name = filepath.Join(root, filepath.FromSlash(file))
	}
	f, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	for _, d := range f.Decls {
		where := "(no function)"
		if fn, ok := d.(*ast.FuncDecl); ok {
			where = nameOf(fn)
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if startsSomething(n) {
				found[file+" "+where]++
			}
			return true
		})
	}
	return found, nil
}

// nameOf is Type.method or function.
func nameOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	t := fn.Recv.List[0].Type
	for {
		switch of := t.(type) {
		case *ast.StarExpr:
			t = of.X
		case *ast.IndexExpr:
			t = of.X
		default:
			return fmt.Sprintf("%s.%s", t, fn.Name.Name)
		}
	}
}

// described is what users of the library compile. pool/pooltest is for tests of adapters,
// and of internal/ the library uses lazyctx alone.
var described = regexp.MustCompile(`^(?:internal/lazyctx/|pool/(?:internal/)?(?:[a-z]+/)?|redlocktest/|redlockotel/)?\w+\.go$`)

var row = regexp.MustCompile("^\\| `([\\w/.]+\\.go)` `([\\w.]+)` \\| (\\d+) \\|")

// The page on goroutines names every function that starts one, says how many places in it
// do, and names no other.
func TestEveryGoroutineIsDescribed(t *testing.T) {
	started := map[string]int{}
	for _, file := range files(t) {
		if !described.MatchString(file) || strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "pool/pooltest/") {
			continue
		}
		found, err := starters(file, nil)
		require.NoError(t, err)
		for where, n := range found {
			started[where] = n
		}
	}
	require.Contains(t, started, "renew.go renewals.add")
	told := map[string]int{}
	for _, l := range read(t, "docs/goroutines.md").text {
		if m := row.FindStringSubmatch(l.text); m != nil {
			n, err := strconv.Atoi(m[3])
			require.NoError(t, err)
			told[m[1]+" "+m[2]] = n
		}
	}
	require.Equal(t, started, told, "functions that start goroutines (expected), and what docs/goroutines.md says")
}

func TestStartersAreFound(t *testing.T) {
	found, err := starters("a.go", `package a
var _ = time.AfterFunc(1, nil)
func f() { go g(); func() { go g() }() }
func (t *T[int]) m() { defer context.AfterFunc(c, f)(); all.Go(f); f(); t.f() }
func (T) quiet() { t.Go(); time.NewTimer(1) }
`)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"a.go (no function)": 1, "a.go f": 2, "a.go T.m": 2}, found)
}

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var tiny = sizes{
	waiters:     []int{1, 8},
	fairFor:     200 * time.Millisecond,
	crashRounds: 1,
	leastPairs:  5,
	wanPairs:    1,
	patience:    100 * time.Millisecond,
	locks:       100,
	heldFor:     100 * time.Millisecond,
}

// sidesOf are the libraries that a result must have figures of, in each group.
func sidesOf(name string) []string {
	switch {
	case name == "sequential" || name == "parallel":
		return []string{nameRedlock, nameBare}
	case name == "wan" || strings.HasPrefix(name, "badnode"):
		return []string{nameRedlock, nameRedsync}
	case name == "held":
		return []string{nameRedlock, nameRedsync, nameRueidislock}
	}
	return []string{nameRedlock, nameRedsync, nameRedislock, nameRueidislock}
}

// The whole command with next to nothing in each scenario.
func TestEveryScenarioRuns(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	var out, progress bytes.Buffer
	err := run([]string{
		"-runs", "1", "-duration", "50ms", "-nodes", "3", "-workers", "4", "-note", "tiny",
		"-json", file("bench.json"), "-svg", file("bench.svg"), "-markdown", file("bench.md"),
	}, tiny, nil, &out, &progress)
	require.NoError(t, err)
	t.Log(progress.String())

	r, err := readReport(file("bench.json"))
	require.NoError(t, err)
	require.Equal(t, "tiny", r.Note)
	require.Len(t, r.Modules, len(peers), "a peer is not in the build: %v", r.Modules)
	var names []string
	for _, res := range r.Results {
		names = append(names, res.Name)
		require.NotEmpty(t, res.Rows, res.Name)
		require.NotEmpty(t, res.Checks, "%s has no target", res.Name)
		for _, w := range res.Rows {
			if w.Side != nameRedlock && w.Side != nameBare {
				continue
			}
			for _, c := range res.Charts {
				require.Positive(t, len(w.Cells[c].Runs), "%s, %s, %s: no %s", res.Name, w.Group, w.Side, c)
			}
			for _, c := range []string{colFailed, colLost, colGaveUp} {
				for _, n := range w.Cells[c].Runs {
					require.Zero(t, n, "%s, %s, %s: %s", res.Name, w.Group, w.Side, c)
				}
			}
		}
		for _, side := range sidesOf(res.Name) {
			require.Contains(t, markdown(&report{Results: []*result{res}}), side, res.Name)
		}
	}
	require.Equal(t, []string{
		"sequential", "parallel", "badnode-3", "badnode-5", "wan", "handover", "fairness", "crash", "held",
	}, names)
	text, err := os.ReadFile(file("bench.md"))
	require.NoError(t, err)
	require.Equal(t, out.String(), string(text))
	drawn, err := os.ReadFile(file("bench.svg"))
	require.NoError(t, err)
	requireChart(t, r, string(drawn))
}

func TestScenariosByName(t *testing.T) {
	var out, progress bytes.Buffer
	err := run([]string{"-runs", "1", "-duration", "10ms", "-nodes", "1", "-side", "redlock,bare", "-client", "rueidis", "sequential"},
		tiny, nil, &out, &progress)
	require.NoError(t, err)
	require.Contains(t, out.String(), "### sequential")
	require.NotContains(t, out.String(), "### parallel")
	require.Contains(t, out.String(), "| rueidis | **redlock** |")
	require.NotContains(t, out.String(), "| redsync |")

	require.ErrorContains(t, run([]string{"sequentiel"}, tiny, nil, &out, &progress), "sequentiel")
	require.ErrorContains(t, run([]string{"-runs", "0"}, tiny, nil, &out, &progress), "above 0")
}

func TestStoppedWritesNothing(t *testing.T) {
	stop := make(chan struct{})
	close(stop)
	path := filepath.Join(t.TempDir(), "bench.json")
	var out, progress bytes.Buffer
	require.ErrorIs(t, run([]string{"-json", path, "wan"}, tiny, stop, &out, &progress), errStopped)
	require.Empty(t, out.String())
	require.NoFileExists(t, path)
}

package sim_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/sim"
)

// With one processor, goroutines that are ready at the same instant run in the order in
// which they became so.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}

// Each seed is a schedule of faults, losses, duplicates, delays and cancellations. A
// failing one is printed: SIM_SEED=n runs it alone, twice. SIM_COUNT sets how many run;
// many are shared out among as many processes as there are processors.
func TestSchedules(t *testing.T) {
	if seed := number(t, "SIM_SEED", -1); seed >= 0 {
		r := run(t, uint64(seed), sim.Options{})
		require.Empty(t, r.Violations)
		require.Equal(t, r.Trace, replay(t, uint64(seed)).Trace)
		t.Logf("%d grants, %d refusals, %d held locks lost, %d faults, trace %x; every time the same",
			r.Grants, r.Refusals, r.Losses, r.Faults, r.Trace)
		return
	}
	count, from, step := number(t, "SIM_COUNT", 150), number(t, "SIM_FROM", 0), number(t, "SIM_STEP", 1)
	var total sim.Result
	if shards := runtime.NumCPU(); count >= 1000 && step == 1 && shards > 1 {
		total = share(t, shards)
	} else {
		for seed := from; seed < count; seed += step {
			r := run(t, uint64(seed), sim.Options{})
			require.Empty(t, r.Violations, "SIM_SEED=%d", seed)
			add(&total, r)
		}
	}
	if path := os.Getenv("SIM_RESULT"); path != "" {
		text, err := json.Marshal(total)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, text, 0o600))
	}
	t.Logf("%d schedules: %d grants, %d refusals, %d held locks lost, %d faults beside those of the network",
		count, total.Grants, total.Refusals, total.Losses, total.Faults)
	require.Positive(t, total.Grants)
	require.Positive(t, total.Refusals)
}

// A seed is one run, however often.
func TestReplay(t *testing.T) {
	different := map[uint64]bool{}
	for seed := range uint64(number(t, "SIM_REPLAYS", 15)) {
		different[replay(t, seed).Trace] = true
	}
	assert.Greater(t, len(different), 10, "seeds differ")
}

// replay runs a seed twice and compares.
func replay(t *testing.T, seed uint64) sim.Result {
	t.Helper()
	first, second := run(t, seed, sim.Options{Log: true}), run(t, seed, sim.Options{Log: true})
	for n := range first.Log {
		for i, line := range first.Log[n] {
			require.Greater(t, len(second.Log[n]), i, "SIM_SEED=%d ends early at node %d, before %s", seed, n, line)
			require.Equal(t, line, second.Log[n][i], "SIM_SEED=%d, node %d, execution %d", seed, n, i)
		}
	}
	require.Equal(t, first.Trace, second.Trace, "SIM_SEED=%d", seed)
	return first
}

func run(t *testing.T, seed uint64, o sim.Options) (r sim.Result) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { r = sim.Run(seed, o) })
	return r
}

// share has other processes run every shards-th seed each.
func share(t *testing.T, shards int) (total sim.Result) {
	t.Helper()
	dir := t.TempDir()
	said := make([]chan string, shards)
	for i := range said {
		said[i] = make(chan string, 1)
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSchedules$", "-test.timeout=0")
		cmd.Env = append(os.Environ(), fmt.Sprintf("SIM_FROM=%d", i), fmt.Sprintf("SIM_STEP=%d", shards),
			"SIM_RESULT="+filepath.Join(dir, strconv.Itoa(i)))
		go func() {
			out, err := cmd.CombinedOutput()
			if err != nil {
				said[i] <- fmt.Sprintf("%v\n%s", err, out)
			}
			close(said[i])
		}()
	}
	for i := range said {
		require.Empty(t, <-said[i])
		text, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(i)))
		require.NoError(t, err)
		var r sim.Result
		require.NoError(t, json.Unmarshal(text, &r))
		add(&total, r)
	}
	return total
}

func add(total *sim.Result, r sim.Result) {
	total.Grants += r.Grants
	total.Refusals += r.Refusals
	total.Losses += r.Losses
	total.Faults += r.Faults
}

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name)
	return n
}

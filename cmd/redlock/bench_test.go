package main

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/cmd/redlock/internal/latency"
)

// A measurement that broke off prints what it has, no zeros for what it has not, and 69.
func TestBenchBrokeOff(t *testing.T) {
	failed, some := errors.New("redlock: no quorum"), []time.Duration{2 * time.Millisecond}
	for _, of := range []struct {
		result *latency.Result
		err    error
		json   bool
		code   int
		out    string
	}{
		{
			&latency.Result{Lock: some, Unlock: some, Failed: 3, FirstError: failed},
			failed,
			true,
			exitUnavailable,
			`{"failed":3,"hand_over":{"samples":0},` +
				`"lock":{"max_us":2000,"p50_us":2000,"p99_us":2000,"samples":1},"unlock":{"max_us":2000,"p50_us":2000,"p99_us":2000,"samples":1}}` + "\n",
		},
		{
			&latency.Result{Lock: some, Failed: 3, FirstError: failed},
			failed,
			false,
			exitUnavailable,
			"lock: 1 samples, p50 2 ms, p99 2 ms, max 2 ms\n  up to     2 ms       1  ########################################\n\n" +
				"unlock: no samples\n\nhand-over: no samples\n\n",
		},
		{&latency.Result{Failed: 3, FirstError: failed}, failed, false, exitUnavailable, ""},
		{&latency.Result{}, nil, false, 0, "lock: no samples\n\nunlock: no samples\n\nhand-over: no samples\n\n"},
	} {
		out, err := os.CreateTemp(t.TempDir(), "out")
		require.NoError(t, err)
		err = (&benchCommand{JSON: of.json}).conclude(streams{out: out, err: out}, of.result, of.err)
		require.NoError(t, out.Close())
		var exit *exitError
		if of.code != 0 {
			require.ErrorAs(t, err, &exit)
			assert.Equal(t, of.code, exit.code)
			assert.EqualError(t, err, "no quorum")
		} else {
			require.NoError(t, err)
		}
		text, err := os.ReadFile(out.Name())
		require.NoError(t, err)
		assert.Equal(t, of.out, string(text))
	}
}

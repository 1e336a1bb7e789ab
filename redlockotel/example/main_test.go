package main

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/testutil"
)

func TestMain(m *testing.M) { os.Exit(testutil.Main(m)) }

func TestPrint(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	require.NoError(t, run(ctx, "127.0.0.1:0", true, true, &out))
	text := out.String()
	for _, want := range []string{
		"trace of checkout", "\n  redlock.lock +", "\n    redlock.wait +", "\n  redlock.hold +", "\n    charge +", "\n    redlock.unlock +",
		"trace of nightly", "\n    redlock.renew +",
		"trace of report", "outcome=lost",
		`redlock_grants_total{redlock_name="order"} 12`,
		`redlock_losses_total{redlock_name="report"} 1`,
		`error_type="READONLY",redlock_node="node0",redlock_request="acquire"`,
		"redlock_wait_duration_seconds_count{", "redlock_hold_duration_seconds_bucket{", "redlock_degraded_total{",
	} {
		require.Contains(t, text, want)
	}
}

func TestServesUntilInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	var out bytes.Buffer
	done := make(chan error, 1)
	timer := time.AfterFunc(200*time.Millisecond, interrupt)
	defer timer.Stop()
	go func() { done <- run(ctx, "127.0.0.1:0", false, false, &out) }()
	require.NoError(t, <-done)
	require.Contains(t, out.String(), "metrics: http://127.0.0.1:")
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/redlock/internal/testutil"
)

func TestMain(m *testing.M) { os.Exit(testutil.Main(m)) }

func TestReport(t *testing.T) {
	seen, err := newTelemetry(true)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		require.NoError(t, shop(t.Context(), seen.tracers.Tracer("shop"), seen.observer, true))
	})
	server := httptest.NewServer(seen.page())
	defer server.Close()
	var out bytes.Buffer
	require.NoError(t, report(seen.spans.GetSpans(), server.URL+"/metrics", true, &out))
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
	out.Reset()
	require.NoError(t, report(seen.spans.GetSpans(), server.URL+"/metrics", false, &out))
	require.NotContains(t, out.String(), "_bucket{")
	require.Error(t, report(nil, server.URL+"/elsewhere", false, &out))
	require.NoError(t, seen.close(t.Context()))
}

func TestServesUntilInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- run(ctx, "127.0.0.1:0", false, false, write) }()
	line, err := bufio.NewReader(read).ReadString('\n')
	require.NoError(t, err)
	page := strings.TrimSpace(strings.TrimPrefix(line, "metrics:"))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	testutil.Eventually(t, 20*time.Second, func() bool {
		reply, err := client.Get(page)
		if err != nil {
			return false
		}
		defer reply.Body.Close() //nolint:errcheck // it was read
		text, err := io.ReadAll(reply.Body)
		return err == nil && strings.Contains(string(text), "redlock_grants_total{")
	}, "the page shows grants")
	interrupt()
	require.NoError(t, <-done)
}

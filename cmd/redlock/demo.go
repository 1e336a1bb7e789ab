package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/quorumlock/redlock/cmd/redlock/internal/demo"
)

type demoCommand struct {
	Seconds int  `default:"10" help:"How long to run, at least 2."`
	JSON    bool `name:"json" help:"Print one JSON object on standard output, and the progress on standard error."`
	Redis   bool `help:"Start five redis-server processes in place of nodes in memory."`

	Report string `placeholder:"FILE" help:"Write a picture of the run to an HTML file."`
}

func (*demoCommand) Help() string {
	return `Eight workers of four clients contend for one lock on five nodes. Meanwhile nodes are killed, hang and restart, and
the network splits, but no client misses more than two nodes at a time.

Each worker that holds the lock passes a witness which counts those inside and remembers the last fencing token. The
exit code is 1 when two were ever inside together or a token was out of order.

Examples:

    redlock demo
    redlock demo --seconds 60 --redis --json
    redlock demo --report run.html`
}

// Run is called by kong.
func (c *demoCommand) Run(s streams) error {
	duration := time.Duration(c.Seconds) * time.Second
	if duration < demo.MinDuration {
		return usagef("--seconds must be at least %d", int(demo.MinDuration.Seconds()))
	}
	progress := s.out
	if c.JSON {
		progress = s.err
	}
	ctx, stop := untilSignal()
	defer stop()
	report, err := c.run(ctx, demo.Config{Duration: duration, Servers: c.Redis, View: viewFor(progress)})
	var usage *exitError
	switch {
	case errors.As(err, &usage):
		return err
	case err != nil && ctx.Err() != nil:
		return endedBy(ctx)
	case err != nil && report.Workers == 0:
		return exitf(exitUnavailable, "%s", strings.TrimPrefix(err.Error(), "testutil: "))
	case err != nil:
		return err
	}
	if err := c.print(s.out, report); err != nil {
		return err
	}
	switch {
	case !report.Safe() && (report.Grants > 0 || ctx.Err() == nil):
		return exitf(exitFailure, "%s", verdict(report))
	case ctx.Err() != nil:
		return endedBy(ctx)
	}
	return nil
}

func (c *demoCommand) run(ctx context.Context, config demo.Config) (demo.Report, error) {
	if c.Report == "" {
		return demo.Run(ctx, config)
	}
	// Before the run: a name that cannot be written must not cost all of it.
	page, err := os.Create(c.Report)
	if err != nil {
		return demo.Report{}, usagef("--report: %w", err)
	}
	config.Page = page
	report, err := demo.Run(ctx, config)
	return report, errors.Join(err, page.Close())
}

func (c *demoCommand) print(w io.Writer, report demo.Report) error {
	if c.JSON {
		return json.NewEncoder(w).Encode(report)
	}
	return report.Table(w)
}

func verdict(r demo.Report) string {
	if r.Grants == 0 {
		return "nobody got the lock: nothing was checked"
	}
	return fmt.Sprintf("the lock failed: %d overlaps, %d lost updates, tokens in order: %v", r.Overlaps, r.LostUpdates, r.TokensIncreasing)
}

func viewFor(f *os.File) demo.View {
	if !repaints(f) {
		return &demo.Lines{Out: f}
	}
	return &demo.Screen{Block: blockOn(f)}
}

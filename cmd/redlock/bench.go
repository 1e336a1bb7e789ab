package main

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/cmd/redlock/internal/latency"
)

type benchCommand struct {
	nodeFlags
	Count   int           `default:"200" help:"How many locks, unlocks and hand-overs, at most 100000."`
	Time    time.Duration `default:"10s" help:"How long to take at most, up to 10m."`
	Waiters int           `default:"3" help:"How many clients contend for the hand-overs, from 2 to 64."`
	Prefix  string        `default:"redlock-bench:" help:"What the name of the lock starts with, for access rules on keys. The rest is random."`
	JSON    bool          `name:"json" help:"Print a JSON object, times in microseconds."`
}

func (*benchCommand) Help() string {
	return `Locks and unlocks a name that nobody uses, one at a time, then has a few clients contend for it. A hand-over is the time
from the call of one holder's unlock to the return of the next one's lock. It is a light load: one request at a time to a node.

Exit codes: 0; 64 usage; 69 no quorum of nodes, also on the way: what was measured until then is printed.

Examples:

    redlock bench
    redlock bench --nodes-file /etc/redlock.nodes --count 1000 --time 30s
    redlock bench --json | jq .lock.p99_us`
}

// Run is called by kong.
func (c *benchCommand) Run(s streams) error {
	switch {
	case c.Count < 1 || c.Count > 100_000:
		return usagef("--count must be between 1 and 100000")
	case c.Time <= 0 || c.Time > 10*time.Minute:
		return usagef("--time must be above 0 and at most 10m")
	case c.Waiters < 2 || c.Waiters > 64:
		return usagef("--waiters must be between 2 and 64")
	}
	endpoints, err := c.endpoints(s)
	if err != nil {
		return err
	}
	ctx, stop := untilSignal()
	defer stop()
	result, err := latency.Measure(ctx, latency.Config{
		Count: c.Count, Time: c.Time, Waiters: c.Waiters, Name: c.Prefix + rand.Text(),
		Open: func() (*redlock.Redlock, func(), error) {
			service, err := openService(endpoints)
			if err != nil {
				return nil, nil, err
			}
			return service.Redlock, service.close, nil
		},
	})
	return cmp.Or(c.conclude(s, result, err), endedBy(ctx))
}

// conclude prints what was measured, also when the measurement broke off with err.
func (c *benchCommand) conclude(s streams, r *latency.Result, err error) error {
	if len(r.Lock) > 0 || err == nil {
		if err := c.print(s, r); err != nil {
			return err
		}
	}
	if err != nil {
		return exitf(exitUnavailable, "%s", plain(err))
	}
	if r.Failed > 0 {
		fmt.Fprintf(s.err, "redlock: %d calls failed, the first with: %s\n", r.Failed, escaped(withoutPasswords(plain(r.FirstError))))
	}
	return nil
}

func (c *benchCommand) print(s streams, r *latency.Result) error {
	parts := []struct {
		key, title string
		samples    []time.Duration
	}{{"lock", "lock", r.Lock}, {"unlock", "unlock", r.Unlock}, {"hand_over", "hand-over", r.HandOver}}
	if !c.JSON {
		for _, p := range parts {
			if err := latency.Histogram(s.out, p.title, p.samples); err != nil {
				return err
			}
		}
		return nil
	}
	out := map[string]any{"failed": r.Failed}
	for _, p := range parts {
		part := map[string]any{"samples": len(p.samples)}
		if len(p.samples) > 0 { // else they would be 0, which is a time
			part["p50_us"] = latency.Quantile(p.samples, 0.5).Microseconds()
			part["p99_us"] = latency.Quantile(p.samples, 0.99).Microseconds()
			part["max_us"] = latency.Quantile(p.samples, 1).Microseconds()
		}
		out[p.key] = part
	}
	return json.NewEncoder(s.out).Encode(out)
}

package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/quorumlock/redlock/internal/testutil"
)

const (
	handoverTarget = 0.8 // ms, mean
	flatTarget     = 1.3 // commands per grant, 128 waiters to 8
	fairWorkers    = 16
	fairTarget     = 1.5
	fairTotal      = 0.8
)

// Columns of handover and fairness.
const (
	colMean     = "mean"
	colP50      = "p50"
	colP99      = "p99"
	colCommands = "commands/grant"
	colRate     = "grants/s"
	colGaveUp   = "gave up"
	colGrants   = "grants"
	colLeast    = "least"
	colMost     = "most"
	colFactor   = "most/least"
)

func waitersGroup(n int) string {
	if n == 1 {
		return "1 waiter"
	}
	return fmt.Sprintf("%d waiters", n)
}

// handover is a lock that is wanted by many: how soon the next has it, and what
// that costs.
func handover(o *options) ([]*result, error) {
	r := &result{
		Name:  "handover",
		Title: fmt.Sprintf("Hand-over on %d nodes: from the begin of a release to the next grant", o.nodes),
		Note: fmt.Sprintf("Holds of %v, workers on %d clients over redigo. redislock tries every %v, rueidislock is told by the server. "+
			"Who waits for %v gives up.",
			holdTime, contenderClients, redislockPause, closeBound),
		Group: "crowd",
		Columns: []column{
			{Name: colMean, Unit: "ms", Digits: 2, Better: "lower"},
			{Name: colP50, Unit: "ms", Digits: 2, Better: "lower"},
			{Name: colP99, Unit: "ms", Digits: 2, Better: "lower"},
			{Name: colCommands, Better: "lower"},
			{Name: colRate, Better: "higher"},
			{Name: colGaveUp, Better: "lower"},
		},
		Charts: []string{colMean},
	}
	err := withCrowds(o, func(_ []*testutil.Server, all []crowd) error {
		for range o.runs {
			for _, waiters := range o.waiters {
				for _, c := range all {
					if o.stopped() {
						return errStopped
					}
					got, err := contend(o, c, waiters+1, o.duration, false)
					if err != nil {
						return fmt.Errorf("%s, %d waiters: %w", c.name, waiters, err)
					}
					w := r.row(waitersGroup(waiters), c.name)
					if len(got.gaps) > 0 { // else all gave up
						w.add(colMean, mean(got.gaps))
						w.add(colP50, quantile(got.gaps, 0.5))
						w.add(colP99, quantile(got.gaps, 0.99))
					}
					w.add(colGaveUp, got.gaveUp)
					w.add(colCommands, got.commands)
					w.add(colRate, got.rate)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, waiters := range o.waiters {
		if m := r.value(waitersGroup(waiters), nameRedlock, colMean); !math.IsNaN(m) {
			r.check(m <= handoverTarget, "%s: mean %.2f ms; target: at most %.1f", waitersGroup(waiters), m, handoverTarget)
		}
	}
	flat := r.value(waitersGroup(128), nameRedlock, colCommands) / r.value(waitersGroup(8), nameRedlock, colCommands)
	if !math.IsNaN(flat) {
		r.check(flat <= flatTarget, "commands per grant at 128 waiters are %.2f times those at 8; target: at most %.1f", flat, flatTarget)
	}
	return []*result{r}, nil
}

// fairness is a few workers that want the lock again and again.
func fairness(o *options) ([]*result, error) {
	r := &result{
		Name:  "fairness",
		Title: fmt.Sprintf("%d workers that lock, hold %v, unlock and want it again, for %v", fairWorkers, holdTime, o.fairFor),
		Note:  fmt.Sprintf("%d nodes, %d clients over redigo. Least and most are the grants of one worker.", o.nodes, contenderClients),
		Columns: []column{
			{Name: colGrants, Better: "higher"},
			{Name: colLeast},
			{Name: colMost},
			{Name: colFactor, Unit: "times", Digits: 1, Better: "lower"},
		},
		Charts: []string{colFactor},
	}
	err := withCrowds(o, func(_ []*testutil.Server, all []crowd) error {
		for range o.runs {
			for _, c := range all {
				if o.stopped() {
					return errStopped
				}
				got, err := contend(o, c, fairWorkers, o.fairFor, true)
				if err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
				least, most := slices.Min(got.grants), slices.Max(got.grants)
				w := r.row("", c.name)
				w.add(colGrants, float64(sum(got.grants)))
				w.add(colLeast, float64(least))
				w.add(colMost, float64(most))
				w.add(colFactor, float64(most)/float64(max(1, least)))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if f := r.value("", nameRedlock, colFactor); !math.IsNaN(f) {
		r.check(f <= fairTarget, "grants per worker within a factor of %.2f; target: at most %.1f", f, fairTarget)
	}
	share := median(ratios(r.runs("", nameRedlock, colGrants), r.runs("", nameRedsync, colGrants)))
	if !math.IsNaN(share) {
		r.check(share >= fairTotal, "%.2f times redsync's grants; target: at least %.1f", share, fairTotal)
	}
	return []*result{r}, nil
}

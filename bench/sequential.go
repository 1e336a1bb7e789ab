package main

import "fmt"

const maxAllocs = 60 // per pair, those of the client library included

// sequential is one goroutine that locks and unlocks one name.
func sequential(o *options) error {
	results, err := throughput(o, fmt.Sprintf("sequential: 1 goroutine, lock and unlock on %d nodes", o.nodes), 1)
	if err != nil {
		return err
	}
	atLeast(o, results, "redsync", 1.25)
	if ours := results["redlock"]; len(ours) > 0 {
		allocs := median(column(ours, func(s sample) float64 { return s.allocs }))
		target(o, allocs <= maxAllocs, "redlock allocates %.0f times a pair; target: at most %d", allocs, maxAllocs)
	}
	return nil
}

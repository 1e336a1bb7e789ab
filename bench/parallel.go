package main

import "fmt"

// parallel is many goroutines, each with a name of its own: nobody waits for a
// lock, so what counts is the work for each pair.
func parallel(o *options) error {
	results, err := throughput(o, fmt.Sprintf("parallel: %d goroutines on their own names, %d nodes", o.workers, o.nodes), o.workers)
	if err != nil {
		return err
	}
	atLeast(o, results, "bare", 0.92)
	atLeast(o, results, "redsync", 0.90)
	return nil
}

package main

import (
	"errors"
	"fmt"
	"math"
)

// Targets, of redlock over each client.
const (
	maxAllocs         = 60 // per pair, those of the client included
	sequentialRedsync = 1.2
	parallelRedsync   = 1.2 // of redsync's best, through rueidis
	parallelBare      = 0.92
)

// Columns of throughput.
const (
	colPairs     = "pairs/s"
	colOfRedsync = "of redsync"
	colOfBare    = "of bare"
	colAllocs    = "allocs/pair"
	colBytes     = "B/pair"
	colClient    = "client µs/pair"
	colServers   = "servers µs/pair"
	colDials     = "dials/1,000 pairs"
	colFailed    = "failed"
)

var throughputColumns = []column{
	{Name: colPairs, Unit: "pairs/s", Better: "higher"},
	{Name: colOfRedsync, Digits: 2, Better: "higher"},
	{Name: colOfBare, Digits: 2, Better: "higher"},
	{Name: colAllocs, Unit: "allocs", Better: "lower"},
	{Name: colBytes, Unit: "B", Better: "lower"},
	{Name: colClient, Unit: "µs", Better: "lower"},
	{Name: colServers, Unit: "µs", Better: "lower"},
	{Name: colDials, Digits: 1, Better: "lower"},
	{Name: colFailed, Better: "lower"},
}

// sequential is one goroutine that locks and unlocks one name.
func sequential(o *options) ([]*result, error) {
	r := &result{
		Name:   "sequential",
		Title:  fmt.Sprintf("One goroutine, lock and unlock on %d nodes", o.nodes),
		Charts: []string{colPairs, colAllocs},
	}
	if err := throughput(o, r, 1); err != nil {
		return nil, err
	}
	for _, c := range clients {
		peer := c.name
		if c.name == clientValkey {
			peer = clientRueidis
		}
		r.atLeast(c.name, peer, nameRedsync, sequentialRedsync)
	}
	for _, c := range clients {
		if n := r.value(c.name, nameRedlock, colAllocs); !math.IsNaN(n) {
			r.check(n <= maxAllocs, "over %s, %.0f allocations a pair; target: at most %d", c.name, n, maxAllocs)
		}
	}
	return []*result{r}, nil
}

// parallel is many goroutines, each with a name of its own: nobody waits for a
// lock, so what counts is the work for each pair.
func parallel(o *options) ([]*result, error) {
	r := &result{
		Name:   "parallel",
		Title:  fmt.Sprintf("%d goroutines on their own names, lock and unlock on %d nodes", o.workers, o.nodes),
		Charts: []string{colPairs},
	}
	if err := throughput(o, r, o.workers); err != nil {
		return nil, err
	}
	r.atLeast(clientRueidis, clientRueidis, nameBare, parallelBare)
	best := clientRedigo
	for _, c := range clients {
		if r.value(c.name, nameRedsync, colPairs) > r.value(best, nameRedsync, colPairs) {
			best = c.name
		}
	}
	r.atLeast(clientRueidis, best, nameRedsync, parallelRedsync)
	return []*result{r}, nil
}

// throughput compares the sides with a number of goroutines.
func throughput(o *options, r *result, workers int) (err error) {
	r.Group, r.Columns = "client", throughputColumns
	servers, stop, err := start(o.nodes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	sides, done, err := makeSides(o, addresses(servers))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	err = compare(o, servers, workers, sides, func(s side, got sample) {
		w := r.row(s.client, s.name)
		w.add(colPairs, got.pairsPerSecond)
		w.add(colAllocs, got.allocs)
		w.add(colBytes, got.bytes)
		w.add(colClient, got.client)
		w.add(colServers, got.servers)
		w.add(colDials, got.dials)
		w.add(colFailed, float64(got.failed))
	})
	for _, w := range r.Rows {
		w.Cells[colOfRedsync] = cell{Runs: ratios(w.Cells[colPairs].Runs, r.runs(w.Group, nameRedsync, colPairs))}
		w.Cells[colOfBare] = cell{Runs: ratios(w.Cells[colPairs].Runs, r.runs(w.Group, nameBare, colPairs))}
	}
	return err
}

// atLeast checks that redlock's pairs per second over one client are at least factor
// times those of another side.
func (r *result) atLeast(client, otherClient, other string, factor float64) {
	got := median(ratios(r.runs(client, nameRedlock, colPairs), r.runs(otherClient, other, colPairs)))
	if math.IsNaN(got) {
		return // not measured
	}
	r.check(got >= factor, "over %s, %.2f times %s over %s; target: at least %.2f", client, got, other, otherClient, factor)
}

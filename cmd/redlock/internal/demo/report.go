package demo

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Report is the result of a run. Fields may be added.
type Report struct {
	Grants           int64    `json:"grants"`
	Overlaps         int64    `json:"overlaps"`
	TokensIncreasing bool     `json:"tokens_increasing"`
	LostUpdates      int64    `json:"lost_updates"` // of a counter that only the lock protects
	Faults           int      `json:"faults"`
	LostLocks        int64    `json:"lost_locks"`   // could not be kept or released on a quorum
	FailedLocks      int64    `json:"failed_locks"` // attempts that ended without a quorum
	Waits            Waits    `json:"waits"`
	Seconds          float64  `json:"seconds"`
	Nodes            int      `json:"nodes"`
	Workers          int      `json:"workers"`
	Clients          []Client `json:"clients"`
	Violations       []string `json:"violations,omitempty"` // the first few, in words
}

// Waits are how long workers waited for the lock, in milliseconds.
type Waits struct {
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

// Client is one Redlock's share.
type Client struct {
	Grants      int64 `json:"grants"`
	FailedLocks int64 `json:"failed_locks"`
	LostLocks   int64 `json:"lost_locks"`
}

// Safe reports whether every check held. A run without a grant has checked nothing.
func (r Report) Safe() bool {
	return r.Grants > 0 && r.Overlaps == 0 && r.TokensIncreasing && r.LostUpdates == 0
}

func (r *run) report(elapsed time.Duration) Report {
	out := Report{
		Grants: r.tally.grants.Load(), FailedLocks: r.tally.failed.Load(), LostLocks: r.tally.lost.Load(),
		Overlaps: r.witness.overlaps.Load(), TokensIncreasing: r.witness.disorder.Load() == 0,
		LostUpdates: r.witness.lostUpdates(), Violations: r.witness.violations(),
		Faults: r.board.count(), Seconds: elapsed.Round(time.Millisecond).Seconds(),
		Nodes: nodeCount, Workers: clientCount * workersPerClient,
		Waits: Waits{milliseconds(r.waits.quantile(0.5)), milliseconds(r.waits.quantile(0.99)), milliseconds(r.waits.max())},
	}
	for _, c := range r.clients {
		out.Clients = append(out.Clients, Client{c.tally.grants.Load(), c.tally.failed.Load(), c.tally.lost.Load()})
	}
	return out
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}

// Table writes the report for people.
func (r Report) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, name+"\t"+format+"\n", args...) }
	row("grants", "%d in %.1f s, %d workers on %d nodes", r.Grants, r.Seconds, r.Workers, r.Nodes)
	row("waits", "p50 %.1f ms, p99 %.1f ms, longest %.1f ms", r.Waits.P50, r.Waits.P99, r.Waits.Max)
	row("faults", "%d", r.Faults)
	row("locks lost, locks failed", "%d, %d", r.LostLocks, r.FailedLocks)
	for i, c := range r.Clients {
		row(fmt.Sprintf("client %d", i+1), "%d grants", c.Grants)
	}
	row("overlaps", "%d", r.Overlaps)
	row("updates lost", "%d", r.LostUpdates)
	row("tokens in order", "%s", map[bool]string{true: "yes", false: "NO"}[r.TokensIncreasing])
	for _, v := range r.Violations {
		row("", "%s", v)
	}
	return t.Flush()
}

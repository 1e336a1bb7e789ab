// Package doctor looks for set-ups of nodes that make a lock unsafe, slow or
// unavailable, and says what mends them.
package doctor

import (
	"context"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/pool"
)

// Node is how to reach one node.
type Node struct {
	Addr     string
	TLS      bool
	Local    bool // nothing of it crosses a network
	Password bool
	User     string // "" is the default user
	Dial     func(context.Context) (redis.Conn, error)
	Pool     pool.Pool
}

// Config says what to examine, and what the locks will be like.
type Config struct {
	Nodes  []Node
	TTL    time.Duration // of the locks
	Guard  bool          // all clients use WithRestartGuard
	Prefix string        // of the names that the trials lock
}

// Verdict is what a finding amounts to.
type Verdict string

// Verdicts, from good to bad.
const (
	OK   Verdict = "ok"
	Warn Verdict = "warn"
	Bad  Verdict = "bad"
)

// Finding is the result of one check. Fields may be added.
type Finding struct {
	Node    string  `json:"node,omitempty"` // its address; "" for all together
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Text    string  `json:"text"`
	Means   string  `json:"means,omitempty"` // for a lock
	Mend    string  `json:"mend,omitempty"`  // of redis.conf, or in words
}

// Report is an examination. Fields may be added.
type Report struct {
	Verdict  Verdict   `json:"verdict"`
	Nodes    []Facts   `json:"nodes"`
	Findings []Finding `json:"findings"`
}

// Examine asks all nodes at once and takes a few node timeouts.
func Examine(ctx context.Context, c Config) *Report {
	facts := make([]Facts, len(c.Nodes))
	var all sync.WaitGroup
	for i, n := range c.Nodes {
		all.Go(func() {
			facts[i] = probe(ctx, n)
			if facts[i].canTry() {
				facts[i].Trial = c.try(ctx, n)
			}
		})
	}
	all.Wait()
	return c.judge(facts, c.tryQuorum(ctx))
}

// judge is the part without any input or output.
func (c Config) judge(facts []Facts, quorum quorumTrial) *Report {
	r := &Report{Verdict: OK, Nodes: facts}
	for i := range facts {
		r.Findings = append(r.Findings, c.judgeNode(c.Nodes[i], &facts[i])...)
	}
	r.Findings = append(r.Findings, c.judgeClocks(facts)...)
	r.Findings = append(r.Findings, c.judgeFleet(facts, quorum)...)
	for _, f := range r.Findings {
		if f.Verdict == Bad || r.Verdict == OK {
			r.Verdict = f.Verdict
		}
	}
	return r
}

// nodeTimeout is the library's for locks with this TTL.
func (c Config) nodeTimeout() time.Duration {
	floor := min(250*time.Millisecond, c.TTL/4)
	return min(max(c.TTL/20, floor), 2*time.Second)
}

package doctor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// goodFacts are of a node with nothing to find.
func goodFacts(addr string) Facts {
	return Facts{
		Addr: addr, Server: "redis", Version: "7.0.15", Role: "master", RunID: "run of " + addr, Uptime: 3600, AOF: true, Fsync: "always",
		Policy: "noeviction", Trip: 200, Trial: &Trial{},
	}
}

// What no server here can be made to say.
func TestRules(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Node, *Facts)
		want   map[string]Verdict
	}{
		"good":             {func(*Node, *Facts) {}, map[string]Verdict{}},
		"valkey":           {func(_ *Node, f *Facts) { f.Server, f.Version = "valkey", "8.1.0" }, map[string]Verdict{}},
		"old":              {func(_ *Node, f *Facts) { f.Version = "5.0.14" }, map[string]Verdict{"a version": Warn}},
		"cluster":          {func(_ *Node, f *Facts) { f.Cluster = true }, map[string]Verdict{"a role": Warn}},
		"policy, no limit": {func(_ *Node, f *Facts) { f.Policy = "volatile-ttl" }, map[string]Verdict{"a eviction": Warn}},
		"nearly full":      {func(_ *Node, f *Facts) { f.MaxMemory, f.Memory = 100, 95 }, map[string]Verdict{"a memory": Warn}},
		"far":              {func(_ *Node, f *Facts) { f.Trip = 500_000 }, map[string]Verdict{"a round trip": Warn}},
		"too far":          {func(_ *Node, f *Facts) { f.Trip = 1_600_000 }, map[string]Verdict{"a round trip": Bad}},
		"restarted":        {func(_ *Node, f *Facts) { f.Uptime, f.Fsync = 3, "no" }, map[string]Verdict{"a uptime": Warn, "a persistence": Warn}},
		"restarted, AOF":   {func(_ *Node, f *Facts) { f.Uptime = 3 }, map[string]Verdict{}},
		"a network":        {func(n *Node, _ *Facts) { n.Local = false }, map[string]Verdict{"a tls": Warn}},
		"TLS":              {func(n *Node, _ *Facts) { n.Local, n.TLS = false, true }, map[string]Verdict{}},
		"a slow clock":     {func(_ *Node, f *Facts) { f.Offset = -400_000 }, map[string]Verdict{"a clock": Warn}},
		"a wrong clock":    {func(_ *Node, f *Facts) { f.Offset = -2_600_000 }, map[string]Verdict{"a clock": Bad}},
	} {
		c := configFor(Node{Local: true}, Node{Local: true}, Node{Local: true})
		facts := []Facts{goodFacts("a"), goodFacts("b"), goodFacts("c")}
		test.change(&c.Nodes[0], &facts[0])
		r := c.judge(facts, quorumTrial{lock: time.Millisecond})
		assert.Equal(t, test.want, findings(r), name)
	}
}

func TestSlowQuorum(t *testing.T) {
	c := configFor()
	assert.Equal(t, Warn, c.judgeQuorum(nil, quorumTrial{lock: time.Second}).Verdict)
	assert.Equal(t, Bad, c.judgeQuorum(nil, quorumTrial{err: "none"}).Verdict)
}

func TestNodeCount(t *testing.T) {
	for n, want := range map[int]Verdict{1: Warn, 2: Warn, 3: OK, 4: Warn, 5: OK} {
		assert.Equal(t, want, judgeCount(n).Verdict, n)
	}
}

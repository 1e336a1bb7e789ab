package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// skewBound is the library's bound S on the clocks of nodes.
const skewBound = 5 * time.Second

// judgeClocks compares each clock with the median of all, as the library does. This
// machine's own clock does not matter.
func (c Config) judgeClocks(facts []Facts) []Finding {
	var offsets []int64
	for _, f := range facts {
		if f.Trip > 0 {
			offsets = append(offsets, f.Offset)
		}
	}
	if len(offsets) == 0 {
		return nil
	}
	slices.Sort(offsets)
	median := offsets[(len(offsets)-1)/2]
	var out []Finding
	for _, f := range facts {
		if f.Trip == 0 {
			continue
		}
		off := time.Duration(f.Offset-median) * time.Microsecond
		finding := Finding{Node: f.Addr, Check: "clock", Verdict: OK, Text: clockText(off)}
		if off.Abs() > skewBound/20 {
			finding.Verdict = Warn
			if off.Abs() > skewBound/2 {
				finding.Verdict = Bad
			}
			finding.Means = fmt.Sprintf("A node whose clock is more than %v ahead of most others, or more than %v behind, casts no vote, and while a clock is being set, keys on it live longer or shorter than they should.", skewBound/2, skewBound)
			finding.Mend = "Not in redis.conf: run chronyd or another NTP client on its machine, and have it slew rather than step."
		}
		out = append(out, finding)
	}
	return out
}

func clockText(off time.Duration) string {
	switch {
	case off.Abs() < time.Millisecond:
		return "within 1 ms of the other nodes'"
	case off < 0:
		return fmt.Sprintf("%v behind the other nodes'", -off.Round(time.Millisecond))
	}
	return fmt.Sprintf("%v ahead of the other nodes'", off.Round(time.Millisecond))
}

// judgeFleet is what only all nodes together show.
func (c Config) judgeFleet(facts []Facts, quorum quorumTrial) []Finding {
	return []Finding{judgeCount(len(facts)), judgeSame(facts), c.judgeQuorum(facts, quorum)}
}

func judgeCount(n int) Finding {
	out := Finding{Check: "nodes", Verdict: OK, Text: fmt.Sprintf("%d, %d may fail", n, (n-1)/2)}
	switch {
	case n == 1:
		out.Verdict = Warn
		out.Means = "A lock on one node ends with it."
		out.Mend = "Add nodes until there are three or five, on machines that do not fail together."
	case n%2 == 0:
		out.Verdict = Warn
		out.Means = fmt.Sprintf("%d nodes survive no more failures than %d, and there is one more to fail.", n, n-1)
		out.Mend = fmt.Sprintf("Add a node, or leave one out; all clients need the same %d.", n+1)
	}
	return out
}

func judgeSame(facts []Facts) Finding {
	byRun := map[string][]string{}
	for _, f := range facts {
		if f.RunID != "" {
			byRun[f.RunID] = append(byRun[f.RunID], f.Addr)
		}
	}
	out := Finding{Check: "independent", Verdict: OK, Text: "all nodes are different servers"}
	var same []string
	for _, f := range facts { // in their order, each group once
		if group := byRun[f.RunID]; len(group) > 1 && group[0] == f.Addr {
			same = append(same, strings.Join(group, " and ")+" are the same server")
		}
	}
	if len(same) > 0 {
		out.Verdict, out.Text = Bad, strings.Join(same, "; ")
		out.Means = "It votes more than once: its failure takes several votes away, and its restart can give a lock to a second holder."
		out.Mend = "Not in redis.conf: list each server once, in all clients."
	}
	return out
}

func (c Config) judgeQuorum(facts []Facts, t quorumTrial) Finding {
	if t.err != "" {
		return Finding{
			Check: "quorum", Verdict: Bad, Text: t.err,
			Means: "No lock is granted.", Mend: "Mend what is bad above, until a majority of the nodes is well.",
		}
	}
	out := Finding{
		Check: "quorum", Verdict: OK,
		Text: fmt.Sprintf("lock in %v, unlock in %v", t.lock.Round(10*time.Microsecond), t.unlock.Round(10*time.Microsecond)),
	}
	if limit := c.nodeTimeout(); t.lock > limit/2 {
		out.Verdict = Warn
		out.Means = fmt.Sprintf("Near the node timeout of %v: a little more, and locks fail.", limit)
		out.Mend = "Not in redis.conf: bring a majority of the nodes nearer, or lengthen --ttl."
	}
	return out
}

package model

import (
	"fmt"
	"strings"
)

// replay walks the path of fingerprints again and describes each step. The states on
// the way may be numbered otherwise than when they were found; here one numbering
// is kept throughout.
func (m *model) replay(s state, path []uint64) []string {
	var lines []string
	now := 0
	for _, print := range path {
		for _, st := range m.successors(&s) {
			if m.fingerprint(&st.next) != print {
				continue
			}
			if st.kind == actTick {
				now++
			}
			lines = append(lines, m.describe(&s, &st, now))
			s = st.next
			break
		}
	}
	return lines
}

var replies = map[uint8][]string{
	actAcquireRuns: {"granted", "busy", "stale", "quarantined"},
	actTouchRuns:   {"held", "restored", "topped up", "gone", "held by another"},
	actReleaseRuns: {"released", "missing", "held by another"},
	actBreakRuns:   {"broken", "missing", "held by another"},
}

// describe puts a step into words: what happens at which time, and where a node
// ran something, how it is left.
func (m *model) describe(before *state, st *step, now int) string {
	s := &st.next
	who := string(rune('A' + st.client))
	at := fmt.Sprintf("t=%d  ", now)
	send := fmt.Sprint(st.send + 1)
	c, old := &s.clients[st.client], &before.clients[st.client]
	switch st.kind {
	case actTick:
		return at + "-- time passes" + m.believed(s)
	case actPropose:
		return at + fmt.Sprintf("%s sends acquire %s to all nodes, ballot %d", who, send, now+int(c.p[st.send]))
	case actGiveUp:
		return at + fmt.Sprintf("%s gives up and sends releases, ballot %d", who, now+int(c.high))
	case actExtend:
		return at + fmt.Sprintf("%s sends touch %s to all nodes, ballot %d, valid until %d, for %d",
			who, send, now+int(c.q[st.send]), now+int(c.v[st.send]), c.d[st.send])
	case actRelease:
		return at + fmt.Sprintf("%s releases, ballot %d", who, now+int(old.high))
	case actBreak:
		return at + fmt.Sprintf("an operator sees %s at node %d and sends a break to all nodes", who, st.node)
	case actRestart:
		if m.Saves > 0 {
			return at + fmt.Sprintf("node %d restarts as it was when it saved", st.node) + m.left(&s.nodes[st.node], now)
		}
		return at + fmt.Sprintf("node %d restarts and has forgotten all", st.node)
	case actSave:
		return at + fmt.Sprintf("node %d saves its keys", st.node)
	}
	verb := map[uint8]string{
		actAcquireRuns: who + "'s acquire " + send,
		actTouchRuns:   who + "'s touch " + send,
		actReleaseRuns: who + "'s release",
		actBreakRuns:   "the break of " + who,
	}[st.kind]
	line := at + fmt.Sprintf("node %d runs %s: %s", st.node, verb, replies[st.kind][st.code-1])
	if st.lost {
		line += ", the reply is lost"
	}
	return line + m.left(&s.nodes[st.node], now) + won(old, c, who, now)
}

// left is the state a node is left in.
func (m *model) left(n *node, now int) string {
	var words []string
	if n.holder >= 0 {
		words = append(words, fmt.Sprintf("%c's key until %d", 'A'+n.holder, now+int(n.ttl)))
	}
	if n.known() {
		words = append(words, fmt.Sprintf("fence %d until %d", now+int(n.fence), now+int(n.life)))
	}
	if n.tomb > 0 {
		words = append(words, fmt.Sprintf("tombstone %d until %d", now+int(n.stone), now+int(n.tomb)))
	}
	if n.barred > 0 {
		words = append(words, fmt.Sprintf("quarantine until %d", now+int(n.barred)))
	}
	if len(words) == 0 {
		return ""
	}
	return " [" + strings.Join(words, ", ") + "]"
}

func won(old, c *client, who string, now int) string {
	if old.phase == trying && c.phase == held {
		return fmt.Sprintf(" => %s is granted, token %d", who, now+int(c.token()))
	}
	return ""
}

// believed tells who counts on what.
func (m *model) believed(s *state) string {
	var words []string
	for i := range s.clients {
		if s.clients[i].valid() {
			words = append(words, fmt.Sprintf("%c is valid for %d", 'A'+i, s.clients[i].validity()))
		}
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}

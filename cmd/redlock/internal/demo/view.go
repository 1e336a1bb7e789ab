package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/quorumlock/redlock/cmd/redlock/internal/paint"
)

// Lines is a view for files and pipes: each event in a line, and a line each second.
type Lines struct {
	Out  io.Writer
	next time.Duration
}

// Event implements View.
func (l *Lines) Event(at time.Duration, text string) {
	fmt.Fprintf(l.Out, "%6.2fs  %s\n", at.Seconds(), text)
}

// Progress implements View.
func (l *Lines) Progress(s Snapshot) {
	if s.Elapsed < l.next {
		return
	}
	l.next = s.Elapsed.Truncate(time.Second) + time.Second
	fmt.Fprintf(l.Out, "%6.2fs  %s\n", s.Elapsed.Seconds(), s.counters())
}

// Done implements View.
func (l *Lines) Done() {}

// Screen is a view for a terminal: a block that is painted again and again, with
// the latest events.
type Screen struct {
	paint.Block
	events []string
}

const shownEvents = 6

// Event implements View.
func (s *Screen) Event(at time.Duration, text string) {
	s.events = append(s.events, fmt.Sprintf("%6.2fs  %s", at.Seconds(), text))
	if extra := len(s.events) - shownEvents; extra > 0 {
		s.events = s.events[extra:]
	}
}

// Progress implements View.
func (s *Screen) Progress(now Snapshot) {
	holder := now.Holder
	if holder == "" {
		holder = "-"
	}
	split := ""
	if now.Split {
		split = "   (the network is split)"
	}
	lines := []string{
		fmt.Sprintf("%.1f of %.0f s%s", now.Elapsed.Seconds(), now.Duration.Seconds(), split),
		"nodes   " + nodeStates(now.Nodes),
		"holder  " + holder,
		now.counters(),
	}
	lines = append(lines, s.events...)
	s.Paint(lines)
}

// Done implements View.
func (s *Screen) Done() { fmt.Fprintln(s.Out) }

func (s Snapshot) counters() string {
	r := s.Report
	return fmt.Sprintf("grants %d   waits p50 %.1f ms p99 %.1f ms   faults %d   overlaps %d",
		r.Grants, r.Waits.P50, r.Waits.P99, r.Faults, r.Overlaps)
}

func nodeStates(states []string) string {
	parts := make([]string, len(states))
	for i, state := range states {
		parts[i] = fmt.Sprintf("%d:%-8s", i+1, state)
	}
	return strings.Join(parts, " ")
}

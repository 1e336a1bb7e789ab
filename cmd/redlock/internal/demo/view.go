package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
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
	Out    io.Writer
	Width  func() int // of the terminal, now; a line that wraps would spoil the block
	height int
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
	width := s.Width()
	var b strings.Builder
	if s.height > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.height) // up to the first line of the block
	}
	for _, line := range lines {
		b.WriteString("\x1b[2K" + cut(line, width) + "\n")
	}
	s.height = max(s.height, len(lines))
	if missing := s.height - len(lines); missing > 0 {
		b.WriteString(strings.Repeat("\x1b[2K\n", missing))
	}
	io.WriteString(s.Out, b.String()) //nolint:errcheck // a terminal that went away
}

func cut(line string, width int) string {
	if runes := []rune(line); width > 0 && len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return line
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

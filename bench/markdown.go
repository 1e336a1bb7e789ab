package main

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

const (
	markBegin = "<!-- figures: written by make bench -->"
	markEnd   = "<!-- end of figures -->"
)

// markdown is the whole report as tables.
func markdown(r *report) string {
	var b strings.Builder
	if r.Note != "" {
		fmt.Fprintf(&b, "**%s**\n\n", r.Note)
	}
	fmt.Fprintf(&b, "%s on loopback of the same machine (%s), nothing on disk. Medians of %d interleaved runs of %s for each side.\n\n",
		r.Server, r.Machine, r.Runs, r.Length)
	fmt.Fprintf(&b, "Compared: %s. Those marked \\* lock on one server, and do a fraction of the work.\n", strings.Join(r.Modules, ", "))
	for _, res := range r.Results {
		markdownResult(&b, res)
	}
	return b.String()
}

func markdownResult(b *strings.Builder, r *result) {
	fmt.Fprintf(b, "\n### %s: %s\n\n", r.Name, r.Title)
	if r.Note != "" {
		fmt.Fprintf(b, "%s\n\n", r.Note)
	}
	head, line := "|", "|"
	if r.Group != "" {
		head, line = head+" "+r.Group+" |", line+"---|"
	}
	head, line = head+" |", line+"---|"
	for _, c := range r.Columns {
		head, line = head+" "+c.title()+" |", line+"---:|"
	}
	fmt.Fprintf(b, "%s\n%s\n", head, line)
	last := ""
	for _, w := range r.Rows {
		b.WriteString("|")
		if r.Group != "" {
			group := w.Group
			if group == last {
				group = ""
			}
			last = w.Group
			fmt.Fprintf(b, " %s |", group)
		}
		fmt.Fprintf(b, " %s |", markdownSide(w))
		for _, c := range r.Columns {
			fmt.Fprintf(b, " %s |", format(c, w.Cells[c.Name]))
		}
		b.WriteString("\n")
	}
	for i, c := range r.Checks {
		if i == 0 {
			b.WriteString("\n")
		}
		word := "PASS"
		if !c.Met {
			word = "SHORT"
		}
		fmt.Fprintf(b, "- %s %s\n", word, c.Text)
	}
}

func markdownSide(w *row) string {
	switch {
	case w.Side == nameRedlock:
		return "**" + w.Side + "**"
	case w.OneServer:
		return w.Side + "\\*"
	}
	return w.Side
}

// format is a figure as it is shown, without its unit.
func format(c column, v cell) string {
	x := v.value()
	if math.IsNaN(x) {
		return "–"
	}
	text := strconv.FormatFloat(math.Abs(x), 'f', c.Digits, 64)
	whole, rest, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if c.Digits > 0 && !v.over() {
		whole += "." + rest
	}
	if x < 0 && strings.Trim(text, "0.") != "" {
		whole = "−" + whole
	}
	if v.over() {
		return "over " + whole
	}
	return whole
}

// rewrite puts text between the markers of a file. A file without markers is
// replaced, one that is not there is made.
func rewrite(path, text string) error {
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	before, rest, ok := strings.Cut(string(old), markBegin)
	if ok {
		_, after, ended := strings.Cut(rest, markEnd)
		if !ended {
			return fmt.Errorf("%s: there is no %q after %q", path, markEnd, markBegin)
		}
		text = before + markBegin + "\n\n" + text + "\n" + markEnd + after
	}
	return os.WriteFile(path, []byte(text), 0o644) // a page of the documentation
}

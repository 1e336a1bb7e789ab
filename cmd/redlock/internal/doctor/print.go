package doctor

import (
	"fmt"
	"io"
	"strings"
)

// Print writes a line for each verdict, and what it means and what mends it where it
// is not ok.
func (r *Report) Print(w io.Writer) error {
	width := len("all nodes")
	for _, f := range r.Findings {
		width = max(width, len(f.Node))
	}
	var b strings.Builder
	counts := map[Verdict]int{}
	for _, f := range r.Findings {
		counts[f.Verdict]++
		node := f.Node
		if node == "" {
			node = "all nodes"
		}
		fmt.Fprintf(&b, "%-4s  %-*s  %-11s  %s\n", f.Verdict, width, node, f.Check, f.Text)
		more(&b, "means", f.Means)
		more(&b, "mend", f.Mend)
	}
	if r.Verdict == OK {
		fmt.Fprintf(&b, "\nall clear: %d checks\n", len(r.Findings))
	} else {
		fmt.Fprintf(&b, "\n%d bad, %d to think about, %d ok\n", counts[Bad], counts[Warn], counts[OK])
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func more(b *strings.Builder, title, text string) {
	if text == "" {
		return
	}
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			title = ""
		}
		fmt.Fprintf(b, "      %-5s  %s\n", title, line)
	}
}

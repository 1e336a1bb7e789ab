// Package paint repaints a block of lines on a terminal.
package paint

import (
	"fmt"
	"io"
	"strings"
)

// Block is painted again and again at the same place.
type Block struct {
	Out    io.Writer
	Width  func() int // of the terminal, now; a line that wraps would spoil the block
	height int
}

// Paint puts lines in the place of those painted last.
func (b *Block) Paint(lines []string) {
	width := b.Width()
	var text strings.Builder
	if b.height > 0 {
		fmt.Fprintf(&text, "\x1b[%dA", b.height) // up to the first line of the block
	}
	for _, line := range lines {
		text.WriteString("\x1b[2K" + cut(line, width) + "\n")
	}
	b.height = max(b.height, len(lines))
	if missing := b.height - len(lines); missing > 0 {
		text.WriteString(strings.Repeat("\x1b[2K\n", missing))
	}
	io.WriteString(b.Out, text.String()) //nolint:errcheck // a terminal that went away
}

func cut(line string, width int) string {
	if runes := []rune(line); width > 0 && len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return line
}

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
	Height func() int // likewise, in lines; 0 or nil when it is not known
	height int        // of what was painted last
}

// unknownHeight is that of the smallest terminal in use.
const unknownHeight = 24

// Paint puts lines in the place of those painted last. What does not fit is counted in
// the last line: the cursor cannot move up to a line that has scrolled away.
func (b *Block) Paint(lines []string) {
	width, room := b.Width(), b.room()
	lines = fit(lines, room)
	b.height = min(b.height, room)
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

// room is how many lines fit: the cursor stands in the one below.
func (b *Block) room() int {
	height := 0
	if b.Height != nil {
		height = b.Height()
	}
	if height <= 0 {
		height = unknownHeight
	}
	return max(height-1, 1)
}

func fit(lines []string, room int) []string {
	if len(lines) <= room {
		return lines
	}
	shown := lines[: room-1 : room-1]
	return append(shown, fmt.Sprintf("… %d more lines", len(lines)-len(shown)))
}

func cut(line string, width int) string {
	if runes := []rune(line); width > 0 && len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return line
}

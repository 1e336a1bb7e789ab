package paint

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// screen is a terminal of some height that knows what Paint writes.
type screen struct {
	rows, row int
	lines     []string // those on it
	gone      []string // those that scrolled away
}

func (s *screen) Write(p []byte) (int, error) {
	for text := string(p); text != ""; {
		var up int
		if _, err := fmt.Sscanf(text, "\x1b[%dA", &up); err == nil {
			s.row = max(0, s.row-up)
			_, text, _ = strings.Cut(text, "A")
			continue
		}
		var line string
		line, text, _ = strings.Cut(text, "\n")
		s.lines[s.row] = strings.TrimPrefix(line, "\x1b[2K")
		if s.row++; s.row == s.rows {
			s.gone = append(s.gone, s.lines[0])
			s.lines = append(s.lines[1:], "")
			s.row--
		}
	}
	return len(p), nil
}

func lines(n int, word string) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("%s %d", word, i+1))
	}
	return out
}

func TestPaintFitsTheTerminal(t *testing.T) {
	for _, of := range []struct{ rows, known, lines int }{{5, 5, 3}, {5, 5, 4}, {5, 5, 5}, {5, 5, 40}, {24, 0, 40}, {2, 2, 3}} {
		s := &screen{rows: of.rows, lines: make([]string, of.rows)}
		b := &Block{Out: s, Width: func() int { return 80 }, Height: func() int { return of.known }}
		for _, word := range []string{"old", "new"} {
			b.Paint(lines(of.lines, word))
		}
		want := lines(of.lines, "new")
		if room := of.rows - 1; of.lines > room {
			want = append(want[:room-1], fmt.Sprintf("… %d more lines", of.lines-room+1))
		}
		assert.Empty(t, s.gone, of)
		assert.Equal(t, want, s.lines[:s.row], of)
	}
}

func TestPaintClearsWhatIsShorter(t *testing.T) {
	s := &screen{rows: 9, lines: make([]string, 9)}
	b := &Block{Out: s, Width: func() int { return 6 }}
	b.Paint(lines(4, "number"))
	b.Paint(lines(2, "n"))
	assert.Equal(t, []string{"n 1", "n 2", "", "", ""}, s.lines[:5])
	b.Paint(lines(1, "number"))
	assert.Equal(t, []string{"numbe…", "", "", ""}, s.lines[:4])
}

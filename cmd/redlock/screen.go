package main

import (
	"os"
	"runtime"

	"golang.org/x/term"

	"github.com/quorumlock/redlock/cmd/redlock/internal/paint"
)

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// repaints reports whether f understands the escape sequences of a repaint.
func repaints(f *os.File) bool {
	// Older Windows consoles print escape sequences as they are.
	return runtime.GOOS != "windows" && os.Getenv("TERM") != "dumb" && isTerminal(f)
}

func blockOn(f *os.File) paint.Block {
	return paint.Block{
		Out: f,
		Width: func() int {
			width, _, err := term.GetSize(int(f.Fd()))
			if err != nil {
				return 80
			}
			return width
		},
		Height: func() int {
			_, height, err := term.GetSize(int(f.Fd()))
			if err != nil {
				return 0
			}
			return height
		},
	}
}

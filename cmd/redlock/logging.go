package main

import (
	"io"
	"log/slog"
)

// redacted keeps passwords out of a log, whoever wrote the line.
type redacted struct{ w io.Writer }

func (r redacted) Write(p []byte) (int, error) {
	if _, err := io.WriteString(r.w, withoutPasswords(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// logger writes to w, or nowhere unless verbose.
func logger(w io.Writer, verbose bool) *slog.Logger {
	if !verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(redacted{w}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

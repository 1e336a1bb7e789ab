// Package history is what clients, the store and the nemesis wrote down during a run,
// and the verdict on it.
package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
)

// Kinds of events.
const (
	Invoke = "invoke" // a client calls
	Return = "return" // the call has returned, with its result
	Told   = "told"   // what a client was told of its grant, between calls
	Store  = "store"  // the fenced store has decided on a write
	Fault  = "fault"  // the nemesis did something
	Breach = "breach" // a client saw a promise broken itself
	Bye    = "bye"    // a client has ended in good order
)

// OK is the result of a call that did what it says.
const OK = "ok"

// What the store, and a client of its grant, is told.
const (
	Accepted, Refused = "accepted", "refused"
	Valid, Lost       = "valid", "lost"
)

// Event is one line of a history.
type Event struct {
	At     int64  `json:"t"`           // ns of the machine's monotonic clock
	Client int    `json:"c,omitempty"` // a process; one that is started again is another
	Call   int64  `json:"n,omitempty"` // of the client, the same in invoke and return
	Kind   string `json:"k"`
	Verb   string `json:"v,omitempty"` // lock, try, hold, do, extend, unlock, write
	Name   string `json:"name,omitempty"`
	Token  int64  `json:"token,omitempty"`
	Until  int64  `json:"until,omitempty"` // end of validity as the client is told, as At
	Result string `json:"r,omitempty"`
	Error  string `json:"err,omitempty"` // in full, for whoever reads the history
}

// Log writes events to a file, one line and one write each, so that a process that is
// killed leaves all it has logged. It may be used from several goroutines.
type Log struct {
	mu   sync.Mutex
	file io.WriteCloser // guarded by mu
	err  error          // guarded by mu
}

// Create opens a log, to add to what it may hold.
func Create(path string) (*Log, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &Log{file: f}, nil
}

// Add appends an event; an error is kept for Close.
func (l *Log) Add(e Event) {
	line, err := json.Marshal(e)
	if err == nil {
		line = append(line, '\n')
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		_, err = l.file.Write(line)
	}
	l.err = errors.Join(l.err, err)
}

// Close closes the file and returns the first thing that went wrong.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.err, l.file.Close())
}

// Read merges logs, in the order of time. The last line of a log may be torn.
func Read(paths ...string) ([]Event, error) {
	var all []Event
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(text) {
			if line[len(line)-1] != '\n' {
				break
			}
			var e Event
			if err := json.Unmarshal(line, &e); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b Event) int {
		switch {
		case a.At < b.At:
			return -1
		case a.At > b.At:
			return 1
		}
		return 0
	})
	return all, nil
}

// Save is the inverse of Read.
func Save(path string, events []Event) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buffered := bufio.NewWriter(f)
	lines := json.NewEncoder(buffered)
	for i := range events {
		if err := lines.Encode(events[i]); err != nil {
			return err
		}
	}
	return buffered.Flush()
}

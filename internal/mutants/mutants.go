// Package mutants is a table of changes to the code, each of which breaks a rule and is
// noticed by a test. The command in cmd/mutants makes them one at a time, in a copy of
// the repository. See docs/verification.md.
package mutants

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Mutant is one change.
type Mutant struct {
	Rule string // that is broken
	File string // from the root of the repository
	Old  string // occurs once
	New  string
	Dir  string // of the tests that notice, from the root; "" is the root
	Test string // their names, as for go test -run, in full and parted by |
}

// Apply makes the change in the repository at root and returns what undoes it.
func (m *Mutant) Apply(root string) (undo func() error, err error) {
	path := filepath.Join(root, filepath.FromSlash(m.File))
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(text), m.Old); n != 1 {
		return nil, fmt.Errorf("%s: %q occurs %d times, not once", m.File, m.Old, n)
	}
	changed := strings.Replace(string(text), m.Old, m.New, 1)
	undo = func() error { return os.WriteFile(path, text, 0o644) }
	return undo, os.WriteFile(path, []byte(changed), 0o644)
}

// Pattern is what go test -run takes.
func (m *Mutant) Pattern() string { return "^(" + m.Test + ")$" }

// Package is the directory of the tests, as go test takes it.
func (m *Mutant) Package() string { return "./" + m.Dir }

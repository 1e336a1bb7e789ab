package mutants

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../.."

// What a mutant changes, and the tests that are to notice, must still be there.
func TestTableFitsTheCode(t *testing.T) {
	rules := map[string]bool{}
	for _, m := range Table() {
		assert.False(t, rules[m.Rule], "twice: %s", m.Rule)
		rules[m.Rule] = true
		text, err := os.ReadFile(filepath.Join(root, m.File))
		require.NoError(t, err)
		assert.Equal(t, 1, strings.Count(string(text), m.Old), "%s: %q", m.File, m.Old)
		assert.NotEqual(t, m.Old, m.New)
		for _, name := range strings.Split(m.Test, "|") {
			assert.Contains(t, tests(t, m.Dir), name)
		}
	}
	assert.GreaterOrEqual(t, len(rules), 24)
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

func tests(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range testFunc.FindAllSubmatch(text, -1) {
			names = append(names, string(found[1]))
		}
	}
	return names
}

func TestApplyAndUndo(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.go")
	read := func() string {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(text)
	}
	require.NoError(t, os.WriteFile(path, []byte("one two two"), 0o600))
	m := Mutant{File: "a.go", Old: "one", New: "none"}
	undo, err := m.Apply(dir)
	require.NoError(t, err)
	assert.Equal(t, "none two two", read())
	require.NoError(t, undo())
	assert.Equal(t, "one two two", read())

	for _, old := range []string{"two", "three"} {
		m.Old = old
		_, err = m.Apply(dir)
		require.Error(t, err, "%q occurs not once", old)
	}
	assert.Equal(t, "one two two", read())
}

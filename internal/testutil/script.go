package testutil

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var include = regexp.MustCompile(`-- (\w+\.lua)\n`)

// ScriptSource is the text of a script in a directory as nodes get it: a line that is the
// name of a file stands for that file.
func ScriptSource(t testing.TB, dir, name string) string {
	t.Helper()
	read := func(file string) []byte {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	return string(include.ReplaceAllFunc(read(name+".lua"), func(line []byte) []byte {
		return read(string(include.FindSubmatch(line)[1]))
	}))
}

package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	declared = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`)
	named    = regexp.MustCompile(`[\w./-]+_test\.go\b|\b(?:Test|Fuzz|Benchmark)[A-Z]\w*`)
)

// testFiles maps each test function to the files that have one of that name.
func testFiles(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, file := range files(t) {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		require.NoError(t, err)
		for _, name := range matches(declared, string(text)) {
			all[name] = append(all[name], file)
		}
	}
	return all
}

// wrongTests are the tests that a page names and nobody has. One that is named after a
// file, on the same line, has to be in that file.
func wrongTests(p *page, tests map[string][]string) (wrong []string, found int) {
	for _, l := range p.text {
		file := ""
		for _, name := range named.FindAllString(l.text, -1) {
			if strings.HasSuffix(name, ".go") {
				file = name
				continue
			}
			found++
			switch in := tests[name]; {
			case len(in) == 0:
				wrong = append(wrong, fmt.Sprintf("%s:%d: there is no %s", p.name, l.number, name))
			case file != "" && !slices.Contains(in, file):
				wrong = append(wrong, fmt.Sprintf("%s:%d: %s is not in %s but in %s", p.name, l.number, name, file, strings.Join(in, ", ")))
			}
		}
	}
	return wrong, found
}

func TestNamedTestsExist(t *testing.T) {
	tests := testFiles(t)
	for _, name := range []string{"docs/guarantees.md", "docs/goroutines.md", "docs/verification.md"} {
		wrong, found := wrongTests(read(t, name), tests)
		for _, w := range wrong {
			t.Error(w)
		}
		require.Greater(t, found, 5, name)
	}
}

func TestWrongTestsAreFound(t *testing.T) {
	wrong, found := wrongTests(parse("a.md", strings.Join([]string{
		"`x_test.go`: `TestA`, `TestB`; `y_test.go`: `TestC`, `TestA`", "`TestD`, `FuzzB`, Testing, `TestGone`",
	}, "\n")), map[string][]string{
		"TestA": {"x_test.go"}, "TestB": {"x_test.go", "z_test.go"}, "TestC": {"y_test.go"}, "TestD": {"y_test.go"}, "FuzzB": {"y_test.go"},
	})
	require.Equal(t, []string{"a.md:1: TestA is not in y_test.go but in x_test.go", "a.md:2: there is no TestGone"}, wrong)
	require.Equal(t, 7, found)
}

// Every error, every reason for which a node does not count and every check of the doctor has
// a line for those who meet it.
func TestOperationsNameEveryErrorAndFinding(t *testing.T) {
	var code strings.Builder
	for _, p := range read(t, "docs/operations.md").code {
		fmt.Fprintf(&code, "[%s]", p.text)
	}
	var names []string
	for file, expression := range map[string]string{
		"errors.go": `(?m)^\t(Err[A-Z]\w+) +=|^\terr[A-Z]\w+ += errors.New\("([^"]+)"\)`,
		"cmd/redlock/internal/doctor/rules_node.go":  `Check: "([a-z ]+)"|f\.Addr, "([a-z]+)", Bad`,
		"cmd/redlock/internal/doctor/rules_fleet.go": `Check: "([a-z ]+)"`,
	} {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		require.NoError(t, err)
		before := len(names)
		for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(string(text), -1) {
			names = append(names, strings.Join(m[1:], ""))
		}
		require.Greater(t, len(names), before+2, file)
	}
	for _, name := range names {
		require.Contains(t, code.String(), "["+name+"]", "docs/operations.md says nothing of %s", name)
	}
}

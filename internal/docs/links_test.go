package docs

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var link = regexp.MustCompile(`\]\(([^()\s]+)\)`)

// deadLinks are the links of a page, within the repository, that lead nowhere.
func deadLinks(p *page, exists func(name string) bool, open func(name string) *page) []string {
	var dead []string
	for _, l := range p.prose {
		for _, m := range link.FindAllStringSubmatch(l.text, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, ":") { // another site
				continue
			}
			file := p.name
			if target != "" {
				file = path.Join(path.Dir(p.name), target)
			}
			switch {
			case !exists(file):
				dead = append(dead, fmt.Sprintf("%s:%d: %s is no file", p.name, l.number, m[1]))
			case anchor != "" && !slices.Contains(anchors(open(file)), anchor):
				dead = append(dead, fmt.Sprintf("%s:%d: %s has no heading for #%s", p.name, l.number, file, anchor))
			}
		}
	}
	return dead
}

var dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchors are what a renderer makes of the headings of a page.
func anchors(p *page) []string {
	var all []string
	for _, h := range p.headings {
		h = link.ReplaceAllString(h, "]")
		anchor := strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(h), ""), " ", "-")
		name := anchor
		for n := 1; slices.Contains(all, name); n++ {
			name = fmt.Sprintf("%s-%d", anchor, n)
		}
		all = append(all, name)
	}
	return all
}

// exists takes the case of letters seriously on every system.
func exists(name string) bool {
	at := root
	for _, part := range strings.Split(path.Clean(name), "/") {
		entries, err := os.ReadDir(at)
		if err != nil || !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == part }) {
			return false
		}
		at = filepath.Join(at, part)
	}
	return true
}

func TestLinks(t *testing.T) {
	for _, p := range pages(t) {
		for _, d := range deadLinks(p, exists, func(name string) *page { return read(t, name) }) {
			t.Error(d)
		}
	}
}

func TestDeadLinksAreFound(t *testing.T) {
	other := parse("docs/b.md", "# One: `two`\n## One two\n")
	p := parse("docs/a.md", strings.Join([]string{
		"# Here", "[a](b.md) [b](b.md#one-two) [c](b.md#one-two-1) [d](#here) [e](https://example.org/x#y) ![f](../x.svg)",
		"[g](c.md) [h](b.md#three) [i](#there) `[j](nowhere.md)`",
	}, "\n"))
	dead := deadLinks(p, func(name string) bool {
		return slices.Contains([]string{"docs/a.md", "docs/b.md", "x.svg"}, name)
	}, func(name string) *page { return map[string]*page{"docs/a.md": p, "docs/b.md": other}[name] })
	require.Equal(t, []string{
		"docs/a.md:3: c.md is no file",
		"docs/a.md:3: docs/b.md has no heading for #three",
		"docs/a.md:3: docs/a.md has no heading for #there",
	}, dead)
	require.True(t, exists("docs/adr"))
	require.False(t, exists("docs/ADR"))
}

// Commands that the pages tell people to type.
var (
	makes    = regexp.MustCompile(`(?:^|[;&|] *|\$ )\s*make +((?:[A-Z_]+=\S+ +)*)([a-z]+(?:-[a-z]+)*)`)
	redlocks = regexp.MustCompile(`(?:^|[;&|(] *|\$ |-- )\s*(?:/\S+/)?redlock +([a-z]+(?:-[a-z]+)*)`)
	runs     = regexp.MustCompile(`\bgo (?:run|test|build|vet)(?: +-\S+)* +(\./[\w./-]+)`)
	sources  = regexp.MustCompile(`[\w./-]*\w\.(?:go|lua)\b`)
)

func TestMakeTargets(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	targets := matches(regexp.MustCompile(`(?m)^([a-z]+):`), string(makefile))
	require.Contains(t, targets, "check")
	require.Equal(t, []string{"soak", "x", "y"}, matches(makes, "make soak", "    make x  # why", "$ make FOR=2m y", "pages make no targets"))
	require.Greater(t, everyMention(t, makes, targets, "make %s is no target"), 10)
}

func TestSubcommands(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "cmd/redlock/main.go"))
	require.NoError(t, err)
	commands := matches(regexp.MustCompile(`(?m)^\t([A-Z][a-z]+) +[a-z]+Command +.cmd:`), string(text))
	for i, c := range commands {
		commands[i] = strings.ToLower(c)
	}
	require.Contains(t, commands, "doctor")
	require.Equal(t, []string{"run", "x", "y"},
		matches(redlocks, "redlock run --name a", "    $ redlock x | head", "ExecStart=a -- /usr/bin/redlock y", "import redlock from"))
	require.Greater(t, everyMention(t, redlocks, commands, "redlock %s is no command"), 10)
}

// everyMention holds what an expression finds in code to what there is, and counts it.
func everyMention(t *testing.T, expression *regexp.Regexp, there []string, complaint string) (found int) {
	t.Helper()
	for _, p := range pages(t) {
		for _, l := range p.code {
			for _, name := range matches(expression, l.text) {
				found++
				if !slices.Contains(there, name) {
					t.Errorf("%s:%d: "+complaint, p.name, l.number, name)
				}
			}
		}
	}
	return found
}

// matches are the last groups of all matches.
func matches(expression *regexp.Regexp, texts ...string) []string {
	var all []string
	for _, text := range texts {
		for _, m := range expression.FindAllStringSubmatch(text, -1) {
			all = append(all, m[len(m)-1])
		}
	}
	return all
}

// Packages to run and source files that are named.
func TestSourcesExist(t *testing.T) {
	tree := files(t)
	found := 0
	for _, p := range pages(t) {
		for _, l := range p.code {
			for _, name := range matches(runs, l.text) {
				if found++; !exists(strings.TrimSuffix(name, "/...")) {
					t.Errorf("%s:%d: there is no package %s", p.name, l.number, name)
				}
			}
		}
		for _, l := range p.text {
			if strings.Contains(l.text, "](") { // a link, which is checked as such
				continue
			}
			for _, name := range sources.FindAllString(l.text, -1) {
				found++
				if !slices.ContainsFunc(tree, func(file string) bool { return file == name || strings.HasSuffix(file, "/"+name) }) {
					t.Errorf("%s:%d: there is no file %s", p.name, l.number, name)
				}
			}
		}
	}
	require.Greater(t, found, 30)
}

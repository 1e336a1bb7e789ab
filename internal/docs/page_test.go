// Package docs holds the pages of the repository to the code they speak of.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the repository, from here.
const root = "../.."

// page is a Markdown file, taken apart as far as the pages here need it.
type page struct {
	name     string // from the root
	text     []line // what is not a code block
	prose    []line // the same without its code spans
	code     []line // lines of code blocks, and code spans
	headings []string
}

type line struct {
	number int
	text   string
}

var (
	fence   = regexp.MustCompile("^ {0,3}(?:```|~~~)")
	span    = regexp.MustCompile("`[^`]+`")
	heading = regexp.MustCompile(`^#{1,6} +(.+?) *#*$`)
	item    = regexp.MustCompile(`^ *(?:[-*+]|\d+[.)]) `)
)

func parse(name, text string) *page {
	p := &page{name: name}
	fenced, listed, indented, blank := false, false, false, true
	for i, l := range strings.Split(text, "\n") {
		at := line{i + 1, l}
		// A line that is indented after a blank one begins a code block, but in a list.
		indented = strings.HasPrefix(l, "    ") && (indented || blank && !listed)
		switch empty := strings.TrimSpace(l) == ""; {
		case fence.MatchString(l):
			fenced = !fenced
		case fenced || indented:
			p.code = append(p.code, at)
		default:
			if m := heading.FindStringSubmatch(l); m != nil {
				p.headings = append(p.headings, m[1])
			}
			p.text = append(p.text, at)
			p.prose = append(p.prose, line{at.number, span.ReplaceAllString(l, "``")})
			for _, s := range span.FindAllString(l, -1) {
				p.code = append(p.code, line{at.number, strings.Trim(s, "`")})
			}
			listed = item.MatchString(l) || listed && (empty || !blank || strings.HasPrefix(l, " "))
			blank = empty
		}
	}
	return p
}

// pages are all Markdown files that somebody is meant to read.
func pages(t *testing.T) []*page {
	t.Helper()
	names := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}
	require.NoError(t, filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".md" {
			name, err := filepath.Rel(root, path)
			names = append(names, filepath.ToSlash(name))
			return err
		}
		return err
	}))
	all := make([]*page, 0, len(names))
	for _, name := range names {
		all = append(all, read(t, name))
	}
	require.Greater(t, len(all), 15, "the pages were not found")
	return all
}

func read(t *testing.T, name string) *page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	require.NoError(t, err)
	return parse(name, string(text))
}

// files are the paths of all files of the repository, from the root, but those of
// tools.
func files(t *testing.T) []string {
	t.Helper()
	var all []string
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && slices.Contains([]string{".git", ".cache", "testdata"}, d.Name()):
			return filepath.SkipDir
		case !d.IsDir():
			name, err := filepath.Rel(root, path)
			all = append(all, filepath.ToSlash(name))
			return err
		}
		return nil
	}))
	return all
}

func TestParse(t *testing.T) {
	p := parse("x.md", strings.Join([]string{
		"# A `b` c", "", "one `make x` two", "", "    make y", "", "    make z", "", "```sh", "make w", "```",
		"- item", "", "    still the item", "", "After it", "", "    make v",
	}, "\n"))
	require.Equal(t, []string{"A `b` c"}, p.headings)
	require.Equal(t, []line{{1, "b"}, {3, "make x"}, {5, "    make y"}, {7, "    make z"}, {10, "make w"}, {18, "    make v"}}, p.code)
	require.Contains(t, p.text, line{14, "    still the item"})
	require.Contains(t, p.prose, line{3, "one `` two"})
}

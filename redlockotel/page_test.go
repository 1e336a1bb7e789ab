package redlockotel

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page lists every instrument, attribute, outcome and span that the code names.
func TestPageListsAll(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "observability.md"))
	require.NoError(t, err)
	for file, names := range map[string]string{
		"metrics.go":  `"((?:redlock|error|exception)\.[a-z_.]+)"`,
		"outcome.go":  `outcome[A-Z]\w+ += "([a-z_]+)"`,
		"observer.go": `"(redlock\.[a-z]+)"`,
		"options.go":  `func (With[A-Za-z]+)\(`,
	} {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		found := regexp.MustCompile(names).FindAllSubmatch(source, -1)
		require.NotEmpty(t, found, file)
		for _, name := range found {
			require.Regexp(t, `\b`+regexp.QuoteMeta(string(name[1]))+`\b`, string(page), "%s of %s", name[1], file)
		}
	}
}

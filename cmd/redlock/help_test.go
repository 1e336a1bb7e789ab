package main

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whoever asks for help mostly wants a line to change.
func TestEveryCommandHasExamples(t *testing.T) {
	app, err := kong.New(&commands{})
	require.NoError(t, err)
	for _, c := range app.Model.Leaves(true) {
		_, examples, found := strings.Cut(c.Detail, "Examples:\n\n")
		assert.True(t, found, c.Name)
		assert.Contains(t, examples, "    redlock "+c.Name)
	}
}

package pooltest

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// clientModules are those whose users must not pay for one another.
var clientModules = []string{
	"github.com/gomodule/redigo", "github.com/redis/go-redis", "github.com/redis/rueidis", "github.com/valkey-io/valkey-go",
}

// OnlyClient demands that a program with the core and the adapter in the current
// directory compiles the one client, and nothing of the tests.
func OnlyClient(t *testing.T, client string) {
	list := exec.Command("go", "list", "-deps", ".", "github.com/quorumlock/redlock")
	var stderr strings.Builder
	list.Stderr = &stderr
	out, err := list.Output()
	require.NoError(t, err, stderr.String())
	require.Contains(t, string(out), client)
	for path := range strings.FieldsSeq(string(out)) {
		for _, other := range append(clientModules, "github.com/stretchr/testify", "testing") {
			require.False(t, other != client && (path == other || strings.HasPrefix(path, other+"/")), "compiles %s", path)
		}
	}
}

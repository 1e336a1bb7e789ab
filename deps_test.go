package redlock_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const modulePath = "github.com/quorumlock/redlock"

// imports lists the packages outside the standard library that pkg is built of,
// but for the repository's own.
func imports(t *testing.T, pkg string) []string {
	t.Helper()
	list := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", pkg)
	var stderr strings.Builder
	list.Stderr = &stderr
	out, err := list.Output()
	require.NoError(t, err, stderr.String())
	var foreign []string
	for _, path := range strings.Fields(string(out)) {
		if path != modulePath && !strings.HasPrefix(path, modulePath+"/") {
			foreign = append(foreign, path)
		}
	}
	return foreign
}

// A user of the core compiles no Redis client but the one behind the adapter
// that the user picked.
func TestCoreImportsNoRedisClient(t *testing.T) {
	allowed := map[string]bool{
		"github.com/hashicorp/errwrap":       true,
		"github.com/hashicorp/go-multierror": true,
	}
	for _, pkg := range []string{".", "./pool", "./redlocktest"} {
		for _, path := range imports(t, pkg) {
			require.True(t, allowed[path], "%s imports %s", pkg, path)
		}
	}
}

func TestRedigoAdapterImportsOnlyRedigo(t *testing.T) {
	require.Equal(t, []string{"github.com/gomodule/redigo/redis"}, imports(t, "./pool/redigo"))
}

// Anything more in go.mod is a cost for every user.
func TestCoreRequiresThreeModules(t *testing.T) {
	out, err := exec.Command("go", "mod", "edit", "-json", "go.mod").Output()
	require.NoError(t, err)
	var mod struct {
		Go      string
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	require.NoError(t, json.Unmarshal(out, &mod))
	require.Equal(t, "1.25.0", mod.Go)
	var direct []string
	for _, m := range mod.Require {
		if !m.Indirect {
			direct = append(direct, m.Path)
		}
	}
	require.ElementsMatch(t, []string{
		"github.com/gomodule/redigo",
		"github.com/hashicorp/go-multierror",
		"github.com/stretchr/testify",
	}, direct)
}

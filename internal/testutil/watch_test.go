//go:build unix

package testutil

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWatchReleased(t *testing.T) {
	sleeper := exec.Command("sleep", "60")
	require.NoError(t, sleeper.Start())
	release, err := watch(sleeper.Process.Pid)
	require.NoError(t, err)
	release()
	p := &process{cmd: sleeper, pid: sleeper.Process.Pid}
	require.NoError(t, pauseProcess(p), "it still runs")
	p.kill()
	require.Error(t, sleeper.Wait())
}

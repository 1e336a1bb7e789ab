//go:build unix && !linux

package testutil

import (
	"errors"
	"os/exec"
)

// startTied starts cmd under the eye of a shell that ends it with this process.
func startTied(cmd *exec.Cmd) (release func(), err error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	release, err = watch(cmd.Process.Pid)
	if err != nil {
		return nil, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	return release, nil
}

func paused(int) bool { return true }

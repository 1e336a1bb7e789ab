//go:build !unix

package testutil

import (
	"errors"
	"os/exec"
)

var errNoSignals = errors.New("testutil: this system cannot pause a process")

func startTied(cmd *exec.Cmd) (release func(), err error) { return func() {}, cmd.Start() }

func terminateProcess(p *process) { p.kill() }

func pauseProcess(*process) error { return errNoSignals }

func resumeProcess(*process) error { return errNoSignals }

package testutil

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// startTied starts cmd so that the kernel kills it when this thread ends, as it
// does when the whole process dies.
func startTied(cmd *exec.Cmd) (release func(), err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return func() {}, cmd.Start()
}

// paused reports whether the process has stopped; the signal alone only asks.
func paused(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The name before the state stands in parentheses and may hold spaces.
	i := bytes.LastIndexByte(stat, ')')
	return i >= 0 && i+2 < len(stat) && stat[i+2] == 'T'
}

//go:build unix

package testutil

import (
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

func terminateProcess(p *process) {
	// Errors mean that it has ended.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
}

func pauseProcess(p *process) error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if !Poll(time.Second, func() bool { return paused(p.pid) }) {
		return fmt.Errorf("testutil: pid %d runs on after SIGSTOP", p.pid)
	}
	return nil
}

func resumeProcess(p *process) error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// watch starts a shell that kills pid when this process ends without calling
// release: the kernel then closes the pipe that the shell reads from.
func watch(pid int) (release func(), err error) {
	sh := exec.Command("/bin/sh", "-c", `read -r line || kill -9 "$1"`, "sh", strconv.Itoa(pid))
	pipe, err := sh.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := sh.Start(); err != nil {
		return nil, err
	}
	return func() {
		_, _ = pipe.Write([]byte("released\n"))
		_ = sh.Wait()
	}, nil
}

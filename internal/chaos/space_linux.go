package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
)

// insideEnv tells a process that it has a network namespace of its own.
const insideEnv = "REDLOCK_CHAOS_INSIDE"

// enterNamespace runs this program again in a network namespace of its own, and returns
// its exit code. In there it makes the namespace ready. The error says what is missing.
func enterNamespace(seed uint64, args []string) (code int, entered bool, err error) {
	if os.Getenv(insideEnv) != "" {
		if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			return 0, false, fmt.Errorf("ip: %w: %s", err, out)
		}
		_, err := openFilter()
		return 0, false, err
	}
	if os.Geteuid() != 0 {
		return 0, false, errors.New("not root")
	}
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			return 0, false, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return 0, false, err
	}
	// The kernel ends the child with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	child := exec.Command(self, append(args, "-seed", strconv.FormatUint(seed, 10))...)
	child.Env = append(os.Environ(), insideEnv+"=1")
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := child.Start(); err != nil {
		return 0, false, fmt.Errorf("no namespace: %w", err)
	}
	if err := child.Wait(); err != nil && child.ProcessState == nil {
		return exitFailed, true, err
	}
	if code := child.ProcessState.ExitCode(); code >= 0 {
		return code, true, nil
	}
	return exitFailed, true, nil
}

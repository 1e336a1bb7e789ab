package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quorumlock/redlock/internal/testutil"
)

// openPTY returns the two ends of a new terminal.
func openPTY(t *testing.T) (keyboard, terminal *os.File) {
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = keyboard.Close() })
	fd := int(keyboard.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = terminal.Close() })
	return keyboard, terminal
}

func echoes(t *testing.T, terminal *os.File) bool {
	settings, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	require.NoError(t, err)
	return settings.Lflag&unix.ECHO != 0
}

// A terminal whose user has pressed Ctrl-C at the password shows what is typed next.
func TestPromptGivesTheEchoBack(t *testing.T) {
	for _, end := range []struct {
		send func(keyboard *os.File, p *os.Process) error
		code int
	}{
		{func(keyboard *os.File, _ *os.Process) error { _, err := keyboard.WriteString("\x03"); return err }, 130},
		{func(_ *os.File, p *os.Process) error { return p.Signal(syscall.SIGTERM) }, 143},
		{func(_ *os.File, p *os.Process) error { return p.Signal(syscall.SIGHUP) }, 129},
		{func(keyboard *os.File, _ *os.Process) error { _, err := keyboard.WriteString("\n"); return err }, exitUsage},
	} {
		keyboard, terminal := openPTY(t)
		require.True(t, echoes(t, terminal))
		cmd := exec.Command("redlock", "status", "--password-prompt", "--node", "redis://localhost:1", "job")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, io.Discard, io.Discard
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		require.NoError(t, cmd.Start())
		hidden := testutil.Poll(bound, func() bool { return !echoes(t, terminal) })
		assert.True(t, hidden, "the password is never asked for")
		require.NoError(t, end.send(keyboard, cmd.Process))
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Wait(), &exit)
		assert.Equal(t, end.code, exit.ExitCode(), exit)
		assert.True(t, echoes(t, terminal))
	}
}

// stopped waits for the process to stop, and reports whether it did.
func stopped(t *testing.T, pid int) bool {
	return testutil.Poll(bound, func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		require.NoError(t, err)
		_, state, _ := strings.Cut(string(text), ") ")
		require.NotEqual(t, "Z", state[:1], "it has ended")
		return state[:1] == "T"
	})
}

// Ctrl-Z while the lock is waited for, and after the command, stops the process; TERM
// and CONT still reach it.
func TestCtrlZ(t *testing.T) {
	servers := testutil.StartRedisN(t, 1)
	start := func(args ...string) (cmd *exec.Cmd, said func(string) bool) {
		log := t.TempDir() + "/log"
		file, err := os.Create(log)
		require.NoError(t, err)
		defer file.Close() //nolint:errcheck // the command has its own descriptor
		cmd = exec.Command("redlock", append([]string{"run", "--verbose", "--node", "redis://" + servers[0].Addr(), "--name", "job"}, args...)...)
		cmd.Stderr = file
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a job of this session, as a shell makes it
		require.NoError(t, cmd.Start())
		return cmd, func(words string) bool {
			return testutil.Poll(bound, func() bool {
				text, err := os.ReadFile(log)
				return err == nil && strings.Contains(string(text), words)
			})
		}
	}
	code := func(cmd *exec.Cmd) int {
		ended := make(chan struct{})
		time.AfterFunc(bound, func() {
			select {
			case <-ended:
			default:
				_ = cmd.Process.Kill()
			}
		})
		_ = cmd.Wait() // its code says it
		close(ended)
		return cmd.ProcessState.ExitCode()
	}
	holder, said := start("--hold-at-least", "1m", "--", "true")
	require.True(t, said("keeping the lock"))
	waiter, said := start("--", "true")
	require.True(t, said("waiting for the lock"))
	for _, cmd := range []*exec.Cmd{waiter, holder} {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTSTP))
		assert.True(t, stopped(t, cmd.Process.Pid))
		require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	}
	require.NoError(t, holder.Process.Signal(syscall.SIGTERM)) // ends --hold-at-least
	assert.Equal(t, 0, code(holder))
	assert.Equal(t, 0, code(waiter), "it goes on waiting, and gets the lock")
}

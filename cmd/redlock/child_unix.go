//go:build unix

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// relayed are the signals for the command, and one of job control that this process
// must answer on its behalf.
var relayed = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT,
}

// relayedOnly are taken over with the command, not before: Ctrl-Z stops a wait for
// the lock as it stops any process.
var relayedOnly = []os.Signal{syscall.SIGTSTP}

func endsWait(sig os.Signal) (number int, ends bool) {
	switch sig {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT:
		return int(sig.(syscall.Signal)), true
	}
	return 0, false
}

// child is the command, in a process group of its own so that a signal reaches
// all it has started, and each process once.
type child struct {
	pid      int // and that of its group
	terminal *terminal
	ended    chan int // its exit code, once
	stopped  chan syscall.Signal
	gone     chan struct{} // closed by close: nobody reads stopped any more
}

func startChild(cmd *exec.Cmd) (*child, error) {
	c := &child{
		terminal: openTerminal(),
		ended:    make(chan int, 1), stopped: make(chan syscall.Signal), gone: make(chan struct{}),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	tieToParent(cmd.SysProcAttr)
	c.terminal.lend(cmd.SysProcAttr)
	started := make(chan error)
	go c.run(cmd, started)
	if err := <-started; err != nil {
		c.terminal.close(0)
		return nil, err
	}
	return c, nil
}

// run starts the command and follows it to its end on one thread: Linux ties "end
// with the parent" to the thread that forked, so that thread must live as long.
func (c *child) run(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	c.pid = cmd.Process.Pid
	started <- nil
	for {
		var status syscall.WaitStatus
		// Not cmd.Wait, which does not tell of a command that was stopped.
		_, err := syscall.Wait4(c.pid, &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // cannot be: the child is ours to reap
			c.ended <- exitFailure
			return
		case status.Stopped():
			select {
			case c.stopped <- status.StopSignal():
			case <-c.gone:
			}
		case status.Signaled():
			c.ended <- exitSignal + int(status.Signal())
			return
		case status.Exited():
			c.ended <- status.ExitStatus()
			return
		}
	}
}

// signal reaches every process of the group. It fails only when there is none.
func (c *child) signal(sig syscall.Signal) { _ = syscall.Kill(-c.pid, sig) }

func (c *child) relay(sig os.Signal) {
	if sig == syscall.SIGCONT {
		c.terminal.give(c.pid) // the shell has made this job the foreground job
	}
	c.signal(sig.(syscall.Signal))
}

// suspend answers a command that was stopped. Without a terminal, and for STOP
// itself, that is somebody's wish for the command alone, and renewal goes on.
func (c *child) suspend(sig syscall.Signal) {
	if c.terminal == nil || sig == syscall.SIGSTOP {
		return
	}
	if (sig == syscall.SIGTTIN || sig == syscall.SIGTTOU) && c.terminal.give(c.pid) {
		c.signal(syscall.SIGCONT) // it wanted the terminal, and has it now
		return
	}
	// Ctrl-Z: stop the whole job, else the shell gives no prompt. The lock is not
	// renewed meanwhile; whether it was lost is seen on waking.
	lent := c.terminal.takeBack(c.pid)
	stopSelf(0)
	if lent {
		c.terminal.give(c.pid)
	}
	c.signal(syscall.SIGCONT)
}

// heedStop is Ctrl-Z after the command, when the signal is still taken over. The
// others of the job have had it, too.
func heedStop(sig os.Signal) {
	if sig == syscall.SIGTSTP {
		stopSelf(os.Getpid())
	}
}

// stopSelf stops this process, with pid 0 the whole job, and returns when it runs
// again. In a session without job control the kernel does not stop it.
func stopSelf(pid int) {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	// Not TSTP: once notified, Go never gives it its default action back.
	_ = syscall.Kill(pid, syscall.SIGTTIN)
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-continued:
	case <-timer.C:
	}
}

// end ends the whole group: TERM, and KILL for what is left after the grace. Ctrl-Z
// does not put that off: the command has no lock any more.
func (c *child) end(grace time.Duration) {
	c.signal(syscall.SIGTERM)
	c.signal(syscall.SIGCONT) // a stopped process acts on TERM only then
	deadline := time.NewTimer(grace)
	defer deadline.Stop()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for reaped, over := false, false; !over; {
		select {
		case <-c.ended:
			reaped = true
		case <-c.stopped: // stays so until KILL
		case <-look.C:
		case <-deadline.C:
			over = true
		}
		if reaped && syscall.Kill(-c.pid, 0) != nil {
			c.close()
			return
		}
	}
	c.signal(syscall.SIGKILL)
	c.close()
}

// close gives up the command and gets the terminal back.
func (c *child) close() {
	close(c.gone)
	c.terminal.close(c.pid)
}

//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the one that controls this process. Its keys signal the foreground
// process group only, and only that group may read from it. A nil terminal is
// none.
type terminal struct {
	file *os.File
	own  int // process group
}

func openTerminal() *terminal {
	file, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return &terminal{file: file, own: unix.Getpgrp()}
}

func (t *terminal) fd() int { return int(t.file.Fd()) }

func (t *terminal) foreground() int {
	group, err := unix.IoctlGetInt(t.fd(), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// lend makes a command that is about to start the foreground group, if this
// process is in it and is no part of a pipeline: the others in it need the
// terminal too. There the command gets it when it asks.
func (t *terminal) lend(attr *syscall.SysProcAttr) {
	if t == nil || t.foreground() != t.own || !term.IsTerminal(0) || !term.IsTerminal(1) {
		return
	}
	attr.Foreground, attr.Ctty = true, t.fd()
}

// give makes group the foreground group, if this process is in it now.
func (t *terminal) give(group int) bool {
	return t != nil && t.foreground() == t.own && t.set(group)
}

// takeBack is the reverse of give.
func (t *terminal) takeBack(group int) bool {
	return t != nil && t.foreground() == group && t.set(t.own)
}

func (t *terminal) set(group int) bool {
	// Else the kernel stops a background process that asks for this. Not before the
	// command was started: it inherits what is ignored.
	signal.Ignore(syscall.SIGTTOU)
	return unix.IoctlSetPointerInt(t.fd(), unix.TIOCSPGRP, group) == nil
}

func (t *terminal) close(group int) {
	if t == nil {
		return
	}
	t.takeBack(group)
	_ = t.file.Close() // nothing was written
}

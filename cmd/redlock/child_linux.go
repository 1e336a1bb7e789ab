package main

import "syscall"

// tieToParent has the kernel kill the command when this process dies without
// ending it: from then on nobody renews the lock. It does not reach what the
// command has started, nor a command that changes its user.
func tieToParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

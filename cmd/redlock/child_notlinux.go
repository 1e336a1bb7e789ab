//go:build unix && !linux

package main

import "syscall"

// tieToParent: this system has no such tie.
func tieToParent(*syscall.SysProcAttr) {}

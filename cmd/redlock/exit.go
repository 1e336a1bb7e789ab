package main

import "fmt"

// Exit codes. 64 and 69 are those of sysexits.h, 75 its EX_TEMPFAIL, 126 and 127
// those of shells; 79 is free there.
const (
	exitFailure       = 1
	exitUsage         = 64
	exitUnavailable   = 69 // no quorum of nodes
	exitBusy          = 75
	exitLost          = 79
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignal        = 128 // plus the signal's number
)

// exitError is an error with the exit code it asks for. A nil err prints nothing.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func exitf(code int, format string, args ...any) error {
	return &exitError{code, fmt.Errorf(format, args...)}
}

func usagef(format string, args ...any) error { return exitf(exitUsage, format, args...) }

// exitWith ends with a code and without a word.
func exitWith(code int) error {
	if code == 0 {
		return nil
	}
	return &exitError{code: code}
}

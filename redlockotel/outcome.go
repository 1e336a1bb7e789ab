package redlockotel

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/quorumlock/redlock"
)

// How a verb ended: the values of the attribute redlock.outcome.
const (
	outcomeOK       = "ok"
	outcomeTaken    = "taken"     // somebody else holds the lock
	outcomeTimeout  = "timeout"   // ctx's deadline came first
	outcomeCanceled = "canceled"  // ctx was cancelled
	outcomeNoQuorum = "no_quorum" // too few nodes answered
	outcomeExpired  = "expired"   // the grant had run out before
	outcomeNotHeld  = "not_held"
	outcomeClosed   = "closed"
	outcomeError    = "error"
)

// outcomes are in the order in which an error that matches several is named: a
// deadline that came while the lock was taken is a timeout.
var outcomes = []struct {
	err  error
	word string
}{
	{context.DeadlineExceeded, outcomeTimeout},
	{context.Canceled, outcomeCanceled},
	{redlock.ErrClosed, outcomeClosed},
	{redlock.ErrExpired, outcomeExpired},
	{redlock.ErrNotHeld, outcomeNotHeld},
	{redlock.ErrNoQuorum, outcomeNoQuorum},
	{redlock.ErrTaken, outcomeTaken},
}

func outcomeOf(err error) string {
	if err == nil {
		return outcomeOK
	}
	for _, o := range outcomes {
		if errors.Is(err, o.err) {
			return o.word
		}
	}
	return outcomeError
}

// errorType is the kind of a node's fault, from a small set: timeout, network, the
// code of a server's error reply (NOPERM, READONLY), or _OTHER.
func errorType(err error) string {
	var late interface{ Timeout() bool }
	var op *net.OpError
	var errno syscall.Errno
	switch {
	case errors.As(err, &late) && late.Timeout():
		return "timeout"
	case errors.As(err, &op) || errors.As(err, &errno):
		return "network"
	}
	for _, cut := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed} {
		if errors.Is(err, cut) { // before its text is taken for a code
			return "network"
		}
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if code, _, _ := strings.Cut(e.Error(), " "); isCode(code) {
			return code
		}
	}
	return "_OTHER"
}

// longestCode keeps a text that merely looks like a code from being one.
const longestCode = 16

// isCode reports whether a word starts a server's error reply: capitals, and no
// digits that might count something.
func isCode(word string) bool {
	return len(word) >= 3 && len(word) <= longestCode && strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"
)

// Errors are told apart with errors.Is. One error often matches several: a Lock
// that ran into its deadline while somebody held the lock matches ErrFailed,
// ErrTaken and context.DeadlineExceeded.
var (
	// ErrFailed matches every failed acquire: Lock, TryLock, Do, Hold.
	ErrFailed = errors.New("lock not acquired")
	// ErrExtendFailed matches every failed extend: Extend, ExtendFor.
	ErrExtendFailed = errors.New("lock not extended")
	// ErrTaken says that somebody else holds the lock; see TakenError.
	ErrTaken = errors.New("lock is taken")
	// ErrNoQuorum says that too few nodes could be asked, or answered too late;
	// see NodeError.
	ErrNoQuorum = errors.New("no quorum of nodes")
	// ErrExpired says that the grant ran out before it was released or extended.
	ErrExpired = errors.New("lock has expired")
	// ErrNotHeld says that there is nothing to unlock or extend.
	ErrNotHeld = errors.New("lock is not held")
	// ErrLost is the cause (context.Cause) of a held context that was cancelled
	// because the lock could not be kept.
	ErrLost = errors.New("lock was lost")
	// ErrInvalidOption says that an option or argument is wrong; see OptionError.
	ErrInvalidOption = errors.New("invalid option")
	// ErrClosed says that Close was called.
	ErrClosed = errors.New("redlock is closed")
)

// TakenError says what is in the way. It matches ErrTaken. Who it is says Inspect: the
// value begins with what the holder generated (WithGenValueFunc).
type TakenError struct {
	// Name of the lock.
	Name string
	// Nodes are the indexes, in the order given to New, of the nodes that
	// somebody else holds, of those that had answered when that was enough to know.
	Nodes []int
	// TTL is how long until a quorum of the nodes is free if no holder renews;
	// negative when a holder's key never expires.
	TTL time.Duration
	// Token is the fencing token of the holder that has the most nodes, the highest of
	// several; 0 for a holder that is not of this library.
	Token int64
}

func (e *TakenError) Error() string {
	if e.TTL < 0 {
		return fmt.Sprintf("lock %q is taken on %s by a key that never expires", e.Name, nodes(len(e.Nodes)))
	}
	return fmt.Sprintf("lock %q is taken on %s for up to %v", e.Name, nodes(len(e.Nodes)), e.TTL)
}

func nodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// Is reports whether target is ErrTaken.
func (e *TakenError) Is(target error) bool { return target == ErrTaken }

// NodeError is the fault of one node.
type NodeError struct {
	// Node is the index of the node in the order given to New.
	Node int
	// Addr is the node's address where the pool knows it; it holds no password.
	Addr string
	// Err is the cause.
	Err error
}

func (e *NodeError) Error() string {
	if e.Addr == "" {
		return fmt.Sprintf("node %d: %v", e.Node, e.Err)
	}
	return fmt.Sprintf("node %d (%s): %v", e.Node, e.Addr, e.Err)
}

func (e *NodeError) Unwrap() error { return e.Err }

// Permanent reports whether the fault needs somebody to mend it: a wrong
// password, a missing right, a read-only replica, a key of another type, a full
// node. A lock does not wait for those.
func (e *NodeError) Permanent() bool { return permanent(e.Err) }

// OptionError says which option, or argument of a method, is wrong. It matches
// ErrInvalidOption.
type OptionError struct {
	// Option is the name of the function: WithExpiry, ExtendFor, NewMutex, ….
	Option string
	// Value is what it was given.
	Value any
	// Why is a sentence without a subject, such as "must be at least 1ms".
	Why string
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("%v: %s(%v): %s", ErrInvalidOption, e.Option, e.Value, e.Why)
}

// Is reports whether target is ErrInvalidOption.
func (e *OptionError) Is(target error) bool { return target == ErrInvalidOption }

// Reasons for which a node does not count, beside what it replies itself.
var (
	errNodeClock = errors.New("clock is too far from the other nodes'")
	errNodeBusy  = errors.New("too many requests in flight")
	errTooSlow   = errors.New("the quorum answered after the validity had run out")
	errReply     = errors.New("unexpected reply")
)

// silenceError says that a node did not answer within the node timeout. It is not a
// context.DeadlineExceeded: nothing of the caller's has ended.
type silenceError struct{}

func (e *silenceError) Error() string { return "no answer within the node timeout" }

// Timeout makes it a net.Error's kin.
func (e *silenceError) Timeout() bool { return true }

// suspectError says that a node was not asked, because it has not answered of late.
type suspectError struct{ last error }

func (e *suspectError) Error() string {
	return fmt.Sprintf("does not answer; waiting for a probe (last: %v)", e.last)
}

func (e *suspectError) Unwrap() error { return e.last }

// quarantineError says that a restarted node must not vote yet.
type quarantineError struct{ left time.Duration }

func (e *quarantineError) Error() string {
	return fmt.Sprintf("restarted: takes no part for another %v", e.left)
}

// failure is what a verb returns: a sentence, and every error it matches.
type failure struct {
	verb, name string
	matches    []error
}

func (f *failure) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "redlock: %s %q", f.verb, f.name)
	for _, err := range f.matches {
		// The verb already says that it failed.
		if err != ErrFailed && err != ErrExtendFailed { //nolint:errorlint // they themselves, not what wraps them
			b.WriteString(": ")
			b.WriteString(err.Error())
		}
	}
	return b.String()
}

func (f *failure) Unwrap() []error { return f.matches }

func fail(verb, name string, matches ...error) error {
	kept := make([]error, 0, len(matches))
	for _, err := range matches {
		if err != nil {
			kept = append(kept, err)
		}
	}
	return &failure{verb: verb, name: name, matches: kept}
}

// faults joins node errors to one that errors.Is and errors.As look through; nil
// when there are none.
func faults(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return &multierror.Error{Errors: errs, ErrorFormat: faultList}
}

func faultList(errs []error) string {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// permanentCodes start the replies of a node that will not serve locks until
// somebody changes it (redis.io "RESP protocol", simple errors).
var permanentCodes = []string{
	"NOAUTH", "WRONGPASS", "NOPERM", "READONLY", "WRONGTYPE", "OOM", "MISCONF", "ERR unknown command",
	"ERR Protocol error: unauthenticated",
	"ERR AUTH", "ERR invalid password", "ERR Client sent AUTH", "ERR The user executing the script can't", "ERR ACL failure in script",
}

// spoke reports whether an error is the node's own reply, which starts with a code in
// capitals: whatever is wrong, the node is there.
func spoke(err error) bool {
	for e := err; e != nil; e = errors.Unwrap(e) {
		code, _, found := strings.Cut(e.Error(), " ")
		if strings.HasPrefix(code, "@user_script") || found && len(code) >= 3 && strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
			return true
		}
	}
	return false
}

// permanent reports whether the node refused, and will until somebody mends it.
func permanent(err error) bool {
	if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return false
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		text := e.Error()
		for _, code := range permanentCodes {
			if strings.HasPrefix(text, code) {
				return true
			}
		}
		// A server quotes the code of an error inside a script; before Redis 7 also of
		// what a script returns of a failed pcall.
		if strings.HasPrefix(text, "ERR Error running script") || strings.HasPrefix(text, "@user_script") {
			return strings.Contains(text, "WRONGTYPE") || strings.Contains(text, "OOM ") || strings.Contains(text, "NOPERM") ||
				strings.Contains(text, "can't run this command") || strings.Contains(text, "READONLY") || strings.Contains(text, "MISCONF ")
		}
	}
	return false
}

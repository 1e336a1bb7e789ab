// Package pool is the seam between redlock and a Redis client library.
//
// One Pool stands for one independent node: a server, a Sentinel set-up or a
// Cluster that fails as one. All semantics live in the Lua scripts and in the
// core; an adapter only moves a script call to its node and an array of
// integers back. The package pooltest holds every adapter to this contract.
package pool

import (
	"context"
	"crypto/sha1" // EVALSHA names scripts by SHA-1; nothing here is secret.
	"encoding/hex"
	"errors"
)

// A Script is a Lua script that replies with an array of integers.
type Script struct {
	name   string
	source string
	hash   string
}

// NewScript prepares a script. The name is used in errors and by in-memory
// nodes, which run a Go twin instead of the source.
func NewScript(name, source string) *Script {
	sum := sha1.Sum([]byte(source)) // see the import
	return &Script{name: name, source: source, hash: hex.EncodeToString(sum[:])}
}

// Name is the script's short name, such as "acquire".
func (s *Script) Name() string { return s.name }

// Source is the Lua text, for EVAL.
func (s *Script) Source() string { return s.source }

// Hash is the lower-case hexadecimal SHA-1 of the source, for EVALSHA.
func (s *Script) Hash() string { return s.hash }

// ErrNotSent may be wrapped by an adapter's error when it is sure that no part of the
// request has left: nothing needs to be undone then.
var ErrNotSent = errors.New("not sent")

// Pool runs scripts on one node.
//
// Eval runs s by its hash, and by its source where the node does not know the
// hash (SCRIPT FLUSH, a restart), and returns the integers of the reply. It
// must be safe for concurrent use, must not change keys or args, and must not
// keep them after it returned. Arguments are strings or integers.
//
// The deadline of ctx bounds the call: an adapter hands it to the wire (connect,
// write, read). Where a client cannot, the call may outlive ctx; redlock then
// counts the node as failed at the deadline and bounds how many such calls it
// leaves behind.
//
// Eval sends a script once. An adapter does not retry after it may have been
// sent: a duplicate is harmless to the protocol, but costs a round trip.
// An error that the server replied is returned with its text intact, starting
// with the code (NOAUTH, NOPERM, READONLY, OOM …): redlock tells faults that
// heal from faults that do not by that code.
type Pool interface {
	Eval(ctx context.Context, s *Script, keys []string, args ...any) ([]int64, error)
}

// Commander is an optional capability of a Pool whose client takes the words of a
// command as they are. It saves what Eval allocates to lay them out for each node.
//
// Command is Eval with the words after EVALSHA: the hash, the number of keys, the keys
// and the arguments. It must not change or keep them, for other nodes are sent the
// same words at the same time. The integers are appended to into.
type Commander interface {
	Command(ctx context.Context, s *Script, words []any, into []int64) ([]int64, error)
}

// Subscriber is an optional capability of a Pool: wake-up notices. Without it
// waiters are woken by timers alone.
//
// Subscribe listens on a channel, on a connection of its own that counts
// against no limit of the pool. It calls ready once the server has confirmed
// the subscription, then message for each payload, in order, and returns when
// ctx ends or the subscription is lost, always with a non-nil error. Both may be
// called on any goroutine, even a moment after that. A connection that is silently
// dead need not be noticed soon: notices are hints and redlock keeps a timer beside
// them.
type Subscriber interface {
	Subscribe(ctx context.Context, channel string, ready func(), message func(payload string)) error
}

// Addresser is an optional capability of a Pool: the address that errors and
// observers name, such as "10.0.0.1:6379". It must never contain a password.
type Addresser interface {
	Addr() string
}

// TextReader is an optional capability of a Pool that Inspect and Break need: a
// plain GET. found is false when the key does not exist.
type TextReader interface {
	Get(ctx context.Context, key string) (value string, found bool, err error)
}

// Package redlocktest is a lock service in memory: independent nodes with the
// faults that real ones have. Use it to test code that takes locks, without a
// server:
//
//	nodes := redlocktest.NewNodes(5)
//	locks, err := redlock.New(nodes.Pools())
//
// A Node runs the Go twin of each script the library sends, with the same
// replies, keys, expiry and wake-up notices as a Redis server; a differential
// test holds the twins to the Lua text on a real one.
//
// # Faults
//
// Each can be switched at any time, also while calls run:
//
//   - Hang and Resume: a stopped process. Requests wait, and are executed when
//     it goes on although their clients gave up.
//   - Down and Up: connection refused. Restart: a new process, with or without
//     its keys. FlushAll: the keys alone.
//   - SetDelay, DropRequests, DropReplies: the network. SetFaults decides for
//     each request apart, and can repeat it late.
//   - SetError, RefuseCommand, SetFull: error replies of servers with a password,
//     an access list, a read-only role or no memory left.
//   - SetClockOffset and SetClockRate: a clock that jumps or drifts.
//
// OnExec observes each execution. Keys, Value, TTL, Queue and Stats look at a
// node past its faults; Set and Del play a foreign client or an operator.
//
// # Virtual time
//
// Nodes work inside a testing/synctest bubble: a delay of seconds costs nothing.
// A node has no goroutine of its own. A delayed request is carried by a timer,
// one in a hung node by a list, so clients that gave up leave nothing behind.
package redlocktest

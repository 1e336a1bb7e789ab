// Package redlockotel shows locks in OpenTelemetry: a span for each call and each
// hold, with an event for each node's reply, and metrics for what an operator
// watches.
//
//	observer, err := redlockotel.New()
//	locks, err := redlock.New(pools, redlock.WithObserver(observer))
//
// # Spans
//
// A call of a verb is a span below the span in its ctx: redlock.lock,
// redlock.unlock, redlock.extend. Below redlock.lock lies a redlock.wait for each
// pause. Beside it lies redlock.hold, from the grant to the end of Unlock or to
// the loss; the renewals, extends and the unlock of the grant lie below the hold
// where their ctx has the span that the lock's had, or none. [Observer.Within]
// puts the user's own spans below it, too.
//
// A node's reply is an event of the verb's span. One that comes after the verb
// has returned, which the third of three nodes often does, is a span of its own
// below it: redlock.node.
//
// # Cardinality
//
// No attribute grows with the use of a program. The names of locks are left out
// unless [WithLockNames] or [WithSpanLockNames] asks for them. Errors of nodes
// are told by their kind, in events also by their text.
package redlockotel

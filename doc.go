// Package redlock is a lock across processes and data centres, over several
// independent Redis or Valkey nodes. It is held by whoever has a majority of the
// nodes, and works while a majority can be reached.
//
//	r, err := redlock.New(pools) // one pool for each node
//	…
//	m := r.NewMutex("invoices")
//	if err := m.LockContext(ctx); err != nil {
//		return err
//	}
//	defer m.Unlock()
//
// [Redlock.Do] and [Mutex.Hold] keep the lock by renewal for as long as the work
// takes, and end the work's context before the lock is lost.
//
// # What a lock is worth
//
// A lock with an expiry is a promise about time, and a process may be suspended
// past any promise. Therefore every grant carries a fencing token ([Mutex.Token],
// [TokenFromContext]): a later grant of the name has a higher one, whatever the
// clocks did. A resource that refuses tokens below the highest it has seen is
// safe even from a holder that woke up too late. Where a resource cannot do that,
// two holders are excluded as long as no more than a minority of nodes forgets
// its keys and clocks drift less than the drift factor.
//
// # What a caller has to do
//
//   - Give every node its own pool: nodes that share a server, or replicate each
//     other, are one node. Use three or five.
//   - Unlock what was locked, also after an error of your own. A Mutex whose grant
//     was not unlocked lets nobody else in, even past the expiry.
//   - Stop when the context of Do or Hold ends; without renewal, look at
//     [Mutex.Valid] or [Mutex.Until].
//   - Pass the token to the resource.
//   - Close the Redlock before the pools.
//
// # Errors
//
// Errors are branched on with errors.Is and errors.As: [ErrTaken] (*[TakenError]: on
// which nodes, for how long, with which token), [ErrNoQuorum] (*[NodeError]: which
// node, why), [ErrInvalidOption] (*[OptionError]: which, its value), [ErrExpired],
// [ErrNotHeld], [ErrLost], [ErrClosed], and those of the context.
//
// # How it works
//
// A call goes from [Mutex.LockContext] (mutex.go) to a request to all nodes at once
// (quorum.go), on each node to one script (node.go, scripts/), and through a
// [github.com/quorumlock/redlock/pool.Pool] to the wire. The protocol is Redlock
// with a ballot in each attempt, which a node grants only if it is higher than any
// it has seen for the name; docs/how-it-works.md has the rules and their reasons.
package redlock

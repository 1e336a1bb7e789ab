package redlocktest

import (
	"crypto/sha1" // only gives run ids their look
	"fmt"
	"maps"
	"slices"
	"time"
)

// A Call is one request as faults and observers see it.
type Call struct {
	Node string // the node's address
	// Name is the script's name, or "get", "subscribe" or "message" (a notice
	// on its way to a subscriber).
	Name string
	Keys []string // for subscribe and message: the channel
	Args []string // for message: the payload

	// Duplicate marks a copy made by Fault.Duplicates.
	Duplicate bool

	// The rest is set for OnExec alone.

	Sequence int64     // counts the executions of the node from 1
	Time     time.Time // by the node's clock
	Commands int       // Redis commands the script ran
	Reply    []int64
	Err      error
}

// A Fault is what happens to one request. The zero Fault is a healthy network.
type Fault struct {
	Delay       time.Duration // before the request arrives
	ReplyDelay  time.Duration // before the reply, or a notice, arrives
	DropRequest bool          // it never arrives; the client waits until its ctx ends
	DropReply   bool          // it is executed; the client waits until its ctx ends
	// Duplicates are further deliveries of the same request, each this long
	// after it was sent. Nobody sees their replies.
	Duplicates []time.Duration
	// Err is the node's reply in place of executing the request, each delivery of it.
	Err error
}

// and is both faults at once.
func (f Fault) and(g Fault) Fault {
	f.Delay += g.Delay
	f.ReplyDelay += g.ReplyDelay
	f.DropRequest = f.DropRequest || g.DropRequest
	f.DropReply = f.DropReply || g.DropReply
	f.Duplicates = append(slices.Clone(f.Duplicates), g.Duplicates...)
	if g.Err != nil {
		f.Err = g.Err
	}
	return f
}

// plan decides the fate of a request when it is sent.
func (n *Node) plan(call Call) Fault {
	n.mu.Lock()
	fault, hook := n.faults, n.hook
	n.mu.Unlock()
	if hook == nil {
		return fault
	}
	return fault.and(hook(call))
}

// injected is the error set in place of an execution. The lock is held.
func (n *Node) injected(r *request) error {
	if r.fault.Err != nil {
		return r.fault.Err
	}
	if err, found := n.errs[r.call.Name]; found {
		return err
	}
	if err, found := n.errs[""]; found {
		return err
	}
	return nil
}

// SetFaults lets f decide the fate of each request, and of each notice that is
// delivered (only its ReplyDelay and DropReply count then), on top of the other
// faults. f is called by the client's goroutine, maybe by several at once, and
// may use the node. nil ends it.
func (n *Node) SetFaults(f func(Call) Fault) { n.with(func() { n.hook = f }) }

// SetDelay makes each request take request to arrive and its reply (or a
// notice) reply to come back, from now on. 0 is the default.
func (n *Node) SetDelay(request, reply time.Duration) {
	n.with(func() { n.faults.Delay, n.faults.ReplyDelay = request, reply })
}

// DropRequests loses each request from now on, until it is called with false:
// clients wait until their ctx ends.
func (n *Node) DropRequests(on bool) { n.with(func() { n.faults.DropRequest = on }) }

// DropReplies executes each request from now on but loses the reply, and loses
// notices, until it is called with false.
func (n *Node) DropReplies(on bool) { n.with(func() { n.faults.DropReply = on }) }

// SetError makes the node reply text ("NOAUTH Authentication required.",
// "READONLY …") in place of executing requests of that name, or all requests
// when name is empty. An empty text ends it.
func (n *Node) SetError(name, text string) { n.with(func() { setText(n.errs, name, text) }) }

// RefuseCommand makes one Redis command (upper case: "PUBLISH", "INFO", "SET")
// fail with text inside scripts, as an access list does. An empty text ends it.
func (n *Node) RefuseCommand(command, text string) {
	n.with(func() { setText(n.refused, command, text) })
}

func setText(m map[string]ServerError, name, text string) {
	m[name] = ServerError(text)
	if text == "" {
		delete(m, name)
	}
}

// SetFull makes the node a server out of memory that evicts nothing: commands
// that need memory fail with OOM unless their script has written before.
func (n *Node) SetFull(on bool) { n.with(func() { n.full = on }) }

// SetClockOffset sets the node's clock to d ahead of (negative: behind) the
// process's: a jump. Keys live by the node's clock.
func (n *Node) SetClockOffset(d time.Duration) { n.with(func() { n.clock.setOffset(d) }) }

// SetClockRate makes the node's clock run at rate times the process's speed from
// now on. The default is 1.
func (n *Node) SetClockRate(rate float64) { n.with(func() { n.clock.setRate(rate) }) }

// SetUptime makes the node look like one that was started d ago.
func (n *Node) SetUptime(d time.Duration) {
	n.with(func() { n.started = n.clock.micro() - d.Microseconds() })
}

// OnExec calls f after each execution, before its reply is sent, by the
// goroutine that executed it; Call.Sequence tells the order. f may use the node.
// nil ends it.
func (n *Node) OnExec(f func(Call)) { n.with(func() { n.onExec = f }) }

// Hang stops the node like SIGSTOP: requests arrive and wait, keys go on ageing.
func (n *Node) Hang() { n.with(func() { n.hung = true }) }

// Resume ends Hang. All requests that arrived are executed in order before it
// returns, also those whose clients gave up, unless the node is hung again meanwhile.
func (n *Node) Resume() {
	n.mu.Lock()
	n.hung = false
	// Another Resume may be under way: whichever comes to it executes the next.
	for !n.hung && len(n.pending) > 0 {
		next := n.pending[0]
		n.pending = n.pending[1:]
		n.execute(next)
		n.mu.Lock()
	}
	n.mu.Unlock()
}

// Down makes the node unreachable at once: connections are reset, requests that
// wait in a hung node are lost, new ones are refused. Keys stay and age.
func (n *Node) Down() {
	n.mu.Lock()
	n.down = true
	n.cut()
	n.mu.Unlock()
}

// Up ends Down. The node is the same process as before: for one that was
// started anew use Restart.
func (n *Node) Up() { n.with(func() { n.down = false }) }

// Restart ends the node's process, hung or not, and starts it anew with its keys
// (as from an append-only file) or without: connections are reset, the run id
// changes and the uptime is 0. Requests still on their way arrive afterwards, as
// they may through a proxy.
func (n *Node) Restart(keepKeys bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut()
	if !keepKeys {
		n.keys = newStore()
	}
	n.down, n.hung = false, false
	n.boot(0)
}

// boot starts a process under a run id that is the same in each test run. The
// lock is held, or nobody knows the node yet.
func (n *Node) boot(uptime time.Duration) {
	n.incarnation++
	sum := sha1.Sum(fmt.Appendf(nil, "%s %d", n.addr, n.incarnation)) // see the import
	n.runID = fmt.Sprintf("%x", sum)
	n.started = n.clock.micro() - uptime.Microseconds()
}

// cut resets all connections. The lock is held.
func (n *Node) cut() {
	n.pending = nil
	for _, ticket := range slices.Sorted(maps.Keys(n.inflight)) {
		n.inflight[ticket].answer(reply{err: n.errReset()})
	}
	for _, channel := range slices.Sorted(maps.Keys(n.subs)) {
		for _, sub := range n.subs[channel] {
			close(sub.lost)
		}
	}
	clear(n.subs)
}

func (n *Node) with(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

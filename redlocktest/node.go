package redlocktest

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/quorumlock/redlock/pool"
)

// A ServerError is an error that a node replied, starting with its code.
type ServerError string

func (e ServerError) Error() string { return string(e) }

// A Node is one independent in-memory node. It implements pool.Pool,
// pool.Subscriber, pool.Addresser and pool.TextReader, and all its methods may
// be called at any time by any goroutine.
type Node struct {
	addr string

	mu          sync.Mutex // never held while waiting or calling out
	keys        store
	clock       clock
	incarnation int
	runID       string
	started     int64 // us of the node's clock
	subs        map[string][]*subscription

	down, hung, full bool

	pending  []*request         // arrived while hung; else a Resume is at them
	inflight map[int64]*request // a client waits
	sent     int64

	faults  Fault // for every request
	hook    func(Call) Fault
	onExec  func(Call)
	errs    map[string]ServerError // by request name; "": all
	refused map[string]ServerError // by Redis command

	executed map[string]int
	sequence int64
	commands int64
}

var (
	_ pool.Pool       = (*Node)(nil)
	_ pool.Subscriber = (*Node)(nil)
	_ pool.Addresser  = (*Node)(nil)
	_ pool.TextReader = (*Node)(nil)
)

// NewNode makes an empty, healthy node that errors and observers call addr. It
// looks like a server that has been up for a year: a restart guard trusts it.
func NewNode(addr string) *Node {
	n := &Node{
		addr:     addr,
		keys:     newStore(),
		clock:    newClock(),
		subs:     make(map[string][]*subscription),
		inflight: make(map[int64]*request),
		errs:     make(map[string]ServerError),
		refused:  make(map[string]ServerError),
		executed: make(map[string]int),
	}
	n.boot(365 * 24 * time.Hour)
	return n
}

// Nodes are the independent nodes of one lock service.
type Nodes []*Node

// NewNodes makes count nodes with the addresses node0, node1, ….
func NewNodes(count int) Nodes {
	nodes := make(Nodes, count)
	for i := range nodes {
		nodes[i] = NewNode("node" + strconv.Itoa(i))
	}
	return nodes
}

// Pools are the nodes as redlock.New takes them.
func (ns Nodes) Pools() []pool.Pool {
	pools := make([]pool.Pool, len(ns))
	for i, n := range ns {
		pools[i] = n
	}
	return pools
}

// Addr implements pool.Addresser.
func (n *Node) Addr() string { return n.addr }

// Eval implements pool.Pool: it runs the Go twin of the script that s names. A
// script without a twin is a ServerError. It returns at the end of ctx with
// ctx.Err() whatever happens to the request.
func (n *Node) Eval(ctx context.Context, s *pool.Script, keys []string, args ...any) ([]int64, error) {
	argv := make([]string, len(args))
	for i, arg := range args {
		text, err := argument(arg)
		if err != nil {
			return nil, fmt.Errorf("redlocktest: argument %d of %s: %w", i+1, s.Name(), err)
		}
		argv[i] = text
	}
	call := Call{Name: s.Name(), Keys: append([]string(nil), keys...), Args: argv}
	out := n.roundTrip(ctx, call, func(run *session) reply {
		twin, found := twins[call.Name]
		if !found {
			return reply{err: ServerError("ERR redlocktest has no twin of script " + strconv.Quote(call.Name))}
		}
		if len(call.Keys) < twin.keys || len(call.Args) < twin.args {
			return reply{err: ServerError("ERR too few keys or arguments for script " + call.Name)}
		}
		return reply{ints: twin.run(run, call.Keys, call.Args)}
	})
	return out.ints, out.err
}

func argument(arg any) (string, error) {
	switch v := arg.(type) {
	case string:
		return v, nil
	case int:
		return strconv.Itoa(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case int32, uint, uint32, uint64:
		return fmt.Sprint(v), nil
	}
	return "", fmt.Errorf("%T is neither a string nor an integer", arg)
}

// Get implements pool.TextReader. Faults apply to it under the name "get".
func (n *Node) Get(ctx context.Context, key string) (string, bool, error) {
	out := n.roundTrip(ctx, Call{Name: "get", Keys: []string{key}}, func(s *session) reply {
		text, found := s.get(key)
		return reply{text: text, found: found}
	})
	return out.text, out.found, out.err
}

type reply struct {
	ints  []int64
	text  string
	found bool
	err   error
}

type request struct {
	call  Call
	run   func(*session) reply // with the node's lock held
	fault Fault
	done  chan reply // room for the one answer that counts; nil: nobody asks
}

func (r *request) answer(out reply) {
	select {
	case r.done <- out:
	default:
	}
}

func (n *Node) errRefused() error {
	return fmt.Errorf("dial %s: %w", n.addr, syscall.ECONNREFUSED)
}

func (n *Node) errReset() error {
	return fmt.Errorf("read %s: %w", n.addr, syscall.ECONNRESET)
}

// roundTrip is a client's view of a request.
func (n *Node) roundTrip(ctx context.Context, call Call, run func(*session) reply) reply {
	if err := ctx.Err(); err != nil {
		return reply{err: err}
	}
	call.Node = n.addr
	r := &request{call: call, run: run, fault: n.plan(call), done: make(chan reply, 1)}
	n.mu.Lock()
	if n.down {
		n.mu.Unlock()
		return reply{err: n.errRefused()}
	}
	n.sent++
	ticket := n.sent
	n.inflight[ticket] = r
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		delete(n.inflight, ticket)
		n.mu.Unlock()
	}()

	n.send(r)
	select {
	case out := <-r.done:
		return out
	case <-ctx.Done():
		return reply{err: ctx.Err()}
	}
}

// send lets go of the request: whatever its client does, it arrives.
func (n *Node) send(r *request) {
	for _, after := range r.fault.Duplicates {
		again := &request{call: r.call, run: r.run, fault: Fault{Err: r.fault.Err}}
		again.call.Duplicate = true
		time.AfterFunc(after, func() { n.arrive(again) })
	}
	switch {
	case r.fault.DropRequest:
	case r.fault.Delay > 0:
		time.AfterFunc(r.fault.Delay, func() { n.arrive(r) })
	default:
		n.arrive(r)
	}
}

func (n *Node) arrive(r *request) {
	n.mu.Lock()
	switch {
	case n.down:
		n.mu.Unlock()
		r.answer(reply{err: n.errReset()})
	case n.hung || len(n.pending) > 0: // not before those that came first
		n.pending = append(n.pending, r)
		n.mu.Unlock()
	default:
		n.execute(r)
	}
}

// execute takes the lock over from its caller and gives it back.
func (n *Node) execute(r *request) {
	s := &session{node: n, now: n.clock.micro()}
	var out reply
	if err := n.injected(r); err != nil {
		out.err = err
	} else if err := protect(func() { out = r.run(s) }); err != nil {
		out = reply{err: err}
	}
	n.sequence++
	n.commands += int64(s.commands)
	n.executed[r.call.Name]++
	if n.sequence%1024 == 0 {
		n.keys.purge(s.ms())
	}
	call := r.call
	call.Sequence, call.Time, call.Commands = n.sequence, time.UnixMicro(s.now), s.commands
	call.Reply, call.Err = out.ints, out.err
	observe := n.onExec
	n.mu.Unlock()

	if observe != nil {
		observe(call)
	}
	switch {
	case r.fault.DropReply:
	case r.fault.ReplyDelay > 0:
		time.AfterFunc(r.fault.ReplyDelay, func() { r.answer(out) })
	default:
		r.answer(out)
	}
}

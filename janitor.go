package redlock

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// How long the janitor pauses between two looks at a node that did not answer.
const (
	janitorFirst = 50 * time.Millisecond
	janitorLast  = time.Second
)

// janitor delivers the releases, and the leaves of queues, that a node could not take
// at once. One goroutine runs while something is owed, and ends with the last debt:
// when the node has answered, or when the node would by itself refuse the request (S
// after its ballot) and drop the key (one expiry later).
type janitor struct {
	mu      sync.Mutex
	owed    map[string]*debt // guarded by mu; by name and identity
	running bool             // guarded by mu
	debts   int              // guarded by mu; counts them
}

type debt struct {
	call    call
	timeout time.Duration
	until   time.Time
	last    error
	number  int // the oldest first
}

// owe hands a release over to the janitor of n.
func (r *Redlock) owe(n *node, id string, d *debt) {
	j := &n.janitor
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.owed == nil {
		j.owed = map[string]*debt{}
	}
	j.debts++
	d.number = j.debts
	j.owed[id] = d
	if !j.running {
		j.running = true
		r.tasks.add(1)
		go r.settle(n)
	}
}

// settle is the janitor's goroutine.
func (r *Redlock) settle(n *node) {
	defer r.tasks.done()
	pause := janitorFirst
	for {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-r.patience.Done():
			timer.Stop()
			n.janitor.forget()
			return
		}
		switch r.sweep(n) {
		case sweptAll:
			return
		case sweptSome:
			pause = janitorFirst
		case sweptNone:
			pause = min(2*pause, janitorLast)
		}
	}
}

type swept uint8

const (
	sweptNone swept = iota
	sweptSome
	sweptAll
)

// sweep tries each debt until the node fails one, and drops those that are over.
func (r *Redlock) sweep(n *node) swept {
	j := &n.janitor
	j.mu.Lock()
	due := slices.SortedFunc(maps.Keys(j.owed), func(a, b string) int { return j.owed[a].number - j.owed[b].number })
	debts := make([]*debt, len(due))
	for i, id := range due {
		debts[i] = j.owed[id]
	}
	j.mu.Unlock()
	progress, silent := sweptNone, false
	for i, id := range due {
		d := debts[i]
		if !silent {
			a := r.deliver(n, d)
			if d.last = a.err; a.err == nil {
				progress = sweptSome
				j.settled(id, d)
				continue
			}
			silent = !a.answered()
		}
		if reached(time.Now(), d.until) {
			progress = sweptSome
			j.settled(id, d)
			d.call.eyes.fault(context.Background(), d.call.name, d.last)
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.owed) == 0 {
		j.running = false
		return sweptAll
	}
	return progress
}

// deliver sends what is owed, in a lane like any other request: a node that is
// slow must not be sent more for the sake of what it owes.
func (r *Redlock) deliver(n *node, d *debt) reply {
	got := make(chan reply, 1)
	r.background(context.Background(), n, d.timeout, errand{
		ask:  func(ctx context.Context, n *node) reply { return n.eval(ctx, &d.call) },
		then: func(_ *node, a reply) { got <- a },
	})
	return <-got
}

// settled takes a debt off the list, unless a newer one of the same identity has
// come meanwhile.
func (j *janitor) settled(id string, d *debt) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.owed[id] == d {
		delete(j.owed, id)
	}
}

func (j *janitor) forget() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.owed, j.running = nil, false
}

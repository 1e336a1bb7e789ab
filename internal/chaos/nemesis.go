//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/chaos/history"
)

// nemesis makes faults until its context ends, and has undone all when wait returns.
type nemesis struct {
	settings settings
	nodes    []*node
	network  *network
	members  *members
	budget   *budget
	log      *history.Log
	clock    *clock
	rng      *rand.Rand // of the loop alone
	found    func() (violated bool, err error)

	giveUp  context.CancelFunc // ends the run
	running sync.WaitGroup
	mu      sync.Mutex
	errs    []error // guarded by mu
	away    int     // guarded by mu; clients that are paused
	reborn  int     // guarded by mu; nodes that are restarted, until their quarantine is over
}

// fault is one kind of fault. It takes what it needs from the budget, and draws what it
// needs from the generator, before it returns what is to be done; nil where the budget
// does not allow it now.
type fault struct {
	name   string
	weight int
	plan   func(*nemesis) func(ctx context.Context) error
}

var faults = []fault{
	{"node suspended", 8, (*nemesis).suspendNode},
	{"node killed, back with its keys", 4, (*nemesis).restartNode},
	{"node killed, back without its keys", 3, (*nemesis).emptyNode},
	{"bare majority, then a node of it forgets", 20, (*nemesis).bareMajority},
	{"node cut off", 10, (*nemesis).cutNode},
	{"link cut", 14, (*nemesis).cutLink},
	{"link slow", 10, (*nemesis).slowLink},
	{"link reorders", 8, (*nemesis).reorderLink},
	{"link half open", 4, (*nemesis).halfOpenLink},
	{"clock jitters", 6, (*nemesis).nudgeClock},
	{"clock runs off", 5, (*nemesis).driftClock},
	{"clock far ahead or behind", 3, (*nemesis).stepClock},
	{"client suspended", 12, (*nemesis).suspendClient},
	{"client killed", 5, (*nemesis).killClient},
}

// run makes faults, for as long as ctx lives.
func (n *nemesis) run(ctx context.Context) {
	if n.settings.restartMajority {
		n.breakRules(ctx)
		return
	}
	total := 0
	for _, f := range faults {
		total += f.weight
	}
	for pause(ctx, n.settings.pace/4+time.Duration(n.rng.Int64N(int64(n.settings.pace)))) {
		pick := n.rng.IntN(total)
		for _, f := range faults {
			if pick -= f.weight; pick < 0 {
				n.start(ctx, f.name, f.plan(n))
				break
			}
		}
	}
}

// breakRules has a majority forget, again and again, until that has shown.
func (n *nemesis) breakRules(ctx context.Context) {
	for pause(ctx, n.settings.expiry/2) { // in which locks are taken
		n.start(ctx, "majority restarted without its keys", n.forgetMajority())
		n.running.Wait()
		pause(ctx, n.settings.expiry/3) // in which others take them
		if violated, err := n.found(); violated || err != nil {
			n.failed(err)
			return
		}
	}
}

func (n *nemesis) start(ctx context.Context, name string, do func(context.Context) error) {
	if do == nil {
		return
	}
	n.log.Add(history.Event{At: n.clock.now(), Kind: history.Fault, Verb: name})
	n.running.Go(func() { n.failed(do(ctx)) })
}

// failed keeps an error, if it is one, for wait.
func (n *nemesis) failed(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		n.errs = append(n.errs, err)
		n.giveUp()
	}
}

// wait returns when all faults are undone.
func (n *nemesis) wait() error {
	n.running.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	return errors.Join(n.errs...)
}

// note logs a detail for whoever reads the history.
func (n *nemesis) note(node int, what string) {
	n.log.Add(history.Event{At: n.clock.now(), Kind: "note", Result: fmt.Sprintf("node %d: %s", node, what)})
}

func (n *nemesis) noteLink(place, node int, what string) {
	n.log.Add(history.Event{At: n.clock.now(), Kind: "note", Result: fmt.Sprintf("place %d to node %d: %s", place, node, what)})
}

func (n *nemesis) noteClient(id int, what string) {
	n.log.Add(history.Event{At: n.clock.now(), Kind: "note", Result: fmt.Sprintf("client %d: %s", id, what)})
}

// pause reports false when ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// between draws a time; short ones are more likely.
func (n *nemesis) between(least, most time.Duration) time.Duration {
	f := n.rng.Float64()
	return least + time.Duration(f*f*float64(most-least))
}

// aNode draws a node and claims it.
func (n *nemesis) aNode() (int, bool) {
	i := n.rng.IntN(len(n.nodes))
	return i, n.budget.claimNode(i)
}

// aLink draws a link that matches, and claims it.
func (n *nemesis) aLink(matches func(client int) bool) (client, node int, ok bool) {
	client, node = n.rng.IntN(len(n.network.links)), n.rng.IntN(len(n.nodes))
	return client, node, matches(client) && n.budget.claimLink(client, node)
}

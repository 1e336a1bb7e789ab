//go:build unix

package main

import (
	"context"
	"errors"
	"time"
)

// guardSlack is added to a quarantine: uptime is in whole seconds, and a name's
// quarantine begins with the first request for it.
const guardSlack = 2 * time.Second

func (n *nemesis) suspendNode() func(context.Context) error {
	i, ok := n.aNode()
	length := n.between(50*time.Millisecond, 3*n.settings.expiry)
	if !ok {
		return nil
	}
	return func(ctx context.Context) error {
		defer n.budget.releaseNode(i)
		n.note(i, "suspended")
		if err := n.nodes[i].server.Pause(); err != nil {
			return err
		}
		pause(ctx, length)
		n.note(i, "resumed")
		return n.nodes[i].server.Resume()
	}
}

// aRestart draws a node to restart. Seldom is that another than one at a time: else all
// that may be faulty would be in quarantine for most of a run.
func (n *nemesis) aRestart() (i int, ok bool) {
	second := n.rng.IntN(8) == 0
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reborn > 0 && !second {
		return 0, false
	}
	if i, ok = n.aNode(); ok {
		n.reborn++
	}
	return i, ok
}

// restarted gives the node back once its quarantine is over.
func (n *nemesis) restarted(ctx context.Context, i int) {
	if n.settings.guard > 0 {
		pause(ctx, n.settings.guard+guardSlack)
	}
	n.budget.releaseNode(i)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reborn--
}

// restartNode crashes a node and brings it back with its keys.
func (n *nemesis) restartNode() func(context.Context) error {
	i, ok := n.aRestart()
	down := n.between(0, n.settings.expiry)
	if !ok {
		return nil
	}
	return func(ctx context.Context) error {
		defer n.restarted(ctx, i)
		n.note(i, "killed")
		if err := insist(n.nodes[i].server.Kill); err != nil {
			return err
		}
		pause(ctx, down)
		err := insist(n.nodes[i].server.Restart)
		n.note(i, "back with its keys")
		return err
	}
}

// emptyNode crashes a node and brings it back without its keys: at once under the guard,
// else when all it forgot is over.
func (n *nemesis) emptyNode() func(context.Context) error {
	i, ok := n.aRestart()
	if !ok {
		return nil
	}
	return func(ctx context.Context) error {
		defer n.restarted(ctx, i)
		n.note(i, "killed")
		if err := insist(n.nodes[i].server.Kill); err != nil {
			return err
		}
		if n.settings.guard == 0 {
			// Also when the run ends: its clients are still there.
			pause(context.WithoutCancel(ctx), max(n.settings.longest(), leastDown))
		}
		err := insist(n.nodes[i].server.RestartEmpty)
		n.note(i, "back without its keys")
		return err
	}
}

// bareMajority cuts half of the clients off from all nodes but a majority, and when they have taken
// locks there, heals that and has a node of the majority forget: it and those that never
// had the locks are then enough for a second holder, if the guard lets them.
func (n *nemesis) bareMajority() func(context.Context) error {
	places := n.rng.Perm(len(n.network.links))[:(len(n.network.links)+1)/2]
	order := n.rng.Perm(len(n.nodes))
	kind, length := n.aCut(), n.between(n.settings.expiry/2, n.settings.expiry)
	if n.settings.guard == 0 {
		return nil
	}
	without, forgets := order[:n.budget.minority], order[n.budget.minority]
	release, ok := n.budget.claimLinks(places, without)
	if !ok {
		return nil
	}
	return func(ctx context.Context) error {
		var links []*link
		for _, place := range places {
			for _, i := range without {
				n.noteLink(place, i, kind.String())
				links = append(links, n.network.links[place][i])
			}
		}
		err := n.network.cut(links, kind, 1)
		pause(ctx, length)
		err = errors.Join(err, n.network.cut(links, kind, -1))
		release()
		n.note(forgets, "may forget now: the links are healed")
		if err != nil || !n.budget.claimNode(forgets) {
			return err
		}
		n.mu.Lock()
		n.reborn++
		n.mu.Unlock()
		defer n.restarted(ctx, forgets)
		err = insist(n.nodes[forgets].server.RestartEmpty)
		n.note(forgets, "back without its keys")
		return err
	}
}

// leastDown is how long a node that has lost its fences stays away: until no request
// may arrive that one of them would have refused.
const leastDown = 10*time.Second + time.Millisecond

// forgetMajority breaks the rules: a majority forgets at once.
func (n *nemesis) forgetMajority() func(context.Context) error {
	order := n.rng.Perm(len(n.nodes))[:len(n.nodes)/2+1]
	return func(context.Context) error {
		var all []*node
		for _, i := range order {
			all = append(all, n.nodes[i])
		}
		return each(all, func(d *node) error { return insist(d.server.RestartEmpty) })
	}
}

func (n *nemesis) cutNode() func(context.Context) error {
	kind := n.aCut()
	length := n.between(50*time.Millisecond, 3*n.settings.expiry)
	i, ok := n.aNode()
	if !ok {
		return nil
	}
	return func(ctx context.Context) error {
		defer n.budget.releaseNode(i)
		n.note(i, "all clients: "+kind.String())
		if err := n.network.cut(n.network.around(i), kind, 1); err != nil {
			return err
		}
		pause(ctx, length)
		n.note(i, "all clients: healed")
		return n.network.cut(n.network.around(i), kind, -1)
	}
}

// aCut draws a way to break links.
func (n *nemesis) aCut() cut {
	if n.network.filter == nil {
		return cut(n.rng.IntN(int(cutLoss)))
	}
	return cut(n.rng.IntN(int(cuts)))
}

// Clocks. What is promised needs clocks that drift less than the drift factor: so small
// steps and rates may come at any time, while a clock that has to be set forward by more
// is set when the node is cut off and all that it has granted is over.
const (
	smallStep = 6 * time.Millisecond
	smallRate = 0.002
	bigStep   = 4500 * time.Millisecond // fences stand a step back of 5 s
)

func (n *nemesis) nudgeClock() func(context.Context) error {
	offset := time.Duration(n.rng.Int64N(int64(2*smallStep))) - smallStep
	return n.offClock(offset, 1, n.between(100*time.Millisecond, 2*n.settings.expiry))
}

func (n *nemesis) driftClock() func(context.Context) error {
	rate := 1 + smallRate*(2*n.rng.Float64()-1)
	return n.offClock(0, rate, n.between(100*time.Millisecond, 2*n.settings.expiry))
}

// aClock is aNode of those whose clock can be set.
func (n *nemesis) aClock() (i int, ok bool) {
	if i, ok = n.aNode(); ok && n.nodes[i].clock == nil {
		n.budget.releaseNode(i)
		return 0, false
	}
	return i, ok
}

// offClock has a node's clock wrong for a while.
func (n *nemesis) offClock(offset time.Duration, rate float64, length time.Duration) func(context.Context) error {
	i, ok := n.aClock()
	if !ok {
		return nil
	}
	return func(ctx context.Context) error {
		defer n.budget.releaseNode(i)
		n.note(i, "clock off")
		begin := time.Now()
		if err := n.nodes[i].clock.Set(offset, rate); err != nil {
			return err
		}
		pause(ctx, length)
		// On a busy machine the pause may have been long.
		behind := time.Duration((1-rate)*float64(time.Since(begin))) - offset
		return n.setClock(i, 0, behind > 2*smallStep)
	}
}

// stepClock sets a node's clock seconds ahead or behind, and later right again.
func (n *nemesis) stepClock() func(context.Context) error {
	offset := time.Duration(n.rng.Int64N(int64(2*bigStep))) - bigStep
	length := n.between(time.Second, 4*n.settings.expiry)
	i, ok := n.aClock()
	if !ok {
		return nil
	}
	return func(ctx context.Context) error {
		defer n.budget.releaseNode(i)
		if err := n.setClock(i, offset, offset > 0); err != nil {
			return err
		}
		pause(ctx, length)
		return n.setClock(i, 0, offset < 0)
	}
}

// setClock sets a clock; forward when nothing the node has granted is live.
func (n *nemesis) setClock(i int, offset time.Duration, forward bool) (err error) {
	if forward {
		around := n.network.around(i)
		n.note(i, "cut off, to have its clock set")
		if err := n.network.cut(around, cutBoth, 1); err != nil {
			return err
		}
		defer func() {
			n.note(i, "healed")
			err = errors.Join(err, n.network.cut(around, cutBoth, -1))
		}()
		pause(context.Background(), n.settings.longest())
	}
	n.note(i, "clock set to "+offset.String())
	return n.nodes[i].clock.Set(offset, 1)
}

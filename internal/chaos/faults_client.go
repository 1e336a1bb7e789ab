//go:build unix

package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"syscall"
	"time"
)

func anyClient(int) bool { return true }

func (n *nemesis) cutLink() func(context.Context) error {
	kind := n.aCut()
	length := n.between(50*time.Millisecond, 4*n.settings.expiry)
	client, i, ok := n.aLink(anyClient)
	if !ok {
		return nil
	}
	return func(ctx context.Context) error {
		defer n.budget.releaseLink(client, i)
		n.noteLink(client, i, kind.String())
		link := []*link{n.network.links[client][i]}
		if err := n.network.cut(link, kind, 1); err != nil {
			return err
		}
		pause(ctx, length)
		n.noteLink(client, i, "healed")
		return n.network.cut(link, kind, -1)
	}
}

func (n *nemesis) slowLink() func(context.Context) error {
	delay, jitter := n.between(time.Millisecond, 100*time.Millisecond), n.between(0, 150*time.Millisecond)
	return n.atProxy("slow", func(l *link) func() { return l.slow(delay, jitter) })
}

func (n *nemesis) reorderLink() func(context.Context) error {
	own := rand.New(rand.NewPCG(n.rng.Uint64(), 0))
	return n.atProxy("reorders", func(l *link) func() { return l.reorder(own) })
}

func (n *nemesis) halfOpenLink() func(context.Context) error {
	return n.atProxy("half open", (*link).halfOpen)
}

// atProxy makes a fault that only a proxy can make.
func (n *nemesis) atProxy(what string, do func(*link) (undo func())) func(context.Context) error {
	length := n.between(50*time.Millisecond, 3*n.settings.expiry)
	client, i, ok := n.aLink(n.network.slowable)
	if !ok {
		return nil
	}
	return func(ctx context.Context) error {
		defer n.budget.releaseLink(client, i)
		n.noteLink(client, i, what)
		undo := do(n.network.links[client][i])
		pause(ctx, length)
		n.noteLink(client, i, "healed")
		undo()
		return nil
	}
}

// suspendClient stops a client, often beyond its validity. Half of them run on.
func (n *nemesis) suspendClient() func(context.Context) error {
	place := n.rng.IntN(len(n.network.links))
	length := n.between(20*time.Millisecond, 3*n.settings.expiry)
	n.mu.Lock()
	defer n.mu.Unlock()
	if 2*(n.away+1) > len(n.network.links) {
		return nil
	}
	n.away++
	return func(ctx context.Context) error {
		defer func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.away--
		}()
		p := n.members.at(place)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.ended() {
			return nil // it was killed meanwhile
		}
		if err := p.signal(syscall.SIGSTOP); err != nil {
			return err
		}
		n.noteClient(p.id, "suspended")
		pause(ctx, length)
		n.noteClient(p.id, "resumed")
		return p.signal(syscall.SIGCONT)
	}
}

// killClient ends a client in whatever it does, and starts another.
func (n *nemesis) killClient() func(context.Context) error {
	place := n.rng.IntN(len(n.network.links))
	return func(context.Context) error {
		p := n.members.at(place)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p != n.members.at(place) {
			return nil // somebody else was faster
		}
		if p.ended() {
			return errors.Join(errEnded, p.err)
		}
		n.noteClient(p.id, "killed")
		p.kill()
		return n.members.start(place)
	}
}

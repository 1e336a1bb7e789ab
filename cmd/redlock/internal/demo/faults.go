package demo

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// roundFor is how long one round of faults takes: a long run has several, each
// with the nodes in other parts.
func roundFor(duration time.Duration) time.Duration {
	rounds := max(1, int(duration/(10*time.Second)))
	return duration / time.Duration(rounds)
}

// expiryFor leaves a killed node the time to stay away for an expiry: with its keys
// it forgot who holds the lock.
func expiryFor(duration time.Duration) time.Duration { return roundFor(duration) / 5 }

// step is one change to the cluster. at is when, as a part of the round.
type step struct {
	at    float64
	fault bool // counted as one
	text  string
	do    func() error
}

// breakThings plays rounds of faults until ctx ends. No client ever misses more
// than two of its five nodes.
func (r *run) breakThings(ctx context.Context, duration, expiry time.Duration) error {
	length := roundFor(duration)
	for round := 0; ctx.Err() == nil; round++ {
		begin := r.started.Add(time.Duration(round) * length)
		for _, s := range r.round(ctx, round, expiry) {
			sleep(ctx, time.Until(begin.Add(time.Duration(s.at*float64(length)))))
			if ctx.Err() != nil {
				return nil //nolint:nilerr // the demo is over
			}
			if err := s.do(); err != nil {
				if ctx.Err() != nil {
					return nil //nolint:nilerr // the demo is over
				}
				return fmt.Errorf("%s: %w", s.text, err)
			}
			at := time.Since(r.started)
			r.board.announce(at, s.text, s.fault)
			r.timeline.event(at, s.text)
		}
		sleep(ctx, time.Until(begin.Add(length)))
	}
	return nil
}

// round plans the faults of one round.
func (r *run) round(ctx context.Context, round int, expiry time.Duration) []step {
	part := func(i int) int { return (i + round) % nodeCount }
	var killed time.Time
	crash := r.on(part(4), "killed", "is killed with its keys", true, func(n int) error {
		defer func() { killed = time.Now() }()
		return r.cluster.crash(n)
	})
	replace := r.on(part(4), "", "is back, empty", false, func(n int) error {
		// On time this is no wait; a busy machine must not make it too short.
		sleep(ctx, time.Until(killed.Add(expiry+expiry/10)))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return r.cluster.replace(n)
	})
	return []step{
		crash.when(0.06),
		r.on(part(3), "hung", "hangs", true, r.cluster.hang).when(0.12),
		r.on(part(3), "", "goes on", false, r.cluster.resume).when(0.26),
		replace.when(0.30),
		r.on(part(2), "stopped", "is stopped, its keys are on disk", true, r.cluster.stop).when(0.36),
		r.on(part(2), "", "is back with its keys", false, r.cluster.start).when(0.42),
		r.split(true, part).when(0.50),
		r.split(false, part).when(0.70),
		r.on(part(1), "hung", "hangs", true, r.cluster.hang).when(0.76),
		r.on(part(0), "stopped", "is stopped, its keys are on disk", true, r.cluster.stop).when(0.80),
		r.on(part(0), "", "is back with its keys", false, r.cluster.start).when(0.85),
		r.on(part(1), "", "goes on", false, r.cluster.resume).when(0.90),
	}
}

func (s step) when(at float64) step {
	s.at = at
	return s
}

// on is a step at one node, which is in the given state after it.
func (r *run) on(node int, state, what string, fault bool, do func(int) error) step {
	return step{fault: fault, text: fmt.Sprintf("node %d %s", node+1, what), do: func() error {
		r.board.set(node, state)
		err := do(node)
		r.timeline.change(node, state)
		return err
	}}
}

// split cuts the network so that half of the clients miss two nodes and the other
// half two others: only one node sees them all, and it must be enough.
func (r *run) split(on bool, part func(int) int) step {
	text := "the network is whole again"
	if on {
		text = fmt.Sprintf("the network splits: clients 1 and 2 cannot reach nodes %d and %d, clients 3 and 4 not %d and %d",
			part(3)+1, part(4)+1, part(0)+1, part(1)+1)
	}
	return step{fault: on, text: text, do: func() error {
		r.board.setSplit(on)
		r.timeline.change(networkLane, map[bool]string{true: splitState}[on])
		for i, c := range r.clients {
			missing := []int{part(3), part(4)}
			if i >= clientCount/2 {
				missing = []int{part(0), part(1)}
			}
			for n, l := range c.links {
				l.cut(on && slices.Contains(missing, n))
			}
		}
		return nil
	}}
}

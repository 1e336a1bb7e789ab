package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/redlock/internal/testutil"
)

// A state is how the last of the nodes is.
type state struct {
	name string
	// viaProxy puts a proxy in front of it.
	viaProxy   bool
	hurt, mend func(*testutil.Server, *testutil.Proxy) error
}

var states = []state{
	{name: "healthy"},
	{
		name: "hung",
		hurt: func(s *testutil.Server, _ *testutil.Proxy) error { return s.Pause() },
		mend: func(s *testutil.Server, _ *testutil.Proxy) error { return s.Resume() },
	},
	{
		name: "refused",
		hurt: func(s *testutil.Server, _ *testutil.Proxy) error { return s.Stop() },
		mend: func(s *testutil.Server, _ *testutil.Proxy) error { return s.Restart() },
	},
	{
		name:     "half-open",
		viaProxy: true,
		hurt: func(_ *testutil.Server, p *testutil.Proxy) error {
			p.HalfOpen(true)
			p.Reset()
			return nil
		},
		mend: func(_ *testutil.Server, p *testutil.Proxy) error {
			p.HalfOpen(false)
			p.Reset() // what hangs on it ends now
			return nil
		},
	},
}

const (
	warmUpPairs  = 200
	leastPairs   = 200
	redsyncPairs = 3
	redsyncLimit = 3 * time.Second
)

// figures are the quantiles of one state, one entry a round.
type figures struct{ lock50, lock99, unlock50, unlock99 []float64 }

// badNode is one goroutine while one node does not answer: what G4 promises.
func badNode(o *options) error {
	for _, n := range []int{3, 5} {
		if err := badNodeOf(o, n); err != nil {
			return err
		}
	}
	return nil
}

func badNodeOf(o *options, n int) (err error) {
	servers, stop, err := start(n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	proxy, err := testutil.NewProxy(servers[n-1].Addr())
	if err != nil {
		return err
	}
	defer proxy.Close()

	got := map[string]*figures{}
	for _, s := range states {
		got[s.name] = &figures{}
	}
	for range o.rounds {
		for _, s := range states {
			if o.stopped() {
				break
			}
			if err := measureState(o, s, servers, proxy, got[s.name]); err != nil {
				return fmt.Errorf("%d nodes, one %s: %w", n, s.name, err)
			}
		}
	}
	rows := [][]string{{"", "lock p50", "p99", "unlock p50", "p99", "redsync lock p50", "unlock p50"}}
	for _, s := range states {
		lock, unlock, err := redsyncIn(o, s, servers, proxy)
		if err != nil {
			return fmt.Errorf("%d nodes, one %s, redsync: %w", n, s.name, err)
		}
		f := got[s.name]
		rows = append(rows, []string{
			s.name, milliseconds(median(f.lock50)), milliseconds(median(f.lock99)),
			milliseconds(median(f.unlock50)), milliseconds(median(f.unlock99)), lock, unlock,
		})
	}
	table(o, fmt.Sprintf("bad node: one of %d, milliseconds, redlock from the moment of the fault on", n), rows)
	healthy := got["healthy"]
	for _, s := range states[1:] {
		within(o, s.name+", lock", got[s.name].lock99, healthy.lock99)
		within(o, s.name+", unlock", got[s.name].unlock99, healthy.unlock99)
	}
	return nil
}

// within prints whether a p99 stays within 1.2 times the healthy one plus 1 ms.
func within(o *options, what string, bad, healthy []float64) {
	limit := 1.2*median(healthy) + 1
	target(o, median(bad) <= limit, "%s: p99 %s ms; target: at most %.2f (1.2 times healthy plus 1)", what, milliseconds(median(bad)), limit)
}

// addressesIn are the nodes as a client in this state sees them.
func addressesIn(s state, servers []*testutil.Server, proxy *testutil.Proxy) []string {
	addrs := addresses(servers)
	if s.viaProxy {
		addrs[len(addrs)-1] = proxy.Addr()
	}
	return addrs
}

// broken runs f while the last node is in a state. mend may be called early.
func broken(s state, servers []*testutil.Server, proxy *testutil.Proxy, f func(mend func() error) error) error {
	if s.hurt == nil {
		return f(func() error { return nil })
	}
	last := servers[len(servers)-1]
	mended := false
	mend := func() error {
		if mended {
			return nil
		}
		mended = true
		return s.mend(last, proxy)
	}
	if err := s.hurt(last, proxy); err != nil {
		return err
	}
	err := f(mend)
	return errors.Join(err, mend())
}

// measureState takes the latencies of a client that knew all nodes as healthy
// until the fault came.
func measureState(o *options, s state, servers []*testutil.Server, proxy *testutil.Proxy, f *figures) (err error) {
	us, err := newOurs(addressesIn(s, servers, proxy))
	if err != nil {
		return err
	}
	// The node is well again by then, so that what was left for later is done.
	defer func() { err = errors.Join(err, us.close()) }()
	m := us.NewMutex("bench:badnode")
	if _, err := timed(o, m, 0, warmUpPairs); err != nil {
		return err
	}
	return broken(s, servers, proxy, func(func() error) error {
		l, err := timed(o, m, o.duration, leastPairs)
		f.lock50 = append(f.lock50, quantile(l.lock, 0.5))
		f.lock99 = append(f.lock99, quantile(l.lock, 0.99))
		f.unlock50 = append(f.unlock50, quantile(l.unlock, 0.5))
		f.unlock99 = append(f.unlock99, quantile(l.unlock, 0.99))
		return err
	})
}

// redsyncIn takes a few pairs of redsync in a state: it needs seconds for each
// verb, or hangs until the node is well again.
func redsyncIn(o *options, s state, servers []*testutil.Server, proxy *testutil.Proxy) (lock, unlock string, err error) {
	them := newTheirs(addressesIn(s, servers, proxy))
	defer func() { err = errors.Join(err, them.close()) }()
	m := them.NewMutex("bench:badnode:redsync")
	if _, err := timed(o, m, 0, redsyncPairs); err != nil {
		return "", "", err
	}
	err = broken(s, servers, proxy, func(mend func() error) error {
		l, complete, err := firstPairs(o, m, redsyncPairs, redsyncLimit, mend)
		lock, unlock = took(l.lock, complete, redsyncLimit), took(l.unlock, complete, redsyncLimit)
		return err
	})
	return lock, unlock, err
}

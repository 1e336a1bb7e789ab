package main

import (
	"errors"
	"fmt"

	"github.com/quorumlock/redlock/internal/testutil"
)

// A state is how the last of the nodes is.
type state struct {
	name string
	// viaProxy puts a proxy in front of it.
	viaProxy   bool
	hurt, mend func(*testutil.Server, *testutil.Proxy) error
}

const stateHealthy = "healthy"

var states = []state{
	{name: stateHealthy},
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

const redsyncWarmUp = 3 // pairs

// badNode is one goroutine while one node does not answer.
func badNode(o *options) ([]*result, error) {
	var all []*result
	for _, n := range []int{3, 5} {
		r, err := badNodeOf(o, n)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

func badNodeOf(o *options, n int) (r *result, err error) {
	servers, stop, err := start(n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	proxy, err := testutil.NewProxy(servers[n-1].Addr())
	if err != nil {
		return nil, err
	}
	defer proxy.Close()

	r = &result{
		Name:    fmt.Sprintf("badnode-%d", n),
		Title:   fmt.Sprintf("One node of %d out of order, lock and unlock from that moment on", n),
		Note:    "Over redigo. “Over” is a call that had not returned after that time.",
		Group:   "node",
		Columns: latencyColumns,
		Charts:  []string{colLock99},
	}
	for range o.runs {
		for _, s := range states {
			if o.stopped() {
				return nil, errStopped
			}
			if err := redlockIn(o, s, servers, proxy, r.row(s.name, nameRedlock)); err != nil {
				return nil, fmt.Errorf("%d nodes, one %s: %w", n, s.name, err)
			}
			if err := redsyncIn(o, s, servers, proxy, r.row(s.name, nameRedsync)); err != nil {
				return nil, fmt.Errorf("%d nodes, one %s, redsync: %w", n, s.name, err)
			}
		}
	}
	for _, s := range states[1:] {
		for _, column := range []string{colLock99, colUnlock99} {
			limit := 1.2*r.value(stateHealthy, nameRedlock, column) + 1
			got := r.value(s.name, nameRedlock, column)
			r.check(got <= limit, "%s, %s: %.2f ms; target: at most %.2f (1.2 times healthy plus 1)", s.name, column, got, limit)
		}
	}
	return r, nil
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

// redlockIn takes the latencies of a client that knew all nodes as healthy until
// the fault came.
func redlockIn(o *options, s state, servers []*testutil.Server, proxy *testutil.Proxy, w *row) (err error) {
	us, err := newOurs(openRedigo, addressesIn(s, servers, proxy))
	if err != nil {
		return err
	}
	// The node is well again by then, so that what was left for later is done.
	defer func() { err = errors.Join(err, us.close()) }()
	m := us.NewMutex("bench:badnode")
	if _, err := timed(o, m, 0, o.leastPairs); err != nil {
		return err
	}
	return broken(s, servers, proxy, func(func() error) error {
		l, err := timed(o, m, o.duration, o.leastPairs)
		l.addTo(w)
		return err
	})
}

// redsyncIn is the same for redsync, which may hang until the node is well again.
func redsyncIn(o *options, s state, servers []*testutil.Server, proxy *testutil.Proxy, w *row) (err error) {
	them, err := newTheirs(openRedigo, addressesIn(s, servers, proxy))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, them.close()) }()
	m := them.NewMutex("bench:badnode:redsync")
	if _, err := timed(o, m, 0, redsyncWarmUp); err != nil {
		return err
	}
	return broken(s, servers, proxy, func(mend func() error) error {
		l, complete, err := timedWithin(o, m, o.patience, mend)
		if err != nil {
			return err
		}
		if complete {
			l.addTo(w)
			return nil
		}
		// Which verb it hangs in matters little: a pair needs both.
		w.add(colLock99, ms(o.patience))
		c := w.Cells[colLock99]
		c.Limit = ms(o.patience)
		w.Cells[colLock99] = c
		return nil
	})
}

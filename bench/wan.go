package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/redlock/internal/testutil"
)

// wanTrips are the round trips to five nodes: two at hand, one on the same
// continent, two far away. A quorum of three is 40 ms away, all are 80.
var wanTrips = []time.Duration{
	time.Millisecond, time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond, 80 * time.Millisecond,
}

const (
	wanQuorum  = 40 * time.Millisecond
	wanMargin  = 2500 * time.Microsecond
	wanWarmUp  = 5
	wanAtLeast = 10
)

// wan is one goroutine over nodes in several places.
func wan(o *options) (err error) {
	servers, stop, err := start(len(wanTrips))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	addrs := make([]string, len(servers))
	for i, s := range servers {
		p, err := testutil.NewProxy(s.Addr())
		if err != nil {
			return err
		}
		defer p.Close()
		p.Delay(wanTrips[i]/2, wanTrips[i]/2)
		addrs[i] = p.Addr()
	}
	us, err := newOurs(addrs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, us.close()) }()
	them := newTheirs(addrs)
	defer func() { err = errors.Join(err, them.close()) }()

	sides := []struct {
		name string
		m    mutex
		f    figures
	}{
		{name: "redlock", m: us.NewMutex("bench:wan:redlock")},
		{name: "redsync", m: them.NewMutex("bench:wan:redsync")},
	}
	for i := range sides {
		if _, err := timed(o, sides[i].m, 0, wanWarmUp); err != nil {
			return fmt.Errorf("%s: %w", sides[i].name, err)
		}
	}
	for range o.rounds {
		for i := range sides {
			s := &sides[i]
			l, err := timed(o, s.m, o.duration, wanAtLeast)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			s.f.lock50 = append(s.f.lock50, quantile(l.lock, 0.5))
			s.f.lock99 = append(s.f.lock99, quantile(l.lock, 0.99))
			s.f.unlock50 = append(s.f.unlock50, quantile(l.unlock, 0.5))
			s.f.unlock99 = append(s.f.unlock99, quantile(l.unlock, 0.99))
		}
	}
	rows := [][]string{{"", "lock p50", "p99", "unlock p50", "p99"}}
	for _, s := range sides {
		rows = append(rows, []string{
			s.name, milliseconds(median(s.f.lock50)), milliseconds(median(s.f.lock99)),
			milliseconds(median(s.f.unlock50)), milliseconds(median(s.f.unlock99)),
		})
	}
	table(o, fmt.Sprintf("wan: nodes %v away, milliseconds", wanTrips), rows)
	limit := ms(wanQuorum + wanMargin)
	f := sides[0].f
	target(o, median(f.lock50) <= limit, "lock %s ms; target: at most %.1f", milliseconds(median(f.lock50)), limit)
	target(o, median(f.unlock50) <= limit, "unlock %s ms; target: at most %.1f", milliseconds(median(f.unlock50)), limit)
	return nil
}

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
	wanQuorum = 40 * time.Millisecond
	wanMargin = 2500 * time.Microsecond
	wanWarmUp = 5
)

// wan is one goroutine over nodes in several places.
func wan(o *options) (all []*result, err error) {
	servers, stop, err := start(len(wanTrips))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	addrs := make([]string, len(servers))
	for i, s := range servers {
		p, err := testutil.NewProxy(s.Addr())
		if err != nil {
			return nil, err
		}
		defer p.Close()
		p.Delay(wanTrips[i]/2, wanTrips[i]/2)
		addrs[i] = p.Addr()
	}
	us, err := newOurs(openRedigo, addrs)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, us.close()) }()
	them, err := newTheirs(openRedigo, addrs)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, them.close()) }()

	r := &result{
		Name:    "wan",
		Title:   "Nodes 1, 1, 40, 80 and 80 ms away, lock and unlock",
		Note:    "Over redigo. A majority is 40 ms away.",
		Columns: latencyColumns,
		Charts:  []string{colLock50},
	}
	mutexes := map[string]mutex{nameRedlock: us.NewMutex("bench:wan:redlock"), nameRedsync: them.NewMutex("bench:wan:redsync")}
	for run := range o.runs + 1 {
		for _, name := range []string{nameRedlock, nameRedsync} {
			d, pairs := o.duration, o.wanPairs
			if run == 0 {
				d, pairs = 0, wanWarmUp
			}
			l, err := timed(o, mutexes[name], d, pairs)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if run > 0 {
				l.addTo(r.row("", name))
			}
		}
	}
	limit := ms(wanQuorum + wanMargin)
	for _, column := range []string{colLock50, colUnlock50} {
		got := r.value("", nameRedlock, column)
		r.check(got <= limit, "%s: %.1f ms; target: at most %.1f", column, got, limit)
	}
	return []*result{r}, nil
}

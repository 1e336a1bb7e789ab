package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quorumlock/redlock/internal/testutil"
)

// sides makes the three sides over servers, or those that -side names.
func sides(o *options, servers []*testutil.Server) (all []side, done func() error, err error) {
	addrs := addresses(servers)
	us, err := newOurs(addrs)
	if err != nil {
		return nil, nil, err
	}
	them := newTheirs(addrs)
	wire, err := newBare(addrs)
	if err != nil {
		return nil, nil, errors.Join(err, us.close(), them.close())
	}
	all = []side{
		{"redlock", func(name string) (func() error, error) {
			m := us.NewMutex(name)
			return func() error {
				if err := m.Lock(); err != nil {
					return err
				}
				_, err := m.Unlock()
				return err
			}, nil
		}},
		{"redsync", func(name string) (func() error, error) {
			m := them.NewMutex(name)
			return func() error {
				if err := m.Lock(); err != nil {
					return err
				}
				_, err := m.Unlock()
				return err
			}, nil
		}},
		{"bare", func(name string) (func() error, error) {
			m, err := wire.newMutex(name)
			if err != nil {
				return nil, err
			}
			return m.lockUnlock, nil
		}},
	}
	if o.only != nil {
		all = slices.DeleteFunc(all, func(s side) bool { return !slices.Contains(o.only, s.name) })
	}
	return all, func() error { return errors.Join(us.close(), them.close(), wire.close()) }, nil
}

func addresses(servers []*testutil.Server) []string {
	addrs := make([]string, len(servers))
	for i, s := range servers {
		addrs[i] = s.Addr()
	}
	return addrs
}

// start starts servers; stop ends them.
func start(n int) (servers []*testutil.Server, stop func() error, err error) {
	servers, err = testutil.StartN(n)
	return servers, func() error {
		var errs []error
		for _, s := range servers {
			errs = append(errs, s.Close())
		}
		return errors.Join(errs...)
	}, err
}

// throughput compares the sides with a number of goroutines and prints the table.
func throughput(o *options, title string, workers int) (results map[string][]sample, err error) {
	servers, stop, err := start(o.nodes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	all, done, err := sides(o, servers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	results, err = compare(o, servers, workers, all)
	if err != nil {
		return nil, err
	}
	pps := func(s sample) float64 { return s.pairsPerSecond }
	rows := [][]string{{"", "pairs/s", "of bare", "allocs/pair", "B/pair", "client us/pair", "servers us/pair", "dials/1000", "failed"}}
	for _, s := range all {
		got := results[s.name]
		failed := int64(0)
		for _, one := range got {
			failed += one.failed
		}
		rows = append(rows, []string{
			s.name,
			fmt.Sprintf("%.0f", median(column(got, pps))),
			fmt.Sprintf("%.2f", ratio(column(got, pps), column(results["bare"], pps))),
			fmt.Sprintf("%.0f", median(column(got, func(s sample) float64 { return s.allocs }))),
			fmt.Sprintf("%.0f", median(column(got, func(s sample) float64 { return s.bytes }))),
			fmt.Sprintf("%.0f", median(column(got, func(s sample) float64 { return s.client }))),
			fmt.Sprintf("%.0f", median(column(got, func(s sample) float64 { return s.servers }))),
			fmt.Sprintf("%.1f", median(column(got, func(s sample) float64 { return s.dials }))),
			fmt.Sprint(failed),
		})
	}
	table(o, title, rows)
	return results, nil
}

// atLeast prints whether redlock's pairs per second are at least factor times
// those of another side.
func atLeast(o *options, results map[string][]sample, other string, factor float64) {
	pps := func(s sample) float64 { return s.pairsPerSecond }
	if len(results["redlock"]) == 0 || len(results[other]) == 0 {
		return
	}
	r := ratio(column(results["redlock"], pps), column(results[other], pps))
	target(o, r >= factor, "redlock is %.2f times %s; target: at least %.2f", r, other, factor)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/gomodule/redigo/redis"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/quorumlock/redlock/internal/testutil"
)

const (
	contenderClients = 4
	holdTime         = time.Millisecond
	handoverTarget   = 0.8 // ms, mean
	flatTarget       = 1.3 // commands per grant, 128 waiters to 8
	fairWorkers      = 16
	fairTarget       = 1.5
	fairTotal        = 0.8
)

// A crowd makes the lock function of one worker, on one of a few clients.
type crowd struct {
	name    string
	servers []*testutil.Server // whose commands are counted
	worker  func(lockName string, i int) (lock func(context.Context) (unlock func() error, err error))
}

// crowded is what one crowd did.
type crowded struct {
	gaps     []float64 // ms from the begin of a release to the grant of another worker
	grants   []int     // by worker
	commands float64   // per grant, those inside scripts included
}

// handover is a lock that is wanted by many: how soon the next has it, and what
// that costs.
func handover(o *options) (err error) {
	servers, stop, err := start(o.nodes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	crowds, done, err := crowds(servers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()

	rows := [][]string{{"", "waiters", "mean ms", "p50", "p99", "commands/grant", "grants/s"}}
	means, costs := map[string]map[int]float64{}, map[string]map[int]float64{}
	for _, waiters := range []int{1, 4, 8, 32, 128} {
		for _, c := range crowds {
			if o.stopped() {
				return nil
			}
			r, err := contend(o, c, waiters+1, o.duration, false)
			if err != nil {
				return fmt.Errorf("%s, %d waiters: %w", c.name, waiters, err)
			}
			if means[c.name] == nil {
				means[c.name], costs[c.name] = map[int]float64{}, map[int]float64{}
			}
			means[c.name][waiters], costs[c.name][waiters] = mean(r.gaps), r.commands
			rows = append(rows, []string{
				c.name, strconv.Itoa(waiters), milliseconds(mean(r.gaps)), milliseconds(quantile(r.gaps, 0.5)),
				milliseconds(quantile(r.gaps, 0.99)), fmt.Sprintf("%.0f", r.commands), fmt.Sprintf("%.0f", float64(sum(r.grants))/o.duration.Seconds()),
			})
		}
	}
	table(o, fmt.Sprintf("hand-over: %d nodes, holds of %v, workers on %d clients", o.nodes, holdTime, contenderClients), rows)
	for _, waiters := range []int{1, 4, 32, 128} {
		m := means["redlock"][waiters]
		target(o, m <= handoverTarget, "%d waiters: mean %.2f ms; target: at most %.1f", waiters, m, handoverTarget)
	}
	flat := costs["redlock"][128] / costs["redlock"][8]
	target(o, flat <= flatTarget, "commands per grant at 128 waiters are %.2f times those at 8; target: at most %.1f", flat, flatTarget)
	return nil
}

// fairness is a few workers that want the lock again and again.
func fairness(o *options) (err error) {
	servers, stop, err := start(o.nodes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	crowds, done, err := crowds(servers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	rows := [][]string{{"", "grants", "least", "most", "most/least"}}
	totals := map[string]int{}
	factor := 0.0
	for _, c := range crowds {
		r, err := contend(o, c, fairWorkers, 5*time.Second, true)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		least, most := slices.Min(r.grants), slices.Max(r.grants)
		f := float64(most) / float64(max(1, least))
		totals[c.name] = sum(r.grants)
		if c.name == "redlock" {
			factor = f
		}
		rows = append(rows, []string{c.name, strconv.Itoa(sum(r.grants)), strconv.Itoa(least), strconv.Itoa(most), fmt.Sprintf("%.1f", f)})
	}
	table(o, fmt.Sprintf("fairness: %d workers on %d clients, lock, hold %v, unlock, again, for 5 s", fairWorkers, contenderClients, holdTime), rows)
	target(o, factor <= fairTarget, "grants per worker within a factor of %.2f; target: at most %.1f", factor, fairTarget)
	share := float64(totals["redlock"]) / float64(max(1, totals["redsync"]))
	target(o, share >= fairTotal, "%.2f times redsync's grants; target: at least %.1f", share, fairTotal)
	return nil
}

// crowds are the libraries, each with its own clients.
func crowds(servers []*testutil.Server) (all []crowd, done func() error, err error) {
	var closers []func() error
	done = func() error {
		var errs []error
		for _, f := range closers {
			errs = append(errs, f())
		}
		return errors.Join(errs...)
	}
	addrs := addresses(servers)
	var us []*ours
	var them []*theirs
	var lockers []rueidislock.Locker
	for range contenderClients {
		u, err := newOurs(addrs)
		if err != nil {
			return nil, nil, errors.Join(err, done())
		}
		t := newTheirs(addrs)
		l, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: addrs[:1]}, KeyMajority: 1, NoLoopTracking: true,
		})
		if err != nil {
			return nil, nil, errors.Join(err, u.close(), t.close(), done())
		}
		us, them, lockers = append(us, u), append(them, t), append(lockers, l)
		closers = append(closers, u.close, t.close, func() error { l.Close(); return nil })
	}
	return []crowd{
		{"redlock", servers, func(name string, i int) func(context.Context) (func() error, error) {
			m := us[i%contenderClients].NewMutex(name)
			return func(ctx context.Context) (func() error, error) {
				return func() error { _, err := m.Unlock(); return err }, m.LockContext(ctx)
			}
		}},
		{"redsync", servers, func(name string, i int) func(context.Context) (func() error, error) {
			m := them[i%contenderClients].NewMutex(name, redsync.WithTries(1<<20))
			return func(ctx context.Context) (func() error, error) {
				return func() error { _, err := m.Unlock(); return err }, m.LockContext(ctx)
			}
		}},
		{"rueidislock (one server)", servers[:1], func(name string, i int) func(context.Context) (func() error, error) {
			return func(ctx context.Context) (func() error, error) {
				_, cancel, err := lockers[i%contenderClients].WithContext(ctx, name)
				return func() error { cancel(); return nil }, err
			}
		}},
	}, done, nil
}

// A ring is a lock that its workers hand on, and what was seen of it.
type ring struct {
	mu       sync.Mutex
	released time.Time
	last     int // the worker that had it, -1 at first
	seen     crowded
}

// hold is one turn of worker i: lock, hold, unlock.
func (r *ring) hold(ctx context.Context, i int, lock func(context.Context) (func() error, error)) error {
	unlock, err := lock(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	r.mu.Lock()
	if r.last >= 0 && r.last != i {
		r.seen.gaps = append(r.seen.gaps, ms(now.Sub(r.released)))
	}
	r.seen.grants[i]++
	r.mu.Unlock()
	time.Sleep(holdTime)
	r.mu.Lock()
	r.released, r.last = time.Now(), i
	r.mu.Unlock()
	return unlock()
}

// contend has workers take turns for a duration. With again each wants the lock
// back as soon as it has released it. Otherwise each has it once, in rounds: a worker
// that comes back at once would take the lock from under the noses of those who
// poll, and only what is left over would be measured.
func contend(o *options, c crowd, workers int, d time.Duration, again bool) (crowded, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	r := &ring{last: -1, seen: crowded{grants: make([]int, workers)}}
	errs := make(chan error, workers)
	locks := make([]func(context.Context) (func() error, error), workers)
	for i := range locks {
		locks[i] = c.worker(fmt.Sprintf("bench:crowd:%s:%d", strings.Fields(c.name)[0], workers), i)
	}
	before := commandsOf(c.servers)
	for ctx.Err() == nil && !o.stopped() && len(errs) == 0 {
		r.last = -1
		var all sync.WaitGroup
		for i := range workers {
			all.Go(func() {
				for first := true; first || again && ctx.Err() == nil && !o.stopped(); first = false {
					if err := r.hold(ctx, i, locks[i]); err != nil {
						if ctx.Err() == nil {
							errs <- err
						}
						return
					}
				}
			})
		}
		all.Wait()
	}
	r.seen.commands = (commandsOf(c.servers) - before) / float64(max(1, sum(r.seen.grants)))
	select {
	case err := <-errs:
		return r.seen, err
	default:
		return r.seen, nil
	}
}

// commandsOf is how many commands the servers have run, those inside scripts too.
func commandsOf(servers []*testutil.Server) (total float64) {
	for _, s := range servers {
		info, err := redis.String(s.Do("INFO", "commandstats"))
		if err != nil {
			return 0
		}
		for _, stats := range infoFields(info) {
			calls, _, _ := strings.Cut(strings.TrimPrefix(stats, "calls="), ",")
			n, err := strconv.ParseFloat(calls, 64)
			if err != nil {
				continue
			}
			total += n
		}
	}
	return total
}

func sum(v []int) (n int) {
	for _, x := range v {
		n += x
	}
	return n
}

func mean(v []float64) float64 {
	total := 0.0
	for _, x := range v {
		total += x
	}
	return total / float64(max(1, len(v)))
}

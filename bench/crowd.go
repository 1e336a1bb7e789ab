package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/gomodule/redigo/redis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/quorumlock/redlock/internal/testutil"
)

const (
	contenderClients = 4
	holdTime         = time.Millisecond
	// redislock retries as it is told; this is what its documentation shows.
	redislockPause = 100 * time.Millisecond
)

// lockFunc locks for one worker.
type lockFunc func(context.Context) (unlock func() error, err error)

// A crowd makes the lock function of one worker, on one of a few clients.
type crowd struct {
	name    string
	servers []*testutil.Server // whose commands are counted
	key     string             // what it puts before a lock's name
	worker  func(lockName string, i int) lockFunc
}

// crowded is what one crowd did.
type crowded struct {
	gaps     []float64 // ms from the begin of a release to the grant of another worker
	grants   []int     // by worker
	commands float64   // per grant, those inside scripts included
	rate     float64   // grants a second
	gaveUp   float64   // waiters that nobody had woken by the bound
}

// withCrowds runs f with the crowds that the options name, on servers of their own.
func withCrowds(o *options, f func([]*testutil.Server, []crowd) error) (err error) {
	servers, stop, err := start(o.nodes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	all, done, err := crowds(servers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	var wanted []crowd
	for _, c := range all {
		if o.wants(c.name) {
			wanted = append(wanted, c)
		}
	}
	return f(servers, wanted)
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
	var ones []*one
	var lockers []rueidislock.Locker
	for range contenderClients {
		u, err := newOurs(openRedigo, addrs)
		if err != nil {
			return nil, nil, errors.Join(err, done())
		}
		us, closers = append(us, u), append(closers, u.close)
		t, err := newTheirs(openRedigo, addrs)
		if err != nil {
			return nil, nil, errors.Join(err, done())
		}
		them, closers = append(them, t), append(closers, t.close)
		n := newOne(addrs[0])
		ones, closers = append(ones, n), append(closers, n.conn.Close)
		l, err := newLocker(addrs[0])
		if err != nil {
			return nil, nil, errors.Join(err, done())
		}
		lockers, closers = append(lockers, l), append(closers, func() error { l.Close(); return nil })
	}
	return []crowd{
		{nameRedlock, servers, "", func(name string, i int) lockFunc {
			m := us[i%contenderClients].NewMutex(name)
			return func(ctx context.Context) (func() error, error) {
				return func() error { _, err := m.Unlock(); return err }, m.LockContext(ctx)
			}
		}},
		{nameRedsync, servers, "", func(name string, i int) lockFunc {
			m := them[i%contenderClients].NewMutex(name, redsync.WithTries(1<<20))
			return func(ctx context.Context) (func() error, error) {
				return func() error { _, err := m.Unlock(); return err }, m.LockContext(ctx)
			}
		}},
		{nameRedislock, servers[:1], "", func(name string, i int) lockFunc {
			how := &redislock.Options{RetryStrategy: redislock.LinearBackoff(redislockPause)}
			return func(ctx context.Context) (func() error, error) {
				held, err := ones[i%contenderClients].Obtain(ctx, name, peerExpiry, how)
				return func() error { return held.Release(context.Background()) }, err
			}
		}},
		{nameRueidislock, servers[:1], "rueidislock:0:", func(name string, i int) lockFunc {
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
func (r *ring) hold(ctx context.Context, i int, lock lockFunc) error {
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
// back as soon as it has released it. Otherwise each has it once, in rounds, the last of
// which is finished: a worker that comes back at once would take the lock from under the
// noses of those who poll, and only what is left over would be measured.
func contend(o *options, c crowd, workers int, d time.Duration, again bool) (crowded, error) {
	bound := d
	if !again {
		bound += closeBound
	}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	r := &ring{last: -1, seen: crowded{grants: make([]int, workers)}}
	errs := make(chan error, workers)
	locks := make([]lockFunc, workers)
	for i := range locks {
		locks[i] = c.worker(fmt.Sprintf("bench:crowd:%s:%d:%t", c.name, workers, again), i)
	}
	var gaveUp atomic.Int64
	before, started := commandsOf(c.servers), time.Now()
	for time.Since(started) < d && !o.stopped() && len(errs) == 0 {
		r.last = -1
		var all sync.WaitGroup
		for i := range workers {
			all.Go(func() {
				for first := true; first || again && ctx.Err() == nil && !o.stopped(); first = false {
					if err := r.hold(ctx, i, locks[i]); err != nil {
						switch {
						case ctx.Err() == nil:
							errs <- err
						case !again:
							gaveUp.Add(1)
						}
						return
					}
				}
			})
		}
		all.Wait()
	}
	r.seen.gaveUp = float64(gaveUp.Load())
	granted := float64(sum(r.seen.grants))
	r.seen.rate = granted / time.Since(started).Seconds()
	r.seen.commands = (commandsOf(c.servers) - before) / max(1, granted)
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

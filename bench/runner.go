package main

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/testutil"
)

// sample is one run of one side.
type sample struct {
	pairsPerSecond float64
	allocs, bytes  float64 // per pair
	// Microseconds of processor time per pair. Beside other work on the machine
	// they are steadier than the pairs per second.
	client, servers float64
	dials           float64 // connections made per 1,000 pairs
	failed          int64
}

// settle lets a side's late replies come in before another side is timed.
const settle = 20 * time.Millisecond

// warmUp is at most how long a side runs before it is timed.
const warmUp = 300 * time.Millisecond

// compare runs the sides in turn, after a warm-up of each, and calls got for each
// sample.
func compare(o *options, servers []*testutil.Server, workers int, sides []side, got func(side, sample)) error {
	runs := make([][]func() error, len(sides))
	for i, s := range sides {
		for w := range workers {
			f, err := s.pair(fmt.Sprintf("bench:%s:%s:%d", s.client, s.name, w))
			if err != nil {
				return fmt.Errorf("%s over %s: %w", s.name, s.client, err)
			}
			runs[i] = append(runs[i], f)
		}
		load(o, nil, runs[i], min(o.duration, warmUp))
	}
	for range o.runs {
		for i, s := range sides {
			if o.stopped() {
				return errStopped
			}
			got(s, load(o, servers, runs[i], o.duration))
			time.Sleep(settle)
		}
	}
	return nil
}

// load has each function called in a loop of its own for a duration.
func load(o *options, servers []*testutil.Server, pairs []func() error, d time.Duration) sample {
	var before, after runtime.MemStats
	var ok, failed atomic.Int64
	runtime.GC() // nobody pays for another side's garbage
	dialsBefore, serversBefore := dials.Load(), serverTime(servers)
	runtime.ReadMemStats(&before)
	clientBefore, started := cpuTime(), time.Now()
	end := started.Add(d)
	var all sync.WaitGroup
	for _, pair := range pairs {
		all.Go(func() {
			for time.Now().Before(end) && !o.stopped() {
				if err := pair(); err != nil {
					failed.Add(1)
				} else {
					ok.Add(1)
				}
			}
		})
	}
	all.Wait()
	took, client := time.Since(started), cpuTime()-clientBefore
	runtime.ReadMemStats(&after)
	serverUse := serverTime(servers) - serversBefore
	n := max(1, float64(ok.Load()+failed.Load()))
	return sample{
		pairsPerSecond: float64(ok.Load()) / took.Seconds(),
		allocs:         float64(after.Mallocs-before.Mallocs) / n,
		bytes:          float64(after.TotalAlloc-before.TotalAlloc) / n,
		client:         float64(client.Microseconds()) / n,
		servers:        float64(serverUse.Microseconds()) / n,
		dials:          1000 * float64(dials.Load()-dialsBefore) / n,
		failed:         failed.Load(),
	}
}

// serverTime is the processor time that the servers have used so far; 0 where one
// does not tell.
func serverTime(servers []*testutil.Server) time.Duration {
	var seconds float64
	for _, s := range servers {
		info, err := redis.String(s.Do("INFO", "cpu"))
		if err != nil {
			return 0
		}
		fields := infoFields(info)
		for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
			used, err := strconv.ParseFloat(fields[name], 64)
			if err != nil {
				return 0
			}
			seconds += used
		}
	}
	return time.Duration(seconds * float64(time.Second))
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

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
)

const (
	takers          = 64
	warmUpLocks     = 20 // of each taker
	heldHeapTarget  = 2560.0
	heldTargetLocks = 5000 // of fewer, what all share is the larger part
	sampleEvery     = 5 * time.Millisecond
	// crowdGone is longer than any side keeps goroutines for the next request.
	crowdGone = 3 * time.Second
	// How long one request may take on a machine that is the servers' as well is not
	// the point.
	heldTimeout = 2 * time.Second

	colHeap       = "heap"
	colMemory     = "heap and stacks"
	colGoroutines = "goroutines"
	colPerSecond  = "commands/s"
	colLost       = "lost"
)

// A holder holds and renews locks.
type holder struct {
	name    string
	servers []*testutil.Server
	// hold takes a lock and keeps it. lost reports whether it was lost; let releases it.
	hold  func(name string) (lost func() bool, let func() error, err error)
	close func() error
}

// held is one process with very many locks, all of them renewed.
func held(o *options) (all []*result, err error) {
	r := &result{
		Name:  "held",
		Title: fmt.Sprintf("%d locks held and renewed for %v", o.locks, o.heldFor),
		Note: fmt.Sprintf("%d nodes, over rueidis, expiry %v, one run. redsync does not renew: a goroutine for each lock extends it at a third of the expiry. "+
			"Goroutines are those there between renewals, less those there before.", o.nodes, peerExpiry),
		Columns: []column{
			{Name: colHeap, Unit: "B/lock", Better: "lower"},
			{Name: colMemory, Unit: "B/lock", Better: "lower"},
			{Name: colGoroutines, Better: "lower"},
			{Name: colPerSecond, Unit: "commands/s", Better: "lower"},
			{Name: colLost, Better: "lower"},
		},
		Charts: []string{colMemory, colGoroutines},
	}
	servers, stop, err := start(o.nodes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for _, make := range []func([]*testutil.Server) (*holder, error){redlockHolder, redsyncHolder, rueidislockHolder} {
		if o.stopped() {
			return nil, errStopped
		}
		h, err := make(servers)
		if err != nil {
			return nil, err
		}
		if o.wants(h.name) {
			err = h.measure(o, r.row("", h.name))
		}
		if err := errors.Join(err, h.close()); err != nil {
			return nil, fmt.Errorf("%s: %w", h.name, err)
		}
	}
	if n := r.value("", nameRedlock, colLost); !math.IsNaN(n) {
		r.check(n == 0, "%.0f locks lost; target: none", n)
	}
	if b := r.value("", nameRedlock, colHeap); !math.IsNaN(b) && o.locks >= heldTargetLocks {
		r.check(b <= heldHeapTarget, "%.0f bytes of heap for each lock; target: at most %.0f", b, heldHeapTarget)
	}
	return []*result{r}, nil
}

func redlockHolder(servers []*testutil.Server) (*holder, error) {
	us, err := newOurs(openRueidis, addresses(servers))
	if err != nil {
		return nil, err
	}
	return &holder{nameRedlock, servers, func(name string) (func() bool, func() error, error) {
		m := us.NewMutex(name, redlock.WithNodeTimeout(heldTimeout))
		ctx, err := m.Hold(context.Background())
		return func() bool { return ctx.Err() != nil }, func() error { _, err := m.Unlock(); return err }, err
	}, us.close}, nil
}

// redsyncHolder renews as its users do.
func redsyncHolder(servers []*testutil.Server) (*holder, error) {
	them, err := newTheirs(openRueidis, addresses(servers))
	if err != nil {
		return nil, err
	}
	return &holder{nameRedsync, servers, func(name string) (func() bool, func() error, error) {
		m := them.NewMutex(name, redsync.WithTimeoutFactor(float64(heldTimeout)/float64(peerExpiry)))
		if err := m.Lock(); err != nil {
			return nil, nil, err
		}
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() { // ends with stop
			defer close(stopped)
			ticker := time.NewTicker(peerExpiry / 3)
			defer ticker.Stop()
			for {
				select {
				case <-stop:
					return
				case <-ticker.C:
					_, _ = m.Extend() // Until tells
				}
			}
		}()
		return func() bool { return !time.Now().Before(m.Until()) }, func() error {
			close(stop)
			<-stopped
			_, err := m.Unlock()
			return err
		}, nil
	}, them.close}, nil
}

func rueidislockHolder(servers []*testutil.Server) (*holder, error) {
	l, err := newLocker(servers[0].Addr())
	if err != nil {
		return nil, err
	}
	return &holder{nameRueidislock, servers[:1], func(name string) (func() bool, func() error, error) {
		ctx, cancel, err := l.TryWithContext(context.Background(), name)
		return func() bool { return ctx.Err() != nil }, func() error { cancel(); return nil }, err
	}, func() error { l.Close(); return nil }}, nil
}

// heldLock is one that a holder has.
type heldLock struct {
	lost func() bool
	let  func() error
}

// measure takes the locks, keeps them for a while, and lets them go.
func (h *holder) measure(o *options, w *row) error {
	// Connections and the goroutines of a crowd are not the locks'.
	if err := h.eachOf(takers*warmUpLocks, func(i int) error {
		_, let, err := h.hold(fmt.Sprintf("bench:warm:%d", i))
		if err != nil {
			return err
		}
		return let()
	}); err != nil {
		return err
	}
	time.Sleep(crowdGone)
	before, goroutines := memoryInUse(), runtime.NumGoroutine()
	locks := make([]heldLock, o.locks)
	if err := h.eachOf(o.locks, func(i int) (err error) {
		locks[i].lost, locks[i].let, err = h.hold(fmt.Sprintf("bench:held:%05d", i))
		return err
	}); err != nil {
		return err
	}
	commands, from := commandsOf(h.servers), time.Now()
	quiet := o.quietest(o.heldFor)
	rate := (commandsOf(h.servers) - commands) / time.Since(from).Seconds()
	after := memoryInUse()
	heap := float64(int64(after.HeapAlloc) - int64(before.HeapAlloc))
	stacks := float64(int64(after.StackInuse) - int64(before.StackInuse))
	w.add(colHeap, heap/float64(o.locks))
	w.add(colMemory, (heap+stacks)/float64(o.locks))
	w.add(colGoroutines, float64(quiet-goroutines))
	w.add(colPerSecond, rate)
	lost := 0
	for _, l := range locks {
		if l.lost() {
			lost++
		}
	}
	w.add(colLost, float64(lost))
	err := h.eachOf(o.locks, func(i int) error { return locks[i].let() })
	if lost > 0 {
		return nil // then some are not there to be released
	}
	return err
}

// quietest is the least number of goroutines in a time.
func (o *options) quietest(d time.Duration) int {
	least := runtime.NumGoroutine()
	end := time.NewTimer(d)
	defer end.Stop()
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			least = min(least, runtime.NumGoroutine())
		case <-end.C:
			return least
		case <-o.stop:
			return least
		}
	}
}

// eachOf calls f for 0 to n-1, by as many goroutines as there are takers.
func (h *holder) eachOf(n int, f func(i int) error) error {
	errs := make([]error, takers)
	var all sync.WaitGroup
	for t := range takers {
		all.Go(func() {
			for i := t; i < n && errs[t] == nil; i += takers {
				errs[t] = f(i)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// memoryInUse is what is reachable.
func memoryInUse() (s runtime.MemStats) {
	for range 3 { // finalizers and pools are given up in steps
		runtime.GC()
	}
	runtime.ReadMemStats(&s)
	return s
}

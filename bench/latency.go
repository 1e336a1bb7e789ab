package main

import (
	"errors"
	"time"
)

// latencies of one run of pairs, in milliseconds.
type latencies struct{ lock, unlock []float64 }

// Columns of latencies.
const (
	colLock50   = "lock p50"
	colLock99   = "lock p99"
	colUnlock50 = "unlock p50"
	colUnlock99 = "unlock p99"
)

var latencyColumns = []column{
	{Name: colLock50, Unit: "ms", Digits: 2, Better: "lower"},
	{Name: colLock99, Unit: "ms", Digits: 2, Better: "lower"},
	{Name: colUnlock50, Unit: "ms", Digits: 2, Better: "lower"},
	{Name: colUnlock99, Unit: "ms", Digits: 2, Better: "lower"},
}

// addTo appends a run to a row.
func (l latencies) addTo(w *row) {
	w.add(colLock50, quantile(l.lock, 0.5))
	w.add(colLock99, quantile(l.lock, 0.99))
	w.add(colUnlock50, quantile(l.unlock, 0.5))
	w.add(colUnlock99, quantile(l.unlock, 0.99))
}

// mutex is what both libraries have.
type mutex interface {
	Lock() error
	Unlock() (bool, error)
}

// timed locks and unlocks until a duration has passed and at least a number of
// pairs is done.
func timed(o *options, m mutex, d time.Duration, least int) (latencies, error) {
	var l latencies
	var errs error
	end := time.Now().Add(d)
	for n := 0; (n < least || time.Now().Before(end)) && !o.stopped(); n++ {
		started := time.Now()
		err := m.Lock()
		locked := time.Now()
		if err != nil {
			// One is enough to say that the figures are not clean; at the end of
			// bounded time all the same.
			errs = err
			if time.Now().After(end) {
				break
			}
			continue
		}
		_, err = m.Unlock()
		unlocked := time.Now()
		if err != nil {
			errs = err
		}
		l.lock = append(l.lock, ms(locked.Sub(started)))
		l.unlock = append(l.unlock, ms(unlocked.Sub(locked)))
	}
	if len(l.lock) == 0 && errs == nil {
		errs = errStopped
	}
	return l, errs
}

// timedWithin is timed, of a library whose verbs may take for ever. When the duration
// is over and a verb has not returned for a time of patience, it calls heal, which must make
// pending calls return, and waits for that; complete is false then.
func timedWithin(o *options, m mutex, patience time.Duration, heal func() error) (l latencies, complete bool, err error) {
	type result struct {
		l   latencies
		err error
	}
	quit := make(chan struct{})
	quitting := *o
	quitting.stop = quit
	done := make(chan result, 1)
	go func() { // ends with the verb that it is in, once healed
		l, err := timed(&quitting, m, o.duration, 1)
		done <- result{l, err}
	}()
	timer := time.NewTimer(o.duration + patience)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.l, true, r.err
	case <-timer.C:
	case <-o.stop:
	}
	close(quit)
	if err := heal(); err != nil {
		return latencies{}, false, err
	}
	giveUp := time.NewTimer(closeBound)
	defer giveUp.Stop()
	select {
	case <-done:
		return latencies{}, false, nil
	case <-giveUp.C:
		return latencies{}, false, errors.New("a pair is still pending after the fault was healed")
	}
}

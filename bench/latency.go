package main

import (
	"errors"
	"fmt"
	"time"
)

// latencies of one run of pairs, in milliseconds.
type latencies struct{ lock, unlock []float64 }

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
	return l, errs
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// firstPairs times a few pairs of a library whose verbs may take seconds, or for
// ever. After the limit it calls heal, which must make pending calls return, and
// waits for that; complete is false then.
func firstPairs(o *options, m mutex, pairs int, limit time.Duration, heal func() error) (l latencies, complete bool, err error) {
	type result struct {
		l   latencies
		err error
	}
	quit := make(chan struct{})
	quitting := *o
	quitting.stop = quit
	done := make(chan result, 1)
	go func() {
		l, err := timed(&quitting, m, 0, pairs)
		done <- result{l, err}
	}()
	timer := time.NewTimer(limit)
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

// took is a median for the table, or the limit that was not enough.
func took(v []float64, complete bool, limit time.Duration) string {
	if !complete {
		return fmt.Sprintf("> %.0f", ms(limit))
	}
	return milliseconds(median(v))
}

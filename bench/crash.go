package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	crashRounds = 20
	crashExpiry = 500 * time.Millisecond
	crashTarget = 10.0 // ms, median
)

// crash is a waiter whose holder dies: how long after the expiry it has the lock.
func crash(o *options) (err error) {
	servers, stop, err := start(o.nodes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	us, err := newOurs(addresses(servers))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, us.close()) }()
	var late []float64
	for i := range crashRounds {
		if o.stopped() {
			return nil
		}
		name := fmt.Sprintf("bench:crash:%d", i)
		// What a dead holder leaves is a key with a time to live.
		for _, s := range servers {
			if _, err := s.Do("SET", name, "dead.holder.1", "PX", crashExpiry.Milliseconds()); err != nil {
				return err
			}
		}
		ends := time.Now().Add(crashExpiry)
		ctx, cancel := context.WithTimeout(context.Background(), closeBound)
		m := us.NewMutex(name)
		err := m.LockContext(ctx)
		late = append(late, ms(time.Since(ends)))
		cancel()
		if err != nil {
			return err
		}
		if _, err := m.Unlock(); err != nil {
			return err
		}
	}
	table(o, fmt.Sprintf("dead holder: %d nodes, expiry %v, next grant after the expiry", o.nodes, crashExpiry), [][]string{
		{"", "p50 ms", "worst ms"}, {"redlock", milliseconds(median(late)), milliseconds(quantile(late, 1))},
	})
	target(o, median(late) <= crashTarget, "median %.1f ms; target: at most %.0f", median(late), crashTarget)
	return nil
}

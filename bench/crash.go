package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/quorumlock/redlock/internal/testutil"
)

const (
	crashExpiry = 500 * time.Millisecond
	crashTarget = 10.0 // ms, median
	colWorst    = "worst"
)

// crash is a waiter whose holder dies: how long after the expiry it has the lock.
func crash(o *options) ([]*result, error) {
	r := &result{
		Name:  "crash",
		Title: fmt.Sprintf("A dead holder on %d nodes: from its expiry to the next grant", o.nodes),
		Note: fmt.Sprintf("Expiry %v, %d times in each run, over redigo. redislock tries every %v. "+
			"Who waits for %v gives up.", crashExpiry, o.crashRounds, redislockPause, closeBound),
		Columns: []column{
			{Name: colP50, Unit: "ms", Digits: 1, Better: "lower"},
			{Name: colWorst, Unit: "ms", Digits: 1, Better: "lower"},
			{Name: colGaveUp, Better: "lower"},
		},
		Charts: []string{colP50},
	}
	err := withCrowds(o, func(_ []*testutil.Server, all []crowd) error {
		for run := range o.runs {
			late, gaveUp := make([][]float64, len(all)), make([]float64, len(all))
			for i := range o.crashRounds {
				for j, c := range all {
					if o.stopped() {
						return errStopped
					}
					d, err := afterCrash(c, fmt.Sprintf("bench:crash:%s:%d:%d", c.name, run, i))
					switch {
					case errors.Is(err, errGaveUp):
						gaveUp[j]++
					case err != nil:
						return fmt.Errorf("%s: %w", c.name, err)
					default:
						late[j] = append(late[j], ms(d))
					}
				}
			}
			for j, c := range all {
				w := r.row("", c.name)
				if len(late[j]) > 0 { // else all gave up
					w.add(colP50, median(late[j]))
					w.add(colWorst, quantile(late[j], 1))
				}
				w.add(colGaveUp, gaveUp[j])
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if m := r.value("", nameRedlock, colP50); !math.IsNaN(m) {
		r.check(m <= crashTarget, "median %.1f ms; target: at most %.0f", m, crashTarget)
	}
	return []*result{r}, nil
}

// errGaveUp: a waiter had nothing by the bound.
var errGaveUp = errors.New("gave up")

// afterCrash is how long after the expiry of a dead holder a waiter has the lock.
func afterCrash(c crowd, name string) (time.Duration, error) {
	// What a dead holder leaves is a key with a time to live.
	var ends time.Time // when a majority is free
	for i, s := range c.servers {
		if _, err := s.Do("SET", c.key+name, "dead.holder.1", "PX", crashExpiry.Milliseconds()); err != nil {
			return 0, err
		}
		if i <= len(c.servers)/2 {
			ends = time.Now().Add(crashExpiry)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	unlock, err := c.worker(name, 0)(ctx)
	late := time.Since(ends)
	switch {
	case err != nil && ctx.Err() != nil:
		return 0, errGaveUp
	case err != nil:
		return 0, err
	}
	return late, unlock()
}

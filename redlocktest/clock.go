package redlocktest

import "time"

// A clock is the process's clock with an offset and a rate of its own.
type clock struct {
	anchor time.Time    // of the process
	base   time.Time    // what the node's clock showed then
	rate   float64      // its speed since
	frozen func() int64 // us; replaces all of it
}

func newClock() clock {
	now := time.Now()
	return clock{anchor: now, base: now, rate: 1}
}

func (c *clock) time() time.Time {
	if c.frozen != nil {
		return time.UnixMicro(c.frozen())
	}
	passed := time.Since(c.anchor)
	if c.rate != 1 {
		passed = time.Duration(float64(passed) * c.rate)
	}
	return c.base.Add(passed)
}

func (c *clock) micro() int64 { return c.time().UnixMicro() }

func (c *clock) setOffset(d time.Duration) {
	c.anchor = time.Now()
	c.base = c.anchor.Add(d)
}

func (c *clock) setRate(rate float64) {
	c.base = c.time()
	c.anchor = time.Now()
	c.rate = rate
}

package demo

import (
	"math"
	"sync/atomic"
	"time"
)

// histogram counts durations in steps of ten per cent, from 10 µs to about 20 s.
type histogram struct {
	buckets [160]atomic.Int64
	longest atomic.Int64
}

const (
	firstStep = 10 * time.Microsecond
	stepRatio = 1.1
)

func (h *histogram) add(d time.Duration) {
	i := 0
	if d > firstStep {
		i = int(math.Log(float64(d)/float64(firstStep))/math.Log(stepRatio)) + 1
	}
	h.buckets[min(i, len(h.buckets)-1)].Add(1)
	for {
		longest := h.longest.Load()
		if int64(d) <= longest || h.longest.CompareAndSwap(longest, int64(d)) {
			return
		}
	}
}

func (h *histogram) max() time.Duration { return time.Duration(h.longest.Load()) }

// quantile is the upper end of the step in which the q-th part lies.
func (h *histogram) quantile(q float64) time.Duration {
	var total int64
	for i := range h.buckets {
		total += h.buckets[i].Load()
	}
	rank, sum := int64(math.Ceil(q*float64(total))), int64(0)
	for i := range h.buckets {
		if sum += h.buckets[i].Load(); sum >= rank && rank > 0 {
			return min(time.Duration(float64(firstStep)*math.Pow(stepRatio, float64(i))), h.max())
		}
	}
	return 0
}

package main

import (
	"math"
	"slices"
	"time"
)

func median(v []float64) float64 { return quantile(v, 0.5) }

// quantile interpolates between the two nearest values; NaN of nothing.
func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Clone(v)
	slices.Sort(v)
	at := q * float64(len(v)-1)
	low := int(at)
	if low == len(v)-1 {
		return v[low]
	}
	return v[low] + (v[low+1]-v[low])*(at-float64(low))
}

// ratios are those within each run, whose median a machine with a drifting speed
// does not move. A run in which b was nothing has none.
func ratios(a, b []float64) []float64 {
	r := []float64{}
	for i := range min(len(a), len(b)) {
		if b[i] != 0 {
			r = append(r, a[i]/b[i])
		}
	}
	return r
}

func sum(v []int) (n int) {
	for _, x := range v {
		n += x
	}
	return n
}

// mean is NaN of nothing.
func mean(v []float64) float64 {
	total := 0.0
	for _, x := range v {
		total += x
	}
	return total / float64(len(v))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

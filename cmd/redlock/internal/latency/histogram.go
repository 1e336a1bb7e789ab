package latency

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// Quantile is the smallest sample that is at least as long as the q-th part of all.
func Quantile(samples []time.Duration, q float64) time.Duration {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

const barWidth = 40

// Histogram draws samples in steps of about a quarter, from the shortest to the
// longest, with the quantiles that matter.
func Histogram(w io.Writer, title string, samples []time.Duration) error {
	if len(samples) == 0 {
		_, err := fmt.Fprintf(w, "%s: no samples\n\n", title)
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d samples, p50 %s, p99 %s, max %s\n", title, len(samples),
		Short(Quantile(samples, 0.5)), Short(Quantile(samples, 0.99)), Short(Quantile(samples, 1)))
	buckets := split(samples)
	most := 0
	for _, bucket := range buckets {
		most = max(most, bucket.count)
	}
	for _, bucket := range buckets {
		// A sample must be seen, however many others there are.
		bar := (bucket.count*barWidth + most - 1) / most
		fmt.Fprintf(&b, "  up to %8s %7d  %s\n", Short(bucket.upTo), bucket.count, strings.Repeat("#", bar))
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}

type bucket struct {
	upTo  time.Duration
	count int
}

// steps of a decade: those of resistors, which readers find even.
var steps = []float64{1, 1.3, 1.6, 2, 2.5, 3.2, 4, 5, 6.3, 8}

// split counts samples; empty steps between others stay, so that a gap is seen.
func split(samples []time.Duration) []bucket {
	shortest, longest := Quantile(samples, 0), Quantile(samples, 1)
	var out []bucket
	for decade := float64(time.Microsecond); ; decade *= 10 {
		for _, step := range steps {
			upTo := time.Duration(decade * step)
			if upTo < shortest {
				continue
			}
			out = append(out, bucket{upTo: upTo})
			if upTo < longest {
				continue
			}
			for _, sample := range samples {
				i, _ := slices.BinarySearchFunc(out, sample, func(b bucket, d time.Duration) int { return int(b.upTo - d) })
				out[i].count++
			}
			return out
		}
	}
}

// Short is a duration with three digits.
func Short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.3g s", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.3g ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.3g µs", d.Seconds()*1e6)
}

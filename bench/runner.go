package main

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/testutil"
)

// A side is one of those compared.
type side struct {
	name string
	// pair makes the function that locks and unlocks one name, for one goroutine.
	pair func(name string) (func() error, error)
}

// sample is one round of one side.
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

// compare runs the sides in turn, after a warm-up of each, and returns the
// samples by side and round.
func compare(o *options, servers []*testutil.Server, workers int, sides []side) (map[string][]sample, error) {
	runs := map[string][]func() error{}
	for _, s := range sides {
		for w := range workers {
			f, err := s.pair(fmt.Sprintf("bench:%s:%d", s.name, w))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			runs[s.name] = append(runs[s.name], f)
		}
	}
	for _, s := range sides {
		load(o, nil, runs[s.name], min(o.duration, 300*time.Millisecond))
	}
	samples := map[string][]sample{}
	for range o.rounds {
		for _, s := range sides {
			if o.stopped() {
				return samples, nil
			}
			samples[s.name] = append(samples[s.name], load(o, servers, runs[s.name], o.duration))
			time.Sleep(settle)
		}
	}
	return samples, nil
}

// load has each function called in a loop of its own for a duration.
func load(o *options, servers []*testutil.Server, pairs []func() error, d time.Duration) sample {
	var before, after runtime.MemStats
	var ok, failed atomic.Int64
	runtime.GC() // nobody pays for another side's garbage
	runtime.ReadMemStats(&before)
	dialsBefore, serversBefore, clientBefore := dials.Load(), serverTime(servers), cpuTime()
	started := time.Now()
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
	took := time.Since(started)
	client, serverUse := cpuTime()-clientBefore, serverTime(servers)-serversBefore
	runtime.ReadMemStats(&after)
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

func column(samples []sample, of func(sample) float64) []float64 {
	var out []float64
	for _, s := range samples {
		out = append(out, of(s))
	}
	return out
}

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

// ratio is the median of the ratios within each round, which a machine whose
// speed drifts does not move.
func ratio(a, b []float64) float64 {
	var r []float64
	for i := range min(len(a), len(b)) {
		r = append(r, a[i]/b[i])
	}
	return median(r)
}

// table prints aligned columns below a title.
func table(o *options, title string, rows [][]string) {
	fmt.Fprintf(o.out, "\n%s\n", title)
	w := tabwriter.NewWriter(o.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t")+"\t")
	}
	_ = w.Flush() // to where Fprintf went
}

// target prints whether a figure reaches its target.
func target(o *options, met bool, format string, args ...any) {
	word := "PASS "
	if !met {
		word = "SHORT"
	}
	fmt.Fprintf(o.out, "  %s  %s\n", word, fmt.Sprintf(format, args...))
}

func milliseconds(ms float64) string {
	if math.IsNaN(ms) {
		return "-"
	}
	return fmt.Sprintf("%.2f", ms)
}

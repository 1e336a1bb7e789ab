// Command explore runs the model within its large bounds, and hunts each bad variant.
// It exits with 1 if an invariant does not hold or a variant is not found.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/model"
)

func main() {
	traces := flag.Bool("traces", false, "print the trace of each bad variant")
	flag.Parse()
	started := time.Now()
	failed := false

	fmt.Println("The protocol as written:")
	bounds := model.Large()
	states := 0
	each(len(bounds), func(i int) model.Result { return model.Explore(bounds[i].Config) }, func(i int, r model.Result) {
		states += r.States
		extent := "complete"
		if !r.Complete {
			extent = "begun"
		}
		verdict := "all invariants hold"
		if r.Broken != "" {
			failed, verdict = true, r.Broken+"\n"+strings.Join(r.Trace, "\n")
		}
		fmt.Printf("  %-62s %9d states, depth %2d, %-8s  %s\n", bounds[i].Name, r.States, r.Depth, extent, verdict)
	})
	fmt.Printf("  %-62s %9d states\n\n", "together", states)

	fmt.Println("Changes that break it:")
	hunts := model.Hunts()
	each(len(hunts), func(i int) model.Result { return model.Explore(hunts[i].Config) }, func(i int, r model.Result) {
		if r.Broken == "" {
			failed = true
			fmt.Printf("  %-62s NOT FOUND in %d states\n", hunts[i].Name, r.States)
			return
		}
		fmt.Printf("  %-62s found in %2d steps, %6d states: %s\n", hunts[i].Name, len(r.Trace), r.States, r.Broken)
		if *traces {
			fmt.Println("      " + strings.Join(r.Trace, "\n      "))
		}
	})
	fmt.Printf("\n%v\n", time.Since(started).Round(time.Second))
	if failed {
		os.Exit(1)
	}
}

// each runs n explorations, as many at once as there are processors, and reports them
// in order. Two at the most: they take memory.
func each(n int, run func(i int) model.Result, report func(i int, r model.Result)) {
	results := make([]chan model.Result, n)
	for i := range results {
		results[i] = make(chan model.Result, 1)
	}
	var next sync.Mutex
	todo := 0
	for range min(runtime.GOMAXPROCS(0), 2) {
		go func() {
			for {
				next.Lock()
				i := todo
				todo++
				next.Unlock()
				if i >= n {
					return
				}
				results[i] <- run(i)
			}
		}()
	}
	for i, result := range results {
		report(i, <-result)
	}
}

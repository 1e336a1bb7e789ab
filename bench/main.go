// Command bench compares redlock with other libraries, and with what a user would
// write by hand, on real redis-servers that it starts itself on loopback.
//
//	go run . [flags] [scenario ...]
//	go run . -runs 3 sequential handover
//	go run . -from FILE -svg FILE -markdown FILE
//
// All sides run in turn (A B C A B C …) on the same servers, for the speed of a
// machine drifts; figures are medians over the runs, and a ratio is the median of
// the ratios within each run. A line that falls short of its target says SHORT, and
// nothing fails: what a busy machine measures is no test.
//
// It is a module of its own, so that nobody who uses redlock compiles a rival.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the command line.
type options struct {
	sizes
	runs     int
	duration time.Duration
	nodes    int
	workers  int
	sides    []string // nil: all
	clients  []string // nil: all
	progress io.Writer
	stop     <-chan struct{} // closed when the user wants to leave
}

// sizes are what a scenario has besides; tests have smaller ones.
type sizes struct {
	waiters     []int
	fairFor     time.Duration
	crashRounds int
	leastPairs  int           // of redlock in each state of badnode
	wanPairs    int           // in each run
	patience    time.Duration // with a library that does not return
	locks       int
	heldFor     time.Duration
}

var fullSizes = sizes{
	waiters:     []int{1, 4, 8, 32, 128},
	fairFor:     5 * time.Second,
	crashRounds: 10,
	leastPairs:  200,
	wanPairs:    10,
	patience:    3 * time.Second,
	locks:       10_000,
	heldFor:     time.Minute,
}

func (o *options) stopped() bool {
	select {
	case <-o.stop:
		return true
	default:
		return false
	}
}

// wants reports whether a side is to be measured.
func (o *options) wants(side string) bool { return o.sides == nil || slices.Contains(o.sides, side) }

// wantsOver is wants where there is a choice of clients.
func (o *options) wantsOver(client, side string) bool {
	return o.wants(side) && (o.clients == nil || slices.Contains(o.clients, client))
}

// scenarios, in the order in which they run.
var scenarios = []struct {
	name string
	run  func(*options) ([]*result, error)
}{
	{"sequential", sequential},
	{"parallel", parallel},
	{"badnode", badNode},
	{"wan", wan},
	{"handover", handover},
	{"fairness", fairness},
	{"crash", crash},
	{"held", held},
}

func scenarioNames() (names []string) {
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	return names
}

var errStopped = errors.New("stopped, nothing is written")

func main() {
	// Servers must be closed on the way out, so an interrupt only ends the loops.
	stop := make(chan struct{})
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { // ends with the process
		<-signals
		close(stop)
		signal.Stop(signals) // a second one ends the process
	}()
	if err := run(os.Args[1:], fullSizes, stop, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// outputs are the files to write.
type outputs struct {
	from, json, svg, markdown string
	cpu, mem                  string
	note                      string
}

func parse(args []string, s sizes, stderr io.Writer) (*options, *outputs, []string, error) {
	o, f := &options{sizes: s, progress: stderr}, &outputs{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintf(stderr, "bench [flags] [%s]\n", strings.Join(scenarioNames(), "|"))
		flags.PrintDefaults()
	}
	flags.StringVar(&f.from, "from", "", "measure nothing, take the figures from this JSON `file`")
	flags.StringVar(&f.json, "json", "", "write the figures of every run to this `file`")
	flags.StringVar(&f.svg, "svg", "", "write the chart to this `file`")
	flags.StringVar(&f.markdown, "markdown", "", "write the tables to this `file`; where it has the markers, between them")
	flags.StringVar(&f.note, "note", "", "`words` that go with the figures wherever they are shown")
	flags.StringVar(&f.cpu, "cpuprofile", "", "write a CPU profile to this `file`")
	flags.StringVar(&f.mem, "memprofile", "", "write a profile of every allocation to this `file`")
	only := flags.String("side", "", "libraries to measure ("+nameRedlock+","+nameRedsync+","+nameBare+",…), by comma; all by default")
	clients := flags.String("client", "", "clients to measure in sequential and parallel (redigo,go-redis,rueidis,valkey-go), by comma; all by default")
	flags.IntVar(&o.runs, "runs", 5, "interleaved runs")
	flags.DurationVar(&o.duration, "duration", 2*time.Second, "time of each side in each run")
	flags.IntVar(&o.nodes, "nodes", 5, "redis-servers")
	flags.IntVar(&o.workers, "workers", 64, "goroutines in parallel")
	flags.IntVar(&o.locks, "locks", s.locks, "locks in held")
	flags.DurationVar(&o.heldFor, "held", s.heldFor, "time for which they are held")
	if err := flags.Parse(args); err != nil {
		return nil, nil, nil, err
	}
	if o.runs < 1 || o.duration <= 0 || o.nodes < 1 || o.workers < 1 || o.locks < 1 || o.heldFor <= 0 {
		return nil, nil, nil, errors.New("-runs, -duration, -nodes, -workers, -locks and -held must be above 0")
	}
	if *only != "" {
		o.sides = strings.Split(*only, ",")
	}
	if *clients != "" {
		o.clients = strings.Split(*clients, ",")
	}
	wanted := flags.Args()
	for _, name := range wanted {
		if !slices.Contains(scenarioNames(), name) {
			return nil, nil, nil, fmt.Errorf("no scenario %q; there are %s", name, strings.Join(scenarioNames(), ", "))
		}
	}
	if len(wanted) == 0 {
		wanted = scenarioNames()
	}
	return o, f, wanted, nil
}

// run is the command: measure or read, print, write.
func run(args []string, s sizes, stop <-chan struct{}, stdout, stderr io.Writer) error {
	o, files, wanted, err := parse(args, s, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	o.stop = stop
	var r *report
	var failed error
	if files.from != "" {
		r, err = readReport(files.from)
	} else {
		r, failed, err = measure(o, files, wanted)
	}
	if err != nil {
		return err
	}
	if files.note != "" {
		r.Note = files.note
	}
	if _, err := io.WriteString(stdout, markdown(r)); err != nil {
		return err
	}
	return errors.Join(failed, files.write(r))
}

// measure runs the scenarios. One that failed is not in the report, and does not take
// the others' figures away.
func measure(o *options, files *outputs, wanted []string) (r *report, failed, err error) {
	finish, err := profile(files.cpu, files.mem)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, finish()) }()
	if r, err = newReport(o); err != nil {
		return nil, nil, err
	}
	for _, s := range scenarios {
		if !slices.Contains(wanted, s.name) {
			continue
		}
		started := time.Now()
		results, err := s.run(o)
		if o.stopped() {
			return nil, nil, errStopped
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", s.name, err))
			continue
		}
		r.Results = append(r.Results, results...)
		fmt.Fprintf(o.progress, "%s: %v\n", s.name, time.Since(started).Round(time.Second))
	}
	return r, failed, nil
}

func (f *outputs) write(r *report) error {
	var errs []error
	if f.json != "" {
		errs = append(errs, r.writeTo(f.json))
	}
	if f.svg != "" {
		errs = append(errs, os.WriteFile(f.svg, []byte(chart(r)), 0o644)) // a page of the documentation
	}
	if f.markdown != "" {
		errs = append(errs, rewrite(f.markdown, markdown(r)))
	}
	return errors.Join(errs...)
}

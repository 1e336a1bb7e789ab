// Command bench compares redlock with redsync, and with what a user would write
// by hand, on real redis-servers that it starts itself on loopback.
//
//	go run . [-scenario sequential,parallel,badnode,wan,handover,fairness,crash] [-rounds 5] [-duration 2s] [-nodes 5]
//
// All sides run in turn (A B C A B C …) on the same servers in the same run, for
// the speed of a machine drifts; figures are medians over the rounds, and a ratio
// is the median of the ratios within each round. A line that falls short of its
// target says SHORT, and nothing fails: what a busy machine measures is no test.
//
// It is a module of its own, so that nobody who uses redlock compiles a rival.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/testutil"
)

// options are the command line.
type options struct {
	rounds   int
	duration time.Duration
	nodes    int
	workers  int
	only     []string
	out      io.Writer
	stop     <-chan struct{} // closed when the user wants to leave
}

func (o *options) stopped() bool {
	select {
	case <-o.stop:
		return true
	default:
		return false
	}
}

// scenarios, in the order in which they run.
var scenarios = []struct {
	name string
	run  func(*options) error
}{
	{"sequential", sequential},
	{"parallel", parallel},
	{"badnode", badNode},
	{"wan", wan},
	{"handover", handover},
	{"fairness", fairness},
	{"crash", crash},
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string) (err error) {
	var names []string
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	o := &options{out: os.Stdout}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	which := flags.String("scenario", strings.Join(names, ","), "scenarios to run, by comma")
	only := flags.String("side", "", "sides to run (redlock,redsync,bare), by comma; all by default. For profiles")
	cpu := flags.String("cpuprofile", "", "write a CPU profile to this file")
	mem := flags.String("memprofile", "", "write a profile of every allocation to this file")
	flags.IntVar(&o.rounds, "rounds", 5, "interleaved rounds")
	flags.DurationVar(&o.duration, "duration", 2*time.Second, "time of each side in each round")
	flags.IntVar(&o.nodes, "nodes", 5, "redis-servers in sequential and parallel")
	flags.IntVar(&o.workers, "workers", 64, "goroutines in parallel")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.rounds < 1 || o.duration <= 0 || o.nodes < 1 || o.workers < 1 {
		return fmt.Errorf("-rounds, -duration, -nodes and -workers must be above 0")
	}
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	// Servers must be closed on the way out, so an interrupt only ends the loops.
	stop := make(chan struct{})
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { // ends with the process
		<-signals
		close(stop)
		signal.Stop(signals) // a second one ends the process
	}()
	o.stop = stop

	finish, err := profile(*cpu, *mem)
	if err != nil {
		return err
	}
	defer func() {
		if e := finish(); err == nil {
			err = e
		}
	}()
	if err := header(o); err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, name := range strings.Split(*which, ",") {
		wanted[strings.TrimSpace(name)] = true
	}
	for _, s := range scenarios {
		if !wanted[s.name] || o.stopped() {
			delete(wanted, s.name)
			continue
		}
		delete(wanted, s.name)
		if err := s.run(o); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	for name := range wanted {
		return fmt.Errorf("no scenario %q; there are %s", name, strings.Join(names, ", "))
	}
	return nil
}

// header says what the figures were measured on.
func header(o *options) error {
	s, err := testutil.Start()
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // it only told its version
	info, err := redis.String(s.Do("INFO", "server"))
	if err != nil {
		return err
	}
	fmt.Fprintf(o.out, "machine  %s/%s, %d cores, %s\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	fmt.Fprintf(o.out, "server   %s, on loopback, nothing on disk\n", serverVersion(info))
	fmt.Fprintf(o.out, "peers    %s\n", strings.Join(versions(
		"github.com/go-redsync/redsync/v4", "github.com/gomodule/redigo", "github.com/redis/rueidis"), ", "))
	fmt.Fprintf(o.out, "figures  medians of %d interleaved rounds of %v a side\n", o.rounds, o.duration)
	return nil
}

// serverVersion reads INFO. Valkey reports the Redis version it is compatible
// with and its own beside it.
func serverVersion(info string) string {
	fields := infoFields(info)
	if name := fields["server_name"]; name != "" && name != "redis" {
		return name + " " + fields[name+"_version"]
	}
	return "redis-server " + fields["redis_version"]
}

// infoFields parses the reply to INFO.
func infoFields(info string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[key] = value
		}
	}
	return fields
}

func versions(modules ...string) []string {
	var found []string
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, want := range modules {
		for _, dep := range info.Deps {
			if dep.Path == want {
				found = append(found, strings.TrimPrefix(dep.Path, "github.com/")+" "+dep.Version)
			}
		}
	}
	return found
}

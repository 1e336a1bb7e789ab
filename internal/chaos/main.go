//go:build unix

// Command chaos runs real servers and client processes under faults, and checks what
// they saw: see docs/verification.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

func main() {
	if text := os.Getenv(clientEnv); text != "" {
		os.Exit(runClient(text, os.Stdin))
	}
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// Exit codes.
const (
	exitFine     = 0
	exitViolated = 1
	exitFailed   = 2 // the run could not be made
)

// request is what the command line asks for.
type request struct {
	settings
	expectViolation bool
	keep            bool
	namespace       bool
}

func parse(args []string, errs io.Writer) (*request, error) {
	r := &request{settings: settings{workers: 3, expiry: 1500 * time.Millisecond, pace: 200 * time.Millisecond, clocks: true, patient: true}}
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.DurationVar(&r.length, "for", time.Minute, "how long faults are made")
	flags.Uint64Var(&r.seed, "seed", 0, "what the faults follow from; 0: drawn")
	flags.IntVar(&r.clients, "clients", 6, "client processes")
	flags.IntVar(&r.nodes, "nodes", 5, "servers")
	names := flags.Int("names", 4, "names of locks")
	guard, namespace := true, true
	flags.Func("guard", "on or off: WithRestartGuard; off, nodes that lost their keys stay away for a while (on)", onOff(&guard))
	flags.Func("namespace", "on or off: packet filters in a network namespace, where possible (on)", onOff(&namespace))
	flags.BoolVar(&r.restartMajority, "restart-majority", false, "break the rules: restart a majority without keys, again and again, until that shows")
	flags.BoolVar(&r.expectViolation, "expect-violation", false, "exit with 0 if and only if a violation is found")
	flags.BoolVar(&r.keep, "keep", false, "keep the history of a good run, too")
	flags.StringVar(&r.dir, "out", filepath.Join(".cache", "chaos"), "directory for histories")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if r.clients < 1 || r.nodes < 1 || *names < 1 || r.length <= 0 {
		return nil, errors.New("-for, -clients, -nodes and -names must be above 0")
	}
	if guard {
		r.guard = shortestGuard
	}
	r.namespace = namespace
	for i := range *names {
		r.settings.names = append(r.settings.names, "lock-"+strconv.Itoa(i))
	}
	if r.seed == 0 {
		r.seed = rand.Uint64()>>32 | 1
	}
	return r, nil
}

// shortestGuard is the shortest longest hold that the guard takes; see WithRestartGuard.
const shortestGuard = 10*time.Second + time.Millisecond

func onOff(to *bool) func(string) error {
	return func(text string) error {
		*to = text == "on"
		if text != "on" && text != "off" {
			return errors.New("must be on or off")
		}
		return nil
	}
}

func command(args []string, out, errs io.Writer) int {
	r, err := parse(args, errs)
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitFine
		}
		fmt.Fprintln(errs, err)
		return exitFailed
	}
	if r.namespace {
		code, entered, err := enterNamespace(r.seed, args)
		if entered {
			return code
		}
		if err != nil {
			fmt.Fprintf(out, "no packet filters (%v): partitions are made by proxies alone\n", err)
		}
		r.filter = err == nil
	}
	if err := fastDisk(); err != nil {
		fmt.Fprintln(errs, "chaos:", err)
		return exitFailed
	}
	fmt.Fprintf(out, "seed %d: %d nodes, %d clients, %v, longest hold of the guard %v\n", r.seed, r.settings.nodes, r.clients, r.length, r.guard)
	res, err := run(r.settings, errs)
	if err != nil {
		fmt.Fprintln(errs, "chaos:", err)
		return exitFailed
	}
	return r.tell(res, out, errs)
}

// tell prints the result and turns it into an exit code. A history without a violation
// is kept only if asked for.
func (r *request) tell(res *result, out, errs io.Writer) int {
	res.Print(out)
	fmt.Fprintf(out, "counted  wrong at the end: %d\n", len(res.wrong))
	for _, what := range res.wrong {
		fmt.Fprintf(out, "         %s\n", what)
	}
	switch {
	case res.violated():
		fmt.Fprintf(out, "VIOLATED; seed %d, history in %s\n", r.seed, res.history)
	case res.failure != nil:
		fmt.Fprintf(out, "FAILED, with no promise broken so far: the nemesis: %v\nseed %d, history in %s\n", res.failure, r.seed, res.history)
		return exitFailed
	case res.Undecided():
		fmt.Fprintf(out, "UNDECIDED; seed %d, history in %s\n", r.seed, res.history)
		return exitFailed
	case r.keep:
		fmt.Fprintf(out, "all promises kept; history in %s\n", res.history)
	default:
		fmt.Fprintln(out, "all promises kept")
		if err := os.Remove(res.history); err != nil {
			fmt.Fprintln(errs, "chaos:", err)
			return exitFailed
		}
	}
	if res.violated() != r.expectViolation {
		return exitViolated
	}
	return exitFine
}

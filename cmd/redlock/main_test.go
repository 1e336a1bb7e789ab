//go:build unix

package main

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quorumlock/redlock/internal/testutil"
)

func TestMain(m *testing.M) {
	// Scripts mostly wait, for expiries and for other processes: more of them at once
	// than there are cores. A -parallel on the command line is parsed later and wins.
	if f := flag.Lookup("test.parallel"); f != nil && runtime.GOMAXPROCS(0) < 4 {
		f.Value.Set("4") //nolint:errcheck // a number
	}
	heedSignals()
	testscript.Main(m, map[string]func(){
		"redlock":     func() { os.Exit(redlockMain()) },
		"witness-job": func() { os.Exit(witnessJob()) },
	})
}

// heedSignals makes signals that whoever started the tests ignores (nohup, a shell's
// background) reach the commands of the scripts: redlock leaves ignored ones alone, and
// a child inherits what is ignored, but not what is caught.
func heedSignals() {
	if !strings.HasSuffix(strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe"), ".test") {
		return // one of the commands themselves
	}
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTERM} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// TestScripts runs the command line as a user does; see testdata.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:      "testdata",
		Deadline: time.Now().Add(3 * time.Minute), // a script that hangs must not wait for go test's own
		Condition: func(cond string) (bool, error) {
			return cond == "pdeathsig" && runtime.GOOS == "linux", nil
		},
		Setup: func(env *testscript.Env) error {
			env.Values[benchKey{}] = &bench{jobs: map[string]*job{}}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"nodes": startNodes, "node": changeNode, "free": awaitFree, "held": awaitHeld,
			"exits": exits, "within": within,
			"start": startJob, "signal": signalJob, "finish": finishJob, "await": awaitFile,
		},
	})
}

// bench is what one script has running.
type bench struct {
	nodes []*testutil.Server
	jobs  map[string]*job
}

type benchKey struct{}

func benchOf(ts *testscript.TestScript) *bench { return ts.Value(benchKey{}).(*bench) }

// bound is how long a script waits for anything: far more than it takes.
const bound = 30 * time.Second

// nodes N [redis-server arguments]: starts them and sets REDLOCK_NODES, NODE1, PORT1, ….
func startNodes(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	servers, err := testutil.StartN(n, args[1:]...)
	ts.Check(err)
	urls := make([]string, n)
	for i, s := range servers {
		ts.Defer(func() { ts.Check(s.Close()) })
		urls[i] = "redis://" + s.Addr()
		ts.Setenv("NODE"+strconv.Itoa(i+1), s.Addr())
		ts.Setenv("PORT"+strconv.Itoa(i+1), s.Addr()[len("127.0.0.1:"):])
	}
	ts.Setenv("REDLOCK_NODES", strings.Join(urls, ","))
	benchOf(ts).nodes = servers
}

// node kill|pause|resume NUMBER…
func changeNode(ts *testscript.TestScript, _ bool, args []string) {
	change := map[string]func(*testutil.Server) error{
		"kill": (*testutil.Server).Kill, "pause": (*testutil.Server).Pause, "resume": (*testutil.Server).Resume,
	}[args[0]]
	for _, arg := range args[1:] {
		n, err := strconv.Atoi(arg)
		ts.Check(err)
		ts.Check(change(benchOf(ts).nodes[n-1]))
	}
}

func nodesHolding(ts *testscript.TestScript, name string) (n int) {
	for _, s := range benchOf(ts).nodes {
		found, err := s.Do("EXISTS", name)
		ts.Check(err)
		n += int(found.(int64))
	}
	return n
}

// free NAME: waits until no node holds the lock, sooner than any TTL used here.
func awaitFree(ts *testscript.TestScript, _ bool, args []string) {
	if !testutil.Poll(5*time.Second, func() bool { return nodesHolding(ts, args[0]) == 0 }) {
		ts.Fatalf("%s is still held on %d nodes", args[0], nodesHolding(ts, args[0]))
	}
}

// held NAME: waits until all nodes hold the lock.
func awaitHeld(ts *testscript.TestScript, _ bool, args []string) {
	if !testutil.Poll(bound, func() bool { return nodesHolding(ts, args[0]) == len(benchOf(ts).nodes) }) {
		ts.Fatalf("%s is held on %d nodes only", args[0], nodesHolding(ts, args[0]))
	}
}

func codeOf(ts *testscript.TestScript, err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	ts.Check(err)
	return 0
}

// exits CODE COMMAND…
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := codeOf(ts, ts.Exec(args[1], args[2:]...)); got != want {
		ts.Fatalf("exit code %d, not %d", got, want)
	}
}

// within DURATION exits …
func within(ts *testscript.TestScript, neg bool, args []string) {
	limit, err := time.ParseDuration(args[0])
	ts.Check(err)
	started := time.Now()
	exits(ts, neg, args[2:])
	if took := time.Since(started); took > limit {
		ts.Fatalf("took %v, more than %v", took, limit)
	}
}

// job is a command that runs beside the script. Its output is in NAME.out, its
// errors in NAME.err.
type job struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // set before done is closed
}

// start NAME COMMAND…
func startJob(ts *testscript.TestScript, _ bool, args []string) {
	name := args[0]
	out, err := os.Create(ts.MkAbs(name + ".out"))
	ts.Check(err)
	defer out.Close() //nolint:errcheck // the command has its own descriptor
	errs, err := os.Create(ts.MkAbs(name + ".err"))
	ts.Check(err)
	defer errs.Close() //nolint:errcheck // as above
	path, err := exec.LookPath(args[1])
	ts.Check(err)
	j := &job{cmd: exec.Command(path, args[2:]...), done: make(chan struct{})}
	j.cmd.Stdout, j.cmd.Stderr, j.cmd.Dir = out, errs, ts.MkAbs(".")
	for _, key := range []string{"PATH", "HOME", "WORK", "TMPDIR", "REDLOCK_NODES", "REDIS_SERVER"} {
		j.cmd.Env = append(j.cmd.Env, key+"="+ts.Getenv(key))
	}
	ts.Check(j.cmd.Start())
	benchOf(ts).jobs[name] = j
	go func() {
		defer close(j.done)
		j.err = j.cmd.Wait()
	}()
	ts.Defer(func() {
		_ = j.cmd.Process.Kill() // it has ended, unless the script failed
		<-j.done
	})
}

var signalNumbers = map[string]syscall.Signal{
	"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL,
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
}

// signal NAME SIGNAL
func signalJob(ts *testscript.TestScript, _ bool, args []string) {
	sig, known := signalNumbers[args[1]]
	if !known {
		ts.Fatalf("unknown signal %s", args[1])
	}
	ts.Check(benchOf(ts).jobs[args[0]].cmd.Process.Signal(sig))
}

// finish NAME CODE
func finishJob(ts *testscript.TestScript, _ bool, args []string) {
	j := benchOf(ts).jobs[args[0]]
	select {
	case <-j.done:
	case <-time.After(bound):
		ts.Fatalf("%s is still running", args[0])
	}
	if got := strconv.Itoa(codeOf(ts, j.err)); got != args[1] {
		if got == "-1" {
			ts.Logf("%v", j.err)
		}
		errs, _ := os.ReadFile(ts.MkAbs(args[0] + ".err"))
		ts.Fatalf("exit code %s, not %s; its errors:\n%s", got, args[1], errs)
	}
}

// await FILE PATTERN: waits until a line of the file matches.
func awaitFile(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + args[1])
	var text []byte
	if !testutil.Poll(bound, func() bool {
		text, _ = os.ReadFile(ts.MkAbs(args[0])) // not there yet: not matched yet
		return pattern.Match(text)
	}) {
		ts.Fatalf("%s never matched %s:\n%s", args[0], args[1], text)
	}
}

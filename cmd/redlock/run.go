package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/redlock"
)

type runCommand struct {
	nodeFlags
	Name  string         `required:"" help:"Name of the lock."`
	TTL   time.Duration  `name:"ttl" default:"30s" help:"How long the lock outlives this process. It is renewed at a third of that."`
	Wait  *time.Duration `placeholder:"DURATION" help:"How long to wait for a busy lock; 0: not at all. By default for ever."`
	Grace time.Duration  `default:"5s" help:"When the lock is lost, how long the command has between TERM and KILL."`

	Command []string `arg:"" passthrough:"partial" name:"command" help:"The command and its arguments, after --. No shell is involved."`
}

func (*runCommand) Help() string {
	return `The command gets REDLOCK_NAME and REDLOCK_TOKEN (the fencing token) in its environment, and standard input,
output and error as they are. TERM, INT, HUP, QUIT, USR1 and USR2 are passed on to its whole process group. The lock is
renewed while it runs, and released when it ends.

When the lock is lost, its process group gets TERM and, after the grace, KILL. On Linux the command itself gets KILL when
this process is killed; elsewhere it goes on until it ends, while the lock runs out after --ttl.

Exit codes: the command's own, or

    64     usage
    69     no quorum of nodes
    75     the lock is busy
    79     the lock was lost
    126    the command cannot be executed
    127    the command was not found
    128+n  signal n ended the command, or the wait for the lock`
}

// Run is called by kong.
func (c *runCommand) Run(s streams) error {
	argv, err := c.argv()
	if err != nil {
		return err
	}
	opts := []redlock.Option{redlock.WithExpiry(c.TTL)}
	if c.Wait != nil && *c.Wait == 0 {
		opts = append(opts, redlock.WithTries(1))
	}
	service, err := c.service(s, opts...)
	if err != nil {
		return err
	}
	defer service.close()

	signals := newRelay()
	defer signals.stop()
	mutex := service.NewMutex(c.Name)
	held, err := c.acquire(mutex, signals)
	if err != nil {
		return err
	}
	return c.supervise(s, argv, mutex, held, signals)
}

// argv checks the command line before anybody waits for the lock.
func (c *runCommand) argv() ([]string, error) {
	argv := c.Command
	if len(argv) > 0 && argv[0] == "--" {
		argv = argv[1:]
	}
	switch {
	case len(argv) == 0 || argv[0] == "":
		return nil, usagef("no command to run")
	case c.Name == "":
		return nil, usagef("--name must not be empty")
	case c.Wait != nil && *c.Wait < 0:
		return nil, usagef("--wait must not be negative")
	case c.Grace < 0:
		return nil, usagef("--grace must not be negative")
	}
	_, err := exec.LookPath(argv[0])
	switch {
	case err == nil:
		return argv, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return nil, exitf(exitNotFound, "%s: command not found", argv[0])
	}
	return nil, exitf(exitNotExecutable, "%s: cannot be executed: %w", argv[0], unwrapped(err))
}

// unwrapped takes away os/exec's own quoting of the command.
func unwrapped(err error) error {
	var e *exec.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// Why waiting for the lock ended, as causes of its context.
var errWaitOver = errors.New("waited for as long as --wait allows")

type signalError struct{ number int }

func (e signalError) Error() string { return fmt.Sprintf("signal %d", e.number) }

// acquire waits for the lock until a signal or --wait ends it.
func (c *runCommand) acquire(mutex *redlock.Mutex, signals *relay) (context.Context, error) {
	// Not a deadline: the held context would end with it.
	ctx, cancel := context.WithCancelCause(context.Background())
	if c.Wait != nil && *c.Wait > 0 {
		timer := time.AfterFunc(*c.Wait, func() { cancel(errWaitOver) })
		defer timer.Stop()
	}
	acquired, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		signals.untilFatal(acquired, func(number int) { cancel(signalError{number}) })
	}()
	held, err := mutex.Hold(ctx)
	close(acquired)
	<-watched

	ended := context.Cause(ctx)
	if ended != nil && err == nil { // both at once
		_, _ = mutex.Unlock() // the wait is over, whatever it says
		err = ended
	}
	if err == nil {
		return held, nil
	}
	var signal signalError
	if errors.As(ended, &signal) {
		return nil, exitWith(exitSignal + signal.number)
	}
	return nil, c.refused(err)
}

// refused turns a failed acquire into its exit code and one line.
func (c *runCommand) refused(err error) error {
	var taken *redlock.TakenError
	switch {
	case errors.Is(err, redlock.ErrInvalidOption):
		return usagef("%w", err)
	case errors.As(err, &taken):
		return exitf(exitBusy, "%q is busy: %s", c.Name, holderLine(taken))
	case errors.Is(err, errWaitOver):
		return exitf(exitBusy, "%q is busy: %w", c.Name, err)
	case errors.Is(err, context.Canceled):
		return exitf(exitUnavailable, "%q: no quorum of nodes answered within --wait", c.Name)
	}
	return exitf(exitUnavailable, "%s", strings.TrimPrefix(err.Error(), "redlock: "))
}

func holderLine(t *redlock.TakenError) string {
	holder := "held by another kind of client"
	if t.Token != 0 {
		holder = fmt.Sprintf("held with token %d", t.Token)
	}
	if t.TTL < 0 {
		return holder + ", without an expiry"
	}
	return fmt.Sprintf("%s, for another %v unless renewed", holder, t.TTL.Round(time.Millisecond))
}

// supervise runs the command until it ends, and releases the lock.
func (c *runCommand) supervise(s streams, argv []string, mutex *redlock.Mutex, held context.Context, signals *relay) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.in, s.out, s.err
	cmd.Env = environment(os.Environ(), c.Name, mutex.Token())
	child, err := startChild(cmd)
	if err != nil {
		_, _ = mutex.Unlock() // the command's failure is what matters
		return exitf(exitNotExecutable, "%s: cannot be executed: %w", argv[0], err)
	}
	code, alive := 0, true
	for alive {
		select {
		case code = <-child.ended:
			alive = false
		case sig := <-signals.received:
			child.relay(sig)
		case sig := <-child.stopped:
			child.suspend(sig)
		case <-held.Done():
			why := context.Cause(held)
			fmt.Fprintf(s.err, "redlock: %v; ending the command\n", why)
			child.end(c.Grace)
			_, _ = mutex.Unlock() // frees what is left of it on a minority
			return exitWith(exitLost)
		}
	}
	child.close()
	// The clocks decide, not which channel was read first.
	lost := held.Err() != nil && errors.Is(context.Cause(held), redlock.ErrLost)
	if _, err := mutex.Unlock(); lost || errors.Is(err, redlock.ErrExpired) || errors.Is(err, redlock.ErrTaken) {
		return exitf(exitLost, "%q was lost while the command ran", c.Name)
	} else if err != nil {
		fmt.Fprintf(s.err, "redlock: the command has ended, but %q could not be released and stays held for up to %v: %s\n",
			c.Name, c.TTL, withoutPasswords(err.Error()))
	}
	return exitWith(code)
}

// environment is the command's: with the grant, and without the nodes' passwords.
func environment(base []string, name string, token int64) []string {
	env := slices.DeleteFunc(slices.Clone(base), func(entry string) bool {
		key, _, _ := strings.Cut(entry, "=")
		return key == nodesVariable || key == "REDLOCK_NAME" || key == "REDLOCK_TOKEN"
	})
	return append(env, "REDLOCK_NAME="+name, "REDLOCK_TOKEN="+strconv.FormatInt(token, 10))
}

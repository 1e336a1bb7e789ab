package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"time"

	"github.com/quorumlock/redlock"
)

type runCommand struct {
	nodeFlags
	Name  string         `required:"" help:"Name of the lock."`
	TTL   time.Duration  `name:"ttl" default:"30s" help:"How long the lock outlives this process. It is renewed at a third of that."`
	Wait  *time.Duration `placeholder:"DURATION" help:"How long to wait for a busy lock; 0: not at all. By default for ever."`
	Grace time.Duration  `default:"5s" help:"When the lock is lost, how long the command has between TERM and KILL."`

	HoldAtLeast time.Duration `placeholder:"DURATION" help:"Keep the lock for at least so long, although the command has ended: for a short cron job on machines whose clocks differ. TERM or INT end that wait."`
	Keep        bool          `help:"When the command succeeds, leave the lock held for another --ttl, or for the rest of --hold-at-least if that is longer, for redlock extend and unlock with the value of REDLOCK_VALUE."`
	BusyCode    int           `default:"75" help:"Exit code for a busy lock. With 0 nothing is said, either."`
	Verbose     bool          `short:"v" help:"Log to standard error."`

	Command []string `arg:"" passthrough:"partial" name:"command" help:"The command and its arguments, after --. No shell is involved."`
}

func (*runCommand) Help() string {
	return `The command gets REDLOCK_NAME, REDLOCK_TOKEN (the fencing token) and REDLOCK_VALUE (see --keep) in its environment,
and standard input, output and error as they are. TERM, INT, HUP, QUIT, USR1 and USR2 are passed on to its whole process
group. The lock is renewed while it runs, and released when it ends.

When the lock is lost, its process group gets TERM and, after the grace, KILL. On Linux the command itself gets KILL when
this process is killed; elsewhere it goes on until it ends, while the lock runs out after --ttl.

Exit codes: the command's own, or

    64     usage
    69     no quorum of nodes
    75     the lock is busy
    79     the lock was lost
    126    the command cannot be executed
    127    the command was not found
    128+n  signal n ended the command, or the wait for the lock

Examples:

    redlock run --name nightly-report -- ./report.sh
    redlock run --name deploy --wait 5m -- make deploy

In the crontab of every machine, where one of them is to run it and the others say nothing:

    0 3 * * * redlock run --nodes-file /etc/redlock.nodes --name cleanup --wait 0 --busy-code 0 --hold-at-least 1m -- cleanup`
}

// Run is called by kong.
func (c *runCommand) Run(s streams) error {
	argv, err := c.argv()
	if err != nil {
		return err
	}
	log := logger(s.err, c.Verbose)
	opts := []redlock.Option{redlock.WithExpiry(c.TTL), redlock.WithGenValueFunc(ownValue)}
	if c.Verbose {
		opts = append(opts, redlock.WithLogger(log))
	}
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
	log.Debug("waiting for the lock", "name", c.Name)
	held, err := c.acquire(mutex, signals)
	if held == nil {
		return err // nil where a busy lock is none
	}
	h := &holding{runCommand: c, s: s, log: log, mutex: mutex, held: held, signals: signals, since: time.Now()}
	log.Info("lock acquired", "name", c.Name, "token", mutex.Token(), "until", mutex.Until())
	return h.supervise(argv)
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
	case c.HoldAtLeast < 0:
		return nil, usagef("--hold-at-least must not be negative")
	case c.BusyCode < 0 || c.BusyCode > 255:
		return nil, usagef("--busy-code must be between 0 and 255")
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

// errWaitOver is a cause of the wait's context, as signalError is.
var errWaitOver = errors.New("waited for as long as --wait allows")

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
	if by := endedBy(ctx); by != nil {
		return nil, by
	}
	return nil, c.refused(err)
}

// refused turns a failed acquire into its exit code and one line.
func (c *runCommand) refused(err error) error {
	var taken *redlock.TakenError
	switch {
	case errors.Is(err, redlock.ErrInvalidOption):
		return flagError(err)
	case errors.As(err, &taken):
		return c.busy("%s", holderLine(taken))
	case errors.Is(err, errWaitOver):
		return c.busy("%w", err)
	case errors.Is(err, context.Canceled):
		return exitf(exitUnavailable, "%q: no quorum of nodes answered within --wait", c.Name)
	}
	return exitf(exitUnavailable, "%s", plain(err))
}

func (c *runCommand) busy(format string, args ...any) error {
	if c.BusyCode == 0 {
		return nil
	}
	return exitf(c.BusyCode, "%q is busy: "+format, append([]any{c.Name}, args...)...)
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

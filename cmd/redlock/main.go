// Command redlock runs jobs under a quorum lock, and shows one at work.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/alecthomas/kong"
)

// commands is the whole command line; each command has a file of its own.
type commands struct {
	Run    runCommand    `cmd:"" help:"Run a command while holding a lock."`
	Status statusCommand `cmd:"" help:"Show who holds a lock, and what each node knows of it."`
	Break  breakCommand  `cmd:"" help:"Take a lock away from a holder that does not come back."`
	Extend extendCommand `cmd:"" help:"Extend a lock that was handed over."`
	Unlock unlockCommand `cmd:"" help:"Release a lock that was handed over."`
	Doctor doctorCommand `cmd:"" help:"Look for set-ups of nodes that make a lock unsafe."`
	Dev    devCommand    `cmd:"" help:"Run throw-away nodes on this machine until Ctrl-C."`
	Bench  benchCommand  `cmd:"" help:"Measure lock, unlock and hand-over on your nodes."`
	Demo   demoCommand   `cmd:"" help:"Contend for a lock on five nodes while they fail, and check every grant."`

	Version    versionCommand    `cmd:"" help:"Print the version."`
	Completion completionCommand `cmd:"" help:"Print a completion script for a shell."`
	Help       helpCommand       `cmd:"" help:"Show the help of a command."`
}

// streams are what a command reads and writes.
type streams struct {
	in, out, err *os.File
}

func main() { os.Exit(redlockMain()) }

func redlockMain() int {
	return execute(os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
}

// helpShown ends parsing after --help: kong expects its exit function not to return.
type helpShown struct{ code int }

func execute(args []string, s streams) (code int) {
	defer func() {
		if r := recover(); r != nil {
			shown, ok := r.(helpShown)
			if !ok {
				panic(r)
			}
			code = shown.code
		}
	}()
	parser := kong.Must(&commands{},
		kong.Name("redlock"),
		kong.Description("Mutual exclusion over independent Redis or Valkey nodes."),
		kong.Writers(s.out, s.err),
		kong.Exit(func(code int) { panic(helpShown{code}) }),
		kong.UsageOnError(),
		kong.Bind(s),
	)
	if len(args) == 0 {
		args = []string{"--help"}
	}
	ctx, err := parser.Parse(args)
	if err != nil {
		return report(s.err, usagef("%w (redlock --help tells more)", err))
	}
	return report(s.err, ctx.Run())
}

// report prints an error in one line and returns the exit code it stands for.
func report(w io.Writer, err error) int {
	if err == nil {
		return 0
	}
	code := exitFailure
	var e *exitError
	if errors.As(err, &e) {
		code = e.code
	}
	if text := escaped(withoutPasswords(err.Error())); text != "" {
		if code == exitUsage {
			text = halfURL.ReplaceAllString(text, ":…@")
		}
		fmt.Fprintf(w, "redlock: %s\n", text)
	}
	return code
}

var (
	userinfo = regexp.MustCompile(`://[^\n]*@`)
	// halfURL is a URL that lacks its scheme, where arguments are wrong. Elsewhere a
	// name may look so.
	halfURL = regexp.MustCompile(`:/?[^\s/]\S*@`)
)

// withoutPasswords is the last guard: a URL in the wrong place, such as that of the
// command, is quoted by whoever trips over it.
func withoutPasswords(text string) string { return userinfo.ReplaceAllString(text, "://…@") }

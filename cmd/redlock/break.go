package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/quorumlock/redlock"
)

type breakCommand struct {
	nodeFlags
	Name string `arg:"" help:"Name of the lock."`
	Yes  bool   `short:"y" help:"Do not ask."`
}

func (*breakCommand) Help() string {
	return `For the holder that does not come back. One that does still runs believes in its lock until it next renews it: with run
that is a third of its --ttl, and then its command is ended. Until then only the fencing token keeps it out. The next
grant has a higher token.

Exit codes: 0 broken; 1 nobody holds it, or the answer was no; 64 usage, also without a terminal to ask on and without --yes;
69 no quorum of nodes; 75 another holder came between.

Examples:

    redlock break nightly-report
    redlock break --yes nightly-report`
}

// Run is called by kong.
func (c *breakCommand) Run(s streams) error {
	if err := needNames([]string{c.Name}); err != nil {
		return err
	}
	if !c.Yes && !isTerminal(s.in) {
		return usagef("no terminal to ask on: give --yes to break %q", c.Name)
	}
	service, err := c.service(s, redlock.WithNodeTimeout(patience))
	if err != nil {
		return err
	}
	defer service.close()
	if !c.Yes {
		if err := c.confirm(s, service); err != nil {
			return err
		}
	}
	ctx, stop := untilSignal()
	defer stop()
	err = service.Break(ctx, c.Name)
	switch {
	case err == nil:
		fmt.Fprintf(s.err, "redlock: %q is broken\n", c.Name)
		return nil
	case errors.Is(err, redlock.ErrNotHeld):
		return c.nothing()
	case errors.Is(err, redlock.ErrTaken):
		return exitf(exitBusy, "%q: another holder came between", c.Name)
	case ctx.Err() != nil:
		return endedBy(ctx)
	}
	return exitf(exitUnavailable, "%s", plain(err))
}

func (c *breakCommand) nothing() error {
	return exitf(exitFailure, "%q is free: there is nothing to break", c.Name)
}

// confirm shows what would be broken and asks. No signal is caught here: Ctrl-C at
// the question ends the process, and nothing was changed yet.
func (c *breakCommand) confirm(s streams, service *service) error {
	l := look(context.Background(), service, []string{c.Name})[0]
	switch {
	case l.err != nil:
		return exitf(exitUnavailable, "%s", plain(l.err))
	case l.state() == "free":
		return c.nothing()
	}
	fmt.Fprintf(s.err, "%s\nBreak it? [y/N] ", strings.Join(l.lines(), "\n"))
	answer, _ := bufio.NewReader(s.in).ReadString('\n') // the end of input is a no
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return exitf(exitFailure, "nothing was changed")
}

package main

import "github.com/alecthomas/kong"

type helpCommand struct {
	Command string `arg:"" optional:"" help:"A command."`
}

func (*helpCommand) Help() string {
	return `Examples:

    redlock help
    redlock help run`
}

// Run is called by kong.
func (c *helpCommand) Run(app *kong.Kong) error {
	args := []string{"--help"}
	if c.Command != "" {
		args = []string{c.Command, "--help"}
	}
	// The help of a command ends with kong's exit function; what comes back here is the
	// error of a command that does not exist.
	_, err := app.Parse(args)
	return usagef("%w (redlock help tells which there are)", err)
}

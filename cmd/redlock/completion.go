package main

import (
	"io"

	"github.com/alecthomas/kong"

	"github.com/quorumlock/redlock/cmd/redlock/internal/completion"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"One of bash, zsh, fish."`
}

func (*completionCommand) Help() string {
	return `Prints a script that completes commands and flags.

Examples:

    redlock completion bash >/etc/bash_completion.d/redlock
    redlock completion zsh >"${fpath[1]}/_redlock"
    redlock completion fish >~/.config/fish/completions/redlock.fish

    source <(redlock completion bash)      # in this shell only`
}

// Run is called by kong.
func (c *completionCommand) Run(s streams, app *kong.Kong) error {
	_, err := io.WriteString(s.out, completion.Script(c.Shell, app.Model))
	return err
}

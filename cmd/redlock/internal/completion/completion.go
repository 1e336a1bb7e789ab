// Package completion writes shell scripts that complete a command line which kong
// parses.
package completion

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// Script is for bash, zsh or fish; "" for any other shell.
func Script(shell string, app *kong.Application) string {
	m := read(app)
	switch shell {
	case "bash":
		return m.bash()
	case "zsh":
		return m.zsh()
	case "fish":
		return m.fish()
	}
	return ""
}

// model is what of kong's is completed.
type model struct {
	name     string
	commands []command
}

type command struct {
	name, help string
	flags      []flag
	words      []string // that a positional argument can be
	nested     bool     // what follows -- is a command line of its own
}

type flag struct {
	name, help string
	short      string
	takesValue bool
	file       bool
}

func read(app *kong.Application) model {
	m := model{name: app.Name}
	for _, node := range app.Leaves(true) {
		c := command{name: node.Name, help: sentence(node.Help)}
		for _, group := range node.AllFlags(true) {
			for _, f := range group {
				add := flag{name: f.Name, help: sentence(f.Help), takesValue: !f.IsBool() && !f.IsCounter()}
				if f.Short != 0 {
					add.short = string(f.Short)
				}
				add.file = strings.EqualFold(f.PlaceHolder, "FILE")
				c.flags = append(c.flags, add)
			}
		}
		for _, p := range node.Positional {
			if p.Enum != "" {
				c.words = append(c.words, p.EnumSlice()...)
			}
			c.nested = c.nested || p.Passthrough
		}
		m.commands = append(m.commands, c)
	}
	for i := range m.commands {
		if m.commands[i].name == "help" {
			m.commands[i].words = m.names()
		}
	}
	return m
}

// sentence is the first one: completion menus have one line for each choice.
func sentence(help string) string {
	if i := strings.IndexAny(help, ".:;"); i > 0 {
		help = help[:i]
	}
	return help
}

func (m model) names() []string {
	names := make([]string, len(m.commands))
	for i, c := range m.commands {
		names[i] = c.name
	}
	return names
}

// pick is the names of those flags for which ok holds, with their dashes.
func (c command) pick(ok func(flag) bool) []string {
	var names []string
	for _, f := range c.flags {
		if !ok(f) {
			continue
		}
		names = append(names, "--"+f.name)
		if f.short != "" {
			names = append(names, "-"+f.short)
		}
	}
	return names
}

// quote makes one word of a shell that ends single quotes as POSIX does.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func writef(b *strings.Builder, format string, args ...any) { fmt.Fprintf(b, format, args...) }

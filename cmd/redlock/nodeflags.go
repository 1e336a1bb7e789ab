package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"unicode"

	"golang.org/x/term"
)

const nodesVariable = "REDLOCK_NODES"

// nodeFlags say which nodes a command talks to.
type nodeFlags struct {
	Node           []string `sep:"none" placeholder:"URL" help:"A node, repeated for each: redis://host[:port][/db], rediss://… for TLS, or unix:///path?db=N. Options: ?dial_timeout=1s&read_timeout=2s&write_timeout=2s. Without --node and --nodes-file, $REDLOCK_NODES: URLs with commas or spaces between."`
	NodesFile      string   `placeholder:"FILE" help:"A file with the nodes' URLs, one a line; # starts a comment. The place for passwords: redis://user:password@host."`
	PasswordPrompt bool     `help:"Ask on the terminal for the password of all nodes whose URL has none; redis://user:@host names the user alone."`
}

// endpoints reads the nodes' URLs. Its errors name a node by its place and quote
// nothing: a URL that does not parse may have its password anywhere.
func (f nodeFlags) endpoints(s streams) ([]endpoint, error) {
	urls, err := f.urls()
	if err != nil {
		return nil, err
	}
	seen := map[string]string{}
	all := make([]endpoint, len(urls))
	for i, u := range urls {
		e, err := parseEndpoint(u.text)
		if err != nil {
			return nil, usagef("%s: %w", u.place, err)
		}
		if e.password != "" && len(f.Node) > 0 {
			return nil, usagef("%s: ps shows a password that stands here to everybody: use --nodes-file, %s or --password-prompt", u.place, nodesVariable)
		}
		// A node that votes twice makes a majority of a minority.
		if first, twice := seen[e.address]; twice {
			return nil, usagef("%s: the same node as %s", u.place, first)
		}
		seen[e.address] = u.place
		all[i] = e
	}
	if f.PasswordPrompt {
		return all, askPassword(s, all)
	}
	return all, nil
}

// nodeURL is a URL and the words that errors have for it.
type nodeURL struct{ text, place string }

func (f nodeFlags) urls() ([]nodeURL, error) {
	var urls []nodeURL
	add := func(text, format string, args ...any) {
		urls = append(urls, nodeURL{text, fmt.Sprintf(format, args...)})
	}
	switch {
	case len(f.Node) > 0 && f.NodesFile != "":
		return nil, usagef("--node and --nodes-file exclude each other")
	case len(f.Node) > 0:
		for i, text := range f.Node {
			add(text, "--node, URL %d", i+1)
		}
	case f.NodesFile != "":
		text, err := os.ReadFile(f.NodesFile)
		if err != nil {
			return nil, usagef("--nodes-file: %w", err)
		}
		// Editors of some systems put a byte order mark in front.
		for i, line := range strings.Split(strings.TrimPrefix(string(text), "\ufeff"), "\n") {
			if line = withoutComment(line); line != "" {
				add(line, "%s, line %d", f.NodesFile, i+1)
			}
		}
	default:
		between := func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) }
		for i, text := range strings.FieldsFunc(os.Getenv(nodesVariable), between) {
			add(text, "%s, URL %d", nodesVariable, i+1)
		}
	}
	if len(urls) == 0 {
		return nil, usagef("no nodes: give --node or --nodes-file, or set %s", nodesVariable)
	}
	return urls, nil
}

// withoutComment takes away a # and what follows, where it starts a line or comes after
// a space: no URL contains one, and a # inside a password stays part of it.
func withoutComment(line string) string {
	before := ' '
	for i, r := range line {
		if r == '#' && unicode.IsSpace(before) {
			line = line[:i]
			break
		}
		before = r
	}
	return strings.TrimSpace(line)
}

// askPassword asks once; five nodes with five passwords belong in a file.
func askPassword(s streams, all []endpoint) error {
	if !isTerminal(s.in) {
		return usagef("--password-prompt needs a terminal")
	}
	fmt.Fprint(s.err, "Password of the nodes: ")
	password, err := readPassword(s.in)
	fmt.Fprintln(s.err)
	if err != nil {
		return err
	}
	if len(password) == 0 {
		return usagef("--password-prompt: %w", errors.New("no password given"))
	}
	for i := range all {
		if all[i].password == "" {
			all[i].password = string(password)
		}
	}
	return nil
}

// readPassword reads a line that is not shown. A signal ends the process meanwhile,
// with the terminal as it was before.
func readPassword(from *os.File) ([]byte, error) {
	fd := int(from.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, usagef("--password-prompt: %w", err)
	}
	received := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(sig) {
			signal.Notify(received, sig)
		}
	}
	defer signal.Stop(received)
	type line struct {
		password []byte
		err      error
	}
	typed := make(chan line, 1)
	go func() { // ends with the line, or with the process that a signal ends
		password, err := term.ReadPassword(fd)
		typed <- line{password, err}
	}()
	select {
	case l := <-typed:
		if l.err != nil {
			return nil, usagef("--password-prompt: %w", l.err)
		}
		return l.password, nil
	case sig := <-received:
		_ = term.Restore(fd, before) // there is no other way to try
		return nil, exitWith(exitSignal + numberOf(sig))
	}
}

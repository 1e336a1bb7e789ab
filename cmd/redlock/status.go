package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/quorumlock/redlock"
)

type statusCommand struct {
	nodeFlags
	Names    []string      `arg:"" name:"name" help:"Names of locks."`
	JSON     bool          `name:"json" help:"Print one JSON object a lock, each in a line."`
	Watch    bool          `short:"w" help:"Look again and again until Ctrl-C: repainted on a terminal, elsewhere a line for each change."`
	Interval time.Duration `default:"1s" help:"How often --watch looks."`
}

func (*statusCommand) Help() string {
	return `Asks every node and changes nothing. A lock is held when a quorum of nodes holds the same value. The time is how long
until it is free unless its holder renews it, as run does.

Exit codes: 0 when each lock was shown, held or free; 64 usage; 69 when no quorum of nodes answered, after what the others said.

Examples:

    redlock status nightly-report
    redlock status --watch nightly-report deploy
    redlock status --json deploy | jq -r .value`
}

// Run is called by kong.
func (c *statusCommand) Run(s streams) error {
	if err := needNames(c.Names); err != nil {
		return err
	}
	if c.Interval < 10*time.Millisecond {
		return usagef("--interval must be at least 10ms")
	}
	service, err := c.service(s, redlock.WithNodeTimeout(patience))
	if err != nil {
		return err
	}
	defer service.close()
	ctx, stop := untilSignal()
	defer stop()
	if c.Watch {
		return c.watch(ctx, s, service)
	}
	looks := look(ctx, service, c.Names)
	if ctx.Err() != nil {
		return endedBy(ctx)
	}
	for i, l := range looks {
		switch {
		case c.JSON:
			err = l.json(s.out)
		case i > 0:
			_, err = fmt.Fprintf(s.out, "\n%s\n", strings.Join(l.lines(), "\n"))
		default:
			_, err = fmt.Fprintln(s.out, strings.Join(l.lines(), "\n"))
		}
		if err != nil {
			return err
		}
	}
	return firstError(looks)
}

func needNames(names []string) error {
	for _, name := range names {
		if name == "" {
			return usagef("the name of a lock must not be empty")
		}
	}
	return nil
}

func firstError(looks []sight) error {
	for _, l := range looks {
		if l.err != nil {
			return exitf(exitUnavailable, "%s", plain(l.err))
		}
	}
	return nil
}

// sight is what the nodes said of one lock. With an err it is not the whole truth.
type sight struct {
	*redlock.Status
	quorum int
	err    error
}

func look(ctx context.Context, service *service, names []string) []sight {
	out := make([]sight, len(names))
	for i, name := range names {
		status, err := service.Inspect(ctx, name)
		out[i] = sight{status, len(service.pools)/2 + 1, err}
	}
	return out
}

func (l sight) state() string {
	switch {
	case l.err != nil:
		return "unknown"
	case l.Held:
		return "held"
	case l.votes() > 0:
		return "contended" // or what is left of a holder that went away
	}
	return "free"
}

// holds reports whether a node holds the lock for anybody: a foreign client's value
// has no token, and where values cannot be read there is at least a token.
func holds(n redlock.NodeStatus) bool { return n.Err == nil && (n.Value != "" || n.Token != 0) }

// votes counts the nodes that hold the holder's value; without a holder, any value.
func (l sight) votes() (n int) {
	for _, node := range l.Nodes {
		if holds(node) && (!l.Held || node.Value == l.Value) {
			n++
		}
	}
	return n
}

// holder is the part of a value that its client chose: for run, host and process.
func holder(value string) string {
	parts := strings.Split(value, ".")
	if len(parts) < 3 {
		return value
	}
	return strings.Join(parts[:len(parts)-2], ".")
}

func life(d time.Duration) string {
	if d < 0 {
		return "for ever: it has no expiry"
	}
	return fmt.Sprintf("for another %v unless renewed", d.Round(time.Millisecond))
}

func (l sight) lines() []string {
	out := []string{shown(l.Name)}
	row := func(name, format string, args ...any) {
		out = append(out, fmt.Sprintf("  %-8s ", name)+fmt.Sprintf(format, args...))
	}
	if l.Held {
		row("held", "%s", life(l.TTL))
		row("holder", "%s", shown(holder(l.Value)))
		row("token", "%s", tokenText(l.Token))
		row("value", "%s", shown(l.Value))
	} else {
		row(l.state(), "%s", map[string]string{
			"unknown":   "too few nodes answered",
			"contended": "no value is held on a quorum of nodes",
			"free":      "nobody holds it",
		}[l.state()])
	}
	row("votes", "%d of %d nodes, %d needed", l.votes(), len(l.Nodes), l.quorum)
	row("waiters", "%d", l.Waiters)
	for _, n := range l.Nodes {
		row("node", "%s", nodeLine(n, l.Value))
	}
	return out
}

func tokenText(token int64) string {
	if token == 0 {
		return "none: held by another kind of client"
	}
	return fmt.Sprint(token)
}

func nodeLine(n redlock.NodeStatus, value string) string {
	var fault *redlock.NodeError
	addr := shown(n.Addr)
	switch {
	case errors.As(n.Err, &fault):
		return addr + "  " + shown(withoutPasswords(fault.Err.Error()))
	case !holds(n):
		return addr + "  free"
	case n.Value != value:
		return fmt.Sprintf("%s  held by %s, token %s", addr, shown(holder(n.Value)), tokenText(n.Token))
	case n.TTL < 0:
		return addr + "  held, never expires"
	}
	return fmt.Sprintf("%s  held, %v left", addr, n.TTL.Round(time.Millisecond))
}

// statusJSON is the form of --json. Fields may be added.
type statusJSON struct {
	Name    string     `json:"name"`
	State   string     `json:"state"` // held, free, contended, unknown
	Holder  string     `json:"holder,omitempty"`
	Value   string     `json:"value,omitempty"`
	Token   int64      `json:"token,omitempty"`
	TTL     *int64     `json:"ttl_ms,omitempty"` // negative: no expiry
	Votes   int        `json:"votes"`
	Quorum  int        `json:"quorum"`
	Waiters int        `json:"waiters"`
	Nodes   []nodeJSON `json:"nodes"`
	Error   string     `json:"error,omitempty"`
}

type nodeJSON struct {
	Addr    string `json:"addr"`
	Held    bool   `json:"held"`
	Value   string `json:"value,omitempty"`
	Token   int64  `json:"token,omitempty"`
	TTL     int64  `json:"ttl_ms,omitempty"`
	Fence   int64  `json:"fence,omitempty"` // highest token the node has seen
	Waiters int    `json:"waiters"`
	Error   string `json:"error,omitempty"`
}

func (l sight) json(w io.Writer) error {
	out := statusJSON{
		Name: l.Name, State: l.state(), Votes: l.votes(), Quorum: l.quorum, Waiters: l.Waiters, Error: errorText(l.err),
	}
	if l.Held {
		left := l.TTL.Milliseconds()
		out.Holder, out.Value, out.Token, out.TTL = holder(l.Value), l.Value, l.Token, &left
	}
	for _, n := range l.Nodes {
		out.Nodes = append(out.Nodes, nodeJSON{
			Addr: n.Addr, Held: holds(n), Value: n.Value, Token: n.Token, TTL: n.TTL.Milliseconds(),
			Fence: n.Fence, Waiters: n.Waiters, Error: errorText(n.Err),
		})
	}
	return json.NewEncoder(w).Encode(out)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return withoutPasswords(plain(err))
}

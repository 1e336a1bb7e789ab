package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/alicebob/miniredis/v2"
)

type devCommand struct {
	Nodes int `default:"3" help:"How many nodes."`
	Port  int `placeholder:"PORT" help:"Port of the first node, the others get the next ones. By default any free ports."`
}

const maxDevNodes = 100

func (*devCommand) Help() string {
	return `Runs throw-away nodes in this process, on 127.0.0.1, until Ctrl-C: to try the tool or to develop against, without a
server. They keep nothing, and have no INFO, so that the doctor can see little and the restart guard refuses them.

Examples:

    redlock dev
    redlock dev --nodes 5 --port 7001
    export REDLOCK_NODES=redis://127.0.0.1:7001,redis://127.0.0.1:7002,redis://127.0.0.1:7003,…`
}

// Run is called by kong.
func (c *devCommand) Run(s streams) error {
	switch {
	case c.Nodes < 1 || c.Nodes > maxDevNodes:
		return usagef("--nodes must be between 1 and %d", maxDevNodes)
	case c.Port < 0 || c.Port+c.Nodes > 65536:
		return usagef("--port must leave room for %d nodes below 65536", c.Nodes)
	}
	// Before the line is printed: whoever reads it may end this process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	urls := make([]string, c.Nodes)
	for i := range urls {
		node, err := startDevNode(c.Port, i)
		if err != nil {
			return exitf(exitUnavailable, "node %d: %w", i+1, err)
		}
		defer node.Close()
		urls[i] = "redis://" + node.Addr()
	}
	fmt.Fprintf(s.out, "export %s=%s\n", nodesVariable, strings.Join(urls, ","))
	fmt.Fprintf(s.err, "%d nodes on 127.0.0.1 until Ctrl-C\n", c.Nodes)
	<-ctx.Done()
	return nil
}

func startDevNode(first, index int) (*miniredis.Miniredis, error) {
	port := "0" // any that is free
	if first > 0 {
		port = strconv.Itoa(first + index)
	}
	node := miniredis.NewMiniRedis()
	node.ClockTTL(true) // else its time stands still, and no lock ever expires
	return node, node.StartAddr(net.JoinHostPort("127.0.0.1", port))
}

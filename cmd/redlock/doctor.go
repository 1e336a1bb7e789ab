package main

import (
	"context"
	"encoding/json"
	"net"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/redlock/pool/redigo"
)

type doctorCommand struct {
	nodeFlags
	TTL    time.Duration `name:"ttl" default:"30s" help:"The longest expiry of your locks: what a node may forget depends on it."`
	Guard  bool          `help:"All your clients use the restart guard (WithRestartGuard)."`
	Prefix string        `default:"redlock-doctor:" help:"What the names of the trial locks start with, for access rules on keys. The rest is random."`
	JSON   bool          `name:"json" help:"Print a JSON object."`
}

func (*doctorCommand) Help() string {
	return `Asks each node of its version, role, persistence, memory and clock, tries a lock on it with the library's own scripts,
and looks at all nodes together. Each verdict is a line: ok, warn or bad; what is not ok comes with what it means for a lock,
and with the line of redis.conf that mends it. It changes nothing but the trial locks. They are released at once; of each a key or two stays for up to 24 seconds (its fence,
and the tombstone of the one that was broken), with --guard one for up to 35 seconds. Where it is refused the right to release
them, the locks themselves stay for up to 4 seconds. --ttl has no part in that.

Nodes over TLS (rediss://) must have a certificate of an authority that this machine trusts. For one of your own, set
SSL_CERT_FILE to its certificate.

Exit codes: 0 all clear; 1 findings; 64 usage.

Examples:

    redlock doctor
    redlock doctor --nodes-file /etc/redlock.nodes --ttl 10m
    redlock doctor --json | jq '.findings[] | select(.verdict != "ok")'`
}

// Run is called by kong.
func (c *doctorCommand) Run(s streams) error {
	if c.TTL < 10*time.Millisecond {
		return usagef("--ttl must be at least 10ms")
	}
	endpoints, err := c.endpoints(s)
	if err != nil {
		return err
	}
	ctx, stop := untilSignal()
	defer stop()
	config := doctor.Config{TTL: c.TTL, Guard: c.Guard, Prefix: c.Prefix}
	for _, e := range endpoints {
		p := e.pool()
		defer p.Close() //nolint:errcheck // the process ends next
		config.Nodes = append(config.Nodes, doctor.Node{
			Addr: e.address, TLS: e.tls, Local: e.local(), Password: e.password != "", User: e.user,
			Dial: func(ctx context.Context) (redis.Conn, error) { return e.connect(ctx) },
			Pool: redigo.NewNamedPool(p, e.address),
		})
	}
	report := doctor.Examine(ctx, config)
	if ctx.Err() != nil {
		return endedBy(ctx)
	}
	if c.JSON {
		err = json.NewEncoder(s.out).Encode(report)
	} else {
		err = report.Print(s.out)
	}
	if err == nil && report.Verdict != doctor.OK {
		return exitWith(exitFailure)
	}
	return err
}

// local reports whether nothing for the node crosses a network.
func (e endpoint) local() bool {
	host, _, err := net.SplitHostPort(e.address)
	if e.network == "unix" || host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.IsLoopback()
}

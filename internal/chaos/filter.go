//go:build unix

package main

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync"
)

// filter is a packet filter of this process's own network namespace.
type filter struct {
	mu    sync.Mutex
	links []*link // guarded by mu
}

const filterTable = "redlock_chaos"

// openFilter reports what is missing.
func openFilter() (*filter, error) {
	f := &filter{}
	return f, f.apply()
}

// apply replaces all rules in one transaction: there is no moment without them.
func (f *filter) apply() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "add table ip %[1]s\nadd chain ip %[1]s in { type filter hook input priority 0; }\nflush chain ip %[1]s in\n", filterTable)
	for _, l := range f.links {
		for _, rule := range l.rules() {
			fmt.Fprintf(&b, "add rule ip %s in %s\n", filterTable, rule)
		}
	}
	nft := exec.Command("nft", "-f", "-")
	nft.Stdin = strings.NewReader(b.String())
	if out, err := nft.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, out)
	}
	return nil
}

// rules are those of the cuts that are made on the link now.
func (l *link) rules() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	host, port, err := net.SplitHostPort(l.addr)
	if err != nil {
		panic(err) // it was made by JoinHostPort
	}
	there := fmt.Sprintf("ip saddr %s ip daddr %s tcp dport %s", l.source, host, port)
	back := fmt.Sprintf("ip saddr %s ip daddr %s tcp sport %s", host, l.source, port)
	var rules []string
	for kind, n := range l.cuts {
		if n == 0 {
			continue
		}
		switch cut(kind) {
		case cutRequests:
			rules = append(rules, there+" drop")
		case cutReplies:
			rules = append(rules, back+" drop")
		case cutBoth:
			rules = append(rules, there+" drop", back+" drop")
		case cutReset:
			rules = append(rules, there+" reject with tcp reset")
		case cutLoss:
			rules = append(rules, there+" numgen random mod 100 < 40 drop", back+" numgen random mod 100 < 40 drop")
		}
	}
	return rules
}

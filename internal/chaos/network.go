//go:build unix

package main

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/testutil"
)

// cut is a way in which a link is broken.
type cut int

const (
	cutRequests cut = iota // what the client sends is lost
	cutReplies             // what the server sends is lost: it carries out requests
	cutBoth
	cutReset // refused, and broken where open
	cutLoss  // four packets in ten, at random: only with a filter
	cuts
)

func (c cut) String() string {
	return [...]string{"requests dropped", "replies dropped", "cut off", "reset", "packet loss"}[c]
}

// link is the way between a client and a node. Cuts of one link may overlap.
type link struct {
	source string          // the client's address; "" without a filter
	addr   string          // where the client connects
	proxy  *testutil.Proxy // nil when the client connects to the node itself

	mu   sync.Mutex
	cuts [cuts]int // guarded by mu
}

// network is all links.
type network struct {
	links   [][]*link // by client, then node
	filter  *filter   // nil: all faults are made by proxies
	proxies []*testutil.Proxy
}

// connect makes the links. Without a filter each link has a proxy; with one, those of
// every other client have, so that both the real and the slow network are there.
func connect(nodes []*node, clients int, f *filter) (*network, error) {
	n := &network{filter: f}
	for c := range clients {
		var links []*link
		for _, d := range nodes {
			l := &link{addr: d.addr}
			if f != nil {
				l.source = clientHost(c)
			}
			if f == nil || c%2 == 1 {
				p, err := testutil.NewProxy(d.server.Addr())
				if err != nil {
					n.close()
					return nil, err
				}
				n.proxies = append(n.proxies, p)
				l.proxy, l.addr = p, p.Addr()
			}
			links = append(links, l)
		}
		n.links = append(n.links, links)
		if f != nil {
			f.links = append(f.links, links...)
		}
	}
	return n, nil
}

func (n *network) close() {
	for _, p := range n.proxies {
		p.Close()
	}
}

// addrs is where a client finds the nodes.
func (n *network) addrs(client int) []string {
	var all []string
	for _, l := range n.links[client] {
		all = append(all, l.addr)
	}
	return all
}

// source is the address a client has to connect from.
func (n *network) source(client int) string { return n.links[client][0].source }

// around is the links of one node.
func (n *network) around(node int) []*link {
	var all []*link
	for _, links := range n.links {
		all = append(all, links[node])
	}
	return all
}

// slowable reports whether a client goes through proxies.
func (n *network) slowable(client int) bool { return n.links[client][0].proxy != nil }

// cut breaks links, or mends them again when by is -1.
func (n *network) cut(links []*link, kind cut, by int) error {
	for _, l := range links {
		if err := l.count(kind, by, n.filter == nil); err != nil {
			return err
		}
	}
	if n.filter != nil {
		return n.filter.apply()
	}
	return nil
}

func (l *link) count(kind cut, by int, atProxy bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cuts[kind] += by
	if !atProxy {
		return nil
	}
	l.proxy.DropRequests(l.cuts[cutRequests]+l.cuts[cutBoth] > 0)
	l.proxy.DropReplies(l.cuts[cutReplies]+l.cuts[cutBoth] > 0)
	return l.proxy.Refuse(l.cuts[cutReset] > 0)
}

// slow delays all that passes the link, and with jitter lets connections overtake each
// other. It returns the undoing.
func (l *link) slow(delay, jitter time.Duration) (undo func()) {
	l.proxy.Delay(delay, delay)
	l.proxy.Jitter(jitter)
	return func() {
		l.proxy.Delay(0, 0)
		l.proxy.Jitter(0)
	}
}

// reorder holds back one request in three until it is undone. Those that come later on
// other connections overtake them.
func (l *link) reorder(rng *rand.Rand) (undo func()) {
	h := l.proxy.Hold(func([]byte) bool { return rng.IntN(3) == 0 })
	return h.Release
}

// halfOpen has the link accept connections and answer nothing.
func (l *link) halfOpen() (undo func()) {
	l.proxy.HalfOpen(true)
	return func() { l.proxy.HalfOpen(false) }
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/pool/redigo"
)

const nodesVariable = "REDLOCK_NODES"

// nodeFlags say which nodes a command talks to.
type nodeFlags struct {
	Node []string `sep:"none" placeholder:"URL" help:"A node, repeated for each: redis://[user:password@]host[:port][/db], rediss://… for TLS, or unix:///path?db=N. Options: ?dial_timeout=1s&read_timeout=2s&write_timeout=2s. Without it, $REDLOCK_NODES: URLs with commas or spaces between."`
}

// endpoint is where and how to reach a node.
type endpoint struct {
	network, address   string
	user, password     string
	db                 int
	tls                bool
	dial, read, writes time.Duration
}

// Bounds that a URL may override. Each request has a shorter one of its own, from
// the expiry; these are for a node that swallows packets while one connects.
const (
	defaultDialTimeout = time.Second
	defaultIOTimeout   = 2 * time.Second
)

// endpoints reads the nodes' URLs. Its errors name a node by its place and quote
// nothing: a URL that does not parse may have its password anywhere.
func (f nodeFlags) endpoints() ([]endpoint, error) {
	urls, from := f.Node, "--node"
	if len(urls) == 0 {
		from = nodesVariable
		urls = strings.FieldsFunc(os.Getenv(nodesVariable), func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' })
	}
	if len(urls) == 0 {
		return nil, usagef("no nodes: give --node or set %s", nodesVariable)
	}
	seen := map[string]int{}
	all := make([]endpoint, len(urls))
	for i, text := range urls {
		e, err := parseEndpoint(text)
		if err != nil {
			return nil, usagef("%s, URL %d: %w", from, i+1, err)
		}
		// A node that votes twice makes a majority of a minority.
		if first, twice := seen[e.address]; twice {
			return nil, usagef("%s, URL %d: the same node as URL %d", from, i+1, first)
		}
		seen[e.address] = i + 1
		all[i] = e
	}
	return all, nil
}

var errNotURL = errors.New("not a valid URL (special characters in a password need percent-encoding)")

func parseEndpoint(text string) (endpoint, error) {
	e := endpoint{network: "tcp", dial: defaultDialTimeout, read: defaultIOTimeout, writes: defaultIOTimeout}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.Fragment != "" {
		return e, errNotURL
	}
	db := strings.TrimPrefix(u.Path, "/")
	switch u.Scheme {
	case "redis", "rediss":
		e.tls = u.Scheme == "rediss"
		host, port := u.Hostname(), u.Port()
		if host == "" {
			host = "localhost"
		}
		if port == "" {
			port = "6379"
		}
		e.address = net.JoinHostPort(host, port)
	case "unix":
		e.network, e.address, db = "unix", path.Join(u.Host, u.Path), ""
		if e.address == "" {
			return e, errors.New("unix:// needs the path of a socket")
		}
	default:
		return e, errors.New("the scheme must be redis, rediss or unix")
	}
	if u.User != nil {
		var set bool
		e.user = u.User.Username()
		if e.password, set = u.User.Password(); !set {
			e.user, e.password = "", e.user // as redis-cli reads redis://password@host
		}
	}
	return e, e.options(u.Query(), db)
}

// options reads the database and what follows the question mark.
func (e *endpoint) options(query url.Values, db string) error {
	timeouts := map[string]*time.Duration{"dial_timeout": &e.dial, "read_timeout": &e.read, "write_timeout": &e.writes}
	for key := range query {
		value := query.Get(key)
		if key == "db" {
			db = value
			continue
		}
		timeout, known := timeouts[key]
		if !known {
			return errors.New("an unknown option; there are db, dial_timeout, read_timeout and write_timeout")
		}
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return fmt.Errorf("%s must be a duration such as 500ms", key)
		}
		*timeout = d
	}
	if db == "" {
		return nil
	}
	n, err := strconv.Atoi(db)
	if err != nil || n < 0 {
		return errors.New("the database must be a number")
	}
	e.db = n
	return nil
}

func (e endpoint) connect(ctx context.Context) (redis.Conn, error) {
	return redis.DialContext(ctx, e.network, e.address,
		redis.DialUsername(e.user), redis.DialPassword(e.password), redis.DialDatabase(e.db),
		redis.DialUseTLS(e.tls), redis.DialTLSHandshakeTimeout(e.dial),
		redis.DialConnectTimeout(e.dial), redis.DialReadTimeout(e.read), redis.DialWriteTimeout(e.writes))
}

// service is a Redlock and the connections under it.
type service struct {
	*redlock.Redlock
	pools []*redis.Pool
}

// idleConnections suffice for the one request at a time that a command has.
const idleConnections = 2

func openService(endpoints []endpoint, opts ...redlock.Option) (*service, error) {
	s := &service{}
	nodes := make([]pool.Pool, len(endpoints))
	for i, e := range endpoints {
		p := &redis.Pool{DialContext: e.connect, MaxIdle: idleConnections, IdleTimeout: time.Minute}
		s.pools = append(s.pools, p)
		nodes[i] = redigo.NewNamedPool(p, e.address)
	}
	var err error
	s.Redlock, err = redlock.New(nodes, opts...)
	return s, err
}

// closeBound is how long the last replies may take. Every release was sent by then, and
// a quorum has confirmed it; what a dead node still holds expires.
const closeBound = 500 * time.Millisecond

func (s *service) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	_ = s.Close(ctx) // what is left behind expires
	for _, p := range s.pools {
		_ = p.Close() // the process ends next
	}
}

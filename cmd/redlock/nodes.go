package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/pool"
	"github.com/quorumlock/redlock/pool/redigo"
)

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

var errNotURL = errors.New("not a valid URL: it starts with redis://, rediss:// or unix://, and special characters in a password are percent-encoded")

var errNotDB = errors.New("the database must be a number")

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
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil { // which quotes what it trips over
		return e, errors.New("options that do not parse: they are separated by &, and special characters are percent-encoded")
	}
	return e, e.options(query, db)
}

// options reads the database and what follows the question mark.
func (e *endpoint) options(query url.Values, db string) error {
	timeouts := map[string]*time.Duration{"dial_timeout": &e.dial, "read_timeout": &e.read, "write_timeout": &e.writes}
	for key, values := range query {
		timeout, known := timeouts[key]
		if !known && key != "db" {
			return errors.New("an unknown option; there are db, dial_timeout, read_timeout and write_timeout")
		}
		if len(values) > 1 || key == "db" && db != "" {
			return fmt.Errorf("%s is given twice", key)
		}
		value := values[0]
		if key == "db" {
			if db = value; db == "" {
				return errNotDB
			}
			continue
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
		return errNotDB
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

// idleConnections suffice for the one request at a time that a command has.
const idleConnections = 2

func (e endpoint) pool() *redis.Pool {
	return &redis.Pool{DialContext: e.connect, MaxIdle: idleConnections, IdleTimeout: time.Minute}
}

// service is a Redlock and the connections under it.
type service struct {
	*redlock.Redlock
	pools []*redis.Pool
}

// service opens the nodes that the flags name.
func (f nodeFlags) service(s streams, opts ...redlock.Option) (*service, error) {
	endpoints, err := f.endpoints(s)
	if err != nil {
		return nil, err
	}
	opened, err := openService(endpoints, opts...)
	if err != nil {
		return nil, flagError(err)
	}
	return opened, nil
}

func openService(endpoints []endpoint, opts ...redlock.Option) (*service, error) {
	s := &service{}
	nodes := make([]pool.Pool, len(endpoints))
	for i, e := range endpoints {
		p := e.pool()
		s.pools = append(s.pools, p)
		nodes[i] = redigo.NewNamedPool(p, e.address)
	}
	var err error
	s.Redlock, err = redlock.New(nodes, opts...)
	return s, err
}

// patience is the node timeout of commands that look at a lock or give it away: no
// validity runs out meanwhile, and an answer that is late is better than none.
const patience = 2 * time.Second

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

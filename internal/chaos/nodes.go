//go:build unix

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/testutil"
)

// node is one server. With addresses of their own, clients reach it at addr, while this
// process, which no filter cuts off, uses the server's.
type node struct {
	server *testutil.Server
	clock  *testutil.Clock // nil where clocks cannot be set
	addr   string
}

// tools is where programs may lie: memory is often not for them.
var tools = os.TempDir()

// stage is a testing.TB for what testutil offers to tests only.
type stage struct {
	testing.TB
	cleanups []func()
	err      error
}

func (s *stage) Helper()          {}
func (s *stage) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }
func (s *stage) Error(args ...any) {
	s.err = errors.Join(s.err, errors.New(fmt.Sprint(args...)))
}

func (s *stage) Fatal(args ...any) {
	s.Error(args...)
	panic(s)
}

func (s *stage) Fatalf(format string, args ...any) { s.Fatal(fmt.Sprintf(format, args...)) }

func (s *stage) TempDir() string {
	dir, err := os.MkdirTemp(tools, "redlock-chaos-")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			s.Error(err)
		}
	})
	return dir
}

// run calls f; what f ends with Fatal comes back as an error.
func (s *stage) run(f func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			if p != any(s) {
				panic(p)
			}
			err = s.err
		}
	}()
	f()
	return nil
}

// close does what was left to the end, in reverse.
func (s *stage) close() error {
	for i := len(s.cleanups) - 1; i >= 0; i-- {
		if err := s.run(s.cleanups[i]); err != nil {
			s.err = errors.Join(s.err, err)
		}
	}
	s.cleanups = nil
	return s.err
}

// durable servers lose nothing when their process is killed. They look for dead
// connections, subscriptions among them, every few seconds.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always", "--tcp-keepalive", "3"}

// fastDisk has all that is written from here on, by this process and those it starts, lie in memory
// where the system has a directory for that. Servers that sync every write to a disk
// they share are so slow that little happens in a run, and to outlive the end of a process
// the data need not outlive the machine's.
func fastDisk() error {
	const memory = "/dev/shm"
	if os.Getenv("TMPDIR") != "" {
		return nil
	}
	probe, err := os.CreateTemp(memory, "redlock-chaos-")
	if err != nil {
		return nil //nolint:nilerr // there is none
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()), os.Setenv("TMPDIR", memory))
}

// startNodes starts the servers, each on an address of its own if there is a packet filter.
func startNodes(s *stage, w *settings) ([]*node, error) {
	nodes := make([]*node, w.nodes)
	for i := range nodes {
		args, host := durable, "127.0.0.1"
		if w.filter {
			host = nodeHost(i)
			// A server takes only 127.0.0.1 for its own machine.
			args = append([]string{"--bind", "127.0.0.1", host, "--protected-mode", "no"}, durable...)
		}
		d := &node{}
		if err := s.run(func() {
			if w.clocks && runtime.GOOS == "linux" {
				d.server, d.clock = testutil.StartRedisWithClock(s, args...)
			} else {
				d.server = testutil.StartRedis(s, args...)
			}
		}); err != nil {
			return nil, err
		}
		_, port, err := net.SplitHostPort(d.server.Addr())
		if err != nil {
			return nil, err
		}
		d.addr = net.JoinHostPort(host, port)
		nodes[i] = d
	}
	return nodes, nil
}

func nodeHost(i int) string   { return "127.0.2." + strconv.Itoa(i+1) }
func clientHost(i int) string { return "127.0.3." + strconv.Itoa(i+1) }

// introduce tells a new node's restart guard that it has forgotten nothing: no lock was
// ever taken there. Without it, the first longest hold of a run would pass in waiting.
func (d *node) introduce(names []string, life time.Duration) error {
	info, err := redis.String(d.server.Do("INFO", "server"))
	if err != nil {
		return err
	}
	run, err := field(info, "run_id")
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := d.server.Do("SET", name+":m{"+name+"}", run+" 0", "PX", life.Milliseconds()); err != nil {
			return err
		}
	}
	return nil
}

// patience is how long the machine may be too busy to end or start a server.
const patience = time.Minute

// insist does something until it succeeds, for as long as patience lasts.
func insist(do func() error) error {
	var err error
	testutil.Poll(patience, func() bool {
		err = do()
		return err == nil
	})
	return err
}

// each does something with several nodes at the same time.
func each(nodes []*node, f func(*node) error) error {
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, d := range nodes {
		all.Go(func() { errs[i] = f(d) })
	}
	all.Wait()
	return errors.Join(errs...)
}

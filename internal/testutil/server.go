package testutil

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

const (
	startBound = 20 * time.Second // a loaded two-core machine under -race, with AOF to load
	stopBound  = 3 * time.Second
	startTries = 8
	logName    = "server.log"
)

// A Server is one redis-server process on a port of 127.0.0.1, with a directory
// of its own. Its methods may be called from several goroutines; those that
// change the process are carried out one after the other.
//
// The port stays the server's until Close, also while the process is down.
type Server struct {
	bin      string
	dir      string
	port     int
	args     []string
	password string

	mu     sync.Mutex
	proc   *process // nil while down
	closed bool
}

// Start runs a redis-server that keeps nothing on disk and waits until it
// answers, 20 s at most. Further arguments are appended and win over the
// defaults, for example
//
//	Start("--appendonly", "yes", "--appendfsync", "always")
//	Start("--requirepass", "secret")
//	Start("--maxmemory", "1", "--maxmemory-policy", "noeviction")
//
// The binary is $REDIS_SERVER or redis-server in PATH. The caller calls Close.
// On Linux the process also ends when the calling process dies, however it dies;
// on other Unix systems a small shell watches over it.
func Start(args ...string) (*Server, error) {
	bin, err := findServer()
	if err != nil {
		return nil, err
	}
	return startBinary(bin, args)
}

// startBinary is Start for a given binary.
func startBinary(bin string, args []string) (*Server, error) {
	dir, err := os.MkdirTemp("", "redlock-redis-")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: dir, args: args, password: passwordIn(args)}
	for range startTries {
		if s.port, err = reservePort(); err != nil {
			break
		}
		if err = s.launch(); !errors.Is(err, errPortTaken) {
			break
		}
		releasePort(s.port)
		s.port = 0
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// StartN starts n servers with the same arguments at the same time: all or none.
func StartN(n int, args ...string) ([]*Server, error) {
	servers := make([]*Server, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { servers[i], errs[i] = Start(args...) })
	}
	wg.Wait()
	err := errors.Join(errs...)
	if err == nil {
		return servers, nil
	}
	for _, s := range servers {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return nil, err
}

// StartRedis is Start for a test: it fails the test when no server can be had
// and closes the server at the end of the test.
func StartRedis(t testing.TB, args ...string) *Server {
	t.Helper()
	return StartRedisN(t, 1, args...)[0]
}

// StartRedisN is StartN for a test.
func StartRedisN(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	servers, err := StartN(n, args...)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return servers
}

// Addr is the server's host and port, such as "127.0.0.1:21017".
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// Dir is the server's directory: its data files and server.log.
func (s *Server) Dir() string { return s.dir }

// Pid is the process's id, and 0 while the server is down.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return 0
	}
	return s.proc.pid
}

// Stop ends the process in good order (SIGTERM), or with SIGKILL when that takes
// more than 3 s. A paused server is resumed for it. Stopping one that is down
// does nothing.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop()
}

// Kill ends the process as a crash does (SIGKILL) and returns when it is gone.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kill()
}

// Restart starts the server again on its port, in its directory, with its
// arguments: what AOF or a SAVE wrote is there again, all else is forgotten. A
// server that still runs is stopped first; for a crash call Kill before.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stop(); err != nil {
		return err
	}
	return s.launch()
}

// RestartEmpty is Restart after a crash that lost the disk.
func (s *Server) RestartEmpty() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.kill(); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != logName {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.dir, e.Name())))
		}
	}
	if err != nil {
		return err
	}
	return s.launch()
}

// Pause stops the process from running (SIGSTOP) and returns when it has
// stopped. The kernel still accepts connections and requests for it; they are
// carried out after Resume. Keys expire meanwhile.
func (s *Server) Pause() error { return s.signalled(pauseProcess) }

// Resume lets a paused process run on (SIGCONT).
func (s *Server) Resume() error { return s.signalled(resumeProcess) }

func (s *Server) signalled(f func(*process) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return fmt.Errorf("testutil: redis-server %s is down", s.Addr())
	}
	return f(s.proc)
}

// Close kills the process, removes its directory and gives up its port. A closed
// server cannot be started again. Closing twice does nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	err := s.kill()
	releasePort(s.port)
	return errors.Join(err, os.RemoveAll(s.dir))
}

func (s *Server) stop() error {
	if s.proc == nil {
		return nil
	}
	terminateProcess(s.proc)
	if s.proc.endsWithin(stopBound) {
		s.proc = nil
		return nil
	}
	return s.kill()
}

func (s *Server) kill() error {
	if s.proc == nil {
		return nil
	}
	s.proc.kill()
	if !s.proc.endsWithin(stopBound) {
		return fmt.Errorf("testutil: redis-server %s, pid %d, outlives SIGKILL", s.Addr(), s.proc.pid)
	}
	s.proc = nil
	return nil
}

package testutil

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

var errPortTaken = errors.New("testutil: the port is taken")

func findServer() (string, error) {
	if path := os.Getenv("REDIS_SERVER"); path != "" {
		bin, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("testutil: $REDIS_SERVER: %w", err)
		}
		return bin, nil
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if bin, err := exec.LookPath(name); err == nil {
			return bin, nil
		}
	}
	return "", errors.New("testutil: no redis-server in PATH: run `apt-get install redis-server` " +
		"(macOS: `brew install redis`) or set REDIS_SERVER to a binary")
}

func passwordIn(args []string) string {
	for i, a := range args[:max(0, len(args)-1)] {
		if a == "--requirepass" {
			return args[i+1]
		}
	}
	return ""
}

// Below the range that kernels hand to outgoing connections: else the port of a
// server that is down for a moment may become some client's own port.
const firstPort, lastPort = 17000, 32000

var ports = struct {
	sync.Mutex
	taken map[int]bool
}{taken: map[int]bool{}}

func reservePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if ports.taken[port] {
			continue
		}
		l, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		ports.taken[port] = true
		return port, l.Close()
	}
	return 0, errors.New("testutil: no free port on 127.0.0.1")
}

func releasePort(port int) {
	ports.Lock()
	defer ports.Unlock()
	delete(ports.taken, port)
}

// launch starts the process and waits until it answers. s.mu is held, or s is
// not shared yet.
func (s *Server) launch() error {
	if s.closed {
		return fmt.Errorf("testutil: redis-server %s is closed", s.Addr())
	}
	args := append([]string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "no",
	}, s.args...)
	logPath := filepath.Join(s.dir, logName)
	p, err := startProcess(s.bin, args, logPath)
	if err != nil {
		return err
	}
	s.proc = p
	var last error
	ready := Poll(startBound, func() bool {
		last = s.answers(p.pid)
		return last == nil || p.ended()
	})
	if ready && !p.ended() {
		return nil
	}
	log, _ := os.ReadFile(logPath) // only decorates the error below
	err = fmt.Errorf("testutil: redis-server %s did not start (%w); its log ends:\n%s", s.Addr(), last, tail(log))
	if bytes.Contains(tail(log), []byte("Address already in use")) {
		err = errors.Join(errPortTaken, err)
	}
	return errors.Join(err, s.kill())
}

// answers asks for more than a PONG: when another process took the port in the
// meantime, that one would answer too.
func (s *Server) answers(pid int) error {
	info, err := s.Do("INFO", "server")
	if err != nil {
		return err
	}
	text, _ := info.([]byte)
	if !strings.Contains(string(text), fmt.Sprintf("process_id:%d\r\n", pid)) {
		return errors.New("another process answers on its port")
	}
	_, err = s.Do("PING") // LOADING lets INFO through, not PING
	return err
}

func tail(log []byte) []byte {
	return log[max(0, len(log)-2000):]
}

// A process is one run of the server, owned by the goroutine that started it.
type process struct {
	cmd  *exec.Cmd
	pid  int
	done chan struct{} // closed when the process was reaped
}

func startProcess(bin string, args []string, logPath string) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the child has its own descriptor
	p := &process{cmd: exec.Command(bin, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		<-p.done
		return nil, err
	}
	return p, nil
}

// run starts the process and waits for its end on one thread: Linux ties "end
// with the parent" to the thread that forked, so that thread must live as long.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	release, err := startTied(p.cmd)
	if err != nil {
		started <- err
		return
	}
	defer release()
	p.pid = p.cmd.Process.Pid
	started <- nil
	_ = p.cmd.Wait() // a server that was killed reports an error: that is no news
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) endsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

func (p *process) kill() { _ = p.cmd.Process.Kill() } // fails only when it has ended

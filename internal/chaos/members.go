//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/quorumlock/redlock/internal/testutil"
)

// members are the client processes, one for each place. A process that was killed is
// followed by another, with another number, on the same links.
type members struct {
	dir     string
	network *network
	orders  orders // what all have in common
	output  io.Writer

	mu      sync.Mutex
	places  []*member // guarded by mu
	started int       // guarded by mu
}

// member is one client process.
type member struct {
	id    int
	cmd   *exec.Cmd
	stdin io.Closer
	done  chan struct{} // closed when it was waited for
	err   error         // of Wait; read after done
	mu    sync.Mutex    // held while somebody plays with the process
}

// start puts a new process into a place.
func (m *members) start(place int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.started++
	o := m.orders
	o.ID, o.Nodes, o.Source = m.started, m.network.addrs(place), m.network.source(place)
	o.Seed += uint64(o.ID) // counts up from 1
	o.History = filepath.Join(m.dir, fmt.Sprintf("client-%d.jsonl", o.ID))
	// Made here, for the client may be killed before it does anything.
	if err := os.WriteFile(o.History, nil, 0o600); err != nil {
		return err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p := &member{id: o.ID, cmd: exec.Command(self), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), clientEnv+"="+string(text))
	p.cmd.Stderr = m.output
	// The client ends with its input, also when this process dies.
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	m.places[place] = p
	return nil
}

func (m *members) at(place int) *member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.places[place]
}

// logs are the files of all clients there were.
func (m *members) logs() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for id := range m.started {
		all = append(all, filepath.Join(m.dir, fmt.Sprintf("client-%d.jsonl", id+1)))
	}
	return all
}

func (p *member) signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

func (p *member) kill() {
	_ = p.signal(syscall.SIGKILL) // fails only when it has ended
	<-p.done
	_ = p.stdin.Close() // its reader has gone
}

// stop has all clients leave in good order, and kills those that do not. It returns what was wrong.
func (m *members) stop(within time.Duration) (wrong []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.places {
		if p != nil {
			_ = p.stdin.Close() // the member reads to its end, and nothing is written
		}
	}
	deadline := time.Now().Add(within)
	for _, p := range m.places {
		if p == nil {
			continue
		}
		if !testutil.Poll(time.Until(deadline), p.ended) {
			wrong = append(wrong, fmt.Sprintf("client %d does not end", p.id))
			// A Go process prints its goroutines when it is asked to quit.
			_ = p.signal(syscall.SIGQUIT)
			testutil.Poll(2*time.Second, p.ended)
			p.kill()
		} else if p.err != nil {
			wrong = append(wrong, fmt.Sprintf("client %d: %v", p.id, p.err))
		}
	}
	return wrong
}

func (p *member) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// abandon kills all that is left.
func (m *members) abandon() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.places {
		if p != nil && !p.ended() {
			p.kill()
		}
	}
}

var errEnded = errors.New("the client has ended by itself")

//go:build unix

package main

import (
	"bufio"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/chaos/history"
)

// store is the resource behind the locks: it takes a write only with a token that is
// not below the highest it has seen for the name.
type store struct {
	listener net.Listener
	log      *history.Log
	clock    *clock
	running  sync.WaitGroup

	mu      sync.Mutex
	highest map[string]int64 // guarded by mu
	conns   map[net.Conn]struct{}
}

func openStore(log *history.Log, c *clock) (*store, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &store{listener: l, log: log, clock: c, highest: map[string]int64{}, conns: map[net.Conn]struct{}{}}
	s.running.Go(s.accept)
	return s, nil
}

func (s *store) addr() string { return s.listener.Addr().String() }

func (s *store) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[c] = struct{}{}
		s.mu.Unlock()
		s.running.Go(func() { s.serve(c) })
	}
}

func (s *store) serve(c net.Conn) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, c)
		_ = c.Close() // whoever is on the other side has gone
	}()
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		var name string
		var token int64
		if _, err := fmt.Sscan(lines.Text(), &name, &token); err != nil {
			return
		}
		if _, err := fmt.Fprintln(c, s.write(name, token)); err != nil {
			return
		}
	}
}

// write decides, and logs in the order of the decisions.
func (s *store) write(name string, token int64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	result := history.Refused
	if token >= s.highest[name] {
		s.highest[name] = token
		result = history.Accepted
	}
	s.log.Add(history.Event{At: s.clock.now(), Kind: history.Store, Name: name, Token: token, Result: result})
	return result
}

func (s *store) close() {
	_ = s.listener.Close() // closed is all it has to be
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// writer is a client's connection to the store. It is not safe for concurrent use.
type writer struct {
	addr string
	conn net.Conn
	in   *bufio.Reader
}

const writeBound = 2 * time.Second

func (w *writer) write(name string, token int64) (result string, err error) {
	if w.conn == nil {
		if w.conn, err = net.DialTimeout("tcp4", w.addr, writeBound); err != nil {
			return "", err
		}
		w.in = bufio.NewReader(w.conn)
	}
	err = w.conn.SetDeadline(time.Now().Add(writeBound))
	if err == nil {
		_, err = fmt.Fprintln(w.conn, name, token)
	}
	if err == nil {
		_, err = fmt.Fscanln(w.in, &result)
	}
	if err != nil {
		w.close() // an answer that comes late must not be taken for the next
	}
	return result, err
}

func (w *writer) close() {
	if w.conn != nil {
		_ = w.conn.Close() // nothing is on its way
		w.conn = nil
	}
}

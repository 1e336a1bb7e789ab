package testutil

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A pair is a client's connection and the one to the server behind it.
type pair struct {
	proxy      *Proxy
	client     *net.TCPConn
	clientGone atomic.Bool

	reset chan struct{} // closed when the pair was aborted
	once  sync.Once

	mu     sync.Mutex
	server *net.TCPConn // nil until dialled
}

// serve owns the pair: when it returns, both connections are closed and all
// goroutines of the pair have ended.
func (c *pair) serve() {
	defer c.proxy.forget(c)
	defer c.client.Close() //nolint:errcheck // no one is left to tell
	if c.proxy.faults.Load().halfOpen {
		_, _ = io.Copy(io.Discard, c.client) // until the client gives up
		return
	}
	server, ok := c.dial()
	if !ok {
		c.abort()
		return
	}
	defer server.Close() //nolint:errcheck // as above

	requests := &lane{pair: c, dst: server, split: requestLen, request: true}
	replies := &lane{pair: c, dst: c.client, split: func(b []byte) int { return len(b) }}
	var both sync.WaitGroup
	both.Go(func() {
		requests.carry(c.client)
		c.clientGone.Store(true)
		requests.drained.Wait()
		// Not Close: the server has yet to read what was delivered so late.
		_ = server.CloseWrite()
	})
	both.Go(func() {
		replies.carry(server)
		replies.drained.Wait()
		// Past a hole the client does not hear of the server's end either.
		if !replies.hole {
			_ = c.client.Close()
		}
	})
	both.Wait()
}

func (c *pair) dial() (*net.TCPConn, bool) {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(c.proxy.stopped, "tcp4", c.proxy.target)
	if err != nil {
		return nil, false
	}
	server := conn.(*net.TCPConn)
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.reset:
		_ = server.Close()
		return nil, false
	default:
	}
	c.server = server
	return server, true
}

// abort breaks both connections at once; the client sees a reset.
func (c *pair) abort() {
	c.once.Do(func() {
		_ = c.client.SetLinger(0)
		close(c.reset)
		_ = c.client.Close()
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.server != nil {
			_ = c.server.Close()
		}
	})
}

package testutil

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A Proxy stands between clients and one server and plays a faulty network. Its
// faults may be changed at any time; each applies to what arrives from then on,
// while what is already delayed or held stays so. Without a fault it adds no
// wait. It understands RESP requests as far as their borders, but no TLS.
//
// As on a real network, what a client has sent is delivered even when the client
// has closed its connection meanwhile, and a stream that lost something delivers
// nothing more: the connection looks hung until the client gives it up.
type Proxy struct {
	target string
	port   int
	faults atomic.Pointer[faults]

	mu       sync.Mutex
	listener net.Listener // nil while refusing
	pairs    map[*pair]struct{}
	closed   bool

	stop    context.CancelFunc
	stopped context.Context // the life of the proxy
	running sync.WaitGroup
}

// faults is never changed once it is in use, only replaced.
type faults struct {
	request, reply, jitter    time.Duration
	dropRequests, dropReplies bool
	halfOpen                  bool
	holds                     []*Hold
}

func (f *faults) none() bool {
	return f.request == 0 && f.reply == 0 && f.jitter == 0 &&
		!f.dropRequests && !f.dropReplies && !f.halfOpen && len(f.holds) == 0
}

func (f *faults) holding(request []byte) *Hold {
	for _, h := range f.holds {
		if h.takes(request) {
			return h
		}
	}
	return nil
}

// NewProxy listens on a free port of 127.0.0.1 for the server at target. The
// caller calls Close.
func NewProxy(target string) (*Proxy, error) {
	p := &Proxy{target: target, pairs: map[*pair]struct{}{}}
	p.stopped, p.stop = context.WithCancel(context.Background())
	p.faults.Store(&faults{})
	var err error
	for range startTries {
		if p.port, err = reservePort(); err != nil {
			break
		}
		if err = p.Refuse(false); err == nil {
			return p, nil
		}
		releasePort(p.port)
	}
	p.stop()
	return nil, err
}

// StartProxy is NewProxy for a test, closed at its end.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := NewProxy(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Addr is where clients connect, such as "127.0.0.1:21018".
func (p *Proxy) Addr() string { return "127.0.0.1:" + strconv.Itoa(p.port) }

// Conns is the number of connections that clients have open.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for c := range p.pairs {
		if !c.clientGone.Load() {
			n++
		}
	}
	return n
}

// Delay makes each request, and each piece of a reply, arrive that much later.
// Many may be on their way at a time. Zero takes the delay away.
func (p *Proxy) Delay(request, reply time.Duration) {
	p.change(func(f *faults) { f.request, f.reply = request, reply })
}

// Jitter adds a random time below limit to every delay, in both directions. Within
// a connection the order stays. Zero takes it away.
func (p *Proxy) Jitter(limit time.Duration) {
	p.change(func(f *faults) { f.jitter = limit })
}

// DropRequests loses what clients send.
func (p *Proxy) DropRequests(on bool) {
	p.change(func(f *faults) { f.dropRequests = on })
}

// DropReplies loses what the server sends: it carries out requests, and the
// clients never hear of it.
func (p *Proxy) DropReplies(on bool) {
	p.change(func(f *faults) { f.dropReplies = on })
}

// HalfOpen accepts connections and never answers on them, nor on those that send
// something while it is on. The server sees nothing of it.
func (p *Proxy) HalfOpen(on bool) {
	p.change(func(f *faults) { f.halfOpen = on })
}

// Hold holds back the requests that match says true to, until Release. Later ones
// on other connections overtake them, those on the same connection wait behind.
// match gets the raw bytes of a whole request and is called for one request at a
// time, so it may count; it must not keep the bytes.
func (p *Proxy) Hold(match func(request []byte) bool) *Hold {
	h := &Hold{match: match, proxy: p, released: make(chan struct{})}
	p.change(func(f *faults) { f.holds = append(slices.Clone(f.holds), h) })
	return h
}

func (p *Proxy) change(set func(*faults)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := *p.faults.Load()
	set(&next)
	p.faults.Store(&next)
}

// Reset breaks the connections there are (RST). What was delayed or held on them
// is lost.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resetAll()
}

func (p *Proxy) resetAll() {
	for c := range p.pairs {
		c.abort()
	}
}

// Refuse resets all connections and refuses new ones, as a machine does where no
// server runs. Off, it listens again on the same port; only that can fail.
func (p *Proxy) Refuse(on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on {
		p.refuse()
		return nil
	}
	if p.closed {
		return errors.New("testutil: the proxy is closed")
	}
	if p.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp4", p.Addr())
	if err != nil {
		return err
	}
	p.listener = l
	p.running.Go(func() { p.accept(l) })
	return nil
}

func (p *Proxy) refuse() {
	if p.listener != nil {
		_ = p.listener.Close() // closed is all it has to be
		p.listener = nil
	}
	p.resetAll()
}

// Close resets all connections and returns when the proxy's goroutines have
// ended. Closing twice does nothing.
func (p *Proxy) Close() {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	p.refuse()
	p.mu.Unlock()
	p.stop()
	p.running.Wait()
	if first {
		releasePort(p.port)
	}
}

func (p *Proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		c := &pair{proxy: p, client: client.(*net.TCPConn), reset: make(chan struct{})}
		p.mu.Lock()
		if p.listener == l {
			p.pairs[c] = struct{}{}
			p.running.Go(c.serve)
		} else {
			c.abort()
		}
		p.mu.Unlock()
	}
}

func (p *Proxy) forget(c *pair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pairs, c)
}

// A Hold holds requests back; see Proxy.Hold.
type Hold struct {
	proxy    *Proxy
	released chan struct{}
	once     sync.Once

	mu    sync.Mutex
	match func([]byte) bool
	held  int
}

func (h *Hold) takes(request []byte) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.released:
		return false
	default:
	}
	if !h.match(request) {
		return false
	}
	h.held++
	return true
}

// Held is the number of requests held back so far. Poll it to know that one is
// there.
func (h *Hold) Held() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held
}

// Release lets the held requests go and holds no more. It may be called twice.
func (h *Hold) Release() {
	h.once.Do(func() {
		close(h.released)
		h.proxy.change(func(f *faults) {
			f.holds = slices.DeleteFunc(slices.Clone(f.holds), func(o *Hold) bool { return o == h })
		})
	})
}

package testutil

import (
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

const readSize = 16 << 10

// A lane carries one direction of one connection. Without a fault its reader
// writes on what it has read; with one, messages queue for a goroutine that
// lives until the queue is empty, so a delay costs each message once.
type lane struct {
	pair    *pair
	dst     *net.TCPConn
	split   func([]byte) int // length of the first whole message, 0 when incomplete
	request bool

	// Only the reader uses these. A stream with a hole in it delivers nothing
	// more: TCP has no way to skip what was lost.
	hole    bool
	lastDue time.Time

	mu       sync.Mutex
	queue    []message
	draining bool
	drained  sync.WaitGroup
}

type message struct {
	data []byte
	due  time.Time
	hold *Hold // nil when nobody holds it back
}

// carry forwards src until it ends. What is delayed or held by then still comes:
// wait for drained.
func (l *lane) carry(src *net.TCPConn) {
	buf := make([]byte, 0, readSize)
	for {
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, cap(buf))
		}
		n, err := src.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		used := l.forward(buf)
		buf = buf[:copy(buf, buf[used:])]
		if err != nil {
			return
		}
	}
}

// forward passes on the whole messages in buf and returns their length.
func (l *lane) forward(buf []byte) int {
	faults := l.pair.proxy.faults.Load()
	used := 0
	for {
		n := l.split(buf[used:])
		if n == 0 {
			break
		}
		if !faults.none() {
			l.send(faults, buf[used:used+n])
		}
		used += n
	}
	if used > 0 && faults.none() {
		l.send(faults, buf[:used])
	}
	return used
}

func (l *lane) send(faults *faults, data []byte) {
	delay, drop := faults.reply, faults.dropReplies
	if l.request {
		delay, drop = faults.request, faults.dropRequests
	}
	l.hole = l.hole || drop || faults.halfOpen
	if l.hole {
		return
	}
	var m message
	if l.request {
		m.hold = faults.holding(data)
	}
	if faults.jitter > 0 {
		delay += rand.N(faults.jitter)
	}
	if delay > 0 {
		m.due = time.Now().Add(delay)
	}
	// Jitter must not reorder a stream.
	if m.due.Before(l.lastDue) {
		m.due = l.lastDue
	}
	l.lastDue = m.due

	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.draining && m.due.IsZero() && m.hold == nil {
		l.write(data)
		return
	}
	m.data = slices.Clone(data)
	l.queue = append(l.queue, m)
	if !l.draining {
		l.draining = true
		l.drained.Go(l.drain)
	}
}

func (l *lane) drain() {
	for {
		l.mu.Lock()
		if len(l.queue) == 0 {
			l.draining = false
			l.mu.Unlock()
			return
		}
		m := l.queue[0]
		l.queue = l.queue[1:]
		l.mu.Unlock()
		if l.await(m) {
			l.write(m.data)
		}
	}
}

// await reports false when the connection was reset meanwhile.
func (l *lane) await(m message) bool {
	if m.hold != nil {
		select {
		case <-m.hold.released:
		case <-l.pair.reset:
			return false
		}
	}
	left := time.Until(m.due)
	if left <= 0 {
		return true
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.pair.reset:
		return false
	}
}

// write ignores errors: when the peer has gone, the read from it says so.
func (l *lane) write(data []byte) { _, _ = l.dst.Write(data) }

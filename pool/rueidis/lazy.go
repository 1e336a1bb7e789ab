package rueidis

import (
	"context"
	"strings"
	"sync"

	"github.com/redis/rueidis"
)

// A LazyPool is a node whose client is made at the first call, and again at a later
// one where that failed: a process starts, and holds locks, while the node is down.
// In front of a Cluster it gives no wake-up notices.
type LazyPool struct {
	listener
	option rueidis.ClientOption

	mu     sync.Mutex
	last   *attempt // guarded by mu; nil before the first call
	closed bool     // guarded by mu
}

// attempt makes one client.
type attempt struct {
	done   chan struct{} // closed when the rest is set
	client rueidis.Client
	err    error
}

// NewLazyPool makes a node of the options of a client; see NewPool for those that
// matter. The caller closes it.
func NewLazyPool(o rueidis.ClientOption) *LazyPool {
	l := &LazyPool{option: o}
	l.node = newNode(l.get, strings.Join(o.InitAddress, ","))
	return l
}

func (l *LazyPool) get(ctx context.Context) (rueidis.Client, error) {
	a, err := l.attempt()
	if err != nil {
		return nil, err
	}
	select {
	case <-a.done:
		return a.client, a.err
	default:
	}
	select {
	case <-a.done:
		return a.client, a.err
	case <-ctx.Done(): // rueidis connects without it
		return nil, ctx.Err()
	}
}

// attempt is the last one, or a new one where that failed.
func (l *LazyPool) attempt() (*attempt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, rueidis.ErrClosing
	}
	if l.last != nil {
		select {
		case <-l.last.done:
			if l.last.err == nil {
				return l.last, nil
			}
		default:
			return l.last, nil
		}
	}
	a := &attempt{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.client, a.err = rueidis.NewClient(l.option)
	}()
	l.last = a
	return a, nil
}

// Close closes the client. It waits for one that is being made: Dialer.Timeout at most.
func (l *LazyPool) Close() {
	l.mu.Lock()
	a := l.last
	l.closed, l.last = true, nil
	l.mu.Unlock()
	if a == nil {
		return
	}
	if <-a.done; a.err == nil {
		a.client.Close()
	}
}
